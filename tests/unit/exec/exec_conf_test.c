/*
 * What of ssh's configuration libssh2 honours, what needs the system's ssh, and what is refused:
 * answers of `ssh -G` as texts, and files of known hosts. '@' in them is the test's folder.
 */
#include "engine/base/file.h"
#include "engine/link/ssh.h"
#include "tests/unit/check.h"

#include <sys/socket.h>
#include <unistd.h>

#define BASE "host h\nuser u\nhostname h.example\nport 22\n"

static char dir[] = "/tmp/exec-conf-XXXXXX";

static const char defaults[] = "host none\nuser u\nhostname none\nport 22\naddressfamily any\n"
                               "ciphers a,b\ncompression no\nsendenv LC_DEFAULT\n"
                               "sessiontype default\nidentitiesonly no\n";

static const struct {
    const char *name, *answer, *want; /* a summary, or the error */
} rows[] = {
    {"the least", BASE, "h.example h.example u 22 keys known"},
    {"a port stands in the name of the known host", "host h\nuser u\nhostname h\nport 2200\n",
     "h [h]:2200 u 2200 keys known"},
    {"an alias is looked up", BASE "hostkeyalias other\n", "h.example other u 22 keys known"},
    {"a value with blanks is one", BASE "hostkeyalias a b\n", "h.example a b u 22 keys known"},
    {"keys that are there, in order",
     BASE "identityfile @/none\nidentityfile @/ed\nidentityfile @/rsa\n",
     "h.example h.example u 22 keys @/ed @/rsa known"},
    {"no key", BASE "identityfile none\nidentitiesonly yes\n",
     "h.example h.example u 22 own keys known"},
    {"tokens", BASE "identityfile @/%n-%h-%r-%p-%%\n",
     "h.example h.example u 22 keys @/h-h.example-u-22-% known"},
    {"a token that is not known here", BASE "identityfile @/%C\n",
     "h.example h.example u 22 keys known needs identityfile @/%C"},
    {"a variable", BASE "identityfile @/${X}\n",
     "h.example h.example u 22 keys known needs identityfile @/${X}"},
    {"known hosts of the user, then the system's",
     BASE "globalknownhostsfile /g1 /g2\nuserknownhostsfile /a /b\n",
     "h.example h.example u 22 keys known /g1 /g2 /a /b"},
    {"no known hosts", BASE "userknownhostsfile none\n", "h.example h.example u 22 keys known"},
    {"a name with a blank is not taken for two", BASE "userknownhostsfile /a b\n",
     "h.example h.example u 22 keys known /a needs userknownhostsfile /a b"},
    {"agents may be asked", BASE "identitiesonly no\n", "h.example h.example u 22 keys known"},
    {"a family", BASE "addressfamily inet6\n", "h.example h.example u 22 inet6 keys known"},
    {"the other family", BASE "addressfamily inet\n", "h.example h.example u 22 inet keys known"},
    {"a default of ssh", BASE "ciphers a,b\n", "h.example h.example u 22 keys known"},
    {"not a default of ssh", BASE "ciphers a\n",
     "h.example h.example u 22 keys known needs ciphers a"},
    {"the first is named", BASE "revokedhostkeys /r\nproxyjump gate\n",
     "h.example h.example u 22 keys known needs revokedhostkeys /r"},
    {"none is nothing", BASE "proxycommand none\n", "h.example h.example u 22 keys known"},
    {"a directive of a later ssh", BASE "teleport yes\n",
     "h.example h.example u 22 keys known needs teleport yes"},
    {"a directive without a meaning here", BASE "sendenv LANG\nserveraliveinterval 5\n",
     "h.example h.example u 22 keys known"},
    {"a directive without a value", BASE "teleport\n",
     "h.example h.example u 22 keys known needs teleport"},
    {"a name that begins like another", BASE "hostnames x\n",
     "h.example h.example u 22 keys known needs hostnames x"},
    {"a command of its own", BASE "remotecommand top -b\n",
     "ssh's configuration of h has 'remotecommand top -b', and flowrun runs a command of its own "
     "there"},
    {"no command", BASE "sessiontype none\n",
     "ssh's configuration of h has 'sessiontype none', and flowrun runs a command of its own "
     "there"},
    {"a session as by default", BASE "sessiontype default\n",
     "h.example h.example u 22 keys known"},
    {"a subsystem", BASE "sessiontype subsystem\n",
     "ssh's configuration of h has 'sessiontype subsystem', and flowrun runs a command of its own "
     "there"},
    {"no port", "host h\nuser u\nhostname h\n", "ssh -G h printed no port"},
    {"a wrong port", "host h\nuser u\nhostname h\nport 65536\n",
     "ssh's configuration of h has port '65536'"},
    {"port 0", "port 0\n", "ssh's configuration of h has port '0'"},
    {"nothing", "", "ssh -G h printed no hostname"},
    {"an authority for the host", BASE "userknownhostsfile @/authority\n",
     "h.example h.example u 22 keys known @/authority needs @cert-authority in @/authority line 3"},
    {"an authority for all but this host",
     BASE "hostkeyalias x.example\nuserknownhostsfile @/authority\n",
     "h.example x.example u 22 keys known @/authority"},
    {"an authority for others", BASE "hostkeyalias x.other\nuserknownhostsfile @/authority\n",
     "h.example x.other u 22 keys known @/authority"},
};

/* The text with the folder's name for each '@' that stands before a '/'. */
static const char *in_dir(struct fr_arena *arena, const char *text)
{
    struct fr_buf b = {0};
    const char *out;

    for (; *text != '\0'; text++)
        fr_buf_text(&b, text[0] == '@' && text[1] == '/' ? dir : (char[]){*text, '\0'});
    out = fr_arena_text(arena, b.p != NULL ? b.p : "", b.n);
    fr_buf_finish(&b);
    return out;
}

static const char *summary(struct fr_arena *arena, const struct fr_ssh_conf *c, size_t own_known)
{
    struct fr_buf b = {0};
    const char *out;

    fr_buf_fmt(&b, "%s %s %s %d%s%s keys", c->host, c->name, c->user, c->port,
               c->family == AF_INET    ? " inet"
               : c->family == AF_INET6 ? " inet6"
                                       : "",
               c->own_keys_only ? " own" : "");
    for (size_t i = 0; i < c->n_keys; i++)
        fr_buf_fmt(&b, " %s", c->keys[i]);
    fr_buf_text(&b, " known");
    for (size_t i = own_known; i < c->n_known; i++)
        fr_buf_fmt(&b, " %s", c->known_hosts[i]);
    if (c->needs_ssh != NULL)
        fr_buf_fmt(&b, " needs %s", c->needs_ssh);
    out = fr_arena_text(arena, b.p, b.n);
    fr_buf_finish(&b);
    return out;
}

static void try_row(size_t i)
{
    struct fr_ssh_target target = {.host = "h"};
    struct fr_arena arena = {0};
    struct fr_ssh_answer answer = {.defaults = FR_STR(defaults)};
    struct fr_ssh_conf c;
    struct fr_err err = {0};
    bool listed = strstr(rows[i].answer, "knownhostsfile /") != NULL ||
                  strstr(rows[i].answer, "knownhostsfile @") != NULL;
    enum fr_rc rc;

    check_row(rows[i].name);
    answer.effective = fr_str_of(in_dir(&arena, rows[i].answer));
    rc = fr_ssh_conf_load(&target, &answer, &arena, &c, &err);
    CHECK(rc == FR_OK || rc == FR_USAGE);
    CHECK_TEXT(rc == FR_OK ? summary(&arena, &c, !listed) : err.msg, in_dir(&arena, rows[i].want));
    fr_arena_finish(&arena);
}

/* What is shown to the user: what counts, and what the configuration says in vain. */
static void test_used(void)
{
    struct fr_ssh_target target = {.host = "h"};
    struct fr_ssh_answer answer = {
        FR_STR(BASE "ciphers a,b\nsendenv LANG\ncompression yes\nsendenv LC_DEFAULT\n"),
        FR_STR(defaults)};
    struct fr_arena arena = {0};
    struct fr_ssh_conf c;

    check_row("what is shown");
    CHECK_INT(fr_ssh_conf_load(&target, &answer, &arena, &c, NULL), FR_OK);
    CHECK_TEXT(c.used, "user u\nhostname h.example\nport 22\nsendenv LANG (not used)\n"
                       "compression yes\n");
    fr_arena_finish(&arena);
}

/* Where no configuration is read, the target's own words count. */
static void test_plain(void)
{
    struct fr_arena arena = {0};
    struct fr_ssh_target target = {.host = "h", .user = "me", .port = 2222};
    struct fr_ssh_conf c;

    check_row("without a configuration");
    target.key = in_dir(&arena, "@/a%b");
    target.known_hosts = in_dir(&arena, "@/a file");
    CHECK_INT(fr_ssh_conf_load(&target, NULL, &arena, &c, NULL), FR_OK);
    CHECK_TEXT(summary(&arena, &c, 0),
               in_dir(&arena, "h [h]:2222 me 2222 own keys @/a%b known @/a file "
                              "/etc/ssh/ssh_known_hosts"));
    target = (struct fr_ssh_target){.host = "::1"};
    CHECK_INT(fr_ssh_conf_load(&target, NULL, &arena, &c, NULL), FR_OK);
    CHECK_TEXT(c.name, "::1");
    CHECK_INT(c.port, 22);
    fr_arena_finish(&arena);
}

/* Which key libssh2 can log in with. */
static void test_keys(void)
{
    static const struct {
        const char *name, *keys, *why; /* NULL: it has one */
    } table[] = {
        {"one it can use", "identityfile @/ed\n", NULL},
        {"one of two", "identityfile @/rsa\nidentityfile @/ed\n", NULL},
        {"RSA alone", "identityfile @/rsa\n", "@/rsa is an RSA key"},
        {"a device", "identityfile @/sk\n", "@/sk is a key on a device"},
        {"a certificate", "identityfile @/ed\nidentityfile @/cert\n",
         "@/cert-cert.pub is a certificate"},
        {"none", "identityfile @/none\n", "there is no private key file"},
    };
    struct fr_ssh_target target = {.host = "h"};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct fr_arena arena = {0};
        struct fr_ssh_answer answer = {.defaults = FR_STR(defaults)};
        struct fr_ssh_conf c;

        check_row(table[i].name);
        answer.effective =
            fr_str_of(in_dir(&arena, fr_arena_fmt(&arena, "%s%s", BASE, table[i].keys)));
        CHECK_INT(fr_ssh_conf_load(&target, &answer, &arena, &c, NULL), FR_OK);
        CHECK_TEXT(c.no_key != NULL ? c.no_key : "it has one",
                   table[i].why != NULL ? in_dir(&arena, table[i].why) : "it has one");
        fr_arena_finish(&arena);
    }
}

/* Arguments for ssh: what stands in the inventory cannot become an option or a second word. */
static void test_args(void)
{
    struct fr_arena arena = {0};
    struct fr_ssh_target t = {.host = "h",
                              .user = "u",
                              .port = 22,
                              .key = "/k %d",
                              .known_hosts = "/x y",
                              .config = "/c"};
    const char *argv[FR_SSH_ARGS_MAX];
    struct fr_buf b = {0};
    struct fr_err err;
    size_t n = 0;

    check_row("arguments");
    CHECK_INT(fr_ssh_target_args(&t, &arena, argv, &n, &err), FR_OK);
    for (size_t i = 0; i < n; i++)
        fr_buf_fmt(&b, "[%s]", argv[i]);
    CHECK_TEXT(b.p, "[-F][/c][-o][UserKnownHostsFile=\"/x y\"][-o][IdentitiesOnly=yes][-o]"
                    "[IdentityFile=\"/k %%d\"][-l][u][-p][22][--][h]");
    t.key = "/a\"b";
    CHECK_INT(fr_ssh_target_args(&t, &arena, argv, &n, &err), FR_USAGE);
    fr_buf_finish(&b);
    fr_arena_finish(&arena);
}

/* Lines of known_hosts that libssh2 gets to see. */
static void test_known(void)
{
#define HASH "|1|AAAAAAAAAAAAAAAAAAAAAAAAAAA=|AAAAAAAAAAAAAAAAAAAAAAAA"
#define KEY " ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAA\n"
    static const struct {
        const char *name, *line;
        int n;
    } lines[] = {
        {"a name", "h.example" KEY, 1},
        {"another name", "x.example" KEY, 0},
        {"a hash", HASH "AAA=" KEY, 1},
        {"a hash that is cut", HASH "=" KEY, 0},
        {"a hash with a digit too many", HASH "AAAA=" KEY, 0},
        {"a hash with a wrong digit", HASH "AA-=" KEY, 0},
    };
    struct fr_ssh_conf conf = {.alias = "h.example", .name = "h.example", .port = 22};
    char path[64];

    snprintf(path, sizeof(path), "%s/lines", dir);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct fr_ssh s = {.conf = &conf, .session = libssh2_session_init()};
        struct libssh2_knownhost *entry = NULL;
        int n = 0;

        check_row(lines[i].name);
        s.known = libssh2_knownhost_init(s.session);
        CHECK_INT(fr_file_write(path, lines[i].line, strlen(lines[i].line), 0600, NULL), FR_OK);
        fr_ssh_read_known(&s, path);
        while (libssh2_knownhost_get(s.known, &entry, entry) == 0)
            n++;
        CHECK_INT(n, lines[i].n);
        libssh2_knownhost_free(s.known);
        libssh2_session_free(s.session);
    }
#undef HASH
#undef KEY
}

static void put(struct fr_arena *arena, const char *name, const char *text)
{
    const char *path = fr_arena_fmt(arena, "%s/%s", dir, name);

    CHECK_INT(fr_file_write(path, text, strlen(text), 0600, NULL), FR_OK);
}

int main(void)
{
    struct fr_arena arena = {0};

    unsetenv("SSH_AUTH_SOCK");
    CHECK(mkdtemp(dir) != NULL);
    put(&arena, "ed", "x AAAAC3NzaC1lZDI1NTE5 x");
    put(&arena, "cert", "x AAAAC3NzaC1lZDI1NTE5 x");
    put(&arena, "cert-cert.pub", "ssh-ed25519-cert-v01@openssh.com x");
    put(&arena, "rsa", "BEGIN RSA PRIVATE");
    put(&arena, "sk", "something");
    put(&arena, "sk.pub", "sk-ssh-ed25519@openssh.com x");
    put(&arena, "h-h.example-u-22-%", "x");
    put(&arena, "a%b", "x");
    put(&arena, "authority",
        "h.example ssh-ed25519 x\n@cert-authority *.else ssh-ed25519 x\n"
        "@cert-authority *.example,!x.* ssh-ed25519 x\n");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        try_row(i);
    test_used();
    test_plain();
    test_keys();
    test_args();
    test_known();
    fr_remove_tree(dir, NULL);
    fr_arena_finish(&arena);
    return check_done();
}

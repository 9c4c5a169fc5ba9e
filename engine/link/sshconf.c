#include "engine/link/sshconf.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KEY_MAX = 64 << 10, CONF_MAX = 16 << 20 };

struct reading {
    struct fr_arena *arena;
    struct fr_ssh_conf *c;
    const struct fr_ssh_target *target;
    const char *home, *local_user;
};

/* A key and its value in a line that ssh printed; the value may be empty. */
struct directive {
    struct fr_str key, value;
};

/* clang-format off */

/* Directives that mean nothing for a command without a terminal on a connection with keep-alive,
 * strict host keys and logins of its own. */
static const char *const no_meaning[] = {
    "addkeystoagent", "batchmode", "canonicaldomains", "canonicalizefallbacklocal",
    "canonicalizehostname", "canonicalizemaxdots", "canonicalizepermittedcnames", "checkhostip",
    "clearallforwardings", "connectionattempts", "connecttimeout", "controlmaster", "controlpath",
    "controlpersist", "dynamicforward", "enableescapecommandline", "enablesshkeysign", "escapechar",
    "exitonforwardfailure", "fingerprinthash", "forwardx11", "forwardx11timeout",
    "forwardx11trusted", "gatewayports", "gssapiauthentication", "gssapidelegatecredentials",
    "gssapikexalgorithms", "gssapikeyexchange", "gssapirenewalforcesrekey", "gssapitrustdns",
    "hashknownhosts", "host", "ipqos", "kbdinteractiveauthentication", "localforward", "loglevel",
    "logverbose", "numberofpasswordprompts", "obscurekeystroketiming", "passwordauthentication",
    "permitremoteopen", "remoteforward", "requesttty", "requiredrsasize", "sendenv",
    "serveralivecountmax", "serveraliveinterval", "setenv", "streamlocalbindmask",
    "streamlocalbindunlink", "stricthostkeychecking", "syslogfacility", "tcpkeepalive",
    "updatehostkeys", "visualhostkey", "xauthlocation",
};

/* Directives that stand against any command of ours. */
static const char *const never[] = {
    "forkafterauthentication", "remotecommand", "sessiontype", "stdinnull",
};

/* clang-format on */

static bool is_one_of(struct fr_str word, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fr_str_is(word, words[i]))
            return true;
    return false;
}

static bool next_directive(struct fr_str *text, struct directive *out)
{
    struct fr_str line;

    while (fr_next_line(text, &line)) {
        size_t key = 0;

        while (key < line.n && line.p[key] != ' ')
            key++;
        out->key = (struct fr_str){line.p, key};
        out->value = (struct fr_str){line.p + key + (key < line.n), line.n - key - (key < line.n)};
        if (key > 0)
            return true;
    }
    return false;
}

/* Whether ssh has the directive with this value also without a configuration. */
static bool is_default(const struct fr_ssh_answer *answer, const struct directive *d)
{
    struct fr_str text = answer->defaults;
    struct directive other;

    while (next_directive(&text, &other))
        if (other.key.n == d->key.n && memcmp(other.key.p, d->key.p, d->key.n) == 0 &&
            other.value.n == d->value.n && memcmp(other.value.p, d->value.p, d->value.n) == 0)
            return true;
    return false;
}

/* As ssh itself finds it: the password file before $HOME. */
static const char *home_dir(void)
{
    const struct passwd *pw = getpwuid(getuid());
    const char *home = getenv("HOME");

    if (pw != NULL && pw->pw_dir[0] == '/')
        return pw->pw_dir;
    return home != NULL && home[0] == '/' ? home : "/";
}

static bool given(const char *s)
{
    return s != NULL && s[0] != '\0';
}

static bool readable(const char *path)
{
    struct fr_buf text = {0};
    bool yes = fr_file_read_soon(path, CONF_MAX, &text, NULL) == FR_OK;

    fr_buf_finish(&text);
    return yes;
}

/* The first directive that libssh2 cannot honour is named. */
static void need_ssh(struct reading *r, struct fr_str what)
{
    if (r->c->needs_ssh == NULL)
        r->c->needs_ssh = fr_arena_fmt(r->arena, "%.*s", (int)what.n, what.p);
}

/* TOKENS of ssh_config(5) in the name of a file; false: one that is not known here. */
static bool add_token(struct reading *r, struct fr_buf *b, char token)
{
    const struct {
        char token;
        const char *text;
        int64_t number; /* -1: text */
    } known[] = {{'%', "%", -1},        {'d', r->home, -1},         {'h', r->c->host, -1},
                 {'i', NULL, getuid()}, {'n', r->target->host, -1}, {'p', NULL, r->c->port},
                 {'r', r->c->user, -1}, {'u', r->local_user, -1}};
    size_t i = 0, n = sizeof(known) / sizeof(known[0]);

    while (i < n && known[i].token != token)
        i++;
    if (i == n || (known[i].number < 0 && known[i].text == NULL))
        return false;
    if (known[i].number < 0)
        fr_buf_text(b, known[i].text);
    else
        fr_buf_fmt(b, "%" PRId64, known[i].number);
    return true;
}

/* The path that s stands for; NULL: it has a token or a variable that is not known here. */
static const char *expand(struct reading *r, struct fr_str s)
{
    struct fr_buf b = {0};
    const char *out = NULL;
    bool known = true;
    size_t i = 0;

    if (s.n > 1 && s.p[0] == '~' && s.p[1] == '/') {
        fr_buf_text(&b, r->home);
        i = 1;
    }
    for (; i < s.n && known; i++) {
        if (s.p[i] == '%')
            known = ++i < s.n && add_token(r, &b, s.p[i]);
        else if (s.p[i] == '$' && i + 1 < s.n && s.p[i + 1] == '{')
            known = false;
        else
            fr_buf_add(&b, s.p + i, 1);
    }
    if (known && !b.bad)
        out = fr_arena_text(r->arena, b.p != NULL ? b.p : "", b.n);
    fr_buf_finish(&b);
    return out;
}

static void take_key(struct reading *r, const struct directive *d)
{
    struct fr_ssh_conf *c = r->c;
    const char *path = expand(r, d->value);

    if (fr_str_is(d->value, "none"))
        return;
    if (path == NULL || c->n_keys == FR_SSH_KEYS_MAX)
        need_ssh(r, (struct fr_str){d->key.p, d->key.n + 1 + d->value.n});
    else if (readable(path) || (given(r->target->key) && strcmp(path, r->target->key) == 0))
        c->keys[c->n_keys++] = path;
}

/* File names with blanks between them. A word that does not begin like a path belongs to the name
 * before it, which has a blank inside. */
static void take_known_hosts(struct reading *r, const struct directive *d)
{
    struct fr_ssh_conf *c = r->c;
    struct fr_str rest = d->value;

    while (rest.n > 0) {
        const char *blank = memchr(rest.p, ' ', rest.n);
        size_t n = blank == NULL ? rest.n : (size_t)(blank - rest.p);
        struct fr_str word = {rest.p, n};
        const char *path = expand(r, word);

        if (path == NULL || path[0] != '/' ||
            c->n_known == sizeof(c->known_hosts) / sizeof(c->known_hosts[0])) {
            if (!fr_str_is(word, "none"))
                need_ssh(r, (struct fr_str){d->key.p, d->key.n + 1 + d->value.n});
        } else {
            c->known_hosts[c->n_known++] = path;
        }
        n += blank != NULL;
        rest = (struct fr_str){rest.p + n, rest.n - n};
    }
}

static enum fr_rc take_port(struct reading *r, struct fr_str value, struct fr_err *err)
{
    int64_t port = 0;

    if (fr_parse_i64(value, &port, NULL) != FR_OK || port < 1 || port > 65535)
        return fr_fail(err, FR_USAGE, "ssh's configuration of %s has port '%.*s'", r->target->host,
                       (int)value.n, value.p);
    r->c->port = (int)port;
    return FR_OK;
}

/* false: libssh2 does not honour this one. */
static bool take(struct reading *r, const struct directive *d, enum fr_rc *rc, struct fr_err *err)
{
    struct fr_ssh_conf *c = r->c;

    if (fr_str_is(d->key, "hostname"))
        c->host = fr_arena_text(r->arena, d->value.p, d->value.n);
    else if (fr_str_is(d->key, "user"))
        c->user = fr_arena_text(r->arena, d->value.p, d->value.n);
    else if (fr_str_is(d->key, "port"))
        *rc = take_port(r, d->value, err);
    else if (fr_str_is(d->key, "hostkeyalias"))
        c->alias = fr_arena_text(r->arena, d->value.p, d->value.n);
    else if (fr_str_is(d->key, "addressfamily"))
        c->family = fr_str_is(d->value, "inet")    ? AF_INET
                    : fr_str_is(d->value, "inet6") ? AF_INET6
                                                   : AF_UNSPEC;
    else if (fr_str_is(d->key, "identitiesonly"))
        c->own_keys_only = fr_str_is(d->value, "yes");
    else if (fr_str_is(d->key, "identityfile"))
        take_key(r, d);
    else if (fr_str_is(d->key, "globalknownhostsfile") ||
             (fr_str_is(d->key, "userknownhostsfile") && !given(r->target->known_hosts)))
        take_known_hosts(r, d);
    else
        return fr_str_is(d->key, "userknownhostsfile");
    return true;
}

static enum fr_rc take_all(struct reading *r, const struct fr_ssh_answer *answer,
                           struct fr_err *err)
{
    struct fr_str text = answer->effective;
    struct fr_buf used = {0};
    struct directive d;
    enum fr_rc rc = FR_OK;

    while (rc == FR_OK && next_directive(&text, &d)) {
        struct fr_str whole = {d.key.p, d.key.n + (d.value.n > 0) + d.value.n};
        bool honoured = take(r, &d, &rc, err);
        bool refused = is_one_of(d.key, never, sizeof(never) / sizeof(never[0]));

        if (!honoured && (is_default(answer, &d) || (!refused && fr_str_is(d.value, "none"))))
            continue;
        if (rc == FR_OK && refused)
            rc = fr_fail(err, FR_USAGE,
                         "ssh's configuration of %s has '%.*s', and flowrun runs a command of its "
                         "own there",
                         r->target->host, (int)whole.n, whole.p);
        bool unused =
            !honoured && is_one_of(d.key, no_meaning, sizeof(no_meaning) / sizeof(no_meaning[0]));
        if (!honoured && !unused)
            need_ssh(r, whole);
        if (!fr_str_is(d.key, "host")) {
            fr_buf_visible(&used, whole.p, whole.n);
            fr_buf_text(&used, unused ? " (not used)\n" : "\n");
        }
    }
    if (rc == FR_OK && !used.bad)
        r->c->used = fr_arena_text(r->arena, used.p != NULL ? used.p : "", used.n);
    fr_buf_finish(&used);
    return rc;
}

/* What ssh would print for the target if there were no configuration. */
static void plain_answer(const struct reading *r, struct fr_buf *out)
{
    static const char *const names[] = {"id_ed25519", "id_ecdsa", "id_rsa"};
    const struct fr_ssh_target *t = r->target;

    fr_buf_fmt(out, "user %s\nhostname %s\nport %d\n", given(t->user) ? t->user : r->local_user,
               t->host, t->port > 0 ? t->port : 22);
    fr_buf_fmt(out, "identitiesonly %s\n", given(t->key) ? "yes" : "no");
    if (given(t->key)) {
        fr_buf_text(out, "identityfile ");
        for (const char *p = t->key; *p != '\0'; p++)
            fr_buf_text(out, *p == '%' ? "%%" : (char[]){*p, '\0'});
        fr_buf_text(out, "\n");
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !given(t->key); i++)
        fr_buf_fmt(out, "identityfile ~/.ssh/%s\n", names[i]);
    fr_buf_text(out, "userknownhostsfile ~/.ssh/known_hosts\n"
                     "globalknownhostsfile /etc/ssh/ssh_known_hosts\n");
}

/* libssh2 logs in with Ed25519 and ECDSA keys in files, and with those of an agent. */
static void judge_keys(struct reading *r)
{
    struct fr_ssh_conf *c = r->c;
    const char *other = NULL;
    bool usable = false;

    for (size_t i = 0; i < c->n_keys; i++) {
        const char *type = fr_ssh_key_type(c->keys[i], r->arena);
        const char *cert = fr_arena_fmt(r->arena, "%s-cert.pub", c->keys[i]);

        if (fr_ssh_key_fault(c->keys[i]) != NULL)
            continue;
        if (cert != NULL && readable(cert) && c->no_key == NULL)
            c->no_key = fr_arena_fmt(r->arena, "%s is a certificate", cert);
        else if (type != NULL && strcmp(type, "ssh-rsa") == 0)
            other = fr_arena_fmt(r->arena, "%s is an RSA key", c->keys[i]);
        else if (type != NULL && strncmp(type, "sk-", 3) == 0)
            other = fr_arena_fmt(r->arena, "%s is a key on a device", c->keys[i]);
        else
            usable = usable || type != NULL;
    }
    if (c->no_key != NULL || usable || (other == NULL && given(r->target->key)))
        return; /* the login reports a bad key of the inventory */
    if (other != NULL)
        c->no_key = other;
    else if (c->agent != NULL && c->agent[0] != '\0' && !c->own_keys_only)
        c->no_key = "the only keys are the agent's, and may be RSA";
    else
        c->no_key = "there is no private key file";
}

static enum fr_rc finish_conf(struct reading *r, struct fr_err *err)
{
    struct fr_ssh_conf *c = r->c;

    if (c->alias == NULL)
        c->alias = c->host;
    if (c->host == NULL || c->user == NULL || c->port == 0)
        return fr_fail(err, FR_USAGE, "ssh -G %s printed no %s", r->target->host,
                       c->host == NULL   ? "hostname"
                       : c->user == NULL ? "user"
                                         : "port");
    c->name = c->port == 22 ? c->alias : fr_arena_fmt(r->arena, "[%s]:%d", c->alias, c->port);
    if (c->n_known == 0)
        c->known_hosts[c->n_known++] = fr_arena_fmt(r->arena, "%s/.ssh/known_hosts", r->home);
    for (size_t i = 0; i < c->n_known && c->needs_ssh == NULL; i++)
        c->needs_ssh = fr_known_needs_ssh(c, c->known_hosts[i], r->arena);
    judge_keys(r);
    return c->known_hosts[0] == NULL || c->used == NULL || c->name == NULL
               ? fr_fail(err, FR_NOMEM, "no memory for the ssh configuration")
               : FR_OK;
}

enum fr_rc fr_ssh_conf_load(const struct fr_ssh_target *target, const struct fr_ssh_answer *answer,
                            struct fr_arena *arena, struct fr_ssh_conf *out, struct fr_err *err)
{
    const struct passwd *pw = getpwuid(getuid());
    struct reading r = {.arena = arena, .c = out, .target = target, .home = home_dir()};
    struct fr_ssh_answer plain = {.effective = {NULL, 0}};
    struct fr_buf text = {0};
    enum fr_rc rc = FR_OK;

    *out = (struct fr_ssh_conf){.connect_ms = target->connect_ms,
                                .agent = target->agent != NULL ? target->agent
                                                               : getenv("SSH_AUTH_SOCK")};
    r.local_user = pw != NULL ? fr_arena_dup(arena, pw->pw_name) : "root";
    if (r.local_user == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the ssh configuration");
    if (given(target->known_hosts))
        out->known_hosts[out->n_known++] = fr_arena_dup(arena, target->known_hosts);
    if (answer == NULL) {
        plain_answer(&r, &text);
        plain.effective = (struct fr_str){text.p, text.n};
        answer = &plain;
        if (text.bad)
            rc = fr_fail(err, FR_NOMEM, "no memory for the ssh configuration");
    }
    if (rc == FR_OK)
        rc = take_all(&r, answer, err);
    if (rc == FR_OK)
        rc = finish_conf(&r, err);
    fr_buf_finish(&text);
    return rc;
}

bool fr_ssh_conf_unread(void)
{
    struct fr_buf own = {0};
    bool there;

    fr_buf_fmt(&own, "%s/.ssh/config", home_dir());
    there = (!own.bad && readable(own.p)) || readable("/etc/ssh/ssh_config");
    fr_buf_finish(&own);
    return there;
}

/* The key type inside an OpenSSH private key (its PROTOCOL.key). The base64 text has a header with
 * the public key in clear; the name of the type is in its first bytes, at any of the three
 * alignments. */
static const char *type_in_private(const char *text)
{
    static const struct {
        const char *mark, *type;
    } marks[] = {
        {"AAAAC3NzaC1lZDI1NTE5", "ssh-ed25519"},
        {"c3NoLWVkMjU1MTk", "ssh-ed25519"},
        {"zc2gtZWQyNTUxOQ", "ssh-ed25519"},
        {"zaC1lZDI1NTE5", "ssh-ed25519"},
        {"c3NoLXJzY", "ssh-rsa"},
        {"zc2gtcnNh", "ssh-rsa"},
        {"zaC1yc2", "ssh-rsa"},
        {"BEGIN RSA PRIVATE", "ssh-rsa"},
        {"BEGIN EC PRIVATE", "ecdsa"},
    };

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        if (strstr(text, marks[i].mark) != NULL)
            return marks[i].type;
    return "";
}

const char *fr_ssh_key_fault(const char *path)
{
    static const char *const publics[] = {"ssh-", "ecdsa-sha2-", "sk-", "---- BEGIN SSH2 PUBLIC"};
    struct fr_buf b = {0};
    const char *fault = NULL;

    if (fr_file_read_soon(path, KEY_MAX, &b, NULL) == FR_OK && b.n > 0) {
        if (fr_has_prefix(b.p, "PuTTY-User-Key-File"))
            fault = "in PuTTY's format: puttygen FILE -O private-openssh -o NEW makes one for ssh";
        for (size_t i = 0; i < sizeof(publics) / sizeof(publics[0]); i++)
            if (fr_has_prefix(b.p, publics[i]))
                fault = "that is the public key: name the private one";
    }
    fr_buf_finish(&b);
    return fault;
}

const char *fr_ssh_key_type(const char *path, struct fr_arena *arena)
{
    const char *pub = fr_arena_fmt(arena, "%s.pub", path), *type = NULL;
    struct fr_buf b = {0};

    if (fr_file_read_soon(path, KEY_MAX, &b, NULL) != FR_OK || b.n == 0) {
        fr_buf_finish(&b);
        return NULL;
    }
    type = type_in_private(b.p);
    fr_buf_finish(&b);
    if (type[0] == '\0' && pub != NULL && fr_file_read_soon(pub, KEY_MAX, &b, NULL) == FR_OK &&
        b.n > 0)
        type = fr_arena_text(arena, b.p, strcspn(b.p, " \n"));
    fr_buf_finish(&b);
    return type;
}

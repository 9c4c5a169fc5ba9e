#include "engine/exec/sshconf.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { CONFIG_MAX = 1 << 20, KEY_MAX = 64 << 10, WORDS_MAX = 32 };

struct parse {
    struct fr_arena *arena;
    struct fr_ssh_conf *c;
    const struct fr_ssh_target *target;
    const char *path, *home, *local_user;
    const char *hostname, *user; /* from the file */
    int line;
    bool applies; /* the Host block fits */
};

static const char *home_dir(void)
{
    const char *home = getenv("HOME");
    const struct passwd *pw;

    if (home != NULL && home[0] == '/')
        return home;
    pw = getpwuid(getuid());
    return pw != NULL ? pw->pw_dir : "/";
}

static bool set_path(const char *s)
{
    return s != NULL && s[0] != '\0';
}

static bool readable(const char *path)
{
    int fd = fr_sys.open(path, O_RDONLY, 0);

    if (fd >= 0)
        fr_sys.close(fd);
    return fd >= 0;
}

/* ssh_config's TOKENS as far as they stand in file names here; NULL: one that we do not know. */
static const char *expand(const struct parse *p, const char *s)
{
    const struct fr_ssh_conf *c = p->c;
    struct fr_buf b = {0};
    char *out;

    if (s[0] == '~' && s[1] == '/') {
        fr_buf_text(&b, p->home);
        s++;
    }
    for (; *s != '\0'; s++) {
        if (*s != '%') {
            fr_buf_add(&b, s, 1);
            continue;
        }
        switch (*++s) {
        case '%':
            fr_buf_text(&b, "%");
            break;
        case 'd':
            fr_buf_text(&b, p->home);
            break;
        case 'h':
            fr_buf_text(&b, p->hostname ? p->hostname : p->target->host);
            break;
        case 'n':
            fr_buf_text(&b, p->target->host);
            break;
        case 'u':
            fr_buf_text(&b, p->local_user);
            break;
        case 'r':
            fr_buf_text(&b, c->user ? c->user : p->local_user);
            break;
        default:
            fr_buf_finish(&b);
            return NULL;
        }
    }
    out = b.bad ? NULL : fr_arena_text(p->arena, b.p != NULL ? b.p : "", b.n);
    fr_buf_finish(&b);
    return out;
}

static void need_ssh(struct parse *p, const char *what)
{
    if (p->c->needs_ssh == NULL)
        p->c->needs_ssh = fr_arena_fmt(p->arena, "%s in %s line %d", what, p->path, p->line);
}

/* Splits a line into its keyword and words: blanks, one '=', double quotes. */
static size_t split(struct parse *p, char *line, char *words[WORDS_MAX])
{
    size_t n = 0;
    char *s = line;

    (void)p;
    while (n < WORDS_MAX) {
        bool quoted;

        s += strspn(s, " \t\r");
        if (n == 1 && *s == '=')
            s += 1 + strspn(s + 1, " \t");
        if (*s == '\0' || *s == '#')
            break;
        quoted = *s == '"';
        words[n++] = s += quoted;
        s += strcspn(s, quoted ? "\"" : n == 1 ? " \t\r=" : " \t\r");
        if (*s == '\0')
            break;
        if (n == 1 && *s == '=') { /* Key=value: the '=' ends the keyword */
            *s++ = '\0';
            s += strspn(s, " \t");
            continue;
        }
        *s++ = '\0';
    }
    return n;
}

static bool host_fits(const char *host, char *const *patterns, size_t n)
{
    bool fits = false;

    for (size_t i = 0; i < n; i++) {
        bool negated = patterns[i][0] == '!';

        if (fnmatch(patterns[i] + negated, host, FNM_CASEFOLD) != 0)
            continue;
        if (negated)
            return false;
        fits = true;
    }
    return fits;
}

static void add_key(struct parse *p, const char *path)
{
    const char *full = expand(p, path);

    if (full == NULL)
        need_ssh(p, "IdentityFile with a token");
    else if (strcasecmp(path, "none") != 0 && p->c->n_keys < FR_SSH_KEYS_MAX)
        p->c->keys[p->c->n_keys++] = full;
}

static enum fr_rc take_port(struct parse *p, const char *text, struct fr_err *err)
{
    int64_t port = 0;

    if (p->c->port != 0)
        return FR_OK;
    if (fr_parse_i64(fr_str_of(text), &port, err) != FR_OK || port < 1 || port > 65535)
        return fr_fail(err, FR_USAGE, "%s:%d: Port '%s' is no port", p->path, p->line, text);
    p->c->port = (int)port;
    return FR_OK;
}

static enum fr_rc take(struct parse *p, char *const *w, size_t n, struct fr_err *err)
{
    struct fr_ssh_conf *c = p->c;
    const char *key = w[0], *value = w[1];

    if (strcasecmp(key, "HostName") == 0) {
        p->hostname = p->hostname != NULL ? p->hostname : fr_arena_dup(p->arena, value);
    } else if (strcasecmp(key, "User") == 0) {
        c->user = c->user != NULL ? c->user : fr_arena_dup(p->arena, value);
    } else if (strcasecmp(key, "Port") == 0) {
        return take_port(p, value, err);
    } else if (strcasecmp(key, "IdentityFile") == 0) {
        add_key(p, value);
    } else if (strcasecmp(key, "IdentitiesOnly") == 0) {
        c->own_keys_only = c->own_keys_only || strcasecmp(value, "yes") == 0;
    } else if (strcasecmp(key, "HostKeyAlias") == 0) {
        c->alias = c->alias != NULL ? c->alias : fr_arena_dup(p->arena, value);
    } else if (strcasecmp(key, "UserKnownHostsFile") == 0 && c->n_known == 0) {
        for (size_t i = 1; i < n && c->n_known < 3; i++)
            if ((c->known_hosts[c->n_known] = expand(p, w[i])) != NULL)
                c->n_known++;
    } else if ((strcasecmp(key, "ProxyJump") == 0 || strcasecmp(key, "ProxyCommand") == 0) &&
               strcasecmp(value, "none") != 0) {
        need_ssh(p, fr_arena_dup(p->arena, key));
    } else if (strcasecmp(key, "CertificateFile") == 0 || strcasecmp(key, "IdentityAgent") == 0 ||
               strcasecmp(key, "KnownHostsCommand") == 0 ||
               strcasecmp(key, "PKCS11Provider") == 0) {
        need_ssh(p, fr_arena_dup(p->arena, key));
    }
    return FR_OK;
}

static enum fr_rc parse_line(struct parse *p, char *line, struct fr_err *err)
{
    char *w[WORDS_MAX];
    size_t n = split(p, line, w);

    if (n == 0)
        return FR_OK;
    if (n == 1)
        return fr_fail(err, FR_USAGE, "%s:%d: '%s' has no value", p->path, p->line, w[0]);
    if (strcasecmp(w[0], "Host") == 0) {
        p->applies = host_fits(p->target->host, w + 1, n - 1);
        return FR_OK;
    }
    if (strcasecmp(w[0], "Match") == 0) {
        p->applies = strcasecmp(w[1], "all") == 0;
        if (!p->applies)
            need_ssh(p, "Match");
        return FR_OK;
    }
    if (strcasecmp(w[0], "Include") == 0 && p->applies) {
        need_ssh(p, "Include");
        return FR_OK;
    }
    return p->applies ? take(p, w, n, err) : FR_OK;
}

static enum fr_rc parse_file(struct parse *p, struct fr_err *err)
{
    struct fr_buf text = {0};
    enum fr_rc rc = fr_file_read(p->path, CONFIG_MAX, &text, err);
    char *line = text.p;

    while (rc == FR_OK && line != NULL && line < text.p + text.n) {
        char *end = memchr(line, '\n', (size_t)(text.p + text.n - line));

        if (end != NULL)
            *end = '\0';
        p->line++;
        rc = parse_line(p, line, err);
        line = end == NULL ? NULL : end + 1;
    }
    fr_buf_finish(&text);
    return rc;
}

static enum fr_rc read_config(struct parse *p, struct fr_err *err)
{
    const char *asked = p->target->config;
    enum fr_rc rc;

    if (asked != NULL && strcmp(asked, "none") == 0)
        return FR_OK;
    p->applies = true;
    p->path = set_path(asked) ? asked : fr_arena_fmt(p->arena, "%s/.ssh/config", p->home);
    if (p->path == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the ssh configuration");
    rc = parse_file(p, err);
    if (rc == FR_NOTFOUND && !set_path(asked))
        rc = FR_OK;
    return rc;
}

static void default_keys(struct parse *p)
{
    static const char *const names[] = {"id_ed25519", "id_ecdsa", "id_rsa"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *path = fr_arena_fmt(p->arena, "%s/.ssh/%s", p->home, names[i]);

        if (path != NULL && readable(path))
            p->c->keys[p->c->n_keys++] = path;
    }
}

/* libssh2 can use none of what there is: say so, so that the system's ssh is taken. */
static void judge_keys(struct parse *p)
{
    struct fr_ssh_conf *c = p->c;
    const char *rsa = NULL;
    bool usable = false;

    for (size_t i = 0; i < c->n_keys && c->needs_ssh == NULL; i++) {
        const char *type = fr_ssh_key_type(c->keys[i], p->arena);
        const char *cert = fr_arena_fmt(p->arena, "%s-cert.pub", c->keys[i]);

        if (cert != NULL && readable(cert))
            c->needs_ssh = fr_arena_fmt(p->arena, "%s is a certificate", cert);
        else if (type != NULL && strcmp(type, "ssh-rsa") == 0)
            rsa = c->keys[i];
        else
            usable = usable || type != NULL;
    }
    if (c->needs_ssh != NULL || usable)
        return;
    if (rsa != NULL)
        c->needs_ssh = fr_arena_fmt(p->arena, "%s is an RSA key", rsa);
    else if (getenv("SSH_AUTH_SOCK") != NULL && !c->own_keys_only)
        c->needs_ssh = "the only keys are the agent's, and may be RSA";
}

enum fr_rc fr_ssh_conf_load(const struct fr_ssh_target *target, struct fr_arena *arena,
                            struct fr_ssh_conf *out, struct fr_err *err)
{
    const struct passwd *pw = getpwuid(getuid());
    struct parse p = {.arena = arena, .c = out, .target = target, .path = "", .home = home_dir()};
    enum fr_rc rc;

    *out = (struct fr_ssh_conf){0};
    p.local_user = pw != NULL ? fr_arena_dup(arena, pw->pw_name) : "root";
    out->user = set_path(target->user) ? fr_arena_dup(arena, target->user) : NULL;
    out->port = target->port;
    if (set_path(target->known_hosts))
        out->known_hosts[out->n_known++] = fr_arena_dup(arena, target->known_hosts);
    if (set_path(target->key)) {
        add_key(&p, target->key);
        out->own_keys_only = true;
    }
    if ((rc = read_config(&p, err)) != FR_OK)
        return rc;
    if (out->n_keys == 0)
        default_keys(&p);
    out->host = fr_arena_dup(arena, p.hostname != NULL ? p.hostname : target->host);
    if (out->alias == NULL)
        out->alias = out->host;
    if (out->user == NULL)
        out->user = p.local_user;
    if (out->port == 0)
        out->port = 22;
    if (out->n_known == 0)
        out->known_hosts[out->n_known++] = fr_arena_fmt(arena, "%s/.ssh/known_hosts", p.home);
    out->known_hosts[out->n_known++] = "/etc/ssh/ssh_known_hosts";
    if (out->host == NULL || out->user == NULL || out->known_hosts[0] == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the ssh configuration");
    judge_keys(&p);
    return FR_OK;
}

/* The key type inside an OpenSSH private key (its PROTOCOL.key): base64 of a header with the public
 * key in clear; the type's name is found in its first bytes, at whatever alignment base64 put it.
 */
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

const char *fr_ssh_key_type(const char *path, struct fr_arena *arena)
{
    const char *pub = fr_arena_fmt(arena, "%s.pub", path), *type = NULL;
    struct fr_buf b = {0};

    if (fr_file_read(path, KEY_MAX, &b, NULL) != FR_OK || b.n == 0) {
        fr_buf_finish(&b);
        return NULL;
    }
    type = type_in_private(b.p);
    fr_buf_finish(&b);
    if (type[0] == '\0' && pub != NULL && fr_file_read(pub, KEY_MAX, &b, NULL) == FR_OK && b.n > 0)
        type = fr_arena_text(arena, b.p, strcspn(b.p, " \n"));
    fr_buf_finish(&b);
    return type;
}

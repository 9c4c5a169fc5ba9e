/* The system's ssh as a child process: whatever the user's ssh_config can do. */
#include "engine/link/child.h"

#include "engine/base/arena.h"
#include "engine/link/sshconf.h"

#include <string.h>

enum { ARGS_MAX = 40, SSH_OWN_FAILURE = 255 };

/* Classifies a failure of OpenSSH's client by what it prints to stderr. */
static enum fr_rc judge(int code, struct fr_str tail, struct fr_buf *advice)
{
    static const struct {
        const char *words;
        enum fr_rc rc;
        const char *advice;
    } known[] = {
        {"IDENTIFICATION HAS CHANGED", FR_CORRUPT,
         " (if the change was meant: ssh-keygen -R HOST, then ssh-keyscan HOST >> the known_hosts "
         "file)"},
        {"revoked by file", FR_CORRUPT, ""},
        {"REVOKED HOST KEY", FR_CORRUPT, ""},
        {"host key is known", FR_DENIED,
         " (check it, then: ssh-keyscan HOST >> ~/.ssh/known_hosts)"},
        {"Host key verification failed", FR_DENIED, ""},
        {"Permission denied (", FR_DENIED, ""},
        {"Too many authentication failures", FR_DENIED, ""},
        {"Could not resolve hostname", FR_UNREACHABLE, ""},
        {"Bad configuration option", FR_USAGE, ""},
    };

    if (code == 127 || code == 126)
        return FR_UNSUPPORTED;
    if (code != SSH_OWN_FAILURE)
        return FR_UNREACHABLE;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (memmem(tail.p, tail.n, known[i].words, strlen(known[i].words)) != NULL) {
            fr_buf_text(advice, known[i].advice);
            return known[i].rc;
        }
    return FR_UNREACHABLE;
}

static bool set(const char *s)
{
    return s != NULL && s[0] != '\0';
}

/* An option NAME="VALUE" of -o, which ssh reads like a line of its configuration. */
static const char *quoted(struct fr_arena *arena, const char *name, const char *value)
{
    struct fr_buf b = {0};
    const char *out;

    fr_buf_fmt(&b, "%s=\"", name);
    for (; *value != '\0'; value++)
        fr_buf_text(&b, *value == '%' ? "%%" : (char[]){*value, '\0'});
    fr_buf_text(&b, "\"");
    out = b.bad ? NULL : fr_arena_text(arena, b.p, b.n);
    fr_buf_finish(&b);
    return out;
}

static bool quotable(const char *path)
{
    return path == NULL || strpbrk(path, "\"\\\n") == NULL;
}

static void add(const char **argv, size_t *n, const char *flag, const char *value)
{
    argv[(*n)++] = flag;
    argv[(*n)++] = value;
}

enum fr_rc fr_ssh_target_args(const struct fr_ssh_target *t, struct fr_arena *arena,
                              const char **argv, size_t *n, struct fr_err *err)
{
    size_t first = *n;

    if (!quotable(t->key) || !quotable(t->known_hosts))
        return fr_fail(err, FR_USAGE,
                       "the name of a key or of a file of known hosts holds a quote "
                       "or a backslash, which ssh does not take");
    if (set(t->config))
        add(argv, n, "-F", t->config);
    if (set(t->known_hosts))
        add(argv, n, "-o", quoted(arena, "UserKnownHostsFile", t->known_hosts));
    if (set(t->key)) { /* -i would pass over a file that is not there */
        add(argv, n, "-o", "IdentitiesOnly=yes");
        add(argv, n, "-o", quoted(arena, "IdentityFile", t->key));
    }
    if (set(t->user))
        add(argv, n, "-l", t->user);
    if (t->port > 0)
        add(argv, n, "-p", fr_arena_fmt(arena, "%d", t->port));
    add(argv, n, "--", t->host);
    for (size_t i = first; i < *n; i++)
        if (argv[i] == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for the arguments of ssh");
    return FR_OK;
}

enum fr_rc fr_link_openssh_create(struct fr_link *link, struct fr_loop *loop,
                                  const struct fr_ssh_target *t, const char *command,
                                  struct fr_err *err)
{
    struct fr_arena a = {0};
    const char *argv[ARGS_MAX] = {"ssh", "-T",
                                  "-o",  "BatchMode=yes",
                                  "-o",  "StrictHostKeyChecking=yes",
                                  "-o",  "ClearAllForwardings=yes",
                                  "-o",  "ControlMaster=no",
                                  "-o"};
    size_t n = 11;
    struct fr_child_args args = {
        .argv = argv, .die_with_parent = true, .own_failure = SSH_OWN_FAILURE, .judge = judge};
    int connect_ms =
        t->connect_ms > 0 && t->connect_ms < FR_TCP_CONNECT_MS ? t->connect_ms : FR_TCP_CONNECT_MS;
    enum fr_rc rc;

    *link = (struct fr_link){0};
    args.agent = t->agent;
    args.key = set(t->key) ? t->key : NULL;
    argv[n++] = fr_arena_fmt(&a, "ConnectTimeout=%d", (connect_ms + 999) / 1000);
    args.what = fr_arena_fmt(&a, "ssh to %s", t->host);
    rc = argv[n - 1] == NULL || args.what == NULL ? fr_fail(err, FR_NOMEM, "no memory for a link")
                                                  : fr_ssh_target_args(t, &a, argv, &n, err);
    argv[n++] = command;
    argv[n] = NULL;
    if (rc == FR_OK)
        rc = fr_link_child_create(link, loop, &args, err);
    fr_arena_finish(&a);
    return rc;
}

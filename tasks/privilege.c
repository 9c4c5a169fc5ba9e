#include "tasks/privilege.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/str.h"
#include "engine/base/sys.h"
#include "engine/supervise/home.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BYTES_MAX = 8 << 20, COUNT_MAX = 65536, FAILED = 126 };

/* One decimal number and the character after it. */
static bool read_number(char end, size_t max, size_t *out)
{
    char c;

    for (*out = 0; fr_read_full(0, &c, 1); *out = *out * 10 + (size_t)(c - '0')) {
        if (c == end)
            return true;
        if (c < '0' || c > '9' || *out > max)
            return false;
    }
    return false;
}

/* n texts from *p on, as a NULL-terminated vector; NULL when they do not end before end. */
static char **take_texts(char **p, const char *end, size_t n)
{
    char **v = fr_sys.alloc((n + 1) * sizeof(char *));

    for (size_t i = 0; v != NULL && i < n; i++) {
        char *nul = memchr(*p, '\0', (size_t)(end - *p));
        if (nul == NULL)
            return NULL;
        v[i] = *p;
        *p = nul + 1;
    }
    if (v != NULL)
        v[n] = NULL;
    return v;
}

int fr_become(void)
{
    size_t argc, envc, n;

    if (!read_number(' ', COUNT_MAX, &argc) || !read_number(' ', COUNT_MAX, &envc) ||
        !read_number('\n', BYTES_MAX, &n) || argc == 0 || argc > COUNT_MAX || envc > COUNT_MAX ||
        n > BYTES_MAX) {
        fr_complain("flownode become: this command is for flownode's own use\n");
        return 2;
    }
    char *body = fr_sys.alloc(n + 1), *p = body;
    if (body == NULL || !fr_read_full(0, body, n)) {
        fr_complain("flownode become: the command did not arrive\n");
        return FAILED;
    }
    char **argv = take_texts(&p, body + n, argc), **env = take_texts(&p, body + n, envc);
    if (argv == NULL || env == NULL) {
        fr_complain("flownode become: the command is incomplete\n");
        return FAILED;
    }
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    environ = env; /* PATH is the command's, too */
    execvp(argv[0], argv);
    fr_complain("flownode become: cannot start %s: %s\n", argv[0], strerror(errno));
    return errno == ENOENT ? 127 : FAILED;
}

int fr_signal(int argc, char **argv)
{
    int64_t sig = 0;
    struct fr_err err;

    if (argc < 3 || fr_parse_i64(fr_str_of(argv[1]), &sig, &err) != FR_OK || sig < 1 || sig > 64) {
        fr_complain("usage: flownode signal SIG PID:START …\n");
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        const char *colon = strchr(argv[i], ':');
        int64_t pid, start;
        if (colon == NULL ||
            fr_parse_i64((struct fr_str){argv[i], (size_t)(colon - argv[i])}, &pid, &err) !=
                FR_OK ||
            fr_parse_i64(fr_str_of(colon + 1), &start, &err) != FR_OK || pid < 2 || start < 1)
            return 2;
        struct fr_proc p = {(pid_t)pid, (uint64_t)start};
        if (fr_sys.kill(p, (int)sig) != 0 && errno != ESRCH)
            fr_complain("flownode signal: process %s: %s\n", argv[i], strerror(errno));
    }
    return 0;
}

/* Looks for the keeper at least so often. */
static const struct timespec look = {.tv_sec = 1};

static bool keeper_gone(int lock)
{
    return lock >= 0 && fr_sys.locked(lock) == 0;
}

/* Waits for a signal. True: it is one to end. */
static bool told_to_end(const sigset_t *set, bool looks)
{
    siginfo_t info;
    int sig = looks ? sigtimedwait(set, &info, &look) : sigwaitinfo(set, &info);

    return sig == SIGTERM || sig == SIGINT;
}

int fr_hold(const char *home)
{
    char path[FR_NODE_PATH];
    struct fr_wait w;
    sigset_t set;
    int lock = -1;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (home != NULL) {
        snprintf(path, sizeof(path), "%s/keep.lock", home);
        if ((lock = fr_sys.open(path, O_RDONLY | O_NOFOLLOW, 0)) < 0) {
            fr_complain("flownode hold: cannot open %s: %s\n", path, strerror(errno));
            return 1;
        }
    }
    while (!keeper_gone(lock)) {
        while (fr_sys.wait(-1, &w, FR_WAIT_NOHANG) == 0 && w.pid > 0) {
        }
        if (told_to_end(&set, lock >= 0))
            break;
    }
    fr_fd_close(&lock);
    return 0;
}

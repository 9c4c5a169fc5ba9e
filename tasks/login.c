#include "tasks/login.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/str.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { ENV_MAX_BYTES = 8 << 20, SAID_MAX = 400, SHELL_MS = 60000, FAILED = 126, NOT_FOUND = 127 };

static const char *const base[] = {"PATH",  "HOME", "USER",   "LOGNAME",
                                   "SHELL", "LANG", "TMPDIR", "XDG_RUNTIME_DIR"};

/* Of the shell itself. */
static const char *const shells[] = {"_", "SHLVL", "PWD", "OLDPWD"};

static bool is_name(const char *kv, const char *name, size_t n)
{
    return strncmp(kv, name, n) == 0 && kv[n] == '=';
}

static bool is_one_of(const char *kv, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (is_name(kv, names[i], strlen(names[i])))
            return true;
    return false;
}

static bool is_base(const char *kv)
{
    return is_one_of(kv, base, sizeof(base) / sizeof(base[0]));
}

/* Whether kv's name is among names, which commas separate. */
static bool listed(const char *kv, const char *names)
{
    while (*names != '\0') {
        size_t n = strcspn(names, ",");

        if (n > 0 && is_name(kv, names, n))
            return true;
        names += n + (names[n] == ',');
    }
    return false;
}

static const char *find(char *const *v, const char *name)
{
    size_t n = strlen(name);

    for (; *v != NULL; v++)
        if (is_name(*v, name, n))
            return *v + n + 1;
    return NULL;
}

static int print_env(const char *path)
{
    int fd = open(path, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);
    bool ok = fd >= 0;

    for (char **v = environ; ok && *v != NULL; v++)
        ok = fr_write_full(fd, *v, strlen(*v) + 1);
    return ok && close(fd) == 0 ? 0 : FAILED;
}

/* A file that is removed by whoever made it; its descriptor, or -1. */
static int make_file(char path[PATH_MAX])
{
    const char *dir = getenv("TMPDIR");

    snprintf(path, PATH_MAX, "%s/.flowrun-login.XXXXXX", dir != NULL ? dir : "/tmp");
    return mkostemp(path, O_CLOEXEC);
}

/* The child: a login shell, by the dash before its name, which every shell knows. */
static void become_shell(const char *shell, const char *command, int said)
{
    const char *name = strrchr(shell, '/') != NULL ? strrchr(shell, '/') + 1 : shell;
    char dashed[NAME_MAX + 2], *argv[] = {dashed, "-c", (char *)command, NULL};
    int null = open("/dev/null", O_RDONLY);
    char **out = environ;

    snprintf(dashed, sizeof(dashed), "-%s", name);
    for (char **v = environ; *v != NULL; v++) /* no secret of the task is for startup files */
        if ((is_base(*v) && !is_name(*v, "TMPDIR", 6)) || is_name(*v, "FLOWRUN_ATTEMPT", 15))
            *out++ = *v;
    *out = NULL;
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    if (null < 0 || dup2(null, 0) < 0 || dup2(said, 1) < 0 || dup2(said, 2) < 0)
        _exit(FAILED);
    execv(shell, argv);
    _exit(NOT_FOUND);
}

/* Waits for the shell alone: what its startup files leave running goes on. */
static bool await(pid_t pid, int *status)
{
    struct pollfd p = {.fd = fr_sys.proc_fd(pid), .events = POLLIN};
    int n;

    while (p.fd >= 0 && (n = poll(&p, 1, SHELL_MS)) <= 0)
        if (n == 0 || errno != EINTR) {
            kill(pid, SIGKILL);
            break;
        }
    if (p.fd >= 0)
        close(p.fd);
    while (waitpid(pid, status, 0) < 0)
        if (errno != EINTR)
            return false;
    return WIFEXITED(*status) && WEXITSTATUS(*status) == 0;
}

static void complain(const char *shell, int status, int said)
{
    char text[SAID_MAX + 1];
    ssize_t n = pread(said, text, SAID_MAX, 0);
    struct fr_buf b = {0};

    fr_buf_visible(&b, text, n > 0 ? (size_t)n : 0);
    fr_complain("flownode login: %s did not give the environment of a login (%s %d): its startup "
                "files must not exec, exit or wait%s%s\n",
                shell, WIFSIGNALED(status) ? "signal" : "exit status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                b.n > 0 ? "; it said: " : "", b.n > 0 ? b.p : "");
    fr_buf_finish(&b);
}

/* Runs the shell; *env has the texts of its environment. */
static bool ask_shell(struct fr_buf *env)
{
    const char *shell = getenv("SHELL");
    char path[PATH_MAX], noise[PATH_MAX], self[PATH_MAX], command[2 * PATH_MAX + 40];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    int fd = make_file(path), said = make_file(noise), status = 0;
    struct fr_err err;
    pid_t pid = -1;
    bool ok;

    self[n > 0 ? n : 0] = '\0';
    if (shell == NULL || shell[0] != '/')
        shell = "/bin/sh";
    if (said >= 0)
        unlink(noise);
    snprintf(command, sizeof(command), "exec '%s' login --print '%s'", self, path);
    ok = fd >= 0 && said >= 0 && strchr(self, '\'') == NULL && strchr(path, '\'') == NULL;
    if (ok && (pid = fork()) == 0)
        become_shell(shell, command, said);
    if (!ok || pid < 0)
        fr_complain("flownode login: cannot run %s: %s\n", shell, strerror(errno));
    else if (!await(pid, &status) || fr_file_read(path, ENV_MAX_BYTES, env, &err) != FR_OK ||
             env->n == 0) {
        complain(shell, status, said);
        ok = false;
    }
    if (fd >= 0) {
        unlink(path);
        close(fd);
    }
    if (said >= 0)
        close(said);
    return ok && pid > 0;
}

/* PATH with the folders of our programs in front. */
static char *path_with_programs(const char *path)
{
    struct fr_buf b = {0};

    for (char **v = environ; *v != NULL; v++) {
        const char *eq = strchr(*v, '='), *slash = strrchr(*v, '/');

        if (fr_has_prefix(*v, "FLOWRUN_PROGRAM_") && eq != NULL && slash != NULL && slash > eq + 1)
            fr_buf_fmt(&b, "%.*s:", (int)(slash - eq - 1), eq + 1);
    }
    if (b.n == 0)
        return NULL;
    struct fr_buf all = {0};
    fr_buf_fmt(&all, "PATH=%.*s%s", (int)b.n, b.p, path);
    fr_buf_finish(&b);
    return all.bad ? NULL : all.p;
}

/* Merges this process's variables over the shell's. Memory is the process's: it becomes the
 * command. */
static char **merge(struct fr_buf *shell, const char *kept)
{
    size_t n = 1, own = 0, used = 0;
    char **v;

    for (size_t i = 0; i < shell->n; i++)
        n += shell->p[i] == '\0';
    while (environ[own] != NULL)
        own++;
    if ((v = fr_sys.alloc((n + own) * sizeof(char *))) == NULL)
        return NULL;
    for (char *p = shell->p; p < shell->p + shell->n; p += strlen(p) + 1)
        if (strchr(p, '=') != NULL && !is_one_of(p, shells, sizeof(shells) / sizeof(shells[0])))
            v[used++] = p;
    for (size_t i = 0; i < own; i++) {
        char *kv = environ[i], *name = strndup(kv, strcspn(kv, "="));
        size_t at = 0;

        if (name == NULL)
            return NULL;
        while (at < used && !is_name(v[at], name, strlen(name)))
            at++;
        if (at == used)
            v[used++] = kv;
        else if (!is_base(kv) || is_name(kv, "TMPDIR", 6) || listed(kv, kept))
            v[at] = kv;
        free(name);
    }
    v[used] = NULL;
    for (size_t i = 0; i < used; i++) {
        char *path =
            is_name(v[i], "PATH", 4) && !listed(v[i], kept) ? path_with_programs(v[i] + 5) : NULL;
        v[i] = path != NULL ? path : v[i];
    }
    return v;
}

int fr_login(int argc, char **argv)
{
    struct fr_buf env = {0};
    char **merged;

    if (argc == 3 && strcmp(argv[1], "--print") == 0)
        return print_env(argv[2]);
    if (argc < 3) {
        fr_complain("flownode login: this command is for flownode's own use\n");
        return 2;
    }
    if (!ask_shell(&env))
        return FAILED;
    if ((merged = merge(&env, argv[1])) == NULL) {
        fr_complain("flownode login: no memory\n");
        return FAILED;
    }
    environ = merged;
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    execvp(argv[2], argv + 2);
    fr_complain("flownode login: cannot start %s: %s; PATH=%s\n", argv[2], strerror(errno),
                find(merged, "PATH") != NULL ? find(merged, "PATH") : "");
    return errno == ENOENT ? NOT_FOUND : FAILED;
}

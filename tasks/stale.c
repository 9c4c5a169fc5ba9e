#include "tasks/stale.h"

#include "engine/base/file.h"
#include "engine/supervise/home.h"
#include "engine/supervise/journal.h"
#include "tasks/owner.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ENVIRON_MAX = 4 << 20, NET_MAX = 64 << 20, COMM_MAX = 15, TICK_MS = 20, GONE_MS = 5000 };

enum fr_rc fr_stale_open(struct fr_job *job, uid_t owner, struct fr_stale *s, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;
    int fd = -1;

    *s = (struct fr_stale){.job = job, .owner = owner, .home = fr_env("FLOWRUN_NODE_HOME", "")};
    s->shared = fr_machine_shared();
    if (s->home[0] != '\0') {
        const char *path = fr_arena_fmt(&job->arena, "%s/journal", s->home);
        if (path == NULL)
            rc = fr_fail(err, FR_NOMEM, "no memory for a path");
        else if (access(path, F_OK) == 0)
            rc = fr_journal_open(path, &fd, err);
        if (rc == FR_OK && fd >= 0)
            rc = fr_table_read(&s->table, fd, err);
        if (fd >= 0)
            fr_sys.close(fd);
    }
    if (rc == FR_OK && fr_sys.procs(&s->procs, &s->n) != 0)
        rc = fr_fail_errno(err, errno, "cannot read the process table");
    if (rc == FR_OK &&
        (s->ending = fr_arena_array(&job->arena, s->n + 1, sizeof(*s->ending))) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for the process table");
    return rc;
}

void fr_stale_close(struct fr_stale *s)
{
    fr_table_finish(&s->table);
    fr_sys.free(s->procs);
    s->procs = NULL;
}

/* ---- whose a process is ---- */

/* The folder of the node home that a process was started from; "" unknown. */
static const char *home_of(struct fr_stale *s, pid_t pid)
{
    static const char name[] = "FLOWRUN_NODE_HOME=";
    const char *path = fr_arena_fmt(&s->job->arena, "/proc/%d/environ", (int)pid), *found = "";
    struct fr_buf text = {0};

    if (path != NULL && fr_file_read(path, ENVIRON_MAX, &text, NULL) == FR_OK)
        for (size_t i = 0; i < text.n; i += strlen(text.p + i) + 1)
            if (fr_has_prefix(text.p + i, name))
                found = fr_arena_dup(&s->job->arena, text.p + i + sizeof(name) - 1);
    fr_buf_finish(&text);
    return found != NULL ? found : "";
}

static const struct fr_procinfo *find(const struct fr_stale *s, pid_t pid)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->procs[i].proc.pid == pid)
            return &s->procs[i];
    return NULL;
}

/* The live attempt that the process, or an ancestor, belongs to; NULL none. */
static const char *live_attempt(struct fr_stale *s, const struct fr_procinfo *p)
{
    for (int depth = 0; p != NULL && depth < 1000; depth++, p = find(s, p->ppid)) {
        struct fr_id id;
        if (p->marker[0] == '\0' || !fr_id_parse(fr_str_of(p->marker), &id))
            continue;
        if (fr_home_alive(s->home, id) || fr_home_alive(home_of(s, p->proc.pid), id))
            return p->marker;
    }
    return NULL;
}

static bool is_ancestor(const struct fr_stale *s, pid_t pid)
{
    const struct fr_procinfo *p = find(s, getpid());

    for (int depth = 0; p != NULL && depth < 1000; depth++, p = find(s, p->ppid))
        if (p->proc.pid == pid)
            return true;
    return pid == 1;
}

static bool known_attempt(const struct fr_stale *s, const char *text)
{
    struct fr_id id;

    return fr_id_parse(fr_str_of(text), &id) && fr_table_find(&s->table, id) != NULL;
}

enum fr_stale_name fr_stale_name(const struct fr_stale *s, const char *name)
{
    enum fr_stale_name found = FR_NAME_OTHER;

    for (const char *p = name; strlen(p) >= FR_ID_TEXT - 1; p++) {
        struct fr_id id;
        if (!fr_id_parse((struct fr_str){p, FR_ID_TEXT - 1}, &id) ||
            fr_table_find(&s->table, id) == NULL)
            continue;
        if (fr_home_alive(s->home, id))
            return FR_NAME_LIVE;
        found = FR_NAME_ENDED;
    }
    return found;
}

/* Why the process is spared; NULL: it may be ended. In the job's arena. */
static const char *spared(struct fr_stale *s, const struct fr_procinfo *p)
{
    const char *live = live_attempt(s, p);

    if (is_ancestor(s, p->proc.pid))
        return "it is what runs this task";
    if (live != NULL)
        return fr_arena_fmt(&s->job->arena, "it belongs to the live attempt %s", live);
    if (p->uid != s->owner)
        return fr_arena_fmt(&s->job->arena, "its owner is %s", fr_owner_name(s->job, p->uid));
    if (s->shared && !known_attempt(s, p->marker))
        return "other nodes or jobs share the machine: only processes of this node's own attempts "
               "are ended";
    return NULL;
}

static bool mark_for_end(struct fr_stale *s, const struct fr_procinfo *p, const char *what)
{
    const char *why = spared(s, p);

    for (size_t i = 0; i < s->n_ending; i++)
        if (s->ending[i].pid == p->proc.pid)
            return true;
    if (why != NULL) {
        fr_note(s->job, "spared", "spare process %d (%s): %s; %s", (int)p->proc.pid, p->comm, what,
                why);
        return false;
    }
    fr_note(s->job, "processes", "end process %d (%s): %s", (int)p->proc.pid, p->comm, what);
    s->ending[s->n_ending++] = p->proc;
    return true;
}

/* ---- who is meant ---- */

static bool is_called(const struct fr_procinfo *p, const char *name)
{
    char path[64], exe[4096];
    size_t len = strlen(name);

    if (len <= COMM_MAX && strcmp(p->comm, name) == 0)
        return true;
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)p->proc.pid);
    ssize_t n = readlink(path, exe, sizeof(exe) - 1);
    if (n <= 0)
        return false;
    exe[n] = '\0';
    char *gone = strstr(exe, " (deleted)");
    if (gone != NULL && gone[sizeof(" (deleted)") - 1] == '\0')
        *gone = '\0';
    const char *slash = strrchr(exe, '/');
    return slash != NULL && strcmp(slash + 1, name) == 0;
}

void fr_stale_named(struct fr_stale *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->procs[i].state != 'Z' && is_called(&s->procs[i], name))
            mark_for_end(s, &s->procs[i], fr_arena_fmt(&s->job->arena, "it is called %s", name));
}

/* Inodes of sockets that listen on port, from /proc/net/tcp and tcp6 (proc(5)); at most max. */
static size_t listeners(const char *path, int64_t port, unsigned long *inodes, size_t max)
{
    struct fr_buf text = {0};
    size_t n = 0;

    if (fr_file_read(path, NET_MAX, &text, NULL) != FR_OK)
        return 0;
    for (char *p = text.p; p != NULL && (p = strchr(p, '\n')) != NULL; p++) {
        unsigned local, state;
        unsigned long inode;
        if (sscanf(p + 1, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*u %*d %lu",
                   &local, &state, &inode) == 3 &&
            state == 0x0a && local == port && n < max)
            inodes[n++] = inode;
    }
    fr_buf_finish(&text);
    return n;
}

static bool holds_socket(pid_t pid, const unsigned long *inodes, size_t n)
{
    char path[64], target[64];
    DIR *d;
    struct dirent *e;
    bool found = false;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    if ((d = opendir(path)) == NULL)
        return false;
    while (!found && (e = readdir(d)) != NULL) {
        unsigned long inode;
        ssize_t k = readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);
        target[k > 0 ? k : 0] = '\0';
        if (sscanf(target, "socket:[%lu]", &inode) != 1)
            continue;
        for (size_t i = 0; i < n; i++)
            found = found || inodes[i] == inode;
    }
    closedir(d);
    return found;
}

enum fr_rc fr_stale_port(struct fr_stale *s, int64_t port, struct fr_err *err)
{
    unsigned long inodes[64];
    size_t n = listeners("/proc/net/tcp", port, inodes, 32), holders = 0;
    enum fr_rc rc = FR_OK;

    n += listeners("/proc/net/tcp6", port, inodes + n, 32);
    for (size_t i = 0; n > 0 && i < s->n; i++) {
        const struct fr_procinfo *p = &s->procs[i];
        if (!holds_socket(p->proc.pid, inodes, n))
            continue;
        holders++;
        if (!mark_for_end(
                s, p, fr_arena_fmt(&s->job->arena, "it listens on port %lld", (long long)port)) &&
            !s->shared && rc == FR_OK)
            rc = fr_fail(err, FR_BUSY,
                         "port %lld is held by process %d (%s) of %s, which is spared: %s",
                         (long long)port, (int)p->proc.pid, p->comm, fr_owner_name(s->job, p->uid),
                         spared(s, p));
    }
    if (n > 0 && holders == 0 && !s->shared)
        rc = fr_fail(err, FR_BUSY,
                     "port %lld is held by a process that this user cannot see; root "
                     "finds it by: ss -ltnp sport = :%lld",
                     (long long)port, (long long)port);
    return rc;
}

/* ---- the end of them ---- */

static bool is_gone(struct fr_proc proc)
{
    char path[64], state = 'Z';
    struct fr_buf text = {0};

    if (fr_sys.kill(proc, 0) != 0 && errno == ESRCH)
        return true;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)proc.pid);
    if (fr_file_read(path, 8192, &text, NULL) == FR_OK && text.n > 0) {
        const char *shut = strrchr(text.p, ')');
        state = shut != NULL && shut[1] == ' ' ? shut[2] : 'R';
    }
    fr_buf_finish(&text);
    return state == 'Z' || state == 'X';
}

/* Waits until all are gone or until_ms has come. Returns how many are left, moved to the front. */
static size_t wait_gone(struct fr_stale *s, size_t n, int64_t until_ms)
{
    for (;;) {
        size_t left = 0;
        for (size_t i = 0; i < n; i++)
            if (!is_gone(s->ending[i]))
                s->ending[left++] = s->ending[i];
        n = left;
        if (n == 0 || fr_sys.mono_ms() >= until_ms)
            return n;
        fr_sys.poll(NULL, 0, TICK_MS);
    }
}

enum fr_rc fr_stale_end(struct fr_stale *s, int64_t grace_ms, struct fr_err *err)
{
    struct fr_buf denied = {0}, left_text = {0};
    size_t left = s->n_ending;
    enum fr_rc rc = FR_OK;

    if (s->job->dry_run || left == 0)
        return FR_OK;
    for (size_t i = 0; i < left; i++)
        if (fr_sys.kill(s->ending[i], SIGTERM) != 0 && errno == EPERM)
            fr_buf_fmt(&denied, "%skill -TERM %d", denied.n > 0 ? "; " : "", (int)s->ending[i].pid);
    left = wait_gone(s, left, fr_sys.mono_ms() + grace_ms);
    for (size_t i = 0; i < left; i++)
        fr_sys.kill(s->ending[i], SIGKILL);
    if (left > 0)
        left = wait_gone(s, left, fr_sys.mono_ms() + GONE_MS);
    for (size_t i = 0; i < left; i++)
        fr_buf_fmt(&left_text, "%s%d", i > 0 ? ", " : "", (int)s->ending[i].pid);
    json_object_set_new(s->job->did, "ended", json_integer((json_int_t)(s->n_ending - left)));
    if (left > 0 && denied.n > 0)
        rc = fr_fail(err, FR_DENIED, "processes %s are still there; this needs root: %s",
                     left_text.p, denied.p);
    else if (left > 0)
        rc = fr_fail(err, FR_BUSY, "processes %s are still there after SIGKILL", left_text.p);
    fr_buf_finish(&denied);
    fr_buf_finish(&left_text);
    return rc;
}

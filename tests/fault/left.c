#include "tests/fault/left.h"

#include "engine/supervise/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { PATH_ROOM = 1024, CGROUP_AGE_S = 120 };

int left_running(const char *dir)
{
    char want[220];
    DIR *d = opendir("/proc");
    int n = 0;

    snprintf(want, sizeof(want), "W=%s", dir);
    for (struct dirent *x; (x = readdir(d)) != NULL;) {
        static char text[65536];
        char path[300];
        ssize_t k;

        snprintf(path, sizeof(path), "/proc/%.20s/environ", x->d_name);
        int fd =
            x->d_name[0] >= '0' && x->d_name[0] <= '9' && strtol(x->d_name, NULL, 10) != getpid()
                ? open(path, O_RDONLY | O_CLOEXEC)
                : -1;
        if (fd < 0)
            continue;
        k = read(fd, text, sizeof(text) - 1);
        close(fd);
        for (ssize_t at = 0; at < k; at += (ssize_t)strlen(text + at) + 1) {
            text[k] = '\0';
            if (strcmp(text + at, want) == 0) {
                n++;
                break;
            }
        }
    }
    closedir(d);
    return n;
}

static bool among(const char *const *names, const char *name)
{
    while (*names != NULL && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

/* Whether the first n bytes of name are a line of known. */
static bool is_line(const char *known, const char *name, size_t n)
{
    for (const char *p = known; p != NULL; p = strchr(p, '\n'), p += p != NULL)
        if (strncmp(p, name, n) == 0 && p[n] == '\n')
            return true;
    return false;
}

/* Over SSH a machine's home is called ID-HOST. */
static bool is_home(const char *name)
{
    struct utsname host;

    return uname(&host) == 0 && strspn(name, "0123456789abcdef") == 12 && name[12] == '-' &&
           strcmp(name + 13, host.nodename) == 0;
}

static bool belongs(const char *folder, const char *name, const char *known)
{
    static const char *const passing[] = {"s", "tmp", "spool", "store", NULL};
    static const char *const fixed[] = {
        "blobs", "nodes", "runs",      "spool",        "a",
        "log",   "s",     "store",     "tmp",          "work",
        "n1",    "n2",    "n3",        "flowrun",      "journal",
        "lock",  "swept", "state.db",  "state.db-wal", "state.db-shm",
        "r",     "begun", "host.lock", "machines",     NULL};
    static const char *const ends[] = {".idx", ".out", ".lock", "", NULL};
    size_t n = strlen(name);

    if (among(passing, folder))
        return false;
    if (strcmp(folder, "r") == 0)
        return true; /* a lock that a serve holds until it ends, or that a later one prunes */
    if (strcmp(folder, "machines") == 0) /* by the id of a node's home */
        return n == 32 && strspn(name, "0123456789abcdef") == n;
    if (among(fixed, name) || (strcmp(folder, "flowrun") == 0 && is_home(name)))
        return true;
    for (size_t i = 0; ends[i] != NULL; i++) {
        size_t k = strlen(ends[i]);
        if (n > k && strcmp(name + n - k, ends[i]) == 0 && is_line(known, name, n - k))
            return true;
    }
    return false;
}

int left_files(const char *dir, const char *known)
{
    const char *folder = strrchr(dir, '/') + 1;
    DIR *d = opendir(dir);
    int n = 0;

    for (struct dirent *x; d != NULL && (x = readdir(d)) != NULL;) {
        char path[PATH_ROOM];
        if (strcmp(x->d_name, ".") == 0 || strcmp(x->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof(path), "%s/%s", dir, x->d_name);
        if (!belongs(folder, x->d_name, known)) {
            printf("no row knows %s\n", path);
            n++;
        } else if (x->d_type == DT_DIR) {
            n += left_files(path, known);
        }
    }
    if (d != NULL)
        closedir(d);
    return n;
}

static void set_back(int dir, const char *name, time_t age_s)
{
    const struct timespec then = {.tv_sec = time(NULL) - age_s};

    utimensat(dir, name, (const struct timespec[2]){then, then}, 0);
}

void left_cgroup_make(const char *name, char out[256])
{
    char own[FR_NODE_PATH];

    out[0] = '\0';
    if (fr_cgroup_own(own) && snprintf(out, 256, "%s/%s", own, name) < 256 && mkdir(out, 0755) == 0)
        return;
    out[0] = '\0';
}

/* Those of supervisors; old: they are made so. */
static int count(const char *path, bool old)
{
    DIR *d = opendir(path);
    int n = 0;

    for (struct dirent *x; d != NULL && (x = readdir(d)) != NULL;)
        if (strncmp(x->d_name, "flowrun-", 8) == 0) {
            n++;
            if (old)
                set_back(dirfd(d), x->d_name, CGROUP_AGE_S);
        }
    if (d != NULL)
        closedir(d);
    return n;
}

int left_cgroup_remove(const char *path, int *later)
{
    int n;

    *later = 0;
    if (path[0] == '\0')
        return 0;
    *later = count(path, true);
    fr_cgroup_tidy(path);
    n = count(path, false);
    *later -= n;
    return rmdir(path) == 0 ? n : n + 1;
}

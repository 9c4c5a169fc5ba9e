#include "tasks/sweep.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The pattern below its root, and the root in root; NULL when it is below none. */
static const char *split_root(const char *pattern, char root[PATH_MAX])
{
    const char *home = fr_env("HOME", NULL);
    const char *roots[3] = {"/dev/shm", "/tmp", NULL};
    char nv[PATH_MAX], full[PATH_MAX];
    bool tilde = fr_has_prefix(pattern, "~/");

    if (home != NULL && snprintf(nv, sizeof(nv), "%s/.nv", home) < (int)sizeof(nv))
        roots[2] = nv;
    if (tilde && (home == NULL ||
                  snprintf(full, sizeof(full), "%s%s", home, pattern + 1) >= (int)sizeof(full)))
        return NULL;
    for (int i = 0; i < 3; i++) {
        size_t n = roots[i] != NULL ? strlen(roots[i]) : 0;
        const char *text = tilde ? full : pattern;
        if (n > 0 && strncmp(text, roots[i], n) == 0 && text[n] == '/' && text[n + 1] != '\0') {
            snprintf(root, PATH_MAX, "%s", roots[i]);
            return pattern + strlen(pattern) - strlen(text + n + 1);
        }
    }
    return NULL;
}

enum fr_rc fr_sweep_check(const char *pattern, struct fr_err *err)
{
    char root[PATH_MAX];
    const char *p = split_root(pattern, root);

    if (p == NULL)
        return fr_fail(err, FR_USAGE, "globs: '%s' is not below /dev/shm, /tmp or ~/.nv", pattern);
    for (size_t n; *p != '\0'; p += n + (p[n] == '/')) {
        n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return fr_fail(err, FR_USAGE, "globs: '%s' has a part that is empty, . or ..", pattern);
    }
    return FR_OK;
}

/* ---- what is in use ---- */

static void add_open_files(struct fr_sweep *s, const char *pid)
{
    char path[64], target[PATH_MAX];
    DIR *d;
    struct dirent *e;

    for (int maps = 0; maps < 2; maps++) {
        snprintf(path, sizeof(path), "/proc/%.20s/%s", pid, maps ? "map_files" : "fd");
        if ((d = opendir(path)) == NULL)
            continue;
        while ((e = readdir(d)) != NULL) {
            ssize_t n = readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);
            if (n > 0 && target[0] == '/') {
                fr_buf_add(&s->used, target, (size_t)n);
                fr_buf_add(&s->used, "\n", 1);
            }
        }
        closedir(d);
    }
}

/* Whether some process has path, or something below it, open. Files of processes that this user may
 * not look at are not seen. */
static bool in_use(struct fr_sweep *s, const char *path)
{
    size_t n = strlen(path);

    if (!s->looked) {
        DIR *d = opendir("/proc");
        struct dirent *e;
        while (d != NULL && (e = readdir(d)) != NULL)
            if (isdigit((unsigned char)e->d_name[0]))
                add_open_files(s, e->d_name);
        if (d != NULL)
            closedir(d);
        s->looked = true;
    }
    for (const char *p = s->used.p; p != NULL && (p = strstr(p, path)) != NULL; p += n)
        if ((p == s->used.p || p[-1] == '\n') && (p[n] == '\n' || p[n] == '/'))
            return true;
    return false;
}

/* ---- the walk ---- */

static enum fr_rc remove_at(struct fr_sweep *s, int dir, const char *name, struct fr_err *err);

static enum fr_rc empty_folder(struct fr_sweep *s, int dir, const char *name, struct fr_err *err)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;
    enum fr_rc rc = FR_OK;

    if (d == NULL) {
        int saved = errno;
        if (fd >= 0)
            close(fd);
        return fr_fail_errno(err, saved, "cannot look into the folder %s", name);
    }
    while (rc == FR_OK && (e = readdir(d)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = remove_at(s, dirfd(d), e->d_name, err);
    closedir(d);
    return rc;
}

/* Removes name in dir, a folder with all that is in it; others' files stay. */
static enum fr_rc remove_at(struct fr_sweep *s, int dir, const char *name, struct fr_err *err)
{
    struct stat st;
    enum fr_rc rc = FR_OK;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return FR_OK; /* already removed */
    if (st.st_uid != s->owner) {
        s->spared++;
        return FR_OK;
    }
    if (S_ISDIR(st.st_mode))
        rc = empty_folder(s, dir, name, err);
    if (rc == FR_OK && unlinkat(dir, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) != 0 &&
        errno != ENOENT && errno != ENOTEMPTY)
        rc = fr_fail_errno(err, errno, "cannot remove %s", name);
    return rc;
}

static enum fr_rc take(struct fr_sweep *s, int dir, const char *path, struct fr_err *err)
{
    const char *name = strrchr(path, '/') + 1, *why = NULL;
    enum fr_stale_name whose = fr_stale_name(s->stale, name);
    struct stat st;
    enum fr_rc rc = FR_OK;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return FR_OK;
    if (st.st_uid != s->owner)
        why = "it has another owner";
    else if (whose == FR_NAME_LIVE)
        why = "its name is that of a live attempt";
    else if (in_use(s, path))
        why = "a process has it open";
    else if (s->stale->shared && whose != FR_NAME_ENDED)
        why = "other nodes or jobs share the machine: only files named by this node's own attempts "
              "are "
              "removed";
    if (why != NULL) {
        fr_note(s->job, "spared", "spare %s: %s", path, why);
        s->spared++;
        return FR_OK;
    }
    fr_note(s->job, "files", "remove %s", path);
    if (!s->job->dry_run)
        rc = remove_at(s, dir, name, err);
    s->removed += rc == FR_OK;
    return rc == FR_OK ? FR_OK : fr_while(err, "%s", path);
}

/* Entries of the folder dir (path) that match the first part of pattern; closes dir. */
static enum fr_rc walk(struct fr_sweep *s, int dir, const char *path, const char *pattern,
                       struct fr_err *err)
{
    size_t n = strcspn(pattern, "/");
    const char *part = fr_arena_text(&s->job->arena, pattern, n);
    const char *rest = pattern[n] == '/' ? pattern + n + 1 : NULL;
    DIR *d = fdopendir(dir);
    struct dirent *e;
    enum fr_rc rc = FR_OK;

    if (d == NULL || part == NULL) {
        if (d != NULL)
            closedir(d);
        else
            close(dir);
        return fr_fail(err, FR_NOMEM, "no memory to look into %s", path);
    }
    while (rc == FR_OK && (e = readdir(d)) != NULL) {
        char full[PATH_MAX];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            fnmatch(part, e->d_name, FNM_PERIOD) != 0 ||
            snprintf(full, sizeof(full), "%s/%s", path, e->d_name) >= (int)sizeof(full))
            continue;
        if (rest == NULL) {
            rc = take(s, dirfd(d), full, err);
            continue;
        }
        int below = openat(dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below >= 0)
            rc = walk(s, below, full, rest, err);
    }
    closedir(d);
    return rc;
}

enum fr_rc fr_sweep_pattern(struct fr_sweep *s, const char *pattern, struct fr_err *err)
{
    char root[PATH_MAX];
    const char *rest = split_root(pattern, root);
    enum fr_rc rc = fr_sweep_check(pattern, err);
    int fd;

    if (rc != FR_OK)
        return rc;
    fd = open(root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return FR_OK;
    return walk(s, fd, root, rest, err);
}

void fr_sweep_finish(struct fr_sweep *s)
{
    fr_buf_finish(&s->used);
}

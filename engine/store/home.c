#include "engine/store/home.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOCK_PATIENCE_MS = 1000, LOCK_TICK_MS = 10 };

enum fr_rc fr_home_find(struct fr_buf *out, struct fr_err *err)
{
    static const struct {
        const char *var, *below;
    } places[] = {
        {"FLOWRUN_HOME", ""}, {"XDG_STATE_HOME", "/flowrun"}, {"HOME", "/.local/state/flowrun"}};

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        const char *value = getenv(places[i].var);
        char here[PATH_MAX];

        if (value == NULL || value[0] == '\0')
            continue;
        if (value[0] != '/') {
            if (getcwd(here, sizeof(here)) == NULL)
                return fr_fail_errno(err, errno, "finding the current folder");
            fr_buf_fmt(out, "%s/", here);
        }
        fr_buf_fmt(out, "%s%s", value, places[i].below);
        return out->bad ? fr_fail(err, FR_NOMEM, "no memory for a path") : FR_OK;
    }
    return fr_fail(err, FR_USAGE, "no place for the state of runs: set FLOWRUN_HOME to a folder");
}

enum fr_rc fr_home_resolve(struct fr_buf *home, struct fr_err *err)
{
    char real[PATH_MAX];
    enum fr_rc rc = fr_mkdirs(home->p, 0700, err);

    if (rc != FR_OK)
        return fr_while(err, "the home");
    if (realpath(home->p, real) == NULL)
        return fr_fail_errno(err, errno, "finding where %s is", home->p);
    home->n = 0;
    fr_buf_text(home, real);
    return home->bad ? fr_fail(err, FR_NOMEM, "no memory for a path") : FR_OK;
}

enum fr_rc fr_home_make(const char *home, struct fr_err *err)
{
    static const char *const below[] = {"", "/blobs", "/begun", "/runs", "/spool"};
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < sizeof(below) / sizeof(below[0]); i++) {
        struct fr_buf path = {0};

        fr_buf_fmt(&path, "%s%s", home, below[i]);
        rc = path.bad ? fr_fail(err, FR_NOMEM, "no memory for a path")
                      : fr_mkdirs(path.p, 0700, err);
        if (rc == FR_OK && i > 0)
            rc = fr_check_unlinked(path.p, strlen(home), err);
        fr_buf_finish(&path);
        if (rc == FR_OK && i == 0)
            rc = fr_check_local(home, "set FLOWRUN_HOME to", err);
    }
    return rc;
}

void fr_home_at(const char *home, enum fr_home_file what, struct fr_id run, struct fr_buf *out)
{
    static const struct {
        const char *dir, *suffix;
    } shape[] = {
        [FR_HOME_LOCK] = {"runs", ".lock"},
        [FR_HOME_SOCK] = {"runs", ".sock"},
        [FR_HOME_RUN] = {"runs", ""},
        [FR_HOME_SPOOL] = {"spool", ""},
    };
    char id[FR_ID_TEXT];

    fr_id_text(run, id);
    fr_buf_fmt(out, "%s/%s/%s%s", home, shape[what].dir, id, shape[what].suffix);
}

static int open_lock(const char *home, struct fr_id run, struct fr_err *err)
{
    struct fr_buf path = {0};
    int fd = -1;

    fr_home_at(home, FR_HOME_LOCK, run, &path);
    if (path.bad) {
        fr_fail(err, FR_NOMEM, "no memory for a path");
    } else {
        fd = fr_sys.open(path.p, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
        if (fd < 0)
            fr_fail_errno(err, errno, "opening %s", path.p);
    }
    fr_buf_finish(&path);
    return fd;
}

/* A process that dies leaves its locks to what it has forked and what has not yet become another
 * program: this passes at once. Who really owns a run keeps it. */
static int lock_patiently(int fd)
{
    int64_t end = fr_sys.mono_ms() + LOCK_PATIENCE_MS;
    int rc;

    while ((rc = fr_sys.lock(fd)) != 0 && (errno == EAGAIN || errno == EACCES) &&
           fr_sys.mono_ms() < end)
        fr_sys.poll(NULL, 0, LOCK_TICK_MS);
    return rc;
}

enum fr_rc fr_home_own(const char *home, struct fr_id run, int *fd, struct fr_err *err)
{
    struct fr_err local;
    char id[FR_ID_TEXT];

    *fd = open_lock(home, run, err != NULL ? err : &local);
    if (*fd < 0)
        return err != NULL ? err->rc : local.rc;
    if (lock_patiently(*fd) != 0) {
        int e = errno;

        fr_sys.close(*fd);
        *fd = -1;
        fr_id_text(run, id);
        if (e == EAGAIN || e == EACCES)
            return fr_fail(err, FR_BUSY,
                           "run %.8s is owned by another flowrun that is still alive; "
                           "'flowrun logs %.8s -f' follows it, 'flowrun cancel %.8s' stops it",
                           id, id, id);
        return fr_fail_errno(err, e, "locking run %.8s", id);
    }
    return FR_OK;
}

bool fr_home_owned(const char *home, struct fr_id run)
{
    int fd = open_lock(home, run, NULL);
    bool owned = fd >= 0 && fr_sys.locked(fd) == 1;

    if (fd >= 0)
        fr_sys.close(fd);
    return owned;
}

enum fr_rc fr_home_notify(const char *home, struct fr_id run, struct fr_err *err)
{
    struct fr_buf path = {0};
    enum fr_rc rc = FR_OK;
    int fd;

    fr_home_at(home, FR_HOME_SOCK, run, &path);
    if (path.bad)
        return fr_fail(err, FR_NOMEM, "no memory for a path");
    fd = fr_sys.connect_unix(path.p);
    if (fd < 0 && errno != EAGAIN) /* full: it will look anyway */
        rc = fr_fail(err, FR_NOTFOUND, "no process owns this run");
    else if (fd >= 0)
        fr_sys.close(fd);
    fr_buf_finish(&path);
    return rc;
}

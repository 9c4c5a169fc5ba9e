#include "engine/supervise/home.h"

#include "engine/base/file.h"
#include "engine/base/owner.h"
#include "engine/base/sys.h"
#include "engine/supervise/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { LOCK_TICK_MS = 20 };

void fr_fd_close(int *fd)
{
    if (*fd >= 0)
        fr_sys.close(*fd);
    *fd = -1;
}

static enum fr_rc share_lock(struct fr_node_home *h, struct fr_err *err)
{
    int64_t until = fr_sys.mono_ms() + FR_HOME_WAIT_MS;
    char path[FR_NODE_PATH];

    snprintf(path, sizeof(path), "%s/lock", h->path);
    h->lock = fr_sys.open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
    if (h->lock < 0)
        return fr_fail_errno(err, errno, "cannot open %s", path);
    while (fr_sys.lock_shared(h->lock) != 0) {
        if (errno != EAGAIN && errno != EACCES)
            return fr_fail_errno(err, errno, "cannot lock %s", path);
        if (fr_sys.mono_ms() >= until)
            return fr_fail(err, FR_BUSY, "another flownode tidies up %s for longer than %d s",
                           h->path, FR_HOME_WAIT_MS / 1000);
        fr_sys.poll(NULL, 0, LOCK_TICK_MS);
    }
    return FR_OK;
}

bool fr_home_alone(struct fr_node_home *h)
{
    return fr_sys.lock(h->lock) == 0;
}

void fr_home_share(struct fr_node_home *h)
{
    fr_sys.lock_shared(h->lock);
}

enum fr_rc fr_home_open(struct fr_node_home *h, const char *path, struct fr_err *err)
{
    static const char *const folders[] = {"", "/log", "/s", "/a", "/r", "/store", "/tmp", "/work"};
    char full[FR_NODE_PATH];
    struct stat st;
    enum fr_rc rc;

    *h = (struct fr_node_home){.journal = -1, .lock = -1};
    if (strlen(path) >= sizeof(h->path) || path[0] == '\0')
        return fr_fail(err, FR_USAGE, "the home of a node needs a path of 1 to %d bytes: \"%s\"",
                       FR_HOME_MAX - 1, path);
    memcpy(h->path, path, strlen(path) + 1);
    if (fr_sys.boot_id(h->boot) != 0)
        return fr_fail(err, FR_IO, "cannot read the boot id of this machine");
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        snprintf(full, sizeof(full), "%s%s", path, folders[i]);
        if (fr_mkdirs(full, 0700, err) != FR_OK)
            return fr_while(err, "home of the node");
        if (i > 0 && i + 1 < sizeof(folders) / sizeof(folders[0]) && /* work may lie elsewhere */
            fr_sys.lstat(full, &st) == 0 && !S_ISDIR(st.st_mode))
            return fr_fail(err, FR_DENIED,
                           "%s is a symbolic link, which flowrun has not made: remove it", full);
        if (i == 0 && ((rc = fr_check_local(path, "give the node as work: folder", err)) != FR_OK ||
                       (rc = fr_check_private(path, "the folder",
                                              "give the node another work: folder", err)) != FR_OK))
            return fr_while(err, "home of the node");
    }
    if ((rc = share_lock(h, err)) != FR_OK)
        return rc;
    snprintf(full, sizeof(full), "%s/journal", path);
    return fr_journal_open(full, &h->journal, err);
}

void fr_home_close(struct fr_node_home *h)
{
    fr_fd_close(&h->journal);
    fr_fd_close(&h->lock);
}

void fr_home_path(const char *home, enum fr_home_kind kind, struct fr_id attempt,
                  char out[FR_NODE_PATH])
{
    static const struct {
        const char *folder, *suffix;
    } kinds[] = {[FR_HOME_LOG] = {"log", ""},       [FR_HOME_INDEX] = {"log", ".idx"},
                 [FR_HOME_TAIL] = {"log", ".tail"}, [FR_HOME_METRICS] = {"log", ".metrics"},
                 [FR_HOME_SOCKET] = {"s", ""},      [FR_HOME_DIR] = {"a", ""},
                 [FR_HOME_OUTPUT] = {"a", ".out"}};
    char id[FR_ID_TEXT];

    fr_id_text(attempt, id);
    snprintf(out, FR_NODE_PATH, "%s/%s/%s%s", home, kinds[kind].folder, id, kinds[kind].suffix);
}

int fr_home_file(const char *home, enum fr_home_kind kind, struct fr_id attempt, int flags)
{
    char path[FR_NODE_PATH];

    fr_home_path(home, kind, attempt, path);
    return fr_sys.open(path, flags | O_NOFOLLOW, 0600);
}

uint64_t fr_home_bytes(const char *home, enum fr_home_kind kind, struct fr_id attempt)
{
    char path[FR_NODE_PATH];
    struct stat st;

    fr_home_path(home, kind, attempt, path);
    return fr_sys.lstat(path, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

void fr_home_unlink(const char *home, enum fr_home_kind kind, struct fr_id attempt)
{
    char path[FR_NODE_PATH];

    fr_home_path(home, kind, attempt, path);
    fr_sys.unlink(path);
}

bool fr_home_plain(const char *home, const char *path)
{
    char part[FR_NODE_PATH];
    struct stat st;

    if (strlen(path) >= sizeof(part))
        return false;
    for (size_t i = strlen(home) + 1; path[i] != '\0'; i++) {
        if (path[i] != '/')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (fr_sys.lstat(part, &st) != 0)
            return true; /* not there yet */
        if (!S_ISDIR(st.st_mode))
            return false;
    }
    return true;
}

/* Closes fd. False for -1. */
static bool is_locked(int fd)
{
    bool held = fd >= 0 && fr_sys.locked(fd) == 1;

    fr_fd_close(&fd);
    return held;
}

bool fr_home_alive(const char *home, struct fr_id attempt)
{
    return is_locked(fr_home_file(home, FR_HOME_LOG, attempt, O_RDWR));
}

static void run_path(const char *home, struct fr_id run, char out[FR_NODE_PATH])
{
    char id[FR_ID_TEXT];

    fr_id_text(run, id);
    snprintf(out, FR_NODE_PATH, "%s/r/%s", home, id);
}

enum fr_rc fr_home_hold_run(const char *home, struct fr_id run, int *fd, struct fr_err *err)
{
    char path[FR_NODE_PATH];
    int e;

    run_path(home, run, path);
    for (;;) {
        *fd = fr_sys.open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
        if (*fd < 0)
            return fr_fail_errno(err, errno, "cannot open %s", path);
        e = fr_sys.lock_shared(*fd) == 0 ? 0 : errno;
        if (e == 0 && fr_file_is_named(*fd, path))
            return FR_OK;
        fr_sys.close(*fd);
        *fd = -1;
        if (e != 0)
            return fr_fail_errno(err, e, "cannot lock %s", path);
    }
}

bool fr_home_run_driven(const char *home, struct fr_id run)
{
    char path[FR_NODE_PATH];

    run_path(home, run, path);
    return is_locked(fr_sys.open(path, O_RDWR | O_NOFOLLOW, 0));
}

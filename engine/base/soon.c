/* Files that users name, on file systems that may not answer any more: each call runs in a thread,
 * which is abandoned if it takes too long (fr_sys.within). */
#include "engine/base/file.h"

#include "engine/base/sys.h"
#include "engine/base/thread.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct asked {
    char *path; /* owns */
    size_t max_bytes;
    struct fr_buf text; /* owns */
    struct stat st;
    char real[PATH_MAX];
    int failed;
    struct fr_err err;
};

static void drop(void *arg)
{
    struct asked *a = arg;

    if (a == NULL)
        return;
    fr_buf_finish(&a->text);
    fr_sys.free(a->path);
    fr_sys.free(a);
}

static struct asked *ask_of(const char *path)
{
    struct asked *a = fr_sys.alloc(sizeof(*a));

    if (a == NULL)
        return NULL;
    *a = (struct asked){.path = fr_sys.alloc(strlen(path) + 1)};
    if (a->path == NULL) {
        drop(a);
        return NULL;
    }
    memcpy(a->path, path, strlen(path) + 1);
    return a;
}

static void read_it(void *arg)
{
    struct asked *a = arg;

    (void)fr_file_read(a->path, a->max_bytes, &a->text, &a->err);
}

static void look_at_it(void *arg)
{
    struct asked *a = arg;
    struct stat st;

    a->failed = fr_sys.lstat(a->path, &a->st) == 0 ? 0 : errno;
    if (a->failed == 0 && S_ISLNK(a->st.st_mode) && realpath(a->path, a->real) != NULL &&
        fr_sys.lstat(a->real, &st) == 0)
        a->st = st;
}

static void follow_it(void *arg)
{
    struct asked *a = arg;

    a->failed = realpath(a->path, a->real) != NULL ? 0 : errno;
}

enum fr_rc fr_file_silent(const char *path, struct fr_err *err)
{
    return fr_fail(err, FR_TIMEOUT, "%s: its file system does not answer within %d s", path,
                   FR_FILE_SOON_MS / 1000);
}

/* On failure the thread owns a. */
static enum fr_rc wait_for(struct asked *a, void (*run)(void *arg), const char *path,
                           struct fr_err *err)
{
    if (fr_sys.within(FR_FILE_SOON_MS, run, drop, a) == 1)
        return FR_OK;
    if (errno == EINTR)
        return fr_fail(err, FR_STOPPED, "stopped while it waited for %s", path);
    if (errno == EAGAIN)
        return fr_fail(err, FR_TIMEOUT,
                       "%s is not looked at: %d threads hang already (does a file system not "
                       "answer?)",
                       path, FR_THREADS_LEFT);
    if (errno == ENOMEM)
        return fr_fail(err, FR_NOMEM, "no thread to look at %s", path);
    return fr_file_silent(path, err);
}

enum fr_rc fr_file_read_soon(const char *path, size_t max_bytes, struct fr_buf *out,
                             struct fr_err *err)
{
    struct asked *a = ask_of(path);
    enum fr_rc rc;

    if (a == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to read %s", path);
    a->max_bytes = max_bytes;
    if ((rc = wait_for(a, read_it, path, err)) != FR_OK)
        return rc;
    if ((rc = a->err.rc) != FR_OK)
        fr_fail(err, rc, "%s", a->err.msg);
    else
        fr_buf_add(out, a->text.p != NULL ? a->text.p : "", a->text.n);
    if (rc == FR_OK && out->bad)
        rc = fr_fail(err, FR_NOMEM, "no memory to read %s", path);
    drop(a);
    return rc;
}

/* *out is asked to run and has answered; the caller drops it. */
static enum fr_rc look(const char *path, void (*run)(void *arg), struct asked **out,
                       struct fr_err *err)
{
    *out = ask_of(path);
    return *out != NULL ? wait_for(*out, run, path, err)
                        : fr_fail(err, FR_NOMEM, "no memory to look at %s", path);
}

enum fr_rc fr_file_look_soon(const char *path, struct stat *st, int *failed, struct fr_err *err)
{
    struct asked *a;
    enum fr_rc rc = look(path, look_at_it, &a, err);

    if (rc != FR_OK)
        return rc;
    *st = a->st;
    *failed = a->failed;
    drop(a);
    return FR_OK;
}

enum fr_rc fr_file_real_soon(const char *path, char *out, int *failed, struct fr_err *err)
{
    struct asked *a;
    enum fr_rc rc = look(path, follow_it, &a, err);

    if (rc != FR_OK)
        return rc;
    memcpy(out, a->real, sizeof(a->real));
    *failed = a->failed;
    drop(a);
    return FR_OK;
}

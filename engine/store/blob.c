#include "engine/store/blob.h"

#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum { BLOB_GET_MAX = 64 << 20, COPY_BYTES = 64 << 10, LEFT_S = 3600 };

void fr_blob_path(const char *home, const char *hash, struct fr_buf *out)
{
    fr_buf_fmt(out, "%s/blobs/%s", home, hash);
}

static bool there(const char *path)
{
    struct stat st;

    return fr_sys.lstat(path, &st) == 0;
}

enum fr_rc fr_blob_put(const char *home, struct fr_str data, char hash[FR_SHA256_TEXT],
                       struct fr_err *err)
{
    struct fr_buf path = {0};
    enum fr_rc rc = FR_OK;

    fr_sha256(data.p, data.n, hash);
    fr_blob_path(home, hash, &path);
    if (path.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for a path");
    else if (!there(path.p))
        rc = fr_file_write(path.p, data.p, data.n, 0600, err);
    fr_buf_finish(&path);
    return rc;
}

/* Copies in to out, both open. */
static enum fr_rc copy_fd(int in, int out, const char *path, struct fr_err *err)
{
    char *chunk = fr_sys.alloc(COPY_BYTES);
    enum fr_rc rc = FR_OK;
    ssize_t n = 0;

    if (chunk == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to copy %s", path);
    while (rc == FR_OK && (n = fr_sys.read(in, chunk, COPY_BYTES)) != 0) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = fr_fail_errno(err, errno, "reading %s", path);
        else if (!fr_write_full(out, chunk, (size_t)n))
            rc = fr_fail_errno(err, errno, "copying %s into the home", path);
    }
    if (rc == FR_OK && fr_sys.fdatasync(out) != 0)
        rc = fr_fail_errno(err, errno, "copying %s into the home", path);
    fr_sys.free(chunk);
    return rc;
}

static enum fr_rc copy_in(const char *path, const char *temp, struct fr_err *err)
{
    enum fr_rc rc;
    int in = fr_sys.open(path, O_RDONLY, 0);
    int out;

    if (in < 0)
        return fr_fail_errno(err, errno, "opening %s", path);
    out = fr_sys.open(temp, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (out < 0) {
        rc = fr_fail_errno(err, errno, "making %s", temp);
    } else {
        rc = copy_fd(in, out, path, err);
        fr_sys.close(out);
    }
    fr_sys.close(in);
    return rc;
}

enum fr_rc fr_blob_put_file(const char *home, const char *path, char hash[FR_SHA256_TEXT],
                            struct fr_err *err)
{
    struct fr_buf target = {0}, temp = {0}, dir = {0};
    char copied[FR_SHA256_TEXT], unique[FR_ID_TEXT];
    struct fr_id id;
    enum fr_rc rc = fr_sha256_file(path, hash, err);

    if (rc != FR_OK || (rc = fr_id_new(&id, err)) != FR_OK)
        return rc;
    fr_id_text(id, unique);
    fr_blob_path(home, hash, &target);
    fr_buf_fmt(&temp, "%s/blobs/.%s", home, unique);
    fr_buf_fmt(&dir, "%s/blobs", home);
    if (target.bad || temp.bad || dir.bad) {
        rc = fr_fail(err, FR_NOMEM, "no memory for a path");
        goto out;
    }
    if (there(target.p))
        goto out;
    if ((rc = copy_in(path, temp.p, err)) == FR_OK &&
        (rc = fr_sha256_file(temp.p, copied, err)) == FR_OK) {
        if (strcmp(copied, hash) != 0)
            rc = fr_fail(err, FR_USAGE, "%s changed while it was copied", path);
        else if (fr_sys.rename(temp.p, target.p) != 0)
            rc = fr_fail_errno(err, errno, "naming %s", target.p);
        else
            rc = fr_sync_dir(dir.p, err);
    }
    if (rc != FR_OK)
        fr_sys.unlink(temp.p);
out:
    fr_buf_finish(&target);
    fr_buf_finish(&temp);
    fr_buf_finish(&dir);
    return rc;
}

enum fr_rc fr_blob_get(const char *home, const char *hash, struct fr_buf *out, struct fr_err *err)
{
    struct fr_buf path = {0};
    char got[FR_SHA256_TEXT];
    size_t before = out->n;
    enum fr_rc rc;

    fr_blob_path(home, hash, &path);
    if (path.bad)
        return fr_fail(err, FR_NOMEM, "no memory for a path");
    rc = fr_file_read(path.p, BLOB_GET_MAX, out, err);
    if (rc == FR_OK) {
        fr_sha256(out->p != NULL ? out->p + before : "", out->n - before, got);
        if (strcmp(got, hash) != 0)
            rc = fr_fail(err, FR_CORRUPT, "%s does not hold what its name says", path.p);
    }
    fr_buf_finish(&path);
    return rc;
}

void fr_blob_tidy(const char *home)
{
    struct fr_buf path = {0};
    char **names;
    struct stat st;
    size_t n;

    fr_blob_path(home, "", &path);
    if (path.bad || fr_sys.list(path.p, &names, &n) != 0) {
        fr_buf_finish(&path);
        return;
    }
    for (size_t i = 0, dir = path.n; i < n; i++) {
        if (names[i][0] != '.' && strstr(names[i], ".tmp-") == NULL)
            continue;
        path.n = dir;
        fr_buf_text(&path, names[i]);
        if (!path.bad && fr_sys.lstat(path.p, &st) == 0 &&
            fr_sys.wall_ms() / 1000 - st.st_mtim.tv_sec > LEFT_S)
            fr_sys.unlink(path.p);
    }
    fr_sys_names_free(names, n);
    fr_buf_finish(&path);
}

#include "engine/store/blob.h"

#include "engine/base/str.h"
#include "engine/base/sys.h"
#include "engine/store/sql.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { BLOB_GET_MAX = 64 << 20, COPY_BYTES = 64 << 10, SWEEP_AT_ONCE = 64 };

void fr_blob_path(const char *home, const char *hash, struct fr_buf *out)
{
    fr_buf_fmt(out, "%s/blobs/%s", home, hash);
}

static bool there(const char *path)
{
    struct stat st;

    return fr_sys.lstat(path, &st) == 0;
}

struct fr_claims *fr_blob_claims(struct fr_store *st)
{
    return st->claims;
}

enum fr_rc fr_blob_claim(struct fr_claims *claims, const char *home, struct fr_id run,
                         const char *hash, bool *is_there, struct fr_err *err)
{
    struct fr_buf path = {0};
    enum fr_rc rc = fr_claims_add(claims, run, hash, err);

    fr_blob_path(home, hash, &path);
    if (rc == FR_OK && path.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for a path");
    *is_there = rc == FR_OK && there(path.p);
    fr_buf_finish(&path);
    return rc;
}

enum fr_rc fr_blob_sync(const char *home, struct fr_err *err)
{
    struct fr_buf path = {0};
    enum fr_rc rc;

    fr_buf_fmt(&path, "%s/blobs", home);
    rc = path.bad ? fr_fail(err, FR_NOMEM, "no memory for a path") : fr_sync_dir(path.p, err);
    fr_buf_finish(&path);
    return rc;
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
    else
        rc = there(path.p) ? fr_blob_sync(home, err)
                           : fr_file_write(path.p, data.p, data.n, 0600, err);
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
    int in, out;
    enum fr_rc rc = fr_file_open(path, &in, NULL, err);

    if (rc != FR_OK)
        return rc;
    out = fr_sys.open(temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
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
    if (there(target.p)) {
        rc = fr_blob_sync(home, err);
        goto out;
    }
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

/* ---- what a killed flowrun leaves ---- */

static void mark_path(const char *home, struct fr_id run, struct fr_buf *out)
{
    char id[FR_ID_TEXT];

    fr_id_text(run, id);
    fr_buf_fmt(out, "%s/begun/%s", home, id);
}

static enum fr_rc make_mark(const struct fr_buf *path, struct fr_err *err)
{
    int fd = path->bad ? -1 : fr_sys.open(path->p, O_WRONLY | O_CREAT | O_NOFOLLOW, 0600);

    if (path->bad)
        return fr_fail(err, FR_NOMEM, "no memory for a path");
    if (fd < 0)
        return fr_fail_errno(err, errno, "making %s", path->p);
    fr_sys.close(fd);
    return FR_OK;
}

/* The mark of a host that was killed before it had the run is followed by one that stays: what that
 * host has stored is of no row. */
enum fr_rc fr_blob_mark(const char *home, struct fr_id run, struct fr_err *err)
{
    struct fr_buf path = {0};
    enum fr_rc rc;

    mark_path(home, run, &path);
    if (!path.bad && there(path.p))
        fr_buf_text(&path, ".before");
    rc = make_mark(&path, err);
    fr_buf_finish(&path);
    return rc;
}

enum fr_rc fr_blob_mark_again(const char *home, struct fr_id run, struct fr_err *err)
{
    struct fr_buf path = {0};
    enum fr_rc rc = FR_OK;

    mark_path(home, run, &path);
    if (path.bad || !there(path.p))
        rc = make_mark(&path, err);
    fr_buf_finish(&path);
    return rc;
}

void fr_blob_unmark(const char *home, struct fr_id run)
{
    struct fr_buf path = {0};

    mark_path(home, run, &path);
    if (!path.bad)
        fr_sys.unlink(path.p);
    fr_buf_finish(&path);
}

/* Half a blob: of a flowrun at work or of a killed one. */
static bool unfinished(const char *name)
{
    return name[0] == '.' || strstr(name, ".tmp-") != NULL;
}

static bool whole(const char *name)
{
    return strlen(name) == FR_SHA256_TEXT - 1 &&
           strspn(name, "0123456789abcdef") == FR_SHA256_TEXT - 1;
}

struct hashes { /* that rows name, sorted */
    const char **v;
    size_t n;
};

static enum fr_rc read_hashes(struct fr_store *st, struct fr_arena *arena, struct hashes *out,
                              struct fr_err *err)
{
    enum fr_rc rc = fr_sql_query(st, SQL_HASH_LIST, err, "");

    while (fr_sql_next(st, SQL_HASH_LIST, &rc, err)) {
        const char *text = fr_sql_text(st, SQL_HASH_LIST, 0, arena);

        out->v = fr_arena_grow(arena, out->v, out->n, sizeof(*out->v));
        if (out->v == NULL || text == NULL) {
            fr_sql_end(st, SQL_HASH_LIST);
            return fr_fail(err, FR_NOMEM, "no memory for rows of the store");
        }
        out->v[out->n++] = text;
    }
    return rc;
}

static bool known(const struct hashes *hashes, const char *name)
{
    return hashes->n > 0 &&
           bsearch(&name, hashes->v, hashes->n, sizeof(*hashes->v), fr_by_text) != NULL;
}

/* Adds the blob to out, unless that is NULL; without dry, removes it. */
static enum fr_rc take_blob(struct fr_store *st, const char *name, bool dry, struct fr_swept *out,
                            struct fr_err *err)
{
    struct fr_buf path = {0};
    enum fr_rc rc = FR_OK;
    struct stat at;
    int e = 0;

    fr_blob_path(st->home, name, &path);
    if (path.bad)
        return fr_fail(err, FR_NOMEM, "no memory for a path");
    if (out != NULL && fr_sys.lstat(path.p, &at) == 0) {
        out->files++;
        out->bytes += at.st_size;
    }
    if (!dry && (e = fr_claims_unlink(st->claims, name, path.p)) != 0 && e != ENOENT)
        rc = fr_fail_errno(err, e, "removing %s", path.p);
    fr_buf_finish(&path);
    return rc;
}

enum fr_rc fr_blob_drop(struct fr_store *st, const char *hash, struct fr_err *err)
{
    bool yes = false;
    enum fr_rc rc = whole(hash) ? fr_sql_yes(st, SQL_BLOB_NAMED, &yes, err, "t", hash) : FR_OK;

    return rc == FR_OK && whole(hash) && !yes ? take_blob(st, hash, false, NULL, err) : rc;
}

/* Under the write lock nobody else stores a blob, so a half-written one is left over. */
static enum fr_rc sweep_some(struct fr_store *st, char *const *names, size_t n,
                             struct fr_swept *out, struct fr_err *err)
{
    enum fr_rc rc = fr_store_begin(st, err);
    bool yes = false;

    if (rc != FR_OK)
        return rc;
    for (size_t i = 0; rc == FR_OK && i < n; i++) {
        rc = whole(names[i]) ? fr_sql_yes(st, SQL_BLOB_NAMED, &yes, err, "t", names[i]) : FR_OK;
        if (rc == FR_OK && !(whole(names[i]) && yes))
            rc = take_blob(st, names[i], false, out, err);
    }
    fr_store_rollback(st);
    return rc;
}

/* Moves the names that no row knows to the front. */
static size_t unknown_first(const struct hashes *hashes, char **names, size_t n)
{
    size_t first = 0;

    for (size_t i = 0; i < n; i++)
        if (unfinished(names[i]) || (whole(names[i]) && !known(hashes, names[i]))) {
            char *name = names[i];

            names[i] = names[first];
            names[first++] = name;
        }
    return first;
}

enum fr_rc fr_blob_sweep(struct fr_store *st, bool dry, struct fr_swept *out, struct fr_err *err)
{
    struct fr_buf path = {0};
    struct fr_arena arena = {0};
    struct hashes hashes = {0};
    char **names = NULL;
    size_t n = 0, unknown = 0;
    enum fr_rc rc = FR_OK;

    fr_blob_path(st->home, "", &path);
    if (path.bad)
        return fr_fail(err, FR_NOMEM, "no memory for a path");
    if (fr_sys.list(path.p, &names, &n) != 0)
        rc = fr_fail_errno(err, errno, "listing %s", path.p);
    if (rc == FR_OK && (rc = read_hashes(st, &arena, &hashes, err)) == FR_OK)
        unknown = unknown_first(&hashes, names, n);
    for (size_t i = 0; rc == FR_OK && dry && i < unknown; i++)
        rc = take_blob(st, names[i], true, out, err);
    for (size_t i = 0; rc == FR_OK && !dry && i < unknown; i += SWEEP_AT_ONCE)
        rc = sweep_some(st, names + i, unknown - i < SWEEP_AT_ONCE ? unknown - i : SWEEP_AT_ONCE,
                        out, err);
    fr_sys_names_free(names, n);
    fr_arena_finish(&arena);
    fr_buf_finish(&path);
    return rc;
}

/* The marks at a moment in which nobody stores blobs: all of their blobs are complete. */
static enum fr_rc list_marks(struct fr_store *st, const char *folder, char ***names, size_t *n)
{
    enum fr_rc rc;

    *names = NULL;
    *n = 0;
    if (fr_sys.list(folder, names, n) != 0)
        return FR_IO;
    if (*n == 0)
        return FR_OK;
    fr_sys_names_free(*names, *n);
    *names = NULL;
    *n = 0;
    if ((rc = fr_store_begin(st, NULL)) != FR_OK)
        return rc;
    if (fr_sys.list(folder, names, n) != 0)
        rc = FR_IO;
    fr_store_rollback(st);
    return rc;
}

void fr_blob_tidy(struct fr_store *st)
{
    struct fr_buf path = {0};
    char **marks = NULL;
    size_t n = 0, dir;

    fr_buf_fmt(&path, "%s/begun/", st->home);
    dir = path.n;
    if (!path.bad && list_marks(st, path.p, &marks, &n) == FR_OK && n > 0 &&
        fr_blob_sweep(st, false, NULL, NULL) == FR_OK)
        for (size_t i = 0; i < n; i++) {
            path.n = dir;
            fr_buf_text(&path, marks[i]);
            if (!path.bad)
                fr_sys.unlink(path.p);
        }
    fr_sys_names_free(marks, n);
    fr_buf_finish(&path);
}

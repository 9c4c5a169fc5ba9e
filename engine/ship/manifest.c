#include "engine/ship/manifest.h"

#include "engine/base/str.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEPTH_MAX = 32,
    REL_MAX = FR_PATH_INNER_MAX - FR_SHA256_TEXT, /* HASH/REL is a place */
    IGNORE_MAX = 64 << 10,                        /* bytes of FR_IGNORE_FILE */
    PIECE_BYTES = 64 << 10,                       /* hashed in one step */
    TICK_S = 2,                                   /* at most: of the clock of a file system */
};

static const struct fr_manifest_copy *copy_of(const struct fr_manifest *l, const char *path)
{
    for (size_t i = 0; i < l->n_copies; i++)
        if (strcmp(l->copies[i].path, path) == 0)
            return &l->copies[i];
    return NULL;
}

static enum fr_rc hash_file(struct fr_manifest *l, const char *path, char hash[FR_SHA256_TEXT],
                            struct fr_err *err)
{
    struct fr_hash *h = NULL;
    bool done = false;
    enum fr_rc rc = fr_hash_open(path, &h, err);

    while (rc == FR_OK && !done) {
        rc = fr_hash_step(h, PIECE_BYTES, &done, hash, err);
        l->steps++;
    }
    fr_hash_close(h);
    return rc;
}

static void note_looks(struct fr_manifest *l, const struct fr_ship_file *f, const struct stat *st)
{
    fr_buf_fmt(&l->seen, "%llu %llu %llu %lld.%ld %lld.%ld %o %s//%s\n",
               (unsigned long long)st->st_dev, (unsigned long long)st->st_ino,
               (unsigned long long)st->st_size, (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec,
               (long long)st->st_ctim.tv_sec, st->st_ctim.tv_nsec, f->mode, f->local, f->path);
    if (st->st_ctim.tv_sec > l->newest_s)
        l->newest_s = st->st_ctim.tv_sec;
}

static enum fr_rc add_file(struct fr_manifest *l, const char *path,
                           const struct fr_manifest_copy *copy, const char *rel, struct fr_err *err)
{
    struct fr_ship_file *files = fr_arena_grow(&l->arena, l->files, l->n, sizeof(*files));
    struct stat st;

    if (files == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a file to ship");
    if (strlen(rel) > REL_MAX)
        return fr_fail(err, FR_USAGE, "a path of %zu bytes; a node takes at most %d: %s",
                       strlen(rel), REL_MAX, path);
    l->files = files;
    if (copy != NULL)
        path = copy->at;
    if (fr_sys.lstat(path, &st) != 0)
        return fr_fail_errno(err, errno, "looking at %s", path);
    files[l->n] = (struct fr_ship_file){
        .local = path,
        .path = rel,
        .size = (uint64_t)st.st_size,
        .mode = ((copy != NULL ? copy->mode : st.st_mode) & 0111) != 0 ? 0755 : 0644};
    note_looks(l, &files[l->n++], &st);
    return FR_OK;
}

static enum fr_rc visit(struct fr_manifest *l, const char *path, const char *rel, int depth,
                        struct fr_err *err);

static enum fr_rc visit_folder(struct fr_manifest *l, const char *path, const char *rel, int depth,
                               struct fr_err *err)
{
    char **names;
    size_t n;
    enum fr_rc rc = FR_OK;

    if (depth > DEPTH_MAX)
        return fr_fail(err, FR_USAGE, "%s is nested deeper than %d folders", path, DEPTH_MAX);
    if (fr_sys.list(path, &names, &n) != 0)
        return fr_fail_errno(err, errno, "listing %s", path);
    qsort(names, n, sizeof(*names), fr_by_text);
    for (size_t i = 0; rc == FR_OK && i < n; i++) {
        const char *sub = fr_arena_fmt(&l->arena, "%s/%s", path, names[i]);
        const char *below = fr_arena_fmt(&l->arena, "%s%s%s", rel, rel[0] ? "/" : "", names[i]);

        rc = sub != NULL && below != NULL ? visit(l, sub, below, depth + 1, err)
                                          : fr_fail(err, FR_NOMEM, "no memory for a path");
    }
    fr_sys_names_free(names, n);
    return rc;
}

/* path and rel are in the arena. */
static enum fr_rc visit(struct fr_manifest *l, const char *path, const char *rel, int depth,
                        struct fr_err *err)
{
    const struct fr_manifest_copy *copy = copy_of(l, path);
    char target[PATH_MAX];
    struct stat st;

    l->steps++;
    if (copy == NULL && fr_sys.lstat(path, &st) != 0)
        return fr_fail_errno(err, errno, "looking at %s", path);
    if (copy == NULL && S_ISLNK(st.st_mode)) { /* its target is shipped under the link's name */
        if (realpath(path, target) == NULL || fr_sys.lstat(target, &st) != 0)
            return fr_fail_errno(err, errno, "following the link %s", path);
        if ((path = fr_arena_dup(&l->arena, target)) == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for a path");
        copy = copy_of(l, path);
    }
    if (l->folder && rel[0] != '\0' &&
        fr_ignored(&l->ignore, rel, copy == NULL && S_ISDIR(st.st_mode)))
        return FR_OK;
    if (copy != NULL || S_ISREG(st.st_mode))
        return add_file(l, path, copy, rel, err);
    if (!S_ISDIR(st.st_mode))
        return fr_fail(err, FR_USAGE,
                       "%s is %s, which has no content to ship; expected files and folders", path,
                       fr_file_kind(st.st_mode));
    return visit_folder(l, path, rel, depth, err);
}

/* Hashes all, unless they look as before. A file that was changed a moment ago may change again and
 * look the same: its clock has ticks. */
static enum fr_rc hash_all(struct fr_manifest *l, int64_t began_s, struct fr_err *err)
{
    char looks[FR_SHA256_TEXT] = "";
    enum fr_rc rc = FR_OK;

    if (l->seen.bad)
        return fr_fail(err, FR_NOMEM, "no memory for files to ship");
    if (l->newest_s < began_s - TICK_S)
        fr_sha256(l->seen.p != NULL ? l->seen.p : "", l->seen.n, looks);
    l->same = looks[0] != '\0' && strcmp(looks, l->looks) == 0;
    memcpy(l->looks, looks, sizeof(looks));
    for (size_t i = 0; !l->same && rc == FR_OK && i < l->n; i++) {
        char *hash = fr_arena_alloc(&l->arena, FR_SHA256_TEXT);

        rc = hash != NULL ? hash_file(l, l->files[i].local, hash, err)
                          : fr_fail(err, FR_NOMEM, "no memory for a file to ship");
        l->files[i].sha256 = hash;
    }
    return rc;
}

enum fr_rc fr_ship_name(struct fr_ship_file *v, size_t n, struct fr_arena *arena, char *hash,
                        struct fr_err *err)
{
    struct fr_buf all = {0};
    bool ok;

    for (size_t i = 0; i < n; i++)
        fr_buf_fmt(&all, "%o %s %s\n", v[i].mode, v[i].sha256, v[i].path);
    if ((ok = !all.bad))
        fr_sha256(all.p != NULL ? all.p : "", all.n, hash);
    for (size_t i = 0; ok && i < n; i++)
        ok = (v[i].path = fr_arena_fmt(arena, "%s/%s", hash, v[i].path)) != NULL;
    fr_buf_finish(&all);
    return ok ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for a path");
}

static enum fr_rc read_ignore(struct fr_manifest *l, struct fr_err *err)
{
    const char *file = fr_arena_fmt(&l->arena, "%s/%s", l->path, FR_IGNORE_FILE);
    struct fr_buf text = {0};
    struct stat st;
    enum fr_rc rc = FR_OK;
    bool ok = file != NULL;

    if (ok && fr_sys.lstat(file, &st) == 0)
        rc = fr_file_read(file, IGNORE_MAX, &text, err);
    if (rc == FR_OK && ok && text.n > 0)
        ok = fr_ignore_lines(&l->ignore, (struct fr_str){text.p, text.n}, &l->arena);
    for (size_t i = 0; ok && i < l->n_exclude; i++)
        ok = fr_ignore_add(&l->ignore, fr_str_of(l->exclude[i]), &l->arena);
    fr_buf_finish(&text);
    return rc != FR_OK || ok ? rc : fr_fail(err, FR_NOMEM, "no memory for files to ship");
}

enum fr_rc fr_manifest_make(struct fr_manifest *l, struct fr_err *err)
{
    const char *slash = strrchr(l->path, '/');
    int64_t began_s = fr_sys.wall_ms() / 1000;
    struct stat st = {0};
    enum fr_rc rc = FR_OK;

    l->kept = copy_of(l, l->path) != NULL;
    if (!l->kept && fr_sys.lstat(l->path, &st) != 0)
        return fr_fail_errno(err, errno, "%s, which is to be shipped", l->path);
    l->folder = S_ISDIR(st.st_mode);
    if (l->folder)
        rc = read_ignore(l, err);
    if (rc == FR_OK)
        rc = visit(l, l->path, l->folder ? "" : slash != NULL ? slash + 1 : l->path, 0, err);
    if (rc == FR_OK)
        rc = hash_all(l, began_s, err);
    fr_buf_finish(&l->seen);
    return rc == FR_OK && !l->same ? fr_ship_name(l->files, l->n, &l->arena, l->hash, err) : rc;
}

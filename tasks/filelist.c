#include "tasks/filelist.h"

#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 20 };

static struct fr_listed *add(struct fr_job *job, struct fr_filelist *list)
{
    if (list->n == list->cap) {
        size_t cap = list->cap == 0 ? 64 : 2 * list->cap;
        struct fr_listed *more = fr_arena_array(&job->arena, cap, sizeof(*more));
        if (more == NULL)
            return NULL;
        if (list->n > 0)
            memcpy(more, list->v, list->n * sizeof(*more));
        list->v = more;
        list->cap = cap;
    }
    return &list->v[list->n++];
}

/* rel: "" for the folder itself. */
static enum fr_rc walk(struct fr_job *job, const char *folder, const char *rel,
                       struct fr_filelist *list, struct fr_err *err)
{
    const char *dir = fr_arena_fmt(&job->arena, "%s/%s", folder, rel);
    char **names = NULL;
    size_t n = 0;
    enum fr_rc rc = FR_OK;

    if (dir == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to list %s", folder);
    if (fr_sys.list(dir, &names, &n) != 0)
        return fr_fail_errno(err, errno, "cannot look into %s", dir);
    for (size_t i = 0; rc == FR_OK && i < n; i++) {
        const char *below =
            fr_arena_fmt(&job->arena, "%s%s%s", rel, rel[0] != '\0' ? "/" : "", names[i]);
        const char *path = fr_arena_fmt(&job->arena, "%s/%s", folder, below);
        struct stat st;
        if (below == NULL || path == NULL)
            rc = fr_fail(err, FR_NOMEM, "no memory to list %s", folder);
        else if (fr_sys.lstat(path, &st) != 0)
            rc = fr_fail_errno(err, errno, "cannot look at %s", path);
        else if (S_ISDIR(st.st_mode))
            rc = walk(job, folder, below, list, err);
        else if (!S_ISREG(st.st_mode))
            rc = fr_fail(err, FR_USAGE, "%s is neither a file nor a folder", path);
        else {
            struct fr_listed *f = add(job, list);
            rc = f == NULL ? fr_fail(err, FR_NOMEM, "no memory to list %s", folder)
                           : fr_sha256_file(path, f->sha256, err);
            if (f != NULL) {
                f->path = below;
                f->bytes = st.st_size;
            }
        }
    }
    fr_sys_names_free(names, n);
    return rc;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct fr_listed *)a)->path, ((const struct fr_listed *)b)->path);
}

enum fr_rc fr_filelist_make(struct fr_job *job, const char *folder, struct fr_filelist *out,
                            struct fr_err *err)
{
    enum fr_rc rc;

    *out = (struct fr_filelist){.v = NULL};
    rc = walk(job, folder, "", out, err);
    if (rc == FR_OK && out->n > 0)
        qsort(out->v, out->n, sizeof(out->v[0]), by_path);
    return rc;
}

json_t *fr_filelist_json(const struct fr_filelist *list)
{
    json_t *all = json_array();

    for (size_t i = 0; all != NULL && i < list->n; i++)
        if (json_array_append_new(all, json_pack("{s:s, s:I, s:s}", "path", list->v[i].path,
                                                 "bytes", (json_int_t)list->v[i].bytes, "sha256",
                                                 list->v[i].sha256)) != 0) {
            json_decref(all);
            return NULL;
        }
    return all;
}

static enum fr_rc copy_file(const char *from, const char *to, struct fr_err *err)
{
    int in, out = -1;
    char *piece = fr_sys.alloc(PIECE);
    enum fr_rc rc = fr_file_open_plain(from, &in, err);
    ssize_t k = 0;

    if (rc != FR_OK)
        fr_while(err, "copying");
    else if ((out = fr_sys.open(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0644)) < 0)
        rc = fr_fail_errno(err, errno, "cannot make %s", to);
    else if (piece == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory to copy %s", from);
    while (rc == FR_OK && (k = fr_sys.read(in, piece, PIECE)) != 0) {
        if (k < 0 && errno != EINTR)
            rc = fr_fail_errno(err, errno, "cannot read %s", from);
        else if (k > 0 && !fr_write_full(out, piece, (size_t)k))
            rc = fr_fail_errno(err, errno, "cannot write %s", to);
    }
    if (rc == FR_OK && fr_sys.fdatasync(out) != 0)
        rc = fr_fail_errno(err, errno, "cannot write %s", to);
    if (in >= 0)
        fr_sys.close(in);
    if (out >= 0)
        fr_sys.close(out);
    fr_sys.free(piece);
    return rc;
}

enum fr_rc fr_filelist_copy(struct fr_job *job, const struct fr_listed *f, const char *source,
                            const char *target, struct fr_err *err)
{
    const char *from = fr_arena_fmt(&job->arena, "%s/%s", source, f->path);
    char *to = fr_arena_fmt(&job->arena, "%s/%s", target, f->path);
    char hash[FR_SHA256_TEXT], *slash = to != NULL ? strrchr(to, '/') : NULL;
    enum fr_rc rc;

    if (from == NULL || slash == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a path");
    *slash = '\0';
    rc = fr_mkdirs(to, 0755, err);
    *slash = '/';
    if (rc == FR_OK)
        rc = copy_file(from, to, err);
    if (rc == FR_OK)
        rc = fr_sha256_file(to, hash, err);
    if (rc == FR_OK && strcmp(hash, f->sha256) != 0)
        rc = fr_fail(err, FR_CORRUPT, "%s changed while it was copied", from);
    /* its name, and those of the folders that may have been made for it */
    for (size_t n = strlen(target); rc == FR_OK && slash != NULL && slash >= to + n;
         slash = strrchr(to, '/')) {
        *slash = '\0';
        rc = fr_sync_dir(to, err);
    }
    return rc;
}

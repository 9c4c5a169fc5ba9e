/* Small control-side files are copied into the store at submit, so that a resume uses the same
 * content. */
#include "engine/run/inside.h"

#include <string.h>

enum { KEEP_BYTES = 1 << 20 };

enum fr_rc run_blob_begin(struct fr_run *run, const char *hash, bool *there, struct fr_err *err)
{
    enum fr_rc rc = fr_blob_claim(run->env.claims, run->home, run->id, hash, there, err);

    run->found = run->found || *there;
    if (rc != FR_OK || *there || run->marked)
        return rc;
    rc = fr_blob_mark(run->home, run->id, err);
    run->marked = rc == FR_OK;
    return rc;
}

/* The file is read once before, with a time limit: later reads find it in memory. */
static enum fr_rc keep_file(struct fr_run *run, const char *path, char hash[FR_SHA256_TEXT],
                            struct fr_err *err)
{
    struct fr_buf text = {0};
    bool there = false;
    enum fr_rc rc = fr_file_read_soon(path, KEEP_BYTES, &text, err);

    fr_buf_finish(&text);
    if (rc == FR_OK)
        rc = fr_sha256_file(path, hash, err);

    if (rc == FR_OK)
        rc = run_blob_begin(run, hash, &there, err);
    return rc == FR_OK && !there ? fr_blob_put_file(run->home, path, hash, err) : rc;
}

static enum fr_rc keep(struct fr_run *run, const char *path, const struct stat *st,
                       struct fr_err *err)
{
    char *hash = fr_arena_alloc(&run->arena, FR_SHA256_TEXT);
    struct fr_file_row *rows =
        fr_arena_grow(&run->arena, run->files.rows, run->files.n, sizeof(*rows));

    if (rows == NULL || hash == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a file to keep");
    run->files.rows = rows;
    rows[run->files.n] = (struct fr_file_row){
        .path = path, .hash = hash, .mode = st->st_mode & 0777, .bytes = st->st_size};
    enum fr_rc rc = keep_file(run, path, hash, err);
    run->files.n += rc == FR_OK;
    return rc;
}

/* A file that is missing now is made by a task of the run (check.c checked that). A path of which
 * no copy was kept gets none later: what is shipped of it then is compared (shipped.c). */
static enum fr_rc stage_one(struct fr_run *run, const struct fr_text *text, struct fr_err *err)
{
    struct stat st;

    if (text->expr != NULL || text->s == NULL || fr_has_prefix(text->s, "node:") ||
        run_kept(run, text->s) || run_shipped_before(run, text->s) ||
        fr_sys.lstat(text->s, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > KEEP_BYTES)
        return FR_OK;
    return keep(run, text->s, &st, err);
}

enum fr_rc run_stage(struct fr_run *run, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (uint32_t t = 0; rc == FR_OK && t < run->plan->n_tasks; t++) {
        const struct fr_task *task = run->plan->tasks[t].spec;

        for (size_t i = 0; rc == FR_OK && i < task->n_files; i++)
            rc = stage_one(run, &task->files[i].value, err);
        for (size_t i = 0; rc == FR_OK && i < task->act.n_with; i++) {
            const struct fr_with *w = &task->act.with[i];

            if (w->key->type == FR_T_PATH && w->n == 1)
                rc = stage_one(run, &w->items[0].value, err);
        }
    }
    return rc == FR_OK && run->found ? fr_blob_sync(run->home, err) : rc;
}

bool run_kept(const struct fr_run *run, const char *path)
{
    for (size_t i = 0; i < run->files.n; i++)
        if (strcmp(run->files.rows[i].path, path) == 0)
            return true;
    return false;
}

static bool add_copy(const struct fr_run *run, const struct fr_file_row *row,
                     struct fr_manifest *out)
{
    struct fr_manifest_copy *copy = &out->copies[out->n_copies];
    struct fr_buf at = {0};

    fr_blob_path(run->home, row->hash, &at);
    copy->path = fr_arena_dup(&out->arena, row->path);
    copy->at = at.bad ? NULL : fr_arena_text(&out->arena, at.p, at.n);
    copy->mode = (uint32_t)row->mode;
    fr_buf_finish(&at);
    out->n_copies++;
    return copy->path != NULL && copy->at != NULL;
}

/* A folder may have links to any of them. */
bool run_copies(void *arg, const char *path, struct fr_manifest *out)
{
    const struct fr_run *run = arg;
    bool one = run_kept(run, path), ok = true;

    out->copies = fr_arena_array(&out->arena, run->files.n + 1, sizeof(*out->copies));
    for (size_t i = 0; out->copies != NULL && ok && i < run->files.n; i++)
        if (!one || strcmp(run->files.rows[i].path, path) == 0)
            ok = add_copy(run, &run->files.rows[i], out);
    return out->copies != NULL && ok;
}

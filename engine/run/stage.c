/* Control-side files: small ones are kept by content at submit, so that a resume uses what was
 * there; all are hashed before they are shipped, once a run. */
#include "engine/run/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEEP_BYTES = 1 << 20,
    DEPTH_MAX = 32,
    SLICE_BYTES = 4 << 20, /* hashed in one turn, some 10 ms */
    FILE_COSTS = 4096,     /* as many bytes as opening a file takes */
};

/* ---- at submit ---- */

static enum fr_rc keep(struct fr_run *run, const char *path, const struct stat *st,
                       struct fr_err *err)
{
    struct fr_file_row row = {.path = path, .mode = st->st_mode & 0777, .bytes = st->st_size};
    char hash[FR_SHA256_TEXT];
    enum fr_rc rc = fr_blob_put_file(run->home, path, hash, err);

    row.hash = hash;
    return rc == FR_OK ? fr_store_file_put(run->env.store, run->id, &row, err) : rc;
}

/* What is not here is still to come (check.c looked). */
static enum fr_rc stage_one(struct fr_run *run, const struct fr_text *text, struct fr_err *err)
{
    struct stat st;

    if (text->expr != NULL || text->s == NULL || fr_has_prefix(text->s, "node:") ||
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
    return rc;
}

/* ---- at start ---- */

bool run_kept(const struct fr_run *run, const char *path)
{
    for (size_t i = 0; i < run->files.n; i++)
        if (strcmp(run->files.rows[i].path, path) == 0)
            return true;
    return false;
}

/* The copy that was kept at submit, else the file itself. */
static const char *source_of(struct fr_run *run, const char *path)
{
    for (size_t i = 0; i < run->files.n; i++)
        if (strcmp(run->files.rows[i].path, path) == 0) {
            struct fr_buf b = {0};
            char *copy;

            fr_blob_path(run->home, run->files.rows[i].hash, &b);
            copy = b.bad ? NULL : fr_arena_text(&run->arena, b.p, b.n);
            fr_buf_finish(&b);
            return copy;
        }
    return path;
}

static enum fr_rc add_file(struct fr_run *run, struct run_ship *ship, const char *path,
                           const char *rel, struct fr_err *err)
{
    struct fr_exec_file *files = run_grow(&run->arena, ship->files, ship->n, sizeof(*files));
    char *hash = fr_arena_alloc(&run->arena, FR_SHA256_TEXT);
    const char *from = source_of(run, path);
    struct stat st, here;

    if (files == NULL || hash == NULL || from == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a file to ship");
    ship->files = files;
    if (fr_sys.lstat(from, &st) != 0)
        return fr_fail_errno(err, errno, "looking at %s", from);
    if (fr_sys.lstat(path, &here) != 0)
        here.st_mode = 0644;
    files[ship->n++] = (struct fr_exec_file){.local = from,
                                             .path = rel,
                                             .sha256 = hash,
                                             .size = (uint64_t)st.st_size,
                                             .mode = (here.st_mode & 0111) != 0 ? 0755 : 0644};
    return FR_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum fr_rc walk(struct fr_run *run, struct run_ship *ship, const char *path, const char *rel,
                       struct fr_err *err)
{
    struct stat st;
    char **names = NULL;
    size_t n = 0;
    enum fr_rc rc = FR_OK;

    if (fr_sys.lstat(path, &st) != 0)
        return fr_fail_errno(err, errno, "looking at %s", path);
    if (S_ISLNK(st.st_mode)) { /* what it names is shipped under the link's name */
        char target[4096];
        if (realpath(path, target) == NULL || (path = fr_arena_dup(&run->arena, target)) == NULL ||
            fr_sys.lstat(path, &st) != 0)
            return fr_fail_errno(err, errno, "following the link %s", path);
    }
    if (S_ISREG(st.st_mode))
        return add_file(run, ship, path, rel, err);
    if (!S_ISDIR(st.st_mode))
        return FR_OK; /* sockets and devices are no content */
    if (ship->depth > DEPTH_MAX)
        return fr_fail(err, FR_USAGE, "%s is nested deeper than %d folders", path, DEPTH_MAX);
    if (fr_sys.list(path, &names, &n) != 0)
        return fr_fail_errno(err, errno, "listing %s", path);
    ship->depth++;
    qsort(names, n, sizeof(*names), by_name);
    for (size_t i = 0; rc == FR_OK && i < n; i++) {
        char *sub = fr_arena_fmt(&run->arena, "%s/%s", path, names[i]);
        char *sub_rel = fr_arena_fmt(&run->arena, "%s%s%s", rel, rel[0] ? "/" : "", names[i]);

        rc = sub != NULL && sub_rel != NULL ? walk(run, ship, sub, sub_rel, err)
                                            : fr_fail(err, FR_NOMEM, "no memory for a path");
    }
    ship->depth--;
    fr_sys_names_free(names, n);
    return rc;
}

/* The hash of all names, modes and contents stands in front of each path. */
static enum fr_rc name_all(struct fr_run *run, struct run_ship *ship, struct fr_err *err)
{
    struct fr_buf all = {0};
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < ship->n; i++)
        fr_buf_fmt(&all, "%o %s %s\n", ship->files[i].mode, ship->files[i].sha256,
                   ship->files[i].path);
    if (!all.bad)
        fr_sha256(all.p != NULL ? all.p : "", all.n, ship->hash);
    for (size_t i = 0; !all.bad && rc == FR_OK && i < ship->n; i++) {
        ship->files[i].path = fr_arena_fmt(&run->arena, "%s/%s", ship->hash, ship->files[i].path);
        if (ship->files[i].path == NULL)
            rc = fr_fail(err, FR_NOMEM, "no memory for a path");
    }
    if (all.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory to hash files");
    fr_buf_finish(&all);
    return rc;
}

/* Hashes at most so many bytes more of its files. */
static enum fr_rc hash_some(struct fr_run *run, struct run_ship *ship, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;
    uint64_t n = 0;

    while (rc == FR_OK && ship->hashed < ship->n && n < SLICE_BYTES) {
        struct fr_exec_file *f = &ship->files[ship->hashed];
        bool done = false;

        if (ship->now == NULL && (rc = fr_hash_open(f->local, &ship->now, err)) != FR_OK)
            break;
        rc = fr_hash_step(ship->now, SLICE_BYTES, &done, (char *)f->sha256, err);
        n += f->size < SLICE_BYTES ? f->size + FILE_COSTS : SLICE_BYTES;
        if (rc == FR_OK && !done)
            continue;
        fr_hash_close(ship->now);
        ship->now = NULL;
        ship->hashed++;
    }
    if (rc == FR_OK && ship->hashed == ship->n && !ship->ready) {
        rc = name_all(run, ship, err);
        ship->ready = rc == FR_OK;
    }
    return rc;
}

bool run_ship_step(struct fr_run *run)
{
    struct run_ship *ship = run->ships;

    while (ship != NULL && (ship->ready || ship->err.rc != FR_OK))
        ship = ship->next;
    return ship == NULL || hash_some(run, ship, &ship->err) != FR_OK || ship->ready;
}

void run_ship_forget(struct fr_run *run)
{
    for (struct run_ship **p = &run->ships; *p != NULL;)
        if ((*p)->err.rc != FR_OK) {
            fr_hash_close((*p)->now);
            *p = (*p)->next;
        } else {
            p = &(*p)->next;
        }
}

static enum fr_rc ship_state(struct run_ship *ship, struct run_ship **out, struct fr_err *err)
{
    if (ship->err.rc != FR_OK) {
        *err = ship->err;
        return err->rc;
    }
    if (!ship->ready)
        return fr_fail(err, FR_BUSY, "%s is being hashed", ship->path);
    *out = ship;
    return FR_OK;
}

enum fr_rc run_ship_path(struct fr_run *run, const char *path, struct run_ship **out,
                         struct fr_err *err)
{
    struct run_ship *ship;
    struct stat st;
    const char *slash;
    enum fr_rc rc;

    for (ship = run->ships; ship != NULL; ship = ship->next)
        if (strcmp(ship->path, path) == 0)
            return ship_state(ship, out, err);
    ship = fr_arena_alloc(&run->arena, sizeof(*ship));
    if (ship == NULL || (ship->path = fr_arena_dup(&run->arena, path)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for files to ship");
    if (fr_sys.lstat(path, &st) != 0)
        return fr_fail_errno(err, errno, "%s, which is to be shipped", path);
    slash = strrchr(path, '/');
    ship->folder = S_ISDIR(st.st_mode);
    rc = walk(run, ship, ship->path, ship->folder ? "" : slash != NULL ? slash + 1 : path, err);
    if (rc == FR_OK)
        rc = hash_some(run, ship, err);
    if (rc != FR_OK) {
        fr_hash_close(ship->now);
        return rc;
    }
    ship->next = run->ships;
    run->ships = ship;
    return ship_state(ship, out, err);
}

static enum fr_rc make_bundle(struct fr_run *run, struct run_bundle *b, struct fr_err *err)
{
    enum fr_rc rc = fr_ship_bundle(&b->bundle, b->program, NULL, err);

    if (rc != FR_OK)
        return rc;
    b->made = true;
    b->files = fr_arena_array(&run->arena, b->bundle.n, sizeof(*b->files));
    if (b->files == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a program to ship");
    for (size_t i = 0; i < b->bundle.n; i++) {
        const struct fr_bundle_file *f = &b->bundle.v[i];

        b->files[i] = (struct fr_exec_file){.local = f->local,
                                            .bytes = fr_str_of(f->bytes),
                                            .sha256 = f->sha256,
                                            .size = f->size,
                                            .mode = f->mode,
                                            .path = f->path};
    }
    return FR_OK;
}

enum fr_rc run_ship_program(struct fr_run *run, const char *name, bool ship,
                            struct run_bundle **out, struct fr_err *err)
{
    struct run_bundle *b;
    struct fr_buf path = {0};
    enum fr_rc rc = FR_OK;

    for (b = run->bundles; b != NULL; b = b->next)
        if (strcmp(b->name, name) == 0)
            break;
    if (b == NULL) {
        b = fr_arena_alloc(&run->arena, sizeof(*b));
        rc = b != NULL ? run->env.program(run->env.program_arg, name, &path, err)
                       : fr_fail(err, FR_NOMEM, "no memory for a program to ship");
        if (rc == FR_OK) {
            b->name = fr_arena_dup(&run->arena, name);
            b->program = path.bad ? NULL : fr_arena_text(&run->arena, path.p, path.n);
            if (b->name == NULL || b->program == NULL)
                rc = fr_fail(err, FR_NOMEM, "no memory for a program to ship");
        }
        fr_buf_finish(&path);
        if (rc != FR_OK)
            return rc;
        b->next = run->bundles;
        run->bundles = b;
    }
    if (ship && !b->made)
        rc = make_bundle(run, b, err);
    *out = b;
    return rc;
}

void run_ship_finish(struct fr_run *run)
{
    for (struct run_ship *ship = run->ships; ship != NULL; ship = ship->next)
        fr_hash_close(ship->now);
    for (struct run_bundle *b = run->bundles; b != NULL; b = b->next)
        if (b->made)
            fr_bundle_finish(&b->bundle);
}

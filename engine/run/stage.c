/* Control-side files: small ones are copied into the store at submit, so that a resume uses the
 * same content; all are hashed before they are shipped, once a run. */
#include "engine/run/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEEP_BYTES = 1 << 20,
    DEPTH_MAX = 32,
    SLICE_BYTES = 1 << 20, /* hashed in one turn, 5 ms */
    SLICE_FILES = 256,     /* looked at in one turn */
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

/* A file that is missing now is made by a task of the run (check.c checked that). */
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
    struct fr_exec_file *files = fr_arena_grow(&run->arena, ship->files, ship->n, sizeof(*files));
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

static enum fr_rc enter(struct fr_run *run, struct run_ship *ship, const char *path,
                        const char *rel, struct fr_err *err)
{
    struct run_dir *d = fr_arena_alloc(&run->arena, sizeof(*d));

    if (d == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a folder");
    if (ship->depth > DEPTH_MAX)
        return fr_fail(err, FR_USAGE, "%s is nested deeper than %d folders", path, DEPTH_MAX);
    *d = (struct run_dir){.up = ship->dir, .path = path, .rel = rel};
    if (fr_sys.list(path, &d->names, &d->n) != 0)
        return fr_fail_errno(err, errno, "listing %s", path);
    qsort(d->names, d->n, sizeof(*d->names), by_name);
    ship->dir = d;
    ship->depth++;
    return FR_OK;
}

static void leave(struct run_ship *ship)
{
    fr_sys_names_free(ship->dir->names, ship->dir->n);
    ship->dir = ship->dir->up;
    ship->depth--;
}

/* path and rel are in the arena. */
static enum fr_rc visit(struct fr_run *run, struct run_ship *ship, const char *path,
                        const char *rel, struct fr_err *err)
{
    struct stat st;

    if (fr_sys.lstat(path, &st) != 0)
        return fr_fail_errno(err, errno, "looking at %s", path);
    if (S_ISLNK(st.st_mode)) { /* its target is shipped under the link's name */
        char target[4096];
        if (realpath(path, target) == NULL || (path = fr_arena_dup(&run->arena, target)) == NULL ||
            fr_sys.lstat(path, &st) != 0)
            return fr_fail_errno(err, errno, "following the link %s", path);
    }
    if (S_ISREG(st.st_mode))
        return add_file(run, ship, path, rel, err);
    if (!S_ISDIR(st.st_mode))
        return FR_OK; /* sockets and devices are no content */
    return enter(run, ship, path, rel, err);
}

/* Lists some more files of its folders. */
static enum fr_rc list_some(struct fr_run *run, struct run_ship *ship, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t n = 0; rc == FR_OK && ship->dir != NULL && n < SLICE_FILES; n++) {
        struct run_dir *d = ship->dir;

        if (d->at == d->n) {
            leave(ship);
            continue;
        }
        const char *name = d->names[d->at++];
        char *sub = fr_arena_fmt(&run->arena, "%s/%s", d->path, name);
        char *rel = fr_arena_fmt(&run->arena, "%s%s%s", d->rel, d->rel[0] ? "/" : "", name);
        rc = sub != NULL && rel != NULL ? visit(run, ship, sub, rel, err)
                                        : fr_fail(err, FR_NOMEM, "no memory for a path");
    }
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
    size_t left = SLICE_BYTES;
    bool done;

    while (rc == FR_OK && ship->hashed < ship->n && left > 0) {
        struct fr_exec_file *f = &ship->files[ship->hashed];

        rc = fr_hash_slice(&ship->now, f->local, &left, &done, (char *)f->sha256, err);
        ship->hashed += rc == FR_OK && done;
    }
    if (rc == FR_OK && ship->hashed == ship->n && !ship->ready) {
        rc = name_all(run, ship, err);
        ship->ready = rc == FR_OK;
    }
    return rc;
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

static enum fr_rc prepare_some(struct fr_run *run, struct run_ship *ship, struct fr_err *err)
{
    enum fr_rc rc = list_some(run, ship, err);

    return rc == FR_OK && ship->dir == NULL ? hash_some(run, ship, err) : rc;
}

static void close_ship(struct run_ship *ship)
{
    fr_hash_close(ship->now);
    ship->now = NULL;
    while (ship->dir != NULL)
        leave(ship);
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
    slash = strrchr(ship->path, '/');
    ship->folder = S_ISDIR(st.st_mode);
    slash = slash != NULL ? slash + 1 : ship->path;
    rc = visit(run, ship, ship->path, ship->folder ? "" : slash, err);
    if (rc == FR_OK)
        rc = prepare_some(run, ship, err);
    if (rc != FR_OK) {
        close_ship(ship);
        return rc;
    }
    ship->next = run->ships;
    run->ships = ship;
    return ship_state(ship, out, err);
}

static void forget_bundle(struct run_bundle *b)
{
    fr_bundle_finish(&b->bundle);
    b->opened = false;
    b->err = (struct fr_err){0};
}

/* Hashes a slice more of the bundle. b->made: it can be shipped. */
static enum fr_rc make_bundle(struct fr_run *run, struct run_bundle *b, struct fr_err *err)
{
    bool done = false;
    enum fr_rc rc = fr_bundle_step(&b->bundle, SLICE_BYTES, &done, err);

    if (rc != FR_OK || !done)
        return rc;
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
    b->made = true;
    return FR_OK;
}

static enum fr_rc want_bundle(struct fr_run *run, struct run_bundle *b, struct fr_err *err)
{
    enum fr_rc rc = b->err.rc;

    if (rc != FR_OK)
        *err = b->err;
    if (rc != FR_OK || b->made)
        return rc;
    if (!b->opened) {
        if ((rc = fr_bundle_open(&b->bundle, b->program, NULL, err)) != FR_OK)
            return rc;
        b->opened = true;
        if ((rc = make_bundle(run, b, err)) != FR_OK) {
            forget_bundle(b);
            return rc;
        }
    }
    return b->made ? FR_OK : fr_fail(err, FR_BUSY, "%s is being hashed", b->program);
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
    if (ship)
        rc = want_bundle(run, b, err);
    *out = b;
    return rc;
}

bool run_ship_step(struct fr_run *run)
{
    struct run_ship *ship = run->ships;
    struct run_bundle *b = run->bundles;

    while (ship != NULL && (ship->ready || ship->err.rc != FR_OK))
        ship = ship->next;
    if (ship != NULL)
        return prepare_some(run, ship, &ship->err) != FR_OK || ship->ready;
    while (b != NULL && (!b->opened || b->made || b->err.rc != FR_OK))
        b = b->next;
    return b == NULL || make_bundle(run, b, &b->err) != FR_OK || b->made;
}

void run_ship_forget(struct fr_run *run)
{
    for (struct run_ship **p = &run->ships; *p != NULL;)
        if ((*p)->err.rc != FR_OK) {
            close_ship(*p);
            *p = (*p)->next;
        } else {
            p = &(*p)->next;
        }
    for (struct run_bundle *b = run->bundles; b != NULL; b = b->next)
        if (b->err.rc != FR_OK)
            forget_bundle(b);
}

void run_ship_finish(struct fr_run *run)
{
    for (struct run_ship *ship = run->ships; ship != NULL; ship = ship->next)
        close_ship(ship);
    for (struct run_bundle *b = run->bundles; b != NULL; b = b->next)
        fr_bundle_finish(&b->bundle);
}

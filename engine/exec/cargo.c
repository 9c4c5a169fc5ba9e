/* What is shipped from control: listed and hashed in slices, once. */
#include "engine/exec/cargo.h"

#include "engine/base/sys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEPTH_MAX = 32,
    IGNORE_MAX = 64 << 10, /* bytes of FR_IGNORE_FILE */
    SLICE_BYTES = 1 << 20, /* hashed in one step, 5 ms */
    SLICE_FILES = 256,     /* looked at in one step */
};

struct fr_cargo_dir { /* a folder that is being listed */
    struct fr_cargo_dir *up;
    const char *path, *rel; /* on control; below what is shipped */
    char **names;           /* owns */
    size_t n, at;
};

struct source {
    const char *path; /* in the arena */
    bool copy;
    uint32_t mode; /* of a copy */
};

static enum fr_rc source_of(struct fr_cargo *c, const char *path, struct source *out,
                            struct fr_err *err)
{
    struct fr_buf b = {0};

    *out = (struct source){.mode = 0};
    out->copy = c->source(c->source_arg, path, &b, &out->mode);
    out->path = b.bad ? NULL : fr_arena_text(c->arena, b.p, b.n);
    fr_buf_finish(&b);
    return out->path != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for a file to ship");
}

static enum fr_rc add_file(struct fr_cargo *c, struct fr_cargo_item *ship,
                           const struct source *from, const char *rel, struct fr_err *err)
{
    struct fr_exec_file *files = fr_arena_grow(c->arena, ship->files, ship->n, sizeof(*files));
    char *hash = fr_arena_alloc(c->arena, FR_SHA256_TEXT);
    struct stat st;

    if (files == NULL || hash == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a file to ship");
    ship->files = files;
    if (fr_sys.lstat(from->path, &st) != 0)
        return fr_fail_errno(err, errno, "looking at %s", from->path);
    if (from->copy)
        st.st_mode = from->mode;
    files[ship->n++] = (struct fr_exec_file){.local = from->path,
                                             .path = rel,
                                             .sha256 = hash,
                                             .size = (uint64_t)st.st_size,
                                             .mode = (st.st_mode & 0111) != 0 ? 0755 : 0644};
    return FR_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum fr_rc enter(struct fr_cargo *c, struct fr_cargo_item *ship, const char *path,
                        const char *rel, struct fr_err *err)
{
    struct fr_cargo_dir *d = fr_arena_alloc(c->arena, sizeof(*d));

    if (d == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a folder");
    if (ship->depth > DEPTH_MAX)
        return fr_fail(err, FR_USAGE, "%s is nested deeper than %d folders", path, DEPTH_MAX);
    *d = (struct fr_cargo_dir){.up = ship->dir, .path = path, .rel = rel};
    if (fr_sys.list(path, &d->names, &d->n) != 0)
        return fr_fail_errno(err, errno, "listing %s", path);
    qsort(d->names, d->n, sizeof(*d->names), by_name);
    ship->dir = d;
    ship->depth++;
    return FR_OK;
}

static void leave(struct fr_cargo_item *ship)
{
    fr_sys_names_free(ship->dir->names, ship->dir->n);
    ship->dir = ship->dir->up;
    ship->depth--;
}

/* path and rel are in the arena. */
static enum fr_rc visit(struct fr_cargo *c, struct fr_cargo_item *ship, const char *path,
                        const char *rel, struct fr_err *err)
{
    struct source from;
    struct stat st;

    if (source_of(c, path, &from, err) != FR_OK)
        return err->rc;
    if (from.copy)
        return add_file(c, ship, &from, rel, err);
    if (fr_sys.lstat(path, &st) != 0)
        return fr_fail_errno(err, errno, "looking at %s", path);
    if (S_ISLNK(st.st_mode)) { /* its target is shipped under the link's name */
        char target[4096];
        if (realpath(path, target) == NULL || (path = fr_arena_dup(c->arena, target)) == NULL ||
            fr_sys.lstat(path, &st) != 0)
            return fr_fail_errno(err, errno, "following the link %s", path);
        if (source_of(c, path, &from, err) != FR_OK)
            return err->rc;
    }
    if (rel[0] != '\0' && ship->folder && fr_ignored(&ship->ignore, rel, S_ISDIR(st.st_mode)))
        return FR_OK;
    if (S_ISREG(st.st_mode))
        return add_file(c, ship, &from, rel, err);
    if (!S_ISDIR(st.st_mode))
        return fr_fail(err, FR_USAGE,
                       "%s is %s, which has no content to ship; expected files and folders", path,
                       fr_file_kind(st.st_mode));
    return enter(c, ship, path, rel, err);
}

/* Lists some more files of its folders. */
static enum fr_rc list_some(struct fr_cargo *c, struct fr_cargo_item *ship, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t n = 0; rc == FR_OK && ship->dir != NULL && n < SLICE_FILES; n++) {
        struct fr_cargo_dir *d = ship->dir;

        if (d->at == d->n) {
            leave(ship);
            continue;
        }
        const char *name = d->names[d->at++];
        char *sub = fr_arena_fmt(c->arena, "%s/%s", d->path, name);
        char *rel = fr_arena_fmt(c->arena, "%s%s%s", d->rel, d->rel[0] ? "/" : "", name);
        rc = sub != NULL && rel != NULL ? visit(c, ship, sub, rel, err)
                                        : fr_fail(err, FR_NOMEM, "no memory for a path");
    }
    return rc;
}

/* The hash of all names, modes and contents stands in front of each path. */
static enum fr_rc name_all(struct fr_cargo *c, struct fr_cargo_item *ship, struct fr_err *err)
{
    struct fr_buf all = {0};
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < ship->n; i++)
        fr_buf_fmt(&all, "%o %s %s\n", ship->files[i].mode, ship->files[i].sha256,
                   ship->files[i].path);
    if (!all.bad)
        fr_sha256(all.p != NULL ? all.p : "", all.n, ship->hash);
    for (size_t i = 0; !all.bad && rc == FR_OK && i < ship->n; i++) {
        ship->files[i].path = fr_arena_fmt(c->arena, "%s/%s", ship->hash, ship->files[i].path);
        if (ship->files[i].path == NULL)
            rc = fr_fail(err, FR_NOMEM, "no memory for a path");
    }
    if (all.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory to hash files");
    fr_buf_finish(&all);
    return rc;
}

/* Hashes at most so many bytes more of its files. */
static enum fr_rc hash_some(struct fr_cargo *c, struct fr_cargo_item *ship, struct fr_err *err)
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
        rc = name_all(c, ship, err);
        ship->ready = rc == FR_OK;
    }
    return rc;
}

static enum fr_rc ship_state(struct fr_cargo_item *ship, struct fr_cargo_item **out,
                             struct fr_err *err)
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

static enum fr_rc prepare_some(struct fr_cargo *c, struct fr_cargo_item *ship, struct fr_err *err)
{
    enum fr_rc rc = list_some(c, ship, err);

    return rc == FR_OK && ship->dir == NULL ? hash_some(c, ship, err) : rc;
}

static void close_ship(struct fr_cargo_item *ship)
{
    fr_hash_close(ship->now);
    ship->now = NULL;
    while (ship->dir != NULL)
        leave(ship);
}

static bool same_patterns(const struct fr_excludes *a, const struct fr_excludes *b)
{
    size_t n = a != NULL ? a->n : 0;

    if (n != (b != NULL ? b->n : 0))
        return false;
    for (size_t i = 0; i < n; i++)
        if (strcmp(a->v[i], b->v[i]) != 0)
            return false;
    return true;
}

/* What of the folder is left out. */
static enum fr_rc read_ignore(struct fr_cargo *c, struct fr_cargo_item *ship, struct fr_err *err)
{
    const char *file = fr_arena_fmt(c->arena, "%s/%s", ship->path, FR_IGNORE_FILE);
    struct fr_buf text = {0};
    struct stat st;
    enum fr_rc rc = FR_OK;
    bool ok = file != NULL;

    if (ok && fr_sys.lstat(file, &st) == 0)
        rc = fr_file_read(file, IGNORE_MAX, &text, err);
    if (rc == FR_OK && ok && text.n > 0)
        ok = fr_ignore_lines(&ship->ignore, (struct fr_str){text.p, text.n}, c->arena);
    for (size_t i = 0; ok && ship->exclude != NULL && i < ship->exclude->n; i++)
        ok = fr_ignore_add(&ship->ignore, fr_str_of(ship->exclude->v[i]), c->arena);
    fr_buf_finish(&text);
    return rc != FR_OK || ok ? rc : fr_fail(err, FR_NOMEM, "no memory for files to ship");
}

enum fr_rc fr_cargo_path(struct fr_cargo *c, const char *path, const struct fr_excludes *exclude,
                         struct fr_cargo_item **out, struct fr_err *err)
{
    struct fr_cargo_item *ship;
    struct stat st = {0};
    struct source from;
    const char *slash;
    enum fr_rc rc;

    for (ship = c->items; ship != NULL; ship = ship->next)
        if (strcmp(ship->path, path) == 0 && same_patterns(ship->exclude, exclude))
            return ship_state(ship, out, err);
    ship = fr_arena_alloc(c->arena, sizeof(*ship));
    if (ship == NULL || (ship->path = fr_arena_dup(c->arena, path)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for files to ship");
    if ((rc = source_of(c, path, &from, err)) != FR_OK)
        return rc;
    if (!from.copy && fr_sys.lstat(path, &st) != 0)
        return fr_fail_errno(err, errno, "%s, which is to be shipped", path);
    slash = strrchr(ship->path, '/');
    ship->folder = S_ISDIR(st.st_mode);
    ship->exclude = exclude;
    slash = slash != NULL ? slash + 1 : ship->path;
    rc = ship->folder ? read_ignore(c, ship, err) : FR_OK;
    if (rc == FR_OK)
        rc = visit(c, ship, ship->path, ship->folder ? "" : slash, err);
    if (rc == FR_OK)
        rc = prepare_some(c, ship, err);
    if (rc != FR_OK) {
        close_ship(ship);
        return rc;
    }
    ship->next = c->items;
    c->items = ship;
    return ship_state(ship, out, err);
}

static void forget_bundle(struct fr_cargo_program *b)
{
    fr_bundle_finish(&b->bundle);
    b->opened = false;
    b->err = (struct fr_err){0};
}

/* Hashes a slice more of the bundle. b->made: it can be shipped. */
static enum fr_rc make_bundle(struct fr_cargo *c, struct fr_cargo_program *b, struct fr_err *err)
{
    bool done = false;
    enum fr_rc rc = fr_bundle_step(&b->bundle, SLICE_BYTES, &done, err);

    if (rc != FR_OK || !done)
        return rc;
    b->files = fr_arena_array(c->arena, b->bundle.n, sizeof(*b->files));
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

static enum fr_rc want_bundle(struct fr_cargo *c, struct fr_cargo_program *b, struct fr_err *err)
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
        if ((rc = make_bundle(c, b, err)) != FR_OK) {
            forget_bundle(b);
            return rc;
        }
    }
    return b->made ? FR_OK : fr_fail(err, FR_BUSY, "%s is being hashed", b->program);
}

enum fr_rc fr_cargo_program(struct fr_cargo *c, const char *name, bool ship,
                            struct fr_cargo_program **out, struct fr_err *err)
{
    struct fr_cargo_program *b;
    struct fr_buf path = {0};
    enum fr_rc rc = FR_OK;

    for (b = c->programs; b != NULL; b = b->next)
        if (strcmp(b->name, name) == 0)
            break;
    if (b == NULL) {
        b = fr_arena_alloc(c->arena, sizeof(*b));
        rc = b != NULL ? c->program(c->program_arg, name, &path, err)
                       : fr_fail(err, FR_NOMEM, "no memory for a program to ship");
        if (rc == FR_OK) {
            b->name = fr_arena_dup(c->arena, name);
            b->program = path.bad ? NULL : fr_arena_text(c->arena, path.p, path.n);
            if (b->name == NULL || b->program == NULL)
                rc = fr_fail(err, FR_NOMEM, "no memory for a program to ship");
        }
        fr_buf_finish(&path);
        if (rc != FR_OK)
            return rc;
        b->next = c->programs;
        c->programs = b;
    }
    if (ship)
        rc = want_bundle(c, b, err);
    *out = b;
    return rc;
}

bool fr_cargo_step(struct fr_cargo *c)
{
    struct fr_cargo_item *ship = c->items;
    struct fr_cargo_program *b = c->programs;

    while (ship != NULL && (ship->ready || ship->err.rc != FR_OK))
        ship = ship->next;
    if (ship != NULL)
        return prepare_some(c, ship, &ship->err) != FR_OK || ship->ready;
    while (b != NULL && (!b->opened || b->made || b->err.rc != FR_OK))
        b = b->next;
    return b == NULL || make_bundle(c, b, &b->err) != FR_OK || b->made;
}

void fr_cargo_forget(struct fr_cargo *c)
{
    for (struct fr_cargo_item **p = &c->items; *p != NULL;)
        if ((*p)->err.rc != FR_OK) {
            close_ship(*p);
            *p = (*p)->next;
        } else {
            p = &(*p)->next;
        }
    for (struct fr_cargo_program *b = c->programs; b != NULL; b = b->next)
        if (b->err.rc != FR_OK)
            forget_bundle(b);
}

void fr_cargo_finish(struct fr_cargo *c)
{
    for (struct fr_cargo_item *ship = c->items; ship != NULL; ship = ship->next)
        close_ship(ship);
    for (struct fr_cargo_program *b = c->programs; b != NULL; b = b->next)
        fr_bundle_finish(&b->bundle);
}

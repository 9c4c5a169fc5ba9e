#include "engine/node/prune.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/supervise/home.h"
#include "engine/supervise/walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { HASH_TEXT = 64 };

static const int64_t day_ms = 86400000;

struct item {
    int64_t used_ms; /* when acknowledged or last requested, by the calendar */
    uint64_t bytes;
    struct fr_id attempt; /* zero: path */
    char *path;           /* in the store; owned by the arena */
    bool forgotten;       /* the journal has it no more: it was acknowledged */
};

enum phase { LOOK, REMOVE, DONE };

/* A folder of the home to scan. */
struct folder {
    struct folder *next;
    const char *path; /* in the arena */
    bool attempts;    /* its names are those of attempts: log/ */
    bool bundles;     /* store/ */
    bool runs;        /* r/ */
};

struct fr_pruning {
    struct fr_prune p;
    enum phase phase;
    struct fr_arena arena;
    struct folder *folders, **last; /* still to be scanned; the first is under way */
    char **names;                   /* of the first */
    size_t n_names, at;
    struct item *v; /* owned */
    size_t n, cap;
    uint64_t bytes;      /* of all items */
    struct item item;    /* LOOK: being measured */
    size_t next;         /* REMOVE: of v */
    bool walking;        /* walk measures item, or removes v[next] */
    struct fr_walk walk; /* owned */
};

static int64_t mtime_ms(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
}

static bool is_folder(const char *path)
{
    struct stat st;

    return fr_sys.lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static uint64_t few_bytes(const char *path)
{
    enum fr_walk_entry entry = FR_WALK_ENTER;
    struct fr_walk w = {0};
    struct fr_err err;
    uint64_t sum = 0;

    if (fr_walk_begin(&w, path, &err) != FR_OK)
        return 0;
    for (int i = 0; i < FR_PRUNE_FEW && entry != FR_WALK_END; i++)
        if (fr_walk_next(&w, &entry, &err) == FR_OK && entry == FR_WALK_FILE &&
            S_ISREG(w.st.st_mode))
            sum += (uint64_t)w.st.st_size;
    fr_walk_finish(&w);
    return sum;
}

/* Files of an attempt beside its folder, in the order of removal: the log's name identifies the
 * rest. */
static const enum fr_home_kind files[] = {FR_HOME_OUTPUT, FR_HOME_INDEX, FR_HOME_TAIL,
                                          FR_HOME_METRICS, FR_HOME_LOG};

enum { FILES = sizeof(files) / sizeof(files[0]) };

static uint64_t files_bytes(const char *home, struct fr_id attempt)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < FILES; i++)
        sum += fr_home_bytes(home, files[i], attempt);
    return sum;
}

uint64_t fr_prune_size(const char *home, struct fr_id attempt)
{
    char path[FR_NODE_PATH];

    fr_home_path(home, FR_HOME_DIR, attempt, path);
    return files_bytes(home, attempt) + few_bytes(path);
}

/* Only a log that stays is an error. */
static enum fr_rc remove_files(const char *home, struct fr_id attempt, struct fr_err *err)
{
    char path[FR_NODE_PATH];

    for (size_t i = 0; i < FILES; i++) {
        fr_home_path(home, files[i], attempt, path);
        if (fr_sys.unlink(path) != 0 && errno != ENOENT && files[i] == FR_HOME_LOG)
            return fr_fail_errno(err, errno, "cannot remove %s", path);
    }
    return FR_OK;
}

/* The next file or folder of a tree that goes; *done: all of it is gone. */
static enum fr_rc remove_one(struct fr_walk *w, bool *done, struct fr_err *err)
{
    enum fr_walk_entry entry;
    enum fr_rc rc = fr_walk_next(w, &entry, err);

    *done = rc == FR_OK && entry == FR_WALK_END;
    if (rc == FR_OK && entry == FR_WALK_FILE && fr_sys.unlink(w->path) != 0 && errno != ENOENT)
        rc = fr_fail_errno(err, errno, "cannot remove %s", w->path);
    if (rc == FR_OK && entry == FR_WALK_LEAVE && fr_sys.rmdir(w->path) != 0 && errno != ENOENT)
        rc = fr_fail_errno(err, errno, "cannot remove folder %s", w->path);
    return rc;
}

enum fr_rc fr_prune_attempt(struct fr_prune_one *p, size_t steps, bool *done, struct fr_err *err)
{
    char path[FR_NODE_PATH];
    enum fr_rc rc = FR_OK;

    *done = false;
    if (!p->walk.begun) {
        fr_home_path(p->home, FR_HOME_DIR, p->attempt, path);
        rc = fr_walk_begin(&p->walk, path, err);
    }
    for (size_t i = 0; i < steps && rc == FR_OK && !*done; i++)
        rc = remove_one(&p->walk, done, err);
    if (rc == FR_OK && *done)
        rc = remove_files(p->home, p->attempt, err);
    *done = *done || rc != FR_OK;
    if (*done)
        fr_walk_finish(&p->walk);
    return rc;
}

static enum fr_rc add_folder(struct fr_pruning *pr, const char *dir, const char *sub,
                             struct folder f, struct fr_err *err)
{
    struct folder *new = fr_arena_alloc(&pr->arena, sizeof(*new));

    f.path = fr_arena_fmt(&pr->arena, "%s/%s", dir, sub);
    if (new == NULL || f.path == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to look through %s", dir);
    *new = f;
    *pr->last = new;
    pr->last = &new->next;
    return FR_OK;
}

enum fr_rc fr_prune_begin(const struct fr_prune *p, struct fr_pruning **out, struct fr_err *err)
{
    struct fr_pruning *pr = fr_sys.alloc(sizeof(*pr));
    enum fr_rc rc;

    *out = pr;
    if (pr == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to look through the home of the node");
    *pr = (struct fr_pruning){.p = *p};
    pr->last = &pr->folders;
    if ((rc = add_folder(pr, p->home, "log", (struct folder){.attempts = true}, err)) != FR_OK ||
        (rc = add_folder(pr, p->home, "store", (struct folder){.bundles = true}, err)) != FR_OK ||
        (p->alone &&
         ((rc = add_folder(pr, p->home, "tmp", (struct folder){0}, err)) != FR_OK ||
          (rc = add_folder(pr, p->home, "r", (struct folder){.runs = true}, err)) != FR_OK))) {
        fr_prune_end(pr);
        *out = NULL;
    }
    return rc;
}

void fr_prune_share(struct fr_pruning *pr)
{
    pr->p.alone = false;
}

static enum fr_rc add_item(struct fr_pruning *pr, struct fr_err *err)
{
    struct item *v = fr_grow(pr->v, pr->n + 1, &pr->cap, sizeof(*v));

    if (v == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to look through the home of the node");
    pr->v = v;
    v[pr->n++] = pr->item;
    pr->bytes += pr->item.bytes;
    return FR_OK;
}

static enum fr_rc walk(struct fr_pruning *pr, const char *path, struct fr_err *err)
{
    enum fr_rc rc = fr_walk_begin(&pr->walk, path, err);

    pr->walking = rc == FR_OK;
    return rc;
}

static enum fr_rc look_at_attempt(struct fr_pruning *pr, const char *name, struct fr_err *err)
{
    struct item item = {0};
    const struct fr_attempt *a;
    char path[FR_NODE_PATH];
    struct stat st;

    if (!fr_id_parse(fr_str_of(name), &item.attempt))
        return FR_OK; /* an index: its log counts */
    a = fr_table_find(pr->p.table, item.attempt);
    if ((a != NULL && !a->acked) || fr_home_alive(pr->p.home, item.attempt))
        return FR_OK;
    item.forgotten = a == NULL;
    item.used_ms = a != NULL ? a->over_ms : 0;
    fr_home_path(pr->p.home, FR_HOME_LOG, item.attempt, path);
    if (item.used_ms == 0 && fr_sys.lstat(path, &st) == 0) /* written down without a time */
        item.used_ms = mtime_ms(&st);
    item.bytes = files_bytes(pr->p.home, item.attempt);
    pr->item = item;
    fr_home_path(pr->p.home, FR_HOME_DIR, item.attempt, path);
    return walk(pr, path, err);
}

/* A bundle is a folder named by its hash; any other folder of the store holds things of their own.
 */
static enum fr_rc look_at_path(struct fr_pruning *pr, const char *name, struct fr_err *err)
{
    const struct folder *f = pr->folders;
    struct fr_id run;

    if (f->runs && fr_id_parse(fr_str_of(name), &run) && fr_home_run_driven(pr->p.home, run))
        return FR_OK;
    pr->item = (struct item){.path = fr_arena_fmt(&pr->arena, "%s/%s", f->path, name)};
    if (pr->item.path == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to look through %s", f->path);
    if (f->bundles && strlen(name) != HASH_TEXT && is_folder(pr->item.path))
        return add_folder(pr, f->path, name, (struct folder){0}, err);
    return walk(pr, pr->item.path, err);
}

/* An unreadable entry counts 0 bytes. */
static enum fr_rc measure(struct fr_pruning *pr, struct fr_err *err)
{
    const bool is_path = pr->item.path != NULL;
    enum fr_walk_entry entry;
    struct fr_err e;

    if (fr_walk_next(&pr->walk, &entry, &e) == FR_NOMEM)
        return fr_fail(err, FR_NOMEM, "%s", e.msg);
    if (entry == FR_WALK_END && pr->walk.depth > 0)
        return FR_OK;
    if (entry == FR_WALK_FILE && S_ISREG(pr->walk.st.st_mode))
        pr->item.bytes += (uint64_t)pr->walk.st.st_size;
    if (is_path && (entry == FR_WALK_FILE || entry == FR_WALK_ENTER) &&
        mtime_ms(&pr->walk.st) > pr->item.used_ms)
        pr->item.used_ms = mtime_ms(&pr->walk.st);
    if (entry != FR_WALK_END)
        return FR_OK;
    fr_walk_finish(&pr->walk);
    pr->walking = false;
    return add_item(pr, err);
}

static int by_age(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    return (x->used_ms > y->used_ms) - (x->used_ms < y->used_ms);
}

static void next_folder(struct fr_pruning *pr)
{
    fr_sys_names_free(pr->names, pr->n_names);
    pr->names = NULL;
    pr->n_names = pr->at = 0;
    pr->folders = pr->folders->next;
    if (pr->folders != NULL)
        return;
    if (pr->n > 0)
        qsort(pr->v, pr->n, sizeof(*pr->v), by_age);
    pr->phase = REMOVE;
}

static enum fr_rc look(struct fr_pruning *pr, struct fr_err *err)
{
    struct folder *f = pr->folders;

    if (pr->walking)
        return measure(pr, err);
    if (pr->names == NULL && is_folder(f->path) && /* a link to one is left alone */
        fr_sys.list(f->path, &pr->names, &pr->n_names) != 0)
        return fr_fail_errno(err, errno, "cannot list %s", f->path);
    if (pr->at == pr->n_names) {
        next_folder(pr);
        return FR_OK;
    }
    const char *name = pr->names[pr->at++];
    return f->attempts ? look_at_attempt(pr, name, err) : look_at_path(pr, name, err);
}

static bool may_go(const struct fr_pruning *pr, const struct item *item)
{
    const struct fr_prune *p = &pr->p;
    int64_t age = fr_sys.wall_ms() - item->used_ms, limit = (int64_t)p->days * day_ms;

    if (item->path != NULL && (!p->alone || age < day_ms))
        return false;
    if (item->forgotten && !p->alone && age < day_ms)
        return false; /* perhaps of another serve, whose record was not read yet */
    return age >= limit || (p->bytes > 0 && pr->bytes > p->bytes);
}

/* A file that cannot be removed is logged and stays. */
static void remove_some(struct fr_pruning *pr)
{
    struct item *item = pr->next < pr->n ? &pr->v[pr->next] : NULL;
    char path[FR_NODE_PATH];
    bool done = false;
    struct fr_err err;
    enum fr_rc rc;

    if (item == NULL) {
        pr->phase = DONE;
        return;
    }
    if (!pr->walking && !may_go(pr, item)) {
        pr->next++;
        return;
    }
    if (pr->walking) {
        rc = remove_one(&pr->walk, &done, &err);
    } else {
        fr_home_path(pr->p.home, FR_HOME_DIR, item->attempt, path);
        rc = walk(pr, item->path != NULL ? item->path : path, &err);
    }
    if (rc == FR_OK && !done)
        return;
    fr_walk_finish(&pr->walk);
    pr->walking = false;
    if (rc == FR_OK && item->path == NULL)
        rc = remove_files(pr->p.home, item->attempt, &err);
    if (rc == FR_OK)
        pr->bytes -= item->bytes;
    else
        fr_log(FR_LOG_WARN, "node", "not removed: %s", err.msg);
    pr->next++;
}

enum fr_rc fr_prune_step(struct fr_pruning *pr, size_t steps, bool *done, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < steps && rc == FR_OK && pr->phase != DONE; i++)
        if (pr->phase == LOOK)
            rc = look(pr, err);
        else
            remove_some(pr);
    *done = pr->phase == DONE;
    return rc;
}

uint64_t fr_prune_end(struct fr_pruning *pr)
{
    uint64_t left = pr->bytes;

    fr_walk_finish(&pr->walk);
    fr_sys_names_free(pr->names, pr->n_names);
    fr_sys.free(pr->v);
    fr_arena_finish(&pr->arena);
    fr_sys.free(pr);
    return left;
}

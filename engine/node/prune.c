#include "engine/node/prune.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/node/home.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64, HASH_TEXT = 64 };

static const int64_t day_ms = 86400000;

struct item {
    int64_t used_ms; /* acknowledged, or last asked for; by the calendar */
    uint64_t bytes;
    struct fr_id attempt; /* zero: path */
    char *path;           /* in the store; owned by the arena */
    bool forgotten;       /* the journal has it no more: it was acknowledged */
};

struct items {
    struct fr_arena arena;
    struct item *v;
    size_t n, cap;
    uint64_t bytes;
};

static int64_t mtime_ms(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
}

/* Adds up a file or a tree; *newest: the latest change in it. */
static uint64_t measure(const char *path, int64_t *newest, int depth)
{
    struct stat st;
    char **names, child[FR_NODE_PATH];
    uint64_t sum;
    size_t n;

    if (fr_sys.lstat(path, &st) != 0)
        return 0;
    if (mtime_ms(&st) > *newest)
        *newest = mtime_ms(&st);
    sum = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    if (!S_ISDIR(st.st_mode) || depth == DEPTH_MAX || fr_sys.list(path, &names, &n) != 0)
        return sum;
    for (size_t i = 0; i < n; i++)
        if (snprintf(child, sizeof(child), "%s/%s", path, names[i]) < (int)sizeof(child))
            sum += measure(child, newest, depth + 1);
    fr_sys_names_free(names, n);
    return sum;
}

static bool is_folder(const char *path)
{
    struct stat st;

    return fr_sys.lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Its folder, or that with suffix behind the name. */
static void attempt_path(const char *home, struct fr_id id, const char *suffix,
                         char out[FR_NODE_PATH])
{
    fr_home_path(home, FR_HOME_DIR, id, out);
    strncat(out, suffix, FR_NODE_PATH - strlen(out) - 1);
}

uint64_t fr_prune_size(const char *home, struct fr_id attempt)
{
    char path[FR_NODE_PATH];
    int64_t newest = 0;
    uint64_t sum = 0;

    fr_home_path(home, FR_HOME_LOG, attempt, path);
    sum += measure(path, &newest, 0);
    fr_home_path(home, FR_HOME_INDEX, attempt, path);
    if (sum > 0)
        sum += measure(path, &newest, 0);
    attempt_path(home, attempt, "", path);
    if (!is_folder(path))
        return sum;
    sum += measure(path, &newest, 0);
    attempt_path(home, attempt, ".out", path);
    return sum + measure(path, &newest, 0);
}

enum fr_rc fr_prune_attempt(const char *home, struct fr_id attempt, struct fr_err *err)
{
    char path[FR_NODE_PATH];
    enum fr_rc rc;

    attempt_path(home, attempt, "", path);
    if ((rc = fr_remove_tree(path, err)) != FR_OK)
        return rc;
    attempt_path(home, attempt, ".out", path);
    fr_sys.unlink(path);
    fr_home_path(home, FR_HOME_INDEX, attempt, path);
    fr_sys.unlink(path);
    fr_home_path(home, FR_HOME_LOG, attempt, path);
    if (fr_sys.unlink(path) != 0 && errno != ENOENT)
        return fr_fail_errno(err, errno, "cannot remove %s", path);
    return FR_OK;
}

static enum fr_rc add_item(struct items *it, const struct item *item, struct fr_err *err)
{
    if (it->n == it->cap) {
        size_t cap = it->cap == 0 ? 64 : 2 * it->cap;
        struct item *v = fr_sys.realloc(it->v, cap * sizeof(*v));
        if (v == NULL)
            return fr_fail(err, FR_NOMEM, "no memory to look through the home of the node");
        it->v = v;
        it->cap = cap;
    }
    it->v[it->n++] = *item;
    it->bytes += item->bytes;
    return FR_OK;
}

/* Calls each for the names in HOME/SUB, which must be a folder and no link to one. */
static enum fr_rc each_name(const struct fr_prune *p, const char *sub, struct items *it,
                            enum fr_rc (*each)(const struct fr_prune *p, const char *dir,
                                               const char *name, struct items *it),
                            struct fr_err *err)
{
    char dir[FR_NODE_PATH], **names;
    enum fr_rc rc = FR_OK;
    size_t n;

    if (snprintf(dir, sizeof(dir), "%s/%s", p->home, sub) >= (int)sizeof(dir) || !is_folder(dir))
        return FR_OK;
    if (fr_sys.list(dir, &names, &n) != 0)
        return fr_fail_errno(err, errno, "cannot list %s", dir);
    for (size_t i = 0; i < n && rc == FR_OK; i++)
        rc = each(p, dir, names[i], it);
    fr_sys_names_free(names, n);
    return rc == FR_NOMEM ? fr_fail(err, rc, "no memory to look through %s", dir) : rc;
}

static enum fr_rc take_attempt(const struct fr_prune *p, const char *dir, const char *name,
                               struct items *it)
{
    struct item item = {0};
    const struct fr_attempt *a;
    char path[FR_NODE_PATH];
    struct stat st;

    (void)dir;
    if (!fr_id_parse(fr_str_of(name), &item.attempt))
        return FR_OK; /* an index: its log counts */
    a = fr_table_find(p->table, item.attempt);
    if ((a != NULL && !a->acked) || fr_home_alive(p->home, item.attempt))
        return FR_OK;
    item.forgotten = a == NULL;
    item.used_ms = a != NULL ? a->over_ms : 0;
    fr_home_path(p->home, FR_HOME_LOG, item.attempt, path);
    if (item.used_ms == 0 && fr_sys.lstat(path, &st) == 0) /* written down without a time */
        item.used_ms = mtime_ms(&st);
    item.bytes = fr_prune_size(p->home, item.attempt);
    return add_item(it, &item, NULL);
}

static enum fr_rc take_path(const struct fr_prune *p, const char *dir, const char *name,
                            struct items *it)
{
    struct item item = {.path = fr_arena_fmt(&it->arena, "%s/%s", dir, name)};

    (void)p;
    if (item.path == NULL)
        return FR_NOMEM;
    item.bytes = measure(item.path, &item.used_ms, 0);
    return add_item(it, &item, NULL);
}

/* A bundle is a folder named by its hash; any other folder holds things of their own. */
static enum fr_rc take_stored(const struct fr_prune *p, const char *dir, const char *name,
                              struct items *it)
{
    char path[FR_NODE_PATH], sub[FR_NODE_PATH];

    if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
        return FR_OK;
    if (strlen(name) == HASH_TEXT || !is_folder(path))
        return take_path(p, dir, name, it);
    snprintf(sub, sizeof(sub), "store/%s", name);
    return each_name(p, sub, it, take_path, NULL);
}

static int by_age(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    return (x->used_ms > y->used_ms) - (x->used_ms < y->used_ms);
}

static bool may_go(const struct fr_prune *p, const struct item *item, int64_t now, uint64_t bytes)
{
    int64_t age = now - item->used_ms, limit = (int64_t)p->days * day_ms;

    if (item->path != NULL && (!p->alone || age < day_ms))
        return false;
    if (item->forgotten && !p->alone && age < day_ms)
        return false; /* perhaps of another serve, whose record was not read yet */
    return age >= limit || (p->bytes > 0 && bytes > p->bytes);
}

static void remove_items(const struct fr_prune *p, struct items *it)
{
    int64_t now = fr_sys.wall_ms();
    struct fr_err e;

    for (size_t i = 0; i < it->n; i++) {
        struct item *item = &it->v[i];
        if (!may_go(p, item, now, it->bytes))
            continue;
        enum fr_rc rc = item->path != NULL ? fr_remove_tree(item->path, &e)
                                           : fr_prune_attempt(p->home, item->attempt, &e);
        if (rc == FR_OK)
            it->bytes -= item->bytes;
        else
            fr_log(FR_LOG_WARN, "node", "not removed: %s", e.msg);
    }
}

enum fr_rc fr_prune(const struct fr_prune *p, uint64_t *left, struct fr_err *err)
{
    struct items it = {0};
    enum fr_rc rc = each_name(p, "log", &it, take_attempt, err);

    if (rc == FR_OK)
        rc = each_name(p, "store", &it, take_stored, err);
    if (rc == FR_OK && p->alone)
        rc = each_name(p, "tmp", &it, take_path, err);
    if (rc == FR_OK) {
        if (it.n > 0)
            qsort(it.v, it.n, sizeof(*it.v), by_age);
        remove_items(p, &it);
    }
    *left = it.bytes;
    fr_sys.free(it.v);
    fr_arena_finish(&it.arena);
    return rc;
}

/* Listings of folders, some of each with every turn of the loop. */
#include "engine/node/private.h"
#include "engine/supervise/walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_MAX = 65000, LIST_DEPTH = 64, LIST_STEP = 256 };

struct srv_listing {
    struct srv_listing *next;
    uint64_t ref;
    struct fr_arena arena;
    struct fr_strs files; /* in the arena */
    size_t cap;
    size_t base; /* length of the folder's path and its slash */
    struct fr_walk walk;
};

static void drop(struct srv *s, struct srv_listing *l)
{
    struct srv_listing **at = &s->listings;

    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    fr_walk_finish(&l->walk);
    fr_arena_finish(&l->arena);
    fr_sys.free(l);
}

void srv_list_finish(struct srv *s)
{
    while (s->listings != NULL)
        drop(s, s->listings);
}

static enum fr_rc add_file(struct srv_listing *l, struct fr_err *err)
{
    const struct stat *st = &l->walk.st;

    if (l->files.n == LIST_MAX) {
        l->walk.path[l->base - 1] = '\0';
        return fr_fail(err, FR_USAGE, "%s holds more than %d files", l->walk.path, LIST_MAX);
    }
    if (l->files.n == l->cap) {
        struct fr_str *more = fr_arena_array(&l->arena, 2 * l->cap + 64, sizeof(*more));
        if (more == NULL)
            return fr_fail(err, FR_NOMEM, "no memory to list %s", l->walk.path);
        if (l->files.n > 0)
            memcpy(more, l->files.v, l->files.n * sizeof(*more));
        l->files.v = more;
        l->cap = 2 * l->cap + 64;
    }
    const char *text = fr_arena_fmt(&l->arena, "%lld %o %s", (long long)st->st_size,
                                    st->st_mode & 07777, l->walk.path + l->base);
    if (text == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to list %s", l->walk.path);
    l->files.v[l->files.n++] = fr_str_of(text);
    return FR_OK;
}

static int by_path(const void *a, const void *b)
{
    const struct fr_str *x = a, *y = b;
    const char *p = strchr(strchr(x->p, ' ') + 1, ' '), *q = strchr(strchr(y->p, ' ') + 1, ' ');

    return strcmp(p, q);
}

static void send_listing(struct srv *s, struct srv_listing *l)
{
    struct fr_msg m = {.type = FR_MSG_LISTING};

    if (l->files.n > 0)
        qsort(l->files.v, l->files.n, sizeof(struct fr_str), by_path);
    m.listing.ref = l->ref;
    m.listing.files = l->files;
    srv_send(s, &m);
    drop(s, l);
}

/* The next entry; *done: there is none. */
static enum fr_rc step(struct srv_listing *l, bool *done, struct fr_err *err)
{
    const bool first = !l->walk.begun;
    enum fr_walk_entry entry;
    enum fr_rc rc = fr_walk_next(&l->walk, &entry, err);

    if (rc == FR_OK && first && entry != FR_WALK_ENTER)
        rc = fr_fail_errno(err, entry == FR_WALK_END ? ENOENT : ENOTDIR, "cannot list %s",
                           l->walk.path);
    if (rc == FR_OK && l->walk.depth > LIST_DEPTH + 1)
        rc = fr_fail(err, FR_USAGE, "%s is more than %d folders deep", l->walk.path, LIST_DEPTH);
    if (rc == FR_OK && entry == FR_WALK_FILE && S_ISREG(l->walk.st.st_mode))
        rc = add_file(l, err);
    *done = rc == FR_OK && entry == FR_WALK_END;
    return rc;
}

void srv_list_step(struct srv *s)
{
    struct srv_listing *l = s->listings;
    enum fr_rc rc = FR_OK;
    bool done = false;
    struct fr_err err;

    for (int i = 0; l != NULL && i < LIST_STEP && rc == FR_OK && !done; i++)
        rc = step(l, &done, &err);
    if (done) {
        send_listing(s, l);
    } else if (rc != FR_OK) {
        srv_send_error(s, l->ref, &err);
        drop(s, l);
    }
}

void srv_list(struct srv *s, const struct fr_list *m)
{
    struct srv_listing *l = fr_sys.alloc(sizeof(*l));
    bool inner = m->path.n == 0 || m->path.p[0] != '/';
    enum fr_rc rc = FR_OK;
    struct fr_err err;

    if (l == NULL) {
        fr_fail(&err, FR_NOMEM, "no memory to list %.*s", (int)m->path.n, m->path.p);
        srv_send_error(s, m->ref, &err);
        return;
    }
    *l = (struct srv_listing){.next = s->listings, .ref = m->ref};
    s->listings = l;
    char *dir = inner ? fr_arena_fmt(&l->arena, "%s/%.*s", s->home.path, (int)m->path.n, m->path.p)
                      : fr_arena_text(&l->arena, m->path.p, m->path.n);
    const char *inside = dir != NULL ? fr_arena_fmt(&l->arena, "%s/", dir) : NULL;
    if (inside == NULL)
        rc = fr_fail(&err, FR_NOMEM, "no memory to list %.*s", (int)m->path.n, m->path.p);
    else if (!srv_path_plain(s, inside))
        rc = fr_fail_errno(&err, ELOOP, "cannot list %s", dir);
    else
        rc = fr_walk_begin(&l->walk, dir, &err);
    l->base = inside != NULL ? strlen(inside) : 0;
    if (rc != FR_OK) {
        srv_send_error(s, m->ref, &err);
        drop(s, l);
    }
}

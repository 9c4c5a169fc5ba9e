/* Prepares files and folders in threads, and programs in slices. */
#include "engine/ship/shipment.h"

#include "engine/base/sys.h"

#include <string.h>

enum {
    THREADS = 4,           /* of a shipment, at once */
    SLICE_BYTES = 1 << 20, /* of a program, hashed in one step: 5 ms */
};

/* ---- files and folders ---- */

struct fr_shipment_making {
    struct fr_shipment_making *next; /* made before */
    uint64_t turn;                   /* in which it was begun */
    struct fr_work work;
    struct fr_shipment_item *item; /* borrows; the thread does not touch it */
    struct fr_manifest manifest;   /* owns */
    struct fr_err err;
    unsigned long long steps; /* of the manifest, as of the last look */
};

static void free_making(void *arg)
{
    struct fr_shipment_making *m = arg;

    if (m == NULL)
        return;
    fr_arena_finish(&m->manifest.arena);
    fr_sys.free(m);
}

static void make_it(void *arg)
{
    struct fr_shipment_making *m = arg;

    (void)fr_manifest_make(&m->manifest, &m->err);
}

static void start_some(struct fr_shipment *c);

static void tell(struct fr_shipment *c)
{
    c->news = true;
    c->ready(c->arg);
    start_some(c);
}

static void made(void *arg)
{
    struct fr_shipment_making *m = arg;
    struct fr_shipment_item *item = m->item;

    item->making = NULL;
    if (m->err.rc == FR_OK && !m->manifest.same) {
        m->next = item->made;
        item->made = m;
        item->manifest = &m->manifest;
    } else {
        item->err = m->err;
        if (m->err.rc == FR_OK)
            item->made->turn = m->turn;
        free_making(m);
    }
    tell(item->shipment);
}

static bool ask(struct fr_shipment_making *m, const struct fr_shipment_item *item)
{
    struct fr_manifest *l = &m->manifest;
    size_t n = item->exclude != NULL ? item->exclude->n : 0;

    l->path = fr_arena_dup(&l->arena, item->path);
    l->exclude = fr_arena_array(&l->arena, n + 1, sizeof(*l->exclude));
    if (l->path == NULL || l->exclude == NULL)
        return false;
    if (item->made != NULL)
        memcpy(l->looks, item->made->manifest.looks, sizeof(l->looks));
    for (; l->n_exclude < n; l->n_exclude++)
        if ((l->exclude[l->n_exclude] = fr_arena_dup(&l->arena, item->exclude->v[l->n_exclude])) ==
            NULL)
            return false;
    return item->shipment->copies(item->shipment->arg, item->path, l);
}

static enum fr_rc start(struct fr_shipment_item *item)
{
    struct fr_shipment_making *m = fr_sys.alloc(sizeof(*m));

    if (m == NULL)
        return fr_fail(&item->err, FR_NOMEM, "no memory for files to ship");
    memset(m, 0, sizeof(*m));
    m->item = item;
    m->turn = item->shipment->turn;
    m->work = (struct fr_work){.run = make_it, .over = made, .drop = free_making, .arg = m};
    if (!ask(m, item)) {
        free_making(m);
        return fr_fail(&item->err, FR_NOMEM, "no memory for files to ship");
    }
    item->making = m; /* fr_loop_work() may call made() */
    if (fr_loop_work(item->shipment->loop, &m->work) == FR_OK)
        return FR_OK;
    item->making = NULL;
    free_making(m);
    return fr_fail(&item->err, FR_NOMEM, "no thread to hash %s", item->path);
}

static void start_some(struct fr_shipment *c)
{
    size_t n = 0;

    for (struct fr_shipment_item *item = c->items; item != NULL; item = item->next)
        n += item->making != NULL;
    for (struct fr_shipment_item *item = c->items; item != NULL && n < THREADS; item = item->next)
        if (item->wanted && item->making == NULL && item->err.rc == FR_OK) {
            item->wanted = false;
            if (start(item) == FR_OK)
                n++;
            else
                c->news = true;
        }
    fr_loop_arm(c->loop, c->timer, n > 0 ? fr_sys.mono_ms() + FR_FILE_SOON_MS : -1);
}

/* The thread is left to itself. */
static void leave(struct fr_shipment_item *item)
{
    struct fr_shipment_making *m = item->making;

    item->making = NULL;
    if (m != NULL && fr_loop_forget(item->shipment->loop, &m->work))
        free_making(m);
}

/* Gives up the threads that made no progress since the last look. */
static void look(void *arg)
{
    struct fr_shipment *c = arg;
    bool stuck = false;

    for (struct fr_shipment_item *item = c->items; item != NULL; item = item->next) {
        unsigned long long steps = item->making != NULL ? item->making->manifest.steps : 0;

        if (item->making != NULL && steps == item->making->steps) {
            leave(item);
            fr_file_silent(item->path, &item->err);
            stuck = true;
        } else if (item->making != NULL) {
            item->making->steps = steps;
        }
    }
    if (stuck)
        tell(c);
    else
        start_some(c);
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

static struct fr_shipment_item *add_item(struct fr_shipment *c, const char *path,
                                         const struct fr_excludes *exclude)
{
    struct fr_shipment_item *item = fr_arena_alloc(c->arena, sizeof(*item)), **at = &c->items;

    if (item == NULL || (c->timer == NULL && fr_loop_timer(c->loop, look, c, &c->timer) != FR_OK))
        return NULL;
    *item = (struct fr_shipment_item){
        .shipment = c, .path = fr_arena_dup(c->arena, path), .exclude = exclude};
    if (item->path == NULL)
        return NULL;
    while (*at != NULL)
        at = &(*at)->next;
    return *at = item;
}

/* A manifest of a turn before c->since may lack a change that the requester expects. */
static bool is_fresh(const struct fr_shipment_item *item)
{
    return item->made != NULL &&
           (item->manifest->kept || item->made->turn >= item->shipment->since);
}

enum fr_rc fr_shipment_path(struct fr_shipment *c, const char *path,
                            const struct fr_excludes *exclude, struct fr_shipment_item **out,
                            struct fr_err *err)
{
    struct fr_shipment_item *item = c->items;

    while (item != NULL &&
           !(strcmp(item->path, path) == 0 && same_patterns(item->exclude, exclude)))
        item = item->next;
    if (item == NULL && (item = add_item(c, path, exclude)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for files to ship");
    if (!is_fresh(item) && item->making == NULL && item->err.rc == FR_OK) {
        item->wanted = true;
        start_some(c);
    }
    if (!is_fresh(item) && item->err.rc != FR_OK) {
        *err = item->err;
        return err->rc;
    }
    *out = item;
    return is_fresh(item) ? FR_OK : fr_fail(err, FR_BUSY, "%s is being hashed", path);
}

/* ---- programs ---- */

static void forget_bundle(struct fr_shipment_program *b)
{
    fr_bundle_finish(&b->bundle);
    b->opened = false;
    b->err = (struct fr_err){0};
}

static enum fr_rc want_bundle(struct fr_shipment_program *b, struct fr_err *err)
{
    enum fr_rc rc = b->err.rc;

    if (rc != FR_OK)
        *err = b->err;
    if (rc != FR_OK || b->made)
        return rc;
    if (!b->opened) {
        if ((rc = fr_bundle_open(&b->bundle, b->program, err)) != FR_OK)
            return rc;
        b->opened = true;
        if ((rc = fr_bundle_step(&b->bundle, SLICE_BYTES, &b->made, err)) != FR_OK) {
            forget_bundle(b);
            return rc;
        }
    }
    return b->made ? FR_OK : fr_fail(err, FR_BUSY, "%s is being hashed", b->program);
}

enum fr_rc fr_shipment_program(struct fr_shipment *c, const char *name, bool ship,
                               struct fr_shipment_program **out, struct fr_err *err)
{
    struct fr_shipment_program *b;
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
        rc = want_bundle(b, err);
    *out = b;
    return rc;
}

static struct fr_shipment_program *under_way(const struct fr_shipment *c)
{
    struct fr_shipment_program *b = c->programs;

    while (b != NULL && (!b->opened || b->made || b->err.rc != FR_OK))
        b = b->next;
    return b;
}

/* ---- both ---- */

bool fr_shipment_due(const struct fr_shipment *c)
{
    return c->news || under_way(c) != NULL;
}

bool fr_shipment_step(struct fr_shipment *c)
{
    struct fr_shipment_program *b = under_way(c);
    bool news = c->news;

    c->news = false;
    return (b != NULL &&
            (fr_bundle_step(&b->bundle, SLICE_BYTES, &b->made, &b->err) != FR_OK || b->made)) ||
           news;
}

void fr_shipment_forget(struct fr_shipment *c)
{
    for (struct fr_shipment_item *item = c->items; item != NULL; item = item->next)
        item->err = (struct fr_err){0};
    for (struct fr_shipment_program *b = c->programs; b != NULL; b = b->next)
        if (b->err.rc != FR_OK)
            forget_bundle(b);
}

void fr_shipment_finish(struct fr_shipment *c)
{
    for (struct fr_shipment_item *item = c->items; item != NULL; item = item->next) {
        leave(item);
        for (struct fr_shipment_making *m; (m = item->made) != NULL; free_making(m))
            item->made = m->next;
    }
    for (struct fr_shipment_program *b = c->programs; b != NULL; b = b->next)
        fr_bundle_finish(&b->bundle);
    if (c->timer != NULL)
        fr_loop_untimer(c->loop, &c->timer);
}

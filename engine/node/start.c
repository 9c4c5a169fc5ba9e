/* Starts an attempt: at once, or when descriptors for another attempt are free. */
#include "engine/node/private.h"
#include "engine/supervise/supervise.h"

enum {
    DESCRIPTORS_OWN = 24, /* of serve: streams, journal, lock, and short-lived ones */
    DESCRIPTORS_EACH = 3  /* of an attempt: its supervisor's socket, its log, the log's index */
};

/* Whether there are descriptors for `more` attempts beside those that are not queued. One attempt
 * can always start, except while this serve holds the home's lock exclusively (srv_keep.c). */
static bool has_room(const struct srv *s, size_t more)
{
    size_t n = s->n_lives - s->n_queued + more;
    size_t used = DESCRIPTORS_OWN + n * DESCRIPTORS_EACH + s->n_spare;

    for (const struct srv_put *p = s->puts; p != NULL; p = p->next)
        used += 2; /* the file, and its hash */
    for (const struct srv_get *g = s->gets; g != NULL; g = g->next)
        used++;
    if (s->alone) /* its supervisor could not open the home */
        return false;
    return s->a->descriptors == 0 || used <= s->a->descriptors || n <= 1;
}

void srv_refuse(struct srv *s, struct fr_id id, const struct fr_err *err)
{
    struct fr_msg m = {.type = FR_MSG_PREPARED};

    m.prepared.attempt = id;
    m.prepared.rc = err->rc;
    m.prepared.text = fr_str_of(err->msg);
    srv_send(s, &m);
}

/* A go that came while the attempt was queued follows the handover. */
static enum fr_rc begin(struct srv *s, struct srv_live *l, const struct fr_supervise *sup,
                        struct fr_err *err)
{
    struct fr_buf later = l->out;
    enum fr_rc rc;

    l->out = (struct fr_buf){0};
    rc = sup->prepare.request.container.runtime.n > 0 ? srv_shim_start(s, l, sup, err)
                                                      : srv_hand_over(s, l, sup, err);
    if (later.n > 0)
        fr_buf_add(&l->out, later.p, later.n);
    fr_buf_finish(&later);
    if (l->fd >= 0)
        l->due_ms = INT64_MAX;
    return rc;
}

static enum fr_rc enqueue(struct srv *s, struct srv_live *l, const struct fr_supervise *sup,
                          struct fr_err *err)
{
    fr_buf_finish(&l->order);
    fr_supervise_put(sup, &l->order);
    if (l->order.bad)
        return fr_fail(err, FR_NOMEM, "no memory for an attempt that waits for descriptors");
    l->queued = ++s->last_queued;
    s->n_queued++;
    return FR_OK;
}

void srv_unqueue(struct srv *s, struct srv_live *l)
{
    s->n_queued -= l->queued != 0;
    l->queued = 0;
}

static void not_started(struct srv *s, struct srv_live *l, const struct fr_err *why)
{
    struct fr_rec rec = {.kind = FR_REC_TOMBSTONE, .attempt = l->a->id};
    struct fr_err err;

    l->report = l->starting = false;
    srv_refuse(s, l->a->id, why);
    srv_journal(s, &rec, &err);
}

void srv_start(struct srv *s, const struct fr_prepare *p, uint64_t journal_at)
{
    struct fr_attempt *a = fr_table_find(&s->table, p->attempt);
    struct srv_live *l = a != NULL ? srv_live_get(s, a) : NULL;
    struct fr_supervise sup = {fr_str_of(s->home.path),
                               fr_str_of(s->a->self),
                               fr_str_of(s->home.boot),
                               journal_at,
                               fr_sys.boot_ms(),
                               s->environ,
                               *p};
    struct fr_rec rec = {.kind = FR_REC_TOMBSTONE, .attempt = p->attempt};
    struct fr_err err;

    if (l == NULL) {
        fr_fail(&err, FR_NOMEM, "no memory for another attempt");
        srv_refuse(s, p->attempt, &err);
        srv_journal(s, &rec, &err);
        return;
    }
    l->report = l->starting = true;
    if ((s->n_queued == 0 && has_room(s, 0) ? begin(s, l, &sup, &err)
                                            : enqueue(s, l, &sup, &err)) != FR_OK)
        not_started(s, l, &err);
}

static struct srv_live *first_queued(const struct srv *s)
{
    struct srv_live *first = NULL;

    for (struct srv_live *l = s->lives; l != NULL; l = l->next)
        if (l->queued != 0 && (first == NULL || l->queued < first->queued))
            first = l;
    return first;
}

/* The lease counts from the engine's last renewal, not from the prepare. */
static void start_queued(struct srv *s, struct srv_live *l)
{
    struct fr_buf order = l->order;
    struct fr_arena arena = {0};
    struct fr_supervise sup;
    struct fr_err err;
    enum fr_rc rc;

    l->order = (struct fr_buf){0};
    rc = fr_supervise_get((struct fr_str){order.p, order.n}, &arena, &sup, &err);
    if (rc == FR_OK && l->run != NULL && l->run->leased_ms > sup.lease_from_ms)
        sup.lease_from_ms = l->run->leased_ms;
    if (rc == FR_OK)
        rc = begin(s, l, &sup, &err);
    if (rc != FR_OK)
        not_started(s, l, &err);
    fr_arena_finish(&arena);
    fr_buf_finish(&order);
}

void srv_start_queued(struct srv *s)
{
    while (s->n_queued > 0 && has_room(s, 1)) {
        struct srv_live *l = first_queued(s);
        srv_unqueue(s, l);
        start_queued(s, l);
    }
}

/*
 * Gathers ahead of use, on a device that is behind the host: queues of pieces of work that are done
 * later, in any order that the events between them allow. First which gathers are issued when, by
 * the limits; then random units, orders, limits and interleavings, where each use must find every
 * word of its units, and no more elements than are allowed are ever on the device.
 */
#include "tests/unit/check.h"
#include "trainer/shard/shard.h"

#include <stdarg.h>

/* ---- a device ---- */

enum { UNITS = 14, QUEUES = 3, LOG = 512 };

enum piece_kind { COPY, GATHER, RECORD, WAIT, USE, RELEASE };

struct piece {
    enum piece_kind kind;
    uint64_t *dst;
    const uint64_t *src;
    size_t words;        /* of a slice */
    struct tr_queue *of; /* WAIT: until so much of it is done */
    size_t until;
    int unit;
};

struct tr_queue {
    struct device *d;
    struct piece *pieces; /* owns */
    size_t n, cap, done;
};

struct tr_event {
    struct tr_queue *of;
    size_t at;
};

enum haste { EARLY, LATE, MIXED }; /* what brings bytes runs as soon as it can, as late, either */

struct device {
    struct tr_queue *queues[QUEUES];
    int nqueues, ranks;
    enum haste haste;
    uint64_t seed;
    int64_t elements[UNITS], here, limit; /* words of each; now on the device; the most allowed */
    bool on[UNITS];
    int wrong, crowded;
    char log[LOG];
    bool logging;
};

static uint64_t draw(uint64_t *seed, uint64_t n)
{
    *seed = *seed * 6364136223846793005U + 1442695040888963407U;
    return (*seed >> 33) % n;
}

static void note(struct device *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void note(struct device *d, const char *fmt, ...)
{
    size_t n = strlen(d->log);
    va_list ap;

    va_start(ap, fmt);
    if (d->logging)
        (void)vsnprintf(d->log + n, sizeof(d->log) - n, fmt, ap);
    va_end(ap);
}

/* Word i of unit u. */
static uint64_t word(int u, size_t i)
{
    return (uint64_t)u << 32 | i;
}

static void arrive(struct device *d, int u)
{
    if (!d->on[u])
        d->here += d->elements[u];
    d->on[u] = true;
    d->crowded += d->here > d->limit;
}

/* A slice from its rank, which is the first; the others' are known. */
static void gather(struct device *d, const struct piece *p)
{
    uint64_t u = p->src[0] >> 32;

    if (u >= UNITS) { /* its copy has not arrived */
        d->wrong++;
        return;
    }
    for (size_t i = 0; i < p->words * (size_t)d->ranks; i++)
        p->dst[i] = i < p->words ? p->src[i] : word((int)u, i);
    arrive(d, (int)u);
}

static void run_piece(struct device *d, const struct piece *p)
{
    if (p->kind == COPY)
        memmove(p->dst, p->src, p->words * sizeof(uint64_t));
    if (p->kind == COPY && d->ranks == 1)
        arrive(d, (int)(p->src[0] >> 32));
    if (p->kind == GATHER)
        gather(d, p);
    for (size_t i = 0; p->kind == USE && i < p->words; i++)
        d->wrong += p->src[i] != word(p->unit, i);
    if (p->kind == RELEASE) {
        d->here -= d->on[p->unit] ? d->elements[p->unit] : 0;
        d->on[p->unit] = false;
    }
}

/* The next piece of a queue, if nothing holds it up. */
static bool step(struct device *d, struct tr_queue *q)
{
    const struct piece *p = &q->pieces[q->done];

    if (q->done == q->n || (p->kind == WAIT && p->of->done < p->until))
        return false;
    run_piece(d, p);
    q->done++;
    return true;
}

/* Queue 0 is the one of use. */
static void go_on(struct device *d)
{
    for (int i = d->nqueues; i-- > 1 && d->haste == EARLY;)
        while (step(d, d->queues[i]))
            ;
    while (d->haste == LATE && step(d, d->queues[0]))
        ;
    for (uint64_t n = draw(&d->seed, 8); n > 0; n--)
        (void)step(d, d->queues[draw(&d->seed, (uint64_t)d->nqueues)]);
}

static void finish(struct device *d)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < d->nqueues; i++)
            moved = step(d, d->queues[i]) || moved;
    }
    for (int i = 0; i < d->nqueues; i++)
        d->wrong += d->queues[i]->done != d->queues[i]->n;
}

static void put(struct tr_queue *q, struct piece p)
{
    if (q->n == q->cap) {
        q->cap = q->cap == 0 ? 64 : 2 * q->cap;
        q->pieces = realloc(q->pieces, q->cap * sizeof(p));
    }
    q->pieces[q->n++] = p;
}

/* ---- as a backend and a communicator ---- */

static enum fr_rc mem_alloc(void *self, enum tr_mem kind, size_t bytes, void **out,
                            struct fr_err *err)
{
    (void)self;
    (void)kind;
    size_t whole = (bytes / 256 + 1) * 256;

    if ((*out = aligned_alloc(256, whole)) != NULL)
        memset(*out, 0, whole);
    return *out != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "%zu bytes", bytes);
}

static void mem_free(void *self, enum tr_mem kind, void *p)
{
    (void)self;
    (void)kind;
    free(p);
}

static enum fr_rc copy(void *self, struct tr_queue *q, void *dst, const void *src, size_t bytes)
{
    (void)self;
    put(q, (struct piece){.kind = COPY, .dst = dst, .src = src, .words = bytes / 8});
    return FR_OK;
}

/* Before anything else is put into a queue. */
static enum fr_rc zero(void *self, struct tr_queue *q, void *dst, size_t bytes)
{
    (void)self;
    (void)q;
    memset(dst, 0, bytes);
    return FR_OK;
}

static enum fr_rc queue_create(void *self, size_t workspace, struct tr_queue **out,
                               struct fr_err *err)
{
    struct device *d = self;
    struct tr_queue *q = calloc(1, sizeof(*q));

    (void)workspace;
    if (q == NULL || d->nqueues == QUEUES)
        return fr_fail(err, FR_NOMEM, "a queue");
    q->d = d;
    *out = d->queues[d->nqueues++] = q;
    return FR_OK;
}

static void queue_destroy(void *self, struct tr_queue *q)
{
    (void)self;
    free(q->pieces);
    free(q);
}

static enum fr_rc event_create(void *self, bool timed, struct tr_event **out, struct fr_err *err)
{
    (void)self;
    (void)timed;
    *out = calloc(1, sizeof(**out));
    return *out != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "an event");
}

static void event_destroy(void *self, struct tr_event *e)
{
    (void)self;
    free(e);
}

static enum fr_rc event_record(void *self, struct tr_queue *q, struct tr_event *e)
{
    (void)self;
    put(q, (struct piece){.kind = RECORD});
    *e = (struct tr_event){q, q->n};
    return FR_OK;
}

static enum fr_rc event_wait(void *self, struct tr_queue *q, struct tr_event *e)
{
    (void)self;
    if (e->of != NULL)
        put(q, (struct piece){.kind = WAIT, .of = e->of, .until = e->at});
    return FR_OK;
}

static enum fr_rc sync_queue(void *self, struct tr_queue *q, struct fr_err *err)
{
    (void)q;
    (void)err;
    finish(self);
    return FR_OK;
}

static const struct tr_memory_ops memory = {.is_host = true, .alloc = mem_alloc, .free = mem_free};
static const struct tr_queue_ops queues = {
    .create = queue_create,
    .destroy = queue_destroy,
    .copy = copy,
    .zero = zero,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .sync = sync_queue,
};
static const struct tr_backend_ops ops = {.name = "later"};

static enum fr_rc all_gather(void *self, struct tr_queue *q, const struct tr_allgather *x,
                             struct fr_err *err)
{
    struct device *d = self;

    (void)err;
    note(d, " +");
    for (size_t i = 0; i < x->n; i++) {
        const struct tr_gather_item *it = &x->items[i];

        if (d->logging) /* where the base is on the device, so the slice is there already */
            note(d, "%d", (int)(*(const uint64_t *)it->in >> 32));
        put(q,
            (struct piece){.kind = GATHER, .dst = it->out, .src = it->in, .words = it->bytes / 8});
    }
    return FR_OK;
}

static const struct tr_comm_ops comm_ops = {.name = "later", .all_gather = all_gather};

/* ---- a run ---- */

struct run {
    struct device d;
    struct tr_backend be;
    struct tr_comm comm;
    struct tr_shard *shard;
    struct tr_queue *q;
    int64_t most; /* elements that may be live */
    bool rehearsed;
    struct fr_err err;
};

static enum fr_rc fill(void *arg, const struct tr_unit_tensor *t, const struct tr_fill_range *r,
                       struct fr_err *err)
{
    int u = (int)strtol(t->name, NULL, 10);

    (void)arg;
    (void)err;
    for (size_t i = 0; i < r->n / 8; i++)
        ((uint64_t *)r->dst)[i] = word(u, r->at / 8 + i);
    return FR_OK;
}

struct plan {
    int ranks;
    bool host;      /* the base is in the host's memory */
    bool rehearsed; /* nothing is brought */
    struct tr_shard_limits limits;
    int64_t words[UNITS];              /* of each unit; 0: no more units */
    int first[UNITS], n[UNITS], spans; /* what is gathered at once */
    uint64_t seed;
    enum haste haste;
};

static void start(struct run *r, const struct plan *p)
{
    struct tr_shard_opts o = {.be = &r->be,
                              .comm = &r->comm,
                              .partition = true,
                              .place = p->host ? TR_PLACE_HOST : TR_PLACE_DEVICE,
                              .limits = p->limits,
                              .tokens_max = 1};
    struct tr_shard_source src = {.fill = fill};
    int64_t most = p->limits.max_live;
    int id;

    *r = (struct run){.d = {.ranks = p->ranks, .seed = p->seed, .haste = p->haste},
                      .rehearsed = p->rehearsed};
    r->be = (struct tr_backend){&memory, &queues, &r->d, &ops, NULL, NULL, 0};
    r->comm = (struct tr_comm){.ops = &comm_ops, .self = &r->d, .be = &r->be, .size = p->ranks};
    CHECK_INT(tr_queue_create(&r->be, 0, &r->q, &r->err), FR_OK);
    CHECK_INT(tr_shard_create(&o, &r->shard, &r->err), FR_OK);
    for (int u = 0; u < UNITS && p->words[u] > 0; u++) {
        char name[8];
        struct tr_unit_spec spec = {.what = name, .n = 1};

        (void)snprintf(name, sizeof(name), "%d", u);
        spec.tensors[0] = (struct tr_unit_tensor){
            .name = name, .rank = 1, .shape = {p->words[u]}, .dtype = TR_I64};
        r->d.elements[u] = p->words[u];
        CHECK_INT(tr_shard_add(r->shard, &spec, &id, &r->err), FR_OK);
    }
    for (int i = 0; i < p->spans; i++) {
        int64_t sum = 0;

        for (int u = p->first[i]; u < p->first[i] + p->n[i]; u++)
            sum += p->words[u];
        most = sum > most ? sum : most;
        CHECK_INT(tr_shard_plan_window(r->shard, p->first[i], p->n[i], &r->err), FR_OK);
    }
    r->d.limit = r->most = most;
    CHECK_INT(p->rehearsed ? tr_shard_rehearse(r->shard, &r->err)
                           : tr_shard_fill(r->shard, &src, &r->err),
              FR_OK);
}

/* Gathers one span, uses its units, releases it; the device goes on in between. */
static enum fr_rc use(struct run *r, int first, int n)
{
    enum fr_rc rc = tr_shard_gather(r->shard, r->q, first, n, &r->err);

    if (rc != FR_OK)
        return rc;
    go_on(&r->d);
    note(&r->d, " =");
    for (int u = first; u < first + n && !r->rehearsed; u++) {
        struct tr_view v = tr_shard_view(r->shard, u, 0);

        note(&r->d, "%d", u);
        put(r->q,
            (struct piece){.kind = USE, .src = v.p, .words = (size_t)r->d.elements[u], .unit = u});
    }
    go_on(&r->d);
    for (int u = first; u < first + n; u++)
        put(r->q, (struct piece){.kind = RELEASE, .unit = u});
    rc = tr_shard_release(r->shard, r->q, first, n, &r->err);
    go_on(&r->d);
    return rc;
}

static void stop(struct run *r, const struct plan *p, struct tr_shard_stats *stats)
{
    finish(&r->d);
    CHECK_INT(r->d.wrong, 0);
    CHECK_INT(r->d.crowded, 0);
    tr_shard_stats(r->shard, stats);
    CHECK(stats->live <= r->most);
    CHECK(p->limits.prefetch_bucket == 0 ? stats->ahead == 0
                                         : stats->ahead < p->limits.prefetch_bucket + r->most);
    tr_shard_destroy(r->shard);
    tr_queue_destroy(&r->be, r->q);
}

/* ---- which gathers when ---- */

/* Unit 0 is an attention, then three windows of two experts, forward and backward. */
struct order_row {
    const char *name;
    struct tr_shard_limits limits; /* ahead, live, reuse */
    const char *want; /* of the third pass: +12 units 1 and 2 are gathered, =12 are used */
};

#define LIMITS(bucket, live, reuse)                                                                \
    {                                                                                              \
        .prefetch_bucket = (bucket), .max_live = (live), .max_reuse = (reuse)                      \
    }

static const struct order_row order_rows[] = {
    {"room for two windows", LIMITS(200, 400, 0),
     " =0 +12 +34 =12 +56 =34 +12 =56 +34 =12 +56 =34 =56 +0 =0"},
    {"room for a window and a half: no window in parts", LIMITS(1000, 399, 0),
     " =0 +12 =12 +34 =34 +56 =56 +12 =12 +34 =34 +56 =56 +0 =0"},
    {"no room for two", LIMITS(1000, 299, 0),
     " =0 +12 =12 +34 =34 +56 =56 +12 =12 +34 =34 +56 =56 +0 =0"},
    {"no room at all", LIMITS(1000, 1, 0),
     " =0 +12 =12 +34 =34 +56 =56 +12 =12 +34 =34 +56 =56 +0 =0"},
    {"never ahead", LIMITS(0, 1000, 0),
     " =0 +12 =12 +34 =34 +56 =56 +12 =12 +34 =34 +56 =56 +0 =0"},
    {"one expert ahead: the next window whole", LIMITS(100, 1000, 0),
     " +12 =0 +34 =12 +56 =34 +12 =56 +34 =12 +56 =34 +0 =56 =0"},
    {"one element ahead: the same", LIMITS(1, 1000, 0),
     " +12 =0 +34 =12 +56 =34 +12 =56 +34 =12 +56 =34 +0 =56 =0"},
    {"two windows ahead", LIMITS(400, 700, 0), " +12 =0 +34 +56 =12 =34 =56 =12 =34 +0 =56 =0"},
    {"all ahead", LIMITS(1000, 1000, 0), " +12 +34 +56 =0 =12 =34 =56 =12 =34 =56 =0"},
    {"kept over two windows", LIMITS(0, 1000, 400),
     " =0 +12 =12 +34 =34 +56 =56 =12 =34 =56 +0 =0"},
    {"kept as far as there is room", LIMITS(0, 700, 1000),
     " =0 +12 =12 +34 =34 =56 =12 =34 =56 +0 =0"},
    {"kept and ahead", LIMITS(200, 600, 400), " +12 =0 +34 =12 +56 =34 =56 =12 =34 +0 =56 =0"},
};

static void check_order(const struct order_row *row)
{
    static const int steps[][2] = {{0, 1}, {1, 2}, {3, 2}, {5, 2}, {1, 2}, {3, 2}, {5, 2}, {0, 1}};
    struct plan p = {.ranks = 2,
                     .limits = row->limits,
                     .words = {300, 100, 100, 100, 100, 100, 100},
                     .first = {0, 1, 3, 5},
                     .n = {1, 2, 2, 2},
                     .spans = 4};
    struct tr_shard_stats stats;
    struct run r;

    check_row(row->name);
    start(&r, &p);
    for (int pass = 0; pass < 3; pass++) {
        r.d.logging = pass == 2;
        CHECK_INT(tr_shard_begin(r.shard, 0, &r.err), FR_OK);
        for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
            CHECK_INT(use(&r, steps[i][0], steps[i][1]), FR_OK);
        CHECK_INT(tr_shard_end(r.shard, false, &r.err), FR_OK);
    }
    CHECK_TEXT(r.d.log, row->want);
    stop(&r, &p, &stats);
}

/* ---- anything ---- */

enum { STEPS = 24 };

static struct plan any_plan(uint64_t *seed)
{
    static const int64_t limits[] = {0, 1, 90, 200, 400, 800, 2000, 100000};
    struct plan p = {.ranks = 1 + (int)draw(seed, 3), .haste = (enum haste)draw(seed, 3)};
    int units = 2 + (int)draw(seed, UNITS - 2);

    p.host = p.ranks == 1 || draw(seed, 3) == 0;
    p.limits.prefetch_bucket = limits[draw(seed, 8)];
    p.limits.max_live = limits[1 + draw(seed, 7)];
    p.limits.max_reuse = limits[draw(seed, 8)];
    for (int u = 0; u < units;) {
        int n = 1 + (int)draw(seed, 4);
        int64_t words = 33 + (int64_t)draw(seed, 300);

        n = n < units - u ? n : units - u;
        p.first[p.spans] = u;
        p.n[p.spans++] = n;
        for (; n > 0; n--) /* neighbours are of one size or nearly so */
            p.words[u++] = words + (int64_t)draw(seed, 2) * 40;
    }
    p.seed = *seed;
    return p;
}

/* Passes of two orders, now and then one that fails in the middle. */
static void run_any(struct run *r, const struct plan *p, uint64_t *seed)
{
    int order[2][STEPS];

    for (int i = 0; i < 2 * STEPS; i++)
        order[i / STEPS][i % STEPS] = (int)draw(seed, (uint64_t)p->spans);
    for (int k = 0; k < 8; k++) {
        int pass = draw(seed, 4) == 0, fails = draw(seed, 5) == 0 ? (int)draw(seed, STEPS) : -1;

        CHECK_INT(tr_shard_begin(r->shard, pass, &r->err), FR_OK);
        for (int i = 0; i < STEPS && i != fails; i++) {
            int span = order[pass][i];

            if (!CHECK_INT(use(r, p->first[span], p->n[span]), FR_OK)) {
                printf("%s\n", r->err.msg);
                return;
            }
        }
        if (fails >= 0)
            r->d.limit = INT64_MAX; /* what is dropped is not seen to go */
        if (fails >= 0 && draw(seed, 2) == 0) {
            int span = order[pass][fails];

            CHECK_INT(tr_shard_gather(r->shard, r->q, p->first[span], p->n[span], &r->err), FR_OK);
        }
        CHECK_INT(tr_shard_end(r->shard, fails >= 0, &r->err), FR_OK);
    }
}

/* The same once more: what was gathered when, with no bytes moved. */
static void check_rehearsal(struct plan p, uint64_t seed, const struct tr_shard_stats *want)
{
    struct tr_shard_stats stats;
    struct run r;

    p.rehearsed = true;
    start(&r, &p);
    run_any(&r, &p, &seed);
    stop(&r, &p, &stats);
    CHECK(memcmp(&stats, want, sizeof(stats)) == 0);
}

static void check_any(int runs)
{
    struct tr_shard_stats sum = {0};
    char name[32];

    for (int i = 0; i < runs; i++) {
        uint64_t seed = (uint64_t)i + 1, again;
        struct tr_shard_stats stats;
        struct plan p;
        struct run r;

        (void)snprintf(name, sizeof(name), "run %d", i);
        check_row(name);
        (void)draw(&seed, 1);
        p = any_plan(&seed);
        again = seed;
        start(&r, &p);
        run_any(&r, &p, &seed);
        stop(&r, &p, &stats);
        check_rehearsal(p, again, &stats);
        sum.gathers += stats.gathers;
        sum.prefetched += stats.prefetched;
        sum.reused += stats.reused;
    }
    check_row("all runs");
    CHECK(sum.prefetched > sum.gathers / 20 && sum.reused > sum.gathers / 5);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof(order_rows) / sizeof(*order_rows); i++)
        check_order(&order_rows[i]);
    check_any(argc > 1 ? (int)strtol(argv[1], NULL, 10) : 400);
    return check_done();
}

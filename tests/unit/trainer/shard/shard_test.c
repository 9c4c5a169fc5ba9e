/*
 * Shards over W = 1 to 4 ranks (threads): bytes a rank holds, what a gather and a fetch of rows
 * bring, the recorded order with and without prefetch.
 */
#include "tests/ref/ref.h"
#include "tests/unit/check.h"
#include "tests/unit/trainer/comm/ranks.h"
#include "tests/unit/trainer/model/tiny_model.h"

#include <math.h>
#include <unistd.h>

enum { UNITS = 5, ROWS = 11, COLS = 3, FETCH = 6 };

/* ---- units ---- */

enum filled { FILLED, FILLED_IN_PLACE, FILLED_ON_HOST };

struct probe {
    struct tr_shard_limits limits;
    bool partition;
    enum filled filled;
    int failed; /* checks made on threads are counted here */
    struct tr_shard_bytes bytes;
    struct tr_shard_stats stats;
};

static double value(const char *name, uint64_t i)
{
    return tiny_value(name, i);
}

static int add_units(struct tr_shard *s, struct fr_err *err)
{
    static const char *const names[UNITS] = {"u0", "u1", "u2", "u3", "u4"};
    int id = -1;

    for (int i = 0; i < UNITS; i++) {
        struct tr_unit_spec u = {.what = names[i], .n = 2};

        u.kind = i == 4 ? TR_UNIT_PERSISTENT : TR_UNIT_SHARDED;
        u.tensors[0] =
            (struct tr_unit_tensor){.name = "a", .rank = 2, .shape = {7 + i, 13}, .dtype = TR_F32};
        u.tensors[1] = (struct tr_unit_tensor){
            .name = "b", .rank = 1, .shape = {5 * i + 1}, .row0 = i, .dtype = TR_F32};
        if (tr_shard_add(s, &u, &id, err) != FR_OK || id != i)
            return -1;
    }
    struct tr_unit_spec rows = {.what = "rows", .kind = TR_UNIT_ROWS, .n = 1};

    rows.tensors[0] =
        (struct tr_unit_tensor){.name = "embed", .rank = 2, .shape = {ROWS, COLS}, .dtype = TR_F32};
    if (tr_shard_plan_window(s, 2, 2, err) != FR_OK || tr_shard_add(s, &rows, &id, err) != FR_OK)
        return -1;
    rows.tensors[0].name = "narrow";
    rows.tensors[0].shape[1] = COLS - 1;
    return tr_shard_add(s, &rows, &id, err) == FR_OK ? id - 1 : -1;
}

static int wrong_values(const struct tr_shard *s, int unit)
{
    struct tr_view a = tr_shard_view(s, unit, 0), b = tr_shard_view(s, unit, 1);
    int bad = 0;

    for (int64_t i = 0; i < tr_view_count(a); i++)
        bad += tr_get(a, i) != (double)(float)value("a", (uint64_t)i);
    for (int64_t i = 0; i < tr_view_count(b); i++)
        bad += tr_get(b, i) != (double)(float)value("b", (uint64_t)(unit + i));
    return bad;
}

/* Gathers in one fixed order, as a pass of training would. */
static int one_pass(struct tr_shard *s, struct tr_queue *q, int pass)
{
    static const int order[][2] = {{0, 1}, {2, 2}, {1, 1}, {1, 1}, {2, 2}, {0, 1}};
    struct fr_err err = {0};
    int bad = tr_shard_begin(s, pass, &err) != FR_OK;

    for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++) {
        bad += tr_shard_gather(s, q, order[i][0], order[i][1], &err) != FR_OK;
        for (int u = order[i][0]; u < order[i][0] + order[i][1]; u++)
            bad += wrong_values(s, u);
        bad += wrong_values(s, 4);
        bad += tr_shard_release(s, q, order[i][0], order[i][1], &err) != FR_OK;
    }
    bad += tr_shard_end(s, false, &err) != FR_OK;
    if (bad > 0)
        printf("%s\n", err.msg);
    return bad;
}

static const int32_t fetched[3][FETCH] = {
    {10, 0, 10, 3, 7, 7}, {0, 0, 0, 0, 0, 0}, {10, 9, 8, 7, 6, 5}};

static const int32_t *ids_of(int rank, int round, int64_t *n)
{
    *n = rank == 1 && round == 2 ? 0 : FETCH - round;
    return fetched[(round + rank) % 3];
}

/* Rows that a rank sends, itself included: of each rank's ids those that it has, once each. */
static size_t rows_sent(int W, int rank, int round)
{
    int per = (ROWS + W - 1) / W;
    size_t sent = 0;

    for (int k = 0; k < W; k++) {
        bool seen[ROWS] = {false};
        int64_t n;
        const int32_t *ids = ids_of(k, round, &n);

        for (int64_t t = 0; t < n; t++) {
            sent += ids[t] / per == rank && !seen[ids[t]];
            seen[ids[t]] = true;
        }
    }
    return sent;
}

static int fetch_rows(struct tr_shard *s, struct tr_queue *q, int unit, int rank)
{
    static const char *const names[] = {"embed", "narrow"};
    int32_t index[FETCH];
    struct fr_err err = {0};
    int bad = 0;

    for (int round = 0; round < 3; round++)
        for (int k = 0; k < 2; k++) {
            int64_t n, cols = COLS - k;
            const int32_t *mine = ids_of(rank, round, &n);
            struct tr_fetch_rows f = {
                .unit = unit + k, .ids = mine, .tokens = n, .out_index = index};

            bad += tr_shard_fetch_rows(s, q, &f, &err) != FR_OK;
            for (int64_t t = 0; t < n && bad == 0; t++)
                for (int64_t c = 0; c < cols; c++)
                    bad += tr_get(f.table, index[t] * cols + c) !=
                           (double)(float)value(names[k], (uint64_t)(mine[t] * cols + c));
            bad += tr_shard_rows_used(s, q, &err) != FR_OK;
        }
    return bad;
}

static int refused_rows(struct tr_shard *s, struct tr_queue *q, int unit)
{
    static const struct {
        int32_t id;
        int64_t n;
        enum fr_rc rc;
        const char *message;
    } rows[] = {{ROWS, 1, FR_USAGE, "token id 11 is not below the vocabulary's 11"},
                {-1, 1, FR_USAGE, "token id -1 is not below the vocabulary's 11"},
                {0, FETCH + 1, FR_SHAPE, "7 tokens, buffers hold 6"}};
    int bad = 0;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int32_t ids[FETCH + 1] = {rows[i].id}, index[FETCH + 1];
        struct tr_fetch_rows f = {
            .unit = unit, .ids = ids, .tokens = rows[i].n, .out_index = index};
        struct fr_err err = {0};

        bad += tr_shard_fetch_rows(s, q, &f, &err) != rows[i].rc ||
               strcmp(err.msg, rows[i].message) != 0;
    }
    return bad;
}

/* As tiny_fill, where the shard hands out its own memory and the queue that fills it. */
static enum fr_rc fill_in_place(void *arg, const struct tr_unit_tensor *t,
                                const struct tr_fill_range *r, struct fr_err *err)
{
    return r->q != NULL ? tiny_fill(arg, t, r, err) : fr_fail(err, FR_BUG, "no queue");
}

static void probe_body(struct rank_self *self, void *arg)
{
    struct probe *p = arg;
    bool in_place = p->filled == FILLED_IN_PLACE;
    struct tr_shard_source src = {.on_device = in_place,
                                  .fill = in_place ? fill_in_place : tiny_fill};
    struct tr_shard_opts o = {.partition = p->partition,
                              .place =
                                  p->filled == FILLED_ON_HOST ? TR_PLACE_HOST : TR_PLACE_DEVICE,
                              .limits = p->limits,
                              .tokens_max = FETCH};
    struct tr_backend *be = NULL;
    struct tr_queue *q = NULL;
    struct tr_shard *s = NULL;
    struct fr_err err = {0};
    struct tr_comm comm;
    int rows;

    p->failed += tr_ref_create(&be, &err) != FR_OK;
    comm = ranks_comm(self, be);
    o.be = be;
    o.comm = &comm;
    p->failed += tr_queue_create(be, 0, &q, &err) != FR_OK;
    p->failed += tr_shard_create(&o, &s, &err) != FR_OK;
    rows = add_units(s, &err);
    p->failed += rows < 0;
    tr_shard_bytes(s, &p->bytes);
    p->failed += tr_shard_fill(s, &src, &err) != FR_OK;
    for (int i = 0; i < 3; i++)
        p->failed += one_pass(s, q, 0);
    p->failed += fetch_rows(s, q, rows, self->rank) + refused_rows(s, q, rows);
    tr_shard_stats(s, &p->stats);
    tr_shard_destroy(s);
    tr_queue_destroy(be, q);
    tr_backend_destroy(be);
}

struct expected {
    const char *name;
    int W;
    bool partition;
    struct tr_shard_limits limits;
    int64_t gathers, prefetched, reused;
    enum filled filled;
};

#define LIMITS(bucket, live, reuse)                                                                \
    {                                                                                              \
        .prefetch_bucket = (bucket), .max_live = (live), .max_reuse = (reuse)                      \
    }

static const struct expected cases[] = {
    {"one rank", 1, true, LIMITS(1000, 1000, 1000), 0, 0, 0, FILLED},
    {"two, not partitioned", 2, false, LIMITS(1000, 1000, 1000), 0, 0, 0, FILLED},
    {"two, no limits", 2, true, LIMITS(100000, 100000, 100000), 9, 2, 9, FILLED},
    {"two, never ahead", 2, true, LIMITS(0, 100000, 100000), 9, 0, 9, FILLED},
    {"two, kept for the very next", 2, true, LIMITS(0, 100000, 0), 15, 0, 3, FILLED},
    {"two, ahead, kept for the very next", 2, true, LIMITS(100000, 100000, 0), 11, 4, 7, FILLED},
    {"two, kept over 200 elements", 2, true, LIMITS(0, 100000, 200), 14, 0, 4, FILLED},
    {"three", 3, true, LIMITS(100000, 100000, 100000), 9, 2, 9, FILLED},
    {"three, filled in place", 3, true, LIMITS(100000, 100000, 100000), 9, 2, 9, FILLED_IN_PLACE},
    {"four, live limit", 4, true, LIMITS(100000, 300, 100000), 15, 0, 3, FILLED},
    {"four, all alone", 4, true, LIMITS(100000, 1, 0), 15, 0, 3, FILLED},
    {"one, on the host", 1, true, LIMITS(100000, 100000, 100000), 9, 2, 9, FILLED_ON_HOST},
    {"two, each all on the host", 2, false, LIMITS(0, 100000, 0), 15, 0, 3, FILLED_ON_HOST},
    {"three, on the host", 3, true, LIMITS(100000, 100000, 0), 11, 4, 7, FILLED_ON_HOST},
};

/* Bytes of fetched rows, and of the buffers: ids to pick, twice for each round in the host's
 * memory, rows to send, rows of all tokens. */
static void check_rows(int W, int rank, const struct probe *p, bool sharded)
{
    size_t sent = 0, got = 0, w = (size_t)W, pick = w * ((FETCH + w - 1) / w);

    for (int round = 0; round < 3 && sharded; round++)
        sent += rows_sent(W, rank, round) * (2 * COLS - 1) * sizeof(float);
    for (int c = 0; c < TR_LINK_CLASSES; c++)
        got += p->stats.rows_bytes[c];
    CHECK_INT(got, sent);
    CHECK_INT(p->bytes.rows,
              sharded ? (1 + 2 * w) * pick * sizeof(int32_t) + (pick + FETCH) * COLS * sizeof(float)
                      : 0);
}

static void try_case(const struct expected *c)
{
    struct probe p[RANKS_MAX] = {0};
    void *args[RANKS_MAX];

    check_row(c->name);
    for (int k = 0; k < c->W; k++) {
        p[k] = (struct probe){.limits = c->limits, .partition = c->partition, .filled = c->filled};
        args[k] = &p[k];
    }
    ranks_run(c->W, probe_body, args);
    for (int k = 0; k < c->W; k++) {
        bool sharded = c->W > 1 && c->partition;

        CHECK_INT(p[k].failed, 0);
        CHECK_INT(p[k].stats.gathers, c->gathers);
        CHECK_INT(p[k].stats.prefetched, c->prefetched);
        CHECK_INT(p[k].stats.reused, c->reused);
        if (!sharded)
            CHECK(p[k].bytes.base + p[k].bytes.persistent == p[k].bytes.model);
        else
            CHECK(p[k].bytes.base < p[k].bytes.model / (size_t)c->W + 256 * (UNITS + 2));
        check_rows(c->W, k, &p[k], sharded);
    }
}

/* ---- ahead of use ---- */

/* Steps of a pass that have nothing in common with their neighbours. */
static const int apart[][2] = {{0, 1}, {2, 2}, {1, 1}, {0, 1}, {2, 2}};
enum { APART = sizeof(apart) / sizeof(*apart), APART_PASSES = 3 };

struct ahead_row {
    const char *name;
    int W;
    struct tr_shard_limits limits;
    enum filled filled;
    int64_t gathers, prefetched, ahead;
};

struct ahead_probe {
    const struct ahead_row *row;
    int failed;
    int64_t order[APART_PASSES * APART]; /* collectives asked for when a step's use begins */
    struct tr_shard_stats stats;
};

static void ahead_body(struct rank_self *self, void *arg)
{
    struct ahead_probe *p = arg;
    struct tr_shard_source src = {.fill = tiny_fill};
    struct tr_shard_opts o = {.partition = true,
                              .place = p->row->filled == FILLED_ON_HOST ? TR_PLACE_HOST
                                                                        : TR_PLACE_DEVICE,
                              .limits = p->row->limits,
                              .tokens_max = FETCH};
    struct tr_queue *q = NULL;
    struct tr_shard *s = NULL;
    struct fr_err err = {0};
    struct tr_comm comm;
    int n = 0;

    p->failed += tr_ref_create(&o.be, &err) != FR_OK;
    comm = ranks_comm(self, o.be);
    o.comm = &comm;
    p->failed += tr_queue_create(o.be, 0, &q, &err) != FR_OK;
    p->failed += tr_shard_create(&o, &s, &err) != FR_OK || add_units(s, &err) < 0;
    p->failed += tr_shard_fill(s, &src, &err) != FR_OK;
    for (int pass = 0; pass < APART_PASSES; pass++) {
        p->failed += tr_shard_begin(s, 0, &err) != FR_OK;
        for (int i = 0; i < APART; i++) {
            p->failed += tr_shard_gather(s, q, apart[i][0], apart[i][1], &err) != FR_OK;
            tr_shard_stats(s, &p->stats);
            p->order[n++] = p->stats.gathers;
            for (int u = apart[i][0]; u < apart[i][0] + apart[i][1]; u++)
                p->failed += wrong_values(s, u);
            p->failed += tr_shard_release(s, q, apart[i][0], apart[i][1], &err) != FR_OK;
        }
        p->failed += tr_shard_end(s, false, &err) != FR_OK;
    }
    tr_shard_stats(s, &p->stats);
    tr_shard_destroy(s);
    tr_queue_destroy(o.be, q);
    tr_backend_destroy(o.be);
}

/* Elements: u0 92, u1 110, u2 and u3 128 + 146. A bucket of one element sends one step ahead, a
 * whole one; what max_live does not hold beside the step in use does not go in part either. */
static const struct ahead_row ahead_rows[] = {
    {"any bucket, W=2", 2, LIMITS(1, 100000, 0), FILLED, 15, 8, 274},
    {"any bucket, W=3", 3, LIMITS(1, 100000, 0), FILLED, 15, 8, 274},
    {"any bucket, W=4", 4, LIMITS(1, 100000, 0), FILLED, 15, 8, 274},
    {"any bucket, on the host, W=1", 1, LIMITS(1, 100000, 0), FILLED_ON_HOST, 15, 8, 274},
    {"room for two steps, W=2", 2, LIMITS(1, 384, 0), FILLED, 15, 8, 274},
    {"one element less, W=2", 2, LIMITS(1, 383, 0), FILLED, 15, 6, 274},
    {"no bucket, W=2", 2, LIMITS(0, 100000, 0), FILLED, 15, 0, 0},
    /* steps 1 and 0 go ahead beside the largest, which is there still when it is used again */
    {"a bucket as large as the largest step, W=2", 2, LIMITS(274, 100000, 0), FILLED, 13, 6, 274},
    {"auto is the largest step, W=2",
     2,
     {.prefetch_bucket = 1, .prefetch_auto = true, .max_live = 100000},
     FILLED,
     13,
     6,
     274},
};

static void try_ahead(const struct ahead_row *row)
{
    static struct ahead_probe p[RANKS_MAX];
    void *args[RANKS_MAX];
    bool next = row->prefetched == (APART_PASSES - 1) * (APART - 1);

    check_row(row->name);
    for (int k = 0; k < row->W; k++) {
        p[k] = (struct ahead_probe){.row = row};
        args[k] = &p[k];
    }
    ranks_run(row->W, ahead_body, args);
    for (int k = 0; k < row->W; k++) {
        CHECK_INT(p[k].failed, 0);
        CHECK_INT(p[k].stats.gathers, row->gathers);
        CHECK_INT(p[k].stats.prefetched, row->prefetched);
        CHECK_INT(p[k].stats.ahead, row->ahead);
        for (int i = 0; i < APART_PASSES * APART && next; i++)
            CHECK_INT(p[k].order[i], i + 1 + (i >= APART && i % APART != APART - 1));
    }
}

/* Windows beside their neighbours, and what the user is told of the limits. */
static void check_windows(struct tr_backend *be)
{
    struct tr_comm comm = {.be = be, .size = 2};
    struct tr_shard_opts o = {
        .be = be, .comm = &comm, .partition = true, .limits = LIMITS(1, 400, 0), .tokens_max = 1};
    struct tr_shard *s = NULL;
    struct fr_buf notes = {0};
    struct fr_err err = {0};

    check_row("windows");
    CHECK_INT(tr_shard_create(&o, &s, &err), FR_OK);
    CHECK(add_units(s, &err) >= 0);
    CHECK_INT(tr_shard_elements(s, 1), 110);
    CHECK_INT(tr_shard_window_units(s, 100, 200), 2);
    tr_shard_notes(s, &notes);
    CHECK_TEXT(notes.p, "stage3_prefetch_bucket_size 1 is less than the largest gather, 274 "
                        "elements: a gather still goes ahead whole, one at a time\n");
    CHECK_INT(tr_shard_window_units(s, 100, 201), 1);
    CHECK_INT(tr_shard_window_units(s, 100, 500), 1);
    notes.n = 0;
    tr_shard_notes(s, &notes);
    CHECK(strstr(notes.p, "stage3_max_live_parameters 400: 1 experts are gathered at once instead "
                          "of 2, so that the gather before them fits beside them\n") != NULL);
    fr_buf_finish(&notes);
    tr_shard_destroy(s);
}

/* ---- order ---- */

static void check_order(struct tr_backend *be)
{
    struct ranks all = {.size = 1};
    struct rank_self self = {.all = &all};
    struct tr_shard_source src = {.fill = tiny_fill};
    struct tr_shard_opts o = {.be = be, .partition = true, .tokens_max = FETCH};
    struct tr_comm comm;
    struct tr_shard *s = NULL;
    struct fr_err err = {0};

    check_row("order");
    pthread_barrier_init(&all.barrier, NULL, 1);
    comm = ranks_comm(&self, be);
    o.comm = &comm;
    CHECK_INT(tr_shard_create(&o, &s, &err), FR_OK);
    CHECK(add_units(s, &err) >= 0);
    comm.size = 1;
    CHECK_INT(tr_shard_fill(s, &src, &err), FR_OK);
    CHECK_INT(tr_shard_end(s, false, &err), FR_BUG);
    CHECK_INT(tr_shard_begin(s, 1, &err), FR_OK);
    CHECK_INT(tr_shard_begin(s, 1, &err), FR_BUG);
    CHECK_INT(tr_shard_end(s, true, &err), FR_OK);
    tr_shard_destroy(s);
    pthread_barrier_destroy(&all.barrier);
}

/* ---- loading ---- */

/* A unit wants w (4, 6) rows 1..3 as bf16; the checkpoint holds something else. */
struct load_row {
    const char *name, *tensor;
    enum tr_st_type type;
    int64_t rows;
    float bad; /* element 7; 0: none */
    enum fr_rc rc;
    const char *message;
};

static const struct load_row loads[] = {
    {"converted", "w", TR_ST_F32, 4, 0, FR_OK, ""},
    {"as it is", "w", TR_ST_BF16, 4, 0, FR_OK, ""},
    {"half", "w", TR_ST_F16, 4, 0, FR_OK, ""},
    {"missing", "v", TR_ST_F32, 4, 0, FR_NOTFOUND, "w: no such tensor in the checkpoint"},
    {"other shape", "w", TR_ST_F32, 5, 0, FR_SHAPE, "tensor 'w' has shape [5, 6], expected [4, 6]"},
    {"integers", "w", TR_ST_I32, 4, 0, FR_DTYPE, "w: is i32, bf16 is needed"},
    {"not a number", "w", TR_ST_F32, 4, NAN, FR_CORRUPT, "w: holds a value that is not finite"},
    {"infinite", "w", TR_ST_F16, 4, INFINITY, FR_CORRUPT, "w: holds a value that is not finite"},
    {"an FP8 code that is no number", "w", TR_ST_F8_E4M3, 4, NAN, FR_CORRUPT,
     "w: holds a value that is not finite"},
    {"FP8 whose other part is no number", "w", TR_ST_F8_E4M3, 4, -1, FR_OK, ""},
    {"infinite elsewhere", "w", TR_ST_F32, 4, -1, FR_OK, ""}, /* element 0 is not this part's */
};

static void write_file(const struct load_row *r, const char *path)
{
    float f[30];
    uint16_t h[30];
    int32_t n[30];
    uint8_t b[30];
    struct fr_err err = {0};
    struct tr_st_item it = {.name = r->tensor, .type = r->type, .ndim = 2, .shape = {r->rows, 6}};

    for (int i = 0; i < 30; i++) {
        f[i] = 0.25F * (float)i;
        if (i == 7 && r->bad != 0 && r->bad != -1)
            f[i] = r->bad;
        if (i == 0 && r->bad == -1)
            f[i] = INFINITY;
        h[i] = r->type == TR_ST_BF16 ? tr_bf16_of(f[i]) : tr_f16_of(f[i]);
        n[i] = i;
        b[i] = (uint8_t)(isfinite(f[i]) ? i % 8 : 0xff);
    }
    it.data = r->type == TR_ST_F32       ? (const void *)f
              : r->type == TR_ST_I32     ? (const void *)n
              : r->type == TR_ST_F8_E4M3 ? (const void *)b
                                         : h;
    CHECK_INT(tr_st_write(path, &it, 1, NULL, 0, &err), FR_OK);
}

static void try_load(struct tr_backend *be, struct tr_comm *comm, const struct load_row *r,
                     const char *path)
{
    struct tr_shard_opts o = {.be = be, .comm = comm};
    struct tr_unit_spec spec = {.what = "unit", .n = 1};
    struct tr_shard *s = NULL;
    struct tr_st *st = NULL;
    struct fr_err err = {0};
    int id;

    check_row(r->name);
    write_file(r, path);
    spec.tensors[0] =
        (struct tr_unit_tensor){.name = "w",
                                .rank = 2,
                                .shape = {2, 6},
                                .row0 = 1,
                                .disk_rows = 4,
                                .dtype = r->type == TR_ST_F8_E4M3 ? TR_F8_E4M3 : TR_BF16};
    CHECK_INT(tr_st_open(path, &st, &err), FR_OK);
    CHECK_INT(tr_shard_create(&o, &s, &err), FR_OK);
    CHECK_INT(tr_shard_add(s, &spec, &id, &err), FR_OK);
    CHECK_INT(tr_shard_load(s, st, NULL, &err), r->rc);
    CHECK_TEXT(err.msg, r->message);
    for (int i = 0; i < 12 && r->rc == FR_OK; i++)
        CHECK(tr_get(tr_shard_view(s, id, 0), i) ==
              (r->type == TR_ST_F8_E4M3 ? ldexp((i + 6) % 8, -9) : 0.25 * (i + 6)));
    tr_shard_destroy(s);
    tr_st_close(st);
}

static void check_loads(struct tr_backend *be)
{
    char dir[] = "/tmp/shard_test.XXXXXX", path[64];
    struct tr_comm *comm = NULL;
    struct fr_err err = {0};

    if (!CHECK(mkdtemp(dir) != NULL))
        return;
    (void)snprintf(path, sizeof(path), "%s/x.safetensors", dir);
    CHECK_INT(tr_comm_single(be, &comm, &err), FR_OK);
    for (size_t i = 0; i < sizeof(loads) / sizeof(*loads); i++)
        try_load(be, comm, &loads[i], path);
    tr_comm_destroy(comm);
    (void)unlink(path);
    (void)rmdir(dir);
}

int main(void)
{
    struct tr_backend *be = NULL;
    struct fr_err err = {0};

    CHECK_INT(tr_ref_create(&be, &err), FR_OK);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        try_case(&cases[i]);
    for (size_t i = 0; i < sizeof(ahead_rows) / sizeof(*ahead_rows); i++)
        try_ahead(&ahead_rows[i]);
    check_windows(be);
    check_order(be);
    check_loads(be);
    tr_backend_destroy(be);
    return check_done();
}

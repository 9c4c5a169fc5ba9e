/* Measures the speed of this machine's processors: flops by products of the job's own shapes, rows
 * and draws by ops on as many rows. */
#include "engine/base/sys.h"
#include "trainer/backend/cost.h"
#include "trainer/plan/plan.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 3, VIEWS = 5, PARTS = 6, COPIES = 8, ROWS_MAX = 1024, OUT_MAX = 4096 };
#define COPIES_BYTES (64 << 20)
#define ALONE_S 0.25

/* Products of rows by weights of (out, in), of which a token's operations are a share. */
struct part {
    int64_t rows, in, out;
    double share;
};

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Weights of a token's linears, three products each; the head's two; the adapters' narrow ones. */
static void list_parts(const struct tr_plan_job *job, double adapters, struct part out[PARTS])
{
    const struct tr_model_config *c = job->config;
    int64_t H = c->hidden_size, L = c->num_hidden_layers;
    int64_t T = least(job->batch * job->cutoff, ROWS_MAX); /* more of them are no faster */
    int64_t moe = tr_model_moe_count(c), E = c->n_routed_experts, K = c->num_experts_per_tok;
    int64_t X = job->asked != NULL && job->asked->experts > 0 ? job->asked->experts : 1;
    struct tr_model_counts n;

    tr_model_count(c, &n);
    memset(out, 0, PARTS * sizeof(*out));
    out[0] = (struct part){T, H, least(n.attention_layer / H, OUT_MAX),
                           6.0 * (double)(L * n.attention_layer)};
    out[1] = (struct part){T, H, least(c->intermediate_size, OUT_MAX),
                           6.0 * (double)((L - moe) * n.dense_ffn)};
    out[2] = (struct part){T, H, least(c->vocab_size, OUT_MAX), tr_plan_head_flops(job)};
    if (job->lora != NULL)
        out[3] = (struct part){T, H, job->lora->r, 8.0 * adapters};
    if (moe == 0)
        return;
    out[4] = (struct part){T, H, least(n.shared_expert / (3 * H), OUT_MAX),
                           6.0 * (double)(moe * n.shared_expert)};
    out[5] = (struct part){T * K * X / E + 1, H, c->moe_intermediate_size,
                           6.0 * (double)(moe * K * n.expert)};
}

/* Memory for the largest part: rows in and out, and weights that no cache keeps. */
struct bench {
    struct tr_plan_bench on;
    struct tr_queue *q;
    enum tr_dtype type;
    char *x, *y, *w;
    size_t w_bytes;
    char *r; /* VIEWS of shape rows x width, and numbers of the rows */
    int64_t rows, width;
};

/* Repeated timings of the same work. */
struct timing {
    double sum, least;
    int64_t n;
};

static void note(struct timing *t, double seconds)
{
    t->least = t->n == 0 ? seconds : fmin(t->least, seconds);
    t->sum += seconds;
    t->n++;
}

/* The mean if other ranks measure, too; alone the least time, which had no disturbance. */
static double once(const struct bench *b, const struct timing *t)
{
    return b->on.seconds > 0 ? t->sum / (double)t->n : t->least;
}

/* Products of one part: forward, and back to its input. */
struct tried {
    struct timing ways[2];
};

/* One product with the next weight. */
static enum fr_rc run_product(const struct bench *b, const struct part *p, bool back,
                              struct timing *t, struct fr_err *err)
{
    size_t bytes = (size_t)(p->in * p->out) * tr_dtype_bytes(b->type);
    int64_t copies = least(COPIES, (int64_t)(b->w_bytes / bytes));
    struct tr_gemm g = {
        .a = tr_view2(b->x, b->type, p->rows, back ? p->out : p->in),
        .b.w = tr_view2(b->w + (size_t)(t->n % copies) * bytes, b->type, p->out, p->in),
        .c = tr_view2(b->y, b->type, p->rows, back ? p->in : p->out),
        .trans_b = !back,
        .alpha = 1};
    double began = b->on.now_s();
    enum fr_rc rc = tr_gemm(b->on.be, b->q, &g, err);

    if (rc == FR_OK)
        rc = tr_sync(b->on.be, b->q, err);
    note(t, b->on.now_s() - began);
    return rc;
}

static enum fr_rc take(struct bench *b, const struct part *parts, struct fr_err *err)
{
    size_t rows = 0, weights = 0, element = tr_dtype_bytes(b->type), views;
    void *p = NULL;
    enum fr_rc rc;

    for (int i = 0; i < PARTS; i++) {
        size_t wide = (size_t)(parts[i].in > parts[i].out ? parts[i].in : parts[i].out);
        size_t r = (size_t)parts[i].rows * wide, w = (size_t)(parts[i].in * parts[i].out);

        rows = r > rows ? r : rows;
        weights = w > weights ? w : weights;
    }
    rows = (rows * element + 255) / 256 * 256;
    b->w_bytes = weights * element > COPIES_BYTES ? weights * element : COPIES_BYTES;
    views = VIEWS * (((size_t)(b->rows * b->width) * element + 255) / 256 * 256) +
            (size_t)b->rows * sizeof(int64_t);
    rc = tr_mem_alloc(b->on.be, TR_MEM_DEVICE, 2 * rows + b->w_bytes + 256 + views, &p, err);
    b->x = p;
    if (rc != FR_OK)
        return rc;
    b->y = b->x + rows;
    b->w = b->y + rows;
    b->r = b->w + (b->w_bytes + 255) / 256 * 256;
    return tr_zero(b->on.be, b->q, p, 2 * rows + b->w_bytes + 256 + views);
}

/* ---- ops on rows ---- */

/* The ops that are bound by bytes, and dropout. */
struct tried_rows {
    struct timing ops, dropout;
    double bytes; /* of the ops */
};

static struct tr_view row_view(const struct bench *b, int i)
{
    size_t bytes = (size_t)(b->rows * b->width) * tr_dtype_bytes(b->type);

    return tr_view2(b->r + (size_t)i * ((bytes + 255) / 256 * 256), b->type, b->rows, b->width);
}

/* The gradients of a norm and of SwiGLU, as most ops of rows: a few views in, one or two out. */
static enum fr_rc run_rows(const struct bench *b, struct tried_rows *t, struct fr_err *err)
{
    struct tr_view numbers = tr_view1(row_view(b, VIEWS).p, TR_I64, b->rows);
    struct tr_rmsnorm_grad n = {.dx = row_view(b, 0),
                                .dres = row_view(b, 1),
                                .dy = row_view(b, 2),
                                .x = row_view(b, 3),
                                .rrms = tr_view1(numbers.p, TR_F32, b->rows),
                                .gain = tr_view1(row_view(b, 4).p, b->type, b->width)};
    struct tr_swiglu_grad g = {.dg = row_view(b, 0),
                               .du = row_view(b, 1),
                               .dh = row_view(b, 2),
                               .g = row_view(b, 3),
                               .u = row_view(b, 4)};
    struct tr_dropout d = {.y = row_view(b, 0),
                           .x = row_view(b, 1),
                           .place = numbers,
                           .pos = tr_view1(numbers.p, TR_I32, b->rows),
                           .p = 0.1F};
    double began = b->on.now_s(), between;
    enum fr_rc rc = tr_rmsnorm_bwd(b->on.be, b->q, &n, err);

    if (rc == FR_OK)
        rc = tr_swiglu_bwd(b->on.be, b->q, &g, err);
    between = b->on.now_s();
    if (rc == FR_OK)
        rc = tr_dropout(b->on.be, b->q, &d, err);
    note(&t->ops, between - began);
    note(&t->dropout, b->on.now_s() - between);
    t->bytes = tr_cost_of(TR_OP_rmsnorm_bwd, &n).bytes + tr_cost_of(TR_OP_swiglu_bwd, &g).bytes;
    return rc;
}

/* ---- all of it ---- */

static bool has_part(const struct part *p)
{
    return p->share > 0 && p->out > 0;
}

/* Times all parts in turn, for at least ROUNDS rounds and the given seconds, so that all ranks of a
 * machine measure at once. The first round fills caches by shape and is not counted. */
static enum fr_rc try_parts(const struct bench *b, const struct part *parts, struct tried *out,
                            struct tried_rows *rows, struct fr_err *err)
{
    double began = b->on.now_s(), enough = b->on.seconds > 0 ? b->on.seconds : ALONE_S;
    enum fr_rc rc = FR_OK;

    for (int round = 0; rc == FR_OK && (round < ROUNDS || b->on.now_s() - began < enough);
         round++) {
        if (round == 1)
            *rows = (struct tried_rows){.bytes = 0};
        rc = run_rows(b, rows, err);
        for (int i = 0; i < PARTS && rc == FR_OK; i++) {
            if (!has_part(&parts[i]))
                continue;
            if (round == 1)
                out[i] = (struct tried){.ways = {{.n = 0}}};
            rc = run_product(b, &parts[i], false, &out[i].ways[0], err);
            if (rc == FR_OK)
                rc = run_product(b, &parts[i], true, &out[i].ways[1], err);
        }
    }
    return rc;
}

/* Operations of all parts over the time that they take: two products forward, one back. */
static double rate_of(const struct bench *b, const struct part *parts, const struct tried *tried)
{
    double operations = 0, seconds = 0;

    for (int i = 0; i < PARTS; i++) {
        const struct part *p = &parts[i];
        double three = 2 * once(b, &tried[i].ways[0]) + once(b, &tried[i].ways[1]);

        if (!has_part(p))
            continue;
        operations += p->share;
        seconds += p->share * three / (6.0 * (double)(p->rows * p->in * p->out));
    }
    return operations / seconds;
}

enum fr_rc tr_plan_rate(const struct tr_plan_job *job, const struct tr_plan_bench *on,
                        struct tr_gpu *out, struct fr_err *err)
{
    struct bench b = {.on = *on,
                      .type = job->compute,
                      .rows = least(job->batch * job->cutoff, ROWS_MAX),
                      .width = job->config->hidden_size};
    struct tried_rows rows = {.bytes = 0};
    struct part parts[PARTS];
    struct tried tried[PARTS] = {{.ways = {{.n = 0}}}};
    double adapters;
    enum fr_rc rc = tr_plan_adapters(job, &adapters, err);

    out->flops = out->rows = out->draws = 0;
    if (rc != FR_OK)
        return rc;
    list_parts(job, adapters, parts);
    rc = tr_queue_create(on->be, 0, &b.q, err);
    if (rc == FR_OK)
        rc = take(&b, parts, err);
    if (rc == FR_OK)
        rc = try_parts(&b, parts, tried, &rows, err);
    if (rc == FR_OK) {
        out->flops = rate_of(&b, parts, tried);
        out->rows = rows.bytes / once(&b, &rows.ops);
        out->draws = (double)(b.rows * b.width) / once(&b, &rows.dropout);
    }
    tr_mem_free(on->be, TR_MEM_DEVICE, b.x);
    tr_queue_destroy(on->be, b.q);
    return rc;
}

enum fr_rc tr_plan_cpu_rate(const struct tr_plan_job *job, double seconds, struct tr_gpu *out,
                            struct fr_err *err)
{
    struct tr_plan_bench on = {.now_s = now_s, .seconds = seconds};
    enum fr_rc rc = tr_cpu_create(&on.be, err);

    out->flops = out->rows = out->draws = 0;
    if (rc == FR_OK)
        rc = tr_plan_rate(job, &on, out, err);
    tr_backend_destroy(on.be);
    return rc;
}

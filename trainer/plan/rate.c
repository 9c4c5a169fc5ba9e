/* How fast this machine's processors train: the flops of tr_gpu "cpu", by products of the job's own
 * shapes. */
#include "engine/base/sys.h"
#include "trainer/plan/plan.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum { PARTS = 6, COPIES = 8, ROWS_MAX = 1024, OUT_MAX = 4096 };
#define COPIES_BYTES (64 << 20)

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
    out[2] = (struct part){T, H, least(c->vocab_size, OUT_MAX), 4.0 * (double)(c->vocab_size * H)};
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
    struct tr_backend *be;
    struct tr_queue *q;
    enum tr_dtype type;
    char *x, *y, *w;
    size_t w_bytes;
    double seconds; /* to try for */
};

/* Products of one part: forward, and back to its input. */
struct tried {
    double seconds[2];
    int64_t visits;
};

/* One product with the next weight. */
static enum fr_rc run_product(const struct bench *b, const struct part *p, bool back, int64_t visit,
                              double *seconds, struct fr_err *err)
{
    size_t bytes = (size_t)(p->in * p->out) * tr_dtype_bytes(b->type);
    int64_t copies = least(COPIES, (int64_t)(b->w_bytes / bytes));
    struct tr_gemm g = {
        .a = tr_view2(b->x, b->type, p->rows, back ? p->out : p->in),
        .b.w = tr_view2(b->w + (size_t)(visit % copies) * bytes, b->type, p->out, p->in),
        .c = tr_view2(b->y, b->type, p->rows, back ? p->in : p->out),
        .trans_b = !back,
        .alpha = 1};
    double began = now_s();
    enum fr_rc rc = tr_gemm(b->be, b->q, &g, err);

    if (rc == FR_OK)
        rc = tr_sync(b->be, b->q, err);
    *seconds += now_s() - began;
    return rc;
}

static enum fr_rc take(struct bench *b, const struct part *parts, struct fr_err *err)
{
    size_t rows = 0, weights = 0, element = tr_dtype_bytes(b->type);
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
    rc = tr_mem_alloc(b->be, TR_MEM_DEVICE, 2 * rows + b->w_bytes, &p, err);
    b->x = p;
    if (rc != FR_OK)
        return rc;
    b->y = b->x + rows;
    b->w = b->y + rows;
    return tr_zero(b->be, b->q, p, 2 * rows + b->w_bytes);
}

static bool has_part(const struct part *p)
{
    return p->share > 0 && p->out > 0;
}

/* All parts in turn, for b->seconds or longer: ranks that share processors are all at it then. The
 * first round makes what products keep by their shapes and is not counted. */
static enum fr_rc try_parts(const struct bench *b, const struct part *parts, struct tried *out,
                            struct fr_err *err)
{
    double began = now_s();
    enum fr_rc rc = FR_OK;

    for (int64_t round = 0; rc == FR_OK && (round < 2 || now_s() - began < b->seconds); round++)
        for (int i = 0; i < PARTS && rc == FR_OK; i++) {
            if (!has_part(&parts[i]))
                continue;
            if (round == 1)
                out[i] = (struct tried){.visits = 0};
            rc = run_product(b, &parts[i], false, round, &out[i].seconds[0], err);
            if (rc == FR_OK)
                rc = run_product(b, &parts[i], true, round, &out[i].seconds[1], err);
            out[i].visits++;
        }
    return rc;
}

/* Operations of all parts over the time that they take: two products forward, one back. */
static double rate_of(const struct part *parts, const struct tried *tried)
{
    double operations = 0, seconds = 0;

    for (int i = 0; i < PARTS; i++) {
        const struct part *p = &parts[i];
        double three = 2 * tried[i].seconds[0] + tried[i].seconds[1];

        if (!has_part(p))
            continue;
        operations += p->share;
        seconds +=
            p->share * three / (double)tried[i].visits / (6.0 * (double)(p->rows * p->in * p->out));
    }
    return operations / seconds;
}

enum fr_rc tr_plan_cpu_rate(const struct tr_plan_job *job, double seconds, double *flops,
                            struct fr_err *err)
{
    struct bench b = {.type = job->compute, .seconds = seconds};
    struct part parts[PARTS];
    struct tried tried[PARTS] = {{.visits = 0}};
    double adapters;
    enum fr_rc rc = tr_plan_adapters(job, &adapters, err);

    *flops = 0;
    list_parts(job, adapters, parts);
    if (rc == FR_OK)
        rc = tr_cpu_create(&b.be, err);
    if (rc == FR_OK)
        rc = tr_queue_create(b.be, 0, &b.q, err);
    if (rc == FR_OK)
        rc = take(&b, parts, err);
    if (rc == FR_OK)
        rc = try_parts(&b, parts, tried, err);
    if (rc == FR_OK)
        *flops = rate_of(parts, tried);
    if (b.be != NULL)
        tr_mem_free(b.be, TR_MEM_DEVICE, b.x);
    tr_queue_destroy(b.be, b.q);
    tr_backend_destroy(b.be);
    return rc;
}

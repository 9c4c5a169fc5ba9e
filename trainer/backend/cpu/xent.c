/* Cross-entropy over chunks of the vocabulary: a chunk's logits exist for a few hundred tokens at a
 * time. */
#include "trainer/backend/cpu/cpu.h"

#include <math.h>
#include <string.h>

enum { LOGITS = 1 << 22, TOKENS_MIN = 64 }; /* f32 logits at once; tokens at once, at least */

/* Updates maximum and sum of token t; turns its logits into exp(logit - m). */
static void softmax(const struct tr_xent *a, int64_t t, float *z)
{
    const struct tr_xent_state *s = &a->state;
    int64_t rows = a->w.w.shape[0], H = a->F.shape[1];
    float *m = (float *)s->m.p + t, *l = (float *)s->l.p + t;
    float *logit = (float *)s->target_logit.p + t;
    int64_t target = cpu_int(&a->targets, t, 0), at = target - a->row0;
    float max = cpu_max(z, rows), keep = 0;
    struct tr_view row = s->target_row;

    if (a->first)
        *logit = 0;
    if (!a->first) {
        max = fmaxf(max, *m);
        keep = expf(*m - max);
    }
    if (target >= 0 && at >= 0 && at < rows)
        *logit = z[at];
    *l = (a->first ? 0 : *l * keep) + cpu_exp_sum(z, max, rows);
    *m = max;
    if (tr_view_absent(s->acc))
        return;
    if (a->first)
        memset((float *)s->acc.p + t * s->acc.ld, 0, (size_t)H * sizeof(float));
    else
        cpu_scale((float *)s->acc.p + t * s->acc.ld, keep, H);
    row = tr_view_rows(row, t, 1);
    if (a->first)
        memset(row.p, 0, (size_t)H * tr_dtype_bytes(row.dtype));
}

/* Keeps the weight's row of every target that lies in this chunk. lane: H floats. */
static void keep_row(const struct tr_xent *a, int64_t t, float *lane)
{
    int64_t rows = a->w.w.shape[0], H = a->F.shape[1];
    int64_t target = cpu_int(&a->targets, t, 0), at = target - a->row0;

    if (target < 0 || at < 0 || at >= rows)
        return;
    cpu_load_weight(lane, &a->w, at, (struct cpu_range){0, H});
    cpu_store(&a->state.target_row, t, 0, lane, H);
}

/* Converts n values to bf16, into the first half of their memory. */
static void halve(float *z, int64_t n)
{
    enum { PIECE = 256 };
    uint16_t piece[PIECE];

    for (int64_t j = 0; j < n; j += PIECE) {
        int64_t m = n - j < PIECE ? n - j : PIECE;

        cpu_from_f32(piece, TR_BF16, z + j, m);
        memcpy((char *)z + (size_t)j * sizeof *piece, piece, (size_t)m * sizeof *piece);
    }
}

/* Tokens begin .. end of a call, their logits, and floats for each thread. */
struct span {
    const struct tr_xent *a;
    int64_t begin, end;
    struct tr_view z;
    float *lanes;
};

/* p of token t, from exp(logit - m), unless that is its place. */
static void keep_exp(const struct tr_xent *a, int64_t t, const float *z)
{
    ((float *)a->top.p)[t] = ((const float *)a->state.m.p)[t];
    if (a->p.dtype != TR_F32)
        cpu_store(&a->p, t, 0, z, a->w.w.shape[0]);
}

static enum fr_rc some_tokens(struct cpu *cpu, struct tr_queue *q, const struct span *s,
                              struct fr_err *err)
{
    const struct tr_xent *a = s->a;
    int64_t rows = a->w.w.shape[0], n = s->end - s->begin;
    struct tr_gemm g = {
        .c = s->z, .a = tr_view_rows(a->F, s->begin, n), .b = a->w, .trans_b = true, .alpha = 1};
    bool grad = !tr_view_absent(a->state.acc);
    bool half = a->w.w.dtype == TR_BF16 && cpu->pairs;
    enum fr_rc rc = cpu_product(cpu, q, &g, err);

    if (rc != FR_OK)
        return rc;
#pragma omp parallel for num_threads(cpu->threads) if (n * rows > CPU_SMALL)
    for (int64_t i = 0; i < n; i++) {
        float *z = (float *)s->z.p + i * s->z.ld;

        softmax(a, s->begin + i, z);
        if (!tr_view_absent(a->p))
            keep_exp(a, s->begin + i, z);
        if (grad)
            keep_row(a, s->begin + i, cpu_lane(s->lanes, a->F.shape[1]));
        if (grad && half)
            halve(z, rows);
    }
    if (!grad)
        return FR_OK;
    g = (struct tr_gemm){
        .c = tr_view_rows(a->state.acc, s->begin, n), .a = g.c, .b = a->w, .alpha = 1, .beta = 1};
    if (half) {
        g.a = tr_view2(s->z.p, TR_BF16, n, rows);
        g.a.ld = 2 * rows;
    }
    return cpu_product(cpu, q, &g, err);
}

/* Whether the logits are written to p, where their exponentials stay. */
static bool in_place(const struct tr_xent *a)
{
    return !tr_view_absent(a->p) && a->p.dtype == TR_F32;
}

/* The number of tokens whose logits exist at once. */
static int64_t xent_step(const struct tr_xent *a)
{
    int64_t rows = a->w.w.shape[0], T = a->F.shape[0];
    int64_t step = rows > 0 && LOGITS / rows > TOKENS_MIN ? LOGITS / rows : TOKENS_MIN;

    return step < T && !in_place(a) ? step : T;
}

/* Logits in the scratch, in front of the threads' lanes. */
static int64_t logits_of(const struct tr_xent *a)
{
    return in_place(a) ? 0 : xent_step(a) * a->w.w.shape[0];
}

size_t cpu_xent_bytes(const struct cpu *cpu, const struct tr_xent *a)
{
    return (size_t)(logits_of(a) + cpu->threads * (a->F.shape[1] + 16)) * sizeof(float);
}

enum fr_rc tr_cpu_xent_chunk(void *self, struct tr_queue *q, const struct tr_xent *a,
                             struct fr_err *err)
{
    struct cpu *cpu = self;
    int64_t T = a->F.shape[0], step = xent_step(a), rows = a->w.w.shape[0];
    void *work;
    enum fr_rc rc;

    if (rows == 0)
        return fr_fail(err, FR_SHAPE, "xent_chunk: a chunk without rows");
    rc = cpu_work(q, CPU_WORK_OP, cpu_xent_bytes(cpu, a), &work, err);
    for (int64_t t = 0; t < T && rc == FR_OK; t += step) {
        struct span s = {a, t, cpu_least(t + step, T), a->p, (float *)work + logits_of(a)};

        if (!in_place(a))
            s.z = tr_view2(work, TR_F32, s.end - t, rows);
        rc = some_tokens(cpu, q, &s, err);
    }
    return rc;
}

static void finish_row(const struct tr_xent_finish *a, int64_t t, float *lane)
{
    const struct tr_xent_state *s = &a->state;
    int64_t H = a->dF.shape[1];
    float l = ((const float *)s->l.p)[t];

    if (cpu_int(&a->targets, t, 0) < 0) {
        memset(lane, 0, (size_t)H * sizeof *lane);
    } else {
        cpu_load(lane, &s->acc, t, 0, H);
        cpu_scale(lane, 1 / l, H);
        cpu_load(lane + H, &s->target_row, t, 0, H);
        cpu_axpy(lane, -1, lane + H, H);
        cpu_scale(lane, (float)a->scale, H);
    }
    cpu_store(&a->dF, t, 0, lane, H);
}

enum fr_rc tr_cpu_xent_finish(void *self, struct tr_queue *q, const struct tr_xent_finish *a,
                              struct fr_err *err)
{
    struct cpu *cpu = self;
    int64_t T = a->targets.shape[0], H = tr_view_absent(a->dF) ? 0 : a->dF.shape[1];
    const float *m = a->state.m.p, *l = a->state.l.p, *logit = a->state.target_logit.p;
    double sum = 0;
    float *lanes;
    enum fr_rc rc = cpu_lanes(cpu, q, 2 * H, &lanes, err);

    if (rc != FR_OK)
        return rc;
    for (int64_t t = 0; t < T; t++) {
        bool scored = cpu_int(&a->targets, t, 0) >= 0;
        double loss = scored ? (double)m[t] + log((double)l[t]) - (double)logit[t] : 0;

        sum += loss;
        if (!tr_view_absent(a->loss))
            ((float *)a->loss.p)[t] = (float)loss;
    }
    *(double *)a->loss_sum.p += sum;
    if (H == 0)
        return FR_OK;
#pragma omp parallel for num_threads(cpu->threads) if (T * H > CPU_SMALL)
    for (int64_t t = 0; t < T; t++)
        finish_row(a, t, cpu_lane(lanes, 2 * H));
    return FR_OK;
}

enum fr_rc tr_cpu_xent_bwd(void *self, struct tr_queue *q, const struct tr_xent_grad *a,
                           struct fr_err *err)
{
    struct cpu *cpu = self;
    int64_t T = a->dz.shape[0], rows = a->dz.shape[1];
    float *lanes;
    enum fr_rc rc = cpu_lanes(cpu, q, rows, &lanes, err);

    if (rc != FR_OK)
        return rc;
#pragma omp parallel for num_threads(cpu->threads) if (T * rows > CPU_SMALL)
    for (int64_t t = 0; t < T; t++) {
        float *z = cpu_lane(lanes, rows);
        int64_t target = cpu_int(&a->targets, t, 0), at = target - a->row0;

        if (target < 0) {
            memset(z, 0, (size_t)rows * sizeof *z);
        } else {
            float shrink = expf(((const float *)a->top.p)[t] - ((const float *)a->m.p)[t]);

            cpu_load(z, &a->p, t, 0, rows);
            cpu_scale(z, (float)(a->scale * shrink / ((const float *)a->l.p)[t]), rows);
            if (at >= 0 && at < rows)
                z[at] -= (float)a->scale;
        }
        cpu_store(&a->dz, t, 0, z, rows);
    }
    return FR_OK;
}

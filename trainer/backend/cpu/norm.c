#include "trainer/backend/cpu/cells.h"

#include <math.h>
#include <string.h>

enum { COLUMNS = 256 }; /* columns of a piece of a sum over rows */

enum fr_rc tr_cpu_embed_fwd(void *self, struct tr_queue *q, const struct tr_embed *a,
                            struct fr_err *err)
{
    struct cpu *cpu = self;
    int64_t T = a->y.shape[0], H = a->y.shape[1];
    size_t bytes = (size_t)H * tr_dtype_bytes(a->y.dtype);

#pragma omp parallel for num_threads(cpu->threads) if (T * H > CPU_SMALL)
    for (int64_t t = 0; t < T; t++) {
        int64_t row = cpu_int(&a->ids, t, 0) - a->row0;
        struct tr_view y = tr_view_rows(a->y, t, 1);

        if (row >= 0 && row < a->table.shape[0])
            memcpy(y.p, cpu_row_at(&a->table, row), bytes);
        else
            memset(y.p, 0, bytes);
    }
    return FR_OK;
}

enum fr_rc tr_cpu_embed_bwd(void *self, struct tr_queue *q, const struct tr_embed *a,
                            struct fr_err *err)
{
    struct cpu *cpu = self;
    int64_t T = a->dy.shape[0], H = a->dy.shape[1], pieces = (H + COLUMNS - 1) / COLUMNS;

#pragma omp parallel for num_threads(cpu->threads) if (T * H > CPU_SMALL)
    for (int64_t p = 0; p < pieces; p++) {
        int64_t col = p * COLUMNS, n = H - col < COLUMNS ? H - col : COLUMNS;
        float dy[COLUMNS];

        for (int64_t t = 0; t < T; t++) {
            int64_t row = cpu_int(&a->ids, t, 0) - a->row0;

            if (row < 0 || row >= a->dtable.shape[0])
                continue;
            cpu_load(dy, &a->dy, t, col, n);
            cpu_axpy((float *)a->dtable.p + row * a->dtable.ld + col, 1, dy, n);
        }
    }
    return FR_OK;
}

static void norm_row(const struct tr_rmsnorm *a, int64_t t, float *s, float *other)
{
    int64_t n = a->x.shape[1];
    struct tr_view gain = a->gain;
    float r;

    cpu_load(s, &a->x, t, 0, n);
    if (!tr_view_absent(a->add)) {
        cpu_axpy(s, 1, cpu_row(other, &a->add, t, n), n);
        cpu_round(s, a->x.dtype, n);
        if (!tr_view_absent(a->sum))
            cpu_store(&a->sum, t, 0, s, n);
    }
    r = 1 / sqrtf(cpu_dot(s, s, n) / (float)n + a->eps);
    cpu_scale(s, r, n);
    cpu_round(s, a->x.dtype, n);
    cpu_mul(s, cpu_row(other, &gain, 0, n), n);
    cpu_store(&a->y, t, 0, s, n);
    if (!tr_view_absent(a->rrms))
        ((float *)a->rrms.p)[t] = r;
}

/* Whether the kernels of cells.h take these types. */
static bool by_cells(const struct tr_view *x, const struct tr_view *gain)
{
    bool f32 = x->dtype == TR_F32;

    return (f32 || x->dtype == TR_BF16) && (gain->dtype == TR_F32 || gain->dtype == x->dtype) &&
           cpu_kernels() != NULL;
}

static struct cpu_norm cells_row(const struct tr_view *y, const struct tr_view *x,
                                 const struct tr_view *gain, int64_t t)
{
    return (struct cpu_norm){.y = cpu_row_at(y, t),
                             .x = cpu_row_at(x, t),
                             .gain = gain->p,
                             .n = x->shape[1],
                             .f32 = x->dtype == TR_F32,
                             .gain_f32 = gain->dtype == TR_F32};
}

static void norm_one(const void *args, int64_t t, float *lane)
{
    const struct tr_rmsnorm *a = args;

    if (tr_view_absent(a->add) && by_cells(&a->x, &a->gain)) {
        struct cpu_norm row = cells_row(&a->y, &a->x, &a->gain, t);
        float r = cpu_kernels()->norm(&row, a->eps);

        if (!tr_view_absent(a->rrms))
            ((float *)a->rrms.p)[t] = r;
        return;
    }
    norm_row(a, t, lane, lane + a->x.shape[1]);
}

enum fr_rc tr_cpu_rmsnorm_fwd(void *self, struct tr_queue *q, const struct tr_rmsnorm *a,
                              struct fr_err *err)
{
    int64_t n = a->x.shape[1];

    return cpu_each_row(self, q,
                        &(struct cpu_loop){.rows = {0, a->x.shape[0]},
                                           .n = n,
                                           .floats = 2 * n,
                                           .next = {&a->x, &a->y},
                                           .row = norm_one,
                                           .args = a},
                        err);
}

/* dx of a row. lane holds 3 rows: xh, u, scratch. */
static void norm_grad_row(const void *args, int64_t t, float *lane)
{
    const struct tr_rmsnorm_grad *a = args;
    int64_t n = a->x.shape[1];
    float *xh = lane, *u = lane + n, *other = lane + 2 * n;
    float r = ((const float *)a->rrms.p)[t];

    if (a->dx.dtype == a->x.dtype && a->dy.dtype == a->x.dtype && by_cells(&a->x, &a->gain)) {
        struct cpu_norm row = cells_row(&a->dx, &a->x, &a->gain, t);

        row.dy = cpu_row_at(&a->dy, t);
        row.dres = tr_view_absent(a->dres) ? NULL : cpu_row_at(&a->dres, t);
        cpu_kernels()->norm_grad(&row, r);
        return;
    }
    cpu_load(xh, &a->x, t, 0, n);
    cpu_scale(xh, r, n);
    cpu_load(u, &a->dy, t, 0, n);
    cpu_mul(u, cpu_row(other, &a->gain, 0, n), n);
    cpu_axpy(u, -cpu_dot(u, xh, n) / (float)n, xh, n);
    cpu_scale(u, r, n);
    if (!tr_view_absent(a->dres)) {
        cpu_axpy(u, 1, cpu_row(other, &a->dres, t, n), n);
    }
    cpu_store(&a->dx, t, 0, u, n);
}

/* dgain's columns from col on. */
static void gain_grad(const struct tr_rmsnorm_grad *a, int64_t col)
{
    int64_t n = a->x.shape[1] - col;
    float x[COLUMNS], dy[COLUMNS], *out = (float *)a->dgain.p + col;

    n = n < COLUMNS ? n : COLUMNS;
    for (int64_t t = 0; t < a->x.shape[0]; t++) {
        cpu_load(x, &a->x, t, col, n);
        cpu_load(dy, &a->dy, t, col, n);
        cpu_mul(dy, x, n);
        cpu_axpy(out, ((const float *)a->rrms.p)[t], dy, n);
    }
}

enum fr_rc tr_cpu_rmsnorm_bwd(void *self, struct tr_queue *q, const struct tr_rmsnorm_grad *a,
                              struct fr_err *err)
{
    struct cpu *cpu = self;
    int64_t T = a->x.shape[0], n = a->x.shape[1];

    if (!tr_view_absent(a->dgain)) { /* first: dx may overwrite dy */
#pragma omp parallel for num_threads(cpu->threads) if (T * n > CPU_SMALL)
        for (int64_t col = 0; col < n; col += COLUMNS)
            gain_grad(a, col);
    }
    if (tr_view_absent(a->dx))
        return FR_OK;
    return cpu_each_row(cpu, q,
                        &(struct cpu_loop){.rows = {0, T},
                                           .n = n,
                                           .floats = 3 * n,
                                           .next = {&a->x, &a->dy, &a->dx, &a->dres},
                                           .row = norm_grad_row,
                                           .args = a},
                        err);
}

enum fr_rc tr_cpu_colsum(void *self, struct tr_queue *q, const struct tr_colsum *a,
                         struct fr_err *err)
{
    struct cpu *cpu = self;
    int64_t T = a->x.shape[0], N = a->x.shape[1];

#pragma omp parallel for num_threads(cpu->threads) if (T * N > CPU_SMALL)
    for (int64_t col = 0; col < N; col += COLUMNS) {
        int64_t n = N - col < COLUMNS ? N - col : COLUMNS;
        float x[COLUMNS];

        for (int64_t t = 0; t < T; t++) {
            cpu_load(x, &a->x, t, col, n);
            cpu_axpy((float *)a->out.p + col, 1, x, n);
        }
    }
    return FR_OK;
}

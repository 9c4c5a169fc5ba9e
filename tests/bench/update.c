/*
 * The end of a step of full fine-tuning on the CPU: the gradients' check and norm, from memory and
 * as a step takes them, of each unit behind what writes its gradient; and AdamW with its 16-bit
 * copy of the weights and without, beside a loop that moves the same bytes.
 *
 * usage: update ELEMENTS ROUNDS
 *
 * Prints medians in seconds. Memory: 18 bytes an element.
 */
#include "engine/base/log.h"
#include "engine/base/str.h"
#include "tests/bench/meter.h"
#include "trainer/backend/device.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS_MAX = 1000, SEED = 1, MOVED = 3 };
enum { UNIT = 3 * 768 * 2048 /* elements of an FFN of full.json */ };

struct bench {
    struct tr_backend *be;
    struct tr_queue *q;
    struct tr_view p, m, v, g, copy;
    struct tr_view found, limbs;
    int64_t n, rounds;
};

static enum fr_rc take(struct bench *b, struct tr_view *v, enum tr_dtype type, struct fr_err *err)
{
    void *p = NULL;
    enum fr_rc rc =
        tr_mem_alloc(b->be, TR_MEM_DEVICE, (size_t)b->n * tr_dtype_bytes(type), &p, err);

    *v = tr_view1(p, type, b->n);
    if (rc != FR_OK || type != TR_F32)
        return rc;
    return tr_noise(b->be, b->q, &(struct tr_noise){.y = *v, .key = SEED, .scale = 1e-3F}, err);
}

static enum fr_rc prepare(struct bench *b, struct fr_err *err)
{
    struct tr_view *const all[] = {&b->p, &b->m, &b->v, &b->g};
    enum fr_rc rc = tr_queue_create(b->be, 0, &b->q, err);

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && rc == FR_OK; i++)
        rc = take(b, all[i], TR_F32, err);
    if (rc == FR_OK)
        rc = take(b, &b->copy, TR_BF16, err);
    if (rc == FR_OK)
        rc = tr_sum(b->be, b->q, /* v is a mean of squares */
                    &(struct tr_sum){.y = b->v, .x = {b->v}, .alpha = {0}, .n = 1}, err);
    return rc;
}

static enum fr_rc norm_of(struct bench *b, struct tr_view x, struct fr_err *err)
{
    struct tr_sumsq sq = {.out = b->limbs, .x = x, .found = b->found};

    return tr_sumsq(b->be, b->q, &sq, err);
}

static enum fr_rc norm(struct bench *b, struct fr_err *err)
{
    return norm_of(b, b->g, err);
}

/* Writes the gradient unit by unit. */
static enum fr_rc write_units(struct bench *b, bool norms, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (int64_t at = 0; at < b->n && rc == FR_OK; at += UNIT) {
        struct tr_view x =
            tr_view1((float *)b->g.p + at, TR_F32, UNIT < b->n - at ? UNIT : b->n - at);

        rc = tr_sum(b->be, b->q, &(struct tr_sum){.y = x, .x = {x}, .alpha = {1}, .n = 1}, err);
        if (rc == FR_OK && norms)
            rc = norm_of(b, x, err);
    }
    return rc;
}

static enum fr_rc units(struct bench *b, struct fr_err *err)
{
    return write_units(b, false, err);
}

static enum fr_rc units_and_norms(struct bench *b, struct fr_err *err)
{
    return write_units(b, true, err);
}

static enum fr_rc update(struct bench *b, struct tr_view copy, struct fr_err *err)
{
    struct tr_adamw a = {.p = b->p,
                         .m = b->m,
                         .v = b->v,
                         .g = b->g,
                         .copy = copy,
                         .lr = 1e-3F,
                         .scale = 1,
                         .b1 = 0.9,
                         .b2 = 0.999,
                         .eps = 1e-8,
                         .step = 1};

    return tr_adamw(b->be, b->q, &a, err);
}

static enum fr_rc adamw(struct bench *b, struct fr_err *err)
{
    return update(b, (struct tr_view){.p = NULL}, err);
}

static enum fr_rc adamw_with_copy(struct bench *b, struct fr_err *err)
{
    return update(b, b->copy, err);
}

/* p += 0 g, m += 0 g, v += 0 g: 36 bytes an element. */
static enum fr_rc moved(struct bench *b, struct fr_err *err)
{
    struct tr_view *const all[MOVED] = {&b->p, &b->m, &b->v};
    enum fr_rc rc = FR_OK;

    for (int i = 0; i < MOVED && rc == FR_OK; i++)
        rc = tr_sum(b->be, b->q,
                    &(struct tr_sum){.y = *all[i], .x = {*all[i], b->g}, .alpha = {1, 0}, .n = 2},
                    err);
    return rc;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static enum fr_rc measure(struct bench *b, enum fr_rc (*part)(struct bench *, struct fr_err *),
                          double *median, struct fr_err *err)
{
    double seconds[ROUNDS_MAX];
    enum fr_rc rc = part(b, err); /* not counted */

    for (int64_t i = 0; i < b->rounds && rc == FR_OK; i++) {
        double t = meter_now();

        rc = part(b, err);
        if (rc == FR_OK)
            rc = tr_sync(b->be, b->q, err);
        seconds[i] = meter_now() - t;
    }
    qsort(seconds, (size_t)b->rounds, sizeof(*seconds), ascending);
    *median = seconds[b->rounds / 2];
    return rc;
}

static enum fr_rc run(struct bench *b, struct fr_err *err)
{
    enum fr_rc (*const parts[])(struct bench *, struct fr_err *) = {
        norm, units, units_and_norms, adamw, adamw_with_copy, moved};
    int64_t found = 0, limbs[TR_EXACT_LIMBS] = {0};
    double t[sizeof(parts) / sizeof(*parts)];
    enum fr_rc rc = prepare(b, err);

    b->found = tr_view1(&found, TR_I64, 1);
    b->limbs = tr_view1(limbs, TR_I64, TR_EXACT_LIMBS);
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts) && rc == FR_OK; i++)
        rc = measure(b, parts[i], &t[i], err);
    if (rc == FR_OK)
        fr_print("ours norm and check %.5f s from memory, %.5f s behind each unit, AdamW %.5f s "
                 "(%.1f GB/s), with a bf16 copy %.5f s, sums of the same vectors %.5f s (%.1f "
                 "GB/s)\n",
                 t[0], t[2] - t[1], t[3], 28e-9 * (double)b->n / t[3], t[4], t[5],
                 36e-9 * (double)b->n / t[5]);
    return rc;
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    struct fr_err err;
    enum fr_rc rc = FR_USAGE;

    if (argc != 3 || fr_parse_i64(fr_str_of(argv[1]), &b.n, &err) != FR_OK || b.n < 1 ||
        fr_parse_i64(fr_str_of(argv[2]), &b.rounds, &err) != FR_OK || b.rounds < 1 ||
        b.rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: update ELEMENTS ROUNDS (at most %d)\n", ROUNDS_MAX);
        return 2;
    }
    rc = tr_device_create(TR_DEVICE_CPU, 0, &b.be, &err);
    if (rc == FR_OK)
        rc = run(&b, &err);
    if (rc != FR_OK)
        fprintf(stderr, "update: %s\n", err.msg);
    return rc == FR_OK ? 0 : 1;
}

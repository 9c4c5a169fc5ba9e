/* The optimizer's step, with moments as f32 or as codes (coded.h). */
#include "trainer/backend/cpu/cpu.h"

#include <math.h>
#include <string.h>

enum {
    PIECE = 1 << 12, /* elements of a thread at once: whole blocks */
    PART = 1 << 7,   /* those between two prefetches */
    AHEAD = 4,       /* parts from those that are updated to those that are prefetched */
};

/* Coefficients of one step. */
struct step {
    float scale, b1, b2, decay, lr, eps;
    float a1, a2, c1, c2; /* a: 1 - b, of doubles; c: 1 / (1 - b^step) */
};

/* A piece of the four arrays. */
struct state {
    float *p, *m, *v;
    const float *g;
};

CPU_KERNEL static void update(const struct step *s, struct state x, int64_t n)
{
    struct step k = *s;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float g = x.g[i] * k.scale;
        float m = k.b1 * x.m[i] + k.a1 * g;
        float v = k.b2 * x.v[i] + k.a2 * g * g;

        x.m[i] = m;
        x.v[i] = v;
        x.p[i] = x.p[i] * k.decay - k.lr * (m * k.c1) / (sqrtf(v * k.c2) + k.eps);
    }
}

/* The same as the CUDA backend rounds it (optim.cu). */
CPU_KERNEL static void update_as_device(const struct step *s, struct state x, int64_t n)
{
    struct step k = *s;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float g = x.g[i] * k.scale;
        float m = fmaf(k.a1, g, k.b1 * x.m[i]);
        float v = fmaf(k.b2, x.v[i], k.a2 * g * g);

        x.m[i] = m;
        x.v[i] = v;
        x.p[i] = fmaf(x.p[i], k.decay, -(k.lr * (m * k.c1) / (sqrtf(v * k.c2) + k.eps)));
    }
}

/*
 * A map, and for each number from 0 to 1 a value that is the nearest or the one below it: by the
 * number's exponent and 7 bits of its fraction. Two neighbouring middles never share these bits,
 * and all middles are above 2^-LOWEST.
 */
enum { LOWEST = 23, FRACTION = 7, FIRST = (127 - LOWEST) << FRACTION };
enum { NUMBERS = (LOWEST << FRACTION) + 1 };

struct coder {
    struct tr_codes codes;
    float value[256];  /* of each code */
    float middle[256]; /* above value k; behind the last one none */
    int32_t below[NUMBERS];
};

static float number_of(int i)
{
    uint32_t bits = (uint32_t)(FIRST + i) << (23 - FRACTION);
    float x;

    memcpy(&x, &bits, sizeof x);
    return i == 0 ? 0 : x;
}

static void make_coder(struct coder *c, bool both_signs)
{
    int k = 0;

    tr_codes_make(&c->codes, both_signs);
    for (int code = 0; code < 256; code++)
        c->value[code] = tr_codes_value(&c->codes, code);
    for (int i = 0; i < 256; i++)
        c->middle[i] = i + 1 < c->codes.count ? tr_codes_middle(&c->codes, i) : INFINITY;
    for (int i = 0; i < NUMBERS; i++) {
        while (number_of(i) > c->middle[k])
            k++;
        c->below[i] = k;
    }
}

CPU_KERNEL static void decode(const struct coder *c, const uint8_t *codes, float most, float *x,
                              int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        x[i] = c->value[codes[i]] * most;
}

CPU_KERNEL static float most_of(const float *x, int64_t n)
{
    float most = 0;

#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

CPU_KERNEL static void encode(const struct coder *c, const float *x, float most, uint8_t *codes,
                              int64_t n)
{
    int zero = c->codes.zero;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float near = fabsf(x[i]) / most;
        int32_t bits, at, k;

        memcpy(&bits, &near, sizeof bits);
        at = (bits >> (23 - FRACTION)) - FIRST;
        at = at < 0 ? 0 : at > NUMBERS - 1 ? NUMBERS - 1 : at;
        k = c->below[at];
        k += near > c->middle[k];
        k = x[i] < 0 ? -(k < zero ? k : zero) : k;
        codes[i] = (uint8_t)(zero + k);
    }
}

struct coders {
    struct coder m, v;
};

/* A block of one step, with moments of the stack. */
static void update_block(const struct step *s, const struct coders *c, const struct tr_adamw *a,
                         int64_t at)
{
    int64_t n = a->p.shape[0] - at, block = at / TR_CODED_BLOCK;
    float m[TR_CODED_BLOCK], v[TR_CODED_BLOCK];
    uint8_t *ms = (uint8_t *)a->m.p + at, *vs = (uint8_t *)a->v.p + at;
    float *m_max = (float *)a->m_max.p + block, *v_max = (float *)a->v_max.p + block;
    struct state x = {(float *)a->p.p + at, m, v, (const float *)a->g.p + at};

    n = n < TR_CODED_BLOCK ? n : TR_CODED_BLOCK;
    decode(&c->m, ms, *m_max, m, n);
    decode(&c->v, vs, *v_max, v, n);
    update_as_device(s, x, n);
    *m_max = most_of(m, n);
    *v_max = most_of(v, n);
    if (*m_max > 0)
        encode(&c->m, m, *m_max, ms, n);
    else
        memset(ms, c->m.codes.zero, (size_t)n);
    if (*v_max > 0)
        encode(&c->v, v, *v_max, vs, n);
    else
        memset(vs, c->v.codes.zero, (size_t)n);
}

static void bring(const void *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        __builtin_prefetch((const char *)p + i, 0, 3);
}

static void write_copy(const struct tr_adamw *a, int64_t at, int64_t n)
{
    if (!tr_view_absent(a->copy))
        cpu_from_f32((char *)a->copy.p + (size_t)at * tr_dtype_bytes(a->copy.dtype), a->copy.dtype,
                     (const float *)a->p.p + at, n);
}

/* The hardware prefetcher alone leaves the memory idle: four vectors are read and three written. */
static void update_part(const struct step *s, const struct tr_adamw *a, int64_t at, int64_t n)
{
    struct state x = {(float *)a->p.p + at, (float *)a->m.p + at, (float *)a->v.p + at,
                      (const float *)a->g.p + at};
    size_t part = PART * sizeof(float);

    bring(x.p + AHEAD * PART, part);
    bring(x.m + AHEAD * PART, part);
    bring(x.v + AHEAD * PART, part);
    bring(x.g + AHEAD * PART, part);
    (a->device_bits ? update_as_device : update)(s, x, n);
    write_copy(a, at, n);
}

static void update_piece(const struct step *s, const struct coders *c, const struct tr_adamw *a,
                         int64_t at)
{
    int64_t n = cpu_least(a->p.shape[0] - at, PIECE);

    for (int64_t k = 0; k < n && c == NULL; k += PART)
        update_part(s, a, at + k, cpu_least(n - k, PART));
    for (int64_t k = 0; k < n && c != NULL; k += TR_CODED_BLOCK)
        update_block(s, c, a, at + k);
    if (c != NULL)
        write_copy(a, at, n);
}

enum fr_rc tr_cpu_adamw(void *self, struct tr_queue *q, const struct tr_adamw *a,
                        struct fr_err *err)
{
    struct cpu *cpu = self;
    int64_t n = a->p.shape[0], count = (n + PIECE - 1) / PIECE;
    bool coded = a->m.dtype == TR_U8;
    struct coders coders;
    struct step s = {.scale = a->scale,
                     .b1 = (float)a->b1,
                     .b2 = (float)a->b2,
                     .a1 = (float)(1 - a->b1),
                     .a2 = (float)(1 - a->b2),
                     .c1 = (float)(1 / (1 - pow(a->b1, (double)a->step))),
                     .c2 = (float)(1 / (1 - pow(a->b2, (double)a->step))),
                     .decay = (float)(1 - (double)a->lr * (double)a->wd),
                     .lr = a->lr,
                     .eps = (float)a->eps};

    if (!tr_view_absent(a->skip) && cpu_int(&a->skip, 0, 0) != 0)
        return FR_OK;
    if (!tr_view_absent(a->gscale))
        s.scale *= *(const float *)a->gscale.p;
    if (coded) {
        make_coder(&coders.m, true);
        make_coder(&coders.v, false);
    }
#pragma omp parallel for num_threads(cpu->threads) if (count > 4)
    for (int64_t i = 0; i < count; i++)
        update_piece(&s, coded ? &coders : NULL, a, i * PIECE);
    return FR_OK;
}

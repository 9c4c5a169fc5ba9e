/*
 * oneDNN: f32 tiles by its sgemm, and primitives of bf16 products, kept by shape: making one costs
 * several times more than running it. onednn_api.h has what differs between oneDNN 2 and 3.
 */
#include "trainer/backend/cpu/onednn.h"

#include "engine/base/sys.h"

#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { BUCKETS = 256 };

struct cpu_onednn {
    dnnl_engine_t engine; /* owns */
    pthread_mutex_t lock; /* of the buckets: several queues may make primitives */
    struct cpu_primitive *buckets[BUCKETS];
};

bool cpu_onednn_has_sgemm(void)
{
    return true;
}

void cpu_onednn_tile(const struct cpu_tile *t, bool trans_a, bool trans_b)
{
    /* It fails only on arguments that no tile has. */
    dnnl_sgemm(trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', t->m, t->n, t->k, 1, t->a, t->lda, t->b,
               t->ldb, 1, t->c, t->ldc);
}

static bool isa_has(dnnl_cpu_isa_t isa)
{
    return ((int)dnnl_get_effective_cpu_isa() & (int)isa) == (int)isa;
}

bool cpu_onednn_has_bf16(bool emulated)
{
    return isa_has(emulated ? dnnl_cpu_isa_avx512_core : dnnl_cpu_isa_avx512_core_bf16);
}

enum fr_rc cpu_onednn_create(struct cpu_onednn **out, struct fr_err *err)
{
    struct cpu_onednn *d = fr_sys.alloc(sizeof *d);

    *out = NULL;
    if (d == NULL)
        return fr_fail(err, FR_NOMEM, "oneDNN");
    memset(d, 0, sizeof *d);
    if (dnnl_engine_create(&d->engine, dnnl_cpu, 0) != dnnl_success) {
        fr_sys.free(d);
        return fr_fail(err, FR_UNSUPPORTED, "oneDNN has no CPU engine");
    }
    pthread_mutex_init(&d->lock, NULL);
    *out = d;
    return FR_OK;
}

void cpu_onednn_destroy(struct cpu_onednn *d)
{
    if (d == NULL)
        return;
    for (int i = 0; i < BUCKETS; i++)
        while (d->buckets[i] != NULL) {
            struct cpu_primitive *p = d->buckets[i];

            d->buckets[i] = p->next;
            dnnl_primitive_destroy(p->run);
            fr_sys.free(p);
        }
    dnnl_engine_destroy(d->engine);
    pthread_mutex_destroy(&d->lock);
    fr_sys.free(d);
}

static bool same_shape(const struct cpu_shape *a, const struct cpu_shape *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->lda == b->lda && a->ldb == b->ldb &&
           a->ldc == b->ldc && a->alpha == b->alpha && a->beta == b->beta &&
           a->trans_a == b->trans_a && a->trans_b == b->trans_b && a->c_f32 == b->c_f32;
}

static unsigned bucket_of(const struct cpu_shape *s)
{
    uint64_t h = (uint64_t)s->m;

    h = h * 0x9E3779B97F4A7C15u + (uint64_t)s->n;
    h = h * 0x9E3779B97F4A7C15u + (uint64_t)s->k;
    h = h * 0x9E3779B97F4A7C15u + (uint64_t)s->lda;
    return (unsigned)(h >> 32) % BUCKETS;
}

static dnnl_status_t attributes(const struct cpu_shape *s, dnnl_primitive_attr_t attr)
{
    dnnl_post_ops_t post = NULL;
    dnnl_status_t st = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);

    if (st == dnnl_success)
        st = dnnl_post_ops_create(&post);
    if (st == dnnl_success && s->alpha != 1)
        st = cpu_dnnl_scale(attr, post, s->alpha);
    if (st == dnnl_success && s->beta != 0)
        st = cpu_dnnl_sum(post, s->beta);
    if (st == dnnl_success)
        st = dnnl_primitive_attr_set_post_ops(attr, post);
    dnnl_post_ops_destroy(post);
    return st;
}

static dnnl_status_t make(const struct cpu_onednn *d, struct cpu_primitive *p)
{
    const struct cpu_shape *s = &p->shape;
    const struct cpu_matrix abc[3] = {
        {s->m, s->k, s->lda, s->trans_a, dnnl_bf16},
        {s->k, s->n, s->ldb, s->trans_b, dnnl_bf16},
        {s->m, s->n, s->ldc, false, s->c_f32 ? dnnl_f32 : dnnl_bf16},
    };
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t st = dnnl_primitive_attr_create(&attr);

    if (st == dnnl_success)
        st = attributes(s, attr);
    if (st == dnnl_success)
        st = cpu_dnnl_matmul(&pd, d->engine, abc, attr);
    if (st == dnnl_success) {
        p->scratch_bytes = dnnl_memory_desc_get_size(
            dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
        st = dnnl_primitive_create(&p->run, pd);
    }
    dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_attr_destroy(attr);
    return st;
}

enum fr_rc cpu_primitive_find(struct cpu_onednn *d, const struct cpu_shape *s,
                              const struct cpu_primitive **out, struct fr_err *err)
{
    unsigned at = bucket_of(s);
    struct cpu_primitive *p;
    dnnl_status_t st = dnnl_out_of_memory;

    pthread_mutex_lock(&d->lock);
    for (p = d->buckets[at]; p != NULL && !same_shape(&p->shape, s); p = p->next)
        ;
    if (p == NULL && (p = fr_sys.alloc(sizeof *p)) != NULL) {
        memset(p, 0, sizeof *p);
        p->shape = *s;
#pragma omp parallel num_threads(1)
        {
            omp_set_num_threads(1); /* the number of threads is fixed when a primitive is made */
            st = make(d, p);
        }
        if (st == dnnl_success) {
            p->next = d->buckets[at];
            d->buckets[at] = p;
        } else {
            fr_sys.free(p);
            p = NULL;
        }
    }
    pthread_mutex_unlock(&d->lock);
    *out = p;
    if (p != NULL)
        return FR_OK;
    return fr_fail(err, st == dnnl_out_of_memory ? FR_NOMEM : FR_UNSUPPORTED,
                   "oneDNN refuses a bf16 product of %lldx%lldx%lld: status %d", (long long)s->m,
                   (long long)s->n, (long long)s->k, (int)st);
}

dnnl_status_t cpu_primitive_run(const struct cpu_primitive *p, char *const addr[4])
{
    static const struct {
        int arg;
        dnnl_query_t described;
    } args[4] = {{DNNL_ARG_SRC, dnnl_query_src_md},
                 {DNNL_ARG_WEIGHTS, dnnl_query_weights_md},
                 {DNNL_ARG_DST, dnnl_query_dst_md},
                 {DNNL_ARG_SCRATCHPAD, dnnl_query_scratchpad_md}};
    dnnl_exec_arg_t list[4] = {{0}};
    dnnl_engine_t engine;
    dnnl_stream_t stream = NULL;
    const_dnnl_primitive_desc_t pd;
    dnnl_status_t st = dnnl_primitive_get_primitive_desc(p->run, &pd);

    if (st == dnnl_success)
        st = dnnl_primitive_desc_query(pd, dnnl_query_engine, 0, &engine);
    if (st == dnnl_success)
        st = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    for (int i = 0; i < 4 && st == dnnl_success; i++) {
        list[i].arg = args[i].arg;
        st = dnnl_memory_create(&list[i].memory,
                                dnnl_primitive_desc_query_md(pd, args[i].described, 0), engine,
                                addr[i]);
    }
    if (st == dnnl_success)
        st = dnnl_primitive_execute(p->run, stream, 4, list);
    if (st == dnnl_success)
        st = dnnl_stream_wait(stream);
    for (int i = 0; i < 4; i++)
        dnnl_memory_destroy(list[i].memory);
    dnnl_stream_destroy(stream);
    return st;
}

void cpu_onednn_describe(char out[128])
{
    const dnnl_version_t *v = dnnl_version();

    snprintf(out, 128, " onednn=%d.%d.%d isa=%#x", v->major, v->minor, v->patch,
             (unsigned)dnnl_get_effective_cpu_isa());
}

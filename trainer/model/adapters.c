/* Chooses the linears with an adapter, and places the adapters in the flat order. */
#include "engine/base/str.h"
#include "trainer/model/private.h"

enum { ALIGN = 64 }; /* elements */

enum fr_rc tr_adapters_plan(struct tr_model *m, const struct tr_lora_config *lora,
                            struct fr_buf *notes, struct fr_err *err)
{
    size_t hits = 0;
    enum fr_rc rc;

    if (lora == NULL)
        return FR_OK;
    if ((rc = tr_lora_check(lora, &m->config, &hits, notes, err)) != FR_OK)
        return rc;
    m->adapters = fr_arena_array(&m->arena, hits + 1, sizeof(*m->adapters));
    return m->adapters != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "%zu adapters", hits);
}

static int64_t align(int64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* FNV-1a of the module's name: the same id in every run and on every rank. */
static uint64_t hash(const char *s)
{
    uint64_t h = 14695981039346656037U;

    for (; *s != '\0'; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211U;
    return h ^ h >> 32;
}

enum fr_rc tr_adapters_take(struct tr_model *m, const struct tr_lora_config *lora,
                            const struct tr_model_tensor *t, const struct tr_adapter **out,
                            struct fr_err *err)
{
    struct tr_adapter *a;
    struct tr_lora_hit hit = {0};
    enum tr_dtype sum = tr_model_sum(m);
    char name[TR_NAME_MAX];
    enum fr_rc rc;

    *out = NULL;
    if (lora == NULL || !tr_model_module(t->name, name))
        return FR_OK;
    if ((rc = tr_lora_match(lora, name, &hit, err)) != FR_OK || !hit.adapted)
        return rc;
    a = &m->adapters[m->nadapters++];
    if ((a->module = fr_arena_dup(&m->arena, name)) == NULL)
        return fr_fail(err, FR_NOMEM, "an adapter");
    a->r = hit.r;
    a->in = t->shape[1];
    a->out = t->shape[0];
    a->scale = hit.scale;
    a->dropout = (float)lora->dropout;
    a->id = hash(name);
    a->a_at = m->padded;
    a->b_at = align(a->a_at + a->r * a->in);
    m->elements += a->r * (a->in + a->out);
    m->padded = align(a->b_at + a->r * a->out);
    a->a = tr_view2(NULL, m->o.compute, a->r, a->in);
    a->b = tr_view2(NULL, m->o.compute, a->out, a->r);
    a->da = tr_view2(NULL, sum, a->r, a->in);
    a->db = tr_view2(NULL, sum, a->out, a->r);
    *out = a;
    return FR_OK;
}

static void *element(struct tr_view flat, int64_t at)
{
    return flat.p == NULL ? NULL : (char *)flat.p + (size_t)at * tr_dtype_bytes(flat.dtype);
}

void tr_adapters_place(struct tr_model *m)
{
    for (size_t i = 0; i < m->nadapters; i++) {
        struct tr_adapter *a = &m->adapters[i];

        a->a = tr_view2(element(m->work, a->a_at), m->work.dtype, a->r, a->in);
        a->b = tr_view2(element(m->work, a->b_at), m->work.dtype, a->out, a->r);
        a->da = tr_view2(element(m->grad, a->a_at), m->grad.dtype, a->r, a->in);
        a->db = tr_view2(element(m->grad, a->b_at), m->grad.dtype, a->out, a->r);
    }
}

/* Chooses the linears with an adapter, and places the adapters in the flat order. */
#include "engine/base/str.h"
#include "engine/base/sys.h"
#include "trainer/model/private.h"

#include <stdio.h>
#include <string.h>

enum { ALIGN = 64 }; /* elements */

/* The modules with a weight. */
struct names {
    char **name;
    bool *linear;
    int64_t *routed;
    size_t n, cap;
};

static enum fr_rc grow(struct names *all, struct fr_err *err)
{
    size_t cap = all->cap == 0 ? 256 : all->cap * 2;
    char **name = fr_sys.realloc(all->name, cap * sizeof(*name));
    bool *linear = fr_sys.realloc(all->linear, cap * sizeof(*linear));
    int64_t *routed = fr_sys.realloc(all->routed, cap * sizeof(*routed));

    all->name = name != NULL ? name : all->name;
    all->linear = linear != NULL ? linear : all->linear;
    all->routed = routed != NULL ? routed : all->routed;
    if (name == NULL || linear == NULL || routed == NULL)
        return fr_fail(err, FR_NOMEM, "names of modules");
    all->cap = cap;
    return FR_OK;
}

static enum fr_rc collect(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    struct names *all = arg;
    char name[TR_NAME_MAX];
    enum fr_rc rc;

    if (!tr_model_module(t, name))
        return FR_OK;
    if (all->n == all->cap && (rc = grow(all, err)) != FR_OK)
        return rc;
    if ((all->name[all->n] = fr_sys.alloc(strlen(name) + 1)) == NULL)
        return fr_fail(err, FR_NOMEM, "names of modules");
    memcpy(all->name[all->n], name, strlen(name) + 1);
    all->routed[all->n] = t->expert >= 0 ? t->shape[0] + t->shape[1] : 0;
    all->linear[all->n++] = t->role == TR_ROLE_LINEAR;
    return FR_OK;
}

enum fr_rc tr_adapters_plan(struct tr_model *m, const struct tr_lora_config *lora,
                            struct fr_buf *notes, struct fr_err *err)
{
    struct names all = {0};
    size_t hits = 0;
    enum fr_rc rc;

    if (lora == NULL)
        return FR_OK;
    if ((rc = tr_model_tensors(&m->config, collect, &all, err)) == FR_OK) {
        struct tr_lora_modules modules = {(const char *const *)all.name, all.linear, all.routed,
                                          all.n};

        rc = tr_lora_check(lora, &modules, &hits, notes, err);
    }
    for (size_t i = 0; i < all.n; i++)
        fr_sys.free(all.name[i]);
    fr_sys.free(all.name);
    fr_sys.free(all.linear);
    fr_sys.free(all.routed);
    if (rc != FR_OK)
        return rc;
    if ((m->adapters = fr_sys.alloc((hits + 1) * sizeof(*m->adapters))) == NULL)
        return fr_fail(err, FR_NOMEM, "%zu adapters", hits);
    memset(m->adapters, 0, (hits + 1) * sizeof(*m->adapters));
    return FR_OK;
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
    char name[TR_NAME_MAX];
    enum fr_rc rc;

    *out = NULL;
    if (lora == NULL || !tr_model_module(t, name))
        return FR_OK;
    if ((rc = tr_lora_match(lora, name, &hit, err)) != FR_OK || !hit.adapted)
        return rc;
    a = &m->adapters[m->nadapters++];
    if ((a->module = fr_sys.alloc(strlen(name) + 1)) == NULL)
        return fr_fail(err, FR_NOMEM, "an adapter");
    memcpy(a->module, name, strlen(name) + 1);
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

void tr_adapters_free(struct tr_model *m)
{
    for (size_t i = 0; i < m->nadapters; i++)
        fr_sys.free(m->adapters[i].module);
    fr_sys.free(m->adapters);
}

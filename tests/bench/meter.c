#include "tests/bench/meter.h"

#include <string.h>
#include <time.h>

double meter_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- what is handed on as it is ---- */

#define INNER(self) struct tr_backend *in = ((struct meter *)(self))->inner

static void describe(void *self, char out[256])
{
    INNER(self);
    in->ops->describe(in->self, out);
}

static void identity(void *self, struct tr_device_id *out)
{
    INNER(self);
    in->ops->identity(in->self, out);
}

static void scratch(void *self, enum tr_op op, const void *args, struct tr_scratch *most)
{
    INNER(self);
    in->ops->scratch(in->self, op, args, most);
}

static size_t prepack_bytes(void *self, const struct tr_view *w)
{
    INNER(self);
    return in->ops->prepack_bytes(in->self, w);
}

static enum fr_rc prepack(void *self, struct tr_queue *q, const struct tr_view *w, void *packed)
{
    INNER(self);
    return in->ops->prepack(in->self, q, w, packed);
}

static bool repacks(void *self, const struct tr_view *w)
{
    INNER(self);
    return in->ops->repacks(in->self, w);
}

static enum fr_rc repack(void *self, struct tr_queue *q, const struct tr_view *w,
                         struct fr_err *err)
{
    INNER(self);
    return in->ops->repack(in->self, q, w, err);
}

/* ---- the ops ---- */

static void keep(struct meter *m, enum tr_op op, const struct tr_cost *c, double seconds)
{
    struct meter_row *row = NULL;

    for (size_t i = 0; i < m->n && row == NULL; i++)
        if (m->rows[i].op == op && memcmp(&m->rows[i].cost, c, sizeof(*c)) == 0)
            row = &m->rows[i];
    if (row == NULL && m->n < METER_ROWS) {
        row = &m->rows[m->n++];
        *row = (struct meter_row){.op = op, .cost = *c};
    }
    if (row == NULL) {
        m->lost++;
        return;
    }
    row->calls++;
    row->seconds += seconds;
}

#define METER_OP(name, args, fp8)                                                                  \
    static enum fr_rc meter_##name(void *self, struct tr_queue *q, const struct args *a,           \
                                   struct fr_err *err)                                             \
    {                                                                                              \
        INNER(self);                                                                               \
        struct meter *m = self;                                                                    \
        struct tr_cost c = tr_cost_of(TR_OP_##name, a);                                            \
        enum fr_rc rc = m->timed ? tr_sync(in, q, err) : FR_OK;                                    \
        double t = meter_now();                                                                    \
                                                                                                   \
        if (rc == FR_OK)                                                                           \
            rc = in->ops->name(in->self, q, a, err);                                               \
        if (rc == FR_OK && m->timed)                                                               \
            rc = tr_sync(in, q, err);                                                              \
        keep(m, TR_OP_##name, &c, m->timed ? meter_now() - t : 0);                                 \
        return rc;                                                                                 \
    }
TR_OPS(METER_OP)
#undef METER_OP

void meter_start(struct meter *m, struct tr_backend *inner)
{
    const struct tr_backend_ops *o = inner->ops;

    memset(m, 0, sizeof(*m));
    m->inner = inner;
    m->ops =
        (struct tr_backend_ops){.name = o->name,
                                .computes = o->computes,
                                .describe = describe,
                                .identity = o->identity != NULL ? identity : NULL,
                                .scratch = o->scratch != NULL ? scratch : NULL,
                                .prepack_bytes = o->prepack_bytes != NULL ? prepack_bytes : NULL,
                                .prepack = o->prepack != NULL ? prepack : NULL,
                                .repacks = o->repacks != NULL ? repacks : NULL,
                                .repack = o->repack != NULL ? repack : NULL,
#define METER_SLOT(name, args, fp8) .name = o->name != NULL ? meter_##name : NULL,
                                TR_OPS(METER_SLOT)
#undef METER_SLOT
        };
    m->backend =
        (struct tr_backend){inner->memory, inner->queues, inner->device, &m->ops, m, NULL, 0};
}

void meter_reset(struct meter *m, bool timed)
{
    m->n = 0;
    m->lost = 0;
    m->timed = timed;
}

double meter_least(const struct meter_row *row, double rate, double bandwidth)
{
    double matrix = row->cost.flop / rate, memory = row->cost.bytes / bandwidth;

    return (double)row->calls * (matrix > memory ? matrix : memory);
}

double meter_goal(const struct meter_row *row, double rate, double bandwidth)
{
    const struct tr_cost *c = &row->cost;

    if (row->op == TR_OP_attention_fwd)
        return 0.55;
    if (row->op == TR_OP_attention_bwd)
        return 0.45;
    if (c->experts > 0 && c->shape[0] / c->experts >= 512)
        return 0.65;
    return c->bytes / bandwidth > c->flop / rate ? 0.8 : 0;
}

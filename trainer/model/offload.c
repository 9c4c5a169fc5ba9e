/*
 * Keeps inputs of blocks in host memory between forward and backward. On the device they share RING
 * buffers, input i in buffer i mod RING. An input is copied out while later blocks run, and copied
 * back during the backward of the blocks above. The last RING inputs stay on the device.
 */
#include "trainer/backend/trace.h"
#include "trainer/model/private.h"

enum { RING = TR_OFFLOAD_RING };

/* Inputs first .. last-1 go to the host. The range excludes inputs below the lowest block with a
 * backward, and the last RING inputs. */
static int first_out(const struct tr_model *m)
{
    return m->lowest > 1 ? m->lowest : 1;
}

static int last_out(const struct tr_model *m)
{
    return m->nblocks - RING;
}

static size_t input_bytes(const struct tr_model *m)
{
    size_t n = (size_t)m->o.tokens_max * (size_t)m->config.hidden_size;

    return (n * tr_dtype_bytes(m->o.compute) + 255) / 256 * 256;
}

size_t tr_offload_bytes(const struct tr_model *m)
{
    int n = last_out(m) - first_out(m);

    return m->o.offload && n > 0 ? (size_t)(n * m->o.in_flight) * input_bytes(m) : 0;
}

enum fr_rc tr_offload_create(struct tr_model *m, struct fr_err *err)
{
    struct offload *o = &m->offload;
    enum fr_rc rc = FR_OK;
    void *p = NULL;

    if (tr_offload_bytes(m) == 0)
        return FR_OK;
    if ((rc = tr_queue_create(m->o.be, 0, &o->q, err)) != FR_OK ||
        (rc = tr_event_create(m->o.be, &o->turn, err)) != FR_OK)
        return rc;
    if ((rc = tr_mem_alloc(m->o.be, TR_MEM_PINNED, tr_offload_bytes(m), &p, err)) != FR_OK)
        return fr_while(err, "waiting activations");
    tr_trace_queue(m->o.be, o->q, "copy activations");
    o->host = p;
    for (int i = 0; i < RING && rc == FR_OK; i++)
        rc = tr_event_create(m->o.be, &o->moved[i], err);
    return rc;
}

void tr_offload_destroy(struct tr_model *m)
{
    struct offload *o = &m->offload;

    for (int i = 0; i < RING; i++)
        tr_event_destroy(m->o.be, o->moved[i]);
    tr_event_destroy(m->o.be, o->turn);
    tr_mem_free(m->o.be, TR_MEM_PINNED, o->host);
    tr_queue_destroy(m->o.be, o->q);
}

static bool goes_out(const struct tr_model *m, int i)
{
    return m->offload.host != NULL && i >= first_out(m) && i < last_out(m);
}

/* Copies input i of the slot to the host, or back, after the blocks run so far. */
static void move(struct tr_model *m, struct tr_ctx *ctx, const struct tr_saved *s, int i, bool out)
{
    struct offload *o = &m->offload;
    char *host = o->host + (size_t)(s->slot * (last_out(m) - first_out(m)) + i - first_out(m)) *
                               input_bytes(m);
    void *dst = out ? host : s->x[i].p;
    const void *src = out ? s->x[i].p : host;

    if (ctx->rc == FR_OK && (ctx->rc = tr_event_record(m->o.be, ctx->q, o->turn)) == FR_OK &&
        (ctx->rc = tr_event_wait(m->o.be, o->q, o->turn)) == FR_OK &&
        (ctx->rc = tr_copy(m->o.be, o->q, dst, src, tr_view_bytes(s->x[i]))) == FR_OK)
        ctx->rc = tr_event_record(m->o.be, o->q, o->moved[i % RING]);
}

/* Makes the queue wait for the last copy to or from the buffer of input i. */
static void settle(struct tr_model *m, struct tr_ctx *ctx, int i)
{
    if (ctx->rc == FR_OK)
        ctx->rc = tr_event_wait(m->o.be, ctx->q, m->offload.moved[i % RING]);
}

void tr_offload_make(struct tr_model *m, struct tr_ctx *ctx, int i)
{
    if (m->offload.host != NULL)
        settle(m, ctx, i);
}

void tr_offload_made(struct tr_model *m, struct tr_ctx *ctx, const struct tr_saved *s, int i)
{
    if (goes_out(m, i))
        move(m, ctx, s, i, true);
}

void tr_offload_need(struct tr_model *m, struct tr_ctx *ctx, int i)
{
    if (goes_out(m, i))
        settle(m, ctx, i);
}

void tr_offload_used(struct tr_model *m, struct tr_ctx *ctx, const struct tr_saved *s, int i)
{
    if (goes_out(m, i - RING))
        move(m, ctx, s, i - RING, false);
}

#include "trainer/backend/backend.h"

#include "trainer/backend/check.h"
#include "trainer/backend/trace.h"

#include <assert.h>

static const char *const op_names[] = {
#define OP_NAME(name, args, fp8) [TR_OP_##name] = #name,
    TR_OPS(OP_NAME)
#undef OP_NAME
};

static const bool takes_fp8[] = {
#define OP_FP8(name, args, fp8) [TR_OP_##name] = fp8,
    TR_OPS(OP_FP8)
#undef OP_FP8
};

const char *tr_op_name(enum tr_op op)
{
    return (unsigned)op < TR_OP_COUNT ? op_names[op] : "?";
}

bool tr_supports(struct tr_backend *be, enum tr_op op, enum tr_dtype compute, enum tr_dtype weight)
{
    bool fp8 = weight == TR_F8_E4M3 && compute != TR_F64 && takes_fp8[op];

    return (be->ops->computes >> compute & 1) != 0 && (weight == compute || fp8);
}

#define OP_CALL(name, args, fp8)                                                                   \
    enum fr_rc tr_##name(struct tr_backend *be, struct tr_queue *q, const struct args *a,          \
                         struct fr_err *err)                                                       \
    {                                                                                              \
        struct tr_check c = {.be = be, .op = TR_OP_##name, .err = err, .share = 1};                \
        enum fr_rc rc;                                                                             \
                                                                                                   \
        assert(q != NULL);                                                                         \
        tr_check_##name(&c, a);                                                                    \
        if (c.rc != FR_OK)                                                                         \
            return c.rc;                                                                           \
        tr_trace_begin(be, q, #name);                                                              \
        rc = be->ops->name(be->self, q, a, err);                                                   \
        tr_trace_end(be, q);                                                                       \
        return rc;                                                                                 \
    }
TR_OPS(OP_CALL)
#undef OP_CALL

enum fr_rc tr_mem_alloc(struct tr_backend *be, enum tr_mem kind, size_t bytes, void **out,
                        struct fr_err *err)
{
    enum fr_rc rc;

    *out = NULL;
    rc = be->memory->alloc(be->device, kind, bytes, out, err);
    assert((uintptr_t)*out % 256 == 0);
    be->taken += rc == FR_OK ? bytes : 0;
    return rc;
}

void tr_mem_free(struct tr_backend *be, enum tr_mem kind, void *p)
{
    if (p != NULL)
        be->memory->free(be->device, kind, p);
}

enum fr_rc tr_mem_reserve(struct tr_backend *be, size_t bytes, struct fr_err *err)
{
    return be->memory->reserve != NULL ? be->memory->reserve(be->device, bytes, err) : FR_OK;
}

size_t tr_mem_room(struct tr_backend *be)
{
    return be->memory->room != NULL ? be->memory->room(be->device) : 0;
}

size_t tr_prepack_bytes(struct tr_backend *be, struct tr_view w)
{
    return be->ops->prepack_bytes != NULL ? be->ops->prepack_bytes(be->self, &w) : 0;
}

enum fr_rc tr_prepack(struct tr_backend *be, struct tr_queue *q, struct tr_view w, void *packed)
{
    enum fr_rc rc;

    assert(tr_prepack_bytes(be, w) > 0);
    tr_trace_begin(be, q, "prepack");
    rc = be->ops->prepack(be->self, q, &w, packed);
    tr_trace_end(be, q);
    return rc;
}

bool tr_repacks(struct tr_backend *be, struct tr_view w)
{
    return tr_prepack_bytes(be, w) > 0 && be->ops->repacks != NULL &&
           be->ops->repacks(be->self, &w);
}

enum fr_rc tr_repack(struct tr_backend *be, struct tr_queue *q, struct tr_view w,
                     struct fr_err *err)
{
    enum fr_rc rc;

    assert(tr_repacks(be, w));
    tr_trace_begin(be, q, "repack");
    rc = be->ops->repack(be->self, q, &w, err);
    tr_trace_end(be, q);
    return rc;
}

enum fr_rc tr_copy(struct tr_backend *be, struct tr_queue *q, void *dst, const void *src,
                   size_t bytes)
{
    enum fr_rc rc;

    if (bytes == 0)
        return FR_OK;
    tr_trace_begin(be, q, "copy %zu bytes", bytes);
    rc = be->queues->copy(be->device, q, dst, src, bytes);
    tr_trace_end(be, q);
    return rc;
}

enum fr_rc tr_zero(struct tr_backend *be, struct tr_queue *q, void *dst, size_t bytes)
{
    return bytes == 0 ? FR_OK : be->queues->zero(be->device, q, dst, bytes);
}

enum fr_rc tr_queue_create(struct tr_backend *be, size_t workspace_bytes, struct tr_queue **out,
                           struct fr_err *err)
{
    enum fr_rc rc;

    *out = NULL;
    rc = be->queues->create(be->device, workspace_bytes, out, err);
    be->taken += rc == FR_OK ? workspace_bytes : 0;
    return rc;
}

void tr_queue_destroy(struct tr_backend *be, struct tr_queue *q)
{
    if (q == NULL)
        return;
    tr_trace_forget(be, q);
    be->queues->destroy(be->device, q);
}

enum fr_rc tr_event_create(struct tr_backend *be, struct tr_event **out, struct fr_err *err)
{
    *out = NULL;
    return be->queues->event_create(be->device, false, out, err);
}

enum fr_rc tr_event_create_timed(struct tr_backend *be, struct tr_event **out, struct fr_err *err)
{
    *out = NULL;
    return be->queues->event_create(be->device, true, out, err);
}

void tr_event_destroy(struct tr_backend *be, struct tr_event *e)
{
    if (e != NULL)
        be->queues->event_destroy(be->device, e);
}

enum fr_rc tr_event_record(struct tr_backend *be, struct tr_queue *q, struct tr_event *e)
{
    return be->queues->event_record(be->device, q, e);
}

enum fr_rc tr_event_wait(struct tr_backend *be, struct tr_queue *q, struct tr_event *e)
{
    return be->queues->event_wait(be->device, q, e);
}

enum fr_rc tr_sync(struct tr_backend *be, struct tr_queue *q, struct fr_err *err)
{
    return be->queues->sync(be->device, q, err);
}

void tr_backend_describe(struct tr_backend *be, char out[256])
{
    be->ops->describe(be->self, out);
}

void tr_backend_destroy(struct tr_backend *be)
{
    if (be != NULL)
        be->ops->destroy(be->self);
}

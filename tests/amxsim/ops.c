#include "tests/amxsim/ops.h"

static const struct tr_backend_ops *plain; /* the CPU backend's own */

#define OP(name, args, fp8)                                                                        \
    static enum fr_rc name(void *self, struct tr_queue *q, const struct args *a,                   \
                           struct fr_err *err)                                                     \
    {                                                                                              \
        enum fr_rc rc;                                                                             \
                                                                                                   \
        amxsim_begin_op(#name);                                                                    \
        rc = plain->name(self, q, a, err);                                                         \
        amxsim_end_op();                                                                           \
        return rc;                                                                                 \
    }
TR_OPS(OP)

enum fr_rc amxsim_create(enum cpu_math math, struct tr_backend **out, struct fr_err *err)
{
    static struct tr_backend_ops watched;
    enum fr_rc rc = cpu_create(math, out, err);

    if (rc != FR_OK)
        return rc;
    plain = (*out)->ops;
    watched = *plain;
#define WATCH(name, args, fp8) watched.name = name;
    TR_OPS(WATCH)
    (*out)->ops = &watched;
    return FR_OK;
}

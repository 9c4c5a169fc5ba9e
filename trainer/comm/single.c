/* One rank: a collective is a copy. self is the backend. */
#include "engine/base/sys.h"
#include "trainer/comm/comm.h"

#include <string.h>

static enum fr_rc copy(struct tr_backend *be, struct tr_queue *q, void *out, const void *in,
                       size_t bytes)
{
    return out == in ? FR_OK : tr_copy(be, q, out, in, bytes);
}

static enum fr_rc done(enum fr_rc rc, struct fr_err *err)
{
    return rc == FR_OK ? rc : fr_fail(err, rc, "the backend refused a copy");
}

static enum fr_rc all_gather(void *self, struct tr_queue *q, const struct tr_allgather *x,
                             struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < x->n && rc == FR_OK; i++)
        rc = copy(self, q, x->items[i].out, x->items[i].in, x->items[i].bytes);
    return done(rc, err);
}

static enum fr_rc all_to_all(void *self, struct tr_queue *q, const struct tr_alltoall *x,
                             struct fr_err *err)
{
    return done(copy(self, q, x->out, x->in, x->bytes), err);
}

static enum fr_rc all_to_allv(void *self, struct tr_queue *q, const struct tr_alltoallv *x,
                              struct fr_err *err)
{
    if (x->in_bytes[0] != x->out_bytes[0])
        return fr_fail(err, FR_BUG, "%zu bytes sent, %zu expected", x->in_bytes[0],
                       x->out_bytes[0]);
    return done(copy(self, q, (char *)x->out + x->out_at[0], (const char *)x->in + x->in_at[0],
                     x->in_bytes[0]),
                err);
}

static enum fr_rc broadcast(void *self, struct tr_queue *q, const struct tr_broadcast *x,
                            struct fr_err *err)
{
    (void)self;
    (void)q;
    return x->root == 0 ? FR_OK : fr_fail(err, FR_BUG, "no rank %d", x->root);
}

static enum fr_rc host_all_gather(void *self, void *all, const void *mine, size_t bytes,
                                  struct fr_err *err)
{
    (void)self;
    (void)err;
    if (bytes > 0)
        memmove(all, mine, bytes);
    return FR_OK;
}

static void abort_run(void *self, const char *why)
{
    (void)self;
    (void)why;
}

static size_t buffers(void *self)
{
    (void)self;
    return 0;
}

static void destroy(void *self)
{
    (void)self;
}

static const struct tr_comm_ops single_ops;

static enum fr_rc split(void *self, const struct tr_group *g, struct tr_comm *group,
                        struct fr_err *err)
{
    (void)g;
    (void)err;
    group->ops = &single_ops;
    group->self = self;
    return FR_OK;
}

static const struct tr_comm_ops single_ops = {
    .name = "single",
    .all_gather = all_gather,
    .all_to_all = all_to_all,
    .all_to_allv = all_to_allv,
    .broadcast = broadcast,
    .host_all_gather = host_all_gather,
    .split = split,
    .abort = abort_run,
    .bytes = buffers,
    .destroy = destroy,
};

enum fr_rc tr_comm_single(struct tr_backend *be, struct tr_comm **out, struct fr_err *err)
{
    struct tr_comm *comm = fr_sys.alloc(sizeof(*comm));

    if ((*out = comm) == NULL)
        return fr_fail(err, FR_NOMEM, "a communicator");
    *comm = (struct tr_comm){
        .ops = &single_ops, .self = be, .be = be, .size = 1, .local_size = 1, .nodes = 1};
    return FR_OK;
}

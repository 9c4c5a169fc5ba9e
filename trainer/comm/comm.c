#include "trainer/comm/comm.h"

#include "engine/base/sys.h"
#include "trainer/backend/trace.h"

#include <string.h>

/* One call of the transport, in the trace of the rank's backend. */
#define TRACED(comm, q, name, x, err, failed)                                                      \
    (tr_trace_begin((comm)->be, (q), #name " %s", (x)->what),                                      \
     (failed) = (comm)->ops->name((comm)->self, (q), (x), (err)), tr_trace_end((comm)->be, (q)),   \
     (failed) != FR_OK)

static void count(struct tr_comm *comm, size_t bytes)
{
    comm->collectives++;
    comm->sent_bytes += bytes;
    if (comm->world != NULL)
        count(comm->world, bytes);
}

/* A communicator's calls are ordered by its queue: one of two queues could overtake the other, on
 * one rank and not on the next. */
static enum fr_rc take_queue(struct tr_comm *comm, struct tr_queue *q, const char *what,
                             struct fr_err *err)
{
    if (comm->q == NULL)
        comm->q = q;
    return comm->q == q
               ? FR_OK
               : fr_fail(err, FR_BUG, "%s: a communicator's calls are all on one queue", what);
}

void tr_comm_leave(struct tr_comm *comm, const struct tr_queue *q)
{
    if (comm->q == q)
        comm->q = NULL;
}

void tr_comm_destroy(struct tr_comm *comm)
{
    if (comm == NULL)
        return;
    comm->ops->destroy(comm->self);
    fr_sys.free(comm);
}

enum fr_rc tr_comm_all_gather(struct tr_comm *comm, struct tr_queue *q,
                              const struct tr_allgather *x, struct fr_err *err)
{
    size_t bytes = 0;
    enum fr_rc rc = take_queue(comm, q, x->what, err);

    if (rc != FR_OK)
        return rc;
    for (size_t i = 0; i < x->n; i++)
        bytes += x->items[i].bytes * (size_t)(comm->size - 1);
    count(comm, bytes);
    if (TRACED(comm, q, all_gather, x, err, rc))
        return fr_while(err, "gathering %s", x->what);
    return FR_OK;
}

enum fr_rc tr_comm_all_to_all(struct tr_comm *comm, struct tr_queue *q, const struct tr_alltoall *x,
                              struct fr_err *err)
{
    enum fr_rc rc = take_queue(comm, q, x->what, err);

    if (rc != FR_OK)
        return rc;
    count(comm, x->bytes * (size_t)(comm->size - 1));
    if (TRACED(comm, q, all_to_all, x, err, rc))
        return fr_while(err, "exchanging %s", x->what);
    return FR_OK;
}

enum fr_rc tr_comm_all_to_allv(struct tr_comm *comm, struct tr_queue *q,
                               const struct tr_alltoallv *x, struct fr_err *err)
{
    size_t bytes = 0;
    enum fr_rc rc = take_queue(comm, q, x->what, err);

    if (rc != FR_OK)
        return rc;
    for (int k = 0; k < comm->size; k++)
        bytes += k == comm->rank ? 0 : x->in_bytes[k];
    count(comm, bytes);
    if (TRACED(comm, q, all_to_allv, x, err, rc))
        return fr_while(err, "exchanging %s", x->what);
    return FR_OK;
}

enum fr_rc tr_comm_broadcast(struct tr_comm *comm, struct tr_queue *q, const struct tr_broadcast *x,
                             struct fr_err *err)
{
    enum fr_rc rc = take_queue(comm, q, x->what, err);

    if (rc != FR_OK)
        return rc;
    count(comm, comm->rank == x->root ? x->bytes * (size_t)(comm->size - 1) : 0);
    if (TRACED(comm, q, broadcast, x, err, rc))
        return fr_while(err, "broadcasting %s", x->what);
    return FR_OK;
}

enum fr_rc tr_comm_reduce_scatter(struct tr_comm *comm, struct tr_queue *q,
                                  const struct tr_reduce_scatter *x, struct fr_err *err)
{
    size_t n = (size_t)tr_view_count(x->out);
    struct tr_alltoall a = {
        .out = x->slices.p,
        .in = x->in.p,
        .bytes = n * tr_dtype_bytes(x->in.dtype),
        .what = x->what,
    };
    struct tr_reduce r = {.out = x->out, .slices = x->slices};
    enum fr_rc rc;

    if (tr_view_count(x->in) != (int64_t)n * comm->size || x->slices.dtype != x->in.dtype ||
        tr_view_count(x->slices) != tr_view_count(x->in))
        return fr_fail(err, FR_SHAPE, "reduce-scatter of %s: %d slices of %zu do not fit", x->what,
                       comm->size, n);
    if ((rc = tr_comm_all_to_all(comm, q, &a, err)) != FR_OK)
        return rc;
    return tr_reduce_ordered(comm->be, q, &r, err);
}

enum fr_rc tr_comm_all_reduce(struct tr_comm *comm, struct tr_queue *q,
                              const struct tr_all_reduce *x, struct fr_err *err)
{
    int64_t n = tr_view_count(x->p) / comm->size;
    float *mine = (float *)x->p.p + n * comm->rank;
    struct tr_reduce_scatter rs = {
        .out = tr_view1(mine, TR_F32, n), .in = x->p, .slices = x->slices, .what = x->what};
    struct tr_gather_item item = {x->p.p, mine, (size_t)n * sizeof(float)};
    struct tr_allgather g = {.items = &item, .n = 1, .what = x->what};
    enum fr_rc rc;

    if (x->p.dtype != TR_F32)
        return fr_fail(err, FR_DTYPE, "all-reduce of %s: %s, expected f32", x->what,
                       tr_dtype_name(x->p.dtype));
    if ((rc = tr_comm_reduce_scatter(comm, q, &rs, err)) != FR_OK)
        return rc;
    return tr_comm_all_gather(comm, q, &g, err);
}

static enum fr_rc whole(const struct tr_comm *comm, struct fr_err *err)
{
    return comm->world == NULL ? FR_OK
                               : fr_fail(err, FR_UNSUPPORTED, "a group has no control plane");
}

enum fr_rc tr_comm_host_all_gather(struct tr_comm *comm, void *all, const void *mine, size_t bytes,
                                   struct fr_err *err)
{
    enum fr_rc rc = whole(comm, err);

    if (rc != FR_OK)
        return rc;
    return comm->ops->host_all_gather(comm->self, all, mine, bytes, err);
}

enum fr_rc tr_comm_host_broadcast(struct tr_comm *comm, void *p, size_t bytes, int root,
                                  struct fr_err *err)
{
    return comm->ops->host_broadcast(comm->self, p, bytes, root, err);
}

enum fr_rc tr_comm_host_barrier(struct tr_comm *comm, struct fr_err *err)
{
    enum fr_rc rc = whole(comm, err);

    if (rc != FR_OK)
        return rc;
    return comm->ops->host_barrier(comm->self, err);
}

enum fr_rc tr_comm_host_sum(struct tr_comm *comm, double *p, size_t n, struct fr_err *err)
{
    size_t bytes = n * sizeof(double);
    double *all = fr_sys.alloc(bytes * (size_t)comm->size);
    enum fr_rc rc;

    if (all == NULL)
        return fr_fail(err, FR_NOMEM, "sum of %zu numbers over %d ranks", n, comm->size);
    if ((rc = tr_comm_host_all_gather(comm, all, p, bytes, err)) == FR_OK) {
        memset(p, 0, bytes);
        for (size_t k = 0; k < (size_t)comm->size; k++)
            for (size_t i = 0; i < n; i++)
                p[i] += all[k * n + i];
    }
    fr_sys.free(all);
    return rc;
}

/* Groups: what all ranks say, and the list that follows from it. */
static enum fr_rc join_colors(struct tr_comm *world, int color, int *all, struct tr_group *g,
                              struct fr_err *err)
{
    int *ranks = all + world->size;
    enum fr_rc rc = tr_comm_host_all_gather(world, all, &color, sizeof(color), err);

    *g = (struct tr_group){.ranks = ranks};
    for (int r = 0; r < world->size && rc == FR_OK; r++)
        if (all[r] == color)
            ranks[g->size++] = r;
    return rc;
}

enum fr_rc tr_comm_split(struct tr_comm *world, int color, struct tr_comm **out, struct fr_err *err)
{
    struct tr_comm *group = fr_sys.alloc(sizeof(*group));
    int *all = fr_sys.alloc(2 * (size_t)world->size * sizeof(*all));
    struct tr_group g = {0};
    enum fr_rc rc = group == NULL || all == NULL ? fr_fail(err, FR_NOMEM, "a group of ranks")
                                                 : join_colors(world, color, all, &g, err);

    *out = NULL;
    if (rc == FR_OK) {
        *group = (struct tr_comm){.be = world->be, .size = g.size, .world = world};
        while (g.ranks[group->rank] != world->rank)
            group->rank++;
        rc = world->ops->split(world->self, &g, group, err);
    }
    fr_sys.free(all);
    if (rc == FR_OK) {
        world->own_bytes += group->own_bytes;
        *out = group;
    } else {
        fr_sys.free(group);
    }
    return rc == FR_OK ? rc : fr_while(err, "making a group of ranks");
}

void tr_comm_abort(struct tr_comm *comm, const char *why)
{
    comm->ops->abort(comm->self, why);
}

#include "trainer/comm/comm.h"

#include "engine/base/sys.h"
#include "trainer/backend/trace.h"
#include "trainer/comm/comm_cpu.h"

#include <assert.h>
#include <string.h>

/* Ends a call of the transport with its result. doing: "gathering", for an error. */
static enum fr_rc end(struct tr_comm *comm, struct tr_queue *q, enum fr_rc rc, const char *doing,
                      const char *what, struct fr_err *err)
{
    tr_trace_end(comm->be, q);
    return rc == FR_OK ? rc : fr_while(err, "%s %s", doing, what);
}

/* Calls the transport, with a span in the trace of the rank's backend. */
#define CALL(comm, q, name, x, doing, err)                                                         \
    (tr_trace_begin((comm)->be, (q), #name " %s", (x)->what),                                      \
     end((comm), (q), (comm)->ops->name((comm)->self, (q), (x), (err)), (doing), (x)->what,        \
         (err)))

static enum tr_link_class class_of(const struct tr_comm *comm, int k)
{
    if (k == comm->rank)
        return TR_LINK_SELF;
    return comm->node_of == NULL || comm->node_of[k] == comm->node_of[comm->rank] ? TR_LINK_NODE
                                                                                  : TR_LINK_FAR;
}

/* Counts n bytes to rank k. */
static void add(struct tr_comm *comm, int k, size_t n)
{
    struct tr_comm *both[] = {comm, comm->world};
    enum tr_link_class c = class_of(comm, k);

    for (int i = 0; i < 2 && both[i] != NULL; i++) {
        both[i]->class_bytes[c] += n;
        both[i]->sent_bytes += c == TR_LINK_SELF ? 0 : n;
    }
}

static void count_call(struct tr_comm *comm)
{
    comm->collectives++;
    if (comm->world != NULL)
        comm->world->collectives++;
}

/* Counts a call that sends bytes[k] to rank k, or `each` to every rank if bytes is NULL. */
static void count(struct tr_comm *comm, const size_t *bytes, size_t each)
{
    count_call(comm);
    for (int k = 0; k < comm->size; k++)
        add(comm, k, bytes != NULL ? bytes[k] : each);
}

/* In a ring each rank sends the next rank all parts but the next rank's own. */
static void count_ring(struct tr_comm *comm, size_t part)
{
    count_call(comm);
    add(comm, comm->rank, part);
    if (comm->size > 1)
        add(comm, (comm->rank + 1) % comm->size, part * (size_t)(comm->size - 1));
}

/* The queue orders a communicator's calls. With two queues the order could differ between ranks. */
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
    if (comm->ops != NULL)
        comm->ops->destroy(comm->self);
    tr_comm_destroy(comm->host);
    fr_sys.free(comm->ranks);
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
        bytes += x->items[i].bytes;
    count_ring(comm, bytes);
    return CALL(comm, q, all_gather, x, "gathering", err);
}

enum fr_rc tr_comm_all_to_all(struct tr_comm *comm, struct tr_queue *q, const struct tr_alltoall *x,
                              struct fr_err *err)
{
    enum fr_rc rc = take_queue(comm, q, x->what, err);

    if (rc != FR_OK)
        return rc;
    count(comm, NULL, x->bytes);
    return CALL(comm, q, all_to_all, x, "exchanging", err);
}

enum fr_rc tr_comm_all_to_allv(struct tr_comm *comm, struct tr_queue *q,
                               const struct tr_alltoallv *x, struct fr_err *err)
{
    enum fr_rc rc = take_queue(comm, q, x->what, err);

    if (rc != FR_OK)
        return rc;
    count(comm, x->in_bytes, 0);
    return CALL(comm, q, all_to_allv, x, "exchanging", err);
}

enum fr_rc tr_comm_broadcast(struct tr_comm *comm, struct tr_queue *q, const struct tr_broadcast *x,
                             struct fr_err *err)
{
    enum fr_rc rc = take_queue(comm, q, x->what, err);

    if (rc != FR_OK)
        return rc;
    count(comm, NULL, comm->rank == x->root ? x->bytes : 0);
    return CALL(comm, q, broadcast, x, "broadcasting", err);
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
    struct tr_reduce r = {.out = x->out, .slices = x->slices, .add = x->add};
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

/* The communicator whose transport has the control plane. */
static struct tr_comm *control(struct tr_comm *comm)
{
    struct tr_comm *world = tr_comm_world(comm);

    return world->host != NULL ? world->host : world;
}

enum fr_rc tr_comm_host_all_gather(struct tr_comm *comm, void *all, const void *mine, size_t bytes,
                                   struct fr_err *err)
{
    struct tr_comm *c = control(comm);

    if (comm->world != NULL)
        return fr_fail(err, FR_UNSUPPORTED, "a group has no control plane");
    return c->ops->host_all_gather(c->self, all, mine, bytes, err);
}

enum fr_rc tr_comm_host_broadcast(struct tr_comm *comm, void *p, size_t bytes, int root,
                                  struct fr_err *err)
{
    char *all = fr_sys.alloc(bytes * (size_t)comm->size);
    enum fr_rc rc = all == NULL
                        ? fr_fail(err, FR_NOMEM, "no memory for a broadcast of %zu bytes", bytes)
                        : tr_comm_host_all_gather(comm, all, p, bytes, err);

    assert(root >= 0 && root < comm->size);
    if (rc == FR_OK && bytes > 0)
        memcpy(p, all + (size_t)root * bytes, bytes);
    fr_sys.free(all);
    return rc;
}

enum fr_rc tr_comm_host_barrier(struct tr_comm *comm, struct fr_err *err)
{
    char one = 1;

    return tr_comm_host_broadcast(comm, &one, 1, 0, err);
}

enum fr_rc tr_comm_host_first_error(struct tr_comm *world, const struct fr_err *mine,
                                    struct fr_err *first, struct fr_err *err)
{
    struct fr_err *all = fr_sys.alloc((size_t)world->size * sizeof(*all));
    enum fr_rc rc = all == NULL ? fr_fail(err, FR_NOMEM, "no memory to compare ranks")
                                : tr_comm_host_all_gather(world, all, mine, sizeof(*mine), err);

    *first = (struct fr_err){0};
    for (int k = world->size; k-- > 0 && rc == FR_OK;)
        if (all[k].rc != FR_OK)
            *first = all[k];
    fr_sys.free(all);
    return rc;
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

struct tr_comm *tr_comm_over(struct tr_backend *be, const struct tr_comm_ops *ops,
                             struct tr_comm *host, size_t bytes, struct fr_err *err)
{
    struct tr_comm *comm = fr_sys.alloc(sizeof(*comm));
    void *self = fr_sys.alloc(bytes);

    if (comm == NULL || self == NULL) {
        fr_sys.free(comm);
        fr_sys.free(self);
        (void)fr_fail(err, FR_NOMEM, "no memory for the ranks");
        return NULL;
    }
    *comm = *host;
    comm->ops = ops;
    comm->self = memset(self, 0, bytes);
    comm->be = be;
    comm->host = host;
    return comm;
}

enum fr_rc tr_comm_over_end(struct tr_comm *comm, enum fr_rc rc, struct tr_comm **out,
                            struct fr_err *err)
{
    *out = comm;
    if (rc == FR_OK)
        return FR_OK;
    if (err != NULL)
        tr_comm_abort(comm, err->msg);
    comm->host = NULL;
    tr_comm_destroy(comm);
    *out = NULL;
    return rc;
}

/* The contribution of one rank to a split. */
struct member {
    int color, node;
};

/* Gathers the colors of all ranks; fills the ranks of this group, then their nodes. */
static enum fr_rc join_colors(struct tr_comm *world, int color, struct tr_comm *group,
                              struct fr_err *err)
{
    struct member mine = {color, world->node}, *all;
    int *nodes = group->ranks + world->size;
    enum fr_rc rc;

    if ((all = fr_sys.alloc((size_t)world->size * sizeof(*all))) == NULL)
        return fr_fail(err, FR_NOMEM, "a group of ranks");
    rc = tr_comm_host_all_gather(world, all, &mine, sizeof(mine), err);
    for (int r = 0; r < world->size && rc == FR_OK; r++)
        if (all[r].color == color) {
            if (r == world->rank)
                group->rank = group->size;
            nodes[group->size] = all[r].node;
            group->ranks[group->size++] = r;
        }
    group->node_of = nodes;
    fr_sys.free(all);
    return rc;
}

enum fr_rc tr_comm_split(struct tr_comm *world, int color, struct tr_comm **out, struct fr_err *err)
{
    struct tr_comm *group = fr_sys.alloc(sizeof(*group));
    int *ranks = fr_sys.alloc(2 * (size_t)world->size * sizeof(*ranks));
    enum fr_rc rc = FR_OK;

    *out = NULL;
    if (group == NULL || ranks == NULL) {
        fr_sys.free(group);
        fr_sys.free(ranks);
        return fr_fail(err, FR_NOMEM, "a group of ranks");
    }
    *group = (struct tr_comm){.be = world->be,
                              .node = world->node,
                              .world = world,
                              .ranks = ranks,
                              .number = ++world->splits};
    if ((rc = join_colors(world, color, group, err)) == FR_OK)
        rc = world->ops->split(world->self, &(struct tr_group){ranks, group->size}, group, err);
    if (rc != FR_OK) {
        tr_comm_destroy(group);
        return fr_while(err, "making a group of ranks");
    }
    world->own_bytes += group->own_bytes;
    *out = group;
    return FR_OK;
}

void tr_comm_abort(struct tr_comm *comm, const char *why)
{
    struct tr_comm *c = control(comm);

    c->ops->abort(c->self, why);
}

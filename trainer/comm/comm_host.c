/* GPU ranks over the CPU transport: collectives copy through pinned host memory, piece by piece,
 * and each call waits for its queue. Slow, but ranks may share a device. The same bits as any other
 * transport. */
#include "engine/base/sys.h"
#include "trainer/comm/comm_cpu.h"

#include <string.h>

enum { PIECE = 1 << 20 };

struct staged {
    struct tr_comm *comm; /* borrows: the communicator whose self this is */
    char *in, *out;       /* own, pinned: size * PIECE each */
    size_t *lists;        /* owns: 3 * size numbers */
};

/* One copy of a call, on its queue. */
static enum fr_rc copy(struct staged *s, struct tr_queue *q, void *dst, const void *src, size_t n)
{
    return tr_copy(s->comm->be, q, dst, src, n);
}

/* Waits for the copies of half a piece. */
static enum fr_rc settle(struct staged *s, struct tr_queue *q, enum fr_rc rc, struct fr_err *err)
{
    return rc == FR_OK ? tr_sync(s->comm->be, q, err)
                       : fr_fail(err, rc, "a copy between device and host");
}

static size_t piece(size_t bytes, size_t at)
{
    return at >= bytes ? 0 : bytes - at < PIECE ? bytes - at : PIECE;
}

/* Copies n bytes of each rank from the own buffer to out, `stride` bytes apart. */
static enum fr_rc hand_out(struct staged *s, struct tr_queue *q, char *out, size_t stride, size_t n,
                           struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t k = 0; k < (size_t)s->comm->size && rc == FR_OK; k++)
        rc = copy(s, q, out + k * stride, s->out + k * n, n);
    return settle(s, q, rc, err);
}

static enum fr_rc gather_item(struct staged *s, struct tr_queue *q, const struct tr_gather_item *x,
                              const char *what, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t at = 0, n; rc == FR_OK && (n = piece(x->bytes, at)) > 0; at += n) {
        struct tr_gather_item item = {s->out, s->in, n};
        struct tr_allgather g = {&item, 1, what};

        rc = settle(s, q, copy(s, q, s->in, (const char *)x->in + at, n), err);
        if (rc == FR_OK)
            rc = tr_comm_all_gather(s->comm->host, NULL, &g, err);
        if (rc != FR_OK)
            return rc;
        rc = hand_out(s, q, (char *)x->out + at, x->bytes, n, err);
    }
    return rc;
}

static enum fr_rc host_gather(void *self, struct tr_queue *q, const struct tr_allgather *x,
                              struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < x->n && rc == FR_OK; i++)
        rc = gather_item(self, q, &x->items[i], x->what, err);
    return rc;
}

static enum fr_rc host_exchange(void *self, struct tr_queue *q, const struct tr_alltoall *x,
                                struct fr_err *err)
{
    struct staged *s = self;
    enum fr_rc rc = FR_OK;

    for (size_t at = 0, n; rc == FR_OK && (n = piece(x->bytes, at)) > 0; at += n) {
        struct tr_alltoall a = {s->out, s->in, n, x->what};

        for (int k = 0; k < s->comm->size && rc == FR_OK; k++)
            rc = copy(s, q, s->in + (size_t)k * n, (const char *)x->in + (size_t)k * x->bytes + at,
                      n);
        rc = settle(s, q, rc, err);
        if (rc == FR_OK)
            rc = tr_comm_all_to_all(s->comm->host, NULL, &a, err);
        if (rc != FR_OK)
            return rc;
        rc = hand_out(s, q, (char *)x->out + at, x->bytes, n, err);
    }
    return rc;
}

/* Exchanges at most one piece from `at` on between each pair of ranks. */
static enum fr_rc exchange_round(struct staged *s, struct tr_queue *q, const struct tr_alltoallv *x,
                                 size_t at, struct fr_err *err)
{
    size_t size = (size_t)s->comm->size, *where = s->lists;
    size_t *give = where + size, *take = give + size;
    struct tr_alltoallv v = {s->out, s->in, where, take, where, give, x->what};
    enum fr_rc rc = FR_OK;

    for (size_t k = 0; k < size && rc == FR_OK; k++) {
        where[k] = k * PIECE;
        give[k] = piece(x->in_bytes[k], at);
        take[k] = piece(x->out_bytes[k], at);
        rc = copy(s, q, s->in + where[k], (const char *)x->in + x->in_at[k] + at, give[k]);
    }
    rc = settle(s, q, rc, err);
    if (rc == FR_OK)
        rc = tr_comm_all_to_allv(s->comm->host, NULL, &v, err);
    if (rc != FR_OK)
        return rc;
    for (size_t k = 0; k < size && rc == FR_OK; k++)
        rc = copy(s, q, (char *)x->out + x->out_at[k] + at, s->out + where[k], take[k]);
    return settle(s, q, rc, err);
}

/* The largest part of any two ranks, which gives the number of rounds. */
static enum fr_rc agree_most(struct staged *s, size_t *most, struct fr_err *err)
{
    size_t size = (size_t)s->comm->size, *all = s->lists;
    struct tr_gather_item item = {all, most, sizeof(*most)};
    struct tr_allgather g = {&item, 1, "sizes"};
    enum fr_rc rc = tr_comm_all_gather(s->comm->host, NULL, &g, err);

    for (size_t k = 0; k < size && rc == FR_OK; k++)
        *most = all[k] > *most ? all[k] : *most;
    return rc;
}

static enum fr_rc host_exchange_rows(void *self, struct tr_queue *q, const struct tr_alltoallv *x,
                                     struct fr_err *err)
{
    struct staged *s = self;
    size_t most = 0, size = (size_t)s->comm->size;
    enum fr_rc rc;

    for (size_t k = 0; k < size; k++)
        most = x->in_bytes[k] > most ? x->in_bytes[k] : most;
    rc = agree_most(s, &most, err);
    for (size_t at = 0; at < most && rc == FR_OK; at += PIECE)
        rc = exchange_round(s, q, x, at, err);
    return rc;
}

static enum fr_rc host_spread(void *self, struct tr_queue *q, const struct tr_broadcast *x,
                              struct fr_err *err)
{
    struct staged *s = self;
    bool root = s->comm->rank == x->root;
    enum fr_rc rc = FR_OK;

    for (size_t at = 0, n; rc == FR_OK && (n = piece(x->bytes, at)) > 0; at += n) {
        struct tr_broadcast b = {s->in, n, x->root, x->what};
        char *p = (char *)x->p + at;

        rc = settle(s, q, root ? copy(s, q, s->in, p, n) : FR_OK, err);
        if (rc == FR_OK)
            rc = tr_comm_broadcast(s->comm->host, NULL, &b, err);
        if (rc == FR_OK && !root)
            rc = settle(s, q, copy(s, q, p, s->in, n), err);
    }
    return rc;
}

static size_t buffers(void *self)
{
    struct staged *s = self;

    return 2 * (size_t)s->comm->size * PIECE + s->comm->host->ops->bytes(s->comm->host->self);
}

static void destroy(void *self)
{
    struct staged *s = self;

    tr_mem_free(s->comm->be, TR_MEM_PINNED, s->in);
    tr_mem_free(s->comm->be, TR_MEM_PINNED, s->out);
    fr_sys.free(s->lists);
    fr_sys.free(s);
}

static enum fr_rc split(void *self, const struct tr_group *g, struct tr_comm *group,
                        struct fr_err *err);

static const struct tr_comm_ops staged_ops = {
    .name = "host",
    .all_gather = host_gather,
    .all_to_all = host_exchange,
    .all_to_allv = host_exchange_rows,
    .broadcast = host_spread,
    .split = split,
    .bytes = buffers,
    .destroy = destroy,
};

static enum fr_rc take(struct staged *s, struct fr_err *err)
{
    size_t size = (size_t)s->comm->size;
    void *in = NULL, *out = NULL;
    enum fr_rc rc = tr_mem_alloc(s->comm->be, TR_MEM_PINNED, size * PIECE, &in, err);

    s->in = in;
    if (rc == FR_OK)
        rc = tr_mem_alloc(s->comm->be, TR_MEM_PINNED, size * PIECE, &out, err);
    s->out = out;
    s->lists = fr_sys.alloc(3 * size * sizeof(*s->lists));
    if (rc == FR_OK && s->lists == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for %zu ranks", size);
    return rc == FR_OK ? rc : fr_while(err, "buffers of transport host");
}

static enum fr_rc split(void *self, const struct tr_group *g, struct tr_comm *group,
                        struct fr_err *err)
{
    struct tr_comm *world = ((struct staged *)self)->comm->host;
    struct staged *s = fr_sys.alloc(sizeof(*s));

    if (s == NULL)
        return fr_fail(err, FR_NOMEM, "a group of ranks");
    *s = (struct staged){.comm = group};
    group->ops = &staged_ops;
    group->self = s;
    enum fr_rc rc = tr_comm_split(world, g->ranks[0], &group->host, err);
    return rc == FR_OK ? take(s, err) : rc;
}

enum fr_rc tr_comm_host_over(struct tr_backend *be, struct tr_comm *host, struct tr_comm **out,
                             struct fr_err *err)
{
    struct tr_comm *comm = tr_comm_over(be, &staged_ops, host, sizeof(struct staged), err);

    *out = NULL;
    if (comm == NULL)
        return FR_NOMEM;
    *(struct staged *)comm->self = (struct staged){.comm = comm};
    return tr_comm_over_end(comm, take(comm->self, err), out, err);
}

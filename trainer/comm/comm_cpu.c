/*
 * The communicator of CPU ranks. All-gather and broadcast are streams round the ring (ranks are
 * numbered node by node, so each node has one edge in and one out); all-to-all goes pair by pair.
 */
#include "trainer/comm/comm_cpu.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/comm/join.h"
#include "trainer/comm/mesh.h"
#include "trainer/comm/collective_check.h"

#include <stdio.h>
#include <string.h>

enum { DATA_PORTS = 31 };

struct cpu {
    struct tr_comm *comm;       /* borrows: the communicator whose self this is */
    struct tr_control *control; /* owns, except in a group */
    struct tr_mesh mesh;        /* of a group: a copy of the world's, which owns its links */
    int *ranks; /* owns, of a group: its ranks in the mesh; NULL: the same numbers */
    int *nodes; /* owns, not of a group: the node of each rank */
    bool check;
};

static uint64_t fnv(const void *p, size_t n)
{
    uint64_t h = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const unsigned char *)p)[i]) * UINT64_C(1099511628211);
    return h;
}

struct tr_control *tr_comm_cpu_control(struct tr_comm *comm)
{
    return ((struct cpu *)comm->self)->control;
}

enum fr_rc tr_comm_cpu_check(struct tr_control *control, const struct tr_comm *comm, int first,
                             const struct tr_call *call, struct fr_err *err)
{
    struct tr_announced_call mine = {
        .comm = comm->number, .first = first, .size = comm->size, .slices = call->slices != NULL};
    size_t n = (size_t)comm->size * sizeof(size_t);
    struct fr_buf text = {0};
    enum fr_rc rc;

    if (comm->size == 1)
        return FR_OK;
    fr_buf_fmt(&text, "%s %zu %s", call->name, call->bytes, call->what);
    mine.hash = fnv(text.p, text.n);
    if (call->slices != NULL)
        (void)snprintf(mine.what, sizeof(mine.what), "%s '%.30s'", call->name, call->what);
    else
        (void)snprintf(mine.what, sizeof(mine.what), "%s '%.26s' of %zu bytes", call->name,
                       call->what, call->bytes);
    text.n = 0;
    fr_buf_add(&text, &mine, sizeof(mine));
    if (call->slices != NULL) {
        fr_buf_add(&text, call->slices->in_bytes, n);
        fr_buf_add(&text, call->slices->out_bytes, n);
    }
    rc = text.bad ? fr_fail(err, FR_NOMEM, "no memory to compare collectives")
                  : tr_control_agree(control, (struct fr_str){text.p, text.n}, err);
    fr_buf_finish(&text);
    return rc;
}

/* Before a data call: waits for the queue, and notes the collective for the other ranks. */
static enum fr_rc begin(struct cpu *c, struct tr_queue *q, const struct tr_call *call,
                        struct fr_err *err)
{
    enum fr_rc rc = tr_control_check(c->control, err);

    if (rc == FR_OK && c->comm->be != NULL)
        rc = tr_sync(c->comm->be, q, err);
    if (rc == FR_OK && c->check)
        rc = tr_comm_cpu_check(c->control, c->comm, c->ranks != NULL ? c->ranks[0] : 0, call, err);
    tr_control_note(c->control, tr_comm_seq(c->comm), call->what);
    return rc;
}

static enum fr_rc end(struct cpu *c, enum fr_rc rc)
{
    tr_control_note(c->control, tr_comm_seq(c->comm), rc == FR_OK ? NULL : "failed");
    return rc;
}

/* Moves v, whose ranks are numbers of this communicator. */
static enum fr_rc move(struct cpu *c, struct tr_move *v, struct fr_err *err)
{
    if (c->ranks != NULL) {
        v->to = v->to < 0 ? -1 : c->ranks[v->to];
        v->from = v->from < 0 ? -1 : c->ranks[v->from];
    }
    return tr_mesh_move(&c->mesh, v, err);
}

/* A list of pieces of memory. */
struct stream {
    char **p;
    size_t *bytes;
    size_t n;
};

static enum fr_rc stream_make(struct stream *s, size_t n, struct fr_err *err)
{
    *s = (struct stream){.p = fr_sys.alloc(n * sizeof(char *)),
                         .bytes = fr_sys.alloc(n * sizeof(size_t))};
    return s->p != NULL && s->bytes != NULL
               ? FR_OK
               : fr_fail(err, FR_NOMEM, "no memory for a collective of %zu pieces", n);
}

static void stream_add(struct stream *s, char *p, size_t bytes)
{
    s->p[s->n] = p;
    s->bytes[s->n++] = bytes;
}

static void stream_finish(struct stream *s)
{
    fr_sys.free(s->p);
    fr_sys.free(s->bytes);
}

static enum fr_rc cpu_all_gather(void *self, struct tr_queue *q, const struct tr_allgather *x,
                                 struct fr_err *err)
{
    struct cpu *c = self;
    const struct tr_gather_item *items = x->items;
    int me = c->comm->rank, size = c->comm->size;
    size_t own = 0;
    struct stream out = {0}, in = {0};
    enum fr_rc rc;

    for (size_t i = 0; i < x->n; i++)
        own += items[i].bytes;
    if ((rc = begin(c, q, &(struct tr_call){"all_gather", x->what, own, NULL}, err)) != FR_OK)
        return rc;
    for (size_t i = 0; i < x->n; i++) {
        char *mine = (char *)items[i].out + (size_t)me * items[i].bytes;
        if (mine != items[i].in)
            memcpy(mine, items[i].in, items[i].bytes);
    }
    rc = stream_make(&out, x->n * (size_t)size, err);
    if (rc == FR_OK)
        rc = stream_make(&in, x->n * (size_t)size, err);
    for (int s = 0; s + 1 < size && rc == FR_OK; s++)
        for (size_t i = 0; i < x->n; i++) {
            size_t give = (size_t)((me - s + size) % size),
                   take = (size_t)((me - s - 1 + size) % size);
            stream_add(&out, (char *)items[i].out + give * items[i].bytes, items[i].bytes);
            stream_add(&in, (char *)items[i].out + take * items[i].bytes, items[i].bytes);
        }
    struct tr_move v = {.to = (me + 1) % size,
                        .from = (me + size - 1) % size,
                        .out = {out.p, out.bytes, out.n},
                        .in = {in.p, in.bytes, in.n},
                        .own = own,
                        .what = x->what};
    if (rc == FR_OK)
        rc = move(c, &v, err);
    stream_finish(&out);
    stream_finish(&in);
    return end(c, rc);
}

/* The head of a message of unequal slices. A rank with another count fails on the head, before it
 * takes the bytes for those of another call. */
struct head {
    uint64_t call, bytes; /* number of the call in this communicator; bytes of the message */
};

/* Sends a slice and receives another; empty slices are skipped on both sides. */
static enum fr_rc move_slices(struct cpu *c, struct tr_move *v, struct fr_err *err)
{
    uint64_t call = (uint64_t)c->comm->collectives;
    struct head mine = {call, v->out.bytes[0]}, theirs = {0}, want = {call, v->in.bytes[0]};
    char *give[] = {(char *)&mine, v->out.p[0]}, *take[] = {(char *)&theirs, v->in.p[0]};
    size_t gives[] = {sizeof(mine), v->out.bytes[0]}, takes[] = {sizeof(want), v->in.bytes[0]};

    v->out = (struct tr_pieces){give, gives, gives[1] > 0 ? 2 : 0};
    v->in = (struct tr_pieces){take, takes, takes[1] > 0 ? 2 : 0};
    v->own = gives[1] > 0 ? gives[0] + gives[1] : 0;
    v->head = takes[1] > 0 ? &want : NULL;
    return move(c, v, err);
}

static enum fr_rc cpu_all_to_allv(void *self, struct tr_queue *q, const struct tr_alltoallv *x,
                                  struct fr_err *err)
{
    struct cpu *c = self;
    int me = c->comm->rank, size = c->comm->size;
    enum fr_rc rc = begin(c, q, &(struct tr_call){"all_to_allv", x->what, 0, x}, err);

    if (rc != FR_OK)
        return rc;
    memcpy((char *)x->out + x->out_at[me], (const char *)x->in + x->in_at[me], x->in_bytes[me]);
    for (int k = 1; k < size && rc == FR_OK; k++) {
        int to = (me + k) % size, from = (me - k + size) % size;
        char *give = (char *)x->in + x->in_at[to], *take = (char *)x->out + x->out_at[from];
        struct tr_move v = {.to = to,
                            .from = from,
                            .out = {&give, &x->in_bytes[to], 1},
                            .in = {&take, &x->out_bytes[from], 1},
                            .what = x->what};
        rc = move_slices(c, &v, err);
    }
    return end(c, rc);
}

static enum fr_rc cpu_all_to_all(void *self, struct tr_queue *q, const struct tr_alltoall *x,
                                 struct fr_err *err)
{
    struct cpu *c = self;
    int me = c->comm->rank, size = c->comm->size;
    enum fr_rc rc = begin(c, q, &(struct tr_call){"all_to_all", x->what, x->bytes, NULL}, err);

    if (rc != FR_OK)
        return rc;
    memcpy((char *)x->out + (size_t)me * x->bytes, (const char *)x->in + (size_t)me * x->bytes,
           x->bytes);
    for (int k = 1; k < size && rc == FR_OK; k++) {
        int to = (me + k) % size, from = (me - k + size) % size;
        char *give = (char *)x->in + (size_t)to * x->bytes;
        char *take = (char *)x->out + (size_t)from * x->bytes;
        struct tr_move v = {.to = to,
                            .from = from,
                            .out = {&give, &x->bytes, 1},
                            .in = {&take, &x->bytes, 1},
                            .own = x->bytes,
                            .what = x->what};
        rc = move(c, &v, err);
    }
    return end(c, rc);
}

static enum fr_rc cpu_broadcast(void *self, struct tr_queue *q, const struct tr_broadcast *x,
                                struct fr_err *err)
{
    struct cpu *c = self;
    int me = c->comm->rank, size = c->comm->size;
    char *piece = x->p;
    struct tr_move v = {.to = (me + 1) % size == x->root ? -1 : (me + 1) % size,
                        .from = me == x->root ? -1 : (me + size - 1) % size,
                        .out = {&piece, &x->bytes, 1},
                        .in = {&piece, &x->bytes, 1},
                        .own = me == x->root ? x->bytes : 0,
                        .what = x->what};
    enum fr_rc rc = begin(c, q, &(struct tr_call){"broadcast", x->what, x->bytes, NULL}, err);

    return rc == FR_OK ? end(c, move(c, &v, err)) : rc;
}

static enum fr_rc cpu_host_all_gather(void *self, void *all, const void *mine, size_t bytes,
                                      struct fr_err *err)
{
    struct cpu *c = self;

    return tr_control_all_gather(c->control, all, mine, bytes, err);
}

static void cpu_abort(void *self, const char *why)
{
    struct cpu *c = self;

    tr_control_abort(c->control, FR_PEER, why);
}

static size_t cpu_bytes(void *self)
{
    return ((struct cpu *)self)->mesh.bytes;
}

static void cpu_destroy(void *self)
{
    struct cpu *c = self;

    if (c == NULL)
        return;
    if (c->ranks == NULL) {
        tr_control_leave(c->control);
        tr_mesh_finish(&c->mesh);
    }
    fr_sys.free(c->ranks);
    fr_sys.free(c->nodes);
    fr_sys.free(c);
}

/* Replaces ids of machines by numbers of nodes, in the order of their first ranks. */
static enum fr_rc number_nodes(struct cpu *c, struct fr_err *err)
{
    struct tr_comm *comm = c->comm;
    const struct tr_peer *peers = tr_control_peers(c->control);
    int here = 0;

    for (int k = 0; k < comm->size; k++) {
        int first = 0;
        while (peers[first].node != peers[k].node)
            first++;
        c->nodes[k] = first < k ? c->nodes[first] : comm->nodes++;
        here += peers[k].node == peers[comm->rank].node;
    }
    comm->node = c->nodes[comm->rank];
    if (here == comm->local_size)
        return FR_OK;
    return fr_fail(err, FR_USAGE,
                   "rank %d was started as one of %d on its machine, where %d are: set GROUP_RANK "
                   "and GROUP_WORLD_SIZE, the number of the machine and of all",
                   comm->rank, comm->local_size, here);
}

/* The node of each rank, from the table of ranks. */
static enum fr_rc note_nodes(struct cpu *c, struct fr_err *err)
{
    size_t size = (size_t)c->comm->size;

    if ((c->nodes = fr_sys.alloc(size * sizeof(*c->nodes))) == NULL)
        return fr_fail(err, FR_NOMEM, "the nodes of %zu ranks", size);
    for (size_t k = 0; k < size; k++)
        c->nodes[k] = tr_control_peers(c->control)[k].node;
    c->comm->node_of = c->nodes;
    return c->comm->nodes > 0 ? FR_OK : number_nodes(c, err);
}

/* Listens on a port for data connections: the first free one of the 31 above the rendezvous port,
 * which clusters leave open, beginning at the local rank's own; else any port. */
static enum fr_rc data_port(const struct tr_comm_opts *o, int *fd, int *port, struct fr_err *err)
{
    for (int k = 0; k < DATA_PORTS; k++) {
        *port = o->port + 1 + (o->local_rank + k) % DATA_PORTS;
        if (*port <= 65535 && tr_listen(*port, o->size, fd, NULL) == FR_OK)
            return FR_OK;
    }
    struct sockaddr_in6 a;
    socklen_t n = sizeof(a);
    enum fr_rc rc = tr_listen(0, o->size, fd, err);
    if (rc == FR_OK && getsockname(*fd, (struct sockaddr *)&a, &n) == 0)
        *port = ntohs(a.sin6_port);
    return rc;
}

/* A group uses the world's links: calls are complete when they return. */
static enum fr_rc cpu_split(void *self, const struct tr_group *g, struct tr_comm *group,
                            struct fr_err *err);

static const struct tr_comm_ops cpu_ops = {
    .name = "cpu",
    .all_gather = cpu_all_gather,
    .all_to_all = cpu_all_to_all,
    .all_to_allv = cpu_all_to_allv,
    .broadcast = cpu_broadcast,
    .host_all_gather = cpu_host_all_gather,
    .split = cpu_split,
    .abort = cpu_abort,
    .bytes = cpu_bytes,
    .destroy = cpu_destroy,
};

static enum fr_rc cpu_split(void *self, const struct tr_group *g, struct tr_comm *group,
                            struct fr_err *err)
{
    const struct cpu *world = self;
    struct cpu *c = fr_sys.alloc(sizeof(*c));
    int *ranks = fr_sys.alloc((size_t)g->size * sizeof(*ranks));

    if (c == NULL || ranks == NULL) {
        fr_sys.free(c);
        fr_sys.free(ranks);
        return fr_fail(err, FR_NOMEM, "no memory for %d ranks", g->size);
    }
    memcpy(ranks, g->ranks, (size_t)g->size * sizeof(*ranks));
    *c = (struct cpu){.comm = group,
                      .control = world->control,
                      .mesh = world->mesh,
                      .ranks = ranks,
                      .check = world->check};
    c->mesh.bytes = 0;
    group->ops = &cpu_ops;
    group->self = c;
    return FR_OK;
}

enum fr_rc tr_comm_cpu(struct tr_backend *be, const struct tr_comm_opts *o, struct tr_comm **out,
                       struct fr_err *err)
{
    int listener = -1, port = 0;
    struct tr_comm *comm = fr_sys.alloc(sizeof(*comm));
    struct cpu *c = fr_sys.alloc(sizeof(*c));
    enum fr_rc rc = comm == NULL || c == NULL ? fr_fail(err, FR_NOMEM, "no memory for the ranks")
                                              : data_port(o, &listener, &port, err);

    *out = NULL;
    if (c != NULL && comm != NULL) {
        *comm = (struct tr_comm){.ops = &cpu_ops,
                                 .self = c,
                                 .be = be,
                                 .rank = o->rank,
                                 .size = o->size,
                                 .local_rank = o->local_rank,
                                 .local_size = o->local_size,
                                 .node = o->node,
                                 .nodes = o->nodes};
        *c = (struct cpu){.comm = comm, .check = o->check};
    }
    if (rc == FR_OK) {
        struct tr_control_opts co = {.rank = o->rank,
                                     .size = o->size,
                                     .node = o->node,
                                     .local_rank = o->local_rank,
                                     .addr = o->addr,
                                     .port = o->port,
                                     .data_port = port,
                                     .job = o->job,
                                     .join_ms = o->join_ms,
                                     .stop_fd = o->stop_fd,
                                     .timeout_ms = o->timeout_ms,
                                     .exit_code = o->exit_code};
        rc = tr_control_join(&co, &c->control, err);
    }
    if (rc == FR_OK)
        rc = note_nodes(c, err);
    if (rc == FR_OK) {
        c->mesh = (struct tr_mesh){
            .rank = o->rank, .size = o->size, .control = c->control, .timeout_ms = o->timeout_ms};
        rc = tr_mesh_connect(&c->mesh, o, listener, err);
    }
    if (listener >= 0)
        fr_sys.close(listener);
    if (rc == FR_OK) {
        *out = comm;
        return FR_OK;
    }
    if (c != NULL && c->control != NULL && err != NULL)
        tr_control_abort(c->control, rc, err->msg);
    cpu_destroy(c);
    fr_sys.free(comm);
    return rc;
}

/*
 * The ranks of one run and their communication, in two planes.
 *
 * Data: collectives over tensors in the backend's memory. A call is ordered in its queue: after
 * earlier work, before later work. A communicator belongs to the queue of its first call (FR_BUG on
 * another queue); a second queue needs a group of the same ranks (tr_comm_split). Every rank issues
 * the same collectives in the same order over all communicators of its process, whatever its data.
 * In checking mode the ranks of a communicator, world or group, first compare a hash of (call,
 * bytes, what), and the bytes of unequal slices. A mismatch names `what` and the ranks; so does a
 * deadlock in which every rank waits in a call that the others do not make.
 *
 * Control: small host messages over the rendezvous connections, blocking, outside any queue.
 * Waiting for slow things (loading, tokenising) happens here, never in a collective. A control
 * thread sends a heartbeat every second. The end of a rank ends all ranks within 5 s. A silent rank
 * is reported after 10 s, with its last collective, and ends the run at timeout_ms.
 *
 * Errors: FR_PEER (a rank ended or failed, named), FR_TIMEOUT, FR_PROTO (ranks disagree), FR_IO.
 * After an error every call of the communicator returns that error.
 */
#ifndef TR_COMM_COMM_H
#define TR_COMM_COMM_H

#include "engine/base/err.h"
#include "trainer/backend/backend.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One part of a grouped all-gather: rank k's `bytes` bytes at `in` land at out + k*bytes on every
 * rank. in may lie in its own place in out; else they do not overlap. */
struct tr_gather_item {
    void *out;      /* size * bytes */
    const void *in; /* bytes; equal on all ranks; a multiple of 4 */
    size_t bytes;
};

/* One grouped collective: all items or an error. `what` names the subject in messages and in the
 * check of order ("layer 3 experts 0-15"). */
struct tr_allgather {
    const struct tr_gather_item *items; /* read before the call returns */
    size_t n;
    const char *what;
};

/* Equal slices: slice k of in goes to rank k; slice k of out is what rank k sent me. in and out do
 * not overlap. */
struct tr_alltoall {
    void *out;      /* size * bytes */
    const void *in; /* size * bytes */
    size_t bytes;   /* of one slice, a multiple of 4 */
    const char *what;
};

/* Unequal slices: in_bytes[k] bytes at in + in_at[k] go to rank k; out_bytes[k] bytes from rank k
 * land at out + out_at[k]. Host arrays of `size` numbers, read before the call returns;
 * in_bytes[k] here equals out_bytes[me] there. A rank's own part is copied. */
struct tr_alltoallv {
    void *out;
    const void *in;
    const size_t *out_at, *out_bytes;
    const size_t *in_at, *in_bytes;
    const char *what;
};

/* Rank root's bytes at p land at p on every rank. */
struct tr_broadcast {
    void *p;
    size_t bytes;
    int root;
    const char *what;
};

struct tr_comm;

/* The ranks of a group by their number in the world, ascending. */
struct tr_group {
    const int *ranks; /* size */
    int size;
};

/* A transport. comm.c checks arguments and order before each call. The name is "single", "cpu" (TCP
 * between nodes, shared memory inside), "nccl" or "host". host_all_gather and abort are calls of
 * the control plane: NULL if tr_comm.host has the control plane. */
struct tr_comm_ops {
    const char *name;
    enum fr_rc (*all_gather)(void *self, struct tr_queue *q, const struct tr_allgather *x,
                             struct fr_err *err);
    enum fr_rc (*all_to_all)(void *self, struct tr_queue *q, const struct tr_alltoall *x,
                             struct fr_err *err);
    enum fr_rc (*all_to_allv)(void *self, struct tr_queue *q, const struct tr_alltoallv *x,
                              struct fr_err *err);
    enum fr_rc (*broadcast)(void *self, struct tr_queue *q, const struct tr_broadcast *x,
                            struct fr_err *err);
    enum fr_rc (*host_all_gather)(void *self, void *all, const void *mine, size_t bytes,
                                  struct fr_err *err);
    /* Sets ops, self and host of a group; all other members are set. All ranks of the world call.
     * If ops are set, the caller destroys the group, also after a failure. */
    enum fr_rc (*split)(void *self, const struct tr_group *g, struct tr_comm *group,
                        struct fr_err *err);
    void (*abort)(void *self, const char *why); /* ends all ranks: their next call fails with why */
    size_t (*bytes)(void *self);                /* transport buffers, for the memory table */
    void (*destroy)(void *self);
};

/* The receiver of a payload: this rank, another rank of this node, a rank of another node. */
enum tr_link_class { TR_LINK_SELF, TR_LINK_NODE, TR_LINK_FAR, TR_LINK_CLASSES };

struct tr_comm {
    const struct tr_comm_ops *ops;
    void *self;            /* owns */
    struct tr_backend *be; /* borrows: the memory its data calls see */
    int rank, size;
    int local_rank, local_size; /* among the ranks of this node */
    int node, nodes;
    struct tr_comm *host;  /* owns: the same ranks on the CPU, with the control plane; NULL: the
                              control plane is this transport's, or that of a group's world */
    struct tr_comm *world; /* borrows: the world of a group; NULL: this is the world */
    int *ranks;            /* owns, of a group: its ranks by their number in the world */
    int number;            /* of a group: the number of the split that made the group, from 1 */
    int splits;            /* of a world: splits so far */
    const int *node_of;    /* borrows: (size) the node of each rank; NULL: all are on this one */
    struct tr_queue *q;    /* borrows: the queue of all data calls; NULL: no call yet */
    size_t own_bytes;      /* device memory of the transport's library */
    bool shares;           /* of a world: two of its ranks have the same device */
    int64_t collectives;   /* data calls so far; the world counts those of its groups too */
    size_t sent_bytes;     /* payload that this rank sent to other ranks in data calls */
    size_t class_bytes[TR_LINK_CLASSES]; /* payload by receiver, this rank included; gathers go
                                            round a ring, in the order of ranks */
};

/* The communicator of all ranks. */
static inline struct tr_comm *tr_comm_world(struct tr_comm *comm)
{
    return comm->world != NULL ? comm->world : comm;
}

/* Rendezvous of the ranks; launch_env.h reads these options from torchrun's environment. */
struct tr_comm_opts {
    int rank, size, local_rank, local_size;
    int node, nodes;    /* nodes 0: node is an id of the machine; the rendezvous numbers nodes */
    char addr[256];     /* MASTER_ADDR */
    int port;           /* MASTER_PORT */
    uint64_t job;       /* hash of run id, generation and size: ranks of an older try are refused */
    int *local_socks;   /* owns: local_size connected sockets made by the launcher, one to each
                           local rank, -1 for this one; NULL: tcp between local ranks too */
    int64_t join_ms;    /* time limit of the rendezvous */
    const int *stop_fd; /* readable: the rendezvous ends with FR_STOPPED; NULL: none */
    int64_t timeout_ms; /* --ddp_timeout */
    int exit_code;      /* of a process that does not react to an abort within seconds */
    bool check;         /* compare a hash before each collective */
    bool allow_slow_links; /* NCCL's environment may turn off the links inside a node */
    const char *nccl;      /* the library to open; NULL: libnccl.so.2 */
};

/* The communicator of one rank: every call copies or does nothing. */
enum fr_rc tr_comm_single(struct tr_backend *be, struct tr_comm **out, struct fr_err *err);

/* TCP between nodes and shared memory inside a node; returns when all ranks have joined. */
enum fr_rc tr_comm_cpu(struct tr_backend *be, const struct tr_comm_opts *opts, struct tr_comm **out,
                       struct fr_err *err);

/*
 * NCCL between the GPUs of be, on its queues; the control plane is that of tr_comm_cpu. Calls do
 * not block. A thread watches NCCL: a rank that ended, an error, or a collective that does not end
 * within timeout_ms aborts NCCL on all ranks; the message names the ranks that are behind.
 * own_bytes: device memory of NCCL, measured by a first collective of each kind. FR_USAGE: NCCL
 * variables that turn off the links inside a node, without allow_slow_links; two ranks with one
 * GPU. FR_UNSUPPORTED: no NCCL, or a backend without streams.
 */
enum fr_rc tr_comm_nccl(struct tr_backend *be, const struct tr_comm_opts *opts,
                        struct tr_comm **out, struct fr_err *err);

/* tr_comm_cpu between ranks whose memory is a device's: every call copies through pinned memory and
 * waits for its queue. Ranks may share a device. */
enum fr_rc tr_comm_host(struct tr_backend *be, const struct tr_comm_opts *opts,
                        struct tr_comm **out, struct fr_err *err);

/* tr_comm_nccl if every rank has a GPU of its own; else tr_comm_host, with a warning of rank 0. */
enum fr_rc tr_comm_gpus(struct tr_backend *be, const struct tr_comm_opts *opts,
                        struct tr_comm **out, struct fr_err *err);

/*
 * The ranks of world that give the same color, in their order, as a communicator of the same
 * transport: the ranks of a node by color = node, those of an expert group of n by rank / n. All
 * ranks of world call together. A group has the data plane and tr_comm_abort. Destroy a group
 * before its world.
 */
enum fr_rc tr_comm_split(struct tr_comm *world, int color, struct tr_comm **out,
                         struct fr_err *err);

void tr_comm_destroy(struct tr_comm *comm);

/* Before queue q is destroyed: the next data call may be on another queue. */
void tr_comm_leave(struct tr_comm *comm, const struct tr_queue *q);

/* ---- data plane ---- */

enum fr_rc tr_comm_all_gather(struct tr_comm *comm, struct tr_queue *q,
                              const struct tr_allgather *x, struct fr_err *err);
enum fr_rc tr_comm_all_to_all(struct tr_comm *comm, struct tr_queue *q, const struct tr_alltoall *x,
                              struct fr_err *err);
enum fr_rc tr_comm_all_to_allv(struct tr_comm *comm, struct tr_queue *q,
                               const struct tr_alltoallv *x, struct fr_err *err);
enum fr_rc tr_comm_broadcast(struct tr_comm *comm, struct tr_queue *q, const struct tr_broadcast *x,
                             struct fr_err *err);

/*
 * out (n) f32 = sum over ranks, in rank order, of slice me of in (size*n); with add the sum begins
 * at out. The wire carries in's type (f32, bf16, f16); sums are f32. An all-to-all into `slices`
 * and tr_reduce_ordered: the same bits on every transport and every node layout. out may be slice
 * me of in. chain.h has another way to these bits.
 */
struct tr_reduce_scatter {
    struct tr_view out;    /* (n) f32            */
    struct tr_view in;     /* (size, n) any float */
    struct tr_view slices; /* (size, n) in's type, workspace, not in */
    bool add;              /* ((out + slice 0) + slice 1) + … */
    const char *what;
};
enum fr_rc tr_comm_reduce_scatter(struct tr_comm *comm, struct tr_queue *q,
                                  const struct tr_reduce_scatter *x, struct fr_err *err);

/*
 * p (size, n) f32 becomes, on every rank, the sum over ranks in rank order: a reduce-scatter into
 * slice me of p, then an all-gather of the slices in place. The same bits on every rank, transport
 * and node layout; a rank sends twice (size-1)/size of p.
 */
struct tr_all_reduce {
    struct tr_view p;      /* (size, n) f32 */
    struct tr_view slices; /* (size, n) f32, workspace, not in p */
    const char *what;
};
enum fr_rc tr_comm_all_reduce(struct tr_comm *comm, struct tr_queue *q,
                              const struct tr_all_reduce *x, struct fr_err *err);

/* ---- control plane: host memory, blocking; not of a group (FR_UNSUPPORTED) ---- */

enum fr_rc tr_comm_host_all_gather(struct tr_comm *comm, void *all, const void *mine, size_t bytes,
                                   struct fr_err *err);
enum fr_rc tr_comm_host_broadcast(struct tr_comm *comm, void *p, size_t bytes, int root,
                                  struct fr_err *err);
enum fr_rc tr_comm_host_barrier(struct tr_comm *comm, struct fr_err *err);

/* *first: the error of the first rank that has one, the same on every rank; rc FR_OK: none. mine:
 * this rank's. */
enum fr_rc tr_comm_host_first_error(struct tr_comm *comm, const struct fr_err *mine,
                                    struct fr_err *first, struct fr_err *err);

/* p[0..n) becomes the sum over ranks, in rank order, in double: the same bits on all ranks.
 * n <= 64. */
enum fr_rc tr_comm_host_sum(struct tr_comm *comm, double *p, size_t n, struct fr_err *err);

void tr_comm_abort(struct tr_comm *comm, const char *why);

#endif

/*
 * Gradients of trained weights, each rank with its share (ZeRO, Rajbhandari et al. 2020, section
 * 5.2), and where the optimizer finds the share of each weight.
 *
 * Shares are those of shard.h, the same at every stage: master, moments, gradient and weight have
 * the same bounds, an all-gather of weights lands in place, and a range is (tensor, first, n), so
 * that any number of ranks reads any state. Persistent units are one part, "norms"; of the
 * embedding a rank has whole rows.
 *
 * The backward writes the gradient of one unit for one micro-batch into the window, f32 and not
 * summed. tr_grads_reduce sends each share to its owner, which adds them in rank order:
 * sum = ((sum + g_0) + g_1) + …, in f32 whatever the type on the wire. So the bits of a sum depend
 * on the order of the step's micro-batches alone: not on the number of ranks, the stage, the
 * accumulation or the transport. Of an embedding that is the head as well, the head's parts of all
 * ranks are added first. The first gradient of a step of a rank that is alone is the sum, and is
 * written there if sums are on the device.
 *
 * Between nodes of equally many ranks the sum goes from node to node (comm/chain.h) where that
 * sends fewer bytes, else all ranks send their parts to the owner: the bits are the same. That is
 * decided for the first micro-batch of a step and for later ones, whose owners have sums to add to.
 *
 * Sums may lie in the host's memory (offload_optimizer). A unit's share is then summed in a landing
 * on the device and copied to the host on a queue of its own, beside the backward of the next unit.
 * With a sum to add to, that sum is copied up first: the bits are the same. Rows of an embedding
 * are added in the host's memory by the device.
 *
 * In the last micro-batch of a step a sum is whole once its unit is reduced, and is still in
 * caches, or on the device on its way to the host's memory. So the norm of gradients and the search
 * for values that are not finite take it there; what is left is looked at behind the backward
 * (tr_grads_look). The order does not matter: squares are added exactly.
 *
 * Every rank makes the same calls in the same order. Data calls are on the queue of the caller,
 * but for reductions beside it (o.beside): those of a unit run while the backward of the next one
 * writes a second window, or, where gradients are rounded, the one window again. The backward of
 * the unit after that waits for them. tr_grads_rows and tr_grads_end wait for all of them.
 */
#ifndef TR_SHARD_GRADS_H
#define TR_SHARD_GRADS_H

#include "trainer/comm/chain.h"
#include "trainer/shard/shard.h"

struct tr_grads;

struct tr_disk; /* of optim/disk.h */

/* Where sums and the optimizer's state are, unless on the device. */
struct tr_grads_host {
    struct tr_backend *be; /* borrows: steps on them, in the host's memory; NULL: on the device */
    int64_t tile;          /* elements that it steps on at once, at most; 0: no limit */
    struct tr_disk *disk;  /* borrows: has the optimizer's state; NULL: the host's memory has */
};

struct tr_grads_opts {
    struct tr_backend *be;  /* borrows */
    struct tr_shard *shard; /* borrows: all its units are added */
    struct tr_comm *comm;   /* borrows: the shard's ranks once more, for these calls alone; may be
                               NULL where the shard has one rank */
    struct tr_comm *beside; /* borrows: these ranks again, for reductions on a queue of their own
                               while the caller's queue goes on with the next unit; NULL: they are
                               on the caller's queue */
    enum tr_dtype sum;      /* f32* of ops.h */
    enum tr_dtype wire;     /* bf16, f16: what ranks send each other is rounded to it, once, where
                               there are several; else the type of sums */
    bool once;              /* a step has one micro-batch: one rank needs no window then */
    int64_t tokens_max;     /* of a micro-batch */
    struct tr_grads_host host;
    bool muon; /* the optimizer's, kept for it: tr_model_opts has it */
};

/* *out is NULL where no unit is trained. Allocates no device memory. */
enum fr_rc tr_grads_create(const struct tr_grads_opts *o, struct tr_grads **out,
                           struct fr_err *err);
void tr_grads_destroy(struct tr_grads *g);

enum { TR_GRADS_SMALL = 1 << 24 }; /* bytes of a part that is kept beside another, as norms are */

/* What tr_grads_alloc takes, in bytes on this rank. */
struct tr_grads_bytes {
    size_t sums;    /* this rank's shares; of the host with o.host */
    size_t windows; /* gradients of the largest unit (of two of them), those received, sums on their
                       way between nodes, rows of the embedding, the landing of a share on its way
                       to the host */
    size_t saved;   /* not taken: of the host, on the rank that asks tr_grads_whole for all parts:
                       the largest one, and the largest one of at most TR_GRADS_SMALL beside it */
};
void tr_grads_bytes(const struct tr_grads *g, struct tr_grads_bytes *out);

/* Bytes of this rank's shares: those that every rank sends it in each micro-batch, rows of the
 * embedding apart, the sums that they are added to, and those that it sends every rank after an
 * update. */
struct tr_grads_shares {
    size_t reduced, summed, updated;
};
void tr_grads_shares(const struct tr_grads *g, struct tr_grads_shares *out);

/* How the gradients of a micro-batch get to their owners, rows of the embedding apart. */
struct tr_grads_way {
    bool chain; /* from node to node */
    struct tr_scatter_bytes bytes;
};
/* Of the first micro-batch of a step, or of a later one. */
void tr_grads_way(const struct tr_grads *g, bool later, struct tr_grads_way *out);

/* Payload that this rank has sent so far: gradients, and weights after an update. */
struct tr_grads_moved {
    size_t reduced[TR_LINK_CLASSES], rows[TR_LINK_CLASSES], updated[TR_LINK_CLASSES];
};
void tr_grads_moved(const struct tr_grads *g, struct tr_grads_moved *out);

/* After tr_shard_load. */
enum fr_rc tr_grads_alloc(struct tr_grads *g, struct tr_queue *q, struct fr_err *err);

/* The sums of a step begin at zero. */
void tr_grads_reset(struct tr_grads *g);

/* What looks at sums, and adds what it finds there: as tr_sumsq has it, of each row of an
 * embedding, else of each tensor's part. */
struct tr_grads_look {
    struct tr_backend *be;
    struct tr_queue *q;
    struct tr_view squares, found; /* (TR_EXACT_LIMBS), (1) i64 += */
};
/* From now on sums are looked at as soon as they are whole, on the device; the views are borrowed
 * and change from tr_grads_begin to tr_grads_end. */
void tr_grads_watch(struct tr_grads *g, struct tr_view squares, struct tr_view found);
/* Looks at the sums that were not looked at since tr_grads_reset; again: at all. After
 * tr_grads_end; sums in the host's memory: after tr_grads_arrived, with a backend of the host. */
enum fr_rc tr_grads_look(struct tr_grads *g, const struct tr_grads_look *l, bool again,
                         struct fr_err *err);
/* Where values that are not finite come from, most likely, as a backward spreads them to what it
 * reaches later: the last unit that has some in this rank's sums, and its tensor. */
struct tr_grads_blame {
    int unit; /* -1: none, or norms alone */
    char name[128];
};
enum fr_rc tr_grads_blame(struct tr_grads *g, const struct tr_grads_look *l,
                          struct tr_grads_blame *out, struct fr_err *err);

/* ---- one micro-batch ---- */

/* last: no other one follows in this step. */
enum fr_rc tr_grads_begin(struct tr_grads *g, struct tr_queue *q, bool last, struct fr_err *err);

/* The place of the gradient of tensor i of a unit, in its shape, f32*. Persistent units: zeros at
 * tr_grads_begin, += until tr_grads_end. Others: one unit at a time, all elements written (=)
 * before tr_grads_reduce. */
struct tr_view tr_grads_view(const struct tr_grads *g, int unit, int i);

/* Adds the gradient of the unit to its owners' sums. A unit that is not trained: nothing. */
enum fr_rc tr_grads_reduce(struct tr_grads *g, struct tr_queue *q, int unit, struct fr_err *err);

/* Adds dy[t] to row ids[t] of a matrix whose rows are fetched: first within each id, t ascending,
 * then over the ranks. ids are those of the last tr_shard_fetch_rows. */
struct tr_grads_rows {
    int unit, units;        /* as of tr_fetch_rows */
    struct tr_view dy;      /* (T, cols) C */
    struct tr_view compact; /* (T) i32, device: tr_fetch_rows.compact */
};
enum fr_rc tr_grads_rows(struct tr_grads *g, struct tr_queue *q, const struct tr_grads_rows *r,
                         struct fr_err *err);

/* Adds the gradients of persistent units. */
enum fr_rc tr_grads_end(struct tr_grads *g, struct tr_queue *q, struct fr_err *err);

/* ---- the optimizer's side ---- */

/* A part of a tensor that this rank updates: elements [first, first+n), which lie at `at` in the
 * flat order of this rank's sums and states. */
struct tr_grads_range {
    const char *name; /* in the checkpoint */
    int rank;         /* of the tensor */
    int64_t shape[2]; /* of the whole tensor */
    int64_t first, n;
    int64_t cols;          /* it is whole rows of so many; 0: it begins and ends anywhere */
    int64_t at;            /* a multiple of 256 bytes of the sums; with a block (tr_shard_opts), and
                              without cols, `first` and `at` are multiples of it */
    struct tr_view weight; /* (n) C: written by the optimizer; before tr_grads_alloc its type */
};

/* In the order of units. Owned by g. */
const struct tr_grads_range *tr_grads_ranges(const struct tr_grads *g, size_t *n);
int64_t tr_grads_flat(const struct tr_grads *g);        /* elements of the flat order, with gaps */
struct tr_view tr_grads_sums(const struct tr_grads *g); /* (flat) f32* */
const struct tr_grads_host *tr_grads_host(const struct tr_grads *g); /* be NULL: on the device */
int64_t tr_grads_tile(const struct tr_grads *g); /* elements of a tile; the same on all ranks */
/* Waits until sums in the host's memory are whole: after it the host may read them. */
enum fr_rc tr_grads_arrived(struct tr_grads *g, struct tr_queue *q, struct fr_err *err);
/* (n) f32* of the device, which holds nothing between steps; as large on all ranks. */
struct tr_view tr_grads_room(const struct tr_grads *g);
int64_t tr_grads_elements(const struct tr_grads *g); /* trained, of all ranks, without gaps */
int64_t tr_grads_block(const struct tr_grads *g);    /* of tr_shard_opts; also of tr_grads_tile */
bool tr_grads_muon(const struct tr_grads *g);        /* of tr_grads_opts */
int tr_grads_ranks(const struct tr_grads *g);        /* that have shares; this one's number */
int tr_grads_rank(const struct tr_grads *g);

/* Weights of the host's side: the bytes of part k of all that is trained, and a tensor's pieces,
 * which follow each other in the list: elements [first, first+n) lie at element `at` of the part.
 */
struct tr_grads_piece {
    const char *name;
    int part;
    int rank;         /* of the tensor */
    int64_t shape[2]; /* of the whole tensor */
    int64_t first, n, at;
};
const struct tr_grads_piece *tr_grads_pieces(const struct tr_grads *g, size_t *n);
/* What a rank's share has of a piece: elements [first, first+n) of it, at `at` of that rank's flat
 * order. n 0: nothing. */
struct tr_grads_span {
    int64_t first, n, at;
};
struct tr_grads_span tr_grads_span(const struct tr_grads *g, const struct tr_grads_piece *p,
                                   int rank);
/* The first rank that has something of it; those that have follow each other. */
int tr_grads_first(const struct tr_grads *g, const struct tr_grads_piece *p);
size_t tr_grads_part_bytes(const struct tr_grads *g, int part);
/* Copies the weights of a part, whole, to `host` (tr_grads_part_bytes) of the ranks that give one.
 * All ranks call, between steps. Waits for q. */
enum fr_rc tr_grads_whole(struct tr_grads *g, struct tr_queue *q, int part, char *host,
                          struct fr_err *err);

/* The same of f32 states that have the flat order of each rank's sums; host: as many elements as
 * the part has weights. The window of gradients is written. */
struct tr_grads_states {
    int part;
    /* Elements [at, at+n) of this rank's flat order, to memory of any kind; waits. */
    enum fr_rc (*read)(void *self, int64_t at, int64_t n, void *to, struct fr_err *err);
    void *self;
    float *host; /* NULL: not for this rank */
};
enum fr_rc tr_grads_whole_states(struct tr_grads *g, struct tr_queue *q,
                                 const struct tr_grads_states *s, struct fr_err *err);

/* After the optimizer has written its ranges: every rank gets whole weights where they are whole,
 * and gathered copies are forgotten. */
enum fr_rc tr_grads_updated(struct tr_grads *g, struct tr_queue *q, struct fr_err *err);

#endif

/* Private to trainer/shard: what the files grads*.c share. */
#ifndef TR_SHARD_GRADS_PRIVATE_H
#define TR_SHARD_GRADS_PRIVATE_H

#include "trainer/shard/grads.h"
#include "trainer/shard/private.h"

/* What is reduced at once: a unit, or all persistent units. */
struct grads_part {
    int unit;             /* -1: the norms */
    int64_t n;            /* elements of a share */
    int64_t at;           /* in the flat order */
    bool fresh;           /* nothing was added in this step */
    bool whole;           /* its sums are whole and were looked at */
    size_t range, ranges; /* its first range, and how many */
};

/* Where the weight of a range lies: bytes from the unit's beginning (of the norms: from the
 * memory's), and those where this rank's share begins. */
struct grads_home {
    const struct unit *unit;
    size_t from, share;
};

struct tr_grads {
    struct tr_grads_opts o;
    struct fr_arena arena; /* of the arrays below */
    int ranks, me;
    int *part_of; /* [units] index in parts; -1: none, or of the norms */
    struct grads_part *parts;
    size_t nparts;
    int norms;                  /* index in parts; -1: none is trained */
    struct tr_comm_nodes nodes; /* of the ranks; one node where they are not as many on each */
    bool chain[2];              /* between nodes, in the first micro-batch of a step and later */
    size_t *lists;              /* [4 ranks] of a chain */
    struct tr_grads_range *ranges;
    struct grads_home *homes; /* of the ranges */
    size_t nranges;
    struct tr_grads_piece *pieces;
    size_t npieces;
    int64_t flat, elements;
    int64_t window_elements; /* ranks * share of the largest unit */
    struct tr_gather_item *items;
    struct tr_grads_moved moved;
    char *buffer; /* owns: the memory of these, of sums unless the host has them */
    struct tr_view sums, window, arrived, norm_window;
    enum tr_dtype wire;     /* of gradients between ranks: o.wire, or that of sums */
    struct tr_view second;  /* another window, to write while the first is reduced; else empty */
    struct tr_view rounded; /* gradients on their way, where the wire has another type than sums */
    struct tr_view passed;  /* sums on their way between nodes */

    /* grads_look.c */
    struct tr_view squares, found; /* borrows; absent: sums are looked at behind the backward */
    bool last;                     /* the micro-batch is the last of its step */

    /* grads_reduce.c: reductions beside the caller's queue. */
    struct tr_queue *rq;
    struct tr_event *filled, *free[2], *reduced; /* a window has its gradients, those of the first
                                                    and second are sent, and all are */
    unsigned turn;                               /* windows that were reduced */

    /* grads_host.c: sums in the host's memory. */
    int64_t most_share; /* elements of the largest share that is not of rows alone */
    struct tr_view landing;
    struct tr_queue *down;           /* copies to the host */
    struct tr_event *ready, *landed; /* the landing is summed; it was copied */

    /* grads_rows.c */
    int64_t cols;            /* of the widest unit of rows; 0: none */
    int64_t *cursor;         /* [ranks] the first id of each owner that is not sent */
    struct tr_view compact;  /* (tokens_max, cols) f32* of this rank's ids */
    struct tr_view received; /* (ranks * rows of a round, cols) f32* */
    struct tr_view pick;     /* (…) i32 their ids */
    int32_t *host_pick;      /* pinned: two halves, in turn */
    struct tr_event *picked[2];
    unsigned calls;
    size_t *counts; /* owns: [4 ranks] */
};

/* Whether it is of the norms that train. */
bool grads_is_norm(const struct unit *u);
int64_t grads_elements_of(const struct unit *u, size_t bytes);

/* The shares of a part's weights, as an all-gather in place takes them. */
struct tr_gather_item grads_item_of(const struct tr_grads *g, const struct grads_part *p);
/* Whether every rank has the part's weights whole. */
bool grads_part_whole(const struct tr_grads *g, const struct grads_part *p);

/* Sums of this rank's share. */
struct tr_view grads_sums_of(const struct tr_grads *g, const struct grads_part *p);

/* x in the type of the wire: itself, or rounded in q. */
enum fr_rc grads_on_wire(const struct tr_grads *g, struct tr_queue *q, struct tr_view *x,
                         struct fr_err *err);
/* Whether the first gradients of a step are written into the sums: none of them leave this rank. */
bool grads_sums_alone(const struct tr_grads *g);
/* Behind the addition to a part in q, whose sums x has: looks at them if nothing else is added. */
enum fr_rc grads_look_early(struct tr_grads *g, struct tr_queue *q, struct grads_part *p,
                            struct tr_view x, struct fr_err *err);

/* Whether gradients are rounded on their way. */
static inline bool grads_rounds(const struct tr_grads *g)
{
    return g->wire != g->o.sum;
}

/* Whether reductions run beside the caller's queue. */
static inline bool grads_beside(const struct tr_grads *g)
{
    return g->ranks > 1 && g->o.beside != NULL;
}

enum fr_rc grads_beside_alloc(struct tr_grads *g, struct fr_err *err);
void grads_beside_free(struct tr_grads *g);
/* Later work of q waits for all reductions so far. */
enum fr_rc grads_beside_wait(struct tr_grads *g, struct tr_queue *q, struct fr_err *err);

/* grads_nodes.c: chooses how gradients go between nodes, once parts have their ranks. */
void grads_choose_way(struct tr_grads *g);
/* Rank 0 logs the choice. */
void grads_say_way(const struct tr_grads *g);
/* Elements that the ways take for parts of `n` elements a share: those received, in the type of the
 * wire, and sums on their way. */
int64_t grads_arrived(const struct tr_grads *g, int64_t n);
int64_t grads_passed(const struct tr_grads *g, int64_t n);
/* Sends the shares of a part and adds those of the other ranks, all in q. */
enum fr_rc grads_scatter(struct tr_grads *g, struct tr_queue *q, struct tr_reduce_scatter *x,
                         struct fr_err *err);

/* Adds what a communicator has sent since `before`, its counters then. */
void grads_count(const struct tr_comm *comm, const size_t before[TR_LINK_CLASSES],
                 size_t out[TR_LINK_CLASSES]);

/* Whether sums are in the host's memory. */
static inline bool grads_hosted(const struct tr_grads *g)
{
    return g->o.host.be != NULL;
}

enum fr_rc grads_host_alloc(struct tr_grads *g, struct fr_err *err);
void grads_host_free(struct tr_grads *g);
/* Before q changes the landing or sums: what was on its way is there. */
enum fr_rc grads_host_wait(struct tr_grads *g, struct tr_queue *q);
/* up: when the landing is free, copies a part's sums there; absent: nothing. down: when what was
 * put into q is done, copies the landing to the sums. */
enum fr_rc grads_host_up(struct tr_grads *g, struct tr_queue *q, struct tr_view sums,
                         struct fr_err *err);
enum fr_rc grads_host_down(struct tr_grads *g, struct tr_queue *q, struct tr_view sums,
                           struct fr_err *err);

size_t grads_rows_bytes(const struct tr_grads *g);
enum fr_rc grads_rows_alloc(struct tr_grads *g, struct fr_err *err);
void grads_rows_free(struct tr_grads *g);

#endif

/* Inside of shard/: what shard.c, load.c, window.c and rows.c share. */
#ifndef TR_SHARD_STATE_H
#define TR_SHARD_STATE_H

#include "engine/base/arena.h"
#include "trainer/shard/shard.h"

struct unit {
    const char *what;
    enum tr_unit_kind kind;
    size_t n;
    struct tr_unit_tensor *tensors;
    size_t *at;   /* [n] of each tensor in the unit's buffer; multiples of 256 */
    size_t bytes; /* of the whole unit */
    size_t slice; /* a rank's share in a window; ROWS: bytes of the rows it owns */
    int64_t elements;
    size_t base_at; /* where this rank's bytes lie in base or in persistent */
    bool whole;     /* all of it lies there */
    int window;     /* which window holds it, -1: none */
    size_t window_at;
};

/* What one gather brings. */
struct span {
    int first, n;
};

struct window {
    char *p;
    struct span span;       /* n 0: empty */
    bool held, ahead;       /* in use; gathered before anybody asked */
    struct tr_event *ready; /* the gather is done */
    struct tr_event *idle;  /* its last user is done */
    struct tr_event *sent;  /* this rank's slices have come from the host */
};

enum { PASSES = 8 };

struct order {
    struct span *spans; /* owns */
    size_t n, cap;
    bool complete;
};

/* Buffers of tr_shard_fetch_rows. C = ceil(tokens_max/W) rows a peer and round. */
struct rows_buf {
    int32_t *mine, *all; /* (T_max), (W*T_max) device: sorted ids, -1 behind them */
    int32_t *host;       /* (W*T_max) pinned */
    int32_t *pick;       /* (W*C) device: ids of the rows to send */
    int32_t *host_pick;  /* (W*C) pinned */
    char *send, *table;  /* (W*C, cols), (T_max, cols) device */
    size_t *counts;      /* [6W] host */
};

struct tr_shard {
    struct tr_shard_opts o;
    struct fr_arena arena; /* units, their tensors and names */
    struct unit *units;    /* owns */
    size_t nunits, cap;
    size_t base_bytes, persistent_bytes, window_bytes;
    char *base, *persistent;
    struct window windows[2];
    int last;            /* the window used last */
    struct tr_queue *gq; /* the communicator's queue */
    struct tr_queue *cq; /* copies from the host; NULL: the base is on the device */
    struct tr_event *rows_done;
    struct order orders[PASSES];
    int pass; /* -1: none */
    size_t cursor;
    struct rows_buf rows;
    struct tr_gather_item *items; /* owns: as many as the largest span has units */
    size_t span_max;
    struct tr_shard_stats stats;
};

static inline size_t round_256(size_t n)
{
    return (n + 255) / 256 * 256;
}

/* Over how many ranks units are partitioned; 1: each has them whole. */
static inline size_t shard_ways(const struct tr_shard *s)
{
    return s->o.partition ? (size_t)s->o.comm->size : 1;
}

/* Whether the base is in the host's memory and units come to the device for use. */
static inline bool shard_staged(const struct tr_shard *s)
{
    return s->o.place == TR_PLACE_HOST;
}

enum fr_rc shard_alloc(struct tr_shard *s, struct fr_err *err);

/* rows.c */
int64_t rows_per_rank(const struct tr_shard *s, const struct unit *u);
size_t rows_bytes(const struct tr_shard *s);
enum fr_rc rows_alloc(struct tr_shard *s, struct fr_err *err);
void rows_free(struct tr_shard *s);

#endif

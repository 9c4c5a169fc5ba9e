/* Types and functions that the files of trainer/shard share. */
#ifndef TR_SHARD_PRIVATE_H
#define TR_SHARD_PRIVATE_H

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
    size_t base_at;  /* where this rank's bytes lie in their home */
    size_t reserved; /* bytes there */
    bool whole;      /* the whole unit lies there */
    bool trained;    /* a tensor is */
    size_t share;    /* of a trained unit: the bytes that each rank updates */
    int64_t by_rows; /* of the spec */
    bool packed;     /* its weights have their packed forms in `packed` as well */
    size_t packed_at;

    /* In the pool. */
    bool here;      /* has a place: its bytes are there, or a gather that fetches them was issued */
    bool ahead;     /* prefetched and not used yet */
    size_t pool_at; /* offset of the place */
    int64_t batch;  /* the gather that fetches the unit */
    int64_t used;   /* its last release; 0: none */
    int64_t next;   /* its next use, in gathers since the first pass of this record */
};

/* The units of one gather. */
struct span {
    int first, n;
};

/*
 * A piece of the pool. The place of a unit that is here is live. After the unit is forgotten its
 * place stays as a ghost until the gather queue has waited for the unit's last release, because the
 * device may still read it.
 */
struct place {
    size_t at, bytes;
    int unit;
    int64_t freed; /* the release after which the place is free; LIVE: the place is live */
};

#define LIVE INT64_MAX

enum {
    PASSES = 8,
    EVENTS = 64 /* the most gathers, and the most releases, without a wait of a queue */
};

/* A gather of the record. */
struct step {
    struct span span;
    size_t next;    /* the next step with the same span; plus `steps` if in the next pass */
    int64_t before; /* elements of all steps before it */
};

struct order {
    struct step *steps; /* owns */
    size_t n, cap;
    int64_t elements; /* of all */
    bool complete;
};

/* For tr_shard_fetch_rows. C = ceil(tokens_max/W) rows a peer and round; at most W rounds. */
struct rows_buf {
    int32_t *ids, *mine; /* own: (world, T_max) sorted ids of all ranks, then -1; (T_max) */
    int32_t *pick;       /* (W*C) device: ids of the rows to send */
    int32_t *host_pick;  /* (2, W, W*C) pinned: ids by round, for two fetches in turn */
    char *send, *table;  /* (W*C, cols), (T_max, cols) device */
    size_t *counts;      /* owns: [6W] */
    struct tr_event *picked[2], *used; /* a half of host_pick was read; table was read */
    unsigned fetches;
};

struct tr_shard {
    struct tr_shard_opts o;
    struct fr_arena arena; /* units, their tensors and names */
    struct unit *units;    /* owns */
    size_t nunits, cap;
    size_t base_bytes, persistent_bytes, trained_bytes;
    size_t norms_grain; /* shard_grain of the trained persistent units */
    size_t owned_bytes; /* of base_bytes */
    size_t packed_bytes;
    bool replace; /* tr_shard_prepack's */
    char *base, *persistent, *packed;
    char *trained;       /* persistent units that are trained: W shares */
    struct tr_queue *gq; /* the communicator's queue */
    struct tr_queue *cq; /* copies from the host; NULL: the base is on the device */
    struct tr_event *rows_done;
    struct tr_event *changed; /* weights were updated */
    struct rows_buf rows;

    /* The record. */
    struct order orders[PASSES];
    int pass, last; /* -1: none; the pass before */
    int64_t turn;   /* gathers of earlier passes by the same record */
    size_t cursor;  /* the next gather */
    size_t reach;   /* the first step that the prefetcher has not passed */

    /* The pool; see pool.c. */
    char *pool;
    size_t pool_bytes;    /* set by shard_alloc */
    struct place *places; /* owns; ascending */
    size_t nplaces;
    int64_t live, ahead;            /* elements here; of these, ahead of use */
    int64_t releases, waited;       /* recorded; those that the gather queue has waited for */
    int64_t batches, seen;          /* gathers issued; those that the queue of use has waited for */
    struct tr_event *free[EVENTS];  /* by release: its users are done */
    struct tr_event *ready[EVENTS]; /* by gather: its bytes are there */
    struct tr_event *sent;          /* this rank's slices were copied from the host */
    bool dropped;                   /* a unit was forgotten before a queue waited for its gather */
    bool rehearsed;                 /* gathers are counted and move no bytes */

    struct span held;      /* n 0: none */
    struct tr_queue *user; /* the queue of the last gather */

    /* The largest gather. */
    size_t span_max, span_bytes;
    int64_t span_elements;
    int64_t window_wanted, window_cut; /* units of a window: by max_live, beside its neighbour */
    int *list;                         /* owns: (span_max) units that one gather fetches */
    size_t nlist;
    struct tr_gather_item *items; /* owns: span_max */
    struct tr_shard_stats stats;
};

static inline size_t round_256(size_t n)
{
    return (n + 255) / 256 * 256;
}

/* Bytes of which tensors and shares of a trained unit, whose elements have `size` bytes, are
 * multiples. */
static inline size_t shard_grain(const struct tr_shard *s, size_t size)
{
    return s->o.block > 0 ? round_256((size_t)s->o.block * size) : 256;
}

static inline size_t shard_round(size_t n, size_t grain)
{
    return (n + grain - 1) / grain * grain;
}

/* The number of ranks that units are partitioned over; 1: each rank has whole units. */
static inline size_t shard_ways(const struct tr_shard *s)
{
    return s->o.partition ? (size_t)s->o.comm->size : 1;
}

/* The prefetcher stops while this many elements are ahead of use. */
static inline int64_t shard_bucket(const struct tr_shard *s)
{
    const struct tr_shard_limits *l = &s->o.limits;

    return l->prefetch_auto && l->prefetch_bucket < s->span_elements ? s->span_elements
                                                                     : l->prefetch_bucket;
}

/* Whether the base is in the host's memory and units come to the device for use. */
static inline bool shard_staged(const struct tr_shard *s)
{
    return s->o.place == TR_PLACE_HOST;
}

/* Whether the host may write to the base. */
static inline bool shard_base_is_hosts(const struct tr_shard *s)
{
    return shard_staged(s) || s->o.be->memory->is_host;
}

/* Bytes of unit u in the pool. */
static inline size_t shard_whole(const struct tr_shard *s, const struct unit *u)
{
    return u->slice * shard_ways(s);
}

/* The memory that holds unit u: base, persistent or trained. NULL before shard_alloc. */
static inline char *shard_home(const struct tr_shard *s, const struct unit *u)
{
    return u->kind != TR_UNIT_PERSISTENT ? s->base : u->trained ? s->trained : s->persistent;
}

/* Bytes of a rank's share of the trained persistent units. */
static inline size_t shard_norms_share(const struct tr_shard *s)
{
    size_t W = (size_t)s->o.comm->size;

    return shard_round((s->trained_bytes + W - 1) / W, s->norms_grain);
}

enum fr_rc shard_alloc(struct tr_shard *s, struct fr_err *err);
/* Writes the packed forms of the weights, which must be loaded. */
enum fr_rc shard_prepack(struct tr_shard *s, struct fr_err *err);

/* pool.c */
size_t pool_bytes(const struct tr_shard *s);
enum fr_rc pool_alloc(struct tr_shard *s, struct fr_err *err);
void pool_free(struct tr_shard *s);
/* Takes places for list[from..nlist), units that are not here; *done: list[from..done) have places.
 * The queue that fills the places waits for the releases of that memory, and for enough releases to
 * keep the elements on the device within max_live. low: from the pool's beginning. */
enum fr_rc pool_put(struct tr_shard *s, size_t from, bool low, size_t *done, struct fr_err *err);
/* Evicts the unit; its place becomes a ghost. */
void pool_forget(struct tr_shard *s, int unit);
void pool_forget_all(struct tr_shard *s);
/* Evicts all units and waits for all releases: the pool is one gap. */
enum fr_rc pool_empty(struct tr_shard *s, struct fr_err *err);
/* Evicts the unit outside `but` with the latest next use after `after`. The unit of the last
 * release is evicted only if there is no other. False: no such unit. */
bool pool_evict(struct tr_shard *s, struct span but, int64_t after);
/* Records a release after the work in q. */
enum fr_rc pool_release(struct tr_shard *s, struct tr_queue *q, struct fr_err *err);

/* rows.c */
/* A matrix whose rows are fetched: n chunks of `rows` rows, of which a rank owns `per` each. */
struct row_table {
    const struct unit *unit; /* the first */
    int n;
    int64_t rows, per;
};
struct row_table rows_table(const struct tr_shard *s, int unit, int units);
/* Whether rows of the unit are fetched. */
bool rows_has(const struct unit *u);
int64_t rows_per_rank(const struct tr_shard *s, const struct unit *u);
size_t row_bytes(const struct unit *u);
/* The index of the first of n ascending ids that is >= x. */
size_t rows_lower(const int32_t *ids, size_t n, int64_t x);
size_t rows_bytes(const struct tr_shard *s);
enum fr_rc rows_alloc(struct tr_shard *s, struct fr_err *err);
void rows_free(struct tr_shard *s);

#endif

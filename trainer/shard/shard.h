/*
 * ZeRO-3 for frozen weights: the owner of each byte, and gathers of whole weights.
 *
 * A unit has one of three layouts: sharded over a group of ranks; owned, whole on this rank alone;
 * or persistent, whole on every rank.
 *
 * A sharded unit is the smallest part that is gathered: an attention, a dense FFN, a shared expert,
 * one expert, a chunk of the head's rows. It is one byte buffer; its tensors (FP8 scales included)
 * lie at 256-byte offsets; a rank owns slice_bytes = ceil(bytes/W) rounded up to 256 of it, filled
 * by pread of just those ranges. A gather writes into the gather windows, one piece of memory that
 * is allocated before the run. W is the size of the group. Slice k of a unit lies at k*slice_bytes
 * of its place: nothing is repacked, and a tensor is a view.
 *
 * A trained unit is also divided into a share for each rank, at every stage in the same way: the
 * slice above, with W the ranks of comm. All its tensors have one type, and its memory holds W
 * shares. Trained and frozen tensors are never in one persistent unit. With `block` of the options
 * its tensors and shares begin at multiples of so many elements, not just of 256 bytes.
 *
 * Persistent units (norms, routers) are whole on every rank. The embedding is sharded by rows; only
 * the rows in use are sent. Below stage 3, and when W = 1, every unit is whole on its rank,
 * nothing is gathered, and the calls only hand out views. Where the base is in the host's memory, a
 * gather first copies this rank's slices to their places in the window, on a separate queue. With
 * whole units that copy is the whole gather, and the embedding is read in the host's memory.
 *
 * Every rank makes the same calls in the same order. A pass (training, evaluation) records its
 * order of gathers the first time. Later passes prefetch by the record, on the gather queue, as
 * far as DeepSpeed's limits allow. A gather is prefetched whole, in one collective, while the
 * elements ahead of use are fewer than the prefetch bucket: with any bucket above 0 the next gather
 * runs while this one is used. Live elements stay within max live; elements that the device still
 * reads count as live. Released memory is filled again behind the event of the compute that read
 * it. A single gather of more than max live is alone. Results never depend on prefetching.
 * Source: DeepSpeed documentation, "ZeRO stage 3 options".
 */
#ifndef TR_SHARD_SHARD_H
#define TR_SHARD_SHARD_H

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "trainer/backend/backend.h"
#include "trainer/comm/comm.h"
#include "trainer/tensor/safetensors.h"
#include "trainer/tensor/tensor.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_shard;

enum tr_unit_kind {
    TR_UNIT_SHARDED,    /* over the shard's group, gathered into a window for use */
    TR_UNIT_OWNED,      /* whole on this rank, which alone adds it; never gathered */
    TR_UNIT_PERSISTENT, /* whole on every rank */
    TR_UNIT_ROWS        /* one matrix, whole rows on their owners; see tr_shard_fetch_rows */
};

enum { TR_UNIT_TENSORS = 16 };

/* One tensor of a unit, as it lies on disk and in memory. */
struct tr_unit_tensor {
    const char *name; /* in the checkpoint; copied */
    int rank;         /* 1 or 2 */
    int64_t shape[2]; /* of the part: rows [row0, row0 + shape[0]) of the tensor on disk */
    int64_t row0;
    int64_t disk_rows;   /* rows of the whole tensor on disk; 0: shape[0] */
    enum tr_dtype dtype; /* in memory; loading converts (f32, bf16, f16 <-> each other) */
    bool positive;       /* every value must be above 0: scales of FP8 blocks; f32 */
    bool factor;         /* is read by products alone */
    bool trained;        /* has a gradient and optimizer state; see grads.h */
};

struct tr_unit_spec {
    const char *what; /* "layer 3 expert 7", copied */
    enum tr_unit_kind kind;
    struct tr_unit_tensor tensors[TR_UNIT_TENSORS];
    size_t n;
    int64_t by_rows; /* a sharded unit of one matrix, whose shares are whole rows, as many as those
                        of a unit of this many rows; 0: any bytes. Such neighbours are the chunks of
                        one matrix, which tr_shard_fetch_rows reads as well */
};

/* Sizes in elements of frozen weights, as DeepSpeed has them. */
struct tr_shard_limits {
    int64_t prefetch_bucket; /* stage3_prefetch_bucket_size; 0: never ahead */
    bool prefetch_auto;      /* at least the largest gather: it was "auto" */
    int64_t max_live;        /* stage3_max_live_parameters */
    int64_t max_reuse;       /* stage3_max_reuse_distance: what is gathered again with no more than
                                these elements gathered in between stays, while there is room; so
                                does what the record was followed past already */
};

enum tr_place {
    TR_PLACE_DEVICE, /* the backend's memory */
    TR_PLACE_HOST    /* pinned host memory (offload_param: cpu), copied into windows for use */
};

struct tr_shard_opts {
    struct tr_backend *be; /* borrows */
    struct tr_comm *comm;  /* borrows: the world, or the group that units are sharded over; its
                              data calls are all on the gather queue */
    bool partition;        /* stage 3 */
    enum tr_place place;
    struct tr_shard_limits limits;
    int64_t tokens_max; /* T_max: the most rows one tr_shard_fetch_rows asks for */
    bool owned_twice;   /* another rank of this machine owns the same units */
    int64_t block;      /* elements of a trained tensor, counted from its begin, that have one owner
                           together, but where owners have whole rows; 0: no more than shares have
                           by themselves */
};

enum fr_rc tr_shard_create(const struct tr_shard_opts *o, struct tr_shard **out,
                           struct fr_err *err);
void tr_shard_destroy(struct tr_shard *s);

/* Adds a unit; *id counts up from 0. Before tr_shard_load. FR_UNSUPPORTED: an owned unit where
 * weights are in the host's memory. */
enum fr_rc tr_shard_add(struct tr_shard *s, const struct tr_unit_spec *spec, int *id,
                        struct fr_err *err);

/* Announces that units first..first+n (neighbours in ids) will be gathered together, so that the
 * windows are large enough. A unit gathered alone needs no such call. */
enum fr_rc tr_shard_plan_window(struct tr_shard *s, int first, int n, struct fr_err *err);

/* Units of this many elements in a window, so that the gather before or after it fits beside it,
 * another window or one of `beside` elements: at least 1 and at most
 * min(max_live / 2, max_live - beside) / elements. INT64_MAX where nothing is gathered. */
int64_t tr_shard_window_units(struct tr_shard *s, int64_t elements, int64_t beside);

/* Elements of a unit. */
int64_t tr_shard_elements(const struct tr_shard *s, int unit);

/* Call it before tr_shard_load. Whole units of this rank, without persistent ones, get packed forms
 * of their weights (tr_prepack_bytes), in the order of ids, within `bytes`. replace: weights that
 * are factors have packed forms alone (tr_repack). Returns the added bytes. */
size_t tr_shard_prepack(struct tr_shard *s, size_t bytes, bool replace);

/* When all windows are planned: a line for each limit that prevents prefetching or was adjusted. */
void tr_shard_notes(const struct tr_shard *s, struct fr_buf *notes);

/* What tr_shard_load will allocate, in bytes on this rank. */
struct tr_shard_bytes {
    size_t base; /* slices of sharded units and own rows; everything when nothing is gathered */
    size_t owned;
    size_t packed; /* of tr_shard_prepack */
    size_t persistent;
    size_t windows; /* gather windows: max_live, or less if a run never needs so much */
    size_t rows;    /* buffers of tr_shard_fetch_rows */
    size_t model;   /* all units that this rank has added, whole */
};
void tr_shard_bytes(const struct tr_shard *s, struct tr_shard_bytes *out);

/* Sets files[k] for each missing file of the checkpoint that this rank would read. Call it when all
 * units are added. */
void tr_shard_lacks(const struct tr_shard *s, const struct tr_st *st, unsigned char *files);

/* Progress of reading, about once a second and at the end: bytes read, of all bytes of this rank.
 * false: reading ends with FR_STOPPED. */
struct tr_shard_tell {
    bool (*so_far)(void *arg, int64_t bytes, int64_t of);
    void *arg;
};

/* Allocates and fills: this rank reads its byte ranges alone, in their order on disk, and leaves
 * the page cache as it was. Every tensor must exist with its shape. FR_CORRUPT: a value that is not
 * finite, a scale that is not above 0, or a file that changed meanwhile. Errors name the tensor or
 * the file. tell: NULL: no progress. All ranks of the world call. */
enum fr_rc tr_shard_load(struct tr_shard *s, const struct tr_st *st,
                         const struct tr_shard_tell *tell, struct fr_err *err);

/* Bytes [at, at+n) of a tensor and their destination. */
struct tr_fill_range {
    size_t at, n;
    void *dst;
    struct tr_queue *q; /* what fills dst, when the source is on the device */
};

/* As tr_shard_load, from memory: fill writes bytes of tensor t, in its dtype in memory. With
 * on_device dst is the bytes' final place, ops on q write them, and values are not checked. */
struct tr_shard_source {
    bool on_device;
    enum fr_rc (*fill)(void *arg, const struct tr_unit_tensor *t, const struct tr_fill_range *r,
                       struct fr_err *err);
    void *arg;
};
enum fr_rc tr_shard_fill(struct tr_shard *s, const struct tr_shard_source *src, struct fr_err *err);

/* Instead of tr_shard_load, for dry runs: passes, gathers and releases keep records and counters,
 * but move no bytes. Allocates no weights; makes no call of the communicator. */
enum fr_rc tr_shard_rehearse(struct tr_shard *s, struct fr_err *err);

/* Between passes: gathered copies are forgotten. */
void tr_shard_forget(struct tr_shard *s);
/* The same after work in q has changed weights: gathers of this rank read them behind that work. */
enum fr_rc tr_shard_changed(struct tr_shard *s, struct tr_queue *q, struct fr_err *err);

/* ---- use, inside a pass ---- */

/* Starts a pass; id 0..7 names its recorded order. */
enum fr_rc tr_shard_begin(struct tr_shard *s, int pass, struct fr_err *err);
/* Ends it: a pass that gathered less or other than its record is FR_BUG. After an error in the
 * middle of a pass, call it with failed = true: windows are free again, the record is kept. */
enum fr_rc tr_shard_end(struct tr_shard *s, bool failed, struct fr_err *err);

/*
 * Makes units first..first+n whole for queue q, and holds them until tr_shard_release. One gather
 * is held at a time, and all are for the same queue. For persistent and owned units the call does
 * nothing. Else it makes one grouped collective of the missing units if W > 1, then one for each
 * recorded gather that is prefetched.
 */
enum fr_rc tr_shard_gather(struct tr_shard *s, struct tr_queue *q, int first, int n,
                           struct fr_err *err);
enum fr_rc tr_shard_release(struct tr_shard *s, struct tr_queue *q, int first, int n,
                            struct fr_err *err);

/* Tensor i of a unit that is whole now; p is NULL when it is not. Valid until its release. */
struct tr_view tr_shard_view(const struct tr_shard *s, int unit, int i);
/* The same as a weight: with its packed form, where it has one. */
struct tr_weight tr_shard_weight(const struct tr_shard *s, int unit, int i);

/*
 * The rows of a TR_UNIT_ROWS unit that `ids` name. ids (T) are host numbers; out_index (T) i32,
 * host, gets for each id its row in *table (used, cols). The table is valid until
 * tr_shard_rows_used. Every rank of the world calls it, also with T = 0. Ids travel over the
 * control plane, rows within the group, in at least one all_to_allv on the gather queue; the host
 * waits for no queue. Rounds are agreed by all from the ids, so buffers stay within tokens_max
 * rows. When the unit is whole, *table is the whole matrix and out_index = ids.
 */
struct tr_fetch_rows {
    int unit, units; /* TR_UNIT_ROWS, or the first of so many chunks; units 0: 1 */
    const int32_t *ids;
    int32_t *out_index;
    int64_t tokens;       /* T <= tokens_max */
    struct tr_view table; /* out (rows, cols) */
    int32_t *compact;     /* host, of a trained unit: out (T), for each id its index in
                             tr_shard_ids of this rank; NULL: not wanted */
};
enum fr_rc tr_shard_fetch_rows(struct tr_shard *s, struct tr_queue *q, struct tr_fetch_rows *f,
                               struct fr_err *err);
/* The unique ids of rank k in the last fetch of a trained or sharded unit, as row numbers in the
 * order of their owners, ascending: rank o owns rows [o*n, (o+1)*n). Valid until the next fetch. */
struct tr_id_list {
    const int32_t *ids;
    size_t n;
};
struct tr_id_list tr_shard_ids(const struct tr_shard *s, int k);
/* Marks that all work in q so far may have read the table; the next fetch waits for that work. */
enum fr_rc tr_shard_rows_used(struct tr_shard *s, struct tr_queue *q, struct fr_err *err);

/* Counters since creation, for logs and tests. */
struct tr_shard_stats {
    int64_t gathers;       /* grouped collectives, or copies from the host */
    int64_t prefetched;    /* of these, ahead of use */
    int64_t reused;        /* calls whose units were all kept from an earlier use */
    int64_t live, ahead;   /* the most elements that were here at once, and ahead of use */
    size_t gathered_bytes; /* whole, of all gathers */
    size_t rows_bytes[TR_LINK_CLASSES]; /* of tr_shard_fetch_rows, as the communicator counts */
};
void tr_shard_stats(const struct tr_shard *s, struct tr_shard_stats *out);

#endif

/*
 * Decodes FP8 weights to the type of the computation while their units are in use: y = RN(code *
 * scale), as in a checkpoint converted to that type. Shards and gathers stay FP8. Each use decodes
 * a unit into one of two windows in turn, on a queue of its own: one window is decoded while ops
 * read the other. The gathered FP8 data are released after the decoding.
 *
 * The decoder is between the blocks and the shard. It gathers all units of the model, also those
 * without FP8 weights, so that one queue waits for all gathers.
 */
#ifndef TR_MODEL_DECODE_H
#define TR_MODEL_DECODE_H

#include "engine/base/err.h"
#include "trainer/backend/backend.h"
#include "trainer/shard/shard.h"

struct tr_decoder;

struct tr_decoder_opts {
    struct tr_backend *be;  /* borrows */
    struct tr_shard *shard; /* borrows */
    enum tr_dtype compute;
    int block_rows, block_cols; /* of the scales */
};
enum fr_rc tr_decoder_create(const struct tr_decoder_opts *o, struct tr_decoder **out,
                             struct fr_err *err);
void tr_decoder_destroy(struct tr_decoder *d);

/* Adds a unit of the shard; the scales of a weight follow it in the spec. A unit without FP8
 * weights needs no window. */
enum fr_rc tr_decoder_add(struct tr_decoder *d, int unit, const struct tr_unit_spec *spec,
                          struct fr_err *err);
/* Declares that units first .. first+n-1 are used together. */
void tr_decoder_plan(struct tr_decoder *d, int first, int n);

/* Bytes of both windows. */
size_t tr_decoder_bytes(const struct tr_decoder *d);
/* Allocates the windows; call once after all adds. */
enum fr_rc tr_decoder_alloc(struct tr_decoder *d, struct fr_err *err);

/* As tr_shard_gather and tr_shard_release. */
enum fr_rc tr_decoder_gather(struct tr_decoder *d, struct tr_queue *q, int first, int n,
                             struct fr_err *err);
enum fr_rc tr_decoder_release(struct tr_decoder *d, struct tr_queue *q, int first, int n,
                              struct fr_err *err);

/* As tr_shard_view; the decoded tensor if the unit has FP8 weights. */
struct tr_view tr_decoder_view(const struct tr_decoder *d, int unit, int tensor);

#endif

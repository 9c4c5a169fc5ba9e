/*
 * DeepSpeed's checkpoints, as save_checkpoint() leaves them: stages 0 to 3 of ZeRO, and universal
 * ones. Masters of trained parameters are put together from all ranks' parts, as DeepSpeed's
 * zero_to_fp32.py does; frozen parameters and buffers come from the files of the model.
 * No pickle is run (pickle.h); weights stay on the disk until they are read.
 */
#ifndef TR_FOREIGN_DEEPSPEED_H
#define TR_FOREIGN_DEEPSPEED_H

#include "trainer/foreign/adam.h"

#include <stddef.h>
#include <stdint.h>

enum tr_ds_part { TR_DS_TRAINED, TR_DS_FROZEN, TR_DS_BUFFER };

struct tr_ds_tensor {
    const char *name;
    enum tr_ds_part part;
    enum tr_st_type type; /* of all its runs */
    int ndim;
    int64_t shape[TR_ST_DIMS], elements;
    const char *same_as; /* the tensor that it shares its memory with; NULL: none */
    struct tr_runs runs; /* its elements; together they have as many */
    size_t group;        /* of the optimizer's groups, of TR_DS_TRAINED */
};

struct tr_ds; /* an open checkpoint */

/* dir: one with the file `latest`, or the folder of one step. check: the weights are read whole and
 * compared with their checksums. FR_NOTFOUND names a rank whose file
 * is missing; FR_CORRUPT and FR_USAGE name file and tensor. */
enum fr_rc tr_ds_open(const char *dir, bool check, struct tr_ds **out, struct fr_err *err);
void tr_ds_close(struct tr_ds *d);

size_t tr_ds_count(const struct tr_ds *d);
const struct tr_ds_tensor *tr_ds_at(const struct tr_ds *d, size_t i);
/* "ZeRO stage 3 of 8 ranks, step 400" */
const char *tr_ds_what(const struct tr_ds *d);
int64_t tr_ds_step(const struct tr_ds *d); /* global_steps; -1: not said */

/* The optimizer's side of an open checkpoint: its groups, and where the moments lie. */
struct tr_ds_optim {
    const struct tr_adam_group *groups;
    size_t n;
    int64_t steps; /* updates applied */
};
/* After it tr_ds_moment has them. FR_UNSUPPORTED: they are of no AdamW with f32 moments, or there
 * is no ZeRO stage. FR_NOTFOUND, FR_CORRUPT name the file. Call once. */
enum fr_rc tr_ds_open_optim(struct tr_ds *d, struct tr_ds_optim *out, struct fr_err *err);
/* The moment of trained tensor i, in its shape. */
const struct tr_ds_tensor *tr_ds_moment(const struct tr_ds *d, size_t i, enum tr_adam_moment m);

/* Elements [first, first+n) in the tensor's own type. Calls of one checkpoint follow each other. */
enum fr_rc tr_ds_read(struct tr_ds *d, const struct tr_ds_tensor *t, int64_t first, int64_t n,
                      void *dst, struct fr_err *err);

#endif

/*
 * A model folder of a resume state of trained weights: the files that the training itself saves at
 * that step. For runs that save no model (stage3_gather_16bit_weights_on_model_save false), and
 * for states that are newer than the last checkpoint.
 */
#ifndef TR_SAVE_FROM_RESUME_H
#define TR_SAVE_FROM_RESUME_H

#include "engine/base/str.h"
#include "trainer/comm/comm.h"
#include "trainer/config/args.h"

struct tr_from_resume {
    const char *from;    /* a folder of step-N folders, the newest of which counts, or one step-N */
    const char *out_dir; /* NULL: the folder that these folders' folder lies in */
    const char *model_dir;  /* the base; NULL: that of training_args.json */
    const char *save_dtype; /* "auto", "float32"; NULL: that of training_args.json, or auto */
    int64_t shard_bytes;    /* 0: that of training_args.json, or 5 GB */
    struct tr_comm *self;   /* borrows: one rank */
};

/* Where the model was read and written; filled as far as it is known. */
struct tr_from_resume_done {
    char model_dir[4096], out_dir[4096]; /* PATH_MAX bytes */
    char template_name[256];             /* "": not known */
};

/* Makes the output folder and writes it: weights that were there go first, and a failure leaves
 * them as they were. Adds a line of what was done to said. FR_CORRUPT: a part is missing, damaged
 * or not finite; the message names it. FR_USAGE: the base is another than the run's. */
enum fr_rc tr_from_resume(const struct tr_from_resume *o, struct tr_from_resume_done *done,
                          struct fr_buf *said, struct fr_err *err);

#endif

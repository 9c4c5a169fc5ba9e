/* A model folder of what DeepSpeed saved: weights in safetensors, in shards with an index where
 * they are larger, and the files of the model that stand beside the checkpoint. */
#ifndef TR_SAVE_FROM_DEEPSPEED_H
#define TR_SAVE_FROM_DEEPSPEED_H

#include "engine/base/str.h"
#include "trainer/tensor/tensor.h"

#include <stdint.h>

struct tr_from_deepspeed {
    const char *checkpoint; /* as tr_ds_open takes it; its config.json may be missing */
    const char *out_dir;
    enum tr_dtype type; /* of floats: TR_F32, TR_BF16 or TR_F16, rounded to nearest */
    int64_t shard_bytes;
};

/* Makes out_dir and writes it: weights that were there go first, at no time does a mixture load,
 * and a failure leaves them as they were. Adds lines of what was done to said. FR_CORRUPT: a
 * parameter is not finite, or beyond the type. */
enum fr_rc tr_from_deepspeed(const struct tr_from_deepspeed *o, struct fr_buf *said,
                             struct fr_err *err);

#endif

/* Which files a checkpoint of DeepSpeed has: the ranks' optimizer states and the model's states. */
#ifndef TR_FOREIGN_DEEPSPEED_FILES_H
#define TR_FOREIGN_DEEPSPEED_FILES_H

#include "engine/base/arena.h"
#include "engine/base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct tr_ds_files {
    const char *dir;    /* of one step */
    const char **model; /* by rank; of stages 0 to 2 one */
    const char **optim; /* by rank; none: stage 0, or universal */
    size_t nmodel, noptim;
    bool universal; /* masters lie in DIR/zero/NAME/fp32.pt */
};

/* Everything lives in arena. FR_NOTFOUND: no checkpoint, or ranks are missing between those that
 * are there. FR_UNSUPPORTED: parts of tensors by tensor parallelism, experts or pipelines. */
enum fr_rc tr_ds_files(const char *dir, struct fr_arena *arena, struct tr_ds_files *out,
                       struct fr_err *err);

#endif

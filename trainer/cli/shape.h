/*
 * The configuration of a slice: a model's layers as they are, but fewer of them.
 */
#ifndef TR_CLI_SHAPE_H
#define TR_CLI_SHAPE_H

#include "engine/base/json.h"

#include <stdint.h>

struct tr_shape {
    const char *of;      /* deepseek-v3, or a config.json or the folder that holds one */
    int64_t layers;      /* 0: all */
    const char *weights; /* bf16 or fp8; NULL: as the model's are */
};

/*
 * The first layers of the model: dense ones as it has them, but at least one with experts where it
 * has any; none for prediction ahead. *out is the caller's, *of_layers the model's layers. FR_USAGE
 * when it has fewer.
 */
enum fr_rc tr_shape_make(const struct tr_shape *s, json_t **out, int64_t *of_layers,
                         struct fr_err *err);

#endif

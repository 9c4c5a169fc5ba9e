/*
 * The configuration of a slice: a model with its first layers only.
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
 * Keeps the first layers of the model, at least one of them with experts if the model has any, and
 * no layer for prediction ahead. *out is owned by the caller; *of_layers is the model's number of
 * layers. FR_USAGE: the model has fewer layers.
 */
enum fr_rc tr_shape_make(const struct tr_shape *s, json_t **out, int64_t *of_layers,
                         struct fr_err *err);

#endif

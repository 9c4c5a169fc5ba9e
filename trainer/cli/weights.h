/*
 * A checkpoint of an untrained model.
 */
#ifndef TR_CLI_WEIGHTS_H
#define TR_CLI_WEIGHTS_H

#include "engine/base/err.h"
#include "trainer/config/model_config.h"

#include <stdint.h>

/*
 * Writes the weights of c as config/untrained.h makes them into dir, in c's torch_dtype (router
 * biases f32; linears in FP8 where c says so, rounded to codes of blocks whose multipliers are
 * drawn, too), in files of at most shard_bytes.
 */
enum fr_rc tr_weights_write(const char *dir, const struct tr_model_config *c, uint64_t seed,
                            int64_t shard_bytes, struct fr_err *err);

#endif

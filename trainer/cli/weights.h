/*
 * Weights of a model that nobody has trained: drawn from a seed by tensor name and index.
 */
#ifndef TR_CLI_WEIGHTS_H
#define TR_CLI_WEIGHTS_H

#include "engine/base/err.h"
#include "trainer/config/model_config.h"

#include <stdint.h>

/*
 * Writes the weights of c into dir, in c's torch_dtype (router biases f32), in files of at most
 * shard_bytes. Norms are 1, biases 0; a matrix (out, in) is normal with standard deviation
 * max(initializer_range, 1/sqrt(in)), smaller by sqrt(2 L) where its result is added to the
 * residual (o_proj, down_proj), so that small models neither start flat nor blow up; router
 * biases are uniform in ±0.05. The same (seed, name, index) gives the same number whatever the
 * files.
 */
enum fr_rc tr_weights_write(const char *dir, const struct tr_model_config *c, uint64_t seed,
                            int64_t shard_bytes, struct fr_err *err);

#endif

/* Which weights of a model train beside adapters: --finetuning_type full. Router biases never do:
 * they are buffers, not parameters. */
#ifndef TR_CONFIG_TRAINED_H
#define TR_CONFIG_TRAINED_H

#include "trainer/config/model_config.h"

#include <stdbool.h>

struct tr_trained {
    bool all;
};

bool tr_trained_has(const struct tr_trained *r, const struct tr_model_tensor *t);

#endif

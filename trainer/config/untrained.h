/*
 * The weights of an untrained model: drawn from a seed by tensor name and index
 * (tensor/draw.h), so that the same (seed, name, index) gives the same number on every machine,
 * rank and device.
 */
#ifndef TR_CONFIG_UNTRAINED_H
#define TR_CONFIG_UNTRAINED_H

#include "trainer/config/model_config.h"
#include "trainer/tensor/draw.h"

#include <stdint.h>

enum tr_untrained_how {
    TR_UNTRAINED_CONSTANT, /* scale itself */
    TR_UNTRAINED_NORMAL,   /* scale * tr_draw_normal */
    TR_UNTRAINED_UNIFORM   /* scale * (2 * tr_draw_uniform - 1) */
};

struct tr_untrained {
    enum tr_untrained_how how;
    struct tr_draw draw;
    float scale;
};

/*
 * The rule for tensor t of model c. Norms are 1, biases 0, router biases uniform in ±0.05. A matrix
 * (out, in) is normal with standard deviation max(initializer_range, 1/sqrt(in)). The deviation of
 * o_proj and down_proj, which add to the residual, is divided by sqrt(2 L), so that small models
 * neither start flat nor blow up.
 */
struct tr_untrained tr_untrained_of(const struct tr_model_config *c,
                                    const struct tr_model_tensor *t, uint64_t seed);

/* Element i of the tensor. */
float tr_untrained_at(const struct tr_untrained *u, int64_t i);

#endif

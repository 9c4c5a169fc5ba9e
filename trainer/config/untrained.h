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
 * How tensor t of c is made. Norms are 1, biases 0; a matrix (out, in) is normal with standard
 * deviation max(initializer_range, 1/sqrt(in)), smaller by sqrt(2 L) where its result is added to
 * the residual (o_proj, down_proj), so that small models neither start flat nor blow up; router
 * biases are uniform in ±0.05.
 */
struct tr_untrained tr_untrained_of(const struct tr_model_config *c,
                                    const struct tr_model_tensor *t, uint64_t seed);

/* Element i of it. */
float tr_untrained_at(const struct tr_untrained *u, int64_t i);

#endif

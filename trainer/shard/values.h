/* Conversion and checks of weights between a file and memory. Internal to trainer/shard. */
#ifndef TR_SHARD_VALUES_H
#define TR_SHARD_VALUES_H

#include "trainer/shard/shard.h"

/* Whether `from` converts to `to`: the same type, or both floats. */
bool values_convert(enum tr_dtype from, enum tr_dtype to);

/* Converts n elements of in to out, through f32. */
void values_put(void *out, enum tr_dtype to, const void *in, enum tr_dtype from, size_t n);

/* FR_CORRUPT, naming t: one of the n elements at p is not finite, or t->positive and an element is
 * not above 0. */
enum fr_rc values_finite(const struct tr_unit_tensor *t, const void *p, size_t n,
                         struct fr_err *err);
enum fr_rc values_positive(const struct tr_unit_tensor *t, const void *p, size_t n,
                           struct fr_err *err);
/* Fails with the FR_CORRUPT of values_finite. */
enum fr_rc values_not_finite(const struct tr_unit_tensor *t, struct fr_err *err);

#endif

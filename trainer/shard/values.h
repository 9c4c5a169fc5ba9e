/* Inside of shard/: weights' values on their way from a file to memory. */
#ifndef TR_SHARD_VALUES_H
#define TR_SHARD_VALUES_H

#include "trainer/shard/shard.h"

/* Whether elements of one type can be had from those of the other: the same, or both floats. */
bool values_convert(enum tr_dtype from, enum tr_dtype to);

/* n elements; by way of f32. */
void values_put(void *out, enum tr_dtype to, const void *in, enum tr_dtype from, size_t n);

/* FR_CORRUPT, naming t, when one of the n elements at p is not finite, or not above 0 where t says
 * so. */
enum fr_rc values_finite(const struct tr_unit_tensor *t, const void *p, size_t n,
                         struct fr_err *err);
enum fr_rc values_positive(const struct tr_unit_tensor *t, const void *p, size_t n,
                           struct fr_err *err);
enum fr_rc values_not_finite(const struct tr_unit_tensor *t, struct fr_err *err); /* its error */

#endif

/*
 * LRU cache of curves of files, of max_bytes. Of a file that has grown, only the new bytes are
 * read. For one thread at a time.
 */
#ifndef FR_CURVE_CACHE_H
#define FR_CURVE_CACHE_H

#include "engine/curve/curve.h"

enum { FR_CURVES_BYTES = 64 << 20 };

/* Feeds a curve with what its file has after curve->taken; path in errors. FR_IO, FR_NOMEM. */
enum fr_rc fr_curve_read(struct fr_curve *curve, int fd, const char *path, struct fr_err *err);

struct fr_curves;

struct fr_curves *fr_curves_create(size_t max_bytes); /* NULL: no memory */
void fr_curves_destroy(struct fr_curves *c);          /* NULL is fine */

/* The curve of the file, as it is now; a file that is not there is an empty one. *out stays until
 * fr_curves_trim(). */
enum fr_rc fr_curves_get(struct fr_curves *c, struct fr_id attempt, const char *path,
                         const struct fr_curve **out, struct fr_err *err);

/* Drops the least recently used, down to max_bytes. Returns the bytes left. */
size_t fr_curves_trim(struct fr_curves *c);

#endif

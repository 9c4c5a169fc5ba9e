/* The curves of a run as the text of a response. Files may be large, so a thread makes it. */
#ifndef FR_VIEW_CURVES_H
#define FR_VIEW_CURVES_H

#include "engine/curve/cache.h"

enum { FR_CURVES_WIDTH = 1000, FR_CURVES_WIDEST = 4000, FR_CURVES_PARTS = 256 };

struct host_curves { /* a request; texts are borrowed */
    struct fr_id run;
    const char *task; /* a task, or the key of an instance; NULL: all that have metrics */
    const char *keys; /* separated by commas; NULL: all */
    enum fr_curve_x x;
    double from, to; /* of x; NaN: no bound */
    size_t width;    /* of the drawing, in points */
};

/*
 * Appends
 *
 *   {x, from, to, bucket, keys: [every key that there is],
 *    parts: [{instance, node, attempt, attempt_no, started_wall, rows, first, last, until, full}],
 *    series: [{key, part, lost, x: [], y: []}],
 *    head: {instance, step, total, loss, loss_smooth, rate, rate_median, epoch, elapsed_s, eta_s,
 *           bad_since} of the newest attempt that has rows, else null,
 *    bad_lines, left_out}
 *
 * until: the step from which on a later part replaces this one, null: none does. A part has a
 * series of the rows that count, and one of those that were replaced (lost). y is null where the
 * value is not finite. started_wall is of the attempt, to which elapsed time (x=time) may be added.
 * Of more than FR_CURVES_PARTS parts the newest are shown. Opens the store of home for itself.
 */
enum fr_rc host_curves_read(const char *home, const struct host_curves *ask,
                            struct fr_curves *cache, struct fr_buf *out, struct fr_err *err);

#endif

/* A curve as text: braille characters of 2 by 4 dots, or one '*' a cell. */
#ifndef FR_SHOW_PLOT_H
#define FR_SHOW_PLOT_H

#include "engine/base/str.h"
#include "engine/curve/curve.h"

struct cli_plot {
    const struct fr_curve_point
        *points; /* ascending x; points with a y that is not finite are left out */
    size_t n;
    unsigned columns, rows; /* of the text, at least PLOT_LABEL + 2 by 2 */
    bool braille;
};

enum { PLOT_LABEL = 9 }; /* columns of the scale on the left */

/* Appends row number `row` (0: the top), `columns` wide. The first row is labelled with the largest
 * value, the last row with the smallest. Lines join successive points. */
void cli_plot_row(const struct cli_plot *p, unsigned row, struct fr_buf *out);

#endif

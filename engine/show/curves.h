/* Curves of a run on a terminal, read from the copies of its metrics that the home keeps. */
#ifndef FR_SHOW_CURVES_H
#define FR_SHOW_CURVES_H

#include "engine/show/model.h"

struct cli_curves;

/* home is copied, model borrowed. NULL: no memory. */
struct cli_curves *cli_curves_create(const char *home, const struct cli_model *model);
void cli_curves_destroy(struct cli_curves *c); /* NULL is fine */

/* The model has more instances. False: no memory, and their metrics are not shown. */
bool cli_curves_grow(struct cli_curves *c);

/* Reads new metrics. True: there were some. */
bool cli_curves_look(struct cli_curves *c);

/* Appends at most `rows` rows of at most `columns` columns: a line for each training, and the
 * curves of the training with the newest metrics. The terminal codes color and plain are written
 * before and after the curves. Returns the number of rows. */
struct cli_curves_size {
    unsigned columns, rows;
    const char *color, *plain;
};
unsigned cli_curves_draw(const struct cli_curves *c, const struct cli_curves_size *size,
                         struct fr_buf *out);

/* Appends the line of a training with new metrics since the last call; false: there is none. */
bool cli_curves_tell(struct cli_curves *c, struct fr_buf *out);

#endif

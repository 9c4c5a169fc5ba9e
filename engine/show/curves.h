/* Curves of a run on a terminal, read from the copies of its metrics that the home keeps. */
#ifndef FR_SHOW_CURVES_H
#define FR_SHOW_CURVES_H

#include "engine/show/model.h"

struct cli_curves;

/* home is copied, model borrowed. NULL: no memory. */
struct cli_curves *cli_curves_create(const char *home, const struct cli_model *model);
void cli_curves_destroy(struct cli_curves *c); /* NULL is fine */

/* Reads what is new. True: there was something. */
bool cli_curves_look(struct cli_curves *c);

/* Appends rows of at most `columns` columns: of each training a line, and the curves of the one
 * with the newest row, whose text begins with color and ends with plain. At most `rows` of them;
 * returns how many. */
struct cli_curves_size {
    unsigned columns, rows;
    const char *color, *plain;
};
unsigned cli_curves_draw(const struct cli_curves *c, const struct cli_curves_size *size,
                         struct fr_buf *out);

/* The line of a training that has new rows since the last call; false: none has. */
bool cli_curves_tell(struct cli_curves *c, struct fr_buf *out);

#endif

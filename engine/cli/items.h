/* What `flowrun status` says of the tasks that have a matrix: how many of their items are in each
 * state, and a table of items and outputs. */
#ifndef FR_CLI_ITEMS_H
#define FR_CLI_ITEMS_H

#include "engine/store/store.h"

bool cli_is_item(const struct fr_inst_row *row);
/* outs is in the order of insts, that of idx. */
void cli_print_items(const struct fr_inst_rows *insts, const struct fr_output_rows *outs);

#endif

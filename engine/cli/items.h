/* What `flowrun status` says of instances: a table of tasks, in which one with a matrix is a row
 * that says how many of its items are in each state, and tables of the items and their outputs. */
#ifndef FR_CLI_ITEMS_H
#define FR_CLI_ITEMS_H

#include "engine/store/store.h"

int64_t cli_began(const struct fr_inst_row *row); /* attempts that were sent to the node */
bool cli_is_item(const struct fr_inst_row *row);
void cli_print_tasks(const struct fr_inst_rows *insts);
/* outs is in the order of insts, that of idx. */
void cli_print_items(const struct fr_inst_rows *insts, const struct fr_output_rows *outs);

#endif

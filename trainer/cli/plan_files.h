/* Which files of a checkpoint a node has to hold. */
#ifndef TR_CLI_PLAN_FILES_H
#define TR_CLI_PLAN_FILES_H

#include "trainer/cli/planned.h"

/* Prints them, a line each: in the layout that the run asks for, of the model folder's index, which
 * is all that has to be there. FR_USAGE: there is no such node. */
enum fr_rc tr_plan_files(const struct tr_planned *p, const char *model, int64_t node,
                         struct fr_err *err);

#endif

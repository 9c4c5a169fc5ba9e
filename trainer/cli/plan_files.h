/* The files of a checkpoint that a node needs. */
#ifndef TR_CLI_PLAN_FILES_H
#define TR_CLI_PLAN_FILES_H

#include "trainer/cli/planned.h"

/* Prints them, a line each, for the layout that the run asks for. Only the index of the model
 * folder is read. FR_USAGE: there is no such node. */
enum fr_rc tr_plan_files(const struct tr_planned *p, const char *model, int64_t node,
                         struct fr_err *err);

#endif

/* The files of a checkpoint that a node needs. */
#ifndef TR_CLI_PLAN_FILES_H
#define TR_CLI_PLAN_FILES_H

#include "trainer/cli/planned.h"

/* Prints the names of the weight files that node (0 is the first) needs, a line each, for the
 * layout of the run p. model is the checkpoint's folder, of which only the index is read. FR_USAGE:
 * there is no such node. */
enum fr_rc tr_plan_files(const struct tr_planned *p, const char *model, int64_t node,
                         struct fr_err *err);

#endif

/* Lists of foreach: that get known while the run goes on. Only engine/run includes this header. */
#ifndef FR_RUN_GROWTH_H
#define FR_RUN_GROWTH_H

#include "engine/run/state.h"

struct run_source;

void run_expand(struct fr_run *run, const struct fr_act *act); /* evaluates a list */
/* When all actions have been performed: the next list that is known enters the plan. */
void run_growth_begin(struct fr_run *run);
enum fr_rc run_growth_write(struct fr_run *run, struct fr_err *err); /* before all other rows */
void run_growth_written(struct fr_run *run);                         /* the commit is done */
/* Gives the tasks of a stored run the lists that it knew. */
enum fr_rc run_lists_load(const struct run_source *from, struct fr_spec *spec, struct fr_err *err);

#endif

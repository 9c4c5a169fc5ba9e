/*
 * A run's tasks as lists of runs show them: counts by state, and a letter for each task. Summaries
 * of ended runs are cached, so that a list does not read their instances again.
 */
#ifndef FR_VIEW_TASK_SUMMARY_H
#define FR_VIEW_TASK_SUMMARY_H

#include "engine/base/json.h"
#include "engine/store/lists.h"
#include "engine/words/states.h"

enum { SUMMARY_TASKS = 200 };

struct task_summary {
    int64_t n[FR_ST_N]; /* hooks left out */
    uint64_t names;     /* a hash of the names of the tasks that have letters, in their order */
    char letters[SUMMARY_TASKS + 1]; /* of the first tasks: of the worst instance */
};

/* rows: those of a task together, in the plan's order. */
void task_summary_make(const struct fr_count_rows *rows, struct task_summary *out);
json_t *task_summary_counts(const struct task_summary *t); /* {state: n}; NULL: no memory */
json_t *
task_summary_tasks(const struct fr_count_rows *rows); /* the names of those that have letters */
/* The letters that a run's tasks have where other tasks are asked for: "-" where there is none. */
json_t *task_summary_letters(const struct fr_count_rows *rows, json_t *tasks);

/* The cache of summaries of ended runs; thread-safe, counted references. */
struct task_summaries;
struct task_summaries *task_summaries_create(void);                     /* NULL: no memory */
struct task_summaries *task_summaries_use(struct task_summaries *kept); /* adds a reference */
void task_summaries_leave(
    struct task_summaries *kept); /* drops one; the last frees; NULL is fine */
bool task_summaries_get(struct task_summaries *kept, const struct fr_run_row *run,
                        struct task_summary *out);
/* Ignores a run that is not over. */
void task_summaries_put(struct task_summaries *kept, const struct fr_run_row *run,
                        const struct task_summary *t);

#endif

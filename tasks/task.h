/*
 * Built-in tasks: what `flownode task NAME …` runs on a node. A task is one file and one line in
 * table.c. It prints for its log, writes its outputs to $FLOWRUN_OUTPUT, and returns its exit
 * status (0 done, 1 failed, 2 usage); tasks/job.h is what they share.
 */
#ifndef TASKS_TASK_H
#define TASKS_TASK_H

#include <stdbool.h>

struct fr_task {
    const char *name;
    const char *help;                  /* one line */
    int (*run)(int argc, char **argv); /* argv[0] is the task's name */
    bool sidecar;                      /* runs beside a task, and gives no outputs of its own */
};

/* NULL when there is none of that name. */
const struct fr_task *fr_task_find(const char *name);

/* All of them, ended by one with a NULL name. */
const struct fr_task *fr_task_table(void);

int fr_task_cleanup(int argc, char **argv);
int fr_task_preflight(int argc, char **argv);
int fr_task_publish(int argc, char **argv);
int fr_task_gather(int argc, char **argv);
int fr_task_container(int argc, char **argv);
int fr_task_janitor(int argc, char **argv);
int fr_task_train(int argc, char **argv);
int fr_task_nccl_probe(int argc, char **argv);

#endif

/*
 * One run of a built-in task. Its inputs are the JSON object in FLOWRUN_WITH, or the first argument
 * when it is tried by hand; its outputs go to $FLOWRUN_OUTPUT. It prints sentences. What it did, as
 * JSON, is the output FR_JOB_RESULT; without $FLOWRUN_OUTPUT it is printed. engine/spec/kinds.h
 * lists the inputs and outputs of every task.
 */
#ifndef TASKS_JOB_H
#define TASKS_JOB_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Exit code of a task whose inputs are wrong; the engine tries it not again (engine/spec/spec.h,
 * FR_EXIT_USAGE). */
enum { FR_JOB_USAGE = 64 };

/* The output that holds what a task did (engine/spec/kinds.h, FR_RESULT). */
#define FR_JOB_RESULT "_result"

struct fr_job {
    const char *name; /* of the task kind */
    json_t *with;     /* owns: inputs */
    json_t *did;      /* owns: becomes the output FR_JOB_RESULT; a body adds to it */
    size_t n_notes;   /* lines of fr_note so far */
    bool no_summary;  /* do not print "nothing to do" when there are no notes */
    bool dry_run;     /* report what would be done, do nothing */
    struct fr_arena arena;
    struct fr_err wrong; /* the first input of a wrong type; rc FR_OK: none */
};

/* A body does the task. It calls fr_inputs_ok() once it has read its inputs. */
typedef enum fr_rc fr_job_body(struct fr_job *job, struct fr_err *err);

/* Reads the inputs, runs body, prints the error (stderr) and gives the result. Returns the exit
 * status: 0 done, 1 failed, 2 the inputs are wrong (FR_USAGE). */
int fr_job_main(const char *name, int argc, char **argv, fr_job_body *body);

/* Inputs by name. What is absent or null gives NULL or otherwise; texts live as long as the job. */
const char *fr_input_text(struct fr_job *job, const char *key);
int64_t fr_input_int(struct fr_job *job, const char *key, int64_t otherwise);
double fr_input_real(struct fr_job *job, const char *key, double otherwise);
bool fr_input_bool(struct fr_job *job, const char *key, bool otherwise);

/* A NULL-ended array in the job's arena; never NULL unless there is no memory. */
const char **fr_input_list(struct fr_job *job, const char *key, size_t *n);

/* A path on the node, made absolute: below the node's work folder (fr_work_folder). */
const char *fr_input_path(struct fr_job *job, const char *key);

/* FR_USAGE when some input read so far has a wrong type. */
enum fr_rc fr_inputs_ok(const struct fr_job *job, struct fr_err *err);

/* $FLOWRUN_WORK with ~ expanded, else the folder `work` in the node's home, else the current one.
 */
const char *fr_work_folder(struct fr_job *job);

/* Writes K=V to $FLOWRUN_OUTPUT when that is set, and into the result. */
enum fr_rc fr_output(struct fr_job *job, struct fr_err *err, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* An environment variable, otherwise when it is not set or empty. */
const char *fr_env(const char *name, const char *otherwise);
int64_t fr_env_int(const char *name, int64_t otherwise);
/* Whether other nodes (of a local one) or other jobs (of Slurm) may be on this machine. */
bool fr_machine_shared(void);

/* The name of the gang's member with that rank, in the job's arena. */
const char *fr_peer_name(struct fr_job *job, int64_t rank);

/* A member of an object; "" where it is no text. */
const char *fr_text_at(const json_t *object, const char *key);

/* One line of the log, and one more text in the array `key` of the result. In the log, paths below
 * the work folder are relative to it. */
void fr_note(struct fr_job *job, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif

/*
 * What Slurm's accounting (slurmdbd) says of jobs that have ended, by sacct. Pure. Tried with Slurm
 * 22.05.
 */
#ifndef FR_SLURM_ACCOUNTING_H
#define FR_SLURM_ACCOUNTING_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/slurm/allocation.h"

enum { FR_SLURM_TRES = 256 };

/* A job that is asked for. Ids are used again: a record counts only with the job's name, and a
 * submit time near submitted_wall, by this machine's clock; 0: any. */
struct fr_accounted {
    int64_t job, element; /* as of the life */
    const char *tag;      /* the job's name is fr-TAG */
    int64_t submitted_wall;
};

/* One record of a job with its steps; a job that was requeued has several. */
struct fr_account {
    int64_t job, element;
    char tag[33];
    char state[FR_SLURM_WORD]; /* "COMPLETED", "CANCELLED by 1000" */
    int64_t submit_wall;
    int64_t elapsed_ms;
    int64_t max_rss;          /* bytes, of the largest task of all steps; 0: not known */
    int64_t energy_j;         /* 0: not known */
    char tres[FR_SLURM_TRES]; /* what it had: "cpu=2,gres/gpu=4,node=2"; "": nothing */
    bool ended;               /* the job has */
    bool whole;               /* and all of its steps */
};

/* NULL-terminated, argv[0] the program's name. n > 0. NULL: no memory. */
const char *const *fr_sacct_args(const struct fr_accounted *jobs, size_t n, struct fr_arena *arena);

/* Calls on_record for each record of a job with a name fr-TAG, in a sacct that ended with status 0.
 * FR_CORRUPT: it is no such output; err quotes it, and nothing was told. */
typedef void fr_account_fn(void *arg, const struct fr_account *record);
enum fr_rc fr_sacct_read(struct fr_str out, fr_account_fn *on_record, void *arg,
                         struct fr_err *err);

/* Adds the record to sum, which was zero before the first, if it is of that job. */
void fr_account_add(struct fr_account *sum, const struct fr_account *record,
                    const struct fr_accounted *of);

/* How many a list such as tres has of that name, "node" or "gres/gpu", of all types. 0: none. */
int64_t fr_tres_count(const char *tres, const char *name);

#endif

/*
 * The commands of Slurm: what they are given, and what they print. Pure. They run in the
 * environment of fr_slurm_environ() (submit/environ.h). Tried with Slurm 22.05 and 24.11.
 */
#ifndef FR_SLURM_COMMANDS_H
#define FR_SLURM_COMMANDS_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/slurm/allocation.h"
#include "engine/spec/spec.h"

/* Elements of an array have one name to Slurm, fr-TAG with five zeros at the end of the TAG. Theirs
 * has their index there. Writes the tag of an element of the array of any; element 0: tag itself.
 */
void fr_slurm_tag(const char *any, int64_t element, char tag[33]);
bool fr_slurm_same_array(const char *a, const char *b); /* those tags, both of elements */

/* The folder of an allocation, WORK/alloc/TAG, made by the driver with mode 0700, has
 *
 *   job.sh    the script: exec srun … FLOWNODE keep --alloc FOLDER
 *   job.log   what the script printed
 *   claim, place.K, place.K.closed   of the keepers (node/keep.h)
 */
struct fr_slurm_submit {
    const struct fr_allocation_spec *spec;
    const char *account;  /* of the cluster; that of the allocation counts first; NULL */
    const char *tag;      /* 32 digits; the job's name is fr-TAG */
    const char *folder;   /* absolute */
    const char *comment;  /* "flowrun:RUN:NAME" */
    const char *flownode; /* absolute path of the program, for the script */
    int64_t kill_wait_ms; /* KillWait of the cluster; 0: Slurm's default */
    int64_t lease_ms;     /* of the allocation; 0: none */
    bool binds;           /* the cluster's steps may be bound to CPUs: this one is not to be */
    /* Of an array: n of them, ascending, as of the life; tag and folder are those of any element.
     * The script makes the folder of its element. */
    const int64_t *elements;
    size_t n_elements; /* 0: one job */
};

/* NULL-terminated arguments, argv[0] the program's name. NULL: no memory. */
const char *const *fr_sbatch_args(const struct fr_slurm_submit *s, struct fr_arena *arena);
/* The script's text, by spec's nodes, gpus and container alone. */
const char *fr_slurm_script(const struct fr_slurm_submit *s, struct fr_arena *arena);
/* All jobs of this user with those tags, ended ones too, as long as Slurm knows them. Elements of
 * an array, one after the other, are one name. */
struct fr_slurm_named {
    const char *tag;
    int64_t element;
};
const char *const *fr_squeue_args(const struct fr_slurm_named *tags, size_t n,
                                  struct fr_arena *arena);
struct fr_slurm_id {
    int64_t job, element;
};
const char *const *fr_scancel_args(const struct fr_slurm_id *ids, size_t n, struct fr_arena *arena);
const char *const *fr_slurm_config_args(struct fr_arena *arena);
/* `srun --help`, which lists the options that the cluster's plugins add; and whether pyxis is one
 * of them. */
const char *const *fr_srun_help_args(struct fr_arena *arena);
bool fr_srun_has_pyxis(struct fr_str help);
#define FR_SLURM_NO_PYXIS                                                                          \
    "allocation '%s' wants a container of pyxis, and srun has no --container-image here; "         \
    "expected "                                                                                    \
    "a cluster with that plugin, or apptainer: IMAGE"
/* A link to the keeper of a place: srun of a step that relays bytes (node/relay.h). */
struct fr_slurm_step {
    int64_t job; /* of an element: the id of its own */
    const char *host;
    const char *folder, *flownode;
    int place; /* 1, 2, … */
};
const char *const *fr_srun_args(const struct fr_slurm_step *s, struct fr_arena *arena);

/* How sbatch ended. code: as of fr_command_end. LATER: refused, but not for ever (limits). UNCLEAR:
 * there may be a job. */
enum fr_sbatch_end { FR_SBATCH_JOB, FR_SBATCH_REFUSED, FR_SBATCH_LATER, FR_SBATCH_UNCLEAR };
enum fr_sbatch_end fr_sbatch_read(int code, struct fr_str out, struct fr_str errors, int64_t *job);
/* What sbatch said against it, without "sbatch: error: ". */
const char *fr_sbatch_refusal(struct fr_str errors, struct fr_arena *arena);
/* Whether these errors say that slurmctld could not be asked. */
bool fr_slurm_unanswered(struct fr_str errors);

/* Calls on_job for each line of a squeue that ended with status 0. FR_CORRUPT: it is no such
 * output; err quotes it. Lines of jobs whose name is not fr-TAG are left out. */
struct fr_squeue_line {
    struct fr_slurm_job job; /* its hosts are borrowed from out */
    char tag[33];
};
typedef void fr_squeue_fn(void *arg, const struct fr_squeue_line *line);
enum fr_rc fr_squeue_read(struct fr_str out, fr_squeue_fn *on_job, void *arg, struct fr_err *err);

/* What `scontrol show config` says. */
struct fr_slurm_config {
    int version[2];   /* 22, 5; 0: it does not say */
    char cluster[64]; /* ClusterName */
    bool cgroups;     /* ProctrackType is cgroup */
    bool binds;       /* TaskPlugin binds steps to CPUs, or it does not say */
    bool accounting;  /* AccountingStorageType is slurmdbd */
    int rpc; /* for fr_cluster_limit(): half of what its rate limit allows in a minute; 0: none */
    int64_t min_age_ms, kill_wait_ms;
    int max_array;
};
enum fr_rc fr_slurm_config_read(struct fr_str out, struct fr_slurm_config *c, struct fr_err *err);

#endif

/*
 * A cluster under Slurm in the simulated machine room: its controller, which no process is, the
 * commands that ask it, and the keepers of the jobs' places. Place K of an allocation is machine K,
 * and so is element K - 1 of an array; elements begin long after each other.
 * The commands run on control, or on the login node; WORK lies there, and keepers reach it, too.
 *
 * What squeue and scontrol print is what Slurm 22.05 printed (tests/unit/slurm).
 *
 * Rules: at most one job of a tag works, ever; commands keep the budget; no job is left at the end.
 */
#ifndef TESTS_SIM_SLURM_H
#define TESTS_SIM_SLURM_H

#include "tests/sim/world.h"

enum { SIM_JOBS = 32, SIM_PLACES = 2, SIM_LOGIN = 3 /* machine of a login node */ };

enum sim_job_state { SIM_PENDING, SIM_RUNNING, SIM_ENDED };

struct sim_job {
    struct world *w;
    int64_t id;    /* its own; the last element of an array has the array's */
    int64_t array; /* of an element; else id */
    int index;     /* -1: it is no element */
    int machine;   /* of its first place */
    char tag[40], folder[120];
    int places;
    enum sim_job_state state;
    const char *word; /* Slurm's, once it has ended or is about to: "CANCELLED"; NULL */
    int64_t start_us; /* it begins then */
    int64_t limit_ms, submit_us, began_us, end_us;
    bool gone;   /* squeue does not know it: an element that was cancelled as it waited */
    bool told;   /* its keepers have TERM */
    bool twin;   /* another job has the claim */
    int working; /* so many keepers had the claim */
    int keepers; /* that live */
    bool up[SIM_PLACES];
    volatile bool closing[SIM_PLACES];
};

/* What is to become of a command at its effect (SIM_AT_EFFECT), by its kill. */
enum sim_stroke {
    SIM_STROKE_NONE,
    SIM_STROKE_LOST, /* it dies, and the controller never hears of it */
    SIM_STROKE_LATE, /* it dies; the controller acts a minute and a half later */
    SIM_STROKE_TWIN  /* three minutes later: after another sbatch */
};

struct sim_slurm {
    struct world *w;
    struct sim_machine *front; /* where its commands run */
    struct sim_job jobs[SIM_JOBS];
    size_t n_jobs;
    int64_t queue_us;            /* how long a job waits */
    enum sim_stroke stroke;      /* of the command that is at its effect */
    bool acted;                  /* that is behind it */
    int asked, submits, works;   /* commands; of them sbatch; jobs that worked */
    int64_t credit, credited_us; /* of the budget */
    pid_t payer;
    int rpc;
};

/* Before the engine begins. login: its commands run on machine SIM_LOGIN. */
void sim_slurm_begin(struct sim_slurm *s, struct world *w, bool login);
/* The link to the node of that name: a place, or the login node. */
enum fr_rc sim_slurm_link(struct sim_slurm *s, const struct fr_exec_node *node, struct fr_link *out,
                          struct fr_err *err);
/* Where a place is: that of a copy is where the row says that the copy is. */
struct sim_machine *sim_slurm_machine(struct sim_slurm *s, const char *name);
struct sim_job *sim_slurm_at(struct sim_slurm *s, const struct sim_machine *m); /* NULL: none up */
/* It ends at once, without a word of its keepers; what it had is killed. */
void sim_slurm_kill(struct sim_job *job, const char *word);
bool sim_slurm_open(const struct sim_slurm *s); /* an allocation is not over in the store */
void sim_slurm_check_end(struct sim_slurm *s);

#endif

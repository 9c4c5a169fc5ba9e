/*
 * The life of one allocation of a Slurm cluster: a pure state machine. An event and the time go in,
 * a changed life and actions come out. It does no I/O and reads no clock.
 *
 * Whoever drives it writes the life to its row before it performs the actions of the same event.
 * After a crash it loads the row and applies FR_ALLOCATION_LOADED, whose actions are those that may
 * not have been performed. Actions may come again; each is safe to repeat.
 *
 *   WANTED      to be submitted once the cluster may be asked
 *   SUBMITTING  sbatch was started, or is about to be
 *   LOOKING     how sbatch ended is not known: the job is looked for by its name, which has the tag
 *   QUEUED      Slurm has the job, which does not run yet
 *   STARTING    it runs; its keepers (node/keep.h) are waited for
 *   UP          each of its places has answered once
 *   RELEASING   scancel was started, or is about to be, until Slurm says that the job has ended
 *   OVER        the job has ended, or there was none: see cause and note
 *
 * At most one job of a tag works. sbatch is repeated, with the same tag, only when two answers of
 * Slurm 60 s apart know no job of that name, the first at least 120 s after sbatch ended; should
 * there be two jobs all the same, the keepers of the second start nothing (node/keep.h), and this
 * machine cancels it.
 *
 * From silence nothing is concluded: an error of a command of Slurm is no event.
 */
#ifndef FR_SLURM_ALLOCATION_H
#define FR_SLURM_ALLOCATION_H

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "engine/words/causes.h"
#include "engine/words/states.h"

#include <stdbool.h>
#include <stdint.h>

enum { FR_SLURM_WORD = 32, FR_SLURM_REASON = 96, FR_ALLOCATION_NOTE = 400 };

/* Everything durable about an allocation, but for what identifies it (its run, name and tag) and
 * its hosts. Times of the wall are in ms; 0: not known. */
struct fr_allocation_life {
    enum fr_allocation_state state;
    int64_t job;                  /* Slurm's id; 0: not known */
    int64_t submits;              /* how often sbatch was started */
    char slurm[FR_SLURM_WORD];    /* Slurm's word for the state of the job: "PENDING"; "": none */
    char reason[FR_SLURM_REASON]; /* Slurm's word for why it waits or has ended: "Priority" */
    int64_t estimate_wall;        /* Slurm's guess of its start, while it waits */
    int64_t submitted_wall, looked_wall; /* sbatch ended; it was first not found; 0: it was not */
    int64_t start_wall, end_wall;        /* it began to run; its limit */
    int64_t ended_wall;
    enum fr_cause cause;           /* OVER: of the attempts that lived there; NONE: none should */
    bool proven;                   /* OVER: no process of it is left */
    char note[FR_ALLOCATION_NOTE]; /* for people: why it is over, or Slurm's refusal */
};

enum fr_allocation_event_kind {
    FR_ALLOCATION_LOADED,    /* the first event of a stored row */
    FR_ALLOCATION_MAY_ASK,   /* WANTED: the cluster may be asked now */
    FR_ALLOCATION_SUBMITTED, /* sbatch gave the id job */
    FR_ALLOCATION_REFUSED,   /* sbatch refused: text; transient: the same may be accepted later */
    FR_ALLOCATION_UNCLEAR,   /* sbatch ended without a clear answer */
    FR_ALLOCATION_SEEN,      /* Slurm's answer about the job, or by its name: seen */
    FR_ALLOCATION_UNSEEN,    /* Slurm answered, and does not know it */
    FR_ALLOCATION_ALL_UP,    /* every place has answered */
    FR_ALLOCATION_CLAIMED,   /* the job `job` has claimed the tag */
    FR_ALLOCATION_CLOSED,    /* every keeper wrote that its last process is gone */
    FR_ALLOCATION_UNNEEDED,  /* nothing uses it any more, or it must go */
    FR_ALLOCATION_CANCELLED, /* scancel ended, however */
    FR_ALLOCATION_DUE        /* due_ms is reached */
};

/* What squeue or sacct says of one job. */
struct fr_slurm_job {
    int64_t job;
    char state[FR_SLURM_WORD]; /* "RUNNING"; of sacct only the first word */
    char reason[FR_SLURM_REASON];
    char hosts[4096]; /* as Slurm writes them: "nid[001-003]"; "": none yet */
    int64_t estimate_wall, start_wall, end_wall; /* 0: none */
    int64_t restarts; /* how often it was requeued; -1: the answer does not say */
    bool cgroups;     /* the cluster ends all processes of a job with it (ProctrackType) */
};

struct fr_allocation_event {
    enum fr_allocation_event_kind kind;
    int64_t job;
    bool transient;
    struct fr_str text;
    const struct fr_slurm_job *seen;
};

enum {                               /* actions, a bit each */
       FR_ALLOCATION_DO_SUBMIT = 1,  /* sbatch */
       FR_ALLOCATION_DO_LOOK = 2,    /* ask for the job by its name */
       FR_ALLOCATION_DO_ASK = 4,     /* ask for the job, now rather than in turn */
       FR_ALLOCATION_DO_CONNECT = 8, /* its places may be connected, seen.hosts names their hosts */
       FR_ALLOCATION_DO_CANCEL = 16, /* scancel of life.job */
       FR_ALLOCATION_DO_CANCEL_TWIN = 32, /* scancel of out.twin, which starts nothing */
       FR_ALLOCATION_DO_END = 64          /* its places are gone: life.cause, life.proven */
};

struct fr_allocation_now { /* what comes out of an event */
    unsigned actions;
    bool changed; /* the row: it is to be written before the actions */
    int64_t
        ask_ms; /* mono_ms() when Slurm is to be asked about the job in turn; INT64_MAX: never */
    int64_t due_ms; /* when FR_ALLOCATION_DUE is wanted, INT64_MAX: never */
    int64_t twin;
};

/* What the machine remembers beside the row; zero at first and after a load. */
struct fr_allocation {
    struct fr_allocation_life life;
    int64_t ask_ms, due_ms, pause_ms;
    int64_t unseen_ms; /* since when Slurm does not know the job; 0: it does */
    bool unneeded, connected, closed;
};

/* Applies ev. wall_ms, mono_ms: the time. Events that make no sense in a state change nothing. */
void fr_allocation_apply(struct fr_allocation *a, const struct fr_allocation_event *ev,
                         int64_t mono_ms, int64_t wall_ms, struct fr_allocation_now *out);

/* The cause of attempts that lived in a job that ended in that state of Slurm ("TIMEOUT" …), and
 * what to say. cancelled: by us. */
enum fr_cause fr_allocation_cause(const char *slurm, bool cancelled);
/* Slurm's reason in words, "others come first (Priority)"; borrowed or in buf. */
const char *fr_slurm_reason(const char *reason, char buf[FR_ALLOCATION_NOTE]);
/* Whether a job with that reason will not start as it is (BadConstraints …). */
bool fr_slurm_reason_final(const char *reason);

#endif

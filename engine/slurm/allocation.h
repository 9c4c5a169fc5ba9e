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
 *   LOOKING     how sbatch ended is not known: Slurm is asked whether it has a job of the tag
 *   QUEUED      Slurm has the job, which does not run yet
 *   STARTING    it runs; its keepers (node/keep.h) are waited for
 *   UP          its keepers have written, and each place that was needed has answered once
 *   RELEASING   scancel was started, or is about to be, until Slurm says that the job has ended.
 *               Without a job: sbatch still runs, or the job is looked for, to be cancelled
 *   OVER        the job has ended, or there was none: see cause and note
 *
 * At most one job of a tag works. sbatch is repeated, with the same tag, only when two answers of
 * Slurm 60 s apart know no job of that tag, the first at least 120 s after sbatch ended; should
 * there be two jobs all the same, the keepers of the second start nothing (node/keep.h), and this
 * machine cancels it.
 *
 * An element of an array is an allocation like any other. Its job is the array's, its name to Slurm
 * JOB_INDEX: the id of its own that Slurm gives it when it starts may be the array's, too.
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
    int64_t job;                  /* Slurm's id, of the whole array; 0: not known */
    int64_t element;              /* 1 + its index in the array; 0: it is a job by itself */
    int64_t submits;              /* how often sbatch was started */
    char slurm[FR_SLURM_WORD];    /* Slurm's word for the state of the job: "PENDING"; "": none */
    char reason[FR_SLURM_REASON]; /* Slurm's word for why it waits or has ended: "Priority" */
    int64_t estimate_wall;        /* Slurm's guess of its start, while it waits */
    int64_t submitted_wall;       /* sbatch ended */
    int64_t start_wall, end_wall; /* it began to run; its limit */
    int64_t ended_wall;
    int64_t elapsed_ms; /* OVER: how long it ran, as Slurm says; 0: not at all, or not known */
    /* RELEASING, OVER: of the attempts that live there or wait for it; STOPPED: it was given back,
     * or its lease was over.
     * Where START_FAILED, not all of its places had answered. */
    enum fr_cause cause;
    bool proven;                   /* OVER: no process of it is left */
    char note[FR_ALLOCATION_NOTE]; /* for people: why it is over, or Slurm's refusal */
};

enum fr_allocation_event_kind {
    FR_ALLOCATION_LOADED,    /* the first event of a stored row */
    FR_ALLOCATION_MAY_ASK,   /* WANTED: the cluster may be asked now */
    FR_ALLOCATION_SUBMITTED, /* sbatch gave the id job */
    FR_ALLOCATION_REFUSED,   /* sbatch refused: text; transient: the same may be accepted later */
    FR_ALLOCATION_UNCLEAR,   /* sbatch ended without a clear answer */
    FR_ALLOCATION_ANSWERED,  /* Slurm's answer about the tag: all jobs it has of it, seen */
    FR_ALLOCATION_ALL_UP,    /* every place that is needed has a link */
    FR_ALLOCATION_AWAY,      /* one has none: where it had one, the job may have ended */
    FR_ALLOCATION_CLAIMED,   /* the file `claim` names job */
    FR_ALLOCATION_CLOSED,    /* every keeper wrote that its last process is gone: leased */
    FR_ALLOCATION_UNNEEDED,  /* nothing uses it any more, or it must go */
    FR_ALLOCATION_SPENT,     /* UP: what lived there was stopped before its limit */
    FR_ALLOCATION_CANCELLED, /* a scancel of this allocation ended, however */
    FR_ALLOCATION_DUE        /* due_ms is reached */
};

/* What squeue says of one job. Times of the wall in ms; 0: none. */
struct fr_slurm_job {
    int64_t job;               /* of an element: its array's */
    int64_t element;           /* as of the life */
    char state[FR_SLURM_WORD]; /* "RUNNING" */
    char reason[FR_SLURM_REASON];
    struct fr_str hosts; /* as Slurm writes them: "nid[001-003]"; empty: none yet. Borrowed */
    int64_t start_wall;  /* PENDING: Slurm's guess of it */
    int64_t end_wall;    /* its limit; of an ended job its end */
};

/* Before an ANSWERED the driver reads claim and *.closed, where the answer has a job that is not
 * PENDING, and applies CLAIMED and CLOSED if they are news. */
struct fr_allocation_event {
    enum fr_allocation_event_kind kind;
    int64_t job;
    bool transient, soon; /* soon: it is tried again at once, for less */
    bool leased;          /* CLOSED: as the lease of the job was over */
    struct fr_str text; /* REFUSED, UNCLEAR: sbatch's; ANSWERED: the end of job.log, may be empty */
    const struct fr_slurm_job *seen; /* n_seen of them; 0: Slurm knows no job of the tag */
    size_t n_seen;
};

/* Actions, a bit each. */
enum {
    FR_ALLOCATION_DO_SUBMIT = 1,       /* sbatch */
    FR_ALLOCATION_DO_ASK = 2,          /* ask for the tag now rather than in turn */
    FR_ALLOCATION_DO_CONNECT = 4,      /* its places may be connected: hosts is the job's */
    FR_ALLOCATION_DO_CANCEL = 8,       /* scancel of life.job; its end is CANCELLED */
    FR_ALLOCATION_DO_CANCEL_TWIN = 16, /* scancel of twin, which starts nothing */
    FR_ALLOCATION_DO_END = 32          /* its places are gone: life.cause, life.proven */
};

struct fr_allocation_now { /* what comes out of an event */
    unsigned actions;
    bool changed; /* the life: it is to be written before the actions */
    /* mono_ms(); INT64_MAX: never. When Slurm is to be asked about the tag in turn, unless a
     * question about it is under way; when DUE is wanted (WANTED: no MAY_ASK before). */
    int64_t ask_ms, due_ms;
    int64_t twin;
    struct fr_str hosts; /* borrowed from the event */
};

/* What the machine remembers beside the life. Zero it to start, and set life: all zero, or as it
 * was stored. */
struct fr_allocation {
    struct fr_allocation_life life;
    int64_t queue_for_ms; /* the driver's: QUEUED for longer, it is given up; 0: it may be */
    int64_t start_ms;     /* the driver's: within it its places must answer; 0: 5 min */
    bool cgroups; /* the driver's: Slurm ends all processes of a job with it (ProctrackType) */
    int64_t ask_ms, due_ms;    /* as of the last event; 0: never */
    int64_t paced_ms, pace_ms; /* since when Slurm is asked at this pace; how often now */
    int64_t silent_until_ms;   /* an answer without a job counts from here on */
    int64_t unseen_ms;         /* since when Slurm knows no job of the tag; 0: it does */
    int64_t cancel_pause_ms;   /* between the end of a scancel and the next */
    int64_t keepers_by_ms;     /* STARTING: until when its places must answer */
    int64_t claimed;           /* the job in `claim`; 0: none yet */
    bool connected, closed, leased;
    bool cancelled; /* RELEASING: a scancel of its job has ended */
    bool away;      /* UP: a place has no link; Slurm is asked as after a submit */
};

enum { FR_SLURM_JOB_TEXT = 48 };
/* "4711", "4711_7": as Slurm's commands name it. */
const char *fr_slurm_job_text(int64_t job, int64_t element, char buf[FR_SLURM_JOB_TEXT]);

/* Applies ev. wall_ms, mono_ms: the time. Events that make no sense in a state change nothing. */
void fr_allocation_apply(struct fr_allocation *a, const struct fr_allocation_event *ev,
                         int64_t mono_ms, int64_t wall_ms, struct fr_allocation_now *out);

#endif

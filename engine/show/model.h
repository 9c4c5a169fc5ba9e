/*
 * What a view knows of a run: its plan, and what notes (run.h) have said of each instance. Notes of
 * a run in this process and notes that a follower makes from rows of the store (follow.h) feed it
 * alike, so whatever shows a run needs no struct fr_run.
 */
#ifndef FR_SHOW_MODEL_H
#define FR_SHOW_MODEL_H

#include "engine/run/run.h"

struct cli_model_inst {
    enum fr_state_of state;
    enum fr_cause cause;              /* how its newest attempt ended */
    uint32_t attempt_no, began;       /* began: attempts that were sent to their node */
    bool unreachable;                 /* its node is, while it lives */
    int64_t started_wall, ended_wall; /* 0: not yet */
    uint64_t left;                    /* bytes of output of ended attempts that are still to come */
    uint64_t log_at;                  /* its log was noted up to here … */
    uint32_t log_no;                  /* … that of this attempt */
    uint32_t full_no;                 /* the newest attempt whose log was noted as full */
    const char *reason;               /* why it ended; in the arena, never NULL */
    /* Of an instance that no task waits for, in the order in which its task declares them, each
     * "NAME=value"; in the arena. NULL: none. */
    const struct fr_strs *outputs;
};

struct cli_model {              /* zero it to start */
    const struct fr_plan *plan; /* borrows; NULL: not known yet */
    const char *name;           /* of the pipeline; borrows */
    int64_t no;
    struct fr_id id;
    struct fr_run_now now;
    struct cli_model_inst *insts; /* one an instance, in the arena; NULL before the beginning */
    int64_t seq;                  /* of the newest event that a note stood for */
    struct fr_arena arena;
};

/* Fills insts. no, id, name and plan must be set. */
enum fr_rc cli_model_begin(struct cli_model *m, struct fr_err *err);
/* What has happened before this process took the run. Behind cli_model_begin(). */
enum fr_rc cli_model_load(struct cli_model *m, const struct fr_run *run, struct fr_err *err);
void cli_model_finish(struct cli_model *m);

/* Takes what the note says. false: all of that was taken before. Of output that was taken in part,
 * the note keeps the rest. */
bool cli_model_take(struct cli_model *m, struct fr_note *note);

#endif

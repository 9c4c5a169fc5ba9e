/*
 * The state of a run that a view shows: the plan, and one entry for each instance, updated by notes
 * (run.h). Notes come from a run in this process or from a follower (client/follow.h), so a view
 * needs no struct fr_run.
 */
#ifndef FR_SHOW_MODEL_H
#define FR_SHOW_MODEL_H

#include "engine/run/run.h"

struct cli_model_inst {
    enum fr_state_of state;
    enum fr_cause cause;              /* of the end of the newest attempt */
    uint32_t attempt_no, began;       /* began: number of attempts that were sent to the node */
    bool unreachable;                 /* the instance lives, and its node is unreachable */
    int64_t started_wall, ended_wall; /* 0: not yet */
    uint64_t left;                    /* bytes of output of ended attempts still to come */
    uint64_t log_at;                  /* offset up to which the log of attempt log_no was noted */
    uint32_t log_no;
    uint32_t full_no;   /* the newest attempt whose log was noted as full */
    const char *reason; /* of the state; in the arena, never NULL */
    /* "NAME=value", in the order of the task's outputs; only of instances that no task waits for.
     * In the arena. NULL: none. */
    const struct fr_strs *outputs;
};

struct cli_model {              /* zero it to start */
    const struct fr_plan *plan; /* borrows; NULL: not known yet */
    const char *name;           /* of the pipeline; borrows */
    int64_t no;
    struct fr_id id;
    struct fr_run_now now;
    struct cli_model_inst *insts; /* owns: plan->n_insts; NULL before cli_model_begin() */
    int64_t seq;                  /* of the newest event taken */
    struct fr_arena arena;
};

/* Fills insts. no, id, name and plan must be set. */
enum fr_rc cli_model_begin(struct cli_model *m, struct fr_err *err);
/* cli_model_begin(), with the present state of run. */
enum fr_rc cli_model_load(struct cli_model *m, const struct fr_run *run, struct fr_err *err);
/* The run has a plan with more instances (fr_plan_moved()), and those that were there keep what is
 * known of them. False: no memory, and nothing has changed. */
bool cli_model_grow(struct cli_model *m, const struct fr_plan *plan);
void cli_model_finish(struct cli_model *m);

/* Updates the model. false: the note was taken before. Cuts from note the output that was taken
 * before. */
bool cli_model_take(struct cli_model *m, struct fr_note *note);

#endif

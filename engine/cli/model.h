/*
 * What a view knows of a run: its plan, and what notes (run.h) have said of each instance. Notes of
 * a run in this process and notes that a follower makes from rows of the store (follow.h) feed it
 * alike, so whatever shows a run needs no struct fr_run.
 */
#ifndef FR_CLI_MODEL_H
#define FR_CLI_MODEL_H

#include "engine/run/run.h"

struct cli_model_inst {
    enum fr_state_of state;
    enum fr_cause cause;              /* how its newest attempt ended */
    uint32_t attempt_no, began;       /* began: attempts that were sent to their node */
    bool unreachable;                 /* its node is, while it lives */
    int64_t started_wall, ended_wall; /* 0: not yet */
    uint64_t left;                    /* bytes of output of ended attempts that are still to come */
    const char *reason;               /* why it ended; in the arena, never NULL */
    const struct fr_strs *outputs;    /* each "NAME=value", in the arena; NULL: none are kept */
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

/* Takes what the note says; false: it stands for an event that was taken before. */
bool cli_model_take(struct cli_model *m, const struct fr_note *note);

/* Whether no other task waits for the task: its outputs are the run's result. */
bool cli_model_last(const struct cli_model *m, uint32_t task);

#endif

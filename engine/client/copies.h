/*
 * Reads the copies of logs (runs/<id>/) piece by piece, for each attempt that lives or whose output
 * is incomplete. Each piece is a note of kind LOG; a full log is noted once with kind FULL.
 */
#ifndef FR_CLIENT_COPIES_H
#define FR_CLIENT_COPIES_H

#include "engine/run/run.h"

enum { CLI_PIECE_BYTES = 32 << 10 };

struct cli_copy { /* the output of an attempt */
    uint32_t inst, no;
    int fd, idx_fd; /* -1: not open */
    uint64_t at;    /* offset up to which the log was noted */
    uint64_t bytes; /* of an ended attempt: length of its output */
    int64_t mark_ms;
    uint64_t mark_end; /* bytes from at to this offset were written at mark_ms */
    bool ended, away;  /* away: its node is unreachable */
    bool full;         /* FULL was noted */
};

struct cli_copies { /* zero it to start */
    const struct fr_plan *plan;
    void (*note)(void *arg, const struct fr_note *note);
    void *arg;
    size_t budget;            /* bytes that may still be read */
    struct cli_copy **v;      /* owns: the logs that are read, n */
    struct cli_copy **newest; /* owns: for each instance its newest log in v; NULL: none */
    size_t n, cap, turn, n_open;
    struct fr_buf path;
    size_t dir; /* length of the folder in path */
    char piece[CLI_PIECE_BYTES];
};

/* plan, note and arg must be set. FR_DENIED: the path of the folder has a symbolic link. */
enum fr_rc cli_copies_begin(struct cli_copies *c, const char *home, struct fr_id run,
                            struct fr_err *err);
void cli_copies_finish(struct cli_copies *c);
/* The run has a plan with more instances (fr_plan_moved()). FR_NOMEM: nothing has changed. */
enum fr_rc cli_copies_grow(struct cli_copies *c, const struct fr_plan *plan, struct fr_err *err);

/* Attempt no of inst starts. */
enum fr_rc cli_copies_add(struct cli_copies *c, uint32_t inst, uint32_t no, struct fr_err *err);
/* The newest attempt of inst ended with `bytes` bytes of output. Notes the bytes that the copy has;
 * *left: the bytes that it lacks. false: the budget is used up; set a new one and call again. */
bool cli_copies_end(struct cli_copies *c, uint32_t inst, uint64_t bytes, uint64_t *left);
/* The run is over: all attempts have ended. */
void cli_copies_end_all(struct cli_copies *c);
/* Notes new output within the budget: a piece of each log in turn. */
void cli_copies_take(struct cli_copies *c);

/* Whether output of an ended attempt is still to come. */
bool cli_copies_wait(const struct cli_copies *c);
/* Sets whether the node is unreachable. Output of such a node is not awaited. */
void cli_copies_node(struct cli_copies *c, uint32_t node, bool away);

#endif

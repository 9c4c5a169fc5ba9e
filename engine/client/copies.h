/*
 * Reads the copies of logs that the owner of a run writes (runs/<id>/), piece by piece: of each
 * attempt that lives, or whose output is not complete. Pieces are notes of the kinds LOG and FULL.
 */
#ifndef FR_CLIENT_COPIES_H
#define FR_CLIENT_COPIES_H

#include "engine/run/run.h"

enum { CLI_PIECE_BYTES = 32 << 10 };

struct cli_copy { /* the output of an attempt */
    uint32_t inst, no;
    int fd, idx_fd; /* -1: not open */
    uint64_t at;    /* noted up to here */
    uint64_t bytes; /* ended: as many as its node says it wrote */
    int64_t mark_ms;
    uint64_t mark_end; /* what lies before this offset was written at mark_ms */
    bool ended, away;  /* away: its node cannot be reached */
    bool full;         /* and this was noted */
};

struct cli_copies { /* zero it to start */
    const struct fr_plan *plan;
    void (*note)(void *arg, const struct fr_note *note);
    void *arg;
    size_t budget;            /* bytes that may still be read */
    struct cli_copy **v;      /* owns: those that are looked at */
    struct cli_copy **newest; /* owns: of each instance, among them; NULL: none */
    size_t n, cap, turn, n_open;
    struct fr_buf path;
    size_t dir; /* the path's length up to the names of logs */
    char piece[CLI_PIECE_BYTES];
};

/* plan, note and arg must be set. FR_DENIED: the folder is behind a symbolic link. */
enum fr_rc cli_copies_begin(struct cli_copies *c, const char *home, struct fr_id run,
                            struct fr_err *err);
void cli_copies_finish(struct cli_copies *c);

/* An attempt starts. */
enum fr_rc cli_copies_add(struct cli_copies *c, uint32_t inst, uint32_t no, struct fr_err *err);
/* The newest attempt of inst has ended, with so many bytes of output: notes what is here of it.
 * *left: still to come. false: the budget is used up before. */
bool cli_copies_end(struct cli_copies *c, uint32_t inst, uint64_t bytes, uint64_t *left);
/* The run is over: so are all attempts. */
void cli_copies_end_all(struct cli_copies *c);
/* Notes what is new, as far as the budget goes: a piece of each log in turn. */
void cli_copies_take(struct cli_copies *c);

/* Whether output of an ended attempt is to come. */
bool cli_copies_wait(const struct cli_copies *c);
/* Whether the node can be reached. Output of one that is away is not awaited. */
void cli_copies_node(struct cli_copies *c, uint32_t node, bool away);

#endif

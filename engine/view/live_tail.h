/*
 * Reads a full log while it has no end yet: its head, then the newest bytes from the tail beside it
 * (base/tail.h). Offsets up to the head's size are of the log. Beyond it they count the bytes of
 * the tail, until the log has its tail: from then on all offsets are of the log.
 */
#ifndef FR_VIEW_LIVE_TAIL_H
#define FR_VIEW_LIVE_TAIL_H

#include "engine/base/tail.h"

#include <sys/types.h>

struct live_tail { /* zero it to start */
    struct fr_tail_head h;
    bool used;   /* something was read from the tail */
    bool in_log; /* the log has its tail, or ended without one */
};

struct live_tail_from {
    int log, tail; /* tail: -1 there is none */
    uint64_t at;
};

/* Looks whether the log has its tail now, or is whole. True: *at, where the next line begins, is
 * an offset of the log again, and what was read behind it is to be read again. */
bool live_tail_look(struct live_tail *t, int tail, bool whole, uint64_t *at);

/* Reads up to n bytes at offset from.at; 0: there are no more, -1: errno. *left_out: so many before
 * them are gone. */
ssize_t live_tail_read(struct live_tail *t, struct live_tail_from from, char *p, size_t n,
                       uint64_t *left_out);

/* Moves *at to the last lines in the tail. False: it does not have so many, or there is none. */
bool live_tail_seek(struct live_tail *t, int tail, size_t lines, uint64_t *at);

#endif

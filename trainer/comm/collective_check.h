/*
 * Checking mode: what every rank is about to call, and whether it goes together. A rank says its
 * next data call to rank 0 and waits. Rank 0 lets the ranks of a communicator go on once all of
 * them have said the same. No I/O, no clock: control.c carries the messages.
 */
#ifndef TR_COMM_COLLECTIVE_CHECK_H
#define TR_COMM_COLLECTIVE_CHECK_H

#include "engine/base/err.h"
#include "engine/base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The next data call of a rank. On the wire, 2 * size numbers follow where `slices` says so: the
 * bytes for each rank of the communicator, then the bytes that each of them gives. */
struct tr_announced_call {
    uint64_t hash;       /* of the call, its bytes and its subject */
    int32_t comm;        /* 0: the world; else the number of the split that made the group */
    int32_t first, size; /* of the communicator: its first rank in the world, and how many */
    int32_t slices;      /* 0 or 1 */
    char what[64];       /* "all_gather 'layer 3' of 64 bytes": for messages */
};

/* What the ranks of a world have said; ranks by their number in the world. */
struct tr_collective_check;

enum fr_rc tr_collective_check_create(int ranks, struct tr_collective_check **out,
                                      struct fr_err *err);
void tr_collective_check_destroy(struct tr_collective_check *v);

/* Rank `rank` is about to call; body is a tr_announced_call and its numbers, copied. FR_PROTO: it
 * is none, or the rank has said something already. */
enum fr_rc tr_collective_check_announce(struct tr_collective_check *v, int rank, struct fr_str body,
                                        struct fr_err *err);

/* What rank `rank` waits in or does that is no data call ("a host collective"), a literal; NULL:
 * nothing. */
void tr_collective_check_elsewhere(struct tr_collective_check *v, int rank, const char *what);

/* Sets go[r] for each rank that may go on: all of its communicator have said the same. Their
 * announcements are taken away. */
void tr_collective_check_release(struct tr_collective_check *v, bool *go);

/* After tr_collective_check_release. FR_PROTO names two ranks of a communicator that are about to
 * call different things, two whose slices do not fit, or, when all ranks wait and none can go on,
 * what two of them wait in. */
enum fr_rc tr_collective_check_judge(const struct tr_collective_check *v, struct fr_err *err);

#endif

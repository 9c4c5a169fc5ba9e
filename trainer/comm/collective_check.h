/*
 * Checking mode: compares the next data calls of all ranks. A rank announces its next data call to
 * rank 0 and waits. Rank 0 releases the ranks of a communicator when all of them have announced the
 * same call. No I/O, no clock: control.c carries the messages.
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

/* The announced calls of a world; ranks are numbers in the world. */
struct tr_collective_check;

enum fr_rc tr_collective_check_create(int ranks, struct tr_collective_check **out,
                                      struct fr_err *err);
void tr_collective_check_destroy(struct tr_collective_check *v);

/* Adds the call of a rank; body is a tr_announced_call and its numbers, copied. FR_PROTO:
 * malformed, or the rank has announced a call already. */
enum fr_rc tr_collective_check_announce(struct tr_collective_check *v, int rank, struct fr_str body,
                                        struct fr_err *err);

/* what: the rank waits in something else than a data call ("a host collective"), a literal; NULL:
 * it does not. */
void tr_collective_check_elsewhere(struct tr_collective_check *v, int rank, const char *what);

/* Sets go[r] for each rank that may call: all ranks of its communicator have announced the same.
 * Their announcements are removed. */
void tr_collective_check_release(struct tr_collective_check *v, bool *go);

/* Call it after tr_collective_check_release. FR_PROTO names two ranks of a communicator whose calls
 * or slices differ, or, if all ranks wait and none can be released, the calls of two of them. */
enum fr_rc tr_collective_check_judge(const struct tr_collective_check *v, struct fr_err *err);

#endif

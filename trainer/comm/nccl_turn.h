/*
 * The order of NCCL's collectives over all communicators of a process. Collectives of two streams
 * deadlock when ranks run them in different orders. From version 2.26 on NCCL can run them in the
 * order of the host's calls, if a variable is set, and lets them overlap. For older versions an
 * event makes each call wait for the previous one, so no two collectives overlap. Source: NCCL user
 * guide, "Using multiple NCCL communicators concurrently".
 */
#ifndef TR_COMM_NCCL_TURN_H
#define TR_COMM_NCCL_TURN_H

#include "trainer/backend/backend.h"
#include "trainer/comm/nccl_api.h"

#include <stdbool.h>

/* The last call of all communicators of the process. The world's communicator owns this. */
struct tr_nccl_turn {
    struct tr_backend *be; /* borrows */
    bool kept;             /* events keep the order, not NCCL */
    struct tr_event *done; /* owns: the last call is done */
    struct tr_queue *q;    /* of the last call; only compared */
};

/* Call it before the first communicator. Sets NCCL_LAUNCH_ORDER_IMPLICIT, or chooses events if the
 * library does not know the variable or the user has set it to 0. Logs the choice. */
enum fr_rc tr_nccl_turn_init(struct tr_nccl_turn *t, const struct tr_nccl_api *api,
                             struct tr_backend *be, struct fr_err *err);
void tr_nccl_turn_finish(struct tr_nccl_turn *t);

/* Around a call in q. */
enum fr_rc tr_nccl_wait_turn(struct tr_nccl_turn *t, struct tr_queue *q, struct fr_err *err);
enum fr_rc tr_nccl_end_turn(struct tr_nccl_turn *t, struct tr_queue *q, struct fr_err *err);

#endif

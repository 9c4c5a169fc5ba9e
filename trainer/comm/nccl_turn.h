/*
 * The order of NCCL's collectives over all communicators of a process. Two of them in two streams
 * may wait for each other when ranks run them in different orders. From version 2.26 on NCCL runs
 * them in the order in which the host issues them, if a variable says so, and lets them overlap;
 * before, an event makes each call wait for the one before it, and none runs beside another.
 * Source: NCCL user guide, "Using multiple NCCL communicators concurrently".
 */
#ifndef TR_COMM_NCCL_TURN_H
#define TR_COMM_NCCL_TURN_H

#include "trainer/backend/backend.h"
#include "trainer/comm/nccl_api.h"

#include <stdbool.h>

/* The last call of all communicators of the process; the world's communicator has it. */
struct tr_nccl_turn {
    struct tr_backend *be; /* borrows */
    bool kept;             /* by events */
    struct tr_event *done; /* owns: that call is done */
    struct tr_queue *q;    /* where it was; only compared */
};

/* Before the first communicator: sets NCCL_LAUNCH_ORDER_IMPLICIT, or keeps the order by events
 * where the library does not know it or it is set to 0. Logs which. */
enum fr_rc tr_nccl_turn_init(struct tr_nccl_turn *t, const struct tr_nccl_api *api,
                             struct tr_backend *be, struct fr_err *err);
void tr_nccl_turn_finish(struct tr_nccl_turn *t);

/* Around a call in q. */
enum fr_rc tr_nccl_wait_turn(struct tr_nccl_turn *t, struct tr_queue *q, struct fr_err *err);
enum fr_rc tr_nccl_end_turn(struct tr_nccl_turn *t, struct tr_queue *q, struct fr_err *err);

#endif

/*
 * Threads of the real loop, one a computation; loop.h has the contract. Only engine/loop includes
 * this.
 */
#ifndef FR_LOOP_LOOP_WORK_H
#define FR_LOOP_LOOP_WORK_H

#include "engine/loop/loop.h"

struct fr_workers; /* the computations of a loop, shared with their threads */

/* *wake_fd becomes readable when a computation is over. NULL: no memory or no descriptor. */
struct fr_workers *fr_workers_create(int *wake_fd);
enum fr_rc fr_workers_start(struct fr_workers *m, struct fr_work *w);
/* As fr_loop_forget(). */
bool fr_workers_forget(struct fr_workers *m, struct fr_work *w);
/* Calls over() of each computation that has ended since the last call. */
void fr_workers_deliver(struct fr_workers *m);
/* A computation that still runs is dropped when it ends. NULL is fine. */
void fr_workers_destroy(struct fr_workers *m);

#endif

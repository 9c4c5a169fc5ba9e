/*
 * A loop whose clock is the test's own, over real children: time stands still while one runs, and
 * jumps to the next timer when none does. A child that hangs says so by making the file `hanging`,
 * so that no test waits for it by the real clock.
 */
#ifndef TESTS_UNIT_SLURM_VIRTUAL_LOOP_H
#define TESTS_UNIT_SLURM_VIRTUAL_LOOP_H

#include "engine/loop/loop.h"

struct virtual_loop {
    struct fr_loop loop;
    int64_t now_ms, wall_offset_ms;
    char hanging[200]; /* a path */
    struct fr_watch *watches;
    struct fr_timer *timers;
    struct fr_post *first, **last;
};

/* fr_sys.mono_ms, wall_ms and wait become the loop's until it is closed. One at a time. */
void virtual_loop_open(struct virtual_loop *v, const char *hanging);
void virtual_loop_close(struct virtual_loop *v);

/* Makes what is due now, or what comes of children. False: nothing is left but timers. */
bool virtual_loop_work(struct virtual_loop *v);
/* Works, and moves the clock from timer to timer until that time. */
void virtual_loop_until(struct virtual_loop *v, int64_t ms);

#endif

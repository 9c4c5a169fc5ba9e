/*
 * A scheduler under test, what it was given and what it said. Events get the ids that it wants;
 * time is the test's.
 */
#ifndef TESTS_UNIT_SCHED_BENCH_H
#define TESTS_UNIT_SCHED_BENCH_H

#include "engine/sched/sched.h"

#include "tests/unit/check.h"
#include "tests/unit/minispec.h"

struct bench {
    struct minispec mini;
    struct fr_arena arena;
    struct fr_plan *plan;
    struct fr_sched *s;
    struct fr_acts acts;
    struct fr_buf seen;
    int64_t now_ms;
    uint64_t ids;
};

static inline enum fr_rc give(struct bench *b, struct fr_event ev, struct fr_err *err)
{
    while (fr_sched_ids_wanted(b->s) > 0) {
        struct fr_id id = {{9}};

        b->ids++;
        memcpy(id.b + 8, &b->ids, sizeof b->ids);
        if (!CHECK(fr_sched_add_ids(b->s, &id, 1, NULL) == FR_OK))
            break;
    }
    return fr_sched_apply(b->s, &ev, b->now_ms, &b->acts, err);
}

static inline void bench_init(struct bench *b, const char *text)
{
    memset(b, 0, sizeof *b);
    mini_make(&b->mini, text);
    CHECK(fr_plan_make(&b->mini.spec, &b->arena, &b->plan, NULL) == FR_OK);
    CHECK(fr_sched_create(b->plan, NULL, &b->s, NULL) == FR_OK);
}

static inline void bench_finish(struct bench *b)
{
    fr_sched_destroy(b->s);
    fr_acts_finish(&b->acts);
    fr_buf_finish(&b->seen);
    fr_arena_finish(&b->arena);
}

#endif

/*
 * A scheduler under test, what it was given and what it said. Events get the ids that it wants;
 * time is the test's.
 */
#ifndef TESTS_UNIT_SCHED_BENCH_H
#define TESTS_UNIT_SCHED_BENCH_H

#include "engine/sched/sched.h"

#include "tests/unit/check.h"
#include "tests/unit/sched/minispec.h"

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

/* Takes the rows as they stand into a new scheduler, as a resume does. */
static inline void restart(struct bench *b)
{
    struct fr_sched *old = b->s;
    struct fr_run_now run = fr_sched_now(old);

    CHECK(fr_sched_create(b->plan, NULL, &b->s, NULL) == FR_OK);
    CHECK(fr_sched_load_run(b->s, &run, NULL) == FR_OK);
    for (uint32_t i = 0; i < b->plan->n_insts; i++) {
        struct fr_row row = fr_sched_row(old, i, b->now_ms);

        if (row.state != FR_ST_WAITING)
            CHECK(fr_sched_load(b->s, &row, NULL) == FR_OK);
    }
    fr_sched_destroy(old);
}

struct word {
    const char *name;
    struct fr_event ev;
};

static const struct word words[] = {
    {"begin", {.kind = FR_EV_BEGIN}},
    {"resume", {.kind = FR_EV_RESUME}},
    {"tick", {.kind = FR_EV_TICK}},
    {"vain", {.kind = FR_EV_NO_PROGRESS}},
    {"up", {.kind = FR_EV_NODE_UP}},
    {"down", {.kind = FR_EV_NODE_DOWN}},
    {"refused", {.kind = FR_EV_NODE_REFUSED}},
    {"abandon", {.kind = FR_EV_ABANDON, .cause = FR_CAUSE_NODE_LOST, .proven = true}},
    {"preempt", {.kind = FR_EV_ABANDON, .cause = FR_CAUSE_PREEMPTED, .proven = true}},
    {"vanish", {.kind = FR_EV_ABANDON, .cause = FR_CAUSE_PREEMPTED}},
    {"lend0", {.kind = FR_EV_SLOTS}},
    {"lend1", {.kind = FR_EV_SLOTS, .slots = 1}},
    {"lend2", {.kind = FR_EV_SLOTS, .slots = 2}},
    {"share1", {.kind = FR_EV_SLOTS, .slots = 1, .contended = true}},
    {"limit", {.kind = FR_EV_LIMIT}},
    {"block", {.kind = FR_EV_BLOCK, .value = true}},
    {"free", {.kind = FR_EV_BLOCK}},
    {"over1", {.kind = FR_EV_SLOTS, .slots = 1, .contended = true, .over = true}},
    {"cancel", {.kind = FR_EV_CANCEL}},
    {"retry", {.kind = FR_EV_RETRY, .task = FR_PLAN_NONE}},
    {"retry-a", {.kind = FR_EV_RETRY, .task = 0}},
    {"launched", {.kind = FR_EV_LAUNCHED}},
    {"prepared", {.kind = FR_EV_PREPARED}},
    {"exit0", {.kind = FR_EV_ENDED, .cause = FR_CAUSE_EXIT, .proven = true}},
    {"exit1", {.kind = FR_EV_ENDED, .cause = FR_CAUSE_EXIT, .code = 1, .proven = true}},
    {"stopped", {.kind = FR_EV_ENDED, .cause = FR_CAUSE_STOPPED, .proven = true}},
    {"stuck", {.kind = FR_EV_ENDED, .cause = FR_CAUSE_STOPPED}},
    {"busy", {.kind = FR_EV_BUSY, .other = {{1}}}},
    {"cleared", {.kind = FR_EV_CLEARED}},
    {"forgot", {.kind = FR_EV_UNKNOWN, .same_home = true, .same_boot = true}},
    {"still", {.kind = FR_EV_UNKNOWN, .same_home = true, .same_boot = true, .prepared = true}},
    {"rebooted", {.kind = FR_EV_UNKNOWN, .same_home = true}},
    {"wiped", {.kind = FR_EV_UNKNOWN, .same_boot = true}},
    {"yes", {.kind = FR_EV_WHEN, .value = true}},
    {"no", {.kind = FR_EV_WHEN}},
    {"tombstoned", {.kind = FR_EV_TOMBSTONED}},
};

/* "launched.1": the event about instance 1, "exit0@50.1": of 50 ms ago; "limit@50.1": in 50 ms;
 * "up.1": about node 1; "block.1": about task 1. */
static inline void say(struct bench *b, const char *word)
{
    struct fr_event ev = {.kind = FR_EV_TICK};
    struct fr_err err = {0};
    size_t n = strcspn(word, ".@"), dot = strcspn(word, ".");
    bool found = false;

    if (word[0] == '+') {
        b->now_ms += strtoll(word, NULL, 10);
        return;
    }
    if (strcmp(word, "restart") == 0) {
        restart(b);
        return;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strlen(words[i].name) == n && strncmp(words[i].name, word, n) == 0) {
            ev = words[i].ev;
            found = true;
        }
    CHECK(found);
    if (word[n] == '@')
        ev.ago_ms = ev.left_ms = strtoll(word + n + 1, NULL, 10);
    if (word[dot] == '.')
        ev.inst = ev.node = (uint32_t)strtoul(word + dot + 1, NULL, 10);
    if (ev.kind == FR_EV_BLOCK)
        ev.task = ev.inst;
    ev.since_ms = b->now_ms;
    if (ev.kind >= FR_EV_PREPARED && ev.kind < FR_EV_WHEN)
        ev.attempt = fr_sched_row(b->s, ev.inst, 0).attempt;
    if (give(b, ev, &err) != FR_OK)
        fr_buf_fmt(&b->seen, "%s[%s] ", b->seen.n ? " " : "", fr_rc_name(err.rc));
}

static inline void say_all(struct bench *b, const char *script)
{
    char copy[240], *save = NULL;

    snprintf(copy, sizeof copy, "%s", script);
    for (char *w = strtok_r(copy, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save))
        say(b, w);
}

#endif

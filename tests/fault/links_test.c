/*
 * What links, nodes and clocks do, one thing a case, at chosen times: a link down for 1 s, 20 s and
 * 3 h, with flowrun alive or resumed meanwhile, connections frozen or slow, a start frame that
 * arrives late on an old connection, sshd's end, a power cut, a disk that comes back empty, a node
 * that never comes back, a laptop asleep, clocks that step by a day, a process that no signal ends.
 *
 * Beside the rules of world.h each case says how the run ends, what its instances come to and how
 * many attempts there were. Nothing may fail because it could not be reached.
 */
#include "tests/sim/world.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A task waits for its node: for ever, and as long as it does unless a file says otherwise. */
static const char head[] = "name: links\n"
                           "nodes:\n"
                           "  - {name: n1, executor: local, connect: {retry_for: never}}\n"
                           "  - {name: n2, executor: local, connect: {retry_for: never}}\n"
                           "  - {name: n3, executor: local, connect: {retry_for: never}}\n";
static const char head_limited[] = "name: links\n"
                                   "nodes:\n"
                                   "  - {name: n1, executor: local}\n"
                                   "  - {name: n2, executor: local}\n"
                                   "  - {name: n3, executor: local}\n";

/* A gang over all nodes, a chain from n1 to n2 and back, one that retries, one with a time-out. */
static const char plenty[] = "tasks:\n"
                             "  train: {on: all, gang: true, argv: [sim, \"9000\", \"0\"]}\n"
                             "  a: {on: n1, argv: [sim, \"4000\", \"0\"]}\n"
                             "  b: {on: n2, needs: [a], argv: [sim, \"3000\", \"0\"]}\n"
                             "  c: {on: n1, needs: [b], argv: [sim, \"500\", \"0\"]}\n"
                             "  once: {on: n2, retry: {times: 1, delay: 3s}, argv: [sim, \"2500\", "
                             "\"3\", once]}\n"
                             "  long: {on: n3, timeout: 40s, argv: [sim, \"25000\", \"0\"]}\n";

/* The same, where what is lost may be done again. */
static const char again[] =
    "defaults: {retry: {times: 3, delay: 300ms, on: [lost, node_lost, signal]}}\n"
    "tasks:\n"
    "  train: {on: all, gang: true, argv: [sim, \"9000\", \"0\"]}\n"
    "  a: {on: n1, argv: [sim, \"4000\", \"0\"]}\n"
    "  b: {on: n2, needs: [a], argv: [sim, \"3000\", \"0\"]}\n";

/* What is ready for n2 only when n1 has done its part. */
static const char late[] = "tasks:\n"
                           "  early: {on: n2, argv: [sim, \"500\", \"0\"]}\n"
                           "  a: {on: n1, argv: [sim, \"5100\", \"0\"]}\n"
                           "  b: {on: n2, needs: [a, early], argv: [sim, \"2000\", \"0\"]}\n";

static const char later[] = "tasks:\n"
                            "  early: {on: n2, argv: [sim, \"500\", \"0\"]}\n"
                            "  a: {on: n1, argv: [sim, \"30000\", \"0\"]}\n"
                            "  b: {on: n2, needs: [a, early], argv: [sim, \"2000\", \"0\"]}\n";

static const char stuck_task[] =
    "tasks:\n"
    "  stuck: {on: n1, grace: 1s, argv: [sim, \"90000\", \"0\", stuck]}\n"
    "  mild: {on: n2, argv: [sim, \"90000\", \"0\"]}\n";

enum doing {
    NOTHING,
    CUT,      /* until more ms later */
    STALL,    /* connections that stand, for more ms */
    DROP,     /* connections end */
    SLOW,     /* 1 Mbit/s, for more ms */
    LATE,     /* 1.5 s each way, for more ms */
    POWER,    /* off until more ms later; 0: for good */
    NEW_DISK, /* likewise, and comes back empty */
    KILL,     /* flowrun; resumed more ms later */
    SLEEP,    /* control, for more ms */
    CLOCK,    /* steps by more ms */
    CANCEL,
    ABANDON,
};

struct deed {
    int64_t at_ms;
    enum doing what;
    int machine;
    int64_t more;
};

enum { DEEDS = 12, HOUR = 3600000, DAY = 24 * HOUR };

struct story {
    const char *name, *tasks, *outcome;
    int64_t over_ms; /* not before, on the simulated clock; 0: whenever */
    size_t attempts;
    const char *rows; /* of instances that did not succeed: "key state reason…\n" */
    struct deed deeds[DEEDS];
};

/* Of nodes with the default of connect.retry_for. */
static const struct story limited[] = {
    {"a start waits no longer than connect.retry_for",
     later,
     "failed",
     150000,
     2,
     "b@n2 failed node n2 was not there for 2m00s (connect.retry_for): no route\n",
     {{3000, CUT, 2, 3 * HOUR}}},
    {"a start waits for a node that is back in time",
     later,
     "succeeded",
     63000,
     3,
     "",
     {{3000, CUT, 2, 60000}}},
};

static const struct story stories[] = {
    {"a start waits for its node, also after a resume",
     later,
     "succeeded",
     3 * HOUR,
     3,
     "",
     {{3000, CUT, 2, 3 * HOUR}, {60000, KILL, 0, 1000}, {HOUR, KILL, 0, 1000}}},
    {"undisturbed", plenty, "succeeded", 0, 9, "", {{0}}},
    {"down for 1 s", plenty, "succeeded", 0, 9, "", {{2000, CUT, 2, 1000}, {4000, CUT, 1, 1000}}},
    {"down for 20 s", plenty, "succeeded", 0, 9, "", {{3000, CUT, 2, 20000}}},
    {"down for 3 h", plenty, "succeeded", 3 * HOUR, 9, "", {{3000, CUT, 2, 3 * HOUR}}},
    {"all down for 3 h",
     plenty,
     "succeeded",
     3 * HOUR,
     9,
     "",
     {{3000, CUT, 1, 3 * HOUR}, {3000, CUT, 2, 3 * HOUR}, {3000, CUT, 3, 3 * HOUR}}},
    {"down for 3 h, closed",
     plenty,
     "succeeded",
     3 * HOUR,
     9,
     "",
     {{3000, DROP, 2, 0}, {3000, CUT, 2, 3 * HOUR}}},
    {"down for 3 h, and resumed meanwhile",
     plenty,
     "succeeded",
     3 * HOUR,
     9,
     "",
     {{3000, CUT, 2, 3 * HOUR}, {3500, KILL, 0, 60000}, {HOUR, KILL, 0, 1000}}},
    {"down and up, many times",
     plenty,
     "succeeded",
     0,
     9,
     "",
     {{1000, CUT, 2, 3000},
      {5000, CUT, 2, 9000},
      {15000, CUT, 2, 500},
      {17000, CUT, 2, 12000},
      {30000, CUT, 2, 2000}}},
    {"frozen", plenty, "succeeded", 0, 9, "", {{2000, STALL, 2, 300000}, {2000, STALL, 3, 5000}}},
    {"1 Mbit/s", plenty, "succeeded", 0, 9, "", {{500, SLOW, 2, 60000}, {500, SLOW, 1, 60000}}},
    {"loss and delay", plenty, "succeeded", 0, 9, "", {{500, LATE, 2, 60000}}},
    {"sshd ends",
     plenty,
     "succeeded",
     0,
     9,
     "",
     {{2000, DROP, 1, 0}, {2600, DROP, 2, 0}, {2900, DROP, 2, 0}}},
    {"a power cut", again, "succeeded", 60000, 9, "", {{6000, POWER, 2, 60000}}},
    {"a power cut, nothing is done again",
     late,
     "failed",
     60000,
     3,
     "b@n2 lost its outcome is not known: the node was rebooted\n",
     {{6500, POWER, 2, 60000}}},
    {"an empty disk", again, "succeeded", 30000, 9, "", {{6000, NEW_DISK, 2, 30000}}},
    {"never back, given up after a day",
     late,
     "failed",
     DAY,
     3,
     "b@n2 lost its node is given up\n",
     {{6500, POWER, 2, 0}, {DAY, ABANDON, 2, 0}}},
    {"never back, given up before the start",
     later,
     "failed",
     DAY,
     2,
     "b@n2 failed its node is given up: node n2: no route\n",
     {{3000, POWER, 2, 0}, {DAY, ABANDON, 2, 0}}},
    {"asleep for 12 h", plenty, "succeeded", 12 * HOUR, 9, "", {{3000, SLEEP, 0, 12 * HOUR}}},
    {"asleep with a link that does not come back at once",
     plenty,
     "succeeded",
     12 * HOUR,
     9,
     "",
     {{3000, CUT, 2, 12 * HOUR + 30000}, {3000, SLEEP, 0, 12 * HOUR}}},
    {"clocks step by a day",
     plenty,
     "succeeded",
     0,
     9,
     "",
     {{500, CLOCK, 1, DAY},
      {1500, CLOCK, 2, -DAY},
      {2500, CLOCK, 0, DAY},
      {3500, CLOCK, 3, DAY},
      {4500, CLOCK, 0, -2 * DAY},
      {5500, CLOCK, 2, 2 * DAY},
      {7500, CLOCK, 3, -DAY}}},
    {"no signal ends it",
     stuck_task,
     "cancelled",
     0,
     2,
     "stuck@n1 stop_unproven stopped by the user: still there: PID sim D\n"
     "mild@n2 cancelled stopped by the user\n",
     {{3000, CANCEL, 0, 0}}},
    {"cancelled while a node is away",
     plenty,
     "cancelled",
     600000,
     6,
     NULL,
     {{2000, CUT, 2, 600000}, {3000, CANCEL, 0, 0}}},
};

enum { STORIES = sizeof(stories) / sizeof(stories[0]) };

struct telling {
    const struct story *story;
    size_t next;
};

static void power_off(struct world *w, struct sim_machine *m, const struct deed *d)
{
    m->up = false;
    m->up_us = d->more > 0 ? w->sim.now_us + d->more * 1000 : INT64_MAX;
    sim_crash(m, true);
    if (d->what == NEW_DISK)
        sim_wipe(m);
}

static void act(struct world *w, const struct deed *d)
{
    struct sim_machine *m = &w->sim.machines[d->machine];
    int64_t until_us = w->sim.now_us + d->more * 1000;

    world_tell(w, "deed %d on %s", (int)d->what, m->name);
    switch (d->what) {
    case CUT:
        m->cut = true;
        m->heal_us = until_us;
        break;
    case STALL:
        sim_links_stall(m, d->more * 1000);
        break;
    case DROP:
        sim_links_drop(m);
        break;
    case SLOW:
    case LATE:
        m->rate_us = until_us;
        m->us_a_kb = d->what == SLOW ? 8192 : 0;
        m->late_us = d->what == LATE ? 1500000 : 200000;
        break;
    case POWER:
    case NEW_DISK:
        power_off(w, m, d);
        break;
    case KILL:
        world_kill_engine(w, false);
        w->restart_us = until_us;
        break;
    case SLEEP:
        sim_suspend(m, d->more * 1000);
        break;
    case CLOCK:
        m->skew_ms += d->more;
        break;
    case CANCEL:
        world_request(w, "cancel", "");
        break;
    case ABANDON:
        world_request(w, "abandon", m->name);
        break;
    default:
        break;
    }
}

static void look(struct world *w)
{
    struct telling *t = w->test;

    while (t->next < DEEDS && t->story->deeds[t->next].what != NOTHING &&
           w->sim.now_us >= t->story->deeds[t->next].at_ms * 1000)
        act(w, &t->story->deeds[t->next++]);
    w->look_us = t->next < DEEDS && t->story->deeds[t->next].what != NOTHING
                     ? t->story->deeds[t->next].at_ms * 1000
                     : INT64_MAX;
}

/* Process ids differ from seed to seed. */
static void hide_pids(struct fr_buf *b)
{
    char *at = b->p != NULL ? strstr(b->p, "there: ") : NULL;
    struct fr_buf out = {0};

    if (at == NULL)
        return;
    at += 7;
    fr_buf_add(&out, b->p, (size_t)(at - b->p));
    fr_buf_text(&out, "PID");
    fr_buf_text(&out, at + strspn(at, "0123456789"));
    fr_buf_finish(b);
    *b = out;
}

static void compare(struct world *w, const struct story *s, int64_t over_us)
{
    struct fr_buf rows = {0};

    world_rows(w,
               "SELECT trim(key || ' ' || state || ' ' || reason) FROM instance WHERE state <> "
               "'succeeded' ORDER BY idx",
               &rows);
    hide_pids(&rows);
    if (strcmp(fr_outcome_name(w->outcome), s->outcome) != 0)
        world_violated(w, "it ended %s: %s", fr_outcome_name(w->outcome), rows.p ? rows.p : "");
    if (s->rows != NULL && strcmp(rows.p != NULL ? rows.p : "", s->rows) != 0)
        world_violated(w, "instances: %s", rows.p != NULL ? rows.p : "none");
    if (w->n_records != s->attempts)
        world_violated(w, "%zu attempts, not %zu", w->n_records, s->attempts);
    if (over_us < s->over_ms * 1000)
        world_violated(w, "over after %.3f s", (double)over_us / 1e6);
    fr_buf_finish(&rows);
}

static bool tell(struct world *w, const struct story *s, const char *nodes, uint64_t seed)
{
    struct telling t = {.story = s};
    struct fr_buf yaml = {0};

    fr_buf_text(&yaml, nodes);
    fr_buf_text(&yaml, s->tasks);
    w->look = look;
    w->test = &t;
    world_run(w, yaml.p, seed, look);
    if (!w->failed)
        compare(w, s, w->sim.now_us);
    fr_buf_finish(&yaml);
    bool ok = !w->failed;
    world_finish(w);
    return ok;
}

/*
 * The start of b is sent into a connection that has just frozen, and comes out of it at any time
 * between before and behind the connection that took its place; there is a cancel or a kill of
 * flowrun in between, too.
 */
static void test_late_start(struct world *w)
{
    struct story s = {.name = "a late start", .tasks = late};
    int n = 0;

    for (int64_t more = 1000; more < 16000; more += 250, n++) {
        char row[64];
        bool cancel = n % 3 == 1, kill = n % 3 == 2;

        snprintf(row, sizeof(row), "a start %lld ms late%s", (long long)more,
                 cancel ? ", cancelled"
                 : kill ? ", flowrun killed"
                        : "");
        check_row(row);
        s.deeds[0] = (struct deed){5050, STALL, 2, more};
        s.deeds[1] = cancel ? (struct deed){6500, CANCEL, 0, 0}
                     : kill ? (struct deed){6500, KILL, 0, 500}
                            : (struct deed){0};
        struct telling t = {.story = &s};
        struct fr_buf yaml = {0};
        fr_buf_text(&yaml, head);
        fr_buf_text(&yaml, late);
        w->look = look;
        w->test = &t;
        CHECK(world_run(w, yaml.p, (uint64_t)n + 1, look));
        CHECK(w->n_records == 3 || (cancel && w->n_records == 2));
        CHECK(w->outcome == (cancel ? FR_OUT_CANCELLED : FR_OUT_SUCCEEDED));
        fr_buf_finish(&yaml);
        world_finish(w);
    }
}

int main(int argc, char **argv)
{
    struct world *w = calloc(1, sizeof(*w));
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;

    world_setup();
    for (size_t i = 0; i < STORIES; i++) {
        check_row(stories[i].name);
        if (argc <= 2 || strcmp(argv[2], stories[i].name) == 0)
            CHECK(tell(w, &stories[i], head, seed));
    }
    for (size_t i = 0; argc <= 2 && i < sizeof(limited) / sizeof(limited[0]); i++) {
        check_row(limited[i].name);
        CHECK(tell(w, &limited[i], head_limited, seed));
    }
    if (argc <= 2)
        test_late_start(w);
    world_clean();
    free(w);
    return check_done();
}

/* Parts of a run that need no node: rows that are joined by idx. */
#include "engine/run/inside.h"
#include "engine/run/times.h"
#include "engine/base/mark.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { INSTS = 5000, OUTPUTS = 4 };

/* Each even idx has a row, each idx is asked for OUTPUTS times: one pass over the rows serves all,
 * whatever is asked for. */
static void test_cursor(void)
{
    static struct fr_inst_row rows[INSTS];
    struct run_cursor c = {.insts = {rows, INSTS}};
    size_t right = 0, calls = 0;

    for (size_t i = 0; i < INSTS; i++)
        rows[i].idx = (int64_t)(2 * i);
    for (int64_t idx = -1; idx < 2 * INSTS + 10; idx++)
        for (int k = 0; k < OUTPUTS; k++, calls++) {
            const struct fr_inst_row *got = run_cursor_to(&c, idx);
            bool there = idx >= 0 && idx % 2 == 0 && idx < 2 * INSTS;

            right += there ? got == &rows[idx / 2] : got == NULL;
        }
    CHECK_INT(right, calls);
    CHECK_INT(c.steps, INSTS);

    c = (struct run_cursor){0};
    CHECK(run_cursor_to(&c, 0) == NULL);
}

/* What the executor was asked. */
static struct {
    size_t queries, acks, attaches;
    uint64_t offset;
} asked;

static enum fr_rc take_query(void *self, const struct fr_exec_attempt *v, size_t n,
                             struct fr_err *err)
{
    (void)self, (void)v, (void)err;
    asked.queries += n;
    return FR_OK;
}

static enum fr_rc take_attach(void *self, struct fr_exec_attempt a, struct fr_exec_have have,
                              struct fr_err *err)
{
    (void)self, (void)a, (void)err;
    asked.attaches++;
    asked.offset = have.log;
    return FR_OK;
}

static enum fr_rc take_ack(void *self, struct fr_exec_attempt a, struct fr_err *err)
{
    (void)self, (void)a, (void)err;
    asked.acks++;
    return FR_OK;
}

/* The acts of the scheduler about one attempt, with an executor that only counts. */
static void test_acts(void)
{
    static const struct fr_exec_ops ops = {
        .name = "fake", .query = take_query, .attach = take_attach, .ack_end = take_ack};
    struct fr_plan_inst planned = {.node = 0};
    struct fr_task spec = {.on = FR_ON_HEAD};
    struct fr_plan_task task = {.spec = &spec};
    struct fr_plan plan = {.insts = &planned, .n_insts = 1, .tasks = &task, .n_tasks = 1};
    struct run_inst inst = {.reason = ""};
    char dir[] = "/no/such/run";
    struct fr_run run = {.plan = &plan, .insts = &inst, .dir = dir, .exec = {.ops = &ops}};
    struct fr_act act = {.kind = FR_ACT_QUERY, .attempt = {{1}}};
    struct run_attempt *at = run_attempt_add(&run, act.attempt, 0, 1);
    int staged;

    check_row("no query for an attempt that is still staged");
    at->start = (struct run_start *)(void *)&staged;
    run_act(&run, &act);
    CHECK_INT(asked.queries, 0);
    at->start = NULL;
    run_act(&run, &act);
    CHECK_INT(asked.queries, 1);

    check_row("a log that is to be fetched again");
    act.kind = FR_ACT_ATTACH;
    at->log.size = 100;
    at->log.refetch = true;
    run_act(&run, &act);
    CHECK(asked.attaches == 1 && asked.offset == 0);
    at->followed = at->log.refetch = false;
    run_act(&run, &act);
    CHECK(asked.attaches == 2 && asked.offset == 100);

    check_row("a forgotten attempt is done, and its node is not told");
    act.kind = FR_ACT_FORGET;
    run_act(&run, &act);
    CHECK(run.n_done == 1 && run.attempts == NULL);
    CHECK_INT(asked.acks, 0);
    check_row("");
    fr_sys.free(run.done);
    fr_arena_finish(&run.arena);
}

static int64_t offset_ms; /* of the node's clock, as last measured */

static int64_t fake_offset(void *self, size_t node)
{
    (void)self, (void)node;
    return offset_ms;
}

/* A piece of a log is as old as its node says; the offset of the node's clock is measured anew and
 * again, so it may say that a later piece is older. */
static void test_marks(void)
{
    static const struct fr_exec_ops ops = {.name = "fake", .clock_offset = fake_offset};
    static char bytes[64 << 10];
    struct fr_task spec = {.log = {.max_bytes = 1 << 30}};
    struct fr_plan_task task = {.spec = &spec};
    struct fr_plan_inst planned = {.node = 0};
    struct fr_plan plan = {.insts = &planned, .n_insts = 1, .tasks = &task, .n_tasks = 1};
    char dir[] = "/tmp/run_test.XXXXXX", name[] = "log", path[64];
    struct fr_run run = {.plan = &plan, .home = "/tmp", .dir = dir, .exec = {.ops = &ops}};
    struct run_attempt *at = run_attempt_add(&run, (struct fr_id){{1}}, 0, 1);
    struct fr_log_mark marks[4] = {{0}};

    check_row("marks of a log never step back");
    CHECK(mkdtemp(dir) != NULL);
    at->log.name = name;
    for (int i = 0; i < 4; i++) {
        struct fr_exec_event ev = {.kind = FR_EXEC_LOG};

        ev.log = (struct fr_log_piece){.attempt = at->id,
                                       .offset = at->log.size,
                                       .mono_ms = fr_sys.mono_ms(),
                                       .bytes = {bytes, sizeof(bytes)}};
        offset_ms = i == 2 ? 5000 : 0;
        run_log_take(&run, at, &ev);
        if (i == 1)
            run_log_close(at); /* it is opened again */
    }
    run_log_close(at);
    snprintf(path, sizeof(path), "%s/log.idx", dir);
    int fd = open(path, O_RDONLY);
    CHECK_INT(read(fd, marks, sizeof(marks)), sizeof(marks));
    close(fd);
    for (int i = 1; i < 4; i++)
        CHECK(marks[i].ms >= marks[i - 1].ms && marks[i].offset > marks[i - 1].offset);
    unlink(path);
    snprintf(path, sizeof(path), "%s/log", dir);
    unlink(path);
    rmdir(dir);
    check_row("");
    fr_arena_finish(&run.arena);
}

enum { NOW = 1000000, MONO = 5000, BEGAN = NOW - 20000 };

static int64_t wall_now(void)
{
    return NOW;
}

static int64_t mono_now(void)
{
    return MONO;
}

/* Ends as nodes tell of them, and how long ago they were. */
static const struct {
    const char *row;
    struct fr_ended e;
    int64_t ago;      /* want */
    int64_t launched; /* its launch, reported so long before; 0: it was not */
} ends[] = {
    {"it says nothing: now", {.launched_ms = 0}, 0, 0},
    {"by its boot clock",
     {.launched_boot_ms = 70, .ended_boot_ms = 3070, .sent_boot_ms = 9070},
     6000,
     0},
    {"which was before the machine began",
     {.launched_boot_ms = -9000, .ended_boot_ms = -6000, .sent_boot_ms = 70},
     6070,
     0},
    {"an older flownode: by the offset of its clock",
     {.launched_ms = 102000, .ended_ms = 103000},
     2000,
     0},
    {"no sooner than it began",
     {.launched_boot_ms = 70, .ended_boot_ms = 70, .sent_boot_ms = 90070},
     20000,
     0},
    {"… and as long as it ran",
     {.launched_boot_ms = 70, .ended_boot_ms = 3070, .sent_boot_ms = 90070},
     17000,
     0},
    {"a report that was under way for long: by its launch",
     {.launched_boot_ms = 70, .ended_boot_ms = 3070, .sent_boot_ms = 3170},
     7000,
     10000},
    {"… which was reported late itself",
     {.launched_boot_ms = 70, .ended_boot_ms = 3070, .sent_boot_ms = 3170},
     100,
     2000},
    {"… by an older flownode, whose clock stood still",
     {.launched_ms = 103500, .ended_ms = 104900},
     3600,
     5000},
    {"… of a command that took no time",
     {.launched_boot_ms = 3070, .ended_boot_ms = 3070, .sent_boot_ms = 3170},
     100,
     10000},
    {"not to come", {.ended_boot_ms = 9070, .sent_boot_ms = 70}, 0, 0},
    {"ran from the past",
     {.launched_boot_ms = 9070, .ended_boot_ms = 70, .sent_boot_ms = 170},
     100,
     0},
    {"no times", {.launched_ms = INT64_MIN, .ended_ms = INT64_MAX}, 0, 0},
    {"nor here", {.ended_boot_ms = INT64_MIN, .sent_boot_ms = INT64_MAX}, 0, 0},
};

/* Where an end stands that its node tells of, and what runs then. */
static void test_times(void)
{
    static const struct fr_exec_ops ops = {.name = "fake", .clock_offset = fake_offset};
    struct fr_task spec = {.on = FR_ON_HEAD};
    struct fr_plan_task task = {.spec = &spec, .count = 1};
    struct fr_plan_inst planned = {.node = 0};
    struct fr_plan plan = {.insts = &planned, .n_insts = 1, .tasks = &task, .n_tasks = 1};
    struct run_inst in;
    struct fr_run run = {.plan = &plan, .insts = &in, .exec = {.ops = &ops}};
    struct run_attempt *at = run_attempt_add(&run, (struct fr_id){{1}}, 0, 1);
    struct fr_row row = {.state = FR_ST_SUCCEEDED};

    fr_sys.wall_ms = wall_now;
    fr_sys.mono_ms = mono_now;
    offset_ms = 100000;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        check_row(ends[i].row);
        in = (struct run_inst){.row = {.id = at->id, .started_wall = BEGAN},
                               .state = FR_ST_RUNNING,
                               .started_wall = BEGAN,
                               .launched_wall = ends[i].launched > 0 ? NOW - ends[i].launched : 0};
        CHECK_INT(run_times_ended(&run, at, &ends[i].e), ends[i].ago);
        CHECK_INT(run_times_of(&run, &row, NOW), NOW - ends[i].ago);
        run_times_put(&run, &row, NOW - ends[i].ago);
        CHECK_INT(in.ended_wall, NOW - ends[i].ago);
        CHECK_INT(run_times_over(&run, NOW), NOW - ends[i].ago);
    }
    check_row("a launch");
    in = (struct run_inst){.row = {.id = at->id, .started_wall = BEGAN}, .state = FR_ST_STARTING};
    row = (struct fr_row){.state = FR_ST_RUNNING, .live = true};
    run_times_launched(&run, at, 0);
    CHECK_INT(run_times_of(&run, &row, NOW), NOW);
    run_times_launched(&run, at, 101000);
    CHECK_INT(run_times_of(&run, &row, NOW), NOW - 4000);
    check_row("the end of another attempt is none of this one");
    in.row.id = (struct fr_id){{2}};
    CHECK_INT(run_times_ended(&run, at, &ends[1].e), 0);
    CHECK_INT(in.end_wall, 0);
    check_row("");
    fr_sys.wall_ms = fr_sys_real.wall_ms;
    fr_sys.mono_ms = fr_sys_real.mono_ms;
    fr_arena_finish(&run.arena);
}

static struct fr_str sh = FR_STR("sh (7)"), undeclared = FR_STR("x=1"),
                     outputs[] = {FR_STR("k=1"), FR_STR("k=2")};

/* What a node says of an end, and what the scheduler hears of it. */
static const struct {
    const char *row;
    struct fr_ended e;
    enum fr_cause cause;
    int code;
    bool no_retry, survived;
    const char *reason;
} causes[] = {
    {"it went well", {.cause = FR_END_EXIT}, FR_CAUSE_EXIT, 0, false, false, ""},
    {"a status", {.cause = FR_END_EXIT, .code = 3}, FR_CAUSE_EXIT, 3, false, false, ""},
    {"a signal, and what remains of it",
     {.cause = FR_END_SIGNAL, .code = 9, .survivors = {&sh, 1}},
     FR_CAUSE_SIGNAL,
     9,
     false,
     true,
     "still there: sh (7)"},
    {"why it did not start",
     {.cause = FR_END_START_FAILED, .text = FR_STR("no sh\n")},
     FR_CAUSE_START_FAILED,
     0,
     false,
     false,
     "no sh\\x0a"},
    {"outputs that cannot be read",
     {.cause = FR_END_EXIT, .text = FR_STR("line 3")},
     FR_CAUSE_EXIT,
     RUN_EXIT_OUTPUTS,
     true,
     false,
     "line 3"},
    {"outputs that it did not declare",
     {.cause = FR_END_EXIT, .outputs = {&undeclared, 1}},
     FR_CAUSE_EXIT,
     RUN_EXIT_OUTPUTS,
     true,
     false,
     "node n7 gave outputs that were not declared, or are no text"},
    {"more outputs than it declared",
     {.cause = FR_END_EXIT, .outputs = {outputs, 2}},
     FR_CAUSE_EXIT,
     RUN_EXIT_OUTPUTS,
     true,
     false,
     "node n7 gave outputs that were not declared, or are no text"},
    {"its output",
     {.cause = FR_END_EXIT, .outputs = {outputs, 1}},
     FR_CAUSE_EXIT,
     0,
     false,
     false,
     ""},
    {"a cause of a newer node",
     {.cause = 99, .code = 4},
     FR_CAUSE_LOST,
     4,
     false,
     false,
     "node n7 gave a cause that is not known here: 99"},
};

static void test_causes(void)
{
    static const struct fr_exec_ops ops = {.name = "fake", .clock_offset = fake_offset};
    static const char *declared[] = {"k"};
    struct fr_task spec = {.on = FR_ON_HEAD, .outputs = declared, .n_outputs = 1};
    struct fr_plan_task task = {.spec = &spec, .count = 1};
    struct fr_plan_inst planned = {.node = 0};
    struct fr_plan_node node = {.name = "n7"};
    struct fr_plan plan = {.insts = &planned,
                           .n_insts = 1,
                           .tasks = &task,
                           .n_tasks = 1,
                           .nodes = &node,
                           .n_nodes = 1};

    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
        struct run_inst in = {.reason = ""};
        struct fr_run run = {.plan = &plan, .insts = &in, .exec = {.ops = &ops}};
        struct run_attempt *at = run_attempt_add(&run, (struct fr_id){{1}}, 0, 1);
        struct fr_exec_event ev = {.kind = FR_EXEC_ENDED, .attempt = at->id, .ended = causes[i].e};

        check_row(causes[i].row);
        at->followed = true;
        run_take_event(&run, &ev);
        if (CHECK_INT(run.n_events, 1)) {
            CHECK_INT(run.events[0].kind, FR_EV_ENDED);
            CHECK_INT(run.events[0].cause, causes[i].cause);
            CHECK_INT(run.events[0].code, causes[i].code);
            CHECK_INT(run.events[0].no_retry, causes[i].no_retry);
            CHECK_INT(run.events[0].proven, !causes[i].survived);
            CHECK_INT(in.outputs.n, causes[i].code == 0 ? causes[i].e.outputs.n : 0);
        }
        CHECK_TEXT(at->reason, causes[i].reason);
        fr_sys.free(run.events);
        fr_arena_finish(&run.arena);
    }
    check_row("");
}

int main(void)
{
    test_times();
    test_causes();
    test_cursor();
    test_acts();
    test_marks();
    return check_done();
}

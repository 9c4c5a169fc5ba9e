/* Rows of the store and bytes of logs become notes, and notes become the model that views show. */
#include "engine/client/follow.h"
#include "engine/show/model.h"

#include "engine/base/sys.h"
#include "engine/base/tail.h"
#include "engine/store/blob.h"
#include "tests/unit/store/store_bed.h"

#include <fcntl.h>
#include <sys/stat.h>

static char home[BED_HOME];

static const char yaml[] = "name: p\n"
                           "nodes: [{name: n1, executor: local}]\n"
                           "tasks:\n"
                           "  a: {run: \"true\", outputs: [z], log: {max: 64KiB}}\n"
                           "  b: {run: \"true\", needs: [a], outputs: [y, x]}\n";

static struct bed {
    struct fr_store *st;
    struct fr_run_row row;
    char hash[FR_SHA256_TEXT], id[FR_ID_TEXT];
    struct cli_follow *f;
    struct cli_model model;
    struct fr_buf got; /* notes that the model took, a line each */
} bed;

static const char *key_of(uint32_t inst)
{
    return bed.model.plan->insts[inst].key;
}

static void say_state(const struct fr_note *note)
{
    const struct fr_row *row = &note->row;

    fr_buf_fmt(&bed.got, "%s %s %u", key_of(note->inst), fr_state_name(row->state),
               row->attempt_no);
    if (row->cause != FR_CAUSE_NONE)
        fr_buf_fmt(&bed.got, " by %s %d", fr_cause_name(row->cause), row->code);
    if (row->stop_cause != FR_CAUSE_NONE)
        fr_buf_fmt(&bed.got, " for %s", fr_cause_name(row->stop_cause));
    if (row->delay_ms > 0)
        fr_buf_fmt(&bed.got, " in %lld", (long long)row->delay_ms);
    if (row->unreachable)
        fr_buf_text(&bed.got, " away");
    for (size_t i = 0; note->outputs != NULL && i < note->outputs->n; i++)
        fr_buf_fmt(&bed.got, " %s", note->outputs->v[i].p);
    if (note->text[0] != '\0')
        fr_buf_fmt(&bed.got, ": %s", note->text);
}

static void on_note(void *arg, const struct fr_note *given)
{
    struct fr_note note = *given;

    (void)arg;
    if (!cli_model_take(&bed.model, &note))
        return;
    if (note.kind == FR_NOTE_STATE)
        say_state(&note);
    else if (note.kind == FR_NOTE_RUN)
        fr_buf_fmt(&bed.got, "run %s %s", fr_run_state_name(note.now.state),
                   fr_outcome_name(note.now.outcome));
    else
        fr_buf_fmt(&bed.got, "%s#%u %s %llu+%zu", key_of(note.inst), note.attempt_no,
                   note.kind == FR_NOTE_LOG ? "log" : "full", (unsigned long long)note.offset,
                   note.bytes.n);
    if (note.left > 0)
        fr_buf_fmt(&bed.got, " left %llu", (unsigned long long)note.left);
    fr_buf_text(&bed.got, "\n");
}

static void say_model(void)
{
    for (uint32_t i = 0; i < bed.model.plan->n_insts; i++) {
        const struct cli_model_inst *in = &bed.model.insts[i];

        fr_buf_fmt(&bed.got, "= %s %s began %u time %lld-%lld%s%s\n", key_of(i),
                   fr_state_name(in->state), in->began, (long long)in->started_wall,
                   (long long)in->ended_wall, in->reason[0] != '\0' ? " " : "", in->reason);
    }
}

/* ---- the bed ---- */

static void begin(void)
{
    struct fr_err err = {0};
    struct fr_buf dir = {0};

    bed.st = open_store(home);
    memset(bed.row.id.b, 7, sizeof(bed.row.id.b));
    bed.row.name = bed.row.source = "p";
    bed.row.folder = "/";
    bed.row.params = "{\"params\":[],\"env\":{},\"folder\":\"/\",\"rules\":2}";
    bed.row.state = FR_RUN_RUNNING;
    CHECK_INT(fr_blob_put(home, fr_str_of(yaml), bed.hash, &err), FR_OK);
    bed.row.spec_hash = bed.hash;
    CHECK_INT(fr_store_run_add(bed.st, &bed.row, &err), FR_OK);
    fr_id_text(bed.row.id, bed.id);
    fr_home_at(home, FR_HOME_RUN, bed.row.id, &dir);
    CHECK(mkdir(dir.p, 0700) == 0);
    fr_buf_finish(&dir);
    struct cli_follow_opts opts = {.store = bed.st, .run = bed.id, .note = on_note};
    if (!CHECK_INT(cli_follow_create(&bed.f, &opts, &err), FR_OK))
        printf("%s\n", err.msg);
    bed.model = (struct cli_model){.plan = cli_follow_plan(bed.f)};
    CHECK_INT(cli_model_begin(&bed.model, &err), FR_OK);
}

static void end(void)
{
    struct fr_buf dir = {0};

    cli_model_finish(&bed.model);
    cli_follow_destroy(bed.f);
    fr_store_close(bed.st);
    fr_buf_finish(&bed.got);
    fr_home_at(home, FR_HOME_RUN, bed.row.id, &dir);
    CHECK_INT(fr_remove_tree(dir.p, NULL), FR_OK);
    fr_buf_finish(&dir);
    remove_store(home);
    memset(&bed, 0, sizeof(bed));
}

static int open_log(const char *name, int flags)
{
    struct fr_buf path = {0};
    int fd;

    fr_home_at(home, FR_HOME_RUN, bed.row.id, &path);
    fr_buf_fmt(&path, "/%s", name);
    fd = open(path.p, O_RDWR | O_CREAT | flags, 0600);
    CHECK(fd >= 0);
    fr_buf_finish(&path);
    return fd;
}

static void append(const char *name, const char *text, size_t n)
{
    int fd = open_log(name, O_APPEND);

    CHECK(write(fd, text, n) == (ssize_t)n);
    close(fd);
}

static void append_zeros(const char *name, size_t n)
{
    char *text = calloc(1, n);

    append(name, text, n);
    free(text);
}

static void add(const struct fr_event_row *ev)
{
    CHECK_INT(fr_store_event_add(bed.st, bed.row.id, ev, NULL), FR_OK);
}

static void catch_up(void)
{
    struct fr_err err = {0};

    if (!CHECK_INT(cli_follow_catch_up(bed.f, &err), FR_OK))
        printf("%s\n", err.msg);
}

/* ---- the table ---- */

struct step {
    struct fr_event_row ev; /* an event row, when it has a kind … */
    const char *log, *text; /* … else bytes of a log; neither: the follower looks */
    bool over;              /* … and is at the end */
};

#define LOOK                                                                                       \
    {                                                                                              \
        .log = NULL                                                                                \
    }
#define EV(...)                                                                                    \
    {                                                                                              \
        .ev = { __VA_ARGS__ }                                                                      \
    }
#define OVER                                                                                       \
    {                                                                                              \
        .over = true                                                                               \
    }
#define A1 "a@n1.1.log"

static const struct {
    const char *name;
    struct step steps[12];
    size_t n;
    const char *want;
} cases[] = {
    {"an end is noted behind the output before it",
     {EV(.idx = -1, .kind = "running"),
      EV(.idx = -1, .kind = "running"),
      EV(.kind = "starting", .attempt_no = 1, .wall = 10),
      {.log = A1, .text = "one\n"},
      EV(.kind = "running", .attempt_no = 1, .wall = 11),
      LOOK,
      {.log = A1, .text = "two\n"},
      EV(.kind = "failed", .attempt_no = 1, .cause = "exit", .code = 3, .text = "exit code 3",
         .log_bytes = 8, .wall = 15)},
     8,
     "run running \na@n1 starting 1\na@n1 running 1\na@n1#1 log 0+4\n"
     "a@n1#1 log 4+4\na@n1 failed 1 by exit 3: exit code 3\n"
     "= a@n1 failed began 1 time 10-15 exit code 3\n= b@n1 waiting began 0 time 0-0\n"},
    {"output that comes behind its end is said to be left",
     {EV(.kind = "starting", .attempt_no = 1, .wall = 10),
      {.log = A1, .text = "one\n"},
      EV(.kind = "succeeded", .attempt_no = 1, .cause = "exit", .log_bytes = 9, .wall = 12),
      LOOK,
      {.log = A1, .text = "two"},
      LOOK,
      {.log = A1, .text = "!\n"},
      LOOK,
      {.log = A1, .text = "not counted\n"}},
     9,
     "a@n1 starting 1\na@n1#1 log 0+4\na@n1 succeeded 1 by exit 0 left 5\n"
     "a@n1#1 log 4+3 left 2\na@n1#1 log 7+2\n"
     "= a@n1 succeeded began 1 time 10-12\n= b@n1 waiting began 0 time 0-0\n"},
    {"a retry has a log of its own",
     {EV(.kind = "starting", .attempt_no = 1, .wall = 10),
      {.log = A1, .text = "x"},
      EV(.kind = "retrying", .attempt_no = 1, .cause = "exit", .code = 1, .delay_ms = 20,
         .log_bytes = 1, .text = "why"),
      EV(.kind = "ready", .attempt_no = 1, .cause = "exit", .code = 1, .text = "why"),
      EV(.kind = "starting", .attempt_no = 2, .wall = 40),
      {.log = "a@n1.2.log", .text = "yz"},
      EV(.kind = "succeeded", .attempt_no = 2, .cause = "exit", .log_bytes = 2, .wall = 50)},
     7,
     "a@n1 starting 1\na@n1#1 log 0+1\na@n1 retrying 1 by exit 1 in 20: why\n"
     "a@n1 ready 1 by exit 1: why\na@n1 starting 2\na@n1#2 log 0+2\n"
     "a@n1 succeeded 2 by exit 0\n"
     "= a@n1 succeeded began 2 time 10-50\n= b@n1 waiting began 0 time 0-0\n"},
    {"an attempt that was only booked did not begin, nor did one that was tombstoned",
     {EV(.kind = "ready"), EV(.kind = "cancelled", .attempt_no = 1, .wall = 5),
      EV(.idx = 1, .kind = "starting", .attempt_no = 1, .wall = 6),
      EV(.idx = 1, .kind = "cancelled", .attempt_no = 1, .wall = 7)},
     4,
     "a@n1 ready 0\na@n1 cancelled 1\nb@n1 starting 1\nb@n1 cancelled 1\n"
     "= a@n1 cancelled began 0 time 0-5\n= b@n1 cancelled began 0 time 6-7\n"},
    {"of starts that failed, one was tried",
     {EV(.kind = "starting", .attempt_no = 1, .wall = 5),
      EV(.kind = "failed", .attempt_no = 1, .cause = "start_failed", .wall = 6),
      EV(.idx = 1, .kind = "ready"),
      EV(.idx = 1, .kind = "failed", .attempt_no = 1, .cause = "start_failed", .wall = 7)},
     4,
     "a@n1 starting 1\na@n1 failed 1 by start_failed 0\nb@n1 ready 0\n"
     "b@n1 failed 1 by start_failed 0\n"
     "= a@n1 failed began 1 time 5-6\n= b@n1 failed began 0 time 0-7\n"},
    {"an attempt starts again, or another one in its place: no log is left open",
     {EV(.kind = "starting", .attempt_no = 1, .wall = 5),
      {.log = A1, .text = "x"},
      LOOK,
      EV(.kind = "ready", .attempt_no = 1),
      EV(.kind = "starting", .attempt_no = 1),
      LOOK,
      EV(.kind = "ready", .attempt_no = 1),
      EV(.kind = "starting", .attempt_no = 2, .wall = 6),
      EV(.idx = -1, .kind = "cancelled"),
      OVER},
     10,
     "a@n1 starting 1\na@n1#1 log 0+1\na@n1 ready 1\na@n1 starting 1\na@n1 ready 1\n"
     "a@n1 starting 2\nrun over cancelled\n"
     "= a@n1 starting began 2 time 5-0\n= b@n1 waiting began 0 time 0-0\n"},
    {"an unreachable node is a change of its own, or part of one",
     {EV(.kind = "starting", .attempt_no = 1, .wall = 1),
      EV(.kind = "running", .attempt_no = 1, .wall = 2),
      EV(.kind = "unreachable", .attempt_no = 1, .wall = 2, .text = "its node"),
      EV(.kind = "reachable", .attempt_no = 1, .wall = 3),
      EV(.kind = "stopping", .attempt_no = 1, .stop_cause = FR_CAUSE_STOPPED, .wall = 4),
      EV(.kind = "unreachable", .attempt_no = 1, .stop_cause = FR_CAUSE_STOPPED, .wall = 5),
      EV(.kind = "cancelled", .attempt_no = 1, .cause = "stopped", .wall = 6),
      EV(.kind = "reachable", .attempt_no = 1, .cause = "stopped", .wall = 6)},
     8,
     "a@n1 starting 1\na@n1 running 1\na@n1 running 1 away\na@n1 running 1\n"
     "a@n1 stopping 1 for stopped\na@n1 stopping 1 for stopped away\n"
     "a@n1 cancelled 1 by stopped 0\n"
     "= a@n1 cancelled began 1 time 1-6\n= b@n1 waiting began 0 time 0-0\n"},
    {"a node comes back just behind a change of another instance",
     {EV(.kind = "starting", .attempt_no = 1, .wall = 1),
      EV(.kind = "running", .attempt_no = 1, .wall = 2),
      EV(.kind = "unreachable", .attempt_no = 1, .wall = 3, .text = "its node"),
      EV(.idx = 1, .kind = "ready", .wall = 4),
      EV(.kind = "reachable", .attempt_no = 1, .wall = 4)},
     5,
     "a@n1 starting 1\na@n1 running 1\na@n1 running 1 away\nb@n1 ready 0\na@n1 running 1\n"
     "= a@n1 running began 1 time 1-0\n= b@n1 ready began 0 time 0-0\n"},
    {"an attempt whose start no row tells: a host booked it, the next one found it over",
     {EV(.kind = "ready"),
      {.log = A1, .text = "one\n"},
      EV(.kind = "succeeded", .attempt_no = 1, .cause = "exit", .log_bytes = 4, .wall = 3),
      EV(.idx = 1, .kind = "ready"),
      EV(.idx = 1, .kind = "running", .attempt_no = 1, .wall = 4),
      {.log = "b@n1.1.log", .text = "two\n"},
      LOOK},
     7,
     "a@n1 ready 0\na@n1#1 log 0+4\na@n1 succeeded 1 by exit 0\nb@n1 ready 0\n"
     "b@n1 running 1\nb@n1#1 log 0+4\n"
     "= a@n1 succeeded began 1 time 0-3\n= b@n1 running began 1 time 4-0\n"},
    {"what the plan has no more is left out; the end of the run",
     {EV(.idx = -1, .kind = "running"), EV(.idx = -2, .kind = "starting", .attempt_no = 1),
      EV(.idx = 99, .kind = "starting", .attempt_no = 1),
      EV(.kind = "note", .text = "of another version"),
      EV(.idx = -1, .kind = "hooks", .cause = "failed"),
      EV(.idx = -1, .kind = "failed", .cause = "failed", .text = "a@n1: x")},
     6,
     "a@n1 waiting 0\nrun hooks failed\nrun over failed\n"
     "= a@n1 waiting began 0 time 0-0\n= b@n1 waiting began 0 time 0-0\n"},
    {"a task that runs again has no time yet",
     {EV(.kind = "starting", .attempt_no = 1, .wall = 1),
      EV(.kind = "failed", .attempt_no = 1, .cause = "exit", .code = 1, .wall = 2),
      EV(.kind = "ready", .attempt_no = 1, .wall = 8),
      EV(.kind = "starting", .attempt_no = 2, .wall = 9)},
     4,
     "a@n1 starting 1\na@n1 failed 1 by exit 1\na@n1 ready 1\na@n1 starting 2\n"
     "= a@n1 starting began 2 time 9-0\n= b@n1 waiting began 0 time 0-0\n"},
};

static void test_table(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool complete = false;

        check_row(cases[i].name);
        begin();
        for (size_t s = 0; s < cases[i].n; s++) {
            const struct step *step = &cases[i].steps[s];

            if (step->ev.kind != NULL)
                add(&step->ev);
            else if (step->log != NULL)
                append(step->log, step->text, strlen(step->text));
            else
                catch_up();
            CHECK(!step->over || (cli_follow_over(bed.f, &complete) && complete));
        }
        catch_up();
        say_model();
        CHECK_TEXT(bed.got.p, cases[i].want);
        end();
    }
    check_row("");
}

/* ---- the rest ---- */

static void test_outputs(void)
{
    struct fr_output_row rows[] = {{1, "x", "1"}, {1, "y", "2"}, {1, "_result", "{}"}};
    struct fr_output_row used = {0, "z", "3"}; /* by b: it is no result of the run */
    struct fr_event_row ev = {.idx = 0, .kind = "succeeded", .attempt_no = 1, .cause = "exit"};

    begin();
    CHECK_INT(fr_store_output_put(bed.st, bed.row.id, &used, NULL), FR_OK);
    add(&ev);
    catch_up();
    CHECK_TEXT(bed.got.p, "a@n1 succeeded 1 by exit 0\n");
    bed.got.n = 0;
    ev.idx = 1;
    for (int i = 0; i < 3; i++)
        CHECK_INT(fr_store_output_put(bed.st, bed.row.id, &rows[i], NULL), FR_OK);
    add(&ev);
    catch_up();
    CHECK_TEXT(bed.got.p, "b@n1 succeeded 1 by exit 0 _result={} x=1 y=2\n");
    const struct fr_strs *outs = bed.model.insts[1].outputs;
    if (CHECK(outs != NULL && outs->n == 2)) {
        CHECK_TEXT(outs->v[0].p, "y=2"); /* as it is declared */
        CHECK_TEXT(outs->v[1].p, "x=1");
    }
    end();
}

/* A run that was over runs again: it is over once more when that has ended. */
static void test_again(void)
{
    struct fr_event_row ev = {.idx = -1, .kind = "failed", .cause = "failed"};
    bool complete;

    begin();
    add(&ev);
    catch_up();
    CHECK(cli_follow_over(bed.f, &complete) && complete);
    ev = (struct fr_event_row){.idx = -1, .kind = "running"};
    add(&ev);
    catch_up();
    CHECK(!cli_follow_over(bed.f, &complete) && !complete);
    ev = (struct fr_event_row){.idx = -1, .kind = "succeeded", .cause = "succeeded"};
    add(&ev);
    catch_up();
    CHECK(cli_follow_over(bed.f, &complete) && complete);
    end();
}

/* A call takes a slice, and an end waits for the slices of its output. */
static void test_slices(void)
{
    struct fr_event_row ev[] = {
        {.idx = 1, .kind = "starting", .attempt_no = 1},
        {.idx = 1, .kind = "running", .attempt_no = 1},
        {.idx = 1, .kind = "succeeded", .attempt_no = 1, .log_bytes = 1 << 20}};
    bool more = true;
    int calls = 0;

    begin();
    for (int i = 0; i < 3; i++)
        add(&ev[i]);
    append_zeros("b@n1.1.log", 1 << 20);
    for (; more && calls < 100; calls++) {
        uint64_t was = bed.model.insts[1].log_at;

        CHECK(bed.model.insts[1].state != FR_ST_SUCCEEDED);
        CHECK_INT(cli_follow_news(bed.f, &more, NULL), FR_OK);
        CHECK(bed.model.insts[1].log_at - was <= 64 << 10);
    }
    CHECK_INT(calls, 17);
    CHECK_INT(bed.model.insts[1].log_at, 1 << 20);
    CHECK_INT(bed.model.insts[1].state, FR_ST_SUCCEEDED);
    ev[0].kind = "ready";
    for (int i = 0; i < 2500; i++)
        add(&ev[0]);
    for (calls = 0, more = true; more && calls < 100; calls++)
        CHECK_INT(cli_follow_news(bed.f, &more, NULL), FR_OK);
    CHECK_INT(calls, 13);
    CHECK_INT(bed.model.seq, 2503);
    end();
}

/* Of a full log: the head, that it is full, and at the end the rest. */
static void test_full(void)
{
    struct fr_event_row ev[] = {
        {.kind = "starting", .attempt_no = 1},
        {.kind = "succeeded", .attempt_no = 1, .log_bytes = 64 << 10, .wall = 3}};
    struct fr_tail_head h = {.head = 40 << 10, .keep = 24 << 10};

    for (int late = 0; late < 2; late++) {
        check_row(late ? "a full log, looked at behind its end" : "a full log while it fills");
        begin();
        add(&ev[0]);
        append_zeros(A1, 40 << 10);
        int fd = open_log(A1 ".tail", 0);
        CHECK(fr_tail_put(fd, &h, "newest", 6));
        close(fd);
        if (!late)
            catch_up();
        append_zeros(A1, 24 << 10);
        add(&ev[1]);
        catch_up();
        CHECK_TEXT(bed.got.p, "a@n1 starting 1\na@n1#1 log 0+32768\na@n1#1 log 32768+8192\n"
                              "a@n1#1 full 0+0\na@n1#1 log 40960+24576\na@n1 succeeded 1\n");
        end();
    }
    check_row("");
}

/* Output of a node that is away is not awaited. */
static void test_away(void)
{
    struct fr_event_row ev[] = {{.kind = "starting", .attempt_no = 1},
                                {.kind = "succeeded", .attempt_no = 1, .log_bytes = 9}};
    struct fr_node_row node = {.name = "n1", .unreachable_wall = 1};
    bool complete = true;

    begin();
    add(&ev[0]);
    add(&ev[1]);
    add(&(struct fr_event_row){.idx = -1, .kind = "succeeded"});
    catch_up();
    CHECK(cli_follow_over(bed.f, &complete) && !complete);
    CHECK_INT(bed.model.insts[0].left, 9);
    CHECK_INT(fr_store_node_put(bed.st, bed.row.id, &node, NULL), FR_OK);
    CHECK_INT(cli_follow_nodes(bed.f, NULL), FR_OK);
    CHECK_INT(bed.model.insts[0].left, 0);
    append(A1, "nine", 4);
    catch_up();
    append(A1, " more", 5);
    catch_up();
    CHECK(cli_follow_over(bed.f, &complete) && complete);
    CHECK_TEXT(bed.got.p, "a@n1 starting 1\na@n1 succeeded 1 left 9\nrun over succeeded\n"
                          "a@n1#1 log 0+0\na@n1#1 log 0+4\na@n1#1 log 4+5\n");
    end();
}

/* Whoever takes the run over gives notes that reach back behind the position: nothing comes twice.
 */
static void test_take_over(void)
{
    struct fr_event_row ev = {.kind = "starting", .attempt_no = 1};
    struct fr_note state = {.kind = FR_NOTE_STATE,
                            .text = "",
                            .seq = 1,
                            .row = {.state = FR_ST_STARTING, .attempt_no = 1}};
    struct fr_note log = {.kind = FR_NOTE_LOG, .text = "", .attempt_no = 1, .bytes = {"abcdef", 6}};
    struct fr_note full = {.kind = FR_NOTE_FULL, .text = "", .attempt_no = 1};

    begin();
    add(&ev);
    append(A1, "abcd", 4);
    catch_up();
    on_note(NULL, &state);
    on_note(NULL, &log);
    on_note(NULL, &full);
    on_note(NULL, &full);
    state.seq = 2;
    state.row.state = FR_ST_RUNNING;
    on_note(NULL, &state);
    log.offset = 3;
    on_note(NULL, &log);
    CHECK_TEXT(bed.got.p, "a@n1 starting 1\na@n1#1 log 0+4\na@n1#1 log 4+2\na@n1#1 full 0+0\n"
                          "a@n1 running 1\na@n1#1 log 6+3\n");
    end();
}

static void test_other_plan(void)
{
    struct fr_event_row ev = {.kind = "starting", .attempt_no = 1};
    struct fr_err err;

    begin();
    bed.row.spec_hash = "another";
    CHECK_INT(fr_store_run_set(bed.st, &bed.row, &err), FR_OK);
    add(&ev);
    CHECK_INT(cli_follow_catch_up(bed.f, &err), FR_STOPPED);
    CHECK(bed.got.n == 0);
    end();
}

/* The Nth allocation fails: an error, or none and all is there. */
static struct {
    void *(*alloc)(size_t n);
    void *(*realloc)(void *p, size_t n);
    long left;
    bool failed;
} faults;

static bool is_spared(void)
{
    if (faults.left == 0 || --faults.left > 0)
        return true;
    faults.failed = true;
    return false;
}

static void *failing_alloc(size_t n)
{
    return is_spared() ? faults.alloc(n) : NULL;
}

static void *failing_realloc(void *p, size_t n)
{
    return is_spared() ? faults.realloc(p, n) : NULL;
}

static enum fr_rc follow_all(struct fr_err *err)
{
    struct cli_follow_opts opts = {.store = bed.st, .run = bed.id, .note = on_note};
    struct cli_follow *f = NULL;
    enum fr_rc rc = cli_follow_create(&f, &opts, err);

    bed.model = (struct cli_model){.plan = f != NULL ? cli_follow_plan(f) : NULL};
    if (rc == FR_OK)
        rc = cli_model_begin(&bed.model, err);
    if (rc == FR_OK)
        rc = cli_follow_catch_up(f, err);
    if (rc == FR_OK) {
        CHECK_INT(bed.model.insts[1].state, FR_ST_SUCCEEDED);
        CHECK_INT(bed.model.insts[1].log_at, 5);
    }
    cli_model_finish(&bed.model);
    cli_follow_destroy(f);
    return rc;
}

static void test_no_memory(void)
{
    struct fr_output_row row = {1, "x", "1"};
    struct fr_event_row ev[] = {{.idx = 1, .kind = "starting", .attempt_no = 1},
                                {.idx = 1, .kind = "succeeded", .attempt_no = 1, .log_bytes = 5}};
    struct fr_err err = {0};
    long n = 0;

    begin();
    cli_model_finish(&bed.model);
    CHECK_INT(fr_store_output_put(bed.st, bed.row.id, &row, &err), FR_OK);
    add(&ev[0]);
    append("b@n1.1.log", "five\n", 5);
    add(&ev[1]);
    faults.alloc = fr_sys.alloc;
    faults.realloc = fr_sys.realloc;
    fr_sys.alloc = failing_alloc;
    fr_sys.realloc = failing_realloc;
    do {
        faults.failed = false;
        faults.left = ++n;
        enum fr_rc rc = follow_all(&err);
        faults.left = 0;
        CHECK(rc == FR_OK || (rc == FR_NOMEM && err.msg[0] != '\0'));
    } while (faults.failed && n < 10000);
    CHECK(n > 10 && n < 10000);
    fr_sys.alloc = faults.alloc;
    fr_sys.realloc = faults.realloc;
    end();
}

int main(void)
{
    make_home(home);
    test_table();
    test_outputs();
    test_again();
    test_slices();
    test_full();
    test_away();
    test_take_over();
    test_other_plan();
    test_no_memory();
    CHECK_INT(fr_remove_tree(home, NULL), FR_OK);
    return check_done();
}

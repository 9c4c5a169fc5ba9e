/* Notes become lines: in which order ends, output and the run's end are shown. */
#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "tests/unit/check.h"

#include <fcntl.h>

static const char yaml[] = "name: p\n"
                           "nodes:\n"
                           "  - {name: n1, executor: local}\n"
                           "  - {name: n2, executor: ssh, address: 10.0.0.2}\n"
                           "tasks:\n"
                           "  a: {on: n1, run: \"true\"}\n"
                           "  b: {on: n2, run: \"true\"}\n";

enum { A, B, RUN = 9 };
enum what { STATE, LOG, OVER, DOWN, TROUBLE, TAKE };

struct step {
    enum what what;
    uint32_t inst;
    enum fr_state_of state;
    uint64_t left;
    const char *text;
    bool no_event;
    uint32_t no; /* of the attempt; 0: 1 */
};

static const struct {
    const char *name;
    bool json;
    struct step steps[10];
    size_t n;
    const char *want; /* clocks left out */
} cases[] = {
    {"an end waits for its output, the run's end for both",
     false,
     {{STATE, A, FR_ST_STARTING, .text = ""},
      {LOG, A, .text = "one\n"},
      {STATE, A, FR_ST_RUNNING, .text = ""},
      {STATE, A, FR_ST_SUCCEEDED, .left = 5, .text = ""},
      {OVER, RUN, .text = ""},
      {LOG, A, .left = 2, .text = "two"},
      {LOG, A, .text = "!\n"}},
     7,
     "a@n1 starting|a@n1 running|a@n1 | one|a@n1 | two!|a@n1 succeeded|run 3 succeeded|"},
    {"elsewhere, too, however much there is",
     false,
     {{STATE, B, FR_ST_RUNNING, .text = ""},
      {LOG, B, .text = "first\nin the mid"},
      {STATE, B, FR_ST_FAILED, .left = 300 << 20, .text = "why"},
      {OVER, RUN, .text = ""},
      {LOG, B, .left = 200 << 20, .text = "dle\nmore\n"},
      {LOG, B, .text = "last\n"}},
     6,
     "b@n2 running|b@n2 | first|b@n2 | in the middle|b@n2 | more|b@n2 | last|b@n2 failed: why|"
     "run 3 succeeded|"},
    {"a node that is away gives none",
     false,
     {{STATE, A, FR_ST_SUCCEEDED, .left = 5, .text = ""},
      {STATE, B, FR_ST_SUCCEEDED, .left = 5, .text = ""},
      {TROUBLE, RUN, .text = "something"},
      {DOWN, B, .text = "unreachable"}},
     4,
     "something|b@n2 succeeded|n2: unreachable|"},
    {"what an instance does next waits behind its end",
     false,
     {{STATE, A, FR_ST_RETRYING, .left = 5, .text = ""},
      {STATE, A, FR_ST_STARTING, .text = "", .no = 2},
      {STATE, A, FR_ST_RUNNING, .text = "", .no = 2},
      {OVER, RUN, .text = ""},
      {LOG, A, .text = "rest\n"},
      {LOG, A, .text = "next\n", .no = 2}},
     6,
     "a@n1 | rest|a@n1 retrying in 0ms|a@n1 starting (attempt 2)|a@n1 running (attempt 2)|"
     "run 3 succeeded|a@n1 | next|"},
    {"the next attempt does not wait for output that does not come",
     false,
     {{STATE, A, FR_ST_RETRYING, .left = 5, .text = ""},
      {STATE, A, FR_ST_STARTING, .text = "", .no = 2},
      {STATE, A, FR_ST_RUNNING, .text = "", .no = 2},
      {LOG, A, .left = 5, .text = "next\n", .no = 2}},
     4,
     "a@n1 retrying in 0ms|a@n1 starting (attempt 2)|a@n1 running (attempt 2)|a@n1 | next|"},
    {"what a follower holds waits on when the run is taken over",
     false,
     {{STATE, A, FR_ST_SUCCEEDED, .left = 5, .text = ""},
      {LOG, A, .left = 1, .text = "some"},
      {TAKE, RUN, .text = ""},
      {LOG, A, .text = "e\n"}},
     4,
     "a@n1 | somee|a@n1 succeeded|"},
    {"what an attempt did not end is no part of the next one's first line",
     false,
     {{STATE, A, FR_ST_RUNNING, .text = ""},
      {STATE, A, FR_ST_RETRYING, .text = ""},
      {LOG, A, .text = "cut"},
      {STATE, A, FR_ST_RUNNING, .text = "", .no = 2},
      {LOG, A, .text = "whole\n", .no = 2}},
     5,
     "a@n1 running|a@n1 retrying in 0ms|a@n1 running (attempt 2)|a@n1 | cut|a@n1 | whole|"},
    {"an object an event",
     true,
     {{STATE, A, FR_ST_STARTING, .text = ""},
      {STATE, A, FR_ST_STARTING, .text = "", .no_event = true}},
     2,
     "a starting|"},
};

static struct fr_note note_of(const struct step *s, int64_t seq)
{
    struct fr_note note = {.inst = s->inst != RUN ? s->inst : FR_PLAN_NONE,
                           .node = FR_PLAN_NONE,
                           .text = s->what == LOG ? "" : s->text,
                           .left = s->left,
                           .wall_ms = 1,
                           .attempt_no = s->no > 0 ? s->no : 1};

    switch (s->what) {
    case STATE:
        note.kind = FR_NOTE_STATE;
        note.row =
            (struct fr_row){.inst = s->inst, .state = s->state, .attempt_no = note.attempt_no};
        note.seq = s->no_event ? 0 : seq;
        break;
    case LOG:
        note.kind = FR_NOTE_LOG;
        note.bytes = fr_str_of(s->text);
        note.offset = (uint64_t)seq * 1000;
        break;
    case OVER:
        note.kind = FR_NOTE_RUN;
        note.now = (struct fr_run_now){FR_RUN_OVER, FR_OUT_SUCCEEDED, 1, false};
        note.seq = seq;
        break;
    case DOWN:
        note.kind = FR_NOTE_NODE;
        note.node = 1;
        note.inst = FR_PLAN_NONE;
        break;
    default:
        note.kind = FR_NOTE_TROUBLE;
        break;
    }
    return note;
}

/* What was printed behind the first line, each line without its clock; of objects task and state.
 */
static void read_back(int fd, struct fr_buf *out)
{
    char text[8192], *line, *rest = text;
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    bool first = true;

    text[n > 0 ? n : 0] = '\0';
    while ((line = strsep(&rest, "\n")) != NULL && rest != NULL) {
        json_t *doc = line[0] == '{' ? json_loads(line, 0, NULL) : NULL;

        if (!first && doc != NULL)
            fr_buf_fmt(out, "%s %s|", json_string_value(json_object_get(doc, "task")),
                       json_string_value(json_object_get(doc, "state")));
        else if (!first)
            fr_buf_fmt(out, "%s|", line + 9);
        json_decref(doc);
        first = false;
    }
}

static void run_case(size_t i, const struct fr_plan *plan, struct fr_loop *loop)
{
    struct fr_run_row row = {.no = 3, .state = FR_RUN_RUNNING, .started_wall = 1};
    struct cli_show_opts how = {.json = cases[i].json, .verbose = true, .loop = loop};
    char path[] = "/tmp/show_test.XXXXXX";
    struct cli_show *show = NULL;
    struct cli_out *out = NULL;
    struct fr_buf got = {0};
    struct fr_err err;
    int fd = mkstemp(path), was = dup(1);

    fflush(stdout);
    dup2(fd, 1);
    unlink(path);
    bool begun = cli_out_create(&out, loop, how.json, &err) == FR_OK;
    how.out = out;
    begun = begun && cli_show_create(&show, &how, &err) == FR_OK &&
            cli_show_begin_stored(show, &row, plan, &err) == FR_OK;
    for (size_t s = 0; begun && s < cases[i].n; s++) {
        struct fr_note note = note_of(&cases[i].steps[s], (int64_t)s + 1);

        if (cases[i].steps[s].what == TAKE)
            cli_show_begin(show, NULL, &err);
        else
            cli_show_note(show, &note);
    }
    if (out != NULL)
        cli_out_flush(out);
    read_back(fd, &got);
    if (begun)
        cli_show_end(show);
    cli_show_destroy(show);
    cli_out_destroy(out);
    dup2(was, 1);
    close(was);
    close(fd);
    CHECK(begun);
    CHECK_TEXT(got.p, cases[i].want);
    fr_buf_finish(&got);
}

int main(void)
{
    struct fr_source source = {"p.yaml", FR_STR(yaml)};
    struct fr_spec_opts opts = {.path = "p.yaml", .cwd = "/", .sources = &source, .n_sources = 1};
    struct fr_issues issues = {0};
    struct fr_spec *spec = NULL;
    struct fr_plan *plan = NULL;
    struct fr_arena arena = {0};
    struct fr_loop loop = {0};

    CHECK_INT(fr_spec_load(&opts, &spec, &issues, NULL), FR_OK);
    if (spec != NULL && CHECK_INT(fr_plan_make(spec, &arena, &plan, NULL), FR_OK) &&
        CHECK_INT(fr_loop_event_create(&loop, NULL), FR_OK))
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            check_row(cases[i].name);
            run_case(i, plan, &loop);
        }
    fr_loop_destroy(&loop);
    fr_issues_finish(&issues);
    fr_spec_destroy(spec);
    fr_arena_finish(&arena);
    return check_done();
}

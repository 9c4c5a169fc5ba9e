/* The table that a terminal shows below the lines, as a pipe gets it. */
#include "engine/show/private.h"

#include "engine/base/sys.h"
#include "tests/unit/check.h"

enum { NOW = 1000000, MONO = 5000, INSTS = 4 };

static const char yaml[] = "name: p\n"
                           "nodes: [{name: n1}, {name: n2}]\n"
                           "tasks:\n"
                           "  both: {on: all, run: x}\n"
                           "  longer: {on: n2, run: x}\n"
                           "on_failure: [{name: oh, on: n1, run: x}]\n";

/* What is known of both@n1, both@n2, longer@n2 and the hook, and the table. */
static const struct {
    const char *row;
    struct cli_model_inst insts[INSTS];
    enum fr_run_state state;
    const char *want;
} tables[] = {
    {"nothing began",
     {{0}},
     FR_RUN_RUNNING,
     "both    waiting          0/2           -  n1 n2\n"
     "longer  waiting          0/1           -  n2\n"
     "run 7: 0 of 3 ended, 0 running, 3 waiting, 5.0s\n"},
    {"one goes on: from the first beginning until now, by the most attempts",
     {{.state = FR_ST_FAILED, .began = 2, .started_wall = NOW - 3000, .ended_wall = NOW - 2000},
      {.state = FR_ST_RUNNING, .began = 1, .started_wall = NOW - 9000},
      {.state = FR_ST_READY}},
     FR_RUN_RUNNING,
     "both    failed           1/2        9.0s  attempt 2  n1 n2\n"
     "longer  ready            0/1           -  n2\n"
     "run 7: 1 of 3 ended, 1 failed, 1 running, 1 waiting, 5.0s\n"},
    {"all ended: until the last end; a node that is away",
     {{.state = FR_ST_SUCCEEDED, .began = 1, .started_wall = NOW - 9000, .ended_wall = NOW - 2000},
      {.state = FR_ST_SKIPPED, .began = 1, .started_wall = NOW - 8000, .ended_wall = NOW - 3000},
      {.state = FR_ST_STOPPING, .began = 1, .started_wall = NOW - 500, .unreachable = true}},
     FR_RUN_RUNNING,
     "both    succeeded        2/2        7.0s  n1 n2\n"
     "longer  unreachable      0/1       500ms  n2\n"
     "run 7: 2 of 3 ended, 1 running, 0 waiting, 5.0s\n"},
    {"hooks once they go; they are none of the tasks that are counted",
     {{.state = FR_ST_SUCCEEDED},
      {.state = FR_ST_SUCCEEDED},
      {.state = FR_ST_LOST},
      {.state = FR_ST_STARTING}},
     FR_RUN_HOOKS,
     "both    succeeded        2/2           -  n1 n2\n"
     "longer  lost             1/1           -  n2\n"
     "oh      starting         0/1           -  n1\n"
     "run 7: 3 of 3 ended, 1 failed, 0 running, 0 waiting, 5.0s\n"},
};

static struct fr_plan *plan;
static struct fr_loop loop;

static int64_t wall_now(void)
{
    return NOW;
}

static int64_t mono_now(void)
{
    return MONO;
}

/* The rows of a first frame, without what moves the cursor. */
static void rows_of_frame(const char *text, struct fr_buf *got)
{
    static const char cut[] = "\033[K\r\n";
    const char *row = strstr(text, "\033[J"), *end;

    fr_buf_text(got, "");
    for (row = row != NULL ? row + 3 : text; (end = strstr(row, cut)) != NULL;
         row = end + strlen(cut)) {
        fr_buf_add(got, row, (size_t)(end - row));
        fr_buf_text(got, "\n");
    }
}

/* Draws the first frame of a run whose instances are so. */
static void draw(struct cli_model_inst *insts, enum fr_run_state state, struct fr_buf *got)
{
    struct cli_show show = {.opts = {.loop = &loop},
                            .model = {.plan = plan, .no = 7, .now = {.state = state}}};
    int ends[2] = {-1, -1}, was = dup(1);
    char text[4096];
    const bool leave = false;
    ssize_t n = 0;

    show.model.insts = insts;
    fflush(stdout);
    CHECK_INT(pipe(ends), 0);
    dup2(ends[1], 1);
    if (cli_out_create(&show.opts.out, &loop, false, NULL) == FR_OK &&
        live_start(&show, NULL) == FR_OK) {
        cli_out_frame(show.opts.out);
        cli_out_drain(show.opts.out, &leave);
        n = read(ends[0], text, sizeof(text) - 1);
        live_end(&show);
        cli_out_drain(show.opts.out, &leave);
    }
    cli_out_destroy(show.opts.out);
    dup2(was, 1);
    close(was);
    close(ends[0]);
    close(ends[1]);
    fr_buf_finish(&show.table.text);
    text[CHECK(n > 0) ? n : 0] = '\0';
    rows_of_frame(text, got);
}

static void test_tables(void)
{
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        struct cli_model_inst insts[INSTS];
        struct fr_buf got = {0};

        check_row(tables[i].row);
        memcpy(insts, tables[i].insts, sizeof(insts));
        draw(insts, tables[i].state, &got);
        CHECK_TEXT(got.p, tables[i].want);
        fr_buf_finish(&got);
    }
}

/* Of two instances the more urgent one shows, whichever comes first. */
static void test_pairs(void)
{
    for (int a = 0; a < FR_ST_N; a++)
        for (int b = 0; b < FR_ST_N; b++) {
            struct cli_model_inst insts[INSTS] = {{.state = (enum fr_state_of)a},
                                                  {.state = (enum fr_state_of)b}};
            const char *want = fr_state_name(fr_state_shown(insts[0].state, insts[1].state));
            struct fr_buf got = {0};

            check_row(want);
            draw(insts, FR_RUN_RUNNING, &got);
            CHECK(got.n > 8 && strncmp(got.p + 8, want, strnlen(want, 13)) == 0);
            fr_buf_finish(&got);
        }
}

int main(void)
{
    struct fr_source source = {"p.yaml", FR_STR(yaml)};
    struct fr_spec_opts opts = {.path = "p.yaml", .cwd = "/", .sources = &source, .n_sources = 1};
    struct fr_issues issues = {0};
    struct fr_spec *spec = NULL;
    struct fr_arena arena = {0};

    CHECK_INT(fr_spec_load(&opts, &spec, &issues, NULL), FR_OK);
    if (spec != NULL && CHECK_INT(fr_plan_make(spec, &arena, &plan, NULL), FR_OK) &&
        CHECK_INT(plan->n_insts, INSTS) && CHECK_INT(fr_loop_event_create(&loop, NULL), FR_OK)) {
        fr_sys.wall_ms = wall_now;
        fr_sys.mono_ms = mono_now;
        test_tables();
        test_pairs();
        fr_sys.wall_ms = fr_sys_real.wall_ms;
        fr_sys.mono_ms = fr_sys_real.mono_ms;
    }
    fr_loop_destroy(&loop);
    fr_issues_finish(&issues);
    fr_spec_destroy(spec);
    fr_arena_finish(&arena);
    return check_done();
}

/*
 * A pipeline as large as one may be: 100,000 tasks from the file to the end of a run, without
 * processes. Nothing here measures time; what is not linear does not end within the test's limit.
 */
#include "engine/run/run.h"
#include "engine/sched/sched.h"
#include "tests/unit/check.h"

enum { MANY = 100000, WIDTH = 16 };

static enum fr_rc load(const struct fr_buf *text, struct fr_spec **out, struct fr_issues *issues)
{
    struct fr_source source = {"p.yaml", {text->p, text->n}};
    struct fr_spec_opts opts = {.path = "p.yaml", .cwd = "/", .sources = &source, .n_sources = 1};
    struct fr_err err = {0};
    enum fr_rc rc = fr_spec_load(&opts, out, issues, &err);

    if (rc == FR_NOMEM)
        printf("%s\n", err.msg);
    return rc;
}

/* Answers every start with a launch and an end; each turn takes what the one before asked for. */
static void run_it(const struct fr_plan *plan)
{
    struct fr_sched *s;
    struct fr_acts acts = {0}, todo;
    struct fr_err err = {0};
    struct fr_event ev = {.kind = FR_EV_BEGIN};
    struct fr_id id = {{0}};
    uint32_t next = 0, started = 0;
    size_t live = 0;
    bool ok = CHECK_INT(fr_sched_create(plan, NULL, &s, &err), FR_OK);

    if (!ok)
        return;
    ok = fr_sched_apply(s, &ev, 0, &acts, &err) == FR_OK;
    ev = (struct fr_event){.kind = FR_EV_NODE_UP};
    ok = ok && fr_sched_apply(s, &ev, 0, &acts, &err) == FR_OK;
    while (ok && fr_sched_now(s).state != FR_RUN_OVER) {
        todo = acts;
        acts = (struct fr_acts){0};
        for (size_t n = fr_sched_ids_wanted(s); n > 0; n--) {
            next++;
            memcpy(id.b, &next, sizeof(next));
            (void)fr_sched_add_ids(s, &id, 1, &err);
        }
        ev = (struct fr_event){.kind = FR_EV_TICK};
        ok = fr_sched_apply(s, &ev, 0, &acts, &err) == FR_OK;
        for (size_t i = 0; ok && i < todo.n; i++) {
            if (todo.v[i].kind != FR_ACT_START)
                continue;
            started++;
            live = fr_sched_live(s) > live ? fr_sched_live(s) : live;
            ev = (struct fr_event){
                .kind = FR_EV_LAUNCHED, .inst = todo.v[i].inst, .attempt = todo.v[i].attempt};
            ok = fr_sched_apply(s, &ev, 0, &acts, &err) == FR_OK;
            ev.kind = FR_EV_ENDED;
            ev.cause = FR_CAUSE_EXIT;
            ev.proven = true;
            ok = ok && fr_sched_apply(s, &ev, 0, &acts, &err) == FR_OK;
        }
        fr_acts_finish(&todo);
    }
    if (!CHECK(ok))
        printf("   %s\n", err.msg);
    CHECK_INT(fr_sched_now(s).outcome, FR_OUT_SUCCEEDED);
    CHECK_INT(started, plan->n_insts);
    CHECK(live <= WIDTH);
    fr_acts_finish(&acts);
    fr_sched_destroy(s);
}

/* What a row's task needs, behind its name. */
static void no_needs(struct fr_buf *b, int i)
{
    (void)i;
    fr_buf_text(b, "{argv: [\"true\"]}\n");
}

/* Each uses an output of the first, which it needs through all others. */
static void in_a_chain(struct fr_buf *b, int i)
{
    if (i == 0)
        fr_buf_text(b, "{run: x, outputs: [k]}\n");
    else
        fr_buf_fmt(b, "{needs: [t%d], argv: [\"${{ tasks.t0.outputs.k }}\"]}\n", i - 1);
}

static void from_all_before(struct fr_buf *b, int i)
{
    fr_buf_text(b, "{run: x, needs: [");
    for (int k = 0; k < i; k++)
        fr_buf_fmt(b, "%st%d", k > 0 ? ", " : "", k);
    fr_buf_text(b, "]}\n");
}

static const struct row {
    const char *name;
    int n;
    void (*task)(struct fr_buf *b, int i);
    uint32_t longest;  /* chain of tasks */
    size_t spec_bytes; /* a task, at most: what stays for the time of the run */
} rows[] = {
    {"wide", MANY, no_needs, 1, 600},
    {"chain", MANY, in_a_chain, MANY, 1000},
    {"125,000 needs", 500, from_all_before, 500, 8000},
};

static void make_text(const struct row *row, struct fr_buf *b)
{
    fr_buf_fmt(b, "max_parallel: %d\nnodes: [{name: n, executor: local, slots: 64}]\ntasks:\n",
               WIDTH);
    for (int i = 0; i < row->n; i++) {
        fr_buf_fmt(b, "  t%d: ", i);
        row->task(b, i);
    }
}

static void test_large(const struct row *row)
{
    struct fr_issues issues = {0};
    struct fr_arena arena = {0};
    struct fr_buf text = {0};
    struct fr_spec *spec = NULL;
    struct fr_plan *plan = NULL;

    check_row(row->name);
    make_text(row, &text);
    if (CHECK_INT(load(&text, &spec, &issues), FR_OK) &&
        CHECK_INT(fr_plan_make(spec, &arena, &plan, NULL), FR_OK)) {
        CHECK_INT(plan->n_tasks, row->n);
        CHECK_INT(plan->n_critical, row->longest);
        CHECK(spec->arena.used_bytes - text.n < row->spec_bytes * (size_t)row->n);
        run_it(plan);
    } else if (issues.n > 0) {
        printf("   %s\n", issues.lines[0]);
    }
    fr_arena_finish(&arena);
    fr_spec_destroy(spec);
    fr_issues_finish(&issues);
    fr_buf_finish(&text);
    check_row("");
}

/* As many mistakes as tasks, each of which might be meant for any other: the list is cut. */
static void test_all_wrong(void)
{
    struct fr_issues issues = {0};
    struct fr_buf text = {0};
    struct fr_spec *spec = NULL;

    check_row("all wrong");
    fr_buf_text(&text, "tasks:\n");
    for (int i = 0; i < MANY; i++)
        fr_buf_fmt(&text, "  t%d: {run: x, needs: [u%d]}\n", i, i);
    CHECK_INT(load(&text, &spec, &issues), FR_USAGE);
    if (CHECK_INT(issues.n, 201)) {
        CHECK_TEXT(issues.lines[0], "p.yaml:2:24: task 't0' needs unknown task 'u0'; did you mean "
                                    "'t0'?");
        CHECK_TEXT(issues.lines[200], "and 99800 more mistakes");
    }
    fr_issues_finish(&issues);
    fr_buf_finish(&text);
    check_row("");
}

static void test_too_many(void)
{
    struct fr_issues issues = {0};
    struct fr_buf text = {0};
    struct fr_spec *spec = NULL;

    check_row("too many");
    fr_buf_text(&text, "tasks:\n");
    for (int i = 0; i <= MANY; i++)
        fr_buf_fmt(&text, "  t%d: {run: x}\n", i);
    CHECK_INT(load(&text, &spec, &issues), FR_USAGE);
    if (CHECK(issues.n > 0))
        CHECK_TEXT(issues.lines[0],
                   "p.yaml:2:3: tasks is a map; expected a map of 1 to 100000 tasks by name");
    fr_issues_finish(&issues);
    fr_buf_finish(&text);
    check_row("");
}

/* A chain of tasks, each with a file that is not here: on another machine all of them are mistakes,
 * behind a task of this one none is, nor is a hook's behind that. */
static void test_check(const char *first, size_t mistakes)
{
    struct fr_issues issues = {0};
    struct fr_arena arena = {0};
    struct fr_buf text = {0};
    struct fr_spec *spec = NULL;
    struct fr_plan *plan = NULL;

    check_row(first);
    fr_buf_fmt(&text,
               "nodes: [{name: far, address: h}, {name: here, executor: local}]\n"
               "on_exit: [{run: x, on: far, files: {f: missing-h}}]\n"
               "tasks:\n  t0: {run: x, on: %s}\n",
               first);
    for (int i = 1; i < MANY; i++)
        fr_buf_fmt(&text, "  t%d: {needs: [t%d], run: x, on: far, files: {f: missing-%d}}\n", i,
                   i - 1, i);
    if (CHECK_INT(load(&text, &spec, &issues), FR_OK) &&
        CHECK_INT(fr_plan_make(spec, &arena, &plan, NULL), FR_OK)) {
        CHECK_INT(fr_run_check(plan, NULL, NULL, &issues, NULL), mistakes > 0 ? FR_USAGE : FR_OK);
        CHECK_INT(issues.n, mistakes);
    }
    if (mistakes > 0 && CHECK_INT(issues.n, mistakes)) {
        CHECK(strstr(issues.lines[0], "p.yaml:2:") == issues.lines[0]);
        CHECK(strstr(issues.lines[1], "p.yaml:5:") == issues.lines[1]);
        CHECK(strstr(issues.lines[199], "/missing-199: ") != NULL);
        CHECK_TEXT(issues.lines[200], "and 99800 more mistakes");
    }
    fr_arena_finish(&arena);
    fr_spec_destroy(spec);
    fr_issues_finish(&issues);
    fr_buf_finish(&text);
    check_row("");
}

int main(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        test_large(&rows[i]);
    test_all_wrong();
    test_too_many();
    test_check("far", 201);
    test_check("here", 0);
    return check_done();
}

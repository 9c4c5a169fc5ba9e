/* 100,000 instances: one event is little work, and an instance takes little memory. What a node is
 * needed for. */
#include "engine/base/sys.h"
#include "tests/unit/sched/sched_bench.h"

enum { BIG_TASKS = 1000, BIG_NODES = 100 };

struct big {
    struct fr_spec spec;
    struct fr_task tasks[BIG_TASKS];
    struct fr_node nodes[BIG_NODES];
    char names[BIG_TASKS][16], node_names[BIG_NODES][16];
    int need[BIG_TASKS], on[BIG_NODES];
};

/* 1000 tasks on 100 nodes, ten chains side by side. */
static struct big *big_make(void)
{
    struct big *g = calloc(1, sizeof *g);

    for (int n = 0; n < BIG_NODES; n++) {
        snprintf(g->node_names[n], sizeof g->node_names[n], "n%d", n);
        g->nodes[n] = (struct fr_node){.name = g->node_names[n], .slots = 8};
        g->on[n] = n;
    }
    for (int t = 0; t < BIG_TASKS; t++) {
        snprintf(g->names[t], sizeof g->names[t], "t%d", t);
        g->need[t] = t - 10;
        g->tasks[t] = (struct fr_task){.act.name = g->names[t],
                                       .needs = &g->need[t],
                                       .n_needs = t >= 10,
                                       .nodes = g->on,
                                       .n_nodes = BIG_NODES,
                                       .slots = 1};
    }
    g->spec.sources[0].path = "big.yaml";
    g->spec.name = "big";
    g->spec.max_parallel = 500;
    g->spec.nodes = g->nodes;
    g->spec.n_nodes = BIG_NODES;
    g->spec.tasks = g->tasks;
    g->spec.n_tasks = BIG_TASKS;
    return g;
}

/* Every attempt ends well in the order started; the actions of one event stay few. */
static size_t play_big(struct bench *b, size_t *most)
{
    struct fr_act *todo = calloc(BIG_TASKS * BIG_NODES + BIG_NODES, sizeof *todo);
    size_t at = 0, n = 0, over = 0;

    give(b, (struct fr_event){.kind = FR_EV_BEGIN}, NULL);
    for (bool first = true; first || at < n; first = false) {
        if (!first) {
            struct fr_event ev = {.kind = FR_EV_ENDED, .cause = FR_CAUSE_EXIT, .proven = true};

            ev.inst = todo[at].inst;
            ev.node = todo[at].node;
            ev.attempt = todo[at].attempt;
            if (todo[at++].kind == FR_ACT_CONNECT)
                ev.kind = FR_EV_NODE_UP;
            give(b, ev, NULL);
            *most = b->acts.n > *most ? b->acts.n : *most;
        }
        for (size_t i = 0; i < b->acts.n; i++) {
            over += b->acts.v[i].kind == FR_ACT_OVER;
            if (b->acts.v[i].kind == FR_ACT_START || b->acts.v[i].kind == FR_ACT_CONNECT)
                todo[n++] = b->acts.v[i];
        }
        b->acts.n = 0;
    }
    free(todo);
    return over;
}

static void test_big(void)
{
    struct bench b = {.ids = 0};
    struct big *g = big_make();
    size_t most = 0;

    check_row("100,000 instances");
    CHECK(fr_plan_make(&g->spec, &b.arena, &b.plan, NULL) == FR_OK);
    CHECK(fr_sched_create(b.plan, NULL, &b.s, NULL) == FR_OK);
    CHECK_INT(play_big(&b, &most), 1);
    CHECK_INT(fr_sched_count(b.s, FR_ST_SUCCEEDED), BIG_TASKS * BIG_NODES);
    /* a slice becomes ready, and the 100 of one task start, no more */
    CHECK(most < FR_SCHED_SLICE + 3 * BIG_NODES + 20);
    bench_finish(&b);
    free(g);
}

/* Rows that an event gave; they are taken as committed. */
static size_t rows_of(struct bench *b, struct fr_event ev)
{
    size_t rows = 0;

    CHECK(give(b, ev, NULL) == FR_OK);
    for (size_t i = 0; i < b->acts.n; i++)
        rows += b->acts.v[i].kind == FR_ACT_ROW;
    b->acts.n = 0;
    return rows;
}

/* What many instances do at once comes in slices: however many there are, a commit has few rows. */
static void test_slices(void)
{
    static const struct fr_event tick = {.kind = FR_EV_TICK};
    struct bench b = {.ids = 0};
    struct big *g = big_make();
    size_t ready = 0, cancelled = 0, n;

    check_row("slices");
    for (int t = 0; t < BIG_TASKS; t++)
        g->tasks[t].n_needs = 0; /* all of them are ready at once */
    CHECK(fr_plan_make(&g->spec, &b.arena, &b.plan, NULL) == FR_OK);
    CHECK(fr_sched_create(b.plan, NULL, &b.s, NULL) == FR_OK);
    CHECK_INT(rows_of(&b, (struct fr_event){.kind = FR_EV_BEGIN}), FR_SCHED_SLICE);
    for (ready = FR_SCHED_SLICE; fr_sched_more(b.s) && ready < BIG_TASKS * BIG_NODES; ready += n) {
        CHECK_INT(fr_sched_next_due(b.s), b.now_ms);
        n = rows_of(&b, tick);
        if (!CHECK_INT(n, FR_SCHED_SLICE))
            break;
        if (ready == 10 * FR_SCHED_SLICE) /* what is ready starts, also while more gets ready */
            CHECK(rows_of(&b, (struct fr_event){.kind = FR_EV_NODE_UP}) > FR_SCHED_SLICE &&
                  fr_sched_live(b.s) > 0);
    }
    CHECK_INT(fr_sched_count(b.s, FR_ST_WAITING), 0);

    check_row("a cancel in slices: what lives is stopped first");
    size_t live = fr_sched_live(b.s);
    CHECK(rows_of(&b, (struct fr_event){.kind = FR_EV_CANCEL}) <= FR_SCHED_SLICE + live);
    CHECK_INT(fr_sched_count(b.s, FR_ST_STOPPING), live);
    while (fr_sched_more(b.s) && cancelled < BIG_TASKS * BIG_NODES) {
        n = rows_of(&b, tick);
        CHECK(n > 0 && n <= FR_SCHED_SLICE);
        cancelled += n;
    }
    CHECK_INT(fr_sched_count(b.s, FR_ST_CANCELLED), BIG_TASKS * BIG_NODES - live);
    CHECK_INT(fr_sched_now(b.s).state, FR_RUN_CANCELLING);

    check_row("killed between two slices of a cancel: the next host goes on with it");
    fr_sched_destroy(b.s);
    CHECK(fr_sched_create(b.plan, NULL, &b.s, NULL) == FR_OK);
    CHECK(fr_sched_load_run(b.s, &(struct fr_run_now){.state = FR_RUN_CANCELLING, .round = 1},
                            NULL) == FR_OK);
    CHECK(fr_sched_load(b.s, &(struct fr_row){.inst = 7, .state = FR_ST_READY}, NULL) == FR_OK);
    CHECK_INT(rows_of(&b, (struct fr_event){.kind = FR_EV_RESUME}), FR_SCHED_SLICE);
    for (n = 1; fr_sched_more(b.s) && n > 0;)
        CHECK((n = rows_of(&b, tick)) <= FR_SCHED_SLICE);
    CHECK_INT(fr_sched_count(b.s, FR_ST_CANCELLED), BIG_TASKS * BIG_NODES);
    CHECK_INT(fr_sched_now(b.s).state, FR_RUN_OVER);
    bench_finish(&b);
    free(g);
}

/* How many whens are asked for by ev, and by the answers to them; all say no. */
static size_t asked_by(struct bench *b, struct fr_event ev)
{
    size_t asked = 0;

    CHECK(give(b, ev, NULL) == FR_OK);
    for (size_t i = 0; i < b->acts.n; i++)
        if (b->acts.v[i].kind == FR_ACT_EVAL) {
            asked++;
            CHECK(give(b, (struct fr_event){.kind = FR_EV_WHEN, .inst = b->acts.v[i].inst}, NULL) ==
                  FR_OK);
        }
    b->acts.n = 0;
    return asked;
}

static void test_answers(void)
{
    static const struct fr_event tick = {.kind = FR_EV_TICK};
    struct bench b = {.ids = 0};
    struct big *g = big_make();
    size_t asked, n;

    check_row("the answers to a slice belong to it");
    for (int t = 0; t < BIG_TASKS; t++) {
        g->tasks[t].n_needs = 0;
        g->tasks[t].when.s = "false";
    }
    CHECK(fr_plan_make(&g->spec, &b.arena, &b.plan, NULL) == FR_OK);
    CHECK(fr_sched_create(b.plan, NULL, &b.s, NULL) == FR_OK);
    asked = n = asked_by(&b, (struct fr_event){.kind = FR_EV_BEGIN});
    CHECK_INT(n, FR_SCHED_SLICE);
    for (; fr_sched_more(b.s) && CHECK_INT(n, FR_SCHED_SLICE); asked += n)
        n = asked_by(&b, tick);
    CHECK_INT(asked, BIG_TASKS * BIG_NODES);
    CHECK_INT(fr_sched_count(b.s, FR_ST_SKIPPED), BIG_TASKS * BIG_NODES);
    bench_finish(&b);
    free(g);
}

/* A scheduler with the rows of the one before, as the next host makes it. */
static void take_over(struct bench *b, struct fr_event resume)
{
    struct fr_sched *old = b->s;
    struct fr_run_now now = fr_sched_now(old);

    CHECK(fr_sched_create(b->plan, NULL, &b->s, NULL) == FR_OK);
    CHECK(fr_sched_load_run(b->s, &now, NULL) == FR_OK);
    for (uint32_t i = 0; i < b->plan->n_insts; i++) {
        struct fr_row row = fr_sched_row(old, i, b->now_ms);

        if (row.state != FR_ST_WAITING)
            CHECK(fr_sched_load(b->s, &row, NULL) == FR_OK);
    }
    fr_sched_destroy(old);
    CHECK(rows_of(b, resume) <= FR_SCHED_SLICE);
}

/* What failed or was cancelled is reset in slices, and nothing starts before all of it is. */
static void test_retry(void)
{
    static const struct fr_event tick = {.kind = FR_EV_TICK};
    struct bench b = {.ids = 0};
    struct big *g = big_make();
    size_t all = BIG_TASKS * BIG_NODES, n = 1, slices = 0;

    check_row("a retry in slices");
    CHECK(fr_plan_make(&g->spec, &b.arena, &b.plan, NULL) == FR_OK);
    CHECK(fr_sched_create(b.plan, NULL, &b.s, NULL) == FR_OK);
    (void)rows_of(&b, (struct fr_event){.kind = FR_EV_CANCEL});
    while (fr_sched_more(b.s) && n > 0)
        n = rows_of(&b, tick);
    CHECK_INT(fr_sched_now(b.s).state, FR_RUN_OVER);
    take_over(&b, (struct fr_event){.kind = FR_EV_RESUME});
    CHECK_INT(rows_of(&b, (struct fr_event){.kind = FR_EV_RETRY, .task = FR_PLAN_NONE}),
              FR_SCHED_SLICE);
    CHECK_INT(fr_sched_now(b.s).round, 2);
    for (n = 1; n > 0 && fr_sched_resets(b.s) && slices < 2 * all / FR_SCHED_SLICE; slices++) {
        CHECK(fr_sched_more(b.s));
        CHECK_INT(fr_sched_count(b.s, FR_ST_READY), 0);
        CHECK(give(&b, (struct fr_event){.kind = FR_EV_RETRY, .task = FR_PLAN_NONE}, NULL) ==
              FR_BUSY);
        CHECK((n = rows_of(&b, tick)) <= FR_SCHED_SLICE);
        if (slices == 20) { /* a secret comes and goes */
            (void)rows_of(&b, (struct fr_event){.kind = FR_EV_BLOCK, .value = true});
            (void)rows_of(&b, (struct fr_event){.kind = FR_EV_BLOCK});
        }
        if (slices == 50) { /* the host is killed, the next one goes on */
            size_t reset = fr_sched_count(b.s, FR_ST_WAITING);

            take_over(&b,
                      (struct fr_event){.kind = FR_EV_RESUME, .value = true, .task = FR_PLAN_NONE});
            CHECK_INT(fr_sched_count(b.s, FR_ST_WAITING), reset + FR_SCHED_SLICE);
        }
    }
    CHECK(slices >= all / FR_SCHED_SLICE - 4 && slices <= all / FR_SCHED_SLICE);
    CHECK_INT(fr_sched_count(b.s, FR_ST_WAITING) + fr_sched_count(b.s, FR_ST_READY), all);
    CHECK_INT(fr_sched_now(b.s).state, FR_RUN_RUNNING);
    CHECK_INT(fr_sched_now(b.s).round, 2);

    check_row("a cancel ends it: what was not reset stays as it ended");
    take_over(&b, (struct fr_event){.kind = FR_EV_RESUME});
    (void)rows_of(&b, (struct fr_event){.kind = FR_EV_CANCEL});
    for (n = 1; fr_sched_more(b.s) && n > 0;)
        n = rows_of(&b, tick);
    take_over(&b, (struct fr_event){.kind = FR_EV_RESUME});
    (void)rows_of(&b, (struct fr_event){.kind = FR_EV_RETRY, .task = FR_PLAN_NONE});
    (void)rows_of(&b, (struct fr_event){.kind = FR_EV_CANCEL});
    CHECK(!fr_sched_resets(b.s));
    for (n = 1; fr_sched_more(b.s) && n > 0;)
        CHECK((n = rows_of(&b, tick)) <= FR_SCHED_SLICE);
    CHECK_INT(fr_sched_count(b.s, FR_ST_CANCELLED), all);
    CHECK_INT(fr_sched_now(b.s).state, FR_RUN_OVER);
    bench_finish(&b);
    free(g);
}

/* All of them wait for one node: what becomes of it comes in slices. */
static void test_one_node(void)
{
    static const struct fr_event tick = {.kind = FR_EV_TICK};
    struct bench b = {.ids = 0};
    struct big *g = big_make();
    size_t n, failed = 0, ready = 0;

    check_row("the node of many does not come: they fail in slices");
    for (int t = 0; t < BIG_TASKS; t++) {
        g->tasks[t].n_needs = 0;
        g->on[t % BIG_NODES] = 0;
        g->tasks[t].retry =
            (struct fr_retry){.times = 1, .causes = 1u << FR_CAUSE_UNREACHABLE, .delay_ms = 5000};
    }
    for (int t = 0; t < BIG_TASKS; t++)
        g->tasks[t].n_nodes = 1;
    g->nodes[0].connect.retry_for_ms = 1000;
    CHECK(fr_plan_make(&g->spec, &b.arena, &b.plan, NULL) == FR_OK);
    CHECK(fr_sched_create(b.plan, NULL, &b.s, NULL) == FR_OK);
    CHECK_INT(rows_of(&b, (struct fr_event){.kind = FR_EV_BEGIN}), FR_SCHED_SLICE);
    CHECK_INT(rows_of(&b, tick), BIG_TASKS - FR_SCHED_SLICE);
    CHECK_INT(rows_of(&b, (struct fr_event){.kind = FR_EV_NODE_DOWN}), 0);
    b.now_ms += 1000;
    for (n = 1; failed < BIG_TASKS && n > 0; failed += n)
        CHECK((n = rows_of(&b, tick)) <= FR_SCHED_SLICE);
    CHECK_INT(fr_sched_count(b.s, FR_ST_RETRYING), BIG_TASKS);

    check_row("… and are tried again in slices");
    (void)rows_of(&b, tick);
    CHECK(!fr_sched_more(b.s));
    b.now_ms += 5000;
    for (n = 1; ready < BIG_TASKS && n > 0; ready += n)
        CHECK((n = rows_of(&b, tick)) <= FR_SCHED_SLICE);
    CHECK_INT(fr_sched_count(b.s, FR_ST_READY), BIG_TASKS);

    check_row("… and fail in slices when it cannot be used");
    CHECK_INT(rows_of(&b, (struct fr_event){.kind = FR_EV_NODE_REFUSED}), FR_SCHED_SLICE);
    CHECK(fr_sched_more(b.s));
    CHECK_INT(rows_of(&b, tick), BIG_TASKS - FR_SCHED_SLICE);
    CHECK_INT(fr_sched_count(b.s, FR_ST_FAILED), BIG_TASKS);
    CHECK_INT(fr_sched_now(b.s).state, FR_RUN_OVER);
    bench_finish(&b);
    free(g);
}

static size_t counted; /* bytes asked for, not given back when freed */

static void *count_alloc(size_t n)
{
    counted += n;
    return fr_sys_real.alloc(n);
}

static void test_memory(void)
{
    struct bench b = {.ids = 0};
    struct big *g = big_make();

    check_row("at most 1 KB an instance, plan and scheduler");
    counted = 0;
    fr_sys.alloc = count_alloc;
    CHECK(fr_plan_make(&g->spec, &b.arena, &b.plan, NULL) == FR_OK);
    CHECK(fr_sched_create(b.plan, NULL, &b.s, NULL) == FR_OK);
    fr_sys.alloc = fr_sys_real.alloc;
    printf("%zu bytes an instance\n", counted / (BIG_TASKS * BIG_NODES));
    CHECK(counted > 0 && counted / (BIG_TASKS * BIG_NODES) <= 512);
    bench_finish(&b);
    free(g);
}

/* Whether nodes 0 and 1 are needed: now, later, or not (-). */
static void test_need(void)
{
    static const struct {
        const char *row, *spec, *script, *want;
    } cases[] = {
        {"ready, its node is not there", "a; b: @n2 a", "begin", "now later"},
        {"it is there", "a; b: @n2 a", "begin up.0", "now later"},
        {"it runs", "a; b: @n2 a", "begin up.0 launched.0", "now later"},
        {"its node is away", "a; b: @n2 a", "begin up.0 launched.0 down.0", "now later"},
        {"it has ended", "a; b: @n2 a", "begin up.0 launched.0 exit0.0", "- now"},
        {"it runs again in a moment", "a: retry=1 delay=500; b: @n2 a",
         "begin up.0 launched.0 exit1.0", "later later"},
        {"both have ended", "a; b: @n2 a", "begin up.0 launched.0 exit0.0 up.1 launched.1 exit0.1",
         "- -"},
        {"a gang waits for the second", "g: @all gang", "begin up.0", "now now"},
    };
    static const char *const shown[] = {
        [FR_NEED_NONE] = "-", [FR_NEED_LATER] = "later", [FR_NEED_NOW] = "now"};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bench b;
        char got[40];

        check_row(cases[i].row);
        bench_init(&b, cases[i].spec);
        say_all(&b, cases[i].script);
        snprintf(got, sizeof got, "%s %s", shown[fr_sched_need(b.s, 0)],
                 shown[fr_sched_need(b.s, 1)]);
        CHECK_TEXT(got, cases[i].want);
        bench_finish(&b);
    }
}

/* Elements whose rows are not all committed wait, whatever else happens. */
static void test_held(void)
{
    struct bench b;
    struct fr_plan *plan;

    check_row("elements that are held");
    bench_init(&b, "a each; b: a");
    CHECK_INT(rows_of(&b, (struct fr_event){.kind = FR_EV_BEGIN}), 0);
    CHECK(fr_sched_awaits(b.s, 0));
    mini_items(&b.mini, 0, 3);
    b.mini.items[0].grown = 1;
    CHECK(fr_plan_make(&b.mini.spec, &b.arena, &plan, NULL) == FR_OK);
    CHECK(fr_sched_grow(b.s, plan, 0, NULL) == FR_OK && !fr_sched_awaits(b.s, 0));
    b.plan = plan;
    CHECK_INT(rows_of(&b, (struct fr_event){.kind = FR_EV_BLOCK, .value = true}), 0);
    CHECK_INT(rows_of(&b, (struct fr_event){.kind = FR_EV_BLOCK}), 0);
    CHECK_INT(fr_sched_count(b.s, FR_ST_WAITING), 4);
    CHECK_INT(rows_of(&b, (struct fr_event){.kind = FR_EV_EXPANDED}), 3);
    CHECK_INT(fr_sched_count(b.s, FR_ST_READY), 3);
    bench_finish(&b);
}

int main(void)
{
    test_big();
    test_slices();
    test_answers();
    test_retry();
    test_one_node();
    test_memory();
    test_need();
    test_held();
    return check_done();
}

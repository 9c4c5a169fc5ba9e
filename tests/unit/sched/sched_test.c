/*
 * Whole pipelines run in memory: an executor that answers every action as a script says, one event
 * at a time, and moves time to the next due timer when nothing else is left to happen.
 */
#include "engine/sched/sched.h"

#include "tests/unit/check.h"
#include "tests/unit/sched/minispec.h"

enum { MAX_EVENTS = 4096, MAX_STEPS = 20000 };

struct world {
    struct minispec mini;
    struct fr_arena arena;
    struct fr_plan *plan;
    struct fr_sched *s;
    struct fr_acts acts;
    struct fr_event queue[MAX_EVENTS];
    size_t head, tail;
    const char *script;
    struct fr_buf trace; /* what was launched, in order, with the time in seconds */
    int64_t now_ms;
    uint64_t ids;
    bool over;
    uint32_t tries[64]; /* launches or prepares by instance */
};

static void post(struct world *w, struct fr_event ev)
{
    if (w->tail < MAX_EVENTS)
        w->queue[w->tail++] = ev;
}

/* The script's word for what: "b@n1#2=sig" gives "sig" for "b@n1#2", "" when it says nothing. */
static const char *script_word(const struct world *w, char out[32], const char *what)
{
    const char *p = w->script;
    size_t n = strlen(what);

    out[0] = '\0';
    while (p != NULL && *p != '\0') {
        size_t word = strcspn(p, " ");

        if (word > n && strncmp(p, what, n) == 0 && p[n] == '=') {
            snprintf(out, 32, "%.*s", (int)(word - n - 1), p + n + 1);
            return out;
        }
        p += word;
        p += strspn(p, " ");
    }
    return out;
}

static struct fr_event ended(const struct fr_act *a, enum fr_cause cause, int code)
{
    return (struct fr_event){.kind = FR_EV_ENDED,
                             .inst = a->inst,
                             .attempt = a->attempt,
                             .cause = cause,
                             .code = code,
                             .proven = true};
}

static const char *key_word(struct world *w, const struct fr_act *a, char out[32])
{
    char what[80];

    snprintf(what, sizeof what, "%s#%u", w->plan->insts[a->inst].key, a->attempt_no);
    return script_word(w, out, what);
}

/* The command of a's attempt runs and ends as the script says; "hang" ends when it is stopped. */
static void launch(struct world *w, const struct fr_act *a)
{
    char word[32];

    key_word(w, a, word);
    fr_buf_fmt(&w->trace, "%s%s:%lld", w->trace.n ? " " : "", w->plan->insts[a->inst].key,
               (long long)w->now_ms / 1000);
    if (strcmp(word, "fail") == 0) {
        post(w, ended(a, FR_CAUSE_START_FAILED, 0));
        return;
    }
    post(w, (struct fr_event){.kind = FR_EV_LAUNCHED, .inst = a->inst, .attempt = a->attempt});
    if (strcmp(word, "cancel") == 0)
        post(w, (struct fr_event){.kind = FR_EV_CANCEL});
    else if (strcmp(word, "sig") == 0)
        post(w, ended(a, FR_CAUSE_SIGNAL, 9));
    else if (strcmp(word, "oom") == 0)
        post(w, ended(a, FR_CAUSE_OOM, 9));
    else if (strcmp(word, "timeout") == 0)
        post(w, ended(a, FR_CAUSE_TIMEOUT, 0));
    else if (strcmp(word, "lost") == 0)
        post(w, ended(a, FR_CAUSE_LOST, 0));
    else if (strcmp(word, "hang") != 0 && strcmp(word, "stuck") != 0)
        post(w, ended(a, FR_CAUSE_EXIT, (int)strtol(word, NULL, 10)));
}

static void stop(struct world *w, const struct fr_act *a)
{
    struct fr_event ev = ended(a, FR_CAUSE_STOPPED, 0);
    char word[32];

    ev.proven = strcmp(key_word(w, a, word), "stuck") != 0;
    post(w, ev);
}

static void perform(struct world *w, const struct fr_act *a)
{
    char word[32], what[64];
    struct fr_event ev = {.inst = a->inst, .attempt = a->attempt, .node = a->node};

    switch (a->kind) {
    case FR_ACT_EVAL:
        script_word(w, word, w->plan->insts[a->inst].key);
        ev.kind = FR_EV_WHEN;
        ev.value = strcmp(word, "no") != 0;
        ev.failed = strcmp(word, "bad") == 0;
        post(w, ev);
        break;
    case FR_ACT_CONNECT:
        snprintf(what, sizeof what, "%s", w->plan->nodes[a->node].name);
        ev.kind =
            strcmp(script_word(w, word, what), "refused") == 0 ? FR_EV_NODE_REFUSED : FR_EV_NODE_UP;
        post(w, ev);
        break;
    case FR_ACT_PREPARE:
        ev.kind = FR_EV_PREPARED;
        post(w,
             strcmp(key_word(w, a, word), "prep") == 0 ? ended(a, FR_CAUSE_START_FAILED, 0) : ev);
        break;
    case FR_ACT_START:
    case FR_ACT_GO:
        launch(w, a);
        break;
    case FR_ACT_STOP:
        stop(w, a);
        break;
    case FR_ACT_QUERY: /* what was asked after still runs */
        ev.kind = FR_EV_LAUNCHED;
        post(w, ev);
        break;
    case FR_ACT_OVER:
        w->over = true;
        break;
    default:
        break;
    }
}

static void apply(struct world *w, struct fr_event ev)
{
    struct fr_err err = {0};
    size_t want = fr_sched_ids_wanted(w->s);

    for (size_t i = 0; i < want; i++) {
        struct fr_id id = {{1}};

        w->ids++;
        memcpy(id.b + 8, &w->ids, sizeof w->ids);
        CHECK(fr_sched_add_ids(w->s, &id, 1, NULL) == FR_OK);
    }
    w->acts.n = 0;
    if (fr_sched_apply(w->s, &ev, w->now_ms, &w->acts, &err) != FR_OK) {
        CHECK_TEXT(err.msg, "");
        return;
    }
    for (size_t i = 0; i < w->acts.n; i++)
        perform(w, &w->acts.v[i]);
}

static void run_out(struct world *w)
{
    for (int step = 0; step < MAX_STEPS; step++) {
        if (w->head < w->tail) {
            apply(w, w->queue[w->head++]);
        } else if (fr_sched_next_due(w->s) != INT64_MAX) {
            w->now_ms = fr_sched_next_due(w->s);
            apply(w, (struct fr_event){.kind = FR_EV_TICK});
        } else {
            break;
        }
        if (w->head == w->tail)
            w->head = w->tail = 0;
    }
}

/* "run@limit=5000": the run may take 5 s. */
static bool world_init(struct world *w, const char *text, const char *script, int max_parallel)
{
    struct fr_sched_opts opts = {.timeout_ms = 0};
    char limit[32];

    memset(w, 0, sizeof *w);
    mini_make(&w->mini, text);
    if (max_parallel > 0)
        w->mini.spec.max_parallel = max_parallel;
    w->script = script;
    opts.timeout_ms = strtol(script_word(w, limit, "run@limit"), NULL, 10);
    return CHECK(fr_plan_make(&w->mini.spec, &w->arena, &w->plan, NULL) == FR_OK) &&
           CHECK(fr_sched_create(w->plan, &opts, &w->s, NULL) == FR_OK);
}

static void world_finish(struct world *w)
{
    fr_sched_destroy(w->s);
    fr_acts_finish(&w->acts);
    fr_buf_finish(&w->trace);
    fr_arena_finish(&w->arena);
}

static void show(struct world *w, struct fr_buf *out)
{
    fr_buf_text(out, fr_outcome_name(fr_sched_now(w->s).outcome));
    for (uint32_t i = 0; i < w->plan->n_insts; i++) {
        struct fr_row row = fr_sched_row(w->s, i, w->now_ms);

        fr_buf_fmt(out, " %s=%s/%u", w->plan->insts[i].key, fr_state_name(row.state),
                   row.attempt_no);
    }
}

/* What each instance ends as, with its number of attempts. */
static const struct {
    const char *row, *spec, *script, *want;
} runs[] = {
    {"one", "a", "", "succeeded a@n1=succeeded/1"},
    {"chain", "a; b: a", "", "succeeded a@n1=succeeded/1 b@n1=succeeded/1"},
    {"failure goes down", "a; b: a; c: b; d", "a@n1#1=3",
     "failed a@n1=failed/1 b@n1=upstream_failed/0 c@n1=upstream_failed/0 d@n1=succeeded/1"},
    {"the first failure ends the others", "a: @all fast retry=1 slots=8; b: a",
     "a@n1#1=hang a@n2#1=1 a@n2#2=1",
     "failed a@n1=cancelled/1 a@n2=failed/2 a@n3=succeeded/1 b@n1=upstream_failed/0"},
    {"and those that wait", "a: items=3 par=1 fast; c: items=2 best gang @all fast; d: c",
     "a[i=0]#1=1 c[i=0]#1=hang c[i=1]#1=1",
     "failed a[i=0]=failed/1 a[i=1]=cancelled/0 a[i=2]=cancelled/0 c[i=0]=cancelled/1 "
     "c[i=0]=cancelled/1 c[i=0]=cancelled/1 c[i=1]=failed/1 c[i=1]=failed/1 c[i=1]=failed/1 "
     "d@n1=succeeded/1"},
    {"one of three nodes fails", "a: @all; b: a", "a@n2#1=sig",
     "failed a@n1=succeeded/1 a@n2=failed/1 a@n3=succeeded/1 b@n1=upstream_failed/0"},
    {"best effort", "a: best; b: a", "a@n1#1=1", "succeeded a@n1=failed/1 b@n1=succeeded/1"},
    {"ended is enough", "a; b: a ended; c: b", "a@n1#1=1",
     "failed a@n1=failed/1 b@n1=succeeded/1 c@n1=succeeded/1"},
    {"when: no is no failure", "a: when; b: a", "a@n1=no",
     "succeeded a@n1=skipped/0 b@n1=succeeded/1"},
    {"when: on each node", "a: @all when; b: a", "a@n2=no",
     "succeeded a@n1=succeeded/1 a@n2=skipped/0 a@n3=succeeded/1 b@n1=succeeded/1"},
    {"when: cannot be evaluated", "a: when retry=3; b: a", "a@n1=bad",
     "failed a@n1=failed/0 b@n1=upstream_failed/0"},
    {"when: a gang as one", "a: @all gang when", "a@n1=no",
     "succeeded a@n1=skipped/0 a@n2=skipped/0 a@n3=skipped/0"},
    {"retry helps", "a: retry=2", "a@n1#1=1 a@n1#2=sig", "succeeded a@n1=succeeded/3"},
    {"retry is used up", "a: retry=1; b: a", "a@n1#1=1 a@n1#2=timeout a@n1#3=0",
     "failed a@n1=timed_out/2 b@n1=upstream_failed/0"},
    {"retry: oom is not in the list", "a: retry=2", "a@n1#1=oom", "failed a@n1=failed/1"},
    {"retry: this code", "a: retry=2 code=7", "a@n1#1=7 a@n1#2=8", "failed a@n1=failed/2"},
    {"retry: not for a wrong `with`", "a: uses retry=2", "a@n1#1=64", "failed a@n1=failed/1"},
    {"retry: lost, proven gone", "a: retry=1", "a@n1#1=lost", "succeeded a@n1=succeeded/2"},
    {"start fails", "a: retry=1", "a@n1#1=fail a@n1#2=fail", "failed a@n1=failed/2"},
    {"gang", "a: @all gang; b: a", "",
     "succeeded a@n1=succeeded/1 a@n2=succeeded/1 a@n3=succeeded/1 b@n1=succeeded/1"},
    {"gang: one end stops all", "a: @all gang; b: a", "a@n1#1=hang a@n2#1=5 a@n3#1=hang",
     "failed a@n1=failed/1 a@n2=failed/1 a@n3=failed/1 b@n1=upstream_failed/0"},
    {"gang: retried as one", "a: @all gang retry=1", "a@n1#1=hang a@n2#1=sig a@n3#1=hang",
     "succeeded a@n1=succeeded/2 a@n2=succeeded/2 a@n3=succeeded/2"},
    {"gang: a success is void when a peer fails", "a: @all gang retry=1", "a@n2#1=sig",
     "succeeded a@n1=succeeded/2 a@n2=succeeded/2 a@n3=succeeded/2"},
    {"gang: nor does it stand without a retry", "a: @all gang", "a@n2#1=sig",
     "failed a@n1=failed/1 a@n2=failed/1 a@n3=failed/1"},
    {"gang: prepare fails", "a: @all gang retry=1", "a@n3#1=prep",
     "succeeded a@n1=succeeded/2 a@n2=succeeded/2 a@n3=succeeded/2"},
    {"gang: go fails", "a: @all gang", "a@n1#1=hang a@n2#1=hang a@n3#1=fail",
     "failed a@n1=failed/1 a@n2=failed/1 a@n3=failed/1"},
    {"gang: never again while one may live", "a: @all gang retry=5",
     "a@n1#1=stuck a@n2#1=sig a@n3#1=hang",
     "failed a@n1=stop_unproven/1 a@n2=failed/1 a@n3=failed/1"},
    {"gang peers cost nothing, the cause does", "a: @all gang retry=1",
     "a@n1#1=hang a@n2#1=hang a@n3#1=sig a@n1#2=sig a@n2#2=hang a@n3#2=hang",
     "failed a@n1=failed/2 a@n2=failed/2 a@n3=failed/2"},
    {"cancel", "a; b: a", "a@n1#1=cancel", "cancelled a@n1=cancelled/1 b@n1=cancelled/0"},
    {"cancel a gang", "a: @all gang retry=3; b", "a@n3#1=cancel a@n1#1=hang a@n2#1=hang",
     "cancelled a@n1=cancelled/1 a@n2=cancelled/1 a@n3=cancelled/1 b@n1=succeeded/1"},
    {"cancel what cannot be stopped", "a: @all", "a@n1#1=cancel a@n2#1=stuck a@n3#1=hang",
     "cancelled a@n1=cancelled/1 a@n2=stop_unproven/1 a@n3=cancelled/1"},
    {"refused node", "a: @all retry=2; b: a", "n2=refused",
     "failed a@n1=succeeded/1 a@n2=failed/0 a@n3=succeeded/1 b@n1=upstream_failed/0"},
    {"refused node of a gang", "a: @all gang retry=2; c", "n3=refused",
     "failed a@n1=failed/0 a@n2=failed/0 a@n3=failed/0 c@n1=succeeded/1"},
    {"hooks of success", "a; !success s; !failure f; !cancel c; !exit e; !exit x", "",
     "succeeded a@n1=succeeded/1 s@control=succeeded/1 f@control=skipped/0 "
     "c@control=skipped/0 e@control=succeeded/1 x@control=succeeded/1"},
    {"hooks of failure change nothing", "a; !success s; !failure f; !cancel c; !exit e",
     "a@n1#1=1 f@control#1=1",
     "failed a@n1=failed/1 s@control=skipped/0 f@control=failed/1 c@control=skipped/0 "
     "e@control=succeeded/1"},
    {"a failing hook is no failure", "a; !exit e", "e@control#1=1",
     "succeeded a@n1=succeeded/1 e@control=failed/1"},
    {"hooks of cancel", "a; b: a; !failure f; !cancel c; !exit e", "a@n1#1=cancel",
     "cancelled a@n1=cancelled/1 b@n1=cancelled/0 f@control=skipped/0 c@control=succeeded/1 "
     "e@control=succeeded/1"},
    {"the run takes too long", "a; b: a; !success s; !failure f; !cancel c; !exit e",
     "a@n1#1=hang run@limit=5000",
     "failed a@n1=cancelled/1 b@n1=cancelled/0 s@control=skipped/0 f@control=succeeded/1 "
     "c@control=skipped/0 e@control=succeeded/1"},
    {"in a back-off", "a: retry=2 delay=60000", "a@n1#1=sig run@limit=5000",
     "failed a@n1=cancelled/1"},
    {"a gang", "a: @all gang retry=2; b", "a@n1#1=hang a@n2#1=hang a@n3#1=hang run@limit=5000",
     "failed a@n1=cancelled/1 a@n2=cancelled/1 a@n3=cancelled/1 b@n1=succeeded/1"},
    {"just in time", "a: retry=1 delay=4000 jitter=0", "a@n1#1=sig run@limit=5000",
     "succeeded a@n1=succeeded/2"},
    {"cancelled before", "a; b: a", "a@n1#1=cancel run@limit=5000",
     "cancelled a@n1=cancelled/1 b@n1=cancelled/0"},
    {"cancel in hooks", "a; !exit e; !exit x", "e@control#1=cancel",
     "succeeded a@n1=succeeded/1 e@control=cancelled/1 x@control=cancelled/0"},
};

/* A run of one task that hangs has so long; what of it was given before a restart. */
static void test_limit(void)
{
    static const struct {
        const char *row;
        enum fr_run_state state; /* as stored */
        enum fr_outcome outcome;
        int64_t left_ms, due_ms; /* given; want, counted from the resume */
        enum fr_outcome want;
    } rows[] = {
        {"what is left", FR_RUN_RUNNING, FR_OUT_NONE, 300, 300, FR_OUT_FAILED},
        {"nothing is left", FR_RUN_RUNNING, FR_OUT_NONE, 0, 0, FR_OUT_FAILED},
        {"it had timed out", FR_RUN_CANCELLING, FR_OUT_FAILED, 0, -1, FR_OUT_FAILED},
        {"it was being cancelled", FR_RUN_CANCELLING, FR_OUT_NONE, 0, -1, FR_OUT_CANCELLED},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fr_run_now now = {.state = rows[i].state, .outcome = rows[i].outcome, .round = 1};
        struct fr_row row = {.state = FR_ST_RUNNING,
                             .attempt_no = 1,
                             .attempt = {{9}},
                             .attempt_state = FR_ST_RUNNING,
                             .live = true};
        struct world w;

        check_row(rows[i].row);
        if (rows[i].state == FR_RUN_CANCELLING) {
            row.state = row.attempt_state = FR_ST_STOPPING;
            row.stop_cause = FR_CAUSE_STOPPED;
        }
        if (!world_init(&w, "a; !exit e", "a@n1#1=hang run@limit=5000", 0))
            continue;
        w.now_ms = 70000;
        CHECK(fr_sched_load_run(w.s, &now, NULL) == FR_OK);
        CHECK(fr_sched_load(w.s, &row, NULL) == FR_OK);
        apply(&w, (struct fr_event){.kind = FR_EV_RESUME, .left_ms = rows[i].left_ms});
        if (rows[i].due_ms > 0)
            CHECK_INT(fr_sched_next_due(w.s), 70000 + rows[i].due_ms);
        else if (rows[i].due_ms == 0) /* its node is asked first */
            CHECK(fr_sched_now(w.s).state == FR_RUN_RUNNING && fr_sched_in_doubt(w.s, false));
        else
            CHECK(fr_sched_now(w.s).state == FR_RUN_CANCELLING &&
                  fr_sched_now(w.s).outcome ==
                      (rows[i].want == FR_OUT_FAILED ? FR_OUT_FAILED : FR_OUT_NONE));
        post(&w, (struct fr_event){.kind = FR_EV_TICK});
        if (rows[i].due_ms < 0)
            post(&w, (struct fr_event){.kind = FR_EV_ENDED,
                                       .attempt = {{9}},
                                       .cause = FR_CAUSE_STOPPED,
                                       .proven = true});
        run_out(&w);
        CHECK(w.over);
        CHECK_INT(fr_sched_now(w.s).outcome, rows[i].want);
        CHECK(fr_sched_now(w.s).timed_out == (rows[i].want == FR_OUT_FAILED));
        world_finish(&w);
    }
    check_row("");
}

/* A retry has all of the time again; hooks have no limit. */
static void test_limit_again(void)
{
    struct world w;

    check_row("a retry of what timed out");
    if (!world_init(&w, "a; !exit e", "a@n1#1=hang a@n1#2=hang e@control#2=hang run@limit=5000", 0))
        return;
    post(&w, (struct fr_event){.kind = FR_EV_BEGIN});
    run_out(&w);
    CHECK(w.over && fr_sched_now(w.s).timed_out);
    w.over = false;
    w.now_ms = 600000;
    apply(&w, (struct fr_event){.kind = FR_EV_RETRY, .task = FR_PLAN_NONE});
    CHECK(!fr_sched_now(w.s).timed_out);
    CHECK_INT(fr_sched_next_due(w.s), 605000);
    run_out(&w);
    CHECK(fr_sched_now(w.s).timed_out);
    CHECK(!w.over && fr_sched_now(w.s).state == FR_RUN_HOOKS);
    CHECK_INT(fr_sched_next_due(w.s), INT64_MAX);
    world_finish(&w);
    check_row("");
}

static void test_runs(void)
{
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct world w;
        struct fr_buf out = {0};

        check_row(runs[i].row);
        if (world_init(&w, runs[i].spec, runs[i].script, 0)) {
            post(&w, (struct fr_event){.kind = FR_EV_BEGIN});
            run_out(&w);
            show(&w, &out);
            CHECK_TEXT(out.p, runs[i].want);
            CHECK(w.over && fr_sched_live(w.s) == 0);
        }
        fr_buf_finish(&out);
        world_finish(&w);
    }
}

/* What is launched in which order, and when (seconds). */
static const struct {
    const char *row, *spec, *script;
    int max_parallel;
    const char *want;
} orders[] = {
    {"the longest chain first", "x; a; b: a; c: b", "", 1, "a@n1:0 b@n1:0 x@n1:0 c@n1:0"},
    {"then the file's order", "b; a; c", "", 1, "b@n1:0 a@n1:0 c@n1:0"},
    {"slots of a node", "a: slots=5; b: slots=5; c: slots=3; d: @n2", "a@n1#1=hang", 0,
     "a@n1:0 d@n2:0"},
    {"what fits beside", "a: slots=5; c: slots=3; b: slots=5", "a@n1#1=hang", 0, "a@n1:0 c@n1:0"},
    {"no slots needed", "a: slots=8; b: slots=0", "a@n1#1=hang", 0, "a@n1:0 b@n1:0"},
    {"back-off", "a: retry=3 delay=1000", "a@n1#1=1 a@n1#2=1 a@n1#3=1", 0,
     "a@n1:0 a@n1:1 a@n1:3 a@n1:7"},
    {"back-off, at most", "a: retry=3 delay=1000 max=2000", "a@n1#1=1 a@n1#2=1 a@n1#3=1", 0,
     "a@n1:0 a@n1:1 a@n1:3 a@n1:5"},
    {"a gang keeps all its slots",
     "i: @all; h: i @n2 slots=8; k: h; l: k; g: i @all gang slots=4; z: g; s: i slots=5",
     "h@n2#1=hang", 0, "i@n1:0 i@n2:0 i@n3:0 h@n2:0"},
    {"a gang keeps slots against the less urgent",
     "i: @all; a: i slots=8; c: a; d: c; g: i @all gang slots=8; z: g; s: i @n2; t: i @n2", "", 0,
     "i@n1:0 i@n2:0 i@n3:0 a@n1:0 c@n1:0 g@n1:0 g@n2:0 g@n3:0 d@n1:0 s@n2:0 t@n2:0 z@n1:0"},
    {"a gang counts as one", "i: @all; g: i @all gang; b: i", "g@n1#1=hang g@n2#1=hang g@n3#1=hang",
     1, "i@n1:0 i@n2:0 i@n3:0 g@n1:0 g@n2:0 g@n3:0"},
};

static void test_orders(void)
{
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        struct world w;

        check_row(orders[i].row);
        if (world_init(&w, orders[i].spec, orders[i].script, orders[i].max_parallel)) {
            post(&w, (struct fr_event){.kind = FR_EV_BEGIN});
            run_out(&w);
            CHECK_TEXT(w.trace.p, orders[i].want);
        }
        world_finish(&w);
    }
}

/* Delays of 10 s with half of it as jitter: on both sides, and never beyond. */
static void test_jitter(void)
{
    char script[400] = "";
    struct world w;
    long last = 0;
    int below = 0, above = 0;

    check_row("jitter");
    for (int i = 1; i <= 20; i++)
        snprintf(script + strlen(script), sizeof script - strlen(script), "a@n1#%d=1 ", i);
    if (!world_init(&w, "a: retry=20 delay=10000 max=10000 jitter=50", script, 0))
        return;
    post(&w, (struct fr_event){.kind = FR_EV_BEGIN});
    run_out(&w);
    for (const char *p = strchr(w.trace.p, ' '); p != NULL; p = strchr(p + 1, ' ')) {
        long at = strtol(strchr(p, ':') + 1, NULL, 10), delay = at - last;

        CHECK(delay >= 4 && delay <= 16); /* of whole seconds */
        below += delay < 9;
        above += delay > 11;
        last = at;
    }
    CHECK(below > 2 && above > 2);
    world_finish(&w);
}

int main(void)
{
    test_jitter();
    test_runs();
    test_limit();
    test_limit_again();
    test_orders();
    return check_done();
}

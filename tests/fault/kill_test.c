/*
 * Kill at every transition, on simulated machines. A recorded run of 40 tasks over three nodes has
 * chains with outputs, a fan-out, lists that get known, gangs, retries, a time-out, a sidecar and a
 * cancel. Two other
 * runs share the nodes with it, whose slots are too few for all three. Each commit to the store,
 * each record in a journal and each frame on the wire is two points, just before it takes effect
 * and just after. At every point, in a run of its own, one of these is killed: flowrun, a serve, a
 * supervisor, the sshd of a node; then the runs are resumed. And flowrun is killed a second time
 * while it takes the runs over: at each of the first points of the process that came behind one
 * killed early, in the middle, or late.
 *
 * And the power of control is cut at each commit, before it and behind it: what the store's disk
 * was not told to sync is gone.
 *
 * Beside the rules of world.h: states, causes and outputs are in the end those of the undisturbed
 * run; a kill of flowrun, serve or sshd makes no attempt more than it had; what a killed supervisor
 * makes, to the attempt, stands in killed.h.
 *
 *     kill_test                 a sample: every STRIDE-th case
 *     kill_test all [SEED]      every case of a recording
 *     kill_test VICTIM POINT [SEED]   one case, and its story; of power the POINT counts commits,
 * of a second kill (again) it is FIRST * 1000 + SECOND
 */
#include "tests/fault/killed.h"
#include "tests/sim/world.h"
#include "tests/unit/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STRIDE = 211, SEED = 1, LOOK_US = 500000, RUNS = 3 };

enum victim { FLOWRUN, SERVE, SUPERVISOR, SSHD, VICTIMS, POWER = VICTIMS, AGAIN, ALL_VICTIMS };

static const char *const victim_names[ALL_VICTIMS] = {"flowrun", "serve", "supervisor",
                                                      "sshd",    "power", "again"};

/* The second kill: behind first kills at so many places of a recording, at so many points. */
enum { FIRST_KILLS = 6, SECOND_KILLS = 160, FIRST_TIMES = 1000, AGAIN_STRIDE = 23 };

#define NODES                                                                                      \
    "nodes:\n"                                                                                     \
    "  - {name: n1, executor: local, slots: 4}\n"                                                  \
    "  - {name: n2, executor: local, slots: 4}\n"                                                  \
    "  - {name: n3, executor: local, slots: 4}\n"

static const char head[] =
    "name: recorded\n" NODES "max_parallel: 12\n"
    "defaults: {timeout: 1h, retry: {times: 3, delay: 300ms, on: [" WORLD_FAULTS ", exit]}}\n"
    "tasks:\n"
    "  flaky1: {on: n1, argv: [sim, \"60\", \"3\", once]}\n"
    "  flaky2: {on: n2, needs: [flaky1], argv: [sim, \"60\", \"4\", once]}\n"
    "  slow: {on: n3, timeout: 800ms, argv: [sim, \"9000\", \"0\", once]}\n"
    "  wild: {on: n1, argv: [sim, \"120\", \"0\", wild]}\n"
    "  pair: {on: n2, files: {data: /data}, argv: [sim, \"300\", \"0\"], sidecars: [{argv: [sim, "
    "\"0\", \"0\", side]}]}\n"
    "  train: {on: all, gang: true, needs: [c2], argv: [sim, \"500\", \"0\", out], outputs: [v]}\n"
    "  again: {on: all, gang: true, needs: [train], argv: [sim, \"200\", \"5\", once]}\n"
    "  each: {on: all, needs: [wild], argv: [sim, \"100\", \"0\"]}\n"
    "  dead: {on: n2, best_effort: true, retry: {times: 3, delay: 300ms, on: [" WORLD_FAULTS
    "]}, argv: [sim, \"60\", \"7\"]}\n"
    "  rescue: {on: n1, needs: [dead], run_if: failure, argv: [sim, \"70\", \"0\"]}\n"
    "  most: {on: n3, needs: [dead, c2], run_if: any, argv: [sim, \"30\", \"0\"]}\n"
    "  unused: {on: all, needs: [rescue], run_if: failure, argv: [sim, \"30\", \"0\"]}\n"
    "  beside: {on: n2, needs: [unused], skip_with: [unused], argv: [sim, \"30\", \"0\"]}\n"
    "  stated: {on: n1, needs: [{task: dead, states: failed}], argv: [sim, \"30\", \"0\"]}\n"
    "  shard: {on: n1, needs: [c1, d2], foreach: '[\"${{ tasks.c1.outputs.v }}\", 2, \"x y\"]', "
    "env: "
    "{IN: \"${{ index }}\"}, argv: [sim, \"60\", \"0\", out], outputs: [v]}\n"
    "  crew: {on: all, gang: true, needs: [shard], foreach: \"${{ tasks.shard.all.v }}\", argv: "
    "[sim, \"90\", \"0\"]}\n"
    "  last: {on: n3, needs: [again, each, join, c6, d6, slow, flaky2, pair, crew], env: {IN: "
    "\"${{ "
    "tasks.train.on_head.outputs.v }}\"}, argv: [sim, \"50\", \"0\", out], outputs: [v]}\n"
    "  hang: {on: all, argv: [sim, \"999000\", \"0\"]}\n"
    "  after: {on: n1, needs: [hang, last], argv: [sim, \"50\", \"0\"]}\n";

/* Run 2 and 3. */
static const char others[] =
    "name: others\n" NODES "defaults: {retry: {times: 3, delay: 300ms, on: [" WORLD_FAULTS
    ", exit]}}\n"
    "tasks:\n"
    "  o1: {on: n1, argv: [sim, \"70\", \"0\", out], outputs: [v]}\n"
    "  o2: {on: n2, needs: [o1], env: {IN: \"${{ tasks.o1.outputs.v }}\"}, argv: [sim, \"90\", "
    "\"0\", "
    "out], outputs: [v]}\n"
    "  oflaky: {on: n3, argv: [sim, \"60\", \"3\", once]}\n"
    "  oeach: {on: all, slots: 2, argv: [sim, \"150\", \"0\"]}\n"
    "  ogang: {on: all, gang: true, slots: 2, needs: [o2], argv: [sim, \"300\", \"0\"]}\n"
    "  olast: {on: n2, needs: [ogang, oeach, oflaky], argv: [sim, \"40\", \"0\"]}\n";

static char pipeline[8192];

static void make_pipeline(void)
{
    size_t n = (size_t)snprintf(pipeline, sizeof(pipeline), "%s", head);

    for (int chain = 0; chain < 2; chain++)
        for (int i = 1; i <= 6; i++) {
            char c = "cd"[chain], need[96] = "";
            if (i > 1)
                snprintf(need, sizeof(need),
                         ", needs: [%c%d], env: {IN: \"${{ tasks.%c%d.outputs.v }}\"}", c, i - 1, c,
                         i - 1);
            n += (size_t)snprintf(pipeline + n, sizeof(pipeline) - n,
                                  "  %c%d: {on: n%d%s, argv: [sim, \"%d\", \"0\", out], outputs: "
                                  "[v]}\n",
                                  c, i, (i + chain) % 3 + 1, need, 20 * i);
        }
    n += (size_t)snprintf(pipeline + n, sizeof(pipeline) - n,
                          "  root: {on: n1, argv: [sim, \"50\", \"0\"]}\n");
    for (int i = 1; i <= 14; i++)
        n += (size_t)snprintf(pipeline + n, sizeof(pipeline) - n,
                              "  fan%d: {on: n%d, needs: [root], argv: [sim, \"%d\", \"0\"]}\n", i,
                              i % 3 + 1, 10 * i);
    n += (size_t)snprintf(pipeline + n, sizeof(pipeline) - n, "  join: {on: n2, needs: [fan1");
    for (int i = 2; i <= 14; i++)
        n += (size_t)snprintf(pipeline + n, sizeof(pipeline) - n, ", fan%d", i);
    snprintf(pipeline + n, sizeof(pipeline) - n, "], argv: [sim, \"40\", \"0\"]}\n");
}

struct killing {
    enum victim victim;
    uint64_t point, at;         /* 1, 2, …; 0: none */
    uint64_t kinds[SIM_POINTS]; /* points of each kind, counted */
    uint64_t behind;            /* of AGAIN: points since flowrun began again */
    bool struck, again, asked;
    struct killed killed; /* a supervisor … */
    int journal;          /* … and its node's journal at that moment; 0: none */
};

/* ---- the stroke ---- */

static struct sim_proc *choose(struct world *w, const char *comm, uint64_t point)
{
    struct sim_proc *p = w->sim.cur;

    if (p != NULL && strcmp(p->comm, comm) == 0)
        return p;
    p = NULL;
    for (uint64_t i = 0; p == NULL && i < 3; i++)
        p = world_pick(w, &w->sim.machines[1 + (point + i) % 3], comm, point / 6);
    return p;
}

/* By its journal the end of its attempt is known, or not. */
static void keep_journal(struct killing *k, const struct sim_proc *p)
{
    const struct sim_inode *i = sim_lookup(p->m, "/node/journal");

    k->killed.pid = p->pid;
    k->journal = memfd_create("journal", MFD_CLOEXEC);
    CHECK(k->journal > 0 && i != NULL && write(k->journal, i->data, i->n) == (ssize_t)i->n);
}

/* flowrun is killed, and the one that comes behind it. */
static void strike_twice(struct world *w, struct killing *k)
{
    bool due = k->struck ? ++k->behind == k->point % FIRST_TIMES : k->at == k->point / FIRST_TIMES;

    if (!due || k->again || w->engine == NULL)
        return;
    k->again = k->struck;
    k->struck = true;
    world_kill_engine(w, false);
}

static void on_point(struct sim *s, enum sim_point what)
{
    struct world *w = world_of(s);
    struct killing *k = w->test;
    struct sim_proc *p;

    k->kinds[what]++;
    k->at += k->victim != POWER || what == SIM_AT_COMMIT;
    if (k->victim == AGAIN)
        strike_twice(w, k);
    if (k->victim == AGAIN || k->struck || k->at != k->point)
        return;
    switch (k->victim) {
    case FLOWRUN:
    case POWER:
        k->struck = w->engine != NULL;
        if (k->struck)
            world_kill_engine(w, k->victim == POWER);
        break;
    case SSHD:
        p = choose(w, "serve", k->point);
        k->struck = p != NULL;
        if (p != NULL) {
            world_tell(w, "fault: sshd of %s killed", p->m->name);
            sim_links_drop(p->m);
        }
        break;
    default:
        p = choose(w, k->victim == SERVE ? "serve" : "flownode", k->point);
        k->struck = p != NULL;
        if (p != NULL) {
            if (k->victim == SUPERVISOR)
                keep_journal(k, p);
            world_kill(w, p, "");
        }
    }
}

/* ---- the user ---- */

static bool none(struct world *w, const char *sql)
{
    struct fr_buf b = {0};
    bool empty;

    world_rows(w, sql, &b);
    empty = b.n == 0;
    fr_buf_finish(&b);
    return empty;
}

/* Cancels once all but `hang` and what waits for it succeeded. */
static void look(struct world *w)
{
    struct killing *k = w->test;

    if (k->asked || w->sim.now_us < w->look_us)
        return;
    w->look_us = w->sim.now_us + LOOK_US;
    if (!none(w, "SELECT 1 FROM instance WHERE run = (SELECT id FROM run WHERE no = 1) AND (state "
                 "NOT IN ('succeeded', 'skipped') AND task NOT IN ('hang', 'after', 'dead') OR "
                 "state <> 'failed' AND task = 'dead' OR state <> 'running' AND task = 'hang')"))
        return;
    world_request(w, "cancel", "");
    k->asked = true;
    w->look_us = INT64_MAX;
}

static void begin(struct world *w)
{
    w->restart_max_us = 500000;
    w->others = true;
    sim_put_file(&w->sim.machines[0], "/others.yaml", others);
    sim_put_file(&w->sim.machines[0], "/data", "what is shipped");
    w->sim.on_point = on_point;
    w->look_us = LOOK_US;
}

/* ---- cases ---- */

struct recording {
    struct fr_buf states, attempts;
    uint64_t points, kinds[SIM_POINTS];
};

#define RUN "(SELECT name || ' ' FROM run WHERE id = i.run)"

static void take_states(struct world *w, struct fr_buf *states, struct fr_buf *attempts)
{
    world_rows(w,
               "SELECT " KILLED_KEY ", state, cause, code FROM instance i UNION ALL SELECT " RUN
               " || idx, key, value, '' FROM output i UNION ALL SELECT name, outcome, '', '' FROM "
               "run ORDER BY 1, 2, 3, 4",
               states);
    world_rows(w,
               "SELECT " KILLED_KEY
               ", count(*) FROM attempt a JOIN instance i ON i.run = a.run AND "
               "i.idx = a.idx GROUP BY i.run, i.idx ORDER BY 1, 2",
               attempts);
}

static bool same(const struct fr_buf *a, const struct fr_buf *b)
{
    return a->n == b->n && memcmp(a->p, b->p, a->n) == 0;
}

static void lost_is_cancelled(struct fr_buf *states)
{
    static const char was[] = "|lost|lost|0\n", is[] = "|cancelled|stopped|15\n";
    char *at = strstr(states->p, was);
    struct fr_buf b = {0};

    if (at == NULL)
        return;
    fr_buf_add(&b, states->p, (size_t)(at - states->p));
    fr_buf_text(&b, is);
    fr_buf_text(&b, at + strlen(was));
    fr_buf_finish(states);
    *states = b;
}

#define GANGS "'train', 'again', 'ogang', 'crew'"

/* Every attempt is accounted for, in rows as KILLED_ATTEMPTS has them. */
static void compare_attempts(struct world *w, const char *sql, const struct recording *r)
{
    struct fr_buf rows = {0};
    const char *wrong;

    world_rows(w, sql, &rows);
    wrong = killed_wrong(rows.p, r->attempts.p);
    if (wrong != NULL)
        world_violated(w, "attempts, and how many they must be: %.*s", (int)strcspn(wrong, "\n"),
                       wrong);
    fr_buf_finish(&rows);
}

/* A gang may begin anew: before all its starts were sent, another run took a slot of it. Where the
 * host died, so may an attempt that its node had prepared but not launched, once it has a tombstone
 * there (sched.h, "Booking"). KILLED_ATTEMPTS counts both. */
static void compare_undisturbed(struct world *w, const struct recording *r, bool host_died)
{
    char sql[640];

    snprintf(sql, sizeof(sql),
             "SELECT " KILLED_KEY " || '|' || count(*) || '|0' FROM attempt a JOIN instance i ON "
             "i.run = a.run AND i.idx = a.idx WHERE i.task NOT IN (" GANGS ") GROUP BY i.run, i.idx"
             "%s",
             host_died ? " HAVING sum(a.state = 'cancelled' AND a.cause = '') = 0" : "");
    compare_attempts(w, sql, r);
    if (world_number(w, "SELECT count(*) FROM attempt WHERE cause IN ('lost', 'start_failed')") > 0)
        world_violated(w, "an attempt is lost, and nothing was but a connection or its host");
}

static void compare_killed(struct world *w, struct killing *k)
{
    const struct fr_sys simulated = fr_sys;
    long nothing = world_number(w, "SELECT count(*) FROM attempt d WHERE " KILLED_NOTHING);
    char sql[160], hex[40];

    fr_sys = fr_sys_real; /* where the copy of the journal lies */
    CHECK(!k->struck || killed_read(&k->killed, k->journal));
    fr_sys = simulated;
    fr_id_text(k->killed.newest, hex);
    snprintf(sql, sizeof(sql),
             "SELECT count(*) FROM attempt WHERE cause = 'lost' AND state = 'lost' AND id = x'%s'",
             hex);
    if (world_number(w, "SELECT count(*) FROM attempt WHERE cause = 'lost'") != k->killed.open ||
        world_number(w, sql) != k->killed.open)
        world_violated(w, "lost, and it must be %s", k->killed.open ? hex : "none");
    if (nothing > 1)
        world_violated(w, "%ld attempts came to nothing", nothing);
}

static void compare(struct world *w, const struct recording *r)
{
    struct killing *k = w->test;
    struct fr_buf states = {0}, attempts = {0};
    bool harms = k->victim == POWER || k->victim == SUPERVISOR;

    take_states(w, &states, &attempts);
    if (k->victim == SUPERVISOR)
        compare_killed(w, k);
    if (k->killed.open) /* of a task that was being cancelled */
        lost_is_cancelled(&states);
    if (!same(&states, &r->states))
        world_violated(w, "it ended otherwise than the undisturbed run:\n%.*s", (int)states.n,
                       states.p);
    if (harms || !same(&attempts, &r->attempts))
        compare_attempts(w, KILLED_ATTEMPTS(GANGS), r);
    if (!harms && !same(&attempts, &r->attempts))
        compare_undisturbed(w, r, k->victim == FLOWRUN || k->victim == AGAIN);
    fr_buf_finish(&states);
    fr_buf_finish(&attempts);
}

static bool run_case(struct world *w, enum victim victim, uint64_t point, uint64_t seed,
                     const struct recording *r)
{
    struct killing k = {.victim = victim, .point = point};

    w->test = &k;
    w->runs = RUNS;
    world_run(w, pipeline, seed, begin);
    if (!w->failed)
        compare(w, r);
    if (k.journal > 0)
        close(k.journal);
    if (w->failed)
        printf("case %s %" PRIu64 ", seed %" PRIu64 ": %s\n", victim_names[victim], point, seed,
               w->why);
    bool ok = !w->failed;
    world_finish(w);
    return ok;
}

static void record(struct world *w, uint64_t seed, struct recording *r)
{
    struct killing k = {.point = 0};

    w->test = &k;
    w->runs = RUNS;
    CHECK(world_run(w, pipeline, seed, begin));
    take_states(w, &r->states, &r->attempts);
    r->points = k.at;
    memcpy(r->kinds, k.kinds, sizeof(r->kinds));
    world_finish(w);
}

static void each_power_cut(struct world *w, uint64_t seed, const struct recording *r)
{
    char row[64];

    for (uint64_t i = 1; i <= r->kinds[SIM_AT_COMMIT]; i++) {
        snprintf(row, sizeof(row), "power at commit point %" PRIu64, i);
        check_row(row);
        CHECK(run_case(w, POWER, i, seed, r));
    }
}

/* flowrun is killed while it takes over. */
static uint64_t each_second_kill(struct world *w, uint64_t seed, const struct recording *r,
                                 uint64_t stride)
{
    uint64_t n = 0;
    char row[64];

    for (uint64_t i = seed % stride; i < (uint64_t)FIRST_KILLS * SECOND_KILLS; i += stride, n++) {
        uint64_t first = (1 + i % FIRST_KILLS) * r->points / (FIRST_KILLS + 1);
        uint64_t second = 1 + i / FIRST_KILLS;

        snprintf(row, sizeof(row), "again at point %" PRIu64 " behind %" PRIu64, second, first);
        check_row(row);
        CHECK(run_case(w, AGAIN, first * FIRST_TIMES + second, seed, r));
    }
    return n;
}

static void all_cases(struct world *w, uint64_t seed, uint64_t stride)
{
    struct recording r = {0};
    uint64_t n = 0;
    char row[64];

    record(w, seed, &r);
    for (uint64_t i = seed % stride; i < r.points * VICTIMS; i += stride, n++) {
        enum victim victim = (enum victim)(i % VICTIMS);
        snprintf(row, sizeof(row), "%s at point %" PRIu64, victim_names[victim], 1 + i / VICTIMS);
        check_row(row);
        CHECK(run_case(w, victim, 1 + i / VICTIMS, seed, &r));
    }
    each_power_cut(w, seed, &r);
    n += each_second_kill(w, seed, &r, stride > 1 ? AGAIN_STRIDE : 1);
    printf("seed %" PRIu64 ": %" PRIu64 " kills at %" PRIu64 " points (%" PRIu64
           " of commits, %" PRIu64 " of journal records, %" PRIu64 " of frames)\n",
           seed, n, r.points, r.kinds[SIM_AT_COMMIT], r.kinds[SIM_AT_RECORD],
           r.kinds[SIM_AT_SEND] + r.kinds[SIM_AT_ANSWER] + r.kinds[SIM_AT_ARRIVE]);
    fr_buf_finish(&r.states);
    fr_buf_finish(&r.attempts);
}

int main(int argc, char **argv)
{
    struct world *w = calloc(1, sizeof(*w));
    struct recording r = {0};
    bool all = argc > 1 && strcmp(argv[1], "all") == 0;

    world_setup();
    make_pipeline();
    w->look = look;
    if (argc > 2 && !all) {
        uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : SEED;
        record(w, seed, &r);
        for (int v = 0; v < ALL_VICTIMS; v++)
            if (strcmp(argv[1], victim_names[v]) == 0)
                CHECK(run_case(w, (enum victim)v, strtoull(argv[2], NULL, 10), seed, &r));
    } else {
        w->quiet = true;
        all_cases(w, argc > 2 ? strtoull(argv[2], NULL, 10) : SEED, all ? 1 : STRIDE);
    }
    world_clean();
    free(w);
    return check_done();
}

/*
 * Random cases of several flowruns of one home (tests/sim/client.h): users start runs of pipelines
 * that share nodes, also from inside of tasks, follow runs of others, press Ctrl-C and leave; hosts
 * and followers are killed, at a commit, while they take over, or stopped for a while, in which
 * somebody may take their lock away; binaries of an older schema come; links and nodes fail. In the
 * end somebody resumes what is left. The rules of world.h hold at every moment, and what each
 * client printed and its exit code are right (told.h). From seed 1,000,000 on there are storms
 * (storm.h), too. A case that fails is made as small as it can be.
 *
 *     hosts_test [SEED [COUNT]]     one seed alone tells its story; none: those that found
 * something once, and the first ones of both kinds
 */
#include "tests/fault/shrink.h"
#include "tests/fault/storm.h"
#include "tests/sim/told.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEEDS = 30,
    STORMY = 1000000, /* seeds from here on have storms */
    PIPES = 3,
    TASKS_MAX = 5,
    STARTS = 5,
    FAULTS_MAX = 8,
    STORMS_MAX = 2,
    ROUNDS = 40
};

static const int64_t GIVE_UP_US = 2LL * 3600 * 1000000, ROUND_US = 120000000;

enum mode { PLAIN, ONCE, WILD, OUT, MODES };

struct task {
    bool there;
    int node; /* 1 … 3; 0: all */
    int slots, ms;
    bool gang;
    enum mode mode;
    unsigned needs; /* bits of earlier tasks */
};

struct pipe {
    struct task tasks[TASKS_MAX];
    bool nests; /* one more task, on control: a flowrun */
};

struct begin {
    bool there, json;
    int pipe;
    int64_t at_us;
};

enum kind {
    KILL_HOST,
    KILL_AT_COMMIT, /* the host: at one of its next commits */
    KILL_NEXT_HOST, /* soon after it took the lock */
    KILL_CLIENT,
    TERM_HOST,
    TERM_CLIENT,
    INT_CLIENT,
    LEAVE_CLIENT, /* Ctrl-C twice */
    STOP_HOST,
    STEAL_HOST, /* the same, and somebody takes its lock away */
    STOP_CLIENT,
    OLDER,
    SECOND, /* another one follows a run */
    POWER,  /* of control */
    QUIET_KINDS,
    KILL_SERVE = QUIET_KINDS,
    KILL_SUPERVISOR,
    KILL_COMMAND,
    KILL_SSHD,
    CUT_SHORT, /* 1 s */
    CUT,       /* 20 s */
    BAD_LINK,
    REBOOT,
    KINDS
};

static const char *const kind_names[KINDS] = {"kill the host",
                                              "kill the host at a commit",
                                              "kill the next host",
                                              "kill a client",
                                              "terminate the host",
                                              "terminate a client",
                                              "Ctrl-C",
                                              "Ctrl-C twice",
                                              "stop the host",
                                              "steal its lock",
                                              "stop a client",
                                              "an older one comes",
                                              "a second follower",
                                              "power of control",
                                              "kill serve",
                                              "kill a supervisor",
                                              "kill a command",
                                              "kill sshd",
                                              "cut for 1 s",
                                              "cut for 20 s",
                                              "a bad link",
                                              "reboot"};

struct fault {
    bool there;
    enum kind kind;
    uint64_t step, more;
};

struct scenario {
    uint64_t seed;
    int slots[4]; /* of n1 to n3; 0: of home */
    int active;   /* runs at once; 0: no limit */
    struct pipe pipes[PIPES];
    struct begin begins[STARTS];
    struct fault faults[FAULTS_MAX];
    struct storm storms[STORMS_MAX];
    bool quiet; /* no fault of links and nodes: all output comes home */
    /* of one run of it */
    bool begun[STARTS];
    int next, rounds;
    int64_t round_us;
    uint64_t commits;            /* the host is killed at that commit; 0: no */
    bool takes;                  /* the next host is killed … */
    const struct sim_proc *host; /* … that is not this one … */
    uint64_t take_step;          /* … at that step; 0: it is not there yet */
    struct sim_proc *again;      /* it gets a second Ctrl-C … */
    int64_t again_us;            /* … then */
    unsigned held;               /* machines, as bits, whose output may have stayed there */
};

/* ---- making one ---- */

static int below(uint64_t *s, int n)
{
    return (int)(sim_draw(s) % (uint64_t)n);
}

static void make_task(struct pipe *p, int i, const int *slots, uint64_t *s)
{
    struct task *t = &p->tasks[i];
    int most = 4;

    *t = (struct task){.there = true, .node = below(s, 4), .ms = 20 + below(s, 600)};
    for (int n = 1; n <= 3; n++)
        if ((t->node == 0 || t->node == n) && slots[n] < most)
            most = slots[n];
    t->slots = 1 + (below(s, 3) == 0 ? below(s, most) : 0);
    t->gang = t->node == 0 && below(s, 2) == 0;
    t->mode = (enum mode)below(s, MODES);
    if (t->mode == OUT && t->node == 0)
        t->mode = PLAIN;
    if (below(s, 10) == 0)
        t->ms = 3000 + below(s, 20000);
    for (int k = 0; k < i; k++)
        if (below(s, 3) == 0)
            t->needs |= 1u << k;
}

static void make_scenario(struct scenario *c, uint64_t seed)
{
    uint64_t s = seed * 0x9e3779b97f4a7c15u, at = 0;
    int begins = 1 + below(&s, STARTS), faults = below(&s, FAULTS_MAX + 1);

    memset(c, 0, sizeof(*c));
    c->seed = seed;
    c->quiet = below(&s, 2) == 0;
    c->active = below(&s, 4) == 0 ? 1 + below(&s, 3) : 0;
    for (int i = 0; i < 4; i++)
        c->slots[i] = 1 + below(&s, seed < STORMY ? 4 : 2);
    for (int p = 0; p < PIPES; p++) {
        int tasks = 1 + below(&s, TASKS_MAX);
        for (int i = 0; i < tasks; i++)
            make_task(&c->pipes[p], i, c->slots, &s);
    }
    c->pipes[0].nests = below(&s, 3) == 0;
    for (int i = 0; i < begins; i++)
        c->begins[i] = (struct begin){true, below(&s, 2) == 0, below(&s, PIPES),
                                      1000000 + (int64_t)(sim_draw(&s) % 1500000)};
    for (int i = 0; i < faults; i++) {
        at += 100 + sim_draw(&s) % 3000;
        c->faults[i] = (struct fault){true, (enum kind)below(&s, c->quiet ? QUIET_KINDS : KINDS),
                                      at, sim_draw(&s)};
    }
    for (int i = 0; seed >= STORMY && i < 1 + below(&s, STORMS_MAX); i++)
        c->storms[i] = storm_make(&s, 300 + sim_draw(&s) % 9000);
}

/* ---- its files ---- */

static void put_nodes(const struct scenario *c, struct fr_buf *b)
{
    fr_buf_text(b, "nodes:\n");
    for (int n = 1; n <= 3; n++)
        fr_buf_fmt(b, "  - {name: n%d, executor: local, slots: %d}\n", n, c->slots[n]);
    fr_buf_fmt(b, "  - {name: home, executor: local, slots: %d}\n", c->slots[0]);
    fr_buf_text(b, "defaults: {timeout: 1h, retry: {times: 60, delay: 300ms, on: [" WORLD_FAULTS
                   ", exit]}}\ntasks:\n");
}

static void put_task(const struct pipe *p, char letter, int i, struct fr_buf *b)
{
    static const char *const modes[MODES] = {"", ", once", ", wild", ", out"};
    const struct task *t = &p->tasks[i];
    int n = 0;

    fr_buf_fmt(b, "  %c%d: {on: ", letter, i);
    if (t->node == 0)
        fr_buf_text(b, "[n1, n2, n3]");
    else
        fr_buf_fmt(b, "n%d", t->node);
    fr_buf_fmt(b, "%s, slots: %d, argv: [sim, \"%d\", \"%d\"%s]", t->gang ? ", gang: true" : "",
               t->slots, t->ms, t->mode == ONCE ? 3 : 0, modes[t->mode]);
    for (int k = 0; k < i; k++)
        if (p->tasks[k].there && (t->needs >> k & 1))
            fr_buf_fmt(b, "%s %c%d", n++ == 0 ? ", needs: [" : ",", letter, k);
    fr_buf_text(b, n > 0 ? "]" : "");
    if (t->mode == OUT)
        fr_buf_text(b, ", outputs: [v]");
    fr_buf_text(b, "}\n");
}

static void put_pipe(const struct scenario *c, int p, struct fr_buf *b)
{
    char letter = (char)('a' + p);

    fr_buf_fmt(b, "name: pipe%c\n", letter);
    put_nodes(c, b);
    for (int i = 0; i < TASKS_MAX; i++)
        if (c->pipes[p].tasks[i].there)
            put_task(&c->pipes[p], letter, i, b);
    if (c->pipes[p].nests)
        fr_buf_fmt(b, "  %cx: {on: home, argv: [sim, \"0\", \"0\", nest, /inner.yaml]}\n", letter);
    fr_buf_fmt(b, "  %cz: {on: n1, argv: [sim, \"30\", \"0\"]}\n", letter);
}

static void put_inner(const struct scenario *c, struct fr_buf *b)
{
    fr_buf_text(b, "name: inner\n");
    put_nodes(c, b);
    fr_buf_text(b, "  i0: {on: home, argv: [sim, \"150\", \"0\"]}\n"
                   "  i1: {on: n2, needs: [i0], argv: [sim, \"100\", \"0\"]}\n");
}

static void on_point(struct sim *s, enum sim_point what);

static void begin(struct world *w)
{
    const struct scenario *c = w->test;
    struct sim_machine *control = &w->sim.machines[0];
    struct fr_buf b = {0};
    char path[160];

    w->sim.on_point = on_point;
    for (int p = 0; p < PIPES; p++) {
        b.n = 0;
        put_pipe(c, p, &b);
        snprintf(path, sizeof(path), "/p%d.yaml", p);
        sim_put_file(control, path, b.p);
    }
    b.n = 0;
    put_inner(c, &b);
    sim_put_file(control, "/inner.yaml", b.p);
    b.n = 0;
    if (c->active > 0) {
        snprintf(path, sizeof(path), "%s/config.yaml", w->home);
        fr_buf_fmt(&b, "limits: {max_active_runs: %d}\n", c->active);
        sim_put_file(control, path, b.p);
    }
    fr_buf_finish(&b);
}

/* ---- faults ---- */

static struct client *host(struct world *w)
{
    return client_of(w, client_host(w));
}

static struct client *any_client(struct world *w, uint64_t more)
{
    size_t n = 0;

    for (int pass = 0; pass < 2; pass++) {
        size_t i = 0;
        for (size_t k = 0; k < w->n_clients; k++)
            if (w->clients[k].proc != NULL) {
                if (pass == 1 && i == more % n)
                    return &w->clients[k];
                i++;
            }
        if ((n = i) == 0)
            return NULL;
    }
    return NULL;
}

/* false: not now. */
static bool stop(struct world *w, struct client *v, const struct fault *f)
{
    struct client thief = {.json = true};
    int64_t us = 100000 + (int64_t)(f->more % 70000000);

    if (v == NULL)
        return true;
    if (f->kind != STEAL_HOST)
        return client_stop(w, v, us);
    if (!client_rob(w, v, us))
        return false;
    memcpy(thief.run, v->run, sizeof(thief.run)); /* who took it is the next host */
    client_start(w, &thief);
    return true;
}

static void newcomer(struct world *w, const struct fault *f)
{
    struct client how = {.json = f->more % 2 == 0, .older = f->kind == OLDER};

    if (w->n_clients == 0)
        return;
    if (how.older)
        snprintf(how.file, sizeof(how.file), "/p%d.yaml", (int)(f->more / 2 % PIPES));
    else
        memcpy(how.run, w->clients[f->more / 2 % w->n_clients].run, sizeof(how.run));
    if (how.file[0] != '\0' || how.run[0] != '\0')
        client_start(w, &how);
}

static void strike_machine(struct world *w, const struct fault *f)
{
    static const char *const victims[] = {"serve", "flownode", "sim"};
    struct scenario *c = w->test;
    struct sim_machine *m = &w->sim.machines[1 + f->more % 3];
    struct sim_proc *p;

    c->held |= 1u << (m - w->sim.machines);
    switch (f->kind) {
    case KILL_SSHD:
        sim_links_drop(m);
        break;
    case CUT_SHORT:
    case CUT:
        m->heal_us = w->sim.now_us + (f->kind == CUT ? 20000000 : 1000000);
        m->cut = true;
        break;
    case BAD_LINK:
        m->rate_us = w->sim.now_us + 60000000;
        m->late_us = 200000;
        break;
    case REBOOT:
        m->up = false;
        m->up_us = w->sim.now_us + 500000 + (int64_t)(f->more % 9000000);
        sim_crash(m, true);
        break;
    default:
        p = world_pick(w, m, victims[f->kind - KILL_SERVE], f->more / 3);
        if (p != NULL)
            world_kill(w, p, "");
    }
}

/* To a flowrun; NULL: there is none. */
static void strike_client(struct world *w, struct client *v, const struct fault *f)
{
    struct scenario *c = w->test;

    if (v == NULL)
        return;
    switch (f->kind) {
    case KILL_HOST:
    case KILL_CLIENT:
        world_kill(w, v->proc, "");
        break;
    case KILL_AT_COMMIT:
        c->commits = 1 + f->more % 4;
        break;
    case KILL_NEXT_HOST:
        c->takes = true;
        c->host = v->proc;
        c->take_step = 0;
        world_kill(w, v->proc, "");
        break;
    case TERM_HOST:
    case TERM_CLIENT:
        client_term(w, v);
        break;
    default:
        c->again = f->kind == LEAVE_CLIENT ? v->proc : c->again;
        c->again_us = w->sim.now_us + 1000 + (int64_t)(f->more % 1500000);
        client_int(w, v, false);
    }
}

static void lose_power(struct world *w)
{
    struct scenario *c = w->test;

    c->held |= 1;
    world_lose_power(w);
}

/* false: not now. */
static bool strike(struct world *w, const struct fault *f)
{
    bool of_host = f->kind == KILL_HOST || f->kind == KILL_AT_COMMIT || f->kind == TERM_HOST ||
                   f->kind == KILL_NEXT_HOST || f->kind == STOP_HOST || f->kind == STEAL_HOST;
    struct client *v = of_host ? host(w) : any_client(w, f->more / 16);

    world_tell(w, "fault: %s", kind_names[f->kind]);
    if (f->kind == STOP_HOST || f->kind == STEAL_HOST || f->kind == STOP_CLIENT)
        return stop(w, v, f);
    if (f->kind == OLDER || f->kind == SECOND)
        newcomer(w, f);
    else if (f->kind == POWER)
        lose_power(w);
    else if (f->kind < QUIET_KINDS)
        strike_client(w, v, f);
    else
        strike_machine(w, f);
    return true;
}

static void on_point(struct sim *s, enum sim_point what)
{
    struct world *w = world_of(s);
    struct scenario *c = w->test;

    for (int i = 0; i < STORMS_MAX; i++)
        storm_point(w, &c->storms[i], what);
    if (what == SIM_AT_COMMIT && c->commits > 0 && client_of(w, s->cur) != NULL &&
        --c->commits == 0)
        world_kill(w, s->cur, "");
}

/* ---- as time passes ---- */

static void begin_due(struct world *w, struct scenario *c)
{
    w->look_us = INT64_MAX;
    for (int i = 0; i < STARTS; i++) {
        struct client how = {.json = c->begins[i].json};

        if (!c->begins[i].there || c->begun[i])
            continue;
        if (w->sim.now_us < c->begins[i].at_us) {
            w->look_us = c->begins[i].at_us < w->look_us ? c->begins[i].at_us : w->look_us;
            continue;
        }
        c->begun[i] = true;
        snprintf(how.file, sizeof(how.file), "/p%d.yaml", c->begins[i].pipe);
        client_start(w, &how);
    }
}

static void take_next_host(struct world *w, struct scenario *c)
{
    struct client *h = host(w);

    if (h == NULL || h->proc == c->host)
        return;
    if (c->take_step == 0)
        c->take_step = w->sim.steps + sim_random(&w->sim) % 600;
    if (w->sim.steps < c->take_step)
        return;
    c->takes = false;
    world_kill(w, h->proc, ", which had just taken over");
}

static void second_int(struct world *w, struct scenario *c)
{
    struct client *v = client_of(w, c->again);

    if (c->again == NULL)
        return;
    if (v != NULL && w->sim.now_us < c->again_us) {
        w->look_us = c->again_us < w->look_us ? c->again_us : w->look_us;
        return;
    }
    c->again = NULL;
    if (v != NULL)
        client_int(w, v, true);
}

static const struct fault *next_fault(struct scenario *c)
{
    while (c->next < FAULTS_MAX && !c->faults[c->next].there)
        c->next++;
    return c->next < FAULTS_MAX ? &c->faults[c->next] : NULL;
}

/* Once nobody is left, or a queued run may wait for one that nobody has. */
static void resume_left(struct world *w, struct scenario *c)
{
    bool any = client_any(w);

    if (any && w->sim.now_us < c->round_us) {
        w->look_us = c->round_us;
        return;
    }
    c->round_us = w->sim.now_us + ROUND_US;
    if (!any && c->rounds++ == ROUNDS)
        world_violated(w, "runs are left after they were resumed %d times", ROUNDS);
    else if (!client_resume_left(w) && !any)
        w->over = true;
    else
        w->look_us = c->round_us;
}

static void look(struct world *w)
{
    struct scenario *c = w->test;
    const struct fault *f = next_fault(c);

    begin_due(w, c);
    if (f != NULL && w->sim.steps >= f->step && !w->over)
        c->next += strike(w, f);
    if (c->takes)
        take_next_host(w, c);
    second_int(w, c);
    f = next_fault(c);
    w->sim.fault_step = f != NULL ? f->step : UINT64_MAX;
    if (c->takes && c->take_step > 0 && c->take_step < w->sim.fault_step)
        w->sim.fault_step = c->take_step;
    for (int i = 0; i < STORMS_MAX && !w->over; i++)
        c->held |= storm_look(w, &c->storms[i]);
    if (w->sim.now_us > GIVE_UP_US)
        world_violated(w, "it did not end");
    if (w->look_us == INT64_MAX && !w->over)
        resume_left(w, c);
}

/* ---- the verdict ---- */

/* A run succeeds, unless somebody cancelled it. */
static void check_outcomes(struct world *w)
{
    struct fr_buf rows = {0};
    char id[40], outcome[16];

    world_rows(w, "SELECT lower(hex(id)), outcome FROM run WHERE outcome <> 'succeeded'", &rows);
    for (const char *p = rows.n > 0 ? rows.p : ""; *p != '\0'; p += strcspn(p, "\n") + 1) {
        bool cancelled = false;

        if (sscanf(p, "%39[^|]|%15[a-z]", id, outcome) != 2)
            continue;
        for (size_t i = 0; i < w->n_clients; i++)
            cancelled |= strcmp(w->clients[i].run, id) == 0 && w->clients[i].cancelled;
        if (!cancelled || strcmp(outcome, "cancelled") != 0)
            world_violated(w, "run %.8s %s", id, outcome);
    }
    fr_buf_finish(&rows);
}

static bool run_scenario(struct world *w, void *arg)
{
    struct scenario *c = arg;
    memset(c->begun, 0, sizeof(c->begun));
    c->next = c->rounds = 0;
    c->round_us = ROUND_US;
    c->commits = c->take_step = 0;
    c->takes = false;
    c->held = 0;
    c->host = NULL;
    c->again = NULL;
    for (int i = 0; i < STORMS_MAX; i++)
        storm_reset(&c->storms[i]);
    w->test = c;
    w->look = look;
    world_run(w, NULL, c->seed, begin);
    if (!w->failed)
        check_outcomes(w);
    if (!w->failed)
        told_check(w, c->held);
    return !w->failed;
}

/* ---- making it small ---- */

static bool *part(void *arg, int i)
{
    struct scenario *c = arg;

    if (i < PIPES * TASKS_MAX)
        return &c->pipes[i / TASKS_MAX].tasks[i % TASKS_MAX].there;
    i -= PIPES * TASKS_MAX;
    if (i < STARTS)
        return &c->begins[i].there;
    i -= STARTS;
    if (i < FAULTS_MAX)
        return &c->faults[i].there;
    i -= FAULTS_MAX;
    return i < STORMS_MAX ? &c->storms[i].there : &c->pipes[0].nests;
}

static const struct shrink smaller = {run_scenario, part,
                                      PIPES *TASKS_MAX + STARTS + FAULTS_MAX + STORMS_MAX + 1};

static void show(struct world *w, struct scenario *c)
{
    struct fr_buf yaml = {0}, rows = {0};

    run_scenario(w, c);
    printf("seed %llu: %s\n", (unsigned long long)c->seed, w->why);
    for (int i = 0; i < STARTS; i++)
        if (c->begins[i].there) {
            yaml.n = 0;
            put_pipe(c, c->begins[i].pipe, &yaml);
            printf("/p%d.yaml:\n%s", c->begins[i].pipe, yaml.p);
        }
    printf("%s", w->story.p != NULL ? w->story.p : "");
    for (size_t i = 0; i < w->n_clients; i++) {
        struct fr_str all = client_printed(w, i);
        printf("client %zu, %d:\n%.*s", i, w->clients[i].code, (int)all.n, all.p);
    }
    world_rows(w,
               "SELECT r.no, e.seq, e.wall, i.key, e.attempt_no, e.kind FROM event e JOIN run r ON "
               "r.id = e.run LEFT JOIN instance i ON i.run = e.run AND i.idx = e.idx ORDER BY "
               "r.no, e.seq",
               &rows);
    printf("%s", rows.n > 0 ? rows.p : "");
    fr_buf_finish(&rows);
    fr_buf_finish(&yaml);
    world_finish(w);
}

struct sum {
    size_t attempts, clients;
};

static void run_seed(struct world *w, uint64_t seed, bool tells, struct sum *sum)
{
    struct scenario c;
    char row[32];
    bool ok;

    snprintf(row, sizeof(row), "seed %llu", (unsigned long long)seed);
    check_row(row);
    make_scenario(&c, seed);
    ok = run_scenario(w, &c);
    sum->attempts += w->n_records;
    sum->clients += w->n_clients;
    world_finish(w);
    if (!CHECK(ok)) {
        printf("seed %llu: %s\n", (unsigned long long)seed, w->why);
        fflush(stdout);
        shrink(&smaller, w, &c);
    }
    if (!ok || tells)
        show(w, &c);
}

int main(int argc, char **argv)
{
    /* each of them found a fault once, or finds one that is planted */
    static const uint64_t found[] = {
        111,    154,    243,    402,    412,    444,    497,    690,     704,
        822,    858,    1088,   1317,   1469,   3210,   3637,   10849,   20696,
        24502,  50671,  51201,  51850,  60256,  62820,  103203, 106224,  203152,
        303711, 307950, 311278, 313980, 321467, 322012, 600232, 1001205, 1053627};
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : SEEDS;
    struct world *w = calloc(1, sizeof(*w));
    struct sum sum = {0};

    world_setup();
    client_setup();
    w->quiet = w->settled = true;
    for (size_t i = 0; argc == 1 && i < sizeof(found) / sizeof(found[0]); i++)
        run_seed(w, found[i], false, &sum);
    for (uint64_t i = 0; i < count && check_counts.failed < 5; i++)
        run_seed(w, first + i, argc == 2, &sum);
    for (uint64_t i = 0; argc == 1 && i < SEEDS; i++)
        run_seed(w, STORMY + i, false, &sum);
    world_clean();
    printf("seeds %llu to %llu, %zu clients, %zu attempts\n", (unsigned long long)first,
           (unsigned long long)(first + count - 1), sum.clients, sum.attempts);
    free(w);
    return check_done();
}

/*
 * The engine and three nodes on simulated machines: a pipeline of 12 tasks, with a gang over all
 * nodes, is run under random kills (flowrun, serve, supervisors), lost links, reboots and dead
 * nodes. After any of them the run is resumed; it must end succeeded, and at every moment the rules
 * of the design must hold:
 *
 *   - no attempt's command runs twice, and none that the store does not know
 *   - never two attempts of one instance at once, nor two generations of a gang
 *   - a task starts only after what it needs succeeded
 *   - at most one attempt of an instance succeeds, and it did exit with 0
 *   - the copy of a log at home is byte for byte what the command wrote
 *   - nothing is left running
 *
 * `sim_test [SEED [COUNT]]`; a failure names its seed. One seed alone tells its story.
 */
#include "engine/base/log.h"
#include "engine/base/file.h"
#include "engine/node/serve.h"
#include "engine/run/run.h"
#include "engine/store/home.h"
#include "tests/sim/sim.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEEDS = 300, RECORDS = 1024, FAULTS_MAX = 10, NEEDS_MAX = 3 };

static const int64_t GIVE_UP_US = 6LL * 3600 * 1000000;

static const char pipeline[] =
    "name: sim\n"
    "nodes:\n"
    "  - {name: n1, executor: local}\n"
    "  - {name: n2, executor: local}\n"
    "  - {name: n3, executor: local}\n"
    "defaults: {timeout: 1h, retry: {times: 60, delay: 500ms, on: [signal, timeout, node_lost, "
    "lost, "
    "start_failed, exit]}}\n"
    "tasks:\n"
    "  prep: {on: n1, argv: [sim, \"200\", \"0\"]}\n"
    "  fetch: {on: all, needs: [prep], argv: [sim, \"400\", \"0\"]}\n"
    "  build: {on: n2, needs: [prep], argv: [sim, \"300\", \"0\"]}\n"
    "  scan: {on: n3, argv: [sim, \"900\", \"0\"]}\n"
    "  flaky: {on: n2, needs: [prep], argv: [sim, \"100\", \"3\", once]}\n"
    "  slow: {on: n3, needs: [scan], timeout: 2s, argv: [sim, \"9000\", \"0\", once]}\n"
    "  wild: {on: n1, needs: [prep], argv: [sim, \"500\", \"0\", wild]}\n"
    "  train: {on: all, gang: true, needs: [fetch, build], argv: [sim, \"2500\", \"0\"]}\n"
    "  eval: {on: all, needs: [train], argv: [sim, \"300\", \"0\"]}\n"
    "  sum: {on: n3, needs: [eval, slow], argv: [sim, \"100\", \"0\"]}\n"
    "  gather: {on: n1, needs: [train, wild], argv: [sim, \"300\", \"0\"]}\n"
    "  publish: {on: n2, needs: [gather, sum, flaky], argv: [sim, \"200\", \"0\"]}\n";

static const struct {
    const char *task, *needs[NEEDS_MAX];
    int instances;
} shape[] = {
    {"prep", {NULL}, 1},
    {"fetch", {"prep"}, 3},
    {"build", {"prep"}, 1},
    {"scan", {NULL}, 1},
    {"flaky", {"prep"}, 1},
    {"slow", {"scan"}, 1},
    {"wild", {"prep"}, 1},
    {"train", {"fetch", "build"}, 3},
    {"eval", {"train"}, 3},
    {"sum", {"eval", "slow"}, 1},
    {"gather", {"train", "wild"}, 1},
    {"publish", {"gather", "sum", "flaky"}, 1},
};

enum { TASKS = sizeof(shape) / sizeof(shape[0]) };

/* What truly happened to one attempt. */
struct record {
    char attempt[40], task[16], node[16], generation[12];
    bool exited; /* by itself, with 0 */
    int64_t spawned_us;
    char written[4096];
    size_t n_written;
};

struct test {
    struct sim world;
    uint64_t seed;
    char home[128];
    struct record records[RECORDS];
    size_t n_records;
    sqlite3 *db;             /* the checker's own look at the store */
    struct fr_store *store;  /* of the living engine */
    struct sim_proc *engine; /* NULL: none lives */
    pid_t engine_pid;
    int64_t restart_us;
    bool over, failed, verbose;
    int starts, faults_left;
    char last_error[FR_ERR_MAX];
    struct fr_buf story; /* faults so far, for a report */
};

static struct test *test_of(struct sim *s)
{
    return s->test;
}

__attribute__((format(printf, 2, 3))) static void violated(struct test *t, const char *fmt, ...)
{
    va_list ap;

    if (t->failed)
        return;
    t->failed = true;
    printf("seed %llu at %.3f s, step %llu: ", (unsigned long long)t->seed,
           (double)t->world.now_us / 1e6, (unsigned long long)t->world.steps);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n%s", t->story.p != NULL ? t->story.p : "");
}

__attribute__((format(printf, 2, 3))) static void tell(struct test *t, const char *fmt, ...)
{
    struct sim_proc *cur = t->world.cur;
    va_list ap;

    t->world.cur = NULL; /* the story outlives every process */
    fr_buf_fmt(&t->story, "  %9.3f ", (double)t->world.now_us / 1e6);
    va_start(ap, fmt);
    fr_buf_vfmt(&t->story, fmt, ap);
    va_end(ap);
    fr_buf_text(&t->story, "\n");
    t->world.cur = cur;
}

static struct record *find_record(struct test *t, const char *attempt)
{
    for (size_t i = 0; i < t->n_records; i++)
        if (strcmp(t->records[i].attempt, attempt) == 0)
            return &t->records[i];
    return NULL;
}

/* ---- rules that are checked when a command starts ---- */

static const char *env_of(const struct fr_spawn *sp, const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; sp->envp[i] != NULL; i++)
        if (strncmp(sp->envp[i], name, n) == 0 && sp->envp[i][n] == '=')
            return sp->envp[i] + n + 1;
    return "";
}

static void check_alone(struct test *t, const struct record *r)
{
    for (int i = 0; i < SIM_MACHINES; i++)
        for (struct sim_proc *p = t->world.machines[i].procs; p != NULL; p = p->next) {
            const struct record *o = p->marker[0] != '\0' ? find_record(t, p->marker) : NULL;
            if (o == NULL || p->state == SIM_ZOMBIE || strcmp(o->task, r->task) != 0)
                continue;
            if (strcmp(o->node, r->node) == 0)
                violated(t, "attempt %s of %s on %s starts while %s lives", r->attempt, r->task,
                         r->node, o->attempt);
            if (strcmp(r->task, "train") == 0 && strcmp(o->generation, r->generation) != 0)
                violated(t, "generation %s of %s starts on %s while %s lives on %s", r->generation,
                         r->task, r->node, o->generation, o->node);
        }
}

static int succeeded(const struct test *t, const char *task, const char *node)
{
    int n = 0;

    for (size_t i = 0; i < t->n_records; i++)
        n += t->records[i].exited && strcmp(t->records[i].task, task) == 0 &&
             (node == NULL || strcmp(t->records[i].node, node) == 0);
    return n;
}

static void check_needs(struct test *t, const struct record *r)
{
    for (int k = 0; k < TASKS; k++)
        for (int i = 0; strcmp(shape[k].task, r->task) == 0 && i < NEEDS_MAX && shape[k].needs[i];
             i++)
            if (succeeded(t, shape[k].needs[i], NULL) == 0)
                violated(t, "%s starts before %s succeeded", r->task, shape[k].needs[i]);
}

static void check_committed(struct test *t, const struct record *r)
{
    sqlite3_stmt *st = NULL;
    struct fr_id id = {{0}};
    bool known = false;

    fr_id_parse(fr_str_of(r->attempt), &id);
    if (t->db == NULL) {
        char path[160];
        snprintf(path, sizeof(path), "%s/state.db", t->home);
        sqlite3_open_v2(path, &t->db, SQLITE_OPEN_READONLY, NULL);
    }
    if (sqlite3_prepare_v2(t->db, "SELECT 1 FROM attempt WHERE id = ?", -1, &st, NULL) ==
        SQLITE_OK) {
        sqlite3_bind_blob(st, 1, id.b, sizeof(id.b), SQLITE_STATIC);
        known = sqlite3_step(st) == SQLITE_ROW;
    }
    sqlite3_finalize(st);
    if (!known)
        violated(t, "attempt %s of %s starts and the store does not know it", r->attempt, r->task);
}

static void on_spawn(struct sim *s, struct sim_machine *m, const struct fr_spawn *sp)
{
    struct test *t = test_of(s);

    if (t->n_records == RECORDS || t->failed) {
        violated(t, "more than %d attempts", RECORDS);
        return;
    }
    struct record *r = &t->records[t->n_records];
    memset(r, 0, sizeof(*r));
    snprintf(r->attempt, sizeof(r->attempt), "%s", env_of(sp, "FLOWRUN_ATTEMPT"));
    snprintf(r->task, sizeof(r->task), "%s", env_of(sp, "FLOWRUN_TASK"));
    snprintf(r->node, sizeof(r->node), "%s", env_of(sp, "FLOWRUN_NODE"));
    snprintf(r->generation, sizeof(r->generation), "%s", env_of(sp, "FLOWRUN_GENERATION"));
    r->spawned_us = s->now_us;
    if (find_record(t, r->attempt) != NULL)
        violated(t, "attempt %s of %s runs twice", r->attempt, r->task);
    if (strcmp(r->node, m->name) != 0)
        violated(t, "%s of node %s runs on %s", r->task, r->node, m->name);
    if (succeeded(t, r->task, r->node) > 0 && strcmp(r->task, "train") != 0)
        tell(t, "note: %s on %s ran again after an attempt exited with 0", r->task, r->node);
    check_alone(t, r);
    check_needs(t, r);
    check_committed(t, r);
    tell(t, "%s on %s: attempt %.8s generation %s", r->task, r->node, r->attempt, r->generation);
    t->n_records++;
}

/* ---- the simulated command: sim MS CODE [once | wild] ---- */

static bool never(void *arg)
{
    (void)arg;
    return false;
}

static int stray(void *arg)
{
    (void)arg;
    sim_block(never, NULL, INT64_MAX);
    return 0;
}

/* A child that ignores SIGTERM in a session of its own; orphaned when its parent ends. */
static void start_stray(struct sim_proc *parent)
{
    struct sim_proc *p = sim_start(parent->m, stray, "", 1);

    p->ppid = parent->pid;
    p->ignores_term = true;
    sim_name(p->comm, "stray");
    memcpy(p->marker, parent->marker, sizeof(p->marker));
}

static int program(void *arg)
{
    struct test *t = test_of(sim);
    struct record *r = find_record(t, sim_env(arg, "FLOWRUN_ATTEMPT"));
    const char *mode = sim_arg(arg, 3);
    int64_t ms = atoll(sim_arg(arg, 1)), until = sim->now_us + ms * 1000;
    int code = (int)atoll(sim_arg(arg, 2)), line = 0;

    if (mode != NULL && strcmp(mode, "once") == 0 &&
        strcmp(sim_env(arg, "FLOWRUN_ATTEMPT_NO"), "1") != 0) {
        code = 0;
        until = sim->now_us + 200000;
    }
    if (mode != NULL && strcmp(mode, "wild") == 0) {
        sim->cur->ignores_term = true;
        start_stray(sim->cur);
    }
    while (sim->now_us < until) {
        char text[64];
        int n = snprintf(text, sizeof(text), "%s line %d\n", r->task, ++line);
        if (r->n_written + (size_t)n < sizeof(r->written)) {
            memcpy(r->written + r->n_written, text, (size_t)n);
            r->n_written += (size_t)n; /* what it is about to write: a copy may only have this */
        }
        fr_sys.write(1, text, (size_t)n);
        int64_t next = sim->now_us + sim_between(sim, 20000, 400000);
        sim_block(never, NULL, next < until ? next : until);
    }
    r->exited = code == 0;
    return code;
}

/* ---- the programs: flowrun and flownode ---- */

static int serve(void *arg)
{
    struct sim_machine *m = *(struct sim_machine **)arg;
    static const char *const environment[] = {"PATH=/bin", NULL};
    struct fr_serve_args a = {"/node", "/flownode", "sim", environment, 0, 1};
    struct fr_err err;

    (void)m;
    return fr_serve(&a, &err) == FR_OK ? 0 : 1;
}

static enum fr_rc make_link(void *arg, size_t node, struct fr_link *out, struct fr_err *err)
{
    struct test *t = arg;

    (void)err;
    return sim_link_create(out, &t->world.machines[node < 3 ? node + 1 : 0], serve);
}

static void note(void *arg, const struct fr_run *run, const struct fr_note *n)
{
    struct test *t = arg;

    (void)run;
    if (n->kind == FR_NOTE_TROUBLE)
        tell(t, "trouble: %s", n->text);
}

static enum fr_rc open_run(struct test *t, const struct fr_run_env *env, struct fr_run **run,
                           struct fr_err *err)
{
    struct fr_issues issues = {0};
    struct fr_resume_opts resume = {0};
    struct fr_spec_opts opts = {.path = "/sim.yaml", .cwd = "/"};
    enum fr_rc rc = fr_run_resume(env, &resume, run, &issues, err);

    if (rc == FR_NOTFOUND)
        rc = fr_run_submit(env, &opts, run, &issues, err);
    for (size_t i = 0; rc != FR_OK && i < issues.n; i++)
        tell(t, "%s", issues.lines[i]);
    fr_issues_finish(&issues);
    return rc;
}

static void take_result(struct test *t, const struct fr_run *run)
{
    struct fr_run_now now = fr_run_now(run);

    t->over = true;
    if (now.outcome != FR_OUT_SUCCEEDED)
        violated(t, "the run ended %s", fr_outcome_name(now.outcome));
}

static int engine(void *arg)
{
    struct test *t = *(struct test **)arg;
    struct fr_loop loop = {0};
    struct fr_run *run = NULL;
    struct fr_err err = {0};
    enum fr_rc rc = fr_home_make(t->home, &err);

    if (rc == FR_OK)
        rc = fr_store_open(t->home, &t->store, &err);
    if (rc == FR_OK)
        rc = sim_loop_create(&loop, &err);
    struct fr_run_env env = {.loop = &loop,
                             .store = t->store,
                             .view = {note, t},
                             .self = "/flowrun",
                             .flownode_dir = "/",
                             .cwd = "/",
                             .make_link = make_link,
                             .make_link_arg = t};
    if (rc == FR_OK)
        rc = open_run(t, &env, &run, &err);
    while (rc == FR_OK && !fr_run_over(run))
        rc = fr_run_turn(run, &err);
    if (rc == FR_OK)
        take_result(t, run);
    else if (strstr(err.msg, "is over") != NULL)
        t->over = true; /* it was killed just behind its last commit */
    else if (rc == FR_FULL)
        t->restart_us = t->world.now_us + 10000000; /* its user makes room and resumes */
    else
        violated(t, "flowrun: %s", err.msg);
    fr_run_destroy(run);
    fr_loop_destroy(&loop);
    fr_store_close(t->store);
    t->store = NULL;
    return 0;
}

/* ---- faults ---- */

static void start_engine(struct test *t)
{
    t->engine = sim_start(&t->world.machines[0], engine, &t, sizeof(t));
    t->engine_pid = t->engine->pid;
    sim_name(t->engine->comm, "flowrun");
    t->restart_us = INT64_MAX;
    t->starts++;
}

/* What the kernel does for a killed process: descriptors close, SQLite's journal undoes the rest.
 */
static void kill_engine(struct test *t, bool reboot)
{
    struct sim *s = &t->world;

    tell(t, "fault: flowrun killed%s", reboot ? ", control rebooted" : "");
    s->cur = t->engine;
    fr_store_close(t->store);
    s->cur = NULL;
    t->store = NULL;
    sim_links_orphan(s);
    if (reboot)
        sim_crash(&s->machines[0], true);
    else
        sim_end(t->engine, true, SIGKILL);
    t->engine = NULL;
    sim_sweep(s);
    t->restart_us = s->now_us + sim_between(s, 0, 20000000);
}

static void kill_named(struct test *t, const char *comm)
{
    struct sim_machine *m = &t->world.machines[sim_between(&t->world, 1, 3)];
    struct sim_proc *chosen = NULL;
    uint64_t n = 0;

    for (struct sim_proc *p = m->procs; p != NULL; p = p->next)
        if (strcmp(p->comm, comm) == 0 && p->state != SIM_ZOMBIE &&
            sim_random(&t->world) % ++n == 0)
            chosen = p;
    if (chosen == NULL)
        return;
    tell(t, "fault: %s %d on %s killed", comm, (int)chosen->pid, m->name);
    sim_end(chosen, true, SIGKILL);
    sim_sweep(&t->world);
}

static void strike(struct test *t)
{
    struct sim *s = &t->world;
    struct sim_machine *m = &s->machines[sim_between(s, 1, 3)];
    int64_t kind = sim_between(s, 0, 99);

    if (kind < 25) {
        if (t->engine != NULL)
            kill_engine(t, kind < 5);
    } else if (kind < 40) {
        kill_named(t, "serve");
    } else if (kind < 60) {
        kill_named(t, "flownode");
    } else if (kind < 65) {
        kill_named(t, "sim");
    } else if (kind < 80) {
        m->cut = true;
        m->heal_us = s->now_us + sim_between(s, 500000, 30000000);
        tell(t, "fault: link of %s cut until %.3f", m->name, (double)m->heal_us / 1e6);
    } else if (kind < 85) {
        m = &s->machines[sim_between(s, 0, 3)];
        m->full = m->was_full = true;
        m->room_us = s->now_us + sim_between(s, 500000, 30000000);
        tell(t, "fault: disk of %s full until %.3f", m->name, (double)m->room_us / 1e6);
    } else if (kind < 93) {
        m->up = false;
        m->up_us = s->now_us + sim_between(s, 500000, 20000000);
        sim_crash(m, true);
        tell(t, "fault: %s reboots until %.3f", m->name, (double)m->up_us / 1e6);
    } else {
        sim_crash(m, false);
        tell(t, "fault: all processes of %s killed", m->name);
    }
    sim_sweep(s);
}

static void next_fault(struct test *t)
{
    if (t->faults_left-- > 0)
        t->world.fault_step = t->world.steps + (uint64_t)sim_between(&t->world, 20, 1200);
    else
        t->world.fault_step = UINT64_MAX;
}

static void pass_time(struct test *t)
{
    struct sim *s = &t->world;

    for (int i = 0; i < SIM_MACHINES; i++) {
        struct sim_machine *m = &s->machines[i];
        m->full = m->full && s->now_us < m->room_us;
        m->up = m->up || s->now_us >= m->up_us;
        m->cut = m->cut && s->now_us < m->heal_us;
    }
    if (sim_find(&s->machines[0], t->engine_pid) == NULL)
        t->engine = NULL;
    if (t->engine == NULL && !t->over && t->restart_us == INT64_MAX && !t->failed)
        violated(t, "flowrun ended early");
    if (s->now_us >= t->restart_us) {
        tell(t, "flowrun resume");
        start_engine(t);
    }
    s->wake_us = t->restart_us;
}

/* ---- one seed ---- */

static const struct sim_machine *machine_of(const struct test *t, const char *node)
{
    return &t->world.machines[node[1] - '0'];
}

/* The copy at home is what the command wrote: all of it once the node was told to forget, else a
 * beginning. */
static void check_log(struct test *t, const struct record *r, const char *path, bool whole)
{
    const struct sim_inode *log = sim_lookup(&t->world.machines[0], path);
    size_t n = log != NULL ? log->n : 0;

    if (machine_of(t, r->node)->was_full)
        return; /* what the node could not keep is missing, and a line says so */
    if (n > r->n_written || (n > 0 && memcmp(log->data, r->written, n) != 0))
        violated(t, "the log of %s on %s (%.8s) is not what it wrote", r->task, r->node,
                 r->attempt);
    if (whole && n != r->n_written && machine_of(t, r->node)->boot_us < r->spawned_us)
        violated(t, "the log of %s on %s (%.8s) has %zu of %zu bytes", r->task, r->node, r->attempt,
                 n, r->n_written);
}

static void lower(char *out, const void *text)
{
    const char *p = text;

    for (; *p != '\0'; p++)
        *out++ = (char)(*p >= 'A' && *p <= 'Z' ? *p + 'a' - 'A' : *p);
    *out = '\0';
}

/* What the store says in the end, against what happened. */
static void check_store(struct test *t)
{
    static const char sql[] =
        "SELECT hex(id), hex(run), idx, state, log, done FROM attempt ORDER BY idx, no";
    sqlite3_stmt *st = NULL;
    int64_t won = -1;

    if (t->db == NULL || sqlite3_prepare_v2(t->db, sql, -1, &st, NULL) != SQLITE_OK) {
        violated(t, "the store cannot be read");
        return;
    }
    while (sqlite3_step(st) == SQLITE_ROW && !t->failed) {
        char id[40], run[40], path[512];
        bool wins = strcmp((const char *)sqlite3_column_text(st, 3), "succeeded") == 0;
        lower(id, sqlite3_column_text(st, 0));
        lower(run, sqlite3_column_text(st, 1));
        snprintf(path, sizeof(path), "%s/runs/%s/%s", t->home, run, sqlite3_column_text(st, 4));
        const struct record *r = find_record(t, id);
        if (wins && (r == NULL || !r->exited))
            violated(t, "attempt %s is called succeeded and did not exit with 0", id);
        if (wins && won == sqlite3_column_int64(st, 2))
            violated(t, "instance %lld succeeded twice", (long long)won);
        won = wins ? sqlite3_column_int64(st, 2) : won;
        if (r != NULL)
            check_log(t, r, path, wins && sqlite3_column_int(st, 5) != 0);
    }
    sqlite3_finalize(st);
}

static void check_end(struct test *t)
{
    if (!t->failed)
        check_store(t);
    for (int k = 0; k < TASKS && !t->failed; k++)
        for (int n = 1; n <= 3; n++) {
            char node[4];
            int wins;
            snprintf(node, sizeof(node), "n%d", n);
            wins = succeeded(t, shape[k].task, node);
            if (shape[k].instances == 3 && wins == 0)
                violated(t, "%s on %s never succeeded", shape[k].task, node);
        }
    for (int i = 1; i < SIM_MACHINES && !t->failed; i++)
        for (struct sim_proc *p = t->world.machines[i].procs; p != NULL; p = p->next)
            if (strcmp(p->comm, "serve") != 0 && p->state != SIM_ZOMBIE)
                violated(t, "%s %d still runs on %s", p->comm, (int)p->pid,
                         t->world.machines[i].name);
}

/* SQLite works on real files, below a path that differs from run to run in its digits alone. */
static void make_home(struct test *t)
{
    char path[200];

    snprintf(t->home, sizeof(t->home), "%s/flowrun-sim.%08d",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
    mkdir(t->home, 0700);
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"state.db", "state.db-wal", "state.db-shm"};
        snprintf(path, sizeof(path), "%s/%s", t->home, names[i]);
        unlink(path);
    }
}

static bool run_seed(struct test *t, uint64_t seed)
{
    struct sim *s = &t->world;
    bool idle;

    bool verbose = t->verbose;

    memset(t, 0, sizeof(*t));
    t->verbose = verbose;
    t->seed = seed;
    make_home(t);
    sim_init(s, seed);
    s->test = t;
    s->on_spawn = on_spawn;
    s->program = program;
    sim_put_file(&s->machines[0], "/sim.yaml", pipeline);
    t->faults_left = (int)sim_between(s, 0, FAULTS_MAX);
    start_engine(t);
    next_fault(t);
    for (int64_t end_us = INT64_MAX; !t->failed && s->now_us < end_us;) {
        if (s->steps >= s->fault_step) {
            if (!t->over)
                strike(t);
            next_fault(t);
        }
        pass_time(t);
        if (!sim_turn(s, &idle) && idle)
            break;
        if (s->now_us > GIVE_UP_US)
            violated(t, "it did not end");
        if (t->over && end_us == INT64_MAX)
            end_us = s->now_us + 200LL * 1000000; /* whatever still goes on has an end */
    }
    check_end(t);
    if (t->verbose)
        printf("seed %llu, %llu steps, %.3f s:\n%s", (unsigned long long)seed,
               (unsigned long long)s->steps, (double)s->now_us / 1e6,
               t->story.p != NULL ? t->story.p : "");
    sqlite3_close(t->db);
    s->cur = t->engine;
    fr_store_close(t->store);
    s->cur = NULL;
    sim_finish(s);
    fr_buf_finish(&t->story);
    return !t->failed;
}

#if defined(__SANITIZE_ADDRESS__)
/* A killed process frees nothing, and what libraries allocated for it is lost with it. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
#endif

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : SEEDS;
    struct test *t = calloc(1, sizeof(*t));
    size_t attempts = 0;

    t->verbose = argc == 2;
    fr_log_to(-1);
    sim_sys_core(&fr_sys);
    sim_sys_fs(&fr_sys);
    sim_sys_io(&fr_sys);
    sim_sys_proc(&fr_sys);
    for (uint64_t i = 0; i < count; i++) {
        char row[32];
        snprintf(row, sizeof(row), "seed %llu", (unsigned long long)(first + i));
        check_row(row);
        CHECK(run_seed(t, first + i));
        attempts += t->n_records;
    }
    make_home(t);
    rmdir(t->home);
    printf("seeds %llu to %llu, %zu attempts\n", (unsigned long long)first,
           (unsigned long long)(first + count - 1), attempts);
    free(t);
    return check_done();
}

/* A run on simulated machines, from its submit to its end: the programs, their kills, the turns. */
#include "tests/sim/slurm.h"

#include "tests/sim/sim_db.h"

#include "engine/base/log.h"
#include "engine/node/serve.h"
#include "engine/store/home.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const int64_t GIVE_UP_US = 40LL * 3600 * 1000000;
static const int64_t TIDY_US = 1000000; /* a serve that lives tidies up within that time */

struct world *world_of(struct sim *s)
{
    return s->test;
}

void world_violated(struct world *w, const char *fmt, ...)
{
    va_list ap;

    if (w->failed)
        return;
    w->failed = true;
    va_start(ap, fmt);
    vsnprintf(w->why, sizeof(w->why), fmt, ap);
    va_end(ap);
    if (!w->quiet)
        printf("seed %llu at %.3f s, step %llu: %s\n%s", (unsigned long long)w->seed,
               (double)w->sim.now_us / 1e6, (unsigned long long)w->sim.steps, w->why,
               w->story.p != NULL ? w->story.p : "");
}

void world_tell(struct world *w, const char *fmt, ...)
{
    struct sim_proc *cur = w->sim.cur;
    va_list ap;

    w->sim.cur = NULL; /* the story outlives every process */
    fr_buf_fmt(&w->story, "  %9.3f ", (double)w->sim.now_us / 1e6);
    va_start(ap, fmt);
    fr_buf_vfmt(&w->story, fmt, ap);
    va_end(ap);
    fr_buf_text(&w->story, "\n");
    w->sim.cur = cur;
}

/* ---- the programs: flowrun and flownode ---- */

static int serve(void *arg)
{
    static const char *const environment[] = {"PATH=/bin", NULL};
    struct fr_serve_args a = {.home = "/node",
                              .self = "/flownode",
                              .build = "sim",
                              .environ = environment,
                              .in = 0,
                              .out = 1};
    struct sim_machine *m = sim->cur->m;
    struct fr_err err;

    (void)arg;
    enum fr_rc rc = fr_serve(&a, &err);
    if (sim->now_us >= m->untidy_us + TIDY_US) /* else it may have looked before */
        m->untidy = false;
    return rc == FR_OK ? 0 : 1;
}

int world_machine(const char *node)
{
    return node[0] == 'n' ? node[1] - '0' : 0;
}

enum fr_rc world_link(void *arg, const struct fr_exec_node *node, struct fr_link *out,
                      struct fr_err *err)
{
    struct world *w = arg;
    struct sim_machine *m = &w->sim.machines[world_machine(node->name)];

    if (w->slurm != NULL && (node->login || !fr_id_zero(node->run)))
        return sim_slurm_link(w->slurm, node, out, err);
    if (sim_links_to(&w->sim, m) > 0 && (w->slurm == NULL || w->slurm->front != m))
        world_violated(w, "a second link to %s", m->name);
    return sim_link_create(out, m, serve);
}

static void note(void *arg, const struct fr_run *run, const struct fr_note *n)
{
    struct world *w = arg;

    (void)run;
    if (n->kind == FR_NOTE_TROUBLE)
        world_tell(w, "trouble: %s", n->text);
}

static const char *no_env(void *self, const char *name)
{
    (void)self, (void)name;
    return NULL;
}

/* The run of that number: it is resumed, or made. *run NULL: it is over. */
static enum fr_rc open_run(struct world *w, struct fr_host *host, size_t no, struct fr_run **run,
                           struct fr_err *err)
{
    char name[24];
    struct fr_issues issues = {0};
    struct fr_host_own own = {{.cwd = "/", .getenv = no_env}, {note, w}};
    struct fr_resume_opts resume = {.retry = w->retry, .run = name};
    const char *path = no > 1 && w->others ? "/others.yaml" : "/sim.yaml";
    struct fr_submit submit = {.spec = {.path = path, .cwd = "/"},
                               .priority = w->priorities[no - 1]};
    enum fr_rc rc;

    snprintf(name, sizeof(name), "%zu", no);
    rc = fr_host_resume(host, &resume, &own, run, &issues, err);
    if (rc == FR_NOTFOUND && (rc = fr_id_new(&submit.id, err)) == FR_OK)
        rc = fr_host_submit(host, &submit, &own, run, &issues, err);
    else if (rc == FR_USAGE && (strstr(err->msg, "is over") != NULL || (w->retry && w->runs > 1)))
        rc = FR_OK; /* flowrun was killed behind its last commit, or only other runs go on */
    for (size_t i = 0; rc != FR_OK && i < issues.n; i++)
        world_tell(w, "%s", issues.lines[i]);
    fr_issues_finish(&issues);
    return rc;
}

void world_know(struct world *w, const struct fr_plan *plan)
{
    size_t base = w->n_tasks;

    if (plan->n_tasks > 0 && world_task(w, plan->tasks[0].name) != NULL)
        return;
    for (uint32_t t = 0; t < plan->n_tasks && w->n_tasks < WORLD_TASKS; t++) {
        const struct fr_plan_task *from = &plan->tasks[t];
        struct world_task *to = &w->tasks[w->n_tasks++];

        snprintf(to->name, sizeof(to->name), "%s", from->name);
        to->gang = from->gang;
        to->count = from->count;
        to->awaited = from->awaited;
        to->slots = (uint32_t)from->spec->slots;
        to->run_if = from->spec->run_if;
        to->best_effort = from->spec->best_effort;
        for (size_t i = 0; i < from->n_needs && i < WORLD_NEEDS; i++, to->n_needs++) {
            to->needs[i] = base + from->needs[i];
            to->states[i] = from->rules != NULL ? from->rules[i].states : 0;
        }
    }
    for (uint32_t n = 0; n < plan->n_nodes; n++)
        if (strcmp(plan->nodes[n].name, "control") != 0)
            w->slots[world_machine(plan->nodes[n].name)] = plan->nodes[n].slots;
}

static enum fr_outcome stored_outcome(struct world *w)
{
    struct fr_buf b = {0};
    enum fr_outcome out = FR_OUT_NONE;

    world_rows(w, "SELECT outcome FROM run ORDER BY outcome = 'succeeded'", &b);
    for (int o = FR_OUT_SUCCEEDED; o <= FR_OUT_CANCELLED; o++)
        if (b.n > 0 && fr_has_prefix(b.p, fr_outcome_name((enum fr_outcome)o)))
            out = (enum fr_outcome)o;
    fr_buf_finish(&b);
    return out;
}

/* How this flowrun ended, when it was not killed. */
static void take_result(struct world *w, enum fr_rc rc, const struct fr_err *err)
{
    if (w->condemned) {
        world_tell(w, "fault: flowrun killed");
    } else if (rc == FR_OK) {
        w->over = true;
        w->outcome = stored_outcome(w);
        world_tell(w, "the run ended %s", fr_outcome_name(w->outcome));
    } else if (rc == FR_FULL) {
        w->restart_us = w->sim.now_us + 10000000; /* its user makes room and resumes */
    } else if (w->may_fail && err->msg[0] != '\0' && err->rc == rc) {
        world_tell(w, "flowrun: %s", err->msg);
        w->restart_us = w->sim.now_us + 1000000;
    } else {
        world_violated(w, "flowrun: %s", err->msg);
    }
}

/* Where the clients of the host knock, in place of a server. */
struct door {
    struct world *w;
    struct fr_host *host;
    int fd;
    struct fr_watch *watch;
};

/* What clients ask, and have no answer to yet: a client whose host is killed asks the next one. */
static void answer_asks(struct world *w, struct fr_host *host)
{
    struct fr_api api = fr_host_api(host);

    for (size_t i = 0; i < w->n_asks; i++) {
        struct world_ask *ask = &w->asks[i];
        struct fr_api_response res = {0};
        struct fr_api_request req = {.method = FR_API_POST,
                                     .path = ask->path,
                                     .body = fr_str_of(ask->body),
                                     .content_type = "application/json",
                                     .range = "",
                                     .if_none_match = "",
                                     .last_event_id = ""};

        if (ask->answered)
            continue;
        api.answer(api.self, &req, &res);
        ask->answered = !w->condemned && res.status != 507 && res.status != FR_API_LATER;
        if (ask->answered && res.status / 100 == 2) /* else it is asked again */
            w->asked++;
        else if (ask->answered)
            world_tell(w, "trouble: %d %s", res.status, res.body.p != NULL ? res.body.p : "");
        fr_api_response_finish(&res);
    }
}

static void on_knock(void *arg, int what)
{
    struct door *door = arg;
    int fd = fr_sys.accept(door->fd);

    (void)what;
    if (fd >= 0)
        fr_sys.close(fd);
    answer_asks(door->w, door->host);
}

static enum fr_rc open_door(struct door *door, struct fr_loop *loop, struct fr_err *err)
{
    struct fr_buf path = {0};
    enum fr_rc rc = FR_OK;

    fr_home_sock(door->w->home, &path);
    fr_sys.unlink(path.p); /* of a host that was killed */
    door->fd = fr_sys.listen_unix(path.p);
    if (door->fd < 0 || fr_sys.set_nonblock(door->fd, true) != 0)
        rc = fr_fail_errno(err, errno, "listening at %s", path.p);
    else if (fr_loop_watch(loop, door->fd, on_knock, door, &door->watch) != FR_OK)
        rc = fr_fail(err, FR_NOMEM, "no memory to listen");
    else
        fr_loop_want(loop, door->watch, FR_LOOP_READ);
    fr_buf_finish(&path);
    return rc;
}

static void close_door(struct door *door, struct fr_loop *loop)
{
    if (door->watch != NULL)
        fr_loop_unwatch(loop, &door->watch);
    if (door->fd >= 0)
        fr_sys.close(door->fd);
}

/* Something is still to come of a host that stays, or an allocation is to be given back. */
static bool is_awaited(struct world *w, struct fr_host *host)
{
    struct fr_buf due = {0};
    bool any;

    if (w->slurm != NULL && (fr_host_owes(host) || sim_slurm_open(w->slurm)))
        return true;
    if (!w->stays)
        return false;
    if (w->folder != NULL && fr_sys.wall_ms() < w->until_wall_ms)
        return true;
    world_rows(w, "SELECT no FROM run WHERE state <> 'over' OR rerun_wall <> 0", &due);
    any = due.n > 0 || fr_host_load(host).runs > 0;
    fr_buf_finish(&due);
    return any;
}

/* Turns the host until all of its runs are over. */
static enum fr_rc drive(struct world *w, struct fr_host *host, struct fr_err *err)
{
    struct fr_run *runs[WORLD_RUNS] = {NULL};
    size_t n = w->runs > 0 ? w->runs : 1, left = 0;
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < n; i++) {
        rc = open_run(w, host, i + 1, &runs[i], err);
        if (rc == FR_OK && runs[i] != NULL) {
            world_know(w, fr_run_plan(runs[i]));
            left++;
        }
    }
    w->retry = false;
    answer_asks(w, host);
    if (rc == FR_OK && w->stays) {
        fr_host_stay(host);
        if (w->folder != NULL && (rc = fr_mkdirs(w->folder, 0700, err)) == FR_OK)
            rc = fr_host_watch(host, &w->folder, 1,
                               &(struct fr_run_shell){.cwd = "/", .getenv = no_env}, err);
        if (rc == FR_OK)
            rc = fr_host_recover(host, err);
    }
    while (rc == FR_OK && (left > 0 || is_awaited(w, host))) {
        for (size_t i = 0; i < n; i++)
            if (runs[i] != NULL && fr_run_over(runs[i])) {
                fr_host_drop(host, runs[i]);
                runs[i] = NULL;
                left--;
            }
        if (left > 0 || is_awaited(w, host))
            rc = fr_host_turn(host, err);
        if (rc == FR_OK && w->turned != NULL)
            w->turned(w, host);
    }
    return rc;
}

static int engine(void *arg)
{
    struct door door = {.w = *(struct world **)arg, .fd = -1};
    struct world *w = door.w;
    struct fr_loop loop = {0};
    struct fr_err err = {0};
    struct fr_nodes_args links = {.flownode_dir = "/", .make_link = world_link, .make_link_arg = w};
    struct fr_store *store = NULL;
    int lock = -1;
    enum fr_rc rc = fr_home_make(w->home, &err);

    if (rc == FR_OK)
        rc = fr_home_lead(w->home, &lock, &err);
    if (rc == FR_OK)
        rc = fr_store_open(w->home, &store, &err);
    if (rc == FR_OK)
        rc = sim_loop_create(&loop, &err);
    struct fr_run_env env = {.loop = &loop, .store = store, .self = "/flowrun"};
    if (rc == FR_OK)
        rc = fr_host_create(&env, &links, &door.host, &err);
    if (rc == FR_OK)
        rc = open_door(&door, &loop, &err);
    if (rc == FR_OK)
        rc = drive(w, door.host, &err);
    take_result(w, rc, &err);
    close_door(&door, &loop);
    fr_host_destroy(door.host);
    fr_loop_destroy(&loop);
    fr_store_close(store);
    if (lock >= 0)
        fr_sys.close(lock);
    return 0;
}

/* ---- kills ---- */

static void on_doom(struct sim *s)
{
    struct world *w = world_of(s);

    if (s->cur == w->engine)
        world_kill_engine(w, w->powerless);
    else
        world_kill(w, s->cur, "");
}

static void on_end(struct sim *s, struct sim_proc *p)
{
    world_db_leave(p);
    sim_links_orphan(s, p);
    if (s->doomed == p)
        s->doomed = NULL;
    client_ended(world_of(s), p);
}

static void on_unsynced(struct sim *s, const char *path)
{
    world_violated(world_of(s), "%s gets its name before its bytes are safe", path);
}

static void start_engine(struct world *w)
{
    w->engine = sim_start(&w->sim.machines[0], engine, &w, sizeof(w));
    w->engine_pid = w->engine->pid;
    sim_name(w->engine->comm, "flowrun");
    w->restart_us = INT64_MAX;
    w->condemned = w->powerless = false;
    w->starts++;
}

void world_kill(struct world *w, struct sim_proc *p, const char *why)
{
    if (w->committing && p == w->sim.cur) {
        w->sim.doomed = p;
        return;
    }
    world_tell(w, "fault: %s %d on %s killed%s", p->comm, (int)p->pid, p->m->name, why);
    if (strcmp(p->comm, "flownode") == 0) {
        p->m->untidy = true;
        p->m->untidy_us = w->sim.now_us;
    }
    sim_end(p, true, SIGKILL);
    if (p == w->sim.cur)
        sim_switch_to_scheduler();
}

void world_lose_power(struct world *w)
{
    client_keep_printed(w);
    sim_crash(&w->sim.machines[0], true);
    sqlite3_close(w->db); /* the checker's; it opens it again */
    w->db = NULL;
    sim_db_cut();
}

void world_kill_engine(struct world *w, bool reboot)
{
    struct sim *s = &w->sim;
    struct sim_proc *cur = s->cur;
    bool own = cur == w->engine;

    if (w->committing && own) {
        w->condemned = true;
        w->powerless = reboot;
        s->doomed = cur;
        return;
    }
    world_tell(w, "fault: flowrun killed%s", reboot ? ", control rebooted" : "");
    if (reboot)
        world_lose_power(w);
    else
        sim_end(w->engine, true, SIGKILL);
    w->engine = NULL;
    w->restart_us = s->now_us + sim_between(s, 0, w->restart_max_us);
    if (own)
        sim_switch_to_scheduler();
}

/* A client knocks at the host's door. */
static int user(void *arg)
{
    struct world *w = *(struct world **)arg;
    struct fr_buf path = {0};
    int fd;

    fr_home_sock(w->home, &path);
    fd = fr_sys.connect_unix(path.p);
    if (fd >= 0)
        fr_sys.close(fd);
    fr_buf_finish(&path);
    return 0;
}

void world_knock(struct world *w)
{
    sim_name(sim_start(&w->sim.machines[0], user, &w, sizeof(w))->comm, "user");
}

void world_ask(struct world *w, const char *path, const char *body)
{
    struct world_ask *ask = &w->asks[w->n_asks < WORLD_ASKS ? w->n_asks++ : WORLD_ASKS - 1];

    *ask = (struct world_ask){0};
    snprintf(ask->path, sizeof(ask->path), "%s", path);
    snprintf(ask->body, sizeof(ask->body), "%s", body);
    world_tell(w, "user: POST %s %s", path, body);
    world_knock(w);
}

void world_request(struct world *w, const char *kind, const char *arg)
{
    char body[64] = "{}";

    if (strcmp(kind, "cancel") == 0) {
        world_ask(w, "/api/v1/runs/1/cancel", body);
        return;
    }
    snprintf(body, sizeof(body), "{\"abandon\": [\"%s\"]}", arg);
    world_ask(w, "/api/v1/runs/1/resume", body);
}

/* ---- a run ---- */

static void pass_time(struct world *w)
{
    struct sim *s = &w->sim;

    for (int i = 0; i < SIM_MACHINES; i++) {
        struct sim_machine *m = &s->machines[i];
        m->full = m->full && s->now_us < m->room_us;
        m->up = m->up || s->now_us >= m->up_us;
        m->cut = m->cut && s->now_us < m->heal_us;
    }
    if (w->yaml == NULL)
        return; /* the test starts clients */
    if (sim_find(&s->machines[0], w->engine_pid) == NULL)
        w->engine = NULL;
    if (w->engine == NULL && w->condemned && w->restart_us == INT64_MAX)
        w->restart_us = s->now_us; /* it came to its end before its next call */
    if (w->engine == NULL && !w->over && w->restart_us == INT64_MAX && !w->failed)
        world_violated(w, "flowrun ended early");
    if (s->now_us >= w->restart_us) {
        world_tell(w, "flowrun %s", w->retry ? "retry" : "resume");
        w->over = false;
        start_engine(w);
    }
}

/* SQLite works on real files, below a path that differs from run to run in its digits alone. */
static void home_path(char out[128])
{
    snprintf(out, 128, "%s/flowrun-sim.%08d", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
             (int)getpid());
}

/* A database as a new one is, but for its id, which is the same in each run. */
static struct {
    char bytes[1 << 18];
    size_t n;
} ready;

static void make_ready(const char *home)
{
    struct fr_store *st = NULL;
    sqlite3 *db = NULL;
    struct fr_err err;
    char path[200];

    snprintf(path, sizeof(path), "%s/state.db", home);
    if (fr_store_open(home, &st, &err) == FR_OK && sqlite3_open(path, &db) == SQLITE_OK)
        sqlite3_exec(db, "UPDATE home SET id = x'0123456789abcdef0123456789abcdef', made_wall = 1",
                     NULL, NULL, NULL);
    fr_store_close(st);
    sqlite3_close(db); /* the last one brings the log into the file */
    FILE *f = fopen(path, "r");
    ready.n = f != NULL ? fread(ready.bytes, 1, sizeof(ready.bytes), f) : 0;
    if (ready.n == 0 || ready.n == sizeof(ready.bytes))
        abort();
    fclose(f);
}

static void make_home(struct world *w)
{
    static const char *const names[] = {"state.db", "state.db-wal", "state.db-shm"};
    char path[200];
    FILE *f;

    home_path(w->home);
    mkdir(w->home, 0700);
    sim_db_reset();
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/%s", w->home, names[i]);
        unlink(path);
    }
    snprintf(path, sizeof(path), "%s/state.db", w->home);
    if (w->settled && (f = fopen(path, "w")) != NULL) {
        fwrite(ready.bytes, 1, ready.n, f);
        fclose(f);
    }
}

void world_clean(void)
{
    static const char *const names[] = {"state.db", "state.db-wal", "state.db-shm"};
    char home[128], path[200];

    home_path(home);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/%s", home, names[i]);
        unlink(path);
    }
    rmdir(home);
}

void world_setup(void)
{
    char home[128];

    fr_log_to(-1);
    sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
    sqlite3_initialize();
    sim_db_setup();
    home_path(home);
    mkdir(home, 0700);
    make_ready(home); /* on the real machine */
    sim_sys_core(&fr_sys);
    sim_sys_fs(&fr_sys);
    sim_sys_io(&fr_sys);
    sim_sys_proc(&fr_sys);
    sqlite3_auto_extension((void (*)(void))world_db_open);
}

static void reset(struct world *w)
{
    void (*look)(struct world *) = w->look;
    void *test = w->test;
    bool quiet = w->quiet, settled = w->settled;
    size_t runs = w->runs;
    bool stays = w->stays;

    memset(w, 0, offsetof(struct world, records));
    w->look = look;
    w->test = test;
    w->quiet = quiet;
    w->settled = settled;
    w->runs = runs;
    w->stays = stays;
    w->restart_us = INT64_MAX;
    w->restart_max_us = 20000000;
    w->look_us = INT64_MAX;
}

static void never_ended(struct world *w)
{
    struct fr_buf open = {0};

    world_rows(w,
               "SELECT key, state, attempt_no, attempt_state FROM instance WHERE state NOT IN "
               "('succeeded', 'failed', 'skipped', 'cancelled')",
               &open);
    world_violated(w, "it did not end: %.400s", open.n > 0 ? open.p : "");
    fr_buf_finish(&open);
}

bool world_run(struct world *w, const char *yaml, uint64_t seed, void (*begin)(struct world *w))
{
    struct sim *s = &w->sim;
    bool idle;

    reset(w);
    w->seed = seed;
    w->yaml = yaml;
    make_home(w);
    sim_init(s, seed);
    s->test = w;
    s->on_spawn = world_on_spawn;
    s->program = world_program;
    s->on_doom = on_doom;
    s->on_unsynced = on_unsynced;
    s->on_exit = on_end;
    if (yaml != NULL)
        sim_put_file(&s->machines[0], "/sim.yaml", yaml);
    if (begin != NULL)
        begin(w);
    if (yaml != NULL)
        start_engine(w);
    for (int64_t end_us = INT64_MAX; !w->failed && s->now_us < end_us;) {
        pass_time(w);
        if (w->look != NULL)
            w->look(w);
        s->wake_us = w->restart_us < w->look_us ? w->restart_us : w->look_us;
        sim_sweep(s);
        if (!sim_turn(s, &idle) && idle)
            break;
        if (s->now_us > (w->give_up_us > 0 ? w->give_up_us : GIVE_UP_US))
            never_ended(w);
        if (!w->over || w->restart_us != INT64_MAX)
            end_us = INT64_MAX;
        else if (end_us == INT64_MAX)
            end_us = s->now_us + 200LL * 1000000; /* whatever still goes on has an end */
    }
    world_check_end(w);
    return !w->failed;
}

void world_finish(struct world *w)
{
    struct sim *s = &w->sim;

    sqlite3_close(w->db);
    w->db = NULL;
    sim_finish(s);
    fr_buf_finish(&w->story);
}

#if defined(__SANITIZE_ADDRESS__)
/* A killed process frees nothing, and what libraries allocated for it is lost with it. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
#endif

#include "tests/sim/client.h"

#include "engine/cli/serve.h"
#include "engine/store/sql.h"
#include "tests/sim/world.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- a binary of before the newest schema ---- */

static char *newest_mark; /* of the newest section in fr_store_schema: its '@' */

/* The schema's text is constant; its page is made writable, so that one process can be an older
 * program than the others. */
void client_setup(void)
{
    const char *mark = fr_store_schema, *next;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at;

    while ((next = strstr(mark + 1, "\n-- @version ")) != NULL)
        mark = next;
    at = (uintptr_t)mark / page * page;
    if (mark == fr_store_schema ||
        mprotect((void *)at, (uintptr_t)mark + 16 - at, PROT_READ | PROT_WRITE) != 0)
        abort();
    newest_mark = (char *)(uintptr_t)mark + 4;
}

static void on_lend(struct sim_proc *p, bool begins)
{
    const struct client *c = client_of(world_of(sim), p);

    *newest_mark = begins && c != NULL && c->older ? '#' : '@';
}

/* ---- the program ---- */

static char *copy_of(const char *text)
{
    size_t n = strlen(text) + 1;

    return memcpy(fr_sys.alloc(n), text, n);
}

static char *var(const char *name, const char *value)
{
    struct fr_buf b = {0};

    fr_buf_fmt(&b, "%s=%s", name, value);
    return b.p;
}

/* Its environment. env: of the task that it is; NULL. */
static void make_vars(struct world *w, const void *env)
{
    static const char *const of_task[] = {"FLOWRUN_RUN", "FLOWRUN_ATTEMPT", "FLOWRUN_HOME_ID"};
    char **vars = fr_sys.alloc(8 * sizeof(char *));
    size_t n = 0;

    vars[n++] = var("FLOWRUN_HOME", w->home);
    vars[n++] = var("PATH", "/bin");
    for (int i = 0; env != NULL && i < 3; i++)
        vars[n++] = var(of_task[i], sim_env(env, of_task[i]));
    vars[n] = NULL;
    sim_own(vars);
}

static void make_output(size_t i)
{
    struct sim_proc *p = sim->cur;
    char path[32];
    int fd;

    snprintf(path, sizeof(path), "/out/%zu", i);
    fd = fr_sys.open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0)
        abort();
    for (int k = 1; k <= 2; k++) {
        if (p->fds[k] != NULL)
            sim_file_unref(p->fds[k]);
        p->fds[k] = p->fds[fd];
        p->fds[k]->refs++;
    }
    fr_sys.close(fd);
}

static const char *env_of(void *self, const char *name)
{
    (void)self;
    return getenv(name);
}

/* What the world has to know of the tasks to come. */
static void read_plan(struct world *w, const struct fr_spec_opts *opts)
{
    struct fr_issues issues = {0};
    struct fr_arena arena = {0};
    struct fr_spec *spec = NULL;
    struct fr_plan *plan = NULL;
    struct fr_err err;

    if (fr_spec_load(opts, &spec, &issues, &err) == FR_OK &&
        fr_plan_make(spec, &arena, &plan, &err) == FR_OK)
        world_know(w, plan);
    else
        world_violated(w, "%s: %s", opts->path, err.msg);
    fr_issues_finish(&issues);
    fr_arena_finish(&arena);
    fr_spec_destroy(spec);
}

static int serve(struct world *w, size_t i)
{
    struct cli_served s = {.folders = &w->folder, .n_folders = w->folder != NULL, .standby = true};
    struct fr_err err = {0};

    make_output(i);
    make_vars(w, NULL);
    s.drive.links = (struct fr_nodes_args){.make_link = world_link, .make_link_arg = w};
    s.drive.paths.self = copy_of("/flowrun");
    s.drive.paths.flownode_dir = copy_of("/");
    memcpy(s.drive.paths.cwd, "/", 2);
    if (sim_loop_create(&s.drive.loop, &err) != FR_OK)
        return (int)cli_fail(&err);
    return (int)cli_serve_go(&s);
}

static int flowrun(struct world *w, size_t i, const void *env)
{
    struct client *c = &w->clients[i];
    struct cli_show_opts how = {.json = c->json, .verbose = !c->json};
    struct fr_submit submit = {.spec = {.path = c->file, .cwd = "/", .getenv = env_of}};
    struct cli_wish wish = {.resume = {.run = c->run, .retry = c->retry}};
    struct cli_drive d = {.links = {.make_link = world_link, .make_link_arg = w}};
    struct fr_err err = {0};
    enum cli_exit code;
    enum fr_rc rc;

    make_output(i);
    make_vars(w, env);
    d.paths.self = copy_of("/flowrun");
    d.paths.flownode_dir = copy_of("/");
    memcpy(d.paths.cwd, "/", 2);
    rc = sim_loop_create(&d.loop, &err);
    if (rc == FR_OK && c->file[0] != '\0') {
        wish.submit = &submit;
        read_plan(w, &submit.spec);
        rc = fr_id_new(&submit.id, &err);
        fr_id_text(submit.id, c->run);
    }
    if (rc == FR_OK)
        rc = cli_drive_init(&d, &how, &err);
    code = rc == FR_OK ? cli_go(&d, &wish) : cli_fail(&err);
    cli_drive_finish(&d);
    return (int)code;
}

struct start {
    struct world *w;
    size_t i;
};

static int body(void *arg)
{
    const struct start *s = arg;

    return s->w->clients[s->i].serve ? serve(s->w, s->i) : flowrun(s->w, s->i, NULL);
}

/* Of a run, as the store has it now; outcome: "" while it goes on. */
static long newest_event(struct world *w, const char *run, char outcome[16])
{
    struct fr_buf sql = {0}, rows = {0};
    long seq = 0;

    fr_buf_fmt(&sql,
               "SELECT (SELECT coalesce(max(seq), 0) FROM event WHERE run = id), CASE state WHEN "
               "'over' THEN outcome ELSE '' END FROM run WHERE id = x'%s'",
               run);
    world_rows(w, sql.p, &rows);
    outcome[0] = '\0';
    if (rows.n > 0)
        sscanf(rows.p, "%ld|%15[a-z]", &seq, outcome);
    fr_buf_finish(&rows);
    fr_buf_finish(&sql);
    return seq;
}

static size_t add(struct world *w, const struct client *how)
{
    size_t i = w->n_clients++;

    if (i >= WORLD_CLIENTS)
        abort();
    w->clients[i] = *how;
    w->clients[i].code = -1;
    w->clients[i].began_us = w->sim.now_us;
    if (how->run[0] != '\0')
        w->clients[i].since = newest_event(w, how->run, w->clients[i].outcome);
    sim->on_lend = on_lend;
    if (i == 0)
        sim_put_file(&w->sim.machines[0], "/out", NULL);
    return i;
}

static void tell(struct world *w, const struct client *c)
{
    world_tell(w, "client %d: %s%s %s%s%s", (int)c->proc->pid,
               c->serve             ? "flowrun serve --standby"
               : c->file[0] != '\0' ? "flowrun"
               : c->retry           ? "flowrun retry"
                                    : "flowrun resume",
               c->json ? " --json" : "", c->file[0] != '\0' ? c->file : c->run,
               c->nested ? ", a task" : "", c->older ? ", an older binary" : "");
}

size_t client_start(struct world *w, const struct client *how)
{
    struct start s = {w, add(w, how)};
    struct client *c = &w->clients[s.i];
    char path[32];

    snprintf(path, sizeof(path), "/out/%zu", s.i);
    if (how->serve) /* its log is there also while the disk is full */
        sim_put_file(&w->sim.machines[0], path, "");
    c->proc = sim_start(&w->sim.machines[0], body, &s, sizeof(s));
    sim_name(c->proc->comm, "flowrun");
    tell(w, c);
    return s.i;
}

int client_nested(struct world *w, const struct client *how, const void *env)
{
    size_t i = add(w, how);

    w->clients[i].nested = true;
    w->clients[i].proc = sim->cur;
    sim_name(sim->cur->comm, "flowrun");
    tell(w, &w->clients[i]);
    return flowrun(w, i, env);
}

/* ---- from outside ---- */

static struct sim_inode *printed_file(const struct world *w, size_t i)
{
    char path[32];

    snprintf(path, sizeof(path), "/out/%zu", i);
    return sim_lookup(&w->sim.machines[0], path);
}

struct fr_str client_printed(const struct world *w, size_t i)
{
    struct sim_inode *inode = printed_file(w, i);

    return inode != NULL && inode->n > 0 ? (struct fr_str){inode->data, inode->n}
                                         : (struct fr_str){"", 0};
}

void client_keep_printed(struct world *w)
{
    for (size_t i = 0; i < w->n_clients; i++) {
        struct sim_inode *inode = printed_file(w, i);

        if (inode != NULL)
            inode->synced = inode->n;
    }
}

struct client *client_of(struct world *w, const struct sim_proc *p)
{
    for (size_t i = w->n_clients; p != NULL && i-- > 0;)
        if (w->clients[i].proc == p)
            return &w->clients[i];
    return NULL;
}

struct sim_proc *client_host(struct world *w)
{
    char path[160];
    const struct sim_inode *lock;

    snprintf(path, sizeof(path), "%s/host.lock", w->home);
    lock = sim_lookup(&w->sim.machines[0], path);
    for (struct sim_proc *p = w->sim.machines[0].procs;
         lock != NULL && lock->locker != NULL && p != NULL; p = p->next)
        for (int fd = 0; fd < SIM_FDS; fd++)
            if (p->fds[fd] == lock->locker)
                return p;
    return NULL;
}

void client_int(struct world *w, struct client *c, bool leave)
{
    world_tell(w, "user: Ctrl-C%s, flowrun %d", leave ? " twice" : "", (int)c->proc->pid);
    c->left = c->left || leave || c->cancelled; /* a second one */
    c->cancelled = c->cancelled || !leave;
    sim_signal(c->proc, SIGINT);
}

void client_term(struct world *w, struct client *c)
{
    world_tell(w, "user: SIGTERM, flowrun %d", (int)c->proc->pid);
    c->left = true;
    sim_signal(c->proc, SIGTERM);
}

bool client_stop(struct world *w, struct client *c, int64_t us)
{
    if (world_writes(c->proc))
        return false;
    world_tell(w, "fault: flowrun %d is stopped for %.3f s", (int)c->proc->pid, (double)us / 1e6);
    if (w->n_pauses == WORLD_PAUSES)
        abort();
    w->pauses[w->n_pauses++] =
        (struct client_pause){c, client_host(w) == c->proc, w->sim.now_us, w->sim.now_us + us};
    c->proc->held_us = w->sim.now_us + us;
    return true;
}

bool client_rob(struct world *w, struct client *host, int64_t us)
{
    char path[160];

    if (!client_stop(w, host, us))
        return false;
    snprintf(path, sizeof(path), "%s/host.lock", w->home);
    sim_remove_file(&w->sim.machines[0], path);
    host->robbed = true;
    return true;
}

void client_ended(struct world *w, const struct sim_proc *p)
{
    struct client *c = client_of(w, p);

    if (c == NULL)
        return;
    c->code = p->end.signaled ? -1 : p->end.code;
    c->ended_us = w->sim.now_us;
    c->terminated = p->came >> SIGTERM & 1;
    if (c->run[0] != '\0')
        c->seq = newest_event(w, c->run, c->outcome);
    world_tell(w, "flowrun %d %s (%d)", (int)p->pid, c->code < 0 ? "was killed" : "ended", c->code);
    c->proc = NULL;
}

bool client_any(const struct world *w)
{
    for (size_t i = 0; i < w->n_clients; i++)
        if (w->clients[i].proc != NULL)
            return true;
    return false;
}

static bool is_followed(const struct world *w, const char *run)
{
    for (size_t i = 0; i < w->n_clients; i++)
        if (w->clients[i].proc != NULL && strcmp(w->clients[i].run, run) == 0)
            return true;
    return false;
}

bool client_resume_left(struct world *w)
{
    struct fr_buf rows = {0};
    bool any;

    world_rows(w, "SELECT lower(hex(id)) FROM run WHERE state <> 'over' ORDER BY no", &rows);
    any = rows.n > 0;
    for (const char *p = any ? rows.p : ""; *p != '\0'; p += strcspn(p, "\n") + 1) {
        struct client how = {.json = true};

        snprintf(how.run, sizeof(how.run), "%.32s", p);
        if (!is_followed(w, how.run))
            client_start(w, &how);
    }
    fr_buf_finish(&rows);
    return any;
}

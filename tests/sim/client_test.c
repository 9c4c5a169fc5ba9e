/*
 * flowruns of users on simulated machines (client.h): each row starts some, does one thing to them,
 * and says how each ends. The rules of world.h hold, and what they print is the whole story
 * (told.h).
 */
#include "tests/sim/client_files.h"
#include "tests/sim/told.h"
#include "tests/unit/check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 4, ANY = -2, RESUMED_MAX = 40 };

struct story;
struct row {
    const char *name;
    struct client clients[CLIENTS];
    void (*act)(struct world *w, struct story *s); /* once `records` attempts have begun */
    size_t records;
    int codes[CLIENTS];                             /* -1: killed; ANY: which one is hit is drawn */
    const char *says;                               /* by one of them */
    void (*then)(struct world *w, struct story *s); /* … and so much later */
    int64_t then_us;
    const char *beside[2]; /* the second of these tasks starts while the first one runs, a minute */
    bool one;              /* the home has one run at once */
    const char *file;      /* a part of its path: of the home, when act waits for it */
};

struct story {
    const struct row *row;
    bool acted, begun, done;
    int64_t acted_us;
    struct sim_proc *hit;
    int behind;  /* the host is killed behind so many more commits; 0: not so */
    bool half;   /* a commit is under way */
    size_t more; /* clients that are resumed when all have ended */
    int phase;   /* of what happens in several steps */
};

/* ---- what happens ---- */

static struct client *host(struct world *w)
{
    return client_of(w, client_host(w));
}

static struct client *follower(struct world *w)
{
    for (size_t i = 0; i < w->n_clients; i++)
        if (w->clients[i].proc != NULL && &w->clients[i] != host(w))
            return &w->clients[i];
    return NULL;
}

static void kill_host(struct world *w, struct story *s)
{
    (void)s;
    world_kill(w, host(w)->proc, "");
}

static void kill_follower(struct world *w, struct story *s)
{
    (void)s;
    world_kill(w, follower(w)->proc, "");
}

static void host_terminated(struct world *w, struct story *s)
{
    (void)s;
    client_term(w, host(w));
}

static void int_host(struct world *w, struct story *s)
{
    (void)s;
    client_int(w, host(w), false);
}

static void int_follower(struct world *w, struct story *s)
{
    (void)s;
    client_int(w, follower(w), false);
}

static size_t size_of(const struct world *w, int machine, const char *path)
{
    const struct sim_inode *inode = sim_lookup(&w->sim.machines[machine], path);

    return inode != NULL ? inode->n : 0;
}

/* n1 is away when its task ends: what it says of that later comes before the rest of the output. */
static void cut_n1(struct world *w, struct story *s)
{
    struct sim_machine *n1 = &w->sim.machines[1];

    (void)s;
    n1->cut = true;
    n1->heal_us = w->sim.now_us + 20000000;
    n1->us_a_kb = 8192;
    n1->rate_us = INT64_MAX;
}

/* A run is over of which output is on its node alone. */
static bool is_unfetched(struct world *w)
{
    struct fr_buf rows = {0};
    char run[40], attempt[40], node[16], log[64], path[300];
    bool any = false;

    world_rows(w,
               "SELECT lower(hex(r.id)), lower(hex(a.id)), node, log FROM run r JOIN attempt a ON "
               "a.run = r.id WHERE r.state = 'over' AND done = 0",
               &rows);
    for (const char *p = rows.n > 0 ? rows.p : ""; *p != '\0'; p += strcspn(p, "\n") + 1) {
        size_t there;

        if (sscanf(p, "%39[^|]|%39[^|]|%15[^|]|%63[^\n]", run, attempt, node, log) != 4)
            continue;
        snprintf(path, sizeof(path), "/node/log/%s", attempt);
        there = size_of(w, world_machine(node), path);
        snprintf(path, sizeof(path), "%s/runs/%s/%s", w->home, run, log);
        any = any || size_of(w, 0, path) < there;
    }
    fr_buf_finish(&rows);
    return any;
}

static void kill_before_output(struct world *w, struct story *s)
{
    s->done = is_unfetched(w);
    if (s->done)
        kill_host(w, s);
}

/* Somebody thinks that the lock is a dead one's. */
static void take_lock_away(struct world *w, struct story *s)
{
    s->acted = client_rob(w, host(w), 60000000);
}

static void remove_of_home(struct world *w, const char *name)
{
    char path[160];

    snprintf(path, sizeof(path), "%s/%s", w->home, name);
    sim_remove_file(&w->sim.machines[0], path);
}

static void remove_socket(struct world *w, struct story *s)
{
    (void)s;
    remove_of_home(w, "host.sock");
}

static void remove_lock(struct world *w, struct story *s)
{
    (void)s;
    remove_of_home(w, "host.lock");
}

static void second_follower(struct world *w, struct story *s)
{
    struct client how = {.json = true};

    (void)s;
    memcpy(how.run, w->clients[0].run, sizeof(how.run));
    client_start(w, &how);
}

/* The same, while the host makes a run that another one hands over, once it has that file. */
static void take_lock_at_file(struct world *w, struct story *s)
{
    s->acted = false;
    if (w->n_clients == 1) {
        client_start(w, &(struct client){.file = "/q.yaml", .json = true});
        w->sim.fault_step = 0; /* each step is looked at */
    }
    if (w->n_clients == 1 || !sim_has_name(&w->sim.machines[0], s->row->file))
        return;
    s->acted = client_rob(w, host(w), 20000000); /* its client still waits for an answer then */
    if (!s->acted)
        return;
    w->sim.fault_step = UINT64_MAX;
    second_follower(w, s);
}

static void cut_power(struct world *w, struct story *s)
{
    (void)s;
    world_lose_power(w);
}

/* Longer than it takes to find out. */
static void cut_node(struct world *w, struct story *s)
{
    struct sim_machine *n2 = &w->sim.machines[2];

    (void)s;
    n2->cut = true;
    n2->heal_us = w->sim.now_us + 30000000;
}

static void another_comes(struct world *w, struct story *s)
{
    (void)s;
    client_start(w, &(struct client){.file = "/p.yaml", .json = true});
}

/* Before it asks the host. */
static void int_newest(struct world *w, struct story *s)
{
    struct client *v = &w->clients[w->n_clients - 1];

    s->done = v->proc->handled >> SIGINT & 1;
    if (s->done)
        client_int(w, v, false);
}

static void small_comes(struct world *w, struct story *s)
{
    (void)s;
    client_start(w, &(struct client){.file = "/q.yaml", .json = true});
}

/* Somebody resumes the queued run that the second one has left, and the host cannot be asked. */
static void int_unasked(struct world *w, struct story *s)
{
    struct client how = {.json = true};

    s->done = s->phase++ > 0;
    s->acted_us = w->sim.now_us;
    if (s->done) {
        client_int(w, &w->clients[w->n_clients - 1], false);
        return;
    }
    client_term(w, &w->clients[1]);
    remove_socket(w, s);
    memcpy(how.run, w->clients[1].run, sizeof(how.run));
    client_start(w, &how);
}

static void older_comes(struct world *w, struct story *s)
{
    (void)s;
    client_start(w, &(struct client){.file = "/p.yaml", .older = true});
}

static void kill_and_come(struct world *w, struct story *s)
{
    kill_before_output(w, s);
    if (s->done)
        another_comes(w, s);
}

static void another_holds(struct world *w, struct story *s)
{
    (void)s;
    client_start(w, &(struct client){.file = "/hold.yaml", .json = true});
}

/* Behind one of its next commits, before it says what it did. */
static void on_point(struct sim *sim_, enum sim_point what)
{
    struct world *w = world_of(sim_);
    struct story *s = w->test;

    if (what != SIM_AT_COMMIT || s->behind == 0)
        return;
    s->half = !s->half;
    if (!s->half && --s->behind == 0)
        world_kill(w, sim_->cur, "");
}

static void kill_behind_commit(struct world *w, struct story *s)
{
    s->behind = 1 + (int)(w->seed % 5);
    s->half = false;
    w->sim.on_point = on_point;
}

static void submit_lost(struct world *w, struct story *s)
{
    another_comes(w, s);
    kill_behind_commit(w, s);
}

/* The run of the second one, whose user has cancelled it. */
static void retry_lost(struct world *w, struct story *s)
{
    struct client how = {.json = true, .retry = true};

    memcpy(how.run, w->clients[1].run, sizeof(how.run));
    s->done = w->clients[1].proc == NULL;
    if (!s->done)
        return;
    client_start(w, &how);
    kill_behind_commit(w, s);
}

static void every_step(struct world *w, struct story *s)
{
    (void)s;
    w->sim.fault_step = 0;
}

/* The supervisor that has just been made stands still before it does anything. What the dead one
 * has started goes on while the task of the newcomer runs. */
static void halt_start(struct world *w, struct story *s)
{
    struct sim_proc *newest = w->sim.machines[1].procs;

    s->done = newest != NULL && !newest->begun && size_of(w, 1, "/node/journal") > 0;
    if (!s->done)
        return;
    newest->held_us = w->sim.now_us + 3000000;
    w->sim.fault_step = UINT64_MAX;
    kill_host(w, s);
    another_holds(w, s);
}

/* That its tasks are ready is longer than one write. */
static void kill_in_line(struct world *w, struct story *s)
{
    struct fr_str all = client_printed(w, 0);

    s->done = all.n > 0 && all.p[all.n - 1] != '\n';
    if (!s->done)
        return;
    w->sim.fault_step = UINT64_MAX;
    kill_host(w, s);
}

static bool is_pending(const struct sim_machine *m, const char *folder)
{
    for (size_t i = 0; i < m->n_renames; i++)
        if (strstr(m->renames[i].to->path, folder) != NULL)
            return true;
    return false;
}

/* The host is killed before the name of a blob is safe. The power fails once another one has a run
 * with that blob. */
static void lose_blob(struct world *w, struct story *s)
{
    struct fr_buf rows = {0};

    s->done = false;
    if (s->phase == 0 && is_pending(&w->sim.machines[0], "/blobs/")) {
        s->phase = 1;
        kill_host(w, s);
        another_comes(w, s);
    } else if (s->phase == 1) {
        world_rows(w, "SELECT id FROM run", &rows);
        s->done = rows.n > 0;
    }
    if (s->done) {
        w->sim.fault_step = UINT64_MAX;
        world_lose_power(w);
    }
    fr_buf_finish(&rows);
}

static void rob_for_another(struct world *w, struct story *s)
{
    s->acted = client_rob(w, host(w), 4000000);
    if (!s->acted)
        return;
    another_holds(w, s);
    w->sim.fault_step = 0;
}

/* It is the host then, and its run is not there yet. The one before it goes on meanwhile. */
static void stop_next(struct world *w, struct story *s)
{
    s->done =
        sim_has_name(&w->sim.machines[0], "/begun/") && client_stop(w, &w->clients[1], 10000000);
    if (s->done)
        w->sim.fault_step = UINT64_MAX;
}

static void int_second(struct world *w, struct story *s)
{
    (void)s;
    client_int(w, &w->clients[1], false);
}

static const struct row rows[] = {
    {"one", {{.file = "/p.yaml"}}, .codes = {0}},
    {"three",
     {{.file = "/p.yaml"}, {.file = "/p.yaml", .json = true}, {.file = "/p.yaml"}},
     .codes = {0, 0, 0}},
    {"the host is killed",
     {{.file = "/p.yaml"}, {.file = "/p.yaml", .json = true}, {.file = "/p.yaml"}},
     .act = kill_host,
     .records = 3,
     .codes = {ANY, ANY, ANY}},
    {"a follower is killed",
     {{.file = "/p.yaml"}, {.file = "/p.yaml", .json = true}},
     .act = kill_follower,
     .records = 3,
     .codes = {ANY, ANY}},
    {"the host gets SIGTERM",
     {{.file = "/p.yaml"}, {.file = "/p.yaml", .json = true}},
     .act = host_terminated,
     .records = 3,
     .codes = {ANY, ANY},
     .says = "tasks go on"},
    {"Ctrl-C at the host",
     {{.file = "/p.yaml"}, {.file = "/p.yaml", .json = true}},
     .act = int_host,
     .records = 3,
     .codes = {ANY, ANY},
     .says = "stopping all tasks"},
    {"Ctrl-C, and once more before it has an effect",
     {{.file = "/p.yaml"}, {.file = "/p.yaml", .json = true}},
     .act = int_host,
     .records = 3,
     .codes = {ANY, ANY},
     .says = "left (Ctrl-C twice): tasks go on",
     .then = int_host,
     .then_us = 500000},
    {"Ctrl-C at a follower",
     {{.file = "/p.yaml"}, {.file = "/p.yaml", .json = true}},
     .act = int_follower,
     .records = 3,
     .codes = {ANY, ANY},
     .says = "stopping all tasks"},
    {"another takes over from a host that is stopped",
     {{.file = "/p.yaml"}, {.file = "/p.yaml", .json = true}},
     .act = take_lock_away,
     .records = 3,
     .codes = {ANY, ANY},
     .says = "another flowrun became the host"},
    {"another takes over from a host that is stopped, and is stopped itself",
     {{.file = "/chain.yaml"}},
     .act = rob_for_another,
     .records = 1,
     .codes = {7, 0, 0},
     .says = "another flowrun became the host",
     .then = stop_next},
    {"another takes over from a host that has a run to begin",
     {{.file = "/p.yaml"}},
     .act = take_lock_at_file,
     .file = "/begun/",
     .records = 2,
     .codes = {ANY, ANY, ANY},
     .says = "another flowrun became the host"},
    {"another takes over from a host that writes a file of a run to begin",
     {{.file = "/p.yaml"}},
     .act = take_lock_at_file,
     .file = ".tmp-",
     .records = 2,
     .codes = {ANY, ANY, ANY},
     .says = "another flowrun became the host"},
    {"the power fails",
     {{.file = "/p.yaml"}, {.file = "/p.yaml", .json = true}},
     .act = cut_power,
     .records = 3,
     .codes = {-1, -1}},
    {"the host is killed while a node is cut off",
     {{.file = "/p.yaml"}, {.file = "/p.yaml", .json = true}, {.file = "/p.yaml"}},
     .act = cut_node,
     .records = 3,
     .codes = {ANY, ANY, ANY},
     .says = "its node is unreachable",
     .then = kill_host,
     .then_us = 12000000},
    {"Ctrl-C while a run is handed over",
     {{.file = "/p.yaml"}},
     .act = another_comes,
     .records = 2,
     .codes = {0, 3},
     .says = "stopping all tasks",
     .then = int_newest},
    {"the host is killed between the end of its follower's run and the last output",
     {{.file = "/wait.yaml"}, {.file = "/loud.yaml", .json = true}},
     .act = cut_n1,
     .records = 2,
     .codes = {ANY, ANY},
     .then = kill_before_output},
    {"the host is killed between the end of its own run and the last output, and another comes",
     {{.file = "/loud.yaml"}},
     .act = cut_n1,
     .records = 1,
     .codes = {-1, 0},
     .then = kill_and_come},
    {"who comes waits for the slot that a task of a run holds that was left",
     {{.file = "/hold.yaml"}},
     .act = host_terminated,
     .records = 1,
     .codes = {4, 0},
     .then = another_holds,
     .then_us = 1000000},
    {"the host is killed, and a flownode that stands still has its start",
     {{.file = "/hold.yaml"}},
     .act = every_step,
     .codes = {-1, 0},
     .then = halt_start},
    {"the host is killed before the name of a blob is safe, and the power fails later",
     {{.file = "/p.yaml"}},
     .act = every_step,
     .codes = {-1, -1, 0},
     .then = lose_blob},
    {"the host is killed in the middle of a line",
     {{.file = "/many.yaml", .json = true}},
     .act = every_step,
     .codes = {-1, 0},
     .then = kill_in_line},
    {"the host's socket is removed",
     {{.file = "/wait.yaml"}},
     .act = remove_socket,
     .records = 1,
     .codes = {0, 0},
     .then = another_comes},
    {"the host's lock is removed",
     {{.file = "/late.yaml"}},
     .act = remove_lock,
     .records = 1,
     .codes = {0, 0}},
    {"Ctrl-C at a queued run that no host was asked for",
     {{.file = "/wait.yaml"}},
     .act = another_comes,
     .records = 1,
     .codes = {0, 4, 4, 0},
     .says = "left (Ctrl-C): run 2 stays queued",
     .then = int_unasked,
     .then_us = 500000,
     .one = true},
    {"the host is killed as it takes a run",
     {{.file = "/wait.yaml"}},
     .act = submit_lost,
     .records = 1,
     .codes = {ANY, ANY}},
    {"the host is killed as it takes a retry",
     {{.file = "/wait.yaml"}, {.file = "/p.yaml"}},
     .act = int_second,
     .records = 3,
     .codes = {ANY, ANY, ANY},
     .then = retry_lost},
    {"an older flowrun",
     {{.file = "/p.yaml"}},
     .act = older_comes,
     .records = 2,
     .codes = {0, 7},
     .says = "is a newer flowrun (schema"},
    {"an older flowrun without a host",
     {{.file = "/p.yaml", .older = true}},
     .codes = {7},
     .says = "use a newer one"},
    {"two follow one run",
     {{.file = "/p.yaml"}, {.file = "/p.yaml", .json = true}},
     .act = second_follower,
     .records = 3,
     .codes = {0, 0, 0}},
    {"a flowrun in a task", {{.file = "/outer.yaml"}}, .codes = {0, 0}},
    {"a slot that gets free is lent to another run",
     {{.file = "/two.yaml"}},
     .act = small_comes,
     .records = 2,
     .codes = {0, 0},
     .beside = {"x", "q"}},
    {"a gang that waits for less long takes the place of one that collects",
     {{.file = "/gangs.yaml"}},
     .act = small_comes,
     .records = 2,
     .codes = {0, 0},
     .then = cut_node,
     .then_us = 5000000,
     .beside = {"x", "q"}},
};

/* ---- a row ---- */

static void look(struct world *w)
{
    struct story *s = w->test;
    const struct row *row = s->row;

    if (!s->begun)
        for (size_t i = 0; i < CLIENTS && row->clients[i].file[0] != '\0'; i++)
            client_start(w, &row->clients[i]);
    s->begun = true;
    w->look_us = w->sim.now_us + 10000;
    if (!s->acted && row->act != NULL && w->n_records >= row->records && host(w) != NULL) {
        s->acted = true;
        s->acted_us = w->sim.now_us;
        row->act(w, s);
    }
    if (s->acted && !s->done && row->then != NULL && w->sim.now_us >= s->acted_us + row->then_us) {
        s->done = true;
        row->then(w, s);
    }
    if (!client_any(w) && (s->done || !s->acted || row->then == NULL) && !client_resume_left(w)) {
        w->over = true;
        w->look_us = INT64_MAX;
    }
    if (w->n_clients > RESUMED_MAX)
        world_violated(w, "runs are left after they were resumed %d times", RESUMED_MAX);
}

static void begin(struct world *w)
{
    const struct story *s = w->test;

    client_files_put(w, s->row->one);
}

static bool said(const struct world *w, const char *what)
{
    for (size_t i = 0; i < w->n_clients; i++) {
        struct fr_str all = client_printed(w, i);

        if (memmem(all.p, all.n, what, strlen(what)) != NULL)
            return true;
    }
    return false;
}

/* When the command of a task was started; 0: never. */
static int64_t start_of(const struct world *w, const char *task)
{
    for (size_t i = 0; i < w->n_records; i++)
        if (strcmp(w->records[i].task, task) == 0)
            return w->records[i].spawned_us;
    return 0;
}

static bool started_beside(const struct world *w, const char *const tasks[2])
{
    int64_t first = start_of(w, tasks[0]), second = start_of(w, tasks[1]);

    return first > 0 && second > first && second < first + 60000000;
}

static void show(const struct world *w)
{
    printf("%s%s\n", w->story.p != NULL ? w->story.p : "", w->why);
    for (size_t i = 0; i < w->n_clients; i++) {
        struct fr_str all = client_printed(w, i);
        printf("client %zu, %d:\n%.*s", i, w->clients[i].code, (int)all.n, all.p);
    }
}

static void run_row(struct world *w, const struct row *row, uint64_t seed)
{
    struct story s = {.row = row};
    bool ok;

    w->test = &s;
    w->look = look;
    world_run(w, NULL, seed, begin);
    told_check(w, 0);
    ok =
        CHECK(!w->failed) & CHECK(row->act == NULL || s.acted) & CHECK(row->then == NULL || s.done);
    ok &= CHECK(!is_unfetched(w));
    for (size_t i = 0; i < CLIENTS && i < w->n_clients; i++)
        if (row->codes[i] != ANY)
            ok &= CHECK_INT(w->clients[i].code, row->codes[i]);
    if (row->says != NULL)
        ok &= CHECK(said(w, row->says));
    if (row->beside[0] != NULL)
        ok &= CHECK(started_beside(w, row->beside));
    if (!ok)
        show(w);
    world_finish(w);
}

/* client_test [SEED [ROW]] */
int main(int argc, char **argv)
{
    struct world *w = calloc(1, sizeof(*w));
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    char name[96];

    world_setup();
    client_setup();
    w->settled = w->quiet = true;
    for (size_t i = argc > 2 ? strtoull(argv[2], NULL, 10) : 0; i < sizeof(rows) / sizeof(rows[0]);
         i++)
        for (uint64_t k = 0; k < 5; k++) {
            snprintf(name, sizeof(name), "%s, seed %d", rows[i].name, (int)(seed + k));
            check_row(name);
            run_row(w, &rows[i], seed + k);
        }
    world_clean();
    free(w);
    return check_done();
}

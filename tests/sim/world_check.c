/* The rules: when a command starts, and in the end. */
#include "tests/sim/slurm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct record *world_record(struct world *w, const char *attempt)
{
    for (size_t i = 0; i < w->n_records; i++)
        if (strcmp(w->records[i].attempt, attempt) == 0)
            return &w->records[i];
    return NULL;
}

int world_succeeded(const struct world *w, const char *task, const char *node)
{
    int n = 0;

    for (size_t i = 0; i < w->n_records; i++)
        n += w->records[i].exited && strcmp(w->records[i].task, task) == 0 &&
             (node == NULL || strcmp(w->records[i].node, node) == 0);
    return n;
}

/* Whether an attempt of the task on the machine succeeded in the run of r. */
static bool has_succeeded(const struct world *w, const struct record *r, const char *task,
                          int machine)
{
    for (size_t i = 0; i < w->n_records; i++) {
        const struct record *o = &w->records[i];

        if (o->exited && strcmp(o->run, r->run) == 0 && strcmp(o->task, task) == 0 &&
            world_machine(o->node) == machine)
            return true;
    }
    return false;
}

sqlite3 *world_db(struct world *w)
{
    char path[160];

    snprintf(path, sizeof(path), "%s/state.db", w->home);
    if (w->db == NULL && sqlite3_open_v2(path, &w->db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK) {
        sqlite3_close(w->db);
        w->db = NULL;
    }
    return w->db;
}

void world_rows(struct world *w, const char *sql, struct fr_buf *out)
{
    struct sim_proc *cur = w->sim.cur;
    sqlite3_stmt *st = NULL;

    w->sim.cur = NULL;
    if (world_db(w) == NULL || sqlite3_prepare_v2(w->db, sql, -1, &st, NULL) != SQLITE_OK)
        fr_buf_text(out, "cannot be read\n");
    while (st != NULL && sqlite3_step(st) == SQLITE_ROW)
        for (int i = 0, n = sqlite3_column_count(st); i < n; i++) {
            const void *text = sqlite3_column_text(st, i);
            fr_buf_fmt(out, "%s%s", text != NULL ? (const char *)text : "", i + 1 < n ? "|" : "\n");
        }
    sqlite3_finalize(st);
    w->sim.cur = cur;
}

long world_number(struct world *w, const char *sql)
{
    struct fr_buf b = {0};
    long n;

    world_rows(w, sql, &b);
    n = b.p != NULL ? strtol(b.p, NULL, 10) : 0;
    fr_buf_finish(&b);
    return n;
}

struct sim_proc *world_pick(struct world *w, struct sim_machine *m, const char *comm,
                            uint64_t choice)
{
    uint64_t n = 0;

    for (int pass = 0; pass < 2; pass++) {
        uint64_t i = 0;
        for (struct sim_proc *p = m->procs; p != NULL; p = p->next)
            if (strcmp(p->comm, comm) == 0 && p->state != SIM_ZOMBIE) {
                if (pass == 1 && i == choice % n)
                    return p;
                i++;
            }
        if ((n = i) == 0)
            return NULL;
    }
    (void)w;
    return NULL;
}

/* ---- when a command starts ---- */

static const char *env_of(const struct fr_spawn *sp, const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; sp->envp[i] != NULL; i++)
        if (strncmp(sp->envp[i], name, n) == 0 && sp->envp[i][n] == '=')
            return sp->envp[i] + n + 1;
    return "";
}

const struct world_task *world_task(const struct world *w, const char *name)
{
    for (size_t i = 0; i < w->n_tasks; i++)
        if (strcmp(w->tasks[i].name, name) == 0)
            return &w->tasks[i];
    return NULL;
}

static void check_alone(struct world *w, const struct record *r)
{
    const struct world_task *task = world_task(w, r->task);

    for (int i = 0; i < SIM_MACHINES; i++)
        for (struct sim_proc *p = w->sim.machines[i].procs; p != NULL; p = p->next) {
            const struct record *o = p->marker[0] != '\0' ? world_record(w, p->marker) : NULL;
            if (o == NULL || o == r || p->state == SIM_ZOMBIE || strcmp(o->run, r->run) != 0 ||
                strcmp(o->task, r->task) != 0 || strcmp(o->item, r->item) != 0)
                continue;
            if (strcmp(o->node, r->node) == 0)
                world_violated(w, "attempt %s of %s on %s starts while %s lives", r->attempt,
                               r->task, r->node, o->attempt);
            if (task != NULL && task->gang && strcmp(o->generation, r->generation) != 0)
                world_violated(w, "generation %s of %s starts on %s while %s lives on %s",
                               r->generation, r->task, r->node, o->generation, o->node);
        }
}

/* A member that waits for its peers must not meet members of an older generation. */
static void check_generation(struct world *w, const struct record *r)
{
    for (const struct record *o = w->records; o < r; o++)
        if (strcmp(o->run, r->run) == 0 && strcmp(o->task, r->task) == 0 &&
            strcmp(o->item, r->item) == 0 && strcmp(o->node, r->node) == 0 &&
            strcmp(o->generation, r->generation) == 0)
            world_violated(w, "generation %s of %s on %s twice", r->generation, r->task, r->node);
}

/* Instances of a task in states of the mask, as the store has them. */
static uint32_t count_in(struct world *w, const struct record *r, const char *task, unsigned states)
{
    struct fr_buf sql = {0}, rows = {0};
    uint32_t n = 0;

    fr_buf_fmt(&sql, "SELECT state FROM instance WHERE run = x'%s' AND task = '%s'", r->run, task);
    world_rows(w, sql.p, &rows);
    for (char *save = NULL, *line = strtok_r(rows.p, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        enum fr_state_of state = FR_ST_WAITING;

        n += fr_state_parse(line, &state) && (states & 1u << state) != 0;
    }
    fr_buf_finish(&sql);
    fr_buf_finish(&rows);
    return n;
}

/* How many it has by now. */
static uint32_t count_of(struct world *w, const struct record *r, const struct world_task *task)
{
    return task->awaited ? count_in(w, r, task->name, ~0u) : task->count;
}

/* What its task needs has ended, in the store, as run_if: and states: want it. */
static void check_run_if(struct world *w, const struct record *r)
{
    static const unsigned over = ~((1u << FR_ST_SUCCEEDED) - 1), good = 1u << FR_ST_SUCCEEDED,
                          skipped = 1u << FR_ST_SKIPPED;
    const struct world_task *task = world_task(w, r->task);
    uint32_t n_good = 0, n_bad = 0;
    bool plain = task == NULL || task->run_if == FR_RUN_IF_SUCCESS;

    for (size_t i = 0; task != NULL && i < task->n_needs; i++)
        plain = plain && task->states[i] == 0 && !w->tasks[task->needs[i]].best_effort;
    if (plain)
        return;
    for (size_t i = 0; i < task->n_needs; i++) {
        const struct world_task *need = &w->tasks[task->needs[i]];

        if (count_in(w, r, need->name, over) != count_of(w, r, need))
            world_violated(w, "%s starts, and %s has not ended", r->task, need->name);
        if (task->states[i] != 0 &&
            count_in(w, r, need->name, task->states[i]) != count_of(w, r, need))
            world_violated(w, "%s starts, and %s ended in another state", r->task, need->name);
        n_good += task->states[i] == 0 ? count_in(w, r, need->name, good) : 0;
        n_bad += task->states[i] == 0 ? count_in(w, r, need->name, over & ~good & ~skipped) : 0;
    }
    if (task->run_if == FR_RUN_IF_FAILURE && n_bad == 0)
        world_violated(w, "%s starts, and nothing that it needs failed", r->task);
    if (task->run_if == FR_RUN_IF_ANY && n_good == 0)
        world_violated(w, "%s starts, and nothing that it needs succeeded", r->task);
}

static void check_needs(struct world *w, const struct record *r)
{
    const struct world_task *task = world_task(w, r->task);

    const unsigned good = 1u << FR_ST_SUCCEEDED | 1u << FR_ST_SKIPPED;

    check_run_if(w, r);
    for (size_t i = 0; task != NULL && i < task->n_needs; i++) {
        const struct world_task *need = &w->tasks[task->needs[i]];
        uint32_t n = 0;
        if (task->run_if != FR_RUN_IF_SUCCESS || task->states[i] != 0 || need->best_effort)
            continue;
        for (int m = 0; m < SIM_MACHINES; m++)
            n += has_succeeded(w, r, need->name, m);
        if (need->awaited && count_in(w, r, need->name, good) != count_of(w, r, need))
            world_violated(w, "%s starts, and not all of %s succeeded", r->task, need->name);
        if (n < need->count)
            world_violated(w, "%s starts, and %u of %u of %s succeeded", r->task, n, need->count,
                           need->name);
    }
}

/* A run of a task on control: there it uses its parent's slots. */
static bool is_nested(const struct world *w, const char *run)
{
    for (size_t i = 0; i < w->n_clients; i++)
        if (w->clients[i].nested && strcmp(w->clients[i].run, run) == 0)
            return true;
    return false;
}

/* Its machine has the slots for it, whichever runs use them. */
static void check_slots(struct world *w, const struct record *r)
{
    int m = world_machine(r->node);
    const struct sim_machine *machine = &w->sim.machines[m];
    uint32_t used = 0;

    for (size_t i = 0; i < w->n_records; i++) {
        const struct record *o = &w->records[i];
        const struct world_task *task = world_task(w, o->task);
        bool lives = o == r;

        for (struct sim_proc *p = machine->procs; p != NULL && !lives; p = p->next)
            lives = p->state != SIM_ZOMBIE && strcmp(p->marker, o->attempt) == 0;
        if (lives && task != NULL && !(m == 0 && is_nested(w, o->run)))
            used += task->slots;
    }
    if (w->slots[m] > 0 && used > w->slots[m])
        world_violated(w, "%s starts on %s: %u of %u slots are in use", r->task, r->node, used,
                       w->slots[m]);
}

/* It is in the store, and there it has not ended. */
static void check_committed(struct world *w, const struct record *r)
{
    struct fr_buf sql = {0}, state = {0};

    fr_buf_fmt(&sql, "SELECT state FROM attempt WHERE id = x'%s'", r->attempt);
    world_rows(w, sql.p, &state);
    if (state.n == 0)
        world_violated(w, "attempt %s of %s starts and the store does not know it", r->attempt,
                       r->task);
    else if (strcmp(state.p, "starting\n") != 0 && strcmp(state.p, "running\n") != 0 &&
             strcmp(state.p, "stopping\n") != 0)
        world_violated(w, "attempt %s of %s starts and is already %s", r->attempt, r->task,
                       state.p);
    fr_buf_finish(&sql);
    fr_buf_finish(&state);
}

void world_on_spawn(struct sim *s, struct sim_machine *m, const struct fr_spawn *sp)
{
    struct world *w = world_of(s);
    struct record *r = world_record(w, env_of(sp, "FLOWRUN_ATTEMPT"));
    bool side = sp->argv[1] != NULL && sp->argv[2] != NULL && sp->argv[3] != NULL &&
                strcmp(sp->argv[3], "side") == 0;

    if (w->n_records == WORLD_RECORDS)
        world_violated(w, "more than %d attempts", WORLD_RECORDS);
    if (w->failed)
        return;
    if (r != NULL && (r->side ? side : !side && r->spawned_us != 0))
        world_violated(w, "attempt %s of %s runs twice", r->attempt, r->task);
    if (r == NULL) {
        r = &w->records[w->n_records++];
        memset(r, 0, sizeof(*r));
    }
    snprintf(r->attempt, sizeof(r->attempt), "%s", env_of(sp, "FLOWRUN_ATTEMPT"));
    snprintf(r->run, sizeof(r->run), "%s", env_of(sp, "FLOWRUN_RUN"));
    snprintf(r->task, sizeof(r->task), "%s", env_of(sp, "FLOWRUN_TASK"));
    snprintf(r->node, sizeof(r->node), "%s", env_of(sp, "FLOWRUN_NODE"));
    snprintf(r->generation, sizeof(r->generation), "%s", env_of(sp, "FLOWRUN_GENERATION"));
    snprintf(r->item, sizeof(r->item), "%s", env_of(sp, "FLOWRUN_ITEM_INDEX"));
    if (side) {
        r->side = true;
        return;
    }
    r->spawned_us = s->now_us;
    if (m != (w->slurm != NULL && env_of(sp, "FLOWRUN_EXECUTOR")[0] == 's'
                  ? sim_slurm_machine(w->slurm, r->node)
                  : &s->machines[world_machine(r->node)]))
        world_violated(w, "%s of node %s runs on %s", r->task, r->node, m->name);
    check_alone(w, r);
    check_generation(w, r);
    check_needs(w, r);
    check_slots(w, r);
    check_committed(w, r);
    world_tell(w, "%s on %s: attempt %.8s generation %s", r->task, r->node, r->attempt,
               r->generation);
}

/* Once another one was the host, who was it before writes nothing. */
void world_wrote(struct world *w, const struct sim_proc *host)
{
    struct client *c = client_of(w, host);

    if (c != NULL)
        c->led = true;
    if (w->n_hosts > 0 && w->hosts[w->n_hosts - 1] == host->pid)
        return;
    for (size_t i = 0; i < w->n_hosts; i++)
        if (w->hosts[i] == host->pid)
            world_violated(w, "flowrun %d commits, and flowrun %d became the host behind it",
                           (int)host->pid, (int)w->hosts[w->n_hosts - 1]);
    if (w->n_hosts == WORLD_HOSTS)
        memmove(w->hosts, w->hosts + 1, --w->n_hosts * sizeof(w->hosts[0]));
    w->hosts[w->n_hosts++] = host->pid;
}

/* ---- in the end ---- */

static const struct sim_machine *machine_of(const struct world *w, const char *node)
{
    return &w->sim.machines[world_machine(node)];
}

/* The copy at home is what the command wrote: all of it once the node may forget the attempt, else
 * a prefix. */
static void check_log(struct world *w, const struct record *r, const char *path, bool whole)
{
    const struct sim_inode *log = sim_lookup(&w->sim.machines[0], path);
    size_t n = log != NULL ? log->n : 0;

    if (machine_of(w, r->node)->was_full || machine_of(w, r->node)->wiped)
        return; /* what the node could not keep is missing, and a line says so */
    if (n > r->n_written || (n > 0 && memcmp(log->data, r->written, n) != 0))
        world_violated(w, "the log of %s on %s (%.8s) is not what it wrote:\n%.*sand not\n%.*s",
                       r->task, r->node, r->attempt, (int)n, log->data, (int)r->n_written,
                       r->written);
    if (whole && n != r->n_written && machine_of(w, r->node)->boot_us < r->spawned_us)
        world_violated(w, "the log of %s on %s (%.8s) has %zu of %zu bytes", r->task, r->node,
                       r->attempt, n, r->n_written);
}

/* What the store says in the end, against what happened. */
static void check_store(struct world *w)
{
    static const char sql[] = "SELECT lower(hex(id)), lower(hex(run)), idx, state, log, done "
                              "FROM attempt ORDER BY idx, no";
    sqlite3_stmt *st = NULL;

    if (world_db(w) == NULL || sqlite3_prepare_v2(w->db, sql, -1, &st, NULL) != SQLITE_OK) {
        world_violated(w, "the store cannot be read");
        return;
    }
    while (sqlite3_step(st) == SQLITE_ROW && !w->failed) {
        const char *id = (const char *)sqlite3_column_text(st, 0);
        bool wins = strcmp((const char *)sqlite3_column_text(st, 3), "succeeded") == 0;
        const struct record *r = world_record(w, id);
        char path[512];

        snprintf(path, sizeof(path), "%s/runs/%s/%s", w->home, sqlite3_column_text(st, 1),
                 sqlite3_column_text(st, 4));
        if (wins && (r == NULL || !r->exited))
            world_violated(w, "attempt %s is called succeeded and did not exit with 0", id);
        if (r != NULL)
            check_log(w, r, path, wins && sqlite3_column_int(st, 5) != 0);
    }
    sqlite3_finalize(st);
}

static void check_rows(struct world *w)
{
    static const struct {
        const char *what, *sql;
    } rules[] = {
        {"integrity", "SELECT * FROM pragma_integrity_check WHERE integrity_check <> 'ok'"},
        {"foreign keys", "SELECT * FROM pragma_foreign_key_check"},
        {"a run is not over", "SELECT no, state FROM run WHERE state <> 'over'"},
        {"two attempts of an instance succeeded in one round",
         "SELECT idx, count(*) FROM attempt WHERE state = 'succeeded' AND address = '' AND "
         "(SELECT round FROM run WHERE id = attempt.run) = 1 GROUP BY run, idx HAVING count(*) > "
         "1"},
        {"a gang succeeded twice", /* one member's success is none while another fails */
         "SELECT task FROM (SELECT i.run run, i.task task FROM attempt a JOIN instance i ON i.run "
         "= a.run "
         "AND i.idx = a.idx WHERE a.state = 'succeeded' AND a.address <> '' GROUP BY i.run, "
         "i.task, a.generation HAVING count(*) = (SELECT count(*) FROM instance x WHERE x.run = "
         "i.run AND x.task = i.task)) WHERE (SELECT max(round) FROM run) = 1 GROUP BY run, task "
         "HAVING count(*) > 1"},
        {"an instance of a run that is over has not ended",
         "SELECT key, state FROM instance WHERE state IN ('waiting', 'ready', 'starting', "
         "'running', 'stopping', 'retrying')"},
        {"an attempt may live, and the run is over",
         "SELECT key, attempt_state FROM instance WHERE live <> 0 AND state <> 'stop_unproven'"},
        {"an attempt without an end", "SELECT a.idx, a.no, a.state FROM attempt a WHERE a.state IN "
                                      "('starting', 'running', 'stopping')"},
        {"an instance that succeeded without an attempt that did",
         "SELECT key FROM instance i WHERE state = 'succeeded' AND NOT EXISTS (SELECT 1 FROM "
         "attempt a WHERE a.id = i.attempt AND a.state = 'succeeded')"},
    };

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]) && !w->failed; i++) {
        struct fr_buf found = {0};
        world_rows(w, rules[i].sql, &found);
        if (found.n > 0)
            world_violated(w, "%s: %.200s", rules[i].what, found.p);
        fr_buf_finish(&found);
    }
}

static void check_processes(struct world *w)
{
    for (int i = 0; i < SIM_MACHINES && !w->failed; i++)
        for (struct sim_proc *p = w->sim.machines[i].procs; p != NULL; p = p->next)
            if (p->state != SIM_ZOMBIE)
                world_violated(w, "%s %d still runs on %s", p->comm, (int)p->pid,
                               w->sim.machines[i].name);
}

/* A flowrun went before its commit: the next one to store blobs removes what no row names. */
static bool is_marked(const struct world *w)
{
    const struct sim_machine *control = &w->sim.machines[0];
    char below[160];
    size_t n = (size_t)snprintf(below, sizeof(below), "%s/begun/", w->home);

    for (int k = 0; k < SIM_NAMES; k++)
        if (control->names[k].inode != NULL && strncmp(control->names[k].path, below, n) == 0)
            return true;
    return false;
}

/* Blobs are what rows name; marks and halves are gone, too, but where a call failed: then the next
 * flowrun that begins or resumes a run removes them. */
static void check_blob(struct world *w, const char *path, const char *base)
{
    const struct sim_machine *control = &w->sim.machines[0];
    struct fr_buf sql = {0}, found = {0};

    fr_buf_fmt(&sql,
               "SELECT 1 WHERE '%s' IN (SELECT spec_hash FROM run UNION SELECT inventory_hash FROM "
               "run UNION SELECT hash FROM file)",
               base);
    world_rows(w, sql.p, &found);
    if (found.n == 0 && !(base[0] == '.' && (control->untidy || control->was_full)) &&
        !is_marked(w))
        world_violated(w, "no row names %s", path);
    fr_buf_finish(&sql);
    fr_buf_finish(&found);
}

/* Files named by an attempt or a run belong to a row; nothing is left in the temporary folders. */
static void check_files(struct world *w)
{
    struct fr_buf known = {0};

    world_rows(w,
               "SELECT lower(hex(id)) FROM attempt UNION SELECT lower(hex(id)) FROM run UNION "
               "SELECT log FROM attempt",
               &known);
    for (int i = 0; i < SIM_MACHINES && !w->failed; i++)
        for (int k = 0; k < SIM_NAMES; k++) {
            const struct sim_name *n = &w->sim.machines[i].names[k];
            const char *base = n->inode != NULL ? strrchr(n->path, '/') + 1 : "";
            char id[64];
            if (n->inode == NULL || base[0] == '\0' || n->inode->dir)
                continue;
            /* part of a shipped file that a power cut left: its node prunes it after some days */
            bool part = strncmp(n->path, "/node/tmp/", 10) == 0 && w->sim.machines[i].renames_lost;
            if ((strstr(n->path, "/tmp/") != NULL && !part) || strstr(n->path, "/spool/") != NULL ||
                (strncmp(n->path, "/node/s/", 8) == 0 && !w->sim.machines[i].untidy))
                world_violated(w, "%s lies about on %s", n->path, w->sim.machines[i].name);
            if (strstr(n->path, "/blobs/") != NULL)
                check_blob(w, n->path, base);
            if (strncmp(n->path, "/node/a/", 8) == 0) /* in the attempt's folder */
                base = n->path + 8;
            snprintf(id, sizeof(id), "%.*s", (int)strcspn(base, "./"), base);
            if (!w->removes &&
                (strncmp(n->path, "/node/log/", 10) == 0 || strncmp(n->path, "/node/a/", 8) == 0 ||
                 strstr(n->path, "/runs/") != NULL) &&
                strstr(known.p != NULL ? known.p : "", id) == NULL)
                world_violated(w, "no row knows %s on %s", n->path, w->sim.machines[i].name);
        }
    fr_buf_finish(&known);
}

void world_check_end(struct world *w)
{
    if (!w->failed && !w->own_tasks)
        check_store(w);
    if (!w->failed)
        check_rows(w);
    if (!w->failed)
        check_processes(w);
    if (!w->failed)
        check_files(w);
}

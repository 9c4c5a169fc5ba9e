/* Nodes come and go: notes about that, and their rows. */
#include "engine/run/inside.h"

#include <stdio.h>
#include <string.h>

void run_node_up(struct fr_run *run, uint32_t n, const struct fr_exec_event *ev)
{
    struct run_node *node = &run->nodes[n];
    struct fr_event up = {.kind = FR_EV_NODE_UP, .node = n};
    bool changed = !node->known || !fr_id_eq(node->home_id, ev->up.home);

    node->up = node->dirty = run->nodes_changed = true;
    node->refused = false;
    node->down_wall = node->away_wall = 0;
    node->reason[0] = '\0';
    if (run->late && !node->known)
        run->over_ms = fr_sys.mono_ms(); /* from now on its output is waited for */
    node->known = true;
    node->home_id = ev->up.home;
    snprintf(node->boot_id, sizeof(node->boot_id), "%.*s", (int)ev->up.boot.n, ev->up.boot.p);
    if (changed)
        node->store = NULL;
    run_node_note(run, n, "connected (%.*s)", (int)ev->up.how.n, ev->up.how.p);
    run->lease_due_ms = 0; /* leases there were not renewed for a while */
    run_queue_or_die(run, &up);
}

static bool lives_there(struct fr_run *run, uint32_t n)
{
    for (const struct run_attempt *at = run->attempts; at != NULL; at = at->next)
        if (at->sent && !at->ended && run_node_of(run, at->inst) == n)
            return true;
    return false;
}

/* How long tasks that are to start there wait for the node. */
static void note_wait(const struct fr_run *run, uint32_t n, struct fr_buf *out)
{
    const struct fr_node *spec = run->plan->nodes[n].spec;
    char limit[24];

    if (spec == NULL || spec->connect.retry_for_ms == 0) {
        fr_buf_text(out, "; it is tried again");
        return;
    }
    fr_show_duration(spec->connect.retry_for_ms, limit);
    fr_buf_fmt(out,
               "; it is tried again, a task that is to start there waits %s for it "
               "(connect.retry_for)",
               limit);
}

/* The text without "node NAME: ": a note names the node, too. */
static const char *bare(const struct fr_run *run, uint32_t n, const char *text)
{
    const char *name = run->plan->nodes[n].name;
    size_t length = strlen(name);

    return strncmp(text, "node ", 5) == 0 && strncmp(text + 5, name, length) == 0 &&
                   strncmp(text + 5 + length, ": ", 2) == 0
               ? text + 5 + length + 2
               : text;
}

/* Tasks that started there are awaited without limit; the note names the way out. */
static void note_down(struct fr_run *run, uint32_t n, const char *text, bool final)
{
    const char *name = run->plan->nodes[n].name;
    struct fr_buf waits = {0};

    text = bare(run, n, text);
    if (!final)
        note_wait(run, n, &waits);
    if (!final && lives_there(run, n))
        fr_buf_fmt(&waits,
                   "; its tasks are waited for ('flowrun resume %lld --abandon %s' gives "
                   "it up)",
                   (long long)run->row.no, name);
    run_node_note(run, n, "%s: %s%s", final ? "cannot be used" : "unreachable", text,
                  waits.p != NULL ? waits.p : "");
    fr_buf_finish(&waits);
}

bool run_is_place(const struct fr_run *run, uint32_t n)
{
    const struct fr_node *spec = run->plan->nodes[n].spec;

    return spec != NULL && spec->executor == FR_EXECUTOR_SLURM;
}

void run_node_down(struct fr_run *run, uint32_t n, const struct fr_exec_event *ev)
{
    struct run_node *node = &run->nodes[n];
    struct fr_event down = {.kind = FR_EV_NODE_DOWN, .node = n, .since_ms = fr_sys.mono_ms()};
    bool first = node->up || node->down_wall == 0;

    if (run_is_place(run, n) && !lives_there(run, n)) {
        if (node->up)
            run_node_note(run, n, "left: %s", bare(run, n, ev->err.msg));
        node->up = false;
        down.value = true;
        run_queue_or_die(run, &down);
        return;
    }
    node->up = false;
    run_say(node->reason, ev->err.msg, strlen(ev->err.msg));
    if (node->down_wall == 0) {
        node->down_wall = node->away_wall != 0 ? node->away_wall : fr_sys.wall_ms();
        node->dirty = run->nodes_changed = true;
    }
    if (ev->down.retry_ms < 0) {
        down.kind = FR_EV_NODE_REFUSED;
        node->refused = true;
        first = true;
    }
    if (first)
        note_down(run, n, ev->err.msg, ev->down.retry_ms < 0);
    if (!node->refused || ev->down.retry_ms < 0) /* one that is given up stays so until it is up */
        run_queue_or_die(run, &down);
}

void run_node_connect(struct fr_run *run, uint32_t n)
{
    struct run_node *node = &run->nodes[n];
    struct fr_err err;

    node->refused = false;
    if (run->exec.ops->connect(run->exec.self, n, &err) != FR_OK)
        run_trouble(run, FR_PLAN_NONE, "%s", err.msg);
}

/* The node that the instance waited for: of a gang the first that is not there. */
static uint32_t missing_node(const struct fr_run *run, uint32_t inst)
{
    struct fr_plan_unit unit = fr_plan_unit(run->plan, inst);

    for (uint32_t k = 0; k < unit.n; k++)
        if (!run->nodes[run_node_of(run, unit.first + k)].up)
            return run_node_of(run, unit.first + k);
    return run_node_of(run, inst);
}

const char *run_node_missed(struct fr_run *run, uint32_t inst)
{
    uint32_t n = missing_node(run, inst);
    const struct fr_plan_node *node = &run->plan->nodes[n];
    const char *reason = bare(run, n, run->nodes[n].reason);
    char limit[24] = "2m";

    if (node->spec != NULL)
        fr_show_duration(node->spec->connect.retry_for_ms, limit);
    return fr_arena_fmt(&run->arena, "node %s was not there for %s (connect.retry_for)%s%s",
                        node->name, limit, reason[0] != '\0' ? ": " : "", reason);
}

enum fr_rc run_nodes_write(struct fr_run *run, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (uint32_t n = 0; rc == FR_OK && n < run->plan->n_nodes; n++) {
        const struct run_node *node = &run->nodes[n];
        struct fr_node_row row = {.name = run->plan->nodes[n].name,
                                  .home_id = node->home_id,
                                  .boot_id = node->boot_id,
                                  .folder = node->store,
                                  .unreachable_wall = node->down_wall};

        if (node->dirty)
            rc = fr_store_node_put(run->env.store, run->id, &row, err);
    }
    return rc;
}

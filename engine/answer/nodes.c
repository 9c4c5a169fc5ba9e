/* Requests about nodes: the load of their machines, and their live attempts. */
#include "engine/admit/admit.h"
#include "engine/answer/call.h"
#include "engine/metrics/machines.h"
#include "engine/metrics/meters.h"
#include "engine/timetable/schedules.h"
#include "engine/run/metrics.h"
#include "engine/store/allocations.h"
#include "engine/store/drained.h"
#include "engine/view/allocations.h"

enum { SAMPLES_USUAL = 500, SAMPLES_MOST = 4000 };

/* The live attempts on a node, of the runs that this host drives. */
static void add_attempts(const struct host_run *h, uint32_t node, json_t *to)
{
    const struct fr_plan *plan = fr_run_plan(h->run);

    if (h->counts != NULL && meters_live(h->counts, node) == 0)
        return;
    for (uint32_t i = 0; i < plan->n_insts; i++) {
        struct fr_row row = fr_run_row(h->run, i);
        char id[FR_ID_TEXT];

        if (plan->insts[i].node != node || !row.live || fr_state_ended(row.state))
            continue;
        fr_id_text(row.attempt, id);
        json_array_append_new(
            to, json_pack("{s:I, s:s, s:s, s:I, s:s}", "run", (json_int_t)fr_run_no(h->run),
                          "instance", plan->insts[i].key, "attempt", id, "attempt_no",
                          (json_int_t)row.attempt_no, "state", fr_state_name(row.state)));
    }
}

struct listing {
    struct fr_host *host;
    json_t *items; /* {name: node} */
    struct fr_drained_rows drained;
};

static void add_drained(const struct listing *l, struct fr_id home, const char *place, json_t *item)
{
    const struct fr_drained_row *row = fr_drained_find(&l->drained, home, place);

    if (row != NULL)
        json_object_set_new(item, "drained", fr_row_json(&fr_drained_type, row));
}

/* Adds the entry of that name to items. */
static json_t *entry_of(const struct listing *l, const char *name, struct fr_id home)
{
    struct fr_host *host = l->host;
    json_t *items = l->items;
    const struct fr_machine *m =
        fr_id_zero(home) ? NULL : fr_machines_find(meters_machines(host->meters), home);
    json_t *item = json_object_get(items, name);

    if (item == NULL) {
        item = m != NULL ? fr_machine_json(m) : json_pack("{s:s}", "name", name);
        json_object_set_new(item, "name", json_string(name));
        json_object_set_new(item, "state", json_string("seen"));
        json_object_set_new(item, "attempts", json_array());
        json_object_set_new(items, name, item);
    }
    add_drained(l, home, NULL, item);
    return item;
}

static void add_node(const struct listing *l, const struct host_run *h, uint32_t n)
{
    const struct fr_plan *plan = fr_run_plan(h->run);
    struct fr_id home;
    int64_t down;
    bool up = fr_run_node_up(h->run, n, &down);
    json_t *item;

    (void)fr_run_demand(h->run, n, &home);
    item = entry_of(l, plan->nodes[n].name, home);
    add_drained(l, home, fr_plan_place(&plan->nodes[n]), item);
    if (up || down != 0)
        json_object_set_new(item, "state", json_string(up ? "up" : "unreachable"));
    if (!up && down != 0)
        json_object_set_new(item, "since_wall", json_integer(down));
    add_attempts(h, n, json_object_get(item, "attempts"));
}

/* Nodes of runs that were over when this host started. */
static void add_known(const struct listing *l, const struct fr_known_rows *known)
{
    for (size_t i = 0; i < known->n; i++) {
        const struct fr_known_row *row = &known->rows[i];
        json_t *item = json_object_get(l->items, row->name);

        if (item == NULL)
            item = entry_of(l, row->name, row->home);
        if (json_object_get(item, "seen_wall") == NULL)
            json_object_set_new(item, "seen_wall", json_integer(row->wall));
    }
}

/* {name: node}: nodes of the runs that this host drives, machines seen before, drained nodes, and
 * nodes of the newest runs; NULL: err is set. */
static json_t *all_nodes(struct call *c, struct fr_err *err)
{
    struct fr_host *host = c->host;
    struct fr_machines *all = meters_machines(host->meters);
    struct listing l = {.host = host, .items = json_object()};
    struct fr_known_rows known = {0};
    const struct fr_machine *m;

    if (fr_store_drained(host->env.store, &c->arena, &l.drained, err) != FR_OK ||
        fr_store_known_nodes(host->env.store, &c->arena, &known, err) != FR_OK) {
        json_decref(l.items);
        return NULL;
    }
    fr_machines_recall(all);
    for (size_t i = 0; i < host->n; i++)
        for (uint32_t n = 0; n < fr_run_plan(host->runs[i]->run)->n_nodes; n++)
            add_node(&l, host->runs[i], n);
    for (size_t i = 0; (m = fr_machines_at(all, i)) != NULL; i++)
        if (json_object_get(l.items, m->name) == NULL)
            (void)entry_of(&l, m->name, m->home);
    for (size_t i = 0; i < l.drained.n; i++)
        if (json_object_get(l.items, l.drained.rows[i].name) == NULL)
            (void)entry_of(&l, l.drained.rows[i].name, l.drained.rows[i].home);
    add_known(&l, &known);
    return l.items;
}

/* Those of all runs of the home that are not over; NULL: err is set. */
static json_t *open_allocations(struct call *c, struct fr_err *err)
{
    struct fr_store *st = c->host->env.store;
    struct fr_allocation_rows rows = {0};
    struct fr_run_row run = {0};
    json_t *list = json_array();
    char id[FR_ID_TEXT];
    enum fr_rc rc = fr_store_allocations_open(st, &c->arena, &rows, err);

    for (size_t i = 0; rc == FR_OK && i < rows.n; i++) {
        const struct fr_allocation_row *row = &rows.rows[i];

        if (row->state == FR_ALLOCATION_OVER)
            continue;
        fr_id_text(row->run, id);
        if (!fr_id_eq(row->run, run.id))
            rc = fr_store_run_find(st, id, &c->arena, &run, err);
        if (rc == FR_OK)
            json_array_append_new(list, fr_allocation_json(row, run.no));
    }
    if (rc == FR_OK)
        return list;
    json_decref(list);
    return NULL;
}

enum fr_rc get_nodes(struct call *c, struct fr_err *err)
{
    json_t *items = all_nodes(c, err), *list, *item, *allocations;
    const char *name;

    if (items == NULL)
        return err->rc;
    list = json_array();
    json_object_foreach(items, name, item) json_array_append(list, item);
    json_decref(items);
    if ((allocations = open_allocations(c, err)) == NULL) {
        json_decref(list);
        return err->rc;
    }
    return answer_json(c, 200, json_pack("{s:o, s:o}", "items", list, "allocations", allocations),
                       err);
}

static enum fr_rc answer_samples(struct call *c, const char *name, struct fr_err *err)
{
    int64_t now = fr_sys.wall_ms(), from, to, width;
    struct fr_machines *all = meters_machines(c->host->meters);
    struct fr_machine *m;
    enum fr_rc rc = query_number(c, "to", now, &to, err);

    fr_machines_recall(all);
    m = fr_machines_named(all, name);
    if (rc == FR_OK)
        rc = query_number(c, "from", to - FR_LOAD_FINE_MS, &from, err);
    if (rc == FR_OK)
        rc = query_range(c, "width", (struct query_range){2, SAMPLES_MOST, SAMPLES_USUAL}, &width,
                         err);
    if (rc == FR_OK && from > to)
        rc = fr_fail(err, FR_USAGE, "'from' must not be larger than 'to'");
    if (rc == FR_OK && m == NULL)
        rc = fr_fail(err, FR_NOTFOUND, "no samples of node '%s' came to this home", name);
    return rc == FR_OK
               ? answer_json(c, 200, fr_machine_samples(all, m, from, to, (size_t)width), err)
               : rc;
}

/* known: the store has the node, perhaps from before this host. */
static enum fr_rc answer_node(struct call *c, const char *name, bool known, struct fr_err *err)
{
    json_t *items = all_nodes(c, err), *item;

    if (items == NULL)
        return err->rc;
    item = json_incref(json_object_get(items, name));
    json_decref(items);
    if (item == NULL && known)
        item = json_pack("{s:s, s:s, s:[]}", "name", name, "state", "seen", "attempts");
    else if (item == NULL)
        return fr_fail(err, FR_NOTFOUND, "this host knows no node '%s'", name);
    return answer_json(c, 200, item, err);
}

/* NAME, or NAME/samples */
enum fr_rc get_nodes_name(struct call *c, struct fr_err *err)
{
    const char *slash = strchr(c->rest, '/');
    size_t n = slash != NULL ? (size_t)(slash - c->rest) : strlen(c->rest);
    char *name = fr_arena_text(&c->arena, c->rest, n);

    if (name == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a request");
    if (slash != NULL && strcmp(slash, "/samples") == 0)
        return answer_samples(c, name, err);
    if (slash != NULL)
        return fr_fail(err, FR_NOTFOUND, "there is nothing at %s", c->req->path);
    return answer_node(c, name, false, err);
}

/* ---- drained ---- */

static enum fr_rc drain(struct call *c, const char *name, const char *note, struct fr_err *err)
{
    struct fr_drained_row row = {.name = name, .wall = fr_sys.wall_ms(), .note = note, .who = ""};
    enum fr_rc rc = fr_store_node_home(c->host->env.store, name, &row.home, err);

    if (c->req->caller != NULL)
        row.who = c->req->caller->name;
    if (rc == FR_OK)
        rc = fr_store_drain(c->host->env.store, &row, err);
    return rc == FR_OK ? slots_drained(c->host, row.home, err) : rc;
}

static enum fr_rc undrain(struct call *c, const char *name, struct fr_err *err)
{
    struct fr_id home;
    enum fr_rc rc = fr_store_node_home(c->host->env.store, name, &home, err);

    if (rc == FR_OK)
        rc = fr_store_undrain(c->host->env.store, home, err);
    return rc == FR_OK ? slots_drained(c->host, home, err) : rc;
}

/* NAME/drain {note}, NAME/undrain {} */
enum fr_rc post_nodes_name_drain(struct call *c, struct fr_err *err)
{
    const char *slash = strchr(c->rest, '/'), *note = "", *name;
    bool drains = slash != NULL && strcmp(slash, "/drain") == 0;
    enum fr_rc rc;

    if (!drains && (slash == NULL || strcmp(slash, "/undrain") != 0))
        return fr_fail(err, FR_NOTFOUND, "there is nothing to post at %s", c->req->path);
    if (json_unpack(c->doc, drains ? "{s?s !}" : "{!}", "note", &note) != 0)
        return fr_fail(err, FR_USAGE,
                       drains ? "the body must be {} or {\"note\": \"why\"}"
                              : "the body must be {}");
    name = fr_arena_text(&c->arena, c->rest, (size_t)(slash - c->rest));
    if (name == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a request");
    rc = drains ? drain(c, name, note, err) : undrain(c, name, err);
    host_changed(c->host, HOST_NODES);
    return rc == FR_OK ? answer_node(c, name, true, err) : rc;
}

/* ---- the host ---- */

/* The host itself: the durations of its turns, and the cause of the longest. */
enum fr_rc get_host(struct call *c, struct fr_err *err)
{
    struct fr_loop_slow slow = fr_loop_slow(c->host->env.loop);
    const struct host_meter *m = &c->host->meter;

    return answer_json(c, 200,
                       json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:s, s:I}", "version",
                                 FLOWRUN_VERSION, "epoch", (json_int_t)c->host->env.epoch, "runs",
                                 (json_int_t)c->host->n, "turns", (json_int_t)slow.turns,
                                 "slow_turns", (json_int_t)slow.slow, "longest_ms",
                                 (json_int_t)slow.longest_ms, "held_by", m->held_by, "clock_steps",
                                 (json_int_t)schedules_clock_steps(c->host)),
                       err);
}

enum fr_rc get_runs_run_allocations(struct call *c, struct fr_err *err)
{
    struct fr_allocation_rows rows = {0};
    enum fr_rc rc = fr_store_allocations(c->host->env.store, c->run.id, &c->arena, &rows, err);

    return rc == FR_OK
               ? answer_json(c, 200,
                             json_pack("{s:o}", "items", fr_allocations_json(&rows, c->run.no)),
                             err)
               : rc;
}

/*
 * What attempts of runs hold that this host does not drive: those of a host that went, until their
 * followers come; those of runs that nobody follows. Their slots are not given away. The store says
 * what may live; whether it does, the machine is asked as soon as a run of this host is there, and
 * again while something is held. What may still start there keeps its slots.
 */
#include "engine/admit/private.h"
#include "engine/spec/spec.h"
#include "engine/wire/message.h"

enum { ASK_MS = 2000 };

static void drop(struct fr_host *host, size_t i)
{
    struct host_slots *slots = slots_of(host);
    struct fr_id home = slots->held[i].row.home;

    slots->held[i] = slots->held[--slots->n_held];
    slots_changed(host, home);
}

enum fr_rc reservations_load(struct fr_host *host, struct fr_err *err)
{
    struct host_slots *slots = slots_of(host);
    struct fr_arena arena = {0};
    struct fr_held_rows rows = {0};
    enum fr_rc rc = fr_store_held(host->env.store, &arena, &rows, err);

    while (slots->n_held > 0)
        drop(host, slots->n_held - 1);
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++) {
        struct host_reservation *held = slots->held;

        if (host_find(host, rows.rows[i].run) != NULL)
            continue;
        held = fr_grow(held, slots->n_held + 1, &slots->cap_held, sizeof(*held));
        if (held == NULL) {
            rc = fr_fail(err, FR_NOMEM, "no memory for what runs hold");
            break;
        }
        slots->held = held;
        held[slots->n_held++] = (struct host_reservation){.row = rows.rows[i]};
        slots_changed(host, rows.rows[i].home);
    }
    fr_arena_finish(&arena);
    return rc;
}

void reservations_forget(struct fr_host *host, struct fr_id run, struct fr_id home)
{
    struct host_slots *slots = slots_of(host);

    for (size_t i = slots->n_held; i-- > 0;)
        if (fr_id_eq(slots->held[i].row.run, run) && fr_id_eq(slots->held[i].row.home, home))
            drop(host, i);
}

uint32_t reservations_slots(const struct fr_host *host, struct fr_id home)
{
    struct host_slots *slots = slots_of(host);
    uint32_t n = 0;

    for (size_t i = 0; i < slots->n_held; i++)
        if (fr_id_eq(slots->held[i].row.home, home))
            n += (uint32_t)slots->held[i].row.slots;
    return n;
}

/* ---- asking the machine ---- */

/* The node has prepared it, and nothing of it lives: what its host sent may have come to a flownode
 * that stands still, and that starts it when it goes on. Its slots are given away once its node has
 * journalled that this start does nothing. Its run gets another attempt. */
static void give_tombstone(struct host_probe *p, struct host_reservation *held)
{
    struct fr_exec_attempt a = {0, held->row.attempt};

    held->asked = p->exec.ops->tombstone(p->exec.self, a, NULL) == FR_OK;
}

static void on_state(void *arg, struct fr_exec_event *ev)
{
    struct host_probe *p = arg;
    struct host_slots *slots = slots_of(p->host);
    const struct fr_state *s = &ev->state;
    bool gone = s->status == FR_AT_ENDED || s->status == FR_AT_TOMBSTONED ||
                (s->status == FR_AT_UNKNOWN && !s->prepared);

    for (size_t i = slots->n_held; ev->kind == FR_EXEC_STATE && i-- > 0;) {
        if (!fr_id_eq(slots->held[i].row.attempt, ev->attempt))
            continue;
        slots->held[i].asked = false;
        if (gone) {
            drop(p->host, i);
            p->host->woken = true;
        } else if (s->status == FR_AT_UNKNOWN) {
            give_tombstone(p, &slots->held[i]);
        }
    }
    fr_exec_event_free(ev);
}

static struct host_probe *find_probe(const struct fr_host *host, struct fr_id home)
{
    struct host_probe *p = slots_of(host)->probes;

    while (p != NULL && !fr_id_eq(p->home, home))
        p = p->next;
    return p;
}

/* A probe that cannot be made is made when the next run comes; until then its slots stay held. */
static struct host_probe *make_probe(struct host_run *h, uint32_t node, struct fr_id home)
{
    struct host_slots *slots = slots_of(h->host);
    const struct fr_plan_node *pn = &fr_run_plan(h->run)->nodes[node];
    struct fr_exec_node at =
        pn->spec != NULL ? fr_exec_node_of(pn->spec, fr_run_id(h->run))
                         : (struct fr_exec_node){.name = pn->name, .transport = FR_TRANSPORT_LOCAL};
    struct host_probe *p = fr_sys.alloc(sizeof(*p));
    struct fr_nodes_run join = {.id = home, .nodes = &at, .n = 1};

    if (p == NULL)
        return NULL;
    *p = (struct host_probe){.next = slots->probes, .host = h->host, .home = home};
    join.sink = (struct fr_exec_sink){on_state, p};
    if (fr_nodes_join(h->host->env.nodes, &join, &p->exec, NULL) != FR_OK) {
        fr_sys.free(p);
        return NULL;
    }
    slots->probes = p;
    return p;
}

static void ask(struct fr_host *host, struct host_probe *p)
{
    struct host_slots *slots = slots_of(host);

    for (size_t i = 0; i < slots->n_held; i++) {
        struct fr_exec_attempt a = {0, slots->held[i].row.attempt};

        if (fr_id_eq(slots->held[i].row.home, p->home) && !slots->held[i].asked)
            slots->held[i].asked = p->exec.ops->query(p->exec.self, &a, 1, NULL) == FR_OK;
    }
}

/* Probes of machines on which nothing is held any more leave their connection. */
static void tidy_probes(struct fr_host *host)
{
    for (struct host_probe **at = &slots_of(host)->probes; *at != NULL;) {
        struct host_probe *p = *at;

        if (reservations_slots(host, p->home) > 0) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        fr_exec_destroy(&p->exec);
        fr_sys.free(p);
    }
}

static void on_timer(void *arg)
{
    struct fr_host *host = arg;
    struct host_slots *slots = slots_of(host);

    tidy_probes(host);
    for (struct host_probe *p = slots->probes; p != NULL; p = p->next)
        ask(host, p);
    if (slots->probes != NULL)
        fr_loop_arm_in(host->env.loop, slots->held_timer, ASK_MS);
}

void reservations_ask(struct host_run *h, uint32_t node, struct fr_id home)
{
    struct fr_host *host = h->host;
    struct host_slots *slots = slots_of(host);
    struct host_probe *p = find_probe(host, home);

    if (reservations_slots(host, home) == 0)
        return;
    if (slots->held_timer == NULL &&
        fr_loop_timer(host->env.loop, on_timer, host, &slots->held_timer) != FR_OK)
        return;
    if (p == NULL && (p = make_probe(h, node, home)) == NULL)
        return;
    ask(host, p);
    fr_loop_arm_in(host->env.loop, slots->held_timer, ASK_MS);
}

void reservations_finish(struct fr_host *host)
{
    struct host_slots *slots = slots_of(host);

    slots->n_held = 0;
    tidy_probes(host);
    fr_loop_untimer(host->env.loop, &slots->held_timer);
    fr_sys.free(slots->held);
}

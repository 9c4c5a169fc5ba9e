/* The machines that runs have in common, and what each run is lent of them. */
#include "engine/admit/private.h"
#include "engine/store/drained.h"

struct host_slots *slots_of(const struct fr_host *host)
{
    return host_state(host, &slots_part);
}

static const char *place_of(const struct host_user *u)
{
    return fr_plan_place(&fr_run_plan(u->run->run)->nodes[u->node]);
}

static bool has_place(const struct host_machine *m)
{
    for (size_t i = 0; i < m->n; i++)
        if (place_of(&m->users[i]) != NULL)
            return true;
    return false;
}

static enum fr_rc look_drained(struct fr_host *host, struct host_machine *m, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_drained_rows rows = {0};
    enum fr_rc rc = fr_store_drained(host->env.store, &arena, &rows, err);

    m->drained = rc == FR_OK && fr_drained_find(&rows, m->home, NULL) != NULL;
    for (size_t i = 0; rc == FR_OK && i < m->n; i++)
        if (fr_drained_find(&rows, m->home, place_of(&m->users[i])) != NULL)
            m->drained = true;
    fr_arena_finish(&arena);
    return rc;
}

static enum fr_rc find_machine(struct fr_host *host, struct fr_id home, uint32_t *out,
                               struct fr_err *err)
{
    struct host_slots *slots = slots_of(host);
    struct host_machine *m;

    for (uint32_t i = 0; i < slots->n_machines; i++)
        if (fr_id_eq(slots->machines[i].home, home)) {
            *out = i;
            return FR_OK;
        }
    m = fr_grow(slots->machines, slots->n_machines + 1, &slots->cap_machines, sizeof(*m));
    if (m == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a machine");
    slots->machines = m;
    *out = (uint32_t)slots->n_machines;
    m += slots->n_machines;
    *m = (struct host_machine){.home = home};
    if (look_drained(host, m, err) != FR_OK)
        return err->rc;
    slots->n_machines++;
    return FR_OK;
}

enum fr_rc slots_drained(struct fr_host *host, struct fr_id home, struct fr_err *err)
{
    struct host_slots *slots = slots_of(host);
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < slots->n_machines; i++) {
        if (fr_id_eq(slots->machines[i].home, home) || has_place(&slots->machines[i]))
            rc = look_drained(host, &slots->machines[i], err);
        slots->machines[i].changed = slots->changed = true; /* gangs have slots of others, too */
    }
    host->woken = true;
    return rc;
}

void slots_changed(struct fr_host *host, struct fr_id home)
{
    struct host_slots *slots = slots_of(host);

    for (size_t i = 0; i < slots->n_machines; i++)
        if (fr_id_eq(slots->machines[i].home, home))
            slots->machines[i].changed = slots->changed = true;
}

static void mark(struct fr_host *host, uint32_t machine)
{
    slots_of(host)->machines[machine].changed = slots_of(host)->changed = true;
}

static void leave(struct host_run *h, uint32_t node)
{
    struct host_machine *m;

    if (h->places[node].machine == HOST_NO_MACHINE)
        return;
    m = &slots_of(h->host)->machines[h->places[node].machine];
    for (size_t i = 0; i < m->n; i++)
        if (m->users[i].run == h && m->users[i].node == node) {
            m->users[i] = m->users[--m->n];
            break;
        }
    mark(h->host, h->places[node].machine);
    h->places[node].machine = HOST_NO_MACHINE;
}

static void say_smaller(const struct host_user *u, const struct host_user *smaller)
{
    const struct fr_plan_node *mine = &fr_run_plan(u->run->run)->nodes[u->node];
    const struct fr_plan_node *other = &fr_run_plan(smaller->run->run)->nodes[smaller->node];
    struct fr_buf b = {0};

    fr_buf_fmt(
        &b,
        "node %s: its machine is node %s of run %lld, too, which has %u slots there (here %u): "
        "the smaller number counts",
        mine->name, other->name, (long long)fr_run_no(smaller->run->run), other->slots,
        mine->slots);
    if (!b.bad)
        fr_run_say(u->run->run, b.p);
    fr_buf_finish(&b);
}

/* A user comes whose inventory gives the machine another number of slots: whoever has fewer than it
 * said is told. */
static void say_shared(struct host_run *h, uint32_t node, const struct host_machine *m)
{
    const struct host_user mine = {h, node};
    uint32_t slots = fr_run_plan(h->run)->nodes[node].slots, least = slots;
    const struct host_user *smallest = NULL;

    for (size_t i = 0; i < m->n; i++) {
        uint32_t theirs = fr_run_plan(m->users[i].run->run)->nodes[m->users[i].node].slots;

        if (theirs > slots)
            say_smaller(&m->users[i], &mine);
        if (theirs < least) {
            least = theirs;
            smallest = &m->users[i];
        }
    }
    if (smallest != NULL)
        say_smaller(&mine, smallest);
}

static enum fr_rc join(struct host_run *h, uint32_t node, struct fr_id home, struct fr_err *err)
{
    struct host_place *place = &h->places[node];
    struct host_machine *m;
    struct host_user *users;
    uint32_t machine = HOST_NO_MACHINE;
    enum fr_rc rc = find_machine(h->host, home, &machine, err);

    if (rc != FR_OK || machine == place->machine)
        return rc;
    leave(h, node); /* another disk, or another machine under its address */
    m = &slots_of(h->host)->machines[machine];
    users = fr_grow(m->users, m->n + 1, &m->cap, sizeof(*users));
    if (users == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a machine");
    m->users = users;
    say_shared(h, node, m);
    users[m->n++] = (struct host_user){h, node};
    place->machine = machine;
    if (place_of(&users[m->n - 1]) != NULL)
        rc = look_drained(h->host, m, err);
    mark(h->host, machine);
    reservations_forget(h->host, fr_run_id(h->run), home); /* it says itself what it uses there */
    reservations_ask(h, node, home);
    return rc;
}

static bool same(const struct fr_demand *a, const struct fr_demand *b)
{
    return a->used == b->used && a->single == b->single && a->gang == b->gang &&
           a->single_ms == b->single_ms && a->gang_ms == b->gang_ms &&
           a->gang_first == b->gang_first;
}

static enum fr_rc look(struct host_run *h, struct fr_err *err)
{
    uint32_t n_nodes = fr_run_plan(h->run)->n_nodes;
    enum fr_rc rc = FR_OK;

    for (uint32_t n = 0; rc == FR_OK && n < n_nodes; n++) {
        struct host_place *place = &h->places[n];
        struct fr_id home;
        struct fr_demand demand = fr_run_demand(h->run, n, &home);

        if (!fr_id_zero(home))
            rc = join(h, n, home, err);
        if (rc == FR_OK && place->machine != HOST_NO_MACHINE && !same(&place->demand, &demand))
            mark(h->host, place->machine);
        place->demand = demand;
        place->lent = demand.slots; /* fewer than it was lent, once it gave some back */
    }
    return rc;
}

static bool is_granted(const struct host_user *u, const struct host_machine *m)
{
    return !fr_id_zero(u->run->granted) && fr_id_eq(u->run->granted, m->home);
}

/* A gang with a node that is drained collects no slots of the others meanwhile. */
static struct fr_demand demand_of(const struct host_user *u)
{
    const struct host_run *h = u->run;
    struct fr_demand demand = h->places[u->node].demand;

    for (uint32_t n = 0; demand.gang > 0 && n < fr_run_plan(h->run)->n_nodes; n++)
        if (h->places[n].demand.gang > 0 && h->places[n].machine != HOST_NO_MACHINE &&
            slots_of(h->host)->machines[h->places[n].machine].drained)
            demand.gang = 0;
    return demand;
}

/* Tells the runs whose share grows, or the others. */
static enum fr_rc share(struct fr_host *host, const struct host_machine *m, bool grows,
                        struct fr_err *err)
{
    struct host_slots *slots = slots_of(host);
    uint32_t held = reservations_slots(host, m->home);
    struct fr_claim *claims =
        fr_grow(slots->claims, m->n + 1, &slots->cap_claims, sizeof(*slots->claims));

    if (claims == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the users of a machine");
    slots->claims = claims;
    for (size_t i = 0; i < m->n; i++) {
        const struct host_user *u = &m->users[i];

        if (is_granted(u, m)) {
            claims[i] = (struct fr_claim){.slots = UINT32_MAX};
            continue;
        }
        claims[i] = (struct fr_claim){.slots = fr_run_plan(u->run->run)->nodes[u->node].slots,
                                      .priority = fr_run_record(u->run->run)->priority,
                                      .no = fr_run_no(u->run->run),
                                      .demand = demand_of(u)};
    }
    claims[m->n] =
        (struct fr_claim){.slots = m->drained ? 0 : UINT32_MAX, .demand = {.used = held}};
    fr_arbiter_share(claims, m->n + (held > 0 || m->drained ? 1 : 0));
    for (size_t i = 0; i < m->n; i++) {
        struct host_place *place = &m->users[i].run->places[m->users[i].node];

        if (is_granted(&m->users[i], m))
            claims[i].lent = fr_run_plan(m->users[i].run->run)->nodes[m->users[i].node].slots;
        if (claims[i].lent == place->lent && claims[i].contended == place->contended &&
            claims[i].over == place->over)
            continue;
        if ((claims[i].lent > place->lent) != grows)
            continue;
        place->lent = claims[i].lent;
        place->contended = claims[i].contended;
        place->over = claims[i].over;
        fr_run_lend(m->users[i].run->run, m->users[i].node,
                    &(struct fr_lent){place->lent, place->contended, place->over});
    }
    return FR_OK;
}

static enum fr_rc share_all(struct fr_host *host, struct fr_err *err)
{
    struct host_slots *slots = slots_of(host);
    enum fr_rc rc = FR_OK;

    if (!slots->changed)
        return FR_OK;
    slots->changed = false;
    /* A gang starts with the last slot that it is lent: which ones are lost, it knows by then. */
    for (int grows = 0; grows < 2; grows++)
        for (size_t i = 0; rc == FR_OK && i < slots->n_machines; i++)
            if (slots->machines[i].changed)
                rc = share(host, &slots->machines[i], grows != 0, err);
    for (size_t i = 0; i < slots->n_machines; i++)
        slots->machines[i].changed = false;
    return rc;
}

static void gone(struct host_run *h)
{
    for (uint32_t n = 0; n < fr_run_plan(h->run)->n_nodes; n++)
        leave(h, n);
}

/* ---- the part ---- */

static enum fr_rc come(struct host_run *h, struct fr_err *err)
{
    const struct fr_plan *plan = fr_run_plan(h->run);
    size_t bytes;

    if (!fr_mul_size(plan->n_nodes + 1, sizeof(*h->places), &bytes) ||
        (h->places = fr_sys.alloc(bytes)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a run");
    for (uint32_t n = 0; n < plan->n_nodes; n++)
        h->places[n] = (struct host_place){.machine = HOST_NO_MACHINE};
    return FR_OK;
}

static void free_places(struct host_run *h)
{
    fr_sys.free(h->places);
}

static void close_slots(struct fr_host *host)
{
    struct host_slots *slots = slots_of(host);

    reservations_finish(host);
    for (size_t i = 0; i < slots->n_machines; i++)
        fr_sys.free(slots->machines[i].users);
    fr_sys.free(slots->machines);
    fr_sys.free(slots->claims);
}

const struct host_part slots_part = {
    .name = "sharing slots of machines",
    .state_bytes = sizeof(struct host_slots),
    .step = {[HOST_OPEN] = reservations_load,
             [HOST_SHARE] = share_all,
             [HOST_PARKED] = reservations_load},
    .of_run = {[HOST_RUN_GONE] = gone, [HOST_RUN_FREE] = free_places},
    .decided = look,
    .came = come,
    .close = close_slots};

/* How runs share the slots of a machine: what each is lent, what makes a host share anew, and what
 * it asks a machine about attempts of runs that it does not drive. */
#include "engine/admit/private.h"
#include "engine/exec/private.h"
#include "engine/run/state.h"
#include "engine/store/drained.h"
#include "engine/store/sql.h"
#include "tests/unit/host/host_bed.h"

static struct host_bed bed = HOST_BED;

static const char slots[] = "name: s\n"
                            "nodes: [{name: n1, executor: local, slots: %d}, {name: n2, executor: "
                            "local, slots: 6}]\n"
                            "tasks: {one: {on: n1, run: 'true'}}\n";

static const struct fr_id machine = {.b = {0xb1}}, second = {.b = {0xb2}}, third = {.b = {0xb3}};

static void put_slots(const char *name, int n)
{
    char text[300];

    snprintf(text, sizeof(text), slots, n);
    put_file(bed.home, name, text);
}

static void turn_part(enum host_step step)
{
    CHECK_INT(slots_part.step[step](bed.host, NULL), FR_OK);
}

static void decide(struct host_run *h)
{
    CHECK_INT(slots_part.decided(h, NULL), FR_OK);
}

/* The node of the run is on that machine. */
static void place(struct host_run *h, uint32_t node, struct fr_id home)
{
    h->run->nodes[node].known = true;
    h->run->nodes[node].home_id = home;
    decide(h);
}

static struct host_machine *machine_of(struct fr_id home)
{
    for (size_t i = 0; i < slots_of(bed.host)->n_machines; i++)
        if (fr_id_eq(slots_of(bed.host)->machines[i].home, home))
            return &slots_of(bed.host)->machines[i];
    return NULL;
}

/* ---- what each run is lent ---- */

enum { SHARERS = 3 };

static const struct {
    const char *name;
    uint32_t held; /* by runs that the host does not drive */
    bool drained;
    int granted; /* this run is of a task there; -1: none is */
    struct fr_demand
        of[SHARERS];  /* {0, used, single, gang, since, since of the gang, gang first} */
    const char *want; /* as of arbiter_test */
} shares[] = {
    {"nobody wants any", 0, false, -1, {{0}}, "0 4 0"},
    {"of two that wait the one that waits longer",
     0,
     false,
     -1,
     {{0, 0, 3, 0, 7, 0, false}, {0}, {0, 0, 3, 0, 5, 0, false}},
     "1 0! 3!"},
    {"what others hold is lent to nobody", 3, false, -1, {{0}}, "0 1 0"},
    {"more is held than there is", 5, false, -1, {{0}}, "0!! 0!! 0!!"},
    {"nothing starts on a drained machine",
     0,
     true,
     -1,
     {{0, 0, 1, 0, 5, 0, false}, {0, 0, 2, 0, 6, 0, false}, {0}},
     "0! 0! 0!"},
    {"what runs on a drained machine stays",
     0,
     true,
     -1,
     {{0, 2, 1, 0, 5, 0, false}, {0}, {0}},
     "2!! 0!! 0!!"},
    {"a run of a task there has all slots, beside the others",
     0,
     false,
     0,
     {{0, 0, 2, 0, 5, 0, false}, {0}, {0, 0, 9, 0, 6, 0, false}},
     "5! 0! 4"},
    {"what it uses takes none from the others",
     0,
     false,
     2,
     {{0}, {0}, {0, 3, 2, 0, 5, 0, false}},
     "0 4 4"},
    {"a gang collects",
     0,
     false,
     -1,
     {{0, 1, 2, 0, 5, 0, false}, {0, 0, 0, 4, 0, 3, false}, {0}},
     "1! 3! 0!"},
};

static void check_share(struct host_run **h, const char *want)
{
    char got[60] = "";
    size_t at = 0;

    for (size_t i = 0; i < SHARERS; i++) {
        const struct host_place *p = &h[i]->places[0];

        at += (size_t)snprintf(got + at, sizeof(got) - at, "%s%u%s", i > 0 ? " " : "", p->lent,
                               p->over        ? "!!"
                               : p->contended ? "!"
                                              : "");
    }
    CHECK_TEXT(got, want);
}

static void test_rows(struct host_run **h)
{
    struct host_machine *m = machine_of(machine);

    for (size_t r = 0; r < sizeof(shares) / sizeof(shares[0]); r++) {
        check_row(shares[r].name);
        *slots_of(bed.host)->held =
            (struct host_reservation){.row = {.home = machine, .slots = shares[r].held}};
        slots_of(bed.host)->n_held = shares[r].held > 0;
        m->drained = shares[r].drained;
        for (int i = 0; i < SHARERS; i++) {
            h[i]->granted = i == shares[r].granted ? machine : (struct fr_id){{0}};
            h[i]->places[0] = (struct host_place){.demand = shares[r].of[i]};
        }
        if (shares[r].granted < 0) /* of another machine */
            h[2]->granted = second;
        turn_part(HOST_SHARE); /* nothing has changed */
        check_share(h, "0 0 0");
        slots_changed(bed.host, second);
        turn_part(HOST_SHARE);
        check_share(h, "0 0 0");
        slots_changed(bed.host, machine);
        CHECK(m->changed && slots_of(bed.host)->changed);
        turn_part(HOST_SHARE);
        CHECK(!m->changed && !slots_of(bed.host)->changed);
        check_share(h, shares[r].want);
    }
}

/* A gang with a drained node collects nothing of the others. */
static void test_gang(struct host_run **h)
{
    check_row("a gang with a drained node collects nothing of the others");
    slots_of(bed.host)->n_held = 0;
    machine_of(machine)->drained = false;
    for (int i = 0; i < SHARERS; i++) {
        h[i]->granted = (struct fr_id){{0}};
        h[i]->places[0] = (struct host_place){.machine = 0};
    }
    place(h[0], 1, second);
    h[1]->places[1].demand = (struct fr_demand){0};
    machine_of(second)->drained = true;
    h[0]->places[0].demand = (struct fr_demand){.gang = 2, .gang_ms = 3};
    h[0]->places[1].demand = (struct fr_demand){.gang = 2, .gang_ms = 3};
    h[2]->places[0].demand = (struct fr_demand){.single = 4, .single_ms = 9};
    slots_changed(bed.host, machine);
    turn_part(HOST_SHARE);
    check_share(h, "0 0 4");
    check_row("… but one that has no node there does");
    h[0]->places[1].demand.gang = 0;
    for (int i = 0; i < SHARERS; i++)
        h[i]->places[0].lent = 0;
    slots_changed(bed.host, machine);
    turn_part(HOST_SHARE);
    check_share(h, "2! 0! 2");
}

static void test_over(struct host_run **h)
{
    check_row("others wait, and then more is held than there is");
    for (int i = 0; i < SHARERS; i++)
        h[i]->places[0].demand = (struct fr_demand){0};
    h[0]->places[0].demand.used = 4;
    h[2]->places[0].demand = (struct fr_demand){.single = 1, .single_ms = 5};
    slots_changed(bed.host, machine);
    turn_part(HOST_SHARE);
    check_share(h, "4! 0! 0");
    *slots_of(bed.host)->held = (struct host_reservation){.row = {.home = machine, .slots = 1}};
    slots_of(bed.host)->n_held = 1;
    slots_changed(bed.host, machine);
    turn_part(HOST_SHARE);
    check_share(h, "4!! 0!! 0!!");
    slots_of(bed.host)->n_held = 0;
    check_row("a machine that is drained may free slots of another: all are shared anew");
    CHECK_INT(slots_drained(bed.host, second, NULL), FR_OK);
    CHECK(machine_of(machine)->changed && machine_of(second)->changed);
    turn_part(HOST_SHARE);
}

static void test_shares(void)
{
    struct host_run *h[SHARERS];

    put_slots("a.yaml", 5);
    put_slots("b.yaml", 4);
    open_host(&bed);
    submit(&bed, "a.yaml", 1, "", "running");
    submit(&bed, "b.yaml", 2, ", \"priority\": 2", "running");
    submit(&bed, "b.yaml", 3, "", "running");
    settle_host(&bed);
    for (int i = 0; i < SHARERS; i++) {
        h[i] = host_find_no(bed.host, i + 1);
        place(h[i], 0, machine);
        CHECK_INT(h[i]->places[0].machine, 0);
    }
    place(h[1], 1, second);
    CHECK_INT(machine_of(machine)->n, SHARERS);
    slots_of(bed.host)->held = fr_sys.alloc(sizeof(*slots_of(bed.host)->held));
    slots_of(bed.host)->cap_held = 1;
    turn_part(HOST_SHARE);
    test_rows(h);
    test_gang(h);
    test_over(h);
    check_row("it is lent its slots, and told so");
    h[0]->places[0].demand = (struct fr_demand){.single = 1, .single_ms = 3};
    slots_changed(bed.host, machine);
    turn_part(HOST_SHARE);
    settle_host(&bed);
    for (int i = 0; i < SHARERS; i++) {
        struct fr_id home;

        CHECK_INT(fr_run_demand(h[i]->run, 0, &home).slots, h[i]->places[0].lent);
    }
    check_row("a run that goes leaves its machine");
    cancel(&bed, "1");
    settle_host(&bed);
    CHECK_INT(machine_of(machine)->n, 2);
    CHECK_INT(machine_of(second)->n, 1);
    h[0] = h[1];
    check_share(h, "4 4 0");
    close_host(&bed);
    check_row("");
}

/* ---- what makes the host share anew ---- */

/* Since the last time. */
static bool has_changed(struct fr_id home)
{
    bool changed = machine_of(home)->changed;

    CHECK(!changed || slots_of(bed.host)->changed);
    machine_of(home)->changed = false;
    return changed;
}

static void drain(struct fr_id home)
{
    const struct fr_drained_row row = {.home = home, .name = "n", .note = "", .who = ""};

    CHECK_INT(fr_store_drain(bed.st, &row, NULL), FR_OK);
}

static void test_moves(struct host_run *h)
{
    check_row("its node is on another machine now, its other one stays");
    place(h, 1, machine);
    place(h, 0, second);
    CHECK(has_changed(machine));
    CHECK(has_changed(second));
    CHECK_INT(machine_of(machine)->n, 1);
    CHECK_INT(machine_of(machine)->users[0].node, 1);
    CHECK_INT(machine_of(second)->n, 1);
    check_row("both are on one");
    place(h, 1, second);
    place(h, 1, machine);
    CHECK_INT(machine_of(second)->users[0].node, 0);
    check_row("a machine is drained");
    CHECK_INT(slots_drained(bed.host, second, NULL), FR_OK);
    CHECK(!machine_of(second)->drained);
    drain(second);
    drain(third);
    CHECK(!machine_of(second)->drained);
    (void)has_changed(machine);
    bed.host->woken = slots_of(bed.host)->changed = false;
    CHECK_INT(slots_drained(bed.host, machine, NULL), FR_OK);
    CHECK(!machine_of(second)->drained && !machine_of(machine)->drained);
    CHECK_INT(slots_drained(bed.host, second, NULL), FR_OK);
    CHECK(bed.host->woken);
    CHECK(has_changed(machine)); /* gangs have slots of both */
    CHECK_INT(slots_drained(bed.host, second, NULL), FR_OK);
    CHECK(machine_of(second)->drained);
    check_row("a machine that was drained before");
    place(h, 1, third);
    CHECK(machine_of(third)->drained);
    CHECK_INT(machine_of(second)->users[0].node, 0);
}

static void test_changes(void)
{
    struct fr_demand none, changes[7];
    struct fr_id home;
    struct host_run *h;

    open_host(&bed);
    submit(&bed, "b.yaml", 4, "", "running");
    settle_host(&bed);
    h = host_find_no(bed.host, 4);
    check_row("a run comes to a machine");
    place(h, 0, machine);
    CHECK(has_changed(machine));
    decide(h);
    CHECK(!has_changed(machine));
    check_row("another demand");
    none = fr_run_demand(h->run, 0, &home);
    for (int i = 0; i < 7; i++)
        changes[i] = none;
    changes[0].used++;
    changes[1].single++;
    changes[2].gang++;
    changes[3].single_ms++;
    changes[4].gang_ms++;
    changes[5].gang_first = !none.gang_first;
    changes[6].slots++;
    for (int i = 0; i < 7; i++) {
        slots_of(bed.host)->changed = false;
        h->places[0].demand = changes[i];
        h->places[0].lent = 77;
        decide(h);
        CHECK(has_changed(machine) == (i < 6)); /* slots are what it was lent */
        CHECK_INT(h->places[0].lent, none.slots);
        decide(h);
        CHECK(!has_changed(machine));
    }
    test_moves(h);
    close_host(&bed);
    check_row("");
}

/* Runs whose inventories differ are told which number counts. */
static void test_smaller(void)
{
    static const struct {
        const char *name;
        int of[2]; /* slots that two runs give the machine, in the order in which they come */
        int told;  /* the run that is told; -1: none */
    } rows[] = {
        {"equal", {4, 4}, -1},
        {"the one that comes has fewer", {5, 4}, 0},
        {"the one that comes has more", {4, 5}, 1},
    };
    struct reader r = {0};
    char text[120];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int no = 5 + 2 * (int)i;

        check_row(rows[i].name);
        open_host(&bed);
        CHECK_INT(follow(&bed, &r, "", ""), 200);
        for (int k = 0; k < 2; k++)
            submit(&bed, rows[i].of[k] == 4 ? "b.yaml" : "a.yaml", no + k, "", "running");
        settle_host(&bed);
        for (int k = 0; k < 2; k++)
            place(host_find_no(bed.host, no + k), 0, machine);
        settle_host(&bed);
        CHECK(has(&r, "the smaller number counts") == (rows[i].told >= 0));
        snprintf(text, sizeof(text), "its machine is node n1 of run %d, too, which has 4 slots",
                 no + 1 - rows[i].told);
        CHECK(rows[i].told < 0 || has(&r, text));
        snprintf(text, sizeof(text), "\"run\":%d,", no + 1 - rows[i].told);
        CHECK(has(&r, "slots there (here 5)") == (rows[i].told >= 0));
        close_host(&bed);
        fr_buf_finish(&r.got);
        r = (struct reader){0};
    }
    check_row("");
}

/* ---- what is held by others ---- */

static struct {
    int queries, tombstones, destroyed;
    enum fr_rc query, tombstone; /* what they give */
    struct fr_exec real;
} asked;

static enum fr_rc fake_query(void *self, const struct fr_exec_attempt *v, size_t n,
                             struct fr_err *err)
{
    (void)self, (void)v, (void)err;
    asked.queries += (int)n;
    return asked.query;
}

static enum fr_rc fake_tombstone(void *self, struct fr_exec_attempt a, struct fr_err *err)
{
    (void)self, (void)a, (void)err;
    asked.tombstones++;
    return asked.tombstone;
}

static void fake_destroy(void *self)
{
    (void)self;
    asked.destroyed++;
    fr_exec_destroy(&asked.real);
}

static const struct fr_exec_ops fake = {
    .query = fake_query, .tombstone = fake_tombstone, .destroy = fake_destroy};

/* The machine answers about an attempt. */
static void answer(struct fr_exec_sink to, uint8_t attempt, int status, bool prepared)
{
    struct fr_exec_event *ev = fr_sys.alloc(sizeof(*ev));

    *ev = (struct fr_exec_event){.kind = status >= 0 ? FR_EXEC_STATE : FR_EXEC_UP,
                                 .attempt = {{attempt}}};
    if (status >= 0)
        ev->state = (struct fr_state){.status = (uint32_t)status, .prepared = prepared};
    bed.host->woken = false;
    to.post(to.arg, ev);
}

static void hold(uint32_t n, struct fr_id home, uint8_t first)
{
    struct host_slots *all = slots_of(bed.host);

    fr_sys.free(all->held);
    all->held = fr_sys.alloc((n + 1) * sizeof(*all->held));
    all->n_held = all->cap_held = n;
    for (uint32_t i = 0; i < n; i++)
        all->held[i] = (struct host_reservation){
            .row = {.home = home, .attempt = {{(uint8_t)(first + i)}}, .slots = 1 + i}};
}

/* When the timer is due at which machines are asked again. */
static const struct fr_loop_ops *real_loop;
static int64_t armed_ms;

static void note_arm(void *self, struct fr_timer *t, int64_t due_ms)
{
    if (t == slots_of(bed.host)->held_timer)
        armed_ms = due_ms - fr_sys.mono_ms();
    real_loop->arm(self, t, due_ms);
}

static int64_t stopped_ms(void)
{
    return 1000000;
}

/* Its time comes. */
static void come(void)
{
    CHECK_INT(armed_ms, 2000);
    armed_ms = 0;
    asked.queries = 0;
    real_loop->arm(bed.loop.self, slots_of(bed.host)->held_timer, fr_sys.mono_ms());
    settle_host(&bed);
}

/* What the machine says of each attempt, and what becomes of its slots. */
static const struct {
    const char *name;
    int status; /* -1: it says something else */
    bool prepared;
    enum fr_rc tombstone; /* how the order of one goes */
    bool kept, asked;     /* its slots are; it was asked, and has not answered */
    int tombstones;
} says[] = {
    {"it has never heard of it", FR_AT_UNKNOWN, false, FR_OK, false, false, 0},
    {"it may still start it: a tombstone", FR_AT_UNKNOWN, true, FR_OK, true, true, 1},
    {"a tombstone that could not be sent", FR_AT_UNKNOWN, true, FR_NOMEM, true, false, 1},
    {"it will start", FR_AT_PREPARED, true, FR_OK, true, false, 0},
    {"it runs", FR_AT_RUNNING, true, FR_OK, true, false, 0},
    {"it has ended", FR_AT_ENDED, true, FR_OK, false, false, 0},
    {"it never starts", FR_AT_TOMBSTONED, true, FR_OK, false, false, 0},
    {"it is being stopped", FR_AT_SWEEPING, true, FR_OK, true, false, 0},
    {"the machine is up", -1, true, FR_OK, true, true, 0},
};

static void test_says(struct fr_exec_sink to)
{
    struct host_slots *all = slots_of(bed.host);

    for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
        check_row(says[i].name);
        hold(2, machine, 1);
        all->held[0].asked = all->held[1].asked = true;
        (void)has_changed(machine);
        asked.tombstones = 0;
        asked.tombstone = says[i].tombstone;
        answer(to, 1, says[i].status, says[i].prepared);
        CHECK_INT(reservations_slots(bed.host, machine), says[i].kept ? 3 : 2);
        CHECK(bed.host->woken == !says[i].kept);
        CHECK(has_changed(machine) == !says[i].kept);
        CHECK_INT(asked.tombstones, says[i].tombstones);
        CHECK(!says[i].kept || all->held[0].asked == says[i].asked);
        CHECK(all->held[all->n_held - 1].asked);
    }
}

static void test_again(struct host_run *h)
{
    struct host_slots *all = slots_of(bed.host);

    check_row("every two seconds what has answered is asked again");
    hold(2, machine, 1);
    all->held[0].asked = true;
    asked.query = FR_NOMEM;
    come();
    CHECK_INT(asked.queries, 1);
    CHECK(!all->held[1].asked); /* what could not be asked is asked the next time */
    asked.query = FR_OK;
    come();
    CHECK_INT(asked.queries, 1);
    CHECK(all->held[1].asked);
    come();
    CHECK_INT(asked.queries, 0);
    check_row("nothing is held any more: the connection is left");
    CHECK_INT(asked.destroyed, 0);
    hold(1, second, 1);
    come();
    CHECK_INT(asked.destroyed, 1);
    CHECK(all->probes == NULL);
    CHECK_INT(armed_ms, 0);
    check_row("something is held again");
    hold(1, machine, 1);
    reservations_ask(h, 0, machine);
    CHECK_INT(armed_ms, 2000);
    CHECK(all->probes != NULL && all->held[0].asked);
    check_row("its host goes, and asks no more");
}

static void test_asking(void)
{
    struct fr_loop_ops loop;
    struct fr_exec_sink to;
    struct host_slots *all;
    struct host_run *h;

    open_host(&bed);
    real_loop = bed.loop.ops;
    loop = *real_loop;
    loop.arm = note_arm;
    bed.loop.ops = &loop;
    fr_sys.mono_ms = stopped_ms;
    all = slots_of(bed.host);
    submit(&bed, "b.yaml", 11, "", "running");
    settle_host(&bed);
    h = host_find_no(bed.host, 11);
    check_row("nothing is held: nobody is asked");
    place(h, 0, machine);
    CHECK(all->probes == NULL && all->held_timer == NULL);
    check_row("something is held: the machine is asked once its run is there");
    hold(3, machine, 1);
    all->held[2].row.home = second;
    CHECK_INT(reservations_slots(bed.host, machine), 3);
    reservations_ask(h, 0, machine);
    if (!CHECK(all->probes != NULL && all->probes->next == NULL))
        return;
    CHECK(all->held[0].asked && all->held[1].asked && !all->held[2].asked);
    reservations_ask(h, 0, machine);
    CHECK(all->probes->next == NULL);
    to = ((struct fr_joined *)all->probes->exec.self)->sink;
    asked.real = all->probes->exec;
    all->probes->exec.ops = &fake;
    test_says(to);
    test_again(h);
    bed.loop.ops = real_loop;
    close_host(&bed);
    fr_sys.mono_ms = fr_sys_real.mono_ms;
    check_row("");
}

/* What is read from the store counts at once. */
static void test_loaded(void)
{
    struct host_run *h;

    check_row("what an attempt of a run holds that is not driven any more");
    open_host(&bed);
    submit(&bed, "b.yaml", 12, "", "running");
    submit(&bed, "b.yaml", 13, "", "running");
    settle_host(&bed);
    h = host_find_no(bed.host, 12);
    place(h, 0, machine);
    CHECK_INT(sqlite3_exec(
                  bed.st->db,
                  "INSERT INTO attempt (id, run, idx, no, generation, node, rank, home_id, state, "
                  "log, started_wall, ended_wall, slots) SELECT "
                  "x'a1000000000000000000000000000000', id, 0, 1, 1, 'n1', 0, "
                  "x'b1000000000000000000000000000000', 'running', '', 1, 0, 3 FROM run WHERE no = "
                  "13; UPDATE instance SET live = 1, attempt_no = 1, attempt = "
                  "x'a1000000000000000000000000000000' WHERE idx = 0 AND run = (SELECT id FROM run "
                  "WHERE no = 13)",
                  NULL, NULL, NULL),
              SQLITE_OK);
    (void)has_changed(machine);
    slots_of(bed.host)->changed = false;
    turn_part(HOST_PARKED);
    CHECK_INT(reservations_slots(bed.host, machine), 0);
    CHECK(!has_changed(machine));
    fr_host_drop(bed.host, host_find_no(bed.host, 13)->run);
    slots_of(bed.host)->changed = false;
    (void)has_changed(machine);
    CHECK_INT(host_step(bed.host, HOST_PARKED, NULL), FR_OK);
    CHECK_INT(reservations_slots(bed.host, machine), 3);
    CHECK(has_changed(machine));
    check_row("a run comes to the machine: it is asked, but not about that run itself");
    CHECK(slots_of(bed.host)->probes == NULL);
    submit(&bed, "b.yaml", 14, "", "running");
    settle_host(&bed);
    place(host_find_no(bed.host, 14), 0, machine);
    CHECK(slots_of(bed.host)->probes != NULL);
    slots_of(bed.host)->held[0].row.run = fr_run_id(h->run);
    place(h, 0, second);
    CHECK_INT(reservations_slots(bed.host, machine), 3);
    place(h, 0, machine);
    CHECK_INT(reservations_slots(bed.host, machine), 0);
    close_host(&bed);
    check_row("");
}

int main(void)
{
    make_pipelines(&bed);
    test_shares();
    test_changes();
    test_smaller();
    test_asking();
    test_loaded();
    remove_home(bed.home);
    return check_done();
}

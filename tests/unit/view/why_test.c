/* What a ready instance waits for, from rows of the store: a table of runs on three nodes. */
#include "engine/view/why.h"
#include "engine/store/blob.h"
#include "engine/store/drained.h"
#include "engine/store/lead.h"
#include "tests/unit/sched/minispec.h"
#include "tests/unit/store/store_bed.h"

static char home[BED_HOME];

static struct fr_store *st;
static uint32_t epoch; /* of the host that drives the runs */

static struct fr_id id_of(int n)
{
    struct fr_id id = {{0}};

    id.b[0] = (uint8_t)n;
    return id;
}

static void add_run(int no, int64_t priority)
{
    struct fr_run_row row = {.id = id_of(no),
                             .host = epoch,
                             .priority = priority,
                             .name = "p",
                             .source = "/p.yaml",
                             .folder = "/",
                             .state = FR_RUN_RUNNING,
                             .params = "{}",
                             .origin = FR_ORIGIN_CLI};

    CHECK_INT(fr_store_run_add(st, &row, NULL), FR_OK);
    CHECK_INT(row.no, no);
}

/* An instance; live: its attempt is on machine HOME. */
static void add_inst(int run, const char *key, enum fr_state_of state, int machine, int slots)
{
    static int count;
    struct fr_id id = id_of(100 + ++count);
    char task[32];

    snprintf(task, sizeof(task), "%.*s", (int)strcspn(key, "@"), key);
    struct fr_inst_row inst = {.idx = count,
                               .key = key,
                               .task = task,
                               .node = strchr(key, '@') + 1,
                               .state = state,
                               .attempt_no = machine > 0,
                               .attempt = machine > 0 ? id : (struct fr_id){{0}},
                               .live = machine > 0};
    struct fr_attempt_row at = {.id = id,
                                .idx = count,
                                .no = 1,
                                .node = inst.node,
                                .home_id = id_of(machine),
                                .state = state,
                                .log = "x",
                                .slots = slots};
    CHECK_INT(fr_store_inst_put(st, id_of(run), &inst, NULL), FR_OK);
    if (machine > 0)
        CHECK_INT(fr_store_attempt_put(st, id_of(run), &at, NULL), FR_OK);
}

static void add_node(int run, const char *name, int machine, int64_t away_wall)
{
    struct fr_node_row row = {
        .name = name, .home_id = id_of(machine), .unreachable_wall = away_wall};

    CHECK_INT(fr_store_node_put(st, id_of(run), &row, NULL), FR_OK);
}

static const struct {
    const char *name, *key, *want;
    int max_parallel;
} rows[] = {
    {"there is room", "room@n1", "", 16},
    {"an instance of another state", "needs@n1", "", 16},
    {"slots that another run has, and this one", "big@n1",
     "waits for slots of n1, 4 of 8: live@n1 of run 1, other@x of run 2", 16},
    {"what is booked has none yet", "eight@n3", "", 16},
    {"the run's own limit", "room@n1", "waits for max_parallel, 2 of 2", 2},
    {"a gang counts once in it", "room@n1", "", 3},
    {"one that is not of the plan", "strange@n9", "", 16},
    {"one that does not wait, of a node that is away", "gone@n2", "", 16},
    {"a gang, for its first node that lacks something", "gang@n1",
     "waits for slots of n1, 4 of 8: live@n1 of run 1, other@x of run 2", 16},
    {"a node that is away", "away@n2", "waits for n2, which is unreachable", 16},
    {"a node that is not known yet", "new@control", "waits for the connection to control", 16},
};

static void check_ready(const struct fr_why *why, const struct fr_inst_rows *insts, const char *key,
                        const char *want)
{
    struct fr_buf got = {0};

    for (size_t k = 0; k < insts->n; k++)
        if (strcmp(insts->rows[k].key, key) == 0)
            fr_why_ready(why, &insts->rows[k], &got);
    CHECK_TEXT(got.p != NULL ? got.p : "", want);
    fr_buf_finish(&got);
}

static void check_now(const struct fr_plan *plan, const struct fr_inst_rows *insts, int run,
                      const char *key, const char *want)
{
    struct fr_why why;

    CHECK_INT(fr_why_open(&why, st, id_of(run), plan, insts, NULL), FR_OK);
    check_ready(&why, insts, key, want);
    fr_why_finish(&why);
}

/* Of run 1: n3 is full of attempts of run 2, and is drained then. */
static void test_machine(const struct fr_plan *plan, const struct fr_inst_rows *insts)
{
    struct fr_drained_row drained = {.home = id_of(3), .name = "n3", .note = "disks", .who = ""};

    check_row("four attempts are named");
    for (int i = 0; i < 4; i++)
        add_inst(2, (const char *[]){"s1@x", "s2@x", "s3@x", "s4@x"}[i], FR_ST_RUNNING, 3, 1);
#define FOUR "s1@x of run 2, s2@x of run 2, s3@x of run 2, s4@x of run 2"
    check_now(plan, insts, 1, "eight@n3", "waits for slots of n3, 4 of 8: " FOUR);
    check_row("of more than four there are others");
    add_inst(2, "s5@x", FR_ST_RUNNING, 3, 1);
    add_inst(2, "s6@x", FR_ST_RUNNING, 3, 1);
    check_now(plan, insts, 1, "eight@n3", "waits for slots of n3, 6 of 8: " FOUR ", …");
    check_row("drained");
    CHECK_INT(fr_store_drain(st, &drained, NULL), FR_OK);
    check_now(plan, insts, 1, "eight@n3", "waits for n3, which is drained: disks");
    check_now(plan, insts, 1, "away@n2", "waits for n2, which is unreachable");
    drained.note = "";
    CHECK_INT(fr_store_drain(st, &drained, NULL), FR_OK);
    check_now(plan, insts, 1, "eight@n3", "waits for n3, which is drained");
    CHECK_INT(fr_store_undrain(st, drained.home, NULL), FR_OK);
}

/* ---- gangs that collect slots ---- */

/* Others are `name: g` with a gang on two nodes; its copy lies in the home. */
static const char other_file[] = "name: g\n"
                                 "nodes:\n"
                                 "  - {name: x, executor: local, slots: 8}\n"
                                 "  - {name: y, executor: local, slots: 8}\n"
                                 "tasks: {train: {run: 'true', on: all, gang: true, slots: 6}}\n";

/* On those machines; host: that drives it. */
static void add_other(int no, int x, int y, int64_t priority, uint32_t host)
{
    char hash[FR_SHA256_TEXT];
    struct fr_run_row row = {.id = id_of(no),
                             .host = host,
                             .name = "g",
                             .source = "/g.yaml",
                             .folder = "/",
                             .state = FR_RUN_RUNNING,
                             .params =
                                 "{\"params\": [], \"env\": {}, \"folder\": \"/\", \"rules\": 2}",
                             .origin = FR_ORIGIN_CLI,
                             .priority = priority};

    CHECK_INT(fr_blob_put(home, fr_str_of(other_file), hash, NULL), FR_OK);
    row.spec_hash = hash;
    CHECK_INT(fr_store_run_add(st, &row, NULL), FR_OK);
    CHECK_INT(row.no, no);
    add_node(no, "x", x, 0);
    add_node(no, "y", y, 0);
    add_inst(no, "train@x", FR_ST_READY, 0, 0);
    add_inst(no, "train@y", FR_ST_READY, 0, 0);
}

static const struct {
    const char *name, *key, *want;
} kept[] = {
    {"free slots that gangs collect", "room@n1",
     "waits for slots of n1, 0 of 8; free ones are kept for the gang train of run 4 (6), the gang "
     "pair of run 3 (6)"},
    {"one of the run itself, on its other node", "slim@n2",
     "waits for slots of n2, 6 of 8: live@n2 of run 3; free ones are kept for the gang pair of run "
     "3 (6)"},
    {"what goes before it does not wait", "first@n2", ""},
    {"where no gang collects", "else@n3", ""},
    {"a gang behind another, and what it keeps", "pair@n1",
     "waits for slots of n1, 0 of 8; free ones are kept for the gang train of run 4 (6); it keeps "
     "free slots meanwhile: 6 of n1, 2 of n2"},
    {"a gang whose turn comes later", "late@n3",
     "waits for the gang pair of its run, which comes first"},
};

static void test_gangs(void)
{
    struct minispec m;
    struct fr_arena arena = {0};
    struct fr_plan *plan = NULL;
    struct fr_inst_rows insts = {0};
    struct fr_why why;

    mini_make(&m, "pair: @all gang slots=6; late: @n3 gang slots=1; live: @n2 slots=6; "
                  "first: @n2 slots=1; then: first; slim: @n2 slots=1; else: @n3 slots=1; "
                  "room: slots=3");
    m.tasks[0].n_nodes = 2; /* n1 and n2 */
    CHECK_INT(fr_plan_make(&m.spec, &arena, &plan, NULL), FR_OK);
    add_run(3, 0);
    add_other(4, 21, 4, 0, epoch);
    add_node(3, "n1", 21, 0);
    add_node(3, "n2", 7, 0);
    add_node(3, "n3", 8, 0);
    add_inst(3, "pair@n1", FR_ST_READY, 0, 0);
    add_inst(3, "pair@n2", FR_ST_READY, 0, 0);
    add_inst(3, "late@n3", FR_ST_READY, 0, 0);
    add_inst(3, "live@n2", FR_ST_RUNNING, 7, 6);
    add_inst(3, "first@n2", FR_ST_READY, 0, 0);
    add_inst(3, "slim@n2", FR_ST_READY, 0, 0);
    add_inst(3, "else@n3", FR_ST_READY, 0, 0);
    add_inst(3, "room@n1", FR_ST_READY, 0, 0);
    CHECK_INT(fr_store_insts(st, id_of(3), &arena, &insts, NULL), FR_OK);
    CHECK_INT(fr_why_open(&why, st, id_of(3), plan, &insts, NULL), FR_OK);
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        check_row(kept[i].name);
        check_ready(&why, &insts, kept[i].key, kept[i].want);
    }
    fr_why_finish(&why);
    check_row("no more than four gangs are named");
    for (int no = 5; no <= 7; no++)
        add_other(no, 21, 4, 0, epoch);
    check_now(plan, &insts, 3, "room@n1",
              "waits for slots of n1, 0 of 8; free ones are kept for the gang train of run 7 (6), "
              "the gang train of run 6 (6), the gang train of run 5 (6), the gang train of run 4 "
              "(6)");
    fr_arena_finish(&arena);
}

/* A gang on six nodes, of a run of priority 5. */
static void test_wide(void)
{
    static const int all[] = {0, 1, 2, 3, 4, 5};
    static const struct fr_node nodes[] = {{.name = "n1", .slots = 8}, {.name = "n2", .slots = 8},
                                           {.name = "n3", .slots = 8}, {.name = "n4", .slots = 8},
                                           {.name = "n5", .slots = 8}, {.name = "n6", .slots = 8}};
    struct minispec m;
    struct fr_arena arena = {0};
    struct fr_plan *plan = NULL;
    struct fr_inst_rows insts = {0};

    mini_make(&m, "later: @n2 gang slots=2; wide: @all gang slots=2; then: wide; last: then; "
                  "held: gang slots=8; h2: held; h3: h2; h4: h3; room: @n3 slots=3; some: slots=3");
    m.spec.nodes = (struct fr_node *)nodes;
    m.spec.n_nodes = 6;
    m.tasks[1].nodes = all;
    m.tasks[1].n_nodes = 6;
    CHECK_INT(fr_plan_make(&m.spec, &arena, &plan, NULL), FR_OK);
    add_run(8, 5);
    for (int n = 0; n < 6; n++)
        add_node(8, nodes[n].name, 31 + n, 0);
    add_inst(8, "later@n2", FR_ST_READY, 0, 0);
    for (int n = 0; n < 6; n++)
        add_inst(
            8,
            (const char *[]){"wide@n1", "wide@n2", "wide@n3", "wide@n4", "wide@n5", "wide@n6"}[n],
            FR_ST_READY, 0, 0);
    add_inst(8, "held@n1", FR_ST_WAITING, 0, 0);
    add_inst(8, "room@n3", FR_ST_READY, 0, 0);
    add_inst(8, "some@n1", FR_ST_READY, 0, 0);
    CHECK_INT(fr_store_insts(st, id_of(8), &arena, &insts, NULL), FR_OK);
    check_row("nothing is in its way; one that is not ready collects nothing");
    check_now(plan, &insts, 8, "wide@n1", "");
    check_now(plan, &insts, 8, "some@n1", "");
    check_row("gangs of runs that nobody drives, of a smaller priority, and of a larger one");
    add_other(9, 31, 4, 9, epoch + 1);
    add_other(10, 31, 4, 4, epoch);
    check_now(plan, &insts, 8, "some@n1", "");
    add_other(11, 33, 33, 6, epoch);
    check_row("a gang that is twice on one machine");
    check_now(plan, &insts, 8, "room@n3",
              "waits for slots of n3, 0 of 8; free ones are kept for the gang train of run 11 "
              "(12), the gang wide of run 8 (2)");
    check_row("no more than four nodes are named, and what is left of each");
    add_inst(2, "full@x", FR_ST_RUNNING, 32, 7);
    add_inst(2, "most@x", FR_ST_RUNNING, 36, 7);
    add_inst(2, "much@x", FR_ST_RUNNING, 34, 7);
    check_now(plan, &insts, 8, "wide@n1",
              "waits for slots of n2, 7 of 8: full@x of run 2; it keeps free slots meanwhile: 2 of "
              "n1, 1 of n2, 2 of n3, 1 of n4");
    check_row("one whose turn comes later keeps none");
    check_now(plan, &insts, 8, "later@n2", "waits for slots of n2, 7 of 8: full@x of run 2");
    fr_arena_finish(&arena);
}

int main(void)
{
    struct minispec m;
    struct fr_arena arena = {0};
    struct fr_plan *plan = NULL;
    struct fr_inst_rows insts = {0};

    make_home(home);
    st = open_store(home);
    CHECK_INT(fr_store_lead(st, &epoch, NULL), FR_OK);
    CHECK_INT(fr_store_begin(st, NULL), FR_OK);
    CHECK_INT(fr_store_commit(st, NULL), FR_OK);
    mini_make(
        &m, "live; room; needs; big: slots=5; eight: @n3 slots=8; booked: @n3; "
            "gang: @all gang slots=5; pair: @all gang; away: @n2; new: @control; gone: @n2; more");
    CHECK_INT(fr_plan_make(&m.spec, &arena, &plan, NULL), FR_OK);
    add_run(1, 0);
    add_run(2, 0);
    add_node(1, "n1", 1, 0);
    add_node(1, "n2", 2, 1000);
    add_node(1, "n3", 3, 0);
    add_inst(2, "other@x", FR_ST_RUNNING, 1, 3);
    add_inst(1, "live@n1", FR_ST_STARTING, 1, 1);
    add_inst(1, "room@n1", FR_ST_READY, 0, 0);
    add_inst(1, "needs@n1", FR_ST_WAITING, 0, 0);
    add_inst(1, "big@n1", FR_ST_READY, 0, 0);
    add_inst(1, "eight@n3", FR_ST_READY, 0, 0);
    add_inst(1, "booked@n3", FR_ST_READY, 3, 1);
    add_inst(1, "gang@n1", FR_ST_READY, 0, 0);
    add_inst(1, "away@n2", FR_ST_READY, 0, 0);
    add_inst(1, "new@control", FR_ST_READY, 0, 0);
    add_inst(1, "pair@n2", FR_ST_RUNNING, 2, 0);
    add_inst(1, "pair@n1", FR_ST_RUNNING, 4, 0);
    add_inst(1, "pair@n3", FR_ST_RUNNING, 6, 0);
    add_inst(1, "strange@n9", FR_ST_READY, 0, 0);
    add_inst(1, "odd@n9", FR_ST_RUNNING, 9, 0);
    add_inst(1, "gone@n2", FR_ST_WAITING, 0, 0);
    add_inst(1, "more@n1", FR_ST_WAITING, 0, 0);
    CHECK_INT(fr_store_insts(st, id_of(1), &arena, &insts, NULL), FR_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].name);
        plan->max_parallel = (uint32_t)rows[i].max_parallel;
        check_now(plan, &insts, 1, rows[i].key, rows[i].want);
    }
    plan->max_parallel = 16;
    test_machine(plan, &insts);
    fr_arena_finish(&arena);
    test_gangs();
    test_wide();
    fr_store_close(st);
    CHECK_INT(fr_remove_tree(home, NULL), FR_OK);
    return check_done();
}

/* What a ready instance waits for, from rows of the store: a table of runs on three nodes. */
#include "engine/view/why.h"
#include "engine/store/blob.h"
#include "tests/unit/minispec.h"
#include "tests/unit/store_bed.h"

static struct fr_store *st;

static struct fr_id id_of(int n)
{
    struct fr_id id = {{0}};

    id.b[0] = (uint8_t)n;
    return id;
}

static void add_run(int no)
{
    struct fr_run_row row = {.id = id_of(no),
                             .name = "p",
                             .source = "/p.yaml",
                             .folder = "/",
                             .state = "running",
                             .params = "{}",
                             .origin = "cli"};
    struct fr_err err = {0};

    CHECK_INT(fr_store_run_add(st, &row, &err), FR_OK);
    CHECK_INT(row.no, no);
}

/* An instance; live: its attempt is on machine HOME. */
static void add_inst(int run, const char *key, const char *state, int machine, int slots)
{
    static int count;
    struct fr_id id = id_of(100 + ++count);
    char task[32];
    struct fr_err err = {0};

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
    CHECK_INT(fr_store_inst_put(st, id_of(run), &inst, &err), FR_OK);
    if (machine > 0)
        CHECK_INT(fr_store_attempt_put(st, id_of(run), &at, &err), FR_OK);
}

static void add_node(int run, const char *name, int machine, int64_t away_wall)
{
    struct fr_node_row row = {
        .name = name, .home_id = id_of(machine), .unreachable_wall = away_wall};
    struct fr_err err = {0};

    CHECK_INT(fr_store_node_put(st, id_of(run), &row, &err), FR_OK);
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
    {"a gang, for its first node that lacks something", "gang@n1",
     "waits for slots of n1, 4 of 8: live@n1 of run 1, other@x of run 2", 16},
    {"a node that is away", "away@n2", "waits for n2, which is unreachable", 16},
    {"a node that is not known yet", "new@control", "waits for the connection to control", 16},
};

/* ---- gangs that collect slots ---- */

/* Run 2 is `name: g` with a gang on two nodes; its copy lies in the home. */
static const char other_file[] = "name: g\n"
                                 "nodes:\n"
                                 "  - {name: x, executor: local, slots: 8}\n"
                                 "  - {name: y, executor: local, slots: 8}\n"
                                 "tasks: {train: {run: 'true', on: all, gang: true, slots: 6}}\n";

static void add_other(int64_t priority)
{
    char hash[FR_SHA256_TEXT];
    struct fr_run_row row = {.id = id_of(4),
                             .name = "g",
                             .source = "/g.yaml",
                             .folder = "/",
                             .state = "running",
                             .params =
                                 "{\"params\": [], \"env\": {}, \"folder\": \"/\", \"rules\": 2}",
                             .origin = "cli",
                             .priority = priority};
    struct fr_err err = {0};

    CHECK_INT(fr_blob_put(home, fr_str_of(other_file), hash, &err), FR_OK);
    row.spec_hash = hash;
    CHECK_INT(fr_store_run_add(st, &row, &err), FR_OK);
    CHECK_INT(row.no, 4);
    add_node(4, "x", 21, 0);
    add_node(4, "y", 4, 0);
    add_inst(4, "train@x", "ready", 0, 0);
    add_inst(4, "train@y", "ready", 0, 0);
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
    struct fr_err err = {0};

    mini_make(&m, "pair: @all gang slots=6; late: @n3 gang slots=1; live: @n2 slots=6; "
                  "first: @n2 slots=1; then: first; slim: @n2 slots=1; else: @n3 slots=1; "
                  "room: slots=3");
    m.tasks[0].n_nodes = 2; /* n1 and n2 */
    CHECK_INT(fr_plan_make(&m.spec, &arena, &plan, &err), FR_OK);
    add_run(3);
    add_other(0);
    add_node(3, "n1", 21, 0);
    add_node(3, "n2", 7, 0);
    add_node(3, "n3", 8, 0);
    add_inst(3, "pair@n1", "ready", 0, 0);
    add_inst(3, "pair@n2", "ready", 0, 0);
    add_inst(3, "late@n3", "ready", 0, 0);
    add_inst(3, "live@n2", "running", 7, 6);
    add_inst(3, "first@n2", "ready", 0, 0);
    add_inst(3, "slim@n2", "ready", 0, 0);
    add_inst(3, "else@n3", "ready", 0, 0);
    add_inst(3, "room@n1", "ready", 0, 0);
    CHECK_INT(fr_store_insts(st, id_of(3), &arena, &insts, &err), FR_OK);
    CHECK_INT(fr_why_open(&why, st, id_of(3), plan, &insts, &err), FR_OK);
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        struct fr_buf got = {0};

        check_row(kept[i].name);
        for (size_t k = 0; k < insts.n; k++)
            if (strcmp(insts.rows[k].key, kept[i].key) == 0)
                fr_why_ready(&why, &insts.rows[k], &got);
        CHECK_TEXT(got.p != NULL ? got.p : "", kept[i].want);
        fr_buf_finish(&got);
    }
    fr_why_finish(&why);
    fr_arena_finish(&arena);
}

int main(void)
{
    struct minispec m;
    struct fr_arena arena = {0};
    struct fr_plan *plan = NULL;
    struct fr_inst_rows insts = {0};
    struct fr_err err = {0};

    make_home();
    st = open_store();
    mini_make(&m, "live; room; needs; big: slots=5; eight: @n3 slots=8; booked: @n3; "
                  "gang: @all gang slots=5; pair: @all gang; away: @n2; new: @control");
    CHECK_INT(fr_plan_make(&m.spec, &arena, &plan, &err), FR_OK);
    add_run(1);
    add_run(2);
    add_node(1, "n1", 1, 0);
    add_node(1, "n2", 2, 1000);
    add_node(1, "n3", 3, 0);
    add_inst(2, "other@x", "running", 1, 3);
    add_inst(1, "live@n1", "starting", 1, 1);
    add_inst(1, "room@n1", "ready", 0, 0);
    add_inst(1, "needs@n1", "waiting", 0, 0);
    add_inst(1, "big@n1", "ready", 0, 0);
    add_inst(1, "eight@n3", "ready", 0, 0);
    add_inst(1, "booked@n3", "ready", 3, 1);
    add_inst(1, "gang@n1", "ready", 0, 0);
    add_inst(1, "away@n2", "ready", 0, 0);
    add_inst(1, "new@control", "ready", 0, 0);
    add_inst(1, "pair@n2", "running", 2, 0);
    add_inst(1, "pair@n1", "running", 4, 0);
    CHECK_INT(fr_store_insts(st, id_of(1), &arena, &insts, &err), FR_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_why why;
        struct fr_buf got = {0};

        check_row(rows[i].name);
        plan->max_parallel = (uint32_t)rows[i].max_parallel;
        CHECK_INT(fr_why_open(&why, st, id_of(1), plan, &insts, &err), FR_OK);
        for (size_t k = 0; k < insts.n; k++)
            if (strcmp(insts.rows[k].key, rows[i].key) == 0)
                fr_why_ready(&why, &insts.rows[k], &got);
        CHECK_TEXT(got.p != NULL ? got.p : "", rows[i].want);
        fr_buf_finish(&got);
        fr_why_finish(&why);
    }
    fr_arena_finish(&arena);
    test_gangs();
    fr_store_close(st);
    CHECK_INT(fr_remove_tree(home, &err), FR_OK);
    return check_done();
}

/* What a host finds that came behind another one, and what its later followers do. */
#include "engine/admit/private.h"
#include "engine/exec/private.h"
#include "engine/runs/private.h"
#include "engine/spec/config.h"
#include "engine/store/sql.h"
#include "engine/stream/stream.h"
#include "tests/unit/host/host_bed.h"

static struct host_bed bed = HOST_BED;

static const char alone[] = "name: r\n"
                            "max_active_runs: 1\n"
                            "tasks: {one: {run: 'true'}, two: {needs: [one], run: 'true'}}\n";

/* The host goes between the commit of a submit and its answer. The client asks the next one: that
 * drives the run, which is the same. */
static void test_submit_over_hosts(void)
{
    open_host(&bed);
    make_body(&bed, ID, "");
    check_answer(ask(&bed, POST, "/api/v1/runs", bed.body), 201, "\"no\":1");
    make_body(&bed, OTHER, ", \"params\": {\"x\": 2}");
    check_answer(ask(&bed, POST, "/api/v1/runs", bed.body), 201, "\"no\":2");
    close_host(&bed);
    open_host(&bed);
    check_answer(ask(&bed, GET, "/api/v1/runs/" ID, NULL), 200, "\"driven\":false");
    make_body(&bed, ID, "");
    check_answer(ask(&bed, POST, "/api/v1/runs", bed.body), 200, "\"no\":1");
    check_answer(ask(&bed, GET, "/api/v1/runs/" ID, NULL), 200, "\"driven\":true");
    make_body(&bed, OTHER, ", \"params\": {\"x\": 2}");
    check_answer(ask(&bed, POST, "/api/v1/runs", bed.body), 200, "\"driven\":true");
    check_answer(ask(&bed, GET, "/api/v1/runs?before=1", NULL), 200, "\"items\":[]");
    cancel(&bed, "1");
    cancel(&bed, "2");
    close_host(&bed);
}

static void leave_run(const char *run)
{
    struct fr_arena arena = {0};
    struct fr_run_row row;

    CHECK_INT(fr_store_run_find(bed.st, run, &arena, &row, NULL), FR_OK);
    CHECK_INT(fr_store_run_host(bed.st, row.id, 0, NULL), FR_OK);
    fr_arena_finish(&arena);
}

/* Whether a run of r.yaml that came now would wait. */
static void check_waits(bool want)
{
    const struct fr_spec spec = {.name = "r", .max_active_runs = 1};
    bool wait = !want;

    CHECK_INT(queue_ask(bed.host, &spec, 0, &wait, NULL), FR_OK);
    CHECK_INT(wait, want);
}

/* A pool has to be there for a run that may start now. */
static void check_pools(void)
{
    const struct fr_spec spec = {.name = "r", .pool = "tpu"};
    struct fr_err err = {0};
    bool wait = false;

    check_row("a pool that is not there");
    CHECK_INT(queue_ask(bed.host, &spec, 0, &wait, &err), FR_USAGE);
    CHECK_TEXT(err.msg,
               "pool 'tpu' of pipeline 'r' is not among pools: of this home's config.yaml");
    check_row("it may be there when the time of the run comes");
    CHECK_INT(queue_ask(bed.host, &spec, INT64_MAX, &wait, NULL), FR_OK);
    CHECK_INT(wait, true);
}

/* Nobody follows them any more. A host that stays takes up the queued one: its turn still comes. */
static void test_left(void)
{
    put_file(bed.home, "r.yaml", alone);
    open_host(&bed);
    submit(&bed, "r.yaml", 3, "", "running");
    submit(&bed, "r.yaml", 4, "", "queued");
    leave_run("3");
    leave_run("4");
    close_host(&bed);
    open_host(&bed);
    fr_host_stay(bed.host);
    CHECK_INT(fr_host_recover(bed.host, NULL), FR_OK);
    check_answer(ask(&bed, GET, "/api/v1/runs/3", NULL), 200, "\"driven\":false");
    check_answer(ask(&bed, GET, "/api/v1/runs/4", NULL), 200, "\"driven\":true");
    check_row("its turn comes, before that of a run that comes just now");
    cancel(&bed, "3");
    check_states(&bed, 3, "3 cancelled, 4 queued (not started)");
    check_waits(true);
    settle_host(&bed);
    check_states(&bed, 3, "3 cancelled, 4 running");
    check_row("of a run that has its place no room in the queue is taken");
    bed.host->config.limits.max_queued = 1;
    check_waits(true);
    check_pools();
    check_row("");
    cancel(&bed, "4");
    check_waits(false);
    close_host(&bed);
}

/* Another host has ended the queued runs of one that does not know it yet. */
static void test_ended_by_another(void)
{
    struct fr_config config = {0};

    open_host(&bed);
    submit(&bed, "r.yaml", 5, "", "running");
    submit(&bed, "r.yaml", 6, "", "queued");
    CHECK_INT(sqlite3_exec(bed.st->db,
                           "UPDATE run SET state = 'over', outcome = 'succeeded' WHERE no >= 5",
                           NULL, NULL, NULL),
              SQLITE_OK);
    CHECK_INT(fr_host_configure(bed.host, &config, NULL), FR_OK); /* the queue is looked at */
    settle_host(&bed);
    check_states(&bed, 5, "5 succeeded, 6 succeeded (not started)");
    close_host(&bed);
}

static void break_link(void *arg)
{
    struct fr_err why = {0};

    (void)arg;
    fr_fail(&why, FR_UNREACHABLE, "no route");
    bed.opened.on_down(bed.opened.arg, &why, false);
}

/* Who comes later is told how the nodes are reached; who comes again knows it. */
static void test_late_follower(void)
{
    struct fr_post post = {.run = break_link};
    struct reader first = {0}, late = {0}, again = {0};
    char last[40];
    const char *id = "";

    open_host(&bed);
    bed.opened = (struct fr_link_events){0};
    submit(&bed, "r.yaml", 7, "", "running");
    CHECK_INT(follow(&bed, &first, "7", ""), 200);
    while (bed.opened.on_down == NULL && turn_host(&bed))
        ;
    fr_loop_post(&bed.loop, &post);
    turn_until(&bed, &first, "unreachable");
    CHECK_INT(follow(&bed, &late, "7", ""), 200);
    CHECK(has(&late, "\"text\":\"unreachable: no route; it is tried again"));
    CHECK(has(&late, "\"node\":\"local\",\"up\":false}"));
    for (const char *at = first.got.p; (at = strstr(at, "id: ")) != NULL; at++)
        id = at + 4;
    snprintf(last, sizeof(last), "%.*s", (int)strcspn(id, "\n"), id);
    CHECK_INT(follow(&bed, &again, "7", last), 200);
    CHECK(!has(&again, "event: note\n"));
    cancel(&bed, "7");
    close_host(&bed);
    fr_buf_finish(&first.got);
    fr_buf_finish(&late.got);
    fr_buf_finish(&again.got);
}

static void sql(const char *text)
{
    if (!CHECK_INT(sqlite3_exec(bed.st->db, text, NULL, NULL, NULL), SQLITE_OK))
        printf("   %s\n", sqlite3_errmsg(bed.st->db));
}

#define OF_RUN_8 "run = (SELECT id FROM run WHERE no = 8)"
/* An id of each of the two instances: a1…, a2…, where digit is a. */
#define BY_IDX(digit)                                                                              \
    "CASE idx WHEN 0 THEN x'" digit "1000000000000000000000000000000' "                            \
    "ELSE x'" digit "2000000000000000000000000000000' END"

/* The slots of two machines, as "3 2". */
static void check_held(const char *want)
{
    const struct fr_id one = {.b = {0xb1}}, two = {.b = {0xb2}};
    char got[40];

    snprintf(got, sizeof(got), "%u %u", reservations_slots(bed.host, one),
             reservations_slots(bed.host, two));
    CHECK_TEXT(got, want);
}

/* Of each attempt the newest length of its output is told. */
static void check_two_logs(void)
{
    struct host_run *h = host_find_no(bed.host, 8);
    struct reader r = {0};

    check_row("output of two attempts");
    CHECK_INT(follow(&bed, &r, "8", ""), 200);
    for (uint32_t i = 0; i < 2; i++) {
        const struct fr_note note = {.kind = FR_NOTE_LOG, .inst = i, .bytes.n = 5 + i};

        stream_part.note(h, h->run, &note);
    }
    stream_part.of_run[HOST_RUN_LEAVES](h);
    CHECK(has(&r, "\"attempt\":\"a1000000000000000000000000000000\",\"bytes\":5}"));
    CHECK(has(&r, "\"attempt\":\"a2000000000000000000000000000000\",\"bytes\":6}"));
    check_row("changes of two instances, by the newest of their events");
    stream_part.note(h, h->run,
                     &(struct fr_note){.kind = FR_NOTE_STATE,
                                       .seq = 7,
                                       .wall_ms = 100,
                                       .text = "",
                                       .row = {.state = FR_ST_RUNNING, .attempt_no = 1}});
    stream_part.note(h, h->run,
                     &(struct fr_note){.kind = FR_NOTE_STATE,
                                       .seq = 6,
                                       .wall_ms = 200,
                                       .text = "a \"b\"",
                                       .row = {.inst = 1,
                                               .state = FR_ST_RETRYING,
                                               .cause = FR_CAUSE_EXIT,
                                               .code = 3,
                                               .delay_ms = 500,
                                               .unreachable = true,
                                               .attempt_no = 2}});
    stream_part.of_run[HOST_RUN_LEAVES](h);
    CHECK(has(
        &r,
        "\nevent: inst\ndata: {\"run\":8,\"seq\":7,\"changes\":[[0,\"running\",1,\"\",0,\"\",100,0,"
        "0],[1,\"retrying\",2,\"exit\",3,\"a \\\"b\\\"\",200,700,1]]}\n\n"));
    bed.api.gone(bed.api.self, r.s);
    fr_buf_finish(&r.got);
}

/* What may live of a run that nobody drives keeps its slots, until that run is over or is driven.
 */
static void test_held(void)
{
    struct fr_arena arena = {0};
    struct fr_run_row row;

    open_host(&bed);
    submit(&bed, "r.yaml", 8, "", "running");
    close_host(&bed);
    open_host(&bed);
    check_row("attempts of a host that went");
    check_held("0 0");
    sql("INSERT INTO attempt (id, run, idx, no, generation, node, rank, home_id, state, log, "
        "started_wall, ended_wall, slots) SELECT " BY_IDX("a") ", run, idx, 1, 1, 'n', 0, " BY_IDX(
            "b") ", 'running', '', 1, 0, 3 - idx FROM instance WHERE " OF_RUN_8);
    sql("UPDATE instance SET live = 1, attempt_no = 1, attempt = " BY_IDX("a") " WHERE " OF_RUN_8);
    CHECK_INT(reservations_load(bed.host, NULL), FR_OK);
    check_held("3 2");
    CHECK_INT(reservations_load(bed.host, NULL), FR_OK);
    check_held("3 2");
    check_row("the next host finds them");
    close_host(&bed);
    open_host(&bed);
    check_held("3 2");
    check_row("one machine is asked by its run itself");
    CHECK_INT(fr_store_run_find(bed.st, "8", &arena, &row, NULL), FR_OK);
    reservations_forget(bed.host, (struct fr_id){.b = {1}}, (struct fr_id){.b = {0xb1}});
    check_held("3 2");
    reservations_forget(bed.host, row.id, (struct fr_id){.b = {0xb1}});
    check_held("0 2");
    check_row("one has ended");
    sql("UPDATE instance SET live = 0 WHERE idx = 1");
    CHECK_INT(reservations_load(bed.host, NULL), FR_OK);
    check_held("3 0");
    check_row("its run is driven");
    sql("UPDATE instance SET live = 0");
    check_answer(ask(&bed, POST, "/api/v1/runs/8/resume", "{}"), 202, NULL);
    sql("UPDATE instance SET live = 1");
    CHECK_INT(reservations_load(bed.host, NULL), FR_OK);
    check_held("0 0");
    check_two_logs();
    fr_arena_finish(&arena);
    close_host(&bed);
}

/* What was said of a node while nobody looked. */
static void test_node_before(void)
{
    const struct fr_note away = {
        .kind = FR_NOTE_NODE, .inst = FR_PLAN_NONE, .text = "it is away", .wall_ms = 5};
    struct fr_note cut = away;
    struct reader r = {0}, later = {0};
    struct host_run *h;

    check_row("a node that went before");
    open_host(&bed);
    submit(&bed, "p.yaml", 9, "", "running");
    h = host_find_no(bed.host, 9);
    stream_part.note(h, h->run, &away);
    CHECK_INT(follow(&bed, &r, "9", ""), 200);
    CHECK(has(&r,
              "event: note\ndata: {\"run\":9,\"wall\":5,\"text\":\"it is away\",\"node\":\"local\","
              "\"up\":false}\n\n"));
    check_row("a text that is no UTF-8 is sent to nobody, nor a part of it");
    cut.text = "away\xe2\x80";
    stream_part.note(h, h->run, &cut);
    CHECK_INT(follow(&bed, &later, "9", ""), 200);
    CHECK(!has(&later, "event: note"));
    cancel(&bed, "9");
    close_host(&bed);
    fr_buf_finish(&r.got);
    fr_buf_finish(&later.got);
    check_row("");
}

static bool has_agent(const char *path)
{
    const struct fr_nodes *nodes = bed.host->env.nodes;

    for (size_t i = 0; i < nodes->n_agents; i++)
        if (strcmp(nodes->agents[i], path) == 0)
            return true;
    return false;
}

/* Connections use the agent of whoever came last. */
static void test_agents(void)
{
    check_row("agents of shells");
    open_host(&bed);
    submit(&bed, "p.yaml", 10, ", \"agent\": \"/a/1\"", "running");
    CHECK(has_agent("/a/1"));
    check_answer(ask(&bed, POST, "/api/v1/runs/10/shell", "{\"agent\": \"/a/2\"}"), 202, NULL);
    CHECK(has_agent("/a/2") && !has_agent("/a/1"));
    check_row("of a second run");
    make_body(&bed, "0000000000000000000000000000000b", ", \"agent\": \"/a/3\"");
    check_answer(ask(&bed, POST, "/api/v1/runs", bed.body), 201, "\"no\":11,");
    CHECK(has_agent("/a/2") && has_agent("/a/3"));
    CHECK_TEXT(bed.host->env.nodes->agents[0], "/a/3");
    cancel(&bed, "10");
    settle_host(&bed);
    CHECK(!has_agent("/a/2") && has_agent("/a/3"));
    cancel(&bed, "11");
    close_host(&bed);
    check_row("");
}

/* The value that the run has of a secret, or of a variable that is none. */
static const char *value_of(struct host_run *h, const char *name)
{
    const char *value = shell_env(h, name);

    return value != NULL ? value : "none";
}

/* This process's own shell. */
static const char *own_env(void *self, const char *name)
{
    (void)self;
    return strcmp(name, "TOKEN") == 0 ? "own" : NULL;
}

/* Runs that are asked for over TCP, and those of schedules, have this process's own; what others
 * give counts behind it. */
static void test_own_shells(void)
{
    static const struct fr_api_caller ci = {FR_ROLE_ADMIN, "ci", "10.0.0.1", ""};
    static const char *const of[] = {"origin = 'api'", "schedule = 1, origin = 'schedule'"};
    char text[80];

    for (int i = 0; i < 2; i++) {
        struct host_run *h;

        check_row(of[i]);
        open_host(&bed);
        if (i == 0)
            submit(&bed, "p.yaml", 13, "", "running");
        snprintf(text, sizeof(text), "UPDATE run SET %s WHERE no = 13", of[i]);
        sql(text);
        close_host(&bed);
        open_host(&bed);
        *(i == 0 ? &bed.host->config.shell : &bed.host->config.schedule_shell) =
            (struct fr_run_shell){.getenv = own_env};
        bed.caller = &ci;
        check_answer(ask(&bed, POST, "/api/v1/runs/13/resume", "{}"), 202, NULL);
        bed.caller = NULL;
        check_answer(ask(&bed, POST, "/api/v1/runs/13/shell",
                         "{\"secrets\": {\"TOKEN\": \"other\", \"MORE\": \"m\"}}"),
                     202, NULL);
        h = host_find_no(bed.host, 13);
        CHECK_TEXT(value_of(h, "TOKEN"), "own");
        CHECK_TEXT(value_of(h, "MORE"), "m");
        close_host(&bed);
    }
    check_row("");
}

/* Who resumes or follows a run gives it the newest values of its secrets. */
static void test_shells(void)
{
    struct host_run *h;

    check_row("secrets that come later");
    open_host(&bed);
    submit(&bed, "p.yaml", 12, "", "running");
    h = host_find_no(bed.host, 12);
    CHECK_TEXT(value_of(h, "TOKEN"), "planted-secret");
    CHECK_TEXT(value_of(h, "WHO"), "me");
    check_answer(ask(&bed, POST, "/api/v1/runs/12/shell",
                     "{\"secrets\": {\"TOKEN\": \"second\", \"MORE\": \"m\"}}"),
                 202, NULL);
    CHECK_TEXT(value_of(h, "TOKEN"), "second");
    CHECK_TEXT(value_of(h, "MORE"), "m");
    CHECK_TEXT(value_of(h, "NONE"), "none");
    close_host(&bed);
    check_row("of a run that was resumed without any");
    open_host(&bed);
    check_answer(ask(&bed, POST, "/api/v1/runs/12/resume", "{}"), 202, NULL);
    h = host_find_no(bed.host, 12);
    CHECK_TEXT(value_of(h, "TOKEN"), "none");
    check_answer(ask(&bed, POST, "/api/v1/runs/12/shell", "{\"secrets\": {\"TOKEN\": \"third\"}}"),
                 202, NULL);
    CHECK_TEXT(value_of(h, "TOKEN"), "third");
    cancel(&bed, "12");
    close_host(&bed);
    check_row("");
}

int main(void)
{
    make_pipelines(&bed);
    test_submit_over_hosts();
    test_left();
    test_ended_by_another();
    test_late_follower();
    test_held();
    test_node_before();
    test_agents();
    test_shells();
    test_own_shells();
    remove_home(bed.home);
    return check_done();
}

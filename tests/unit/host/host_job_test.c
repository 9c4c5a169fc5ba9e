/* What takes long holds no other run of the host: submits that are read slowly, or have many
 * instances; sweeps; another process that holds the store. A run that leaves takes nothing from one
 * that is being made. */
#include "engine/retain/retain.h"
#include "engine/store/lead.h"
#include "tests/unit/host/host_bed.h"

#include <fcntl.h>
#include <semaphore.h>
#include <sqlite3.h>
#include <unistd.h>

static struct host_bed bed = HOST_BED;

static const char limited[] = "name: l\nmax_active_runs: 1\ntasks: {one: {run: 'true'}}\n";

static void write_file(const char *name, const char *text)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/%s", bed.home, name);
    CHECK_INT(fr_file_write(path, text, strlen(text), 0600, NULL), FR_OK);
}

struct asked { /* a request that waits for its answer */
    struct fr_api_waiter waiter;
    bool again;
    char path[80], body[400];
    struct fr_api_response res;
};

static void ask_once(struct asked *a)
{
    struct fr_api_request req = {.method = POST,
                                 .path = a->path,
                                 .body = fr_str_of(a->body),
                                 .content_type = "application/json",
                                 .range = "",
                                 .if_none_match = "",
                                 .last_event_id = "",
                                 .waiter = &a->waiter};

    fr_api_response_finish(&a->res);
    a->again = false;
    bed.api.answer(bed.api.self, &req, &a->res);
}

static void begin_ask(struct asked *a, const char *path, const char *file, const char *id)
{
    *a = (struct asked){.waiter = {.again = on_again, .arg = &a->again}};
    snprintf(a->path, sizeof(a->path), "%s", path);
    snprintf(a->body, sizeof(a->body), "{}");
    if (file != NULL)
        snprintf(a->body, sizeof(a->body),
                 "{\"pipeline\": \"%s/%s\", \"cwd\": \"/\", \"id\": \"%s\", \"env\": "
                 "{\"WHO\": \"me\"}, \"secrets\": {\"TOKEN\": \"planted-secret\"}}",
                 bed.home, file, id);
    ask_once(a);
}

static void wait_for(struct asked *a)
{
    while (!a->again && turn_host(&bed))
        ;
    ask_once(a);
}

static sqlite3 *raw_db(void)
{
    sqlite3 *db = NULL;
    char path[300];

    snprintf(path, sizeof(path), "%s/state.db", bed.home);
    CHECK(sqlite3_open(path, &db) == SQLITE_OK);
    return db;
}

static int (*open_now)(const char *path, int flags, mode_t mode);
static sem_t comes;

/* Of slow.yaml: not before it comes. */
static int open_slowly(const char *path, int flags, mode_t mode)
{
    size_t n = strlen(path);

    if (n > 10 && strcmp(path + n - 10, "/slow.yaml") == 0) {
        while (sem_wait(&comes) != 0)
            ;
        sem_post(&comes);
    }
    return open_now(path, flags, mode);
}

static void hold_slow(void)
{
    write_file("slow.yaml", pipeline);
    CHECK_INT(sem_init(&comes, 0, 0), 0);
    open_now = fr_sys.open;
    fr_sys.open = open_slowly;
}

static void let_slow(void)
{
    fr_sys.open = open_now;
    sem_destroy(&comes);
}

/* A pipeline on a file system that hangs: other submits are answered, other runs go on. */
static void test_slow_file(void)
{
    struct asked slow, second, third, gone, sweep;

    check_row("a pipeline that cannot be read yet");
    open_host(&bed);
    hold_slow();
    begin_ask(&slow, "/api/v1/runs", "slow.yaml", ID);
    CHECK_INT(slow.res.status, FR_API_LATER);
    begin_ask(&second, "/api/v1/runs", "slow.yaml", ID);
    CHECK_INT(second.res.status, FR_API_LATER);
    begin_ask(&gone, "/api/v1/runs", "slow.yaml", ID);
    begin_ask(&third, "/api/v1/runs", "slow.yaml", ID);
    CHECK_INT(third.res.status, FR_API_LATER);
    begin_ask(&sweep, "/api/v1/sweep", NULL, NULL);
    CHECK_INT(sweep.res.status, FR_API_LATER);
    check_row("another run is cancelled meanwhile");
    check_answer(ask(&bed, POST, "/api/v1/runs/1/cancel", "{}"), 202, NULL);
    turn_until_over(&bed, "1");
    CHECK(!slow.again && !second.again && !sweep.again);
    check_row("one that has gone is not told");
    bed.api.forget(bed.api.self, &gone.waiter);
    check_row("it comes");
    sem_post(&comes);
    wait_for(&slow);
    CHECK_INT(slow.res.status, 201);
    wait_for(&second);
    CHECK_INT(second.res.status, 200); /* the same run */
    wait_for(&third);
    CHECK_INT(third.res.status, 200);
    CHECK(!gone.again);
    wait_for(&sweep);
    CHECK_INT(sweep.res.status, 200);
    fr_api_response_finish(&slow.res);
    fr_api_response_finish(&second.res);
    fr_api_response_finish(&third.res);
    fr_api_response_finish(&sweep.res);
    close_host(&bed);
    let_slow();
    check_row("");
}

/* The host leaves while a run is being made, and its store with it: what comes then is dropped by
 * the loop, whose next turn is for that alone. */
static void test_left_behind(void)
{
    struct asked slow;

    check_row("a run is made longer than its host lives");
    open_host(&bed);
    hold_slow();
    begin_ask(&slow, "/api/v1/runs", "slow.yaml", OTHER);
    CHECK_INT(slow.res.status, FR_API_LATER);
    fr_api_response_finish(&slow.res);
    fr_host_destroy(bed.host);
    fr_store_close(bed.st);
    sem_post(&comes);
    CHECK_INT(fr_loop_turn(&bed.loop, true, NULL), FR_OK);
    fr_loop_destroy(&bed.loop);
    let_slow();
    open_host(&bed);
    CHECK_INT(count_rows(&bed, OTHER), 0);
    close_host(&bed);
    check_row("");
}

enum { MANY = 1800 };

static void write_many(void)
{
    struct fr_buf b = {0};

    fr_buf_text(&b, "name: many\ntasks:\n");
    for (int i = 0; i < MANY; i++)
        fr_buf_fmt(&b, "  t%d: {run: 'true'}\n", i);
    write_file("many.yaml", b.p);
    fr_buf_finish(&b);
}

static void check_later(const char *path)
{
    bool again = false;
    struct fr_api_waiter waiter = {.again = on_again, .arg = &again};
    struct fr_api_request req = {.path = path,
                                 .content_type = "",
                                 .range = "",
                                 .if_none_match = "",
                                 .last_event_id = "",
                                 .waiter = &waiter};
    struct fr_api_response res = {0};

    bed.api.answer(bed.api.self, &req, &res);
    CHECK_INT(res.status, FR_API_LATER);
    bed.api.forget(bed.api.self, &waiter);
    CHECK(!again);
}

/* Ready tasks, as the queue lists them. */
static size_t count_waiting(void)
{
    struct fr_api_response res = ask(&bed, GET, "/api/v1/queue", NULL);
    size_t n = 0;

    fr_buf_add(&res.body, "", 1);
    for (const char *at = res.body.p; (at = strstr(at, "\"why_waiting\":")) != NULL; at++)
        n++;
    fr_api_response_finish(&res);
    return n;
}

/* A run of many instances comes in slices: another one is cancelled between two of them. */
static void test_many(void)
{
    struct asked many;
    size_t rows = 0, before = 0, slices = 0;

    check_row("a run of many instances");
    open_host(&bed);
    submit(&bed, "l.yaml", 3, "", "running");
    begin_ask(&many, "/api/v1/runs", "many.yaml", OTHER);
    while (!many.again && turn_host(&bed)) {
        rows = count_rows(&bed, OTHER);
        CHECK(rows <= before + FR_RUN_PUT_ROWS);
        slices += rows > before;
        if (rows > before && before == 0) {
            check_answer(ask(&bed, POST, "/api/v1/runs/" OTHER "/cancel", "{}"), 409, "submitted");
            check_answer(ask(&bed, POST, "/api/v1/runs/3/cancel", "{}"), 202, NULL);
            CHECK(!many.again);
            rows = count_rows(&bed, OTHER); /* its commit had a slice, too */
        }
        before = rows;
    }
    CHECK_INT(rows, MANY);
    CHECK(slices >= MANY / FR_RUN_PUT_ROWS);
    wait_for(&many);
    CHECK_INT(many.res.status, 201);
    check_answer(ask(&bed, GET, "/api/v1/runs/" OTHER, NULL), 200, "\"driven\":true");
    check_row("they are read in a thread, and the asker may go meanwhile");
    check_later("/api/v1/runs/" OTHER);
    check_later("/api/v1/runs/" OTHER "/instances");
    check_answer(ask(&bed, GET, "/api/v1/runs/" OTHER "/instances", NULL), 200, "\"idx\":1799,");
    check_row("of what waits the first two hundred are listed");
    CHECK_INT(count_waiting(), 200);

    check_row("killed between two slices: what has no row waits");
    close_host(&bed);
    sqlite3 *db = raw_db();
    CHECK(sqlite3_exec(db, "DELETE FROM instance WHERE idx >= 500", NULL, NULL, NULL) == SQLITE_OK);
    sqlite3_close(db);
    open_host(&bed);
    check_answer(ask(&bed, POST, "/api/v1/runs/" OTHER "/resume", "{}"), 202,
                 "\"state\":\"running\"");
    for (rows = 0; rows < MANY && turn_host(&bed);)
        rows = count_rows(&bed, OTHER);
    check_answer(ask(&bed, POST, "/api/v1/runs/" OTHER "/cancel", "{}"), 202, NULL);
    turn_until_over(&bed, OTHER);
    fr_api_response_finish(&many.res);
    close_host(&bed);
    check_row("");
}

/* Another process writes for a while: the host goes on with what needs no commit, and writes then.
 * Nobody is told. */
static void test_busy(void)
{
    struct reader r = {0};
    struct asked other;
    sqlite3 *db = raw_db();

    check_row("another process writes");
    open_host(&bed);
    submit(&bed, "l.yaml", 5, "", "running");
    CHECK_INT(follow(&bed, &r, "5", ""), 200);
    CHECK(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK);
    begin_ask(&other, "/api/v1/runs", "p.yaml", "0000000000000000000000000000beef");
    for (int i = 0; i < 10; i++)
        turn_host(&bed);
    CHECK(!other.again);
    check_answer(ask(&bed, GET, "/api/v1/runs/5", NULL), 200, "\"driven\":true");
    CHECK(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL) == SQLITE_OK);
    wait_for(&other);
    CHECK_INT(other.res.status, 201);
    CHECK(!has(&r, "cannot be written"));
    fr_api_response_finish(&other.res);
    close_host(&bed);
    fr_buf_finish(&r.got);
    sqlite3_close(db);
    check_row("");
}

/* What the next host has stored, and names in no row yet, is not this one's to remove. */
static void test_sweep_of_old_host(void)
{
    struct fr_store *next = open_store(bed.home);
    struct asked sweep;
    char hash[FR_SHA256_TEXT], blob[400];
    uint32_t epoch;

    check_row("a sweep of a host that another one has followed");
    open_host(&bed);
    CHECK_INT(fr_store_lead(bed.st, &epoch, NULL), FR_OK);
    CHECK_INT(fr_store_begin(bed.st, NULL), FR_OK);
    CHECK_INT(fr_store_commit(bed.st, NULL), FR_OK);
    CHECK_INT(fr_blob_put(bed.home, FR_STR("of nobody"), hash, NULL), FR_OK);
    begin_ask(&sweep, "/api/v1/sweep", NULL, NULL);
    wait_for(&sweep);
    CHECK_INT(sweep.res.status, 200);
    fr_buf_add(&sweep.res.body, "", 1);
    CHECK_TEXT(sweep.res.body.p, "{\"files\":1,\"bytes\":9}");
    fr_api_response_finish(&sweep.res);
    CHECK_INT(fr_store_lead(next, &epoch, NULL), FR_OK);
    CHECK_INT(fr_store_begin(next, NULL), FR_OK);
    CHECK_INT(fr_store_commit(next, NULL), FR_OK);
    CHECK_INT(fr_blob_put(bed.home, FR_STR("of the next host"), hash, NULL), FR_OK);
    begin_ask(&sweep, "/api/v1/sweep", NULL, NULL);
    wait_for(&sweep);
    CHECK_INT(sweep.res.status, 403);
    snprintf(blob, sizeof(blob), "%s/blobs/%s", bed.home, hash);
    CHECK(access(blob, F_OK) == 0);
    fr_api_response_finish(&sweep.res);
    close_host(&bed);
    fr_store_close(next);
    check_row("");
}

/* ---- a turn that takes long ---- */

static int64_t now_ms;  /* the clock */
static int64_t jump_ms; /* with the next allocation */

static int64_t stopped_ms(void)
{
    return now_ms;
}

static void *jumping_alloc(size_t n)
{
    now_ms += jump_ms;
    jump_ms = 0;
    return fr_sys_real.alloc(n);
}

static const char *slow_path = "/api/v1/runs/7/events"; /* answered at once, as the next one */

static void ask_slowly(void *arg)
{
    jump_ms = *(const int64_t *)arg;
    check_answer(ask(&bed, GET, slow_path, NULL), 200, NULL);
}

static size_t count_slow(void)
{
    return (size_t)fr_loop_slow(&bed.loop).slow;
}

/* What held all runs is counted, and users are told of what they may have noticed. */
static void test_slow_turn(void)
{
    int64_t little = 300, much = 1300;
    struct fr_post noise = {.run = ask_slowly, .arg = &little};
    struct fr_post post = {.run = ask_slowly, .arg = &much};
    size_t before;
    struct reader r = {0};

    check_row("a long turn");
    now_ms = fr_sys.mono_ms();
    fr_sys.mono_ms = stopped_ms;
    fr_sys.alloc = jumping_alloc;
    open_host(&bed);
    submit(&bed, "p.yaml", 7, "", "running");
    CHECK_INT(follow(&bed, &r, "7", ""), 200);
    before = count_slow();
    fr_loop_post(&bed.loop, &noise);
    settle_host(&bed);
    CHECK(count_slow() > before);
    CHECK(!has(&r, "held up"));
    fr_loop_post(&bed.loop, &post);
    turn_until(&bed, &r, "this home's host was held up for 1300 ms");
    CHECK(has(&r, "mostly by the request GET /api/v1/runs/7/events (1300 ms)"));
    check_answer(ask(&bed, GET, "/api/v1/host", NULL), 200,
                 "\"held_by\":\"the request GET /api/v1/runs/7/events\"");
    check_row("one as long is not told so soon again, one twice as long is");
    fr_loop_post(&bed.loop, &post);
    settle_host(&bed);
    CHECK(strstr(strstr(r.got.p, "held up") + 1, "held up") == NULL);
    much = 3900;
    fr_loop_post(&bed.loop, &post);
    turn_until(&bed, &r, "this home's host was held up for 3900 ms");
    check_row("a shorter one behind it");
    before = count_slow();
    slow_path = "/api/v1/runs/7/audit";
    fr_loop_post(&bed.loop, &noise);
    settle_host(&bed);
    CHECK(count_slow() > before);
    check_answer(ask(&bed, GET, "/api/v1/host", NULL), 200,
                 "\"held_by\":\"the request GET /api/v1/runs/7/events\"");
    fr_sys.mono_ms = fr_sys_real.mono_ms;
    fr_sys.alloc = fr_sys_real.alloc;
    close_host(&bed);
    fr_buf_finish(&r.got);
    check_row("");
}

/* ---- the last run of a file leaves while a new one of it is made ---- */

static char source_hash[FR_SHA256_TEXT];
static sem_t looked, go_on;
static bool stops;

/* The thread that makes a run has seen that the file's blob is there. */
static int stopping_lstat(const char *path, struct stat *at)
{
    int rc = fr_sys_real.lstat(path, at);

    if (stops && strstr(path, source_hash) != NULL) {
        stops = false;
        sem_post(&looked);
        sem_wait(&go_on);
    }
    return rc;
}

static void remove_run(struct fr_id run)
{
    bool more = true;

    CHECK_INT(fr_retain_remove(bed.st, run, NULL), FR_OK);
    while (more && CHECK_INT(fr_retain_step(bed.st, &more, NULL), FR_OK))
        ;
}

static void test_last_of_file(void)
{
    static const char text[] = "name: last\ntasks: {one: {run: 'true'}}\n";
    struct fr_run_row run = {
        .id = {{7}}, .name = "last", .state = FR_RUN_OVER, .outcome = FR_OUT_FAILED};
    struct asked made;
    char blob[400];

    check_row("the last run of a file leaves while a new one is made");
    open_host(&bed);
    write_file("last.yaml", text);
    CHECK_INT(fr_blob_put(bed.home, fr_str_of(text), source_hash, NULL), FR_OK);
    run.spec_hash = source_hash;
    CHECK_INT(fr_store_run_add(bed.st, &run, NULL), FR_OK);
    sem_init(&looked, 0, 0);
    sem_init(&go_on, 0, 0);
    fr_sys.lstat = stopping_lstat;
    stops = true;
    begin_ask(&made, "/api/v1/runs", "last.yaml", "00000000000000000000000000000a57");
    sem_wait(&looked);
    remove_run(run.id);
    sem_post(&go_on);
    wait_for(&made);
    CHECK_INT(made.res.status, 201);
    snprintf(blob, sizeof(blob), "%s/blobs/%s", bed.home, source_hash);
    CHECK(access(blob, F_OK) == 0);
    fr_sys.lstat = fr_sys_real.lstat;
    check_row("then that one, too");
    check_answer(ask(&bed, POST, "/api/v1/runs/00000000000000000000000000000a57/cancel", "{}"), 202,
                 NULL);
    turn_until_over(&bed, "00000000000000000000000000000a57");
    CHECK(fr_id_parse(FR_STR("00000000000000000000000000000a57"), &run.id));
    remove_run(run.id);
    CHECK(access(blob, F_OK) != 0);
    fr_api_response_finish(&made.res);
    close_host(&bed);
    check_row("");
}

int main(void)
{
    make_home(bed.home);
    write_file("p.yaml", pipeline);
    write_file("l.yaml", limited);
    write_many();
    open_host(&bed);
    submit(&bed, "p.yaml", 1, "", "running");
    close_host(&bed);
    test_slow_file();
    test_left_behind();
    test_many();
    test_busy();
    test_slow_turn();
    test_last_of_file();
    test_sweep_of_old_host();
    check_sound(bed.home);
    remove_home(bed.home);
    return check_done();
}

/* A turn of the host, part by part: which commits are synced, which runs decide and act, what is
 * written of new runs, which runs are parked, and how many jobs run at once, in which order. */
#include "engine/runs/job.h"
#include "engine/runs/private.h"
#include "engine/store/sql.h"
#include "tests/unit/host/host_bed.h"

static struct host_bed bed = HOST_BED;

enum { SOON = 100000 };

/* ---- a part that the test sees through ---- */

static struct {
    struct host_run *failing; /* cannot go on */
    enum fr_rc rc;
    struct host_run *decided[8];
    size_t n;
    int parked, settled, leaves, gone;
} seen;

static enum fr_rc on_decided(struct host_run *h, struct fr_err *err)
{
    if (seen.n < 8)
        seen.decided[seen.n++] = h;
    return h == seen.failing ? fr_fail(err, seen.rc, "a planted fault") : FR_OK;
}

static enum fr_rc on_parked(struct fr_host *host, struct fr_err *err)
{
    (void)host, (void)err;
    seen.parked++;
    return FR_OK;
}

static void on_settled(struct host_run *h)
{
    (void)h;
    seen.settled++;
}

static void on_leaves(struct host_run *h)
{
    (void)h;
    seen.leaves++;
}

static void on_gone(struct host_run *h)
{
    (void)h;
    seen.gone++;
}

static const struct host_part part = {
    .name = "test",
    .step = {[HOST_PARKED] = on_parked},
    .of_run =
        {[HOST_RUN_SETTLED] = on_settled, [HOST_RUN_LEAVES] = on_leaves, [HOST_RUN_GONE] = on_gone},
    .decided = on_decided,
};

static const struct host_part *list[20];

/* The host with that part behind its own. */
static void open_seen(void)
{
    size_t n = 0;

    open_host(&bed);
    for (; bed.host->parts[n] != NULL; n++)
        list[n] = bed.host->parts[n];
    list[n] = &part;
    list[n + 1] = NULL;
    bed.host->parts = list;
    memset(&seen, 0, sizeof(seen));
}

static struct host_run *find(int no)
{
    return host_find_no(bed.host, no);
}

static int64_t host_of(const char *run)
{
    struct fr_arena arena = {0};
    struct fr_run_row row = {0};

    CHECK_INT(fr_store_run_find(bed.st, run, &arena, &row, NULL), FR_OK);
    fr_arena_finish(&arena);
    return row.host;
}

/* ---- commits ---- */

static int commits, synced;
static bool refuses;

static int on_commit(void *arg)
{
    (void)arg;
    commits++;
    synced += !bed.st->soft;
    return refuses;
}

enum due { NONE, SOFT, HARD };

static const struct {
    const char *name;
    enum due of[2]; /* what two runs have to write */
    bool makes;     /* a new run has rows to write */
    bool sync;
} syncs[] = {
    {"what can be found out again", {SOFT, NONE}, false, false},
    {"of two runs", {SOFT, SOFT}, false, false},
    {"what cannot, behind it", {SOFT, HARD}, false, true},
    {"what cannot, before it", {HARD, SOFT}, false, true},
    {"beside one that writes nothing", {NONE, HARD}, false, true},
    {"with the rows of a new run", {SOFT, NONE}, true, true},
};

static struct fr_run_due due_of(enum due what)
{
    return (struct fr_run_due){
        .drain_ms = INT64_MAX, .commit_ms = what == NONE ? INT64_MAX : 0, .soft = what == SOFT};
}

static void *first_job(bool made)
{
    for (struct host_job *job = bed.host->jobs.first; job != NULL; job = job->next)
        if (job->ops->makes && (job->state == JOB_MADE) == made)
            return job;
    return NULL;
}

struct asked { /* a submit that waits for its answer */
    struct fr_api_waiter waiter;
    bool again;
    char body[400];
};

static int ask_once(struct asked *a)
{
    struct fr_api_request req = {.method = POST,
                                 .path = "/api/v1/runs",
                                 .body = fr_str_of(a->body),
                                 .content_type = "application/json",
                                 .range = "",
                                 .if_none_match = "",
                                 .last_event_id = "",
                                 .waiter = &a->waiter};
    struct fr_api_response res = {0};
    int status;

    a->again = false;
    bed.api.answer(bed.api.self, &req, &res);
    status = res.status;
    fr_api_response_finish(&res);
    return status;
}

static void begin_ask(struct asked *a, const char *file, int no)
{
    *a = (struct asked){.waiter = {.again = on_again, .arg = &a->again}};
    snprintf(a->body, sizeof(a->body),
             "{\"pipeline\": \"%s/%s\", \"cwd\": \"/\", \"id\": \"%032x\", \"env\": {\"WHO\": "
             "\"me\"}, \"secrets\": {\"TOKEN\": \"planted-secret\"}}",
             bed.home, file, 0xabc000 + no);
    CHECK_INT(ask_once(a), FR_API_LATER);
}

static void wait_for(struct asked *a, int status)
{
    while (!a->again && turn_host(&bed))
        ;
    CHECK_INT(ask_once(a), status);
}

static void test_syncs(void)
{
    struct fr_err err = {0};
    struct asked a;

    open_seen();
    submit(&bed, "p.yaml", 1, "", "running");
    submit(&bed, "p.yaml", 2, "", "running");
    settle_host(&bed);
    sqlite3_commit_hook(bed.st->db, on_commit, NULL);
    for (size_t i = 0; i < sizeof(syncs) / sizeof(syncs[0]); i++) {
        check_row(syncs[i].name);
        if (syncs[i].makes) {
            begin_ask(&a, "p.yaml", 3);
            while (first_job(true) == NULL)
                CHECK_INT(fr_loop_turn(&bed.loop, true, NULL), FR_OK);
        }
        for (int k = 0; k < 2; k++)
            find(k + 1)->due = due_of(syncs[i].of[k]);
        commits = synced = 0;
        CHECK_INT(host_commit_due(bed.host), 0);
        CHECK_INT(host_commit(bed.host, &err), FR_OK);
        CHECK_INT(commits, 1);
        CHECK_INT(synced, syncs[i].sync);
        for (int k = 0; k < 2; k++) /* each that had rows has acted */
            CHECK_INT(find(k + 1)->due.commit_ms, INT64_MAX);
        CHECK_INT(host_commit_due(bed.host), INT64_MAX);
    }
    wait_for(&a, 201);
    check_row("the earliest of several");
    find(1)->due.commit_ms = 7;
    find(2)->due.commit_ms = 5;
    find(3)->due.commit_ms = 6;
    CHECK_INT(host_commit_due(bed.host), 5);
    check_row("one that writes nothing does not act");
    find(1)->due = (struct fr_run_due){.commit_ms = 0, .drain_ms = 7};
    find(2)->due = (struct fr_run_due){.commit_ms = INT64_MAX, .drain_ms = 7};
    find(3)->due = due_of(NONE);
    CHECK_INT(host_commit(bed.host, &err), FR_OK);
    CHECK(find(1)->due.drain_ms != 7);
    CHECK_INT(find(2)->due.drain_ms, 7);
    sqlite3_commit_hook(bed.st->db, NULL, NULL);
    close_host(&bed);
}

/* ---- which runs decide ---- */

static bool has_decided(int no)
{
    bool yes = false;

    for (size_t i = 0; i < seen.n; i++)
        yes = yes || seen.decided[i] == find(no);
    return yes;
}

static void decide(bool *sent)
{
    struct fr_err err = {0};

    memset(&seen.decided, 0, sizeof(seen.decided));
    seen.n = 0;
    CHECK_INT(host_decide(bed.host, sent, &err), FR_OK);
}

/* A run that cannot go on leaves alone; those behind it decide in the same turn. */
static void test_given_up(void)
{
    struct reader r = {0};
    bool sent;

    open_seen();
    for (int no = 4; no <= 7; no++)
        submit(&bed, "p.yaml", no, "", "running");
    CHECK_INT(follow(&bed, &r, "4", ""), 200);
    settle_host(&bed);
    check_row("a run whose time has come, and one that is woken");
    for (int no = 4; no <= 7; no++)
        find(no)->due = due_of(NONE);
    decide(&sent);
    CHECK_INT(seen.n, 0);
    find(5)->due.drain_ms = fr_sys.mono_ms();
    find(6)->due.drain_ms = fr_sys.mono_ms() + SOON;
    find(7)->woken = true;
    bed.host->woken = true;
    decide(&sent);
    CHECK_INT(seen.n, 2);
    CHECK(has_decided(5) && has_decided(7));
    CHECK(!find(7)->woken && !bed.host->woken && !sent);
    check_row("a run that cannot go on");
    seen.failing = find(4);
    seen.rc = FR_CORRUPT;
    seen.leaves = seen.gone = 0;
    for (int no = 4; no <= 7; no++)
        find(no)->woken = true;
    decide(&sent);
    CHECK_INT(seen.n, 4);
    CHECK(find(4) == NULL && has_decided(5) && has_decided(6) && has_decided(7));
    CHECK_INT(seen.leaves, 1);
    CHECK_INT(seen.gone, 1);
    CHECK_INT(host_of("4"), 0);
    CHECK(host_of("5") != 0);
    CHECK(has(&r, "a planted fault"));
    check_row("one that cannot be written, as another host is there");
    seen.failing = NULL;
    bed.api.gone(bed.api.self, r.s);
    fr_buf_finish(&r.got);
    close_host(&bed);
}

/* ---- which runs are parked ---- */

static int64_t begin_ms, ahead_ms;

static int64_t moved_ms(void)
{
    return begin_ms + ahead_ms;
}

static void test_parked(void)
{
    struct fr_err err = {0};
    struct host_run *h;

    begin_ms = fr_sys_real.mono_ms();
    fr_sys.mono_ms = moved_ms;
    open_seen();
    submit(&bed, "p.yaml", 8, "", "running");
    submit(&bed, "p.yaml", 9, "", "running");
    settle_host(&bed);
    check_row("the first that is to be parked");
    find(8)->due = find(9)->due = due_of(NONE);
    find(8)->alone_ms = moved_ms() - 1000;
    find(9)->alone_ms = moved_ms() - 2000;
    CHECK_INT(host_tidy_due(bed.host), moved_ms() + 3000);
    find(8)->alone_ms = moved_ms() - 2500;
    CHECK_INT(host_tidy_due(bed.host), moved_ms() + 2500);
    check_row("one with rows that are not written yet is not parked");
    h = find(8);
    h->due.commit_ms = moved_ms() + SOON;
    CHECK_INT(host_tidy_due(bed.host), moved_ms() + 3000);
    h->alone_ms = moved_ms() - 5000;
    seen.settled = 0;
    CHECK_INT(host_tidy(bed.host, &err), FR_OK);
    CHECK_INT(seen.settled, 2);
    CHECK(find(8) == h);
    CHECK_INT(seen.parked, 0);
    check_row("not before its time");
    h->due = due_of(NONE);
    h->alone_ms++;
    CHECK_INT(host_tidy(bed.host, &err), FR_OK);
    CHECK(find(8) == h);
    check_row("then it is, and its slots are of a run that is not driven");
    h->alone_ms--;
    CHECK_INT(host_tidy(bed.host, &err), FR_OK);
    CHECK(find(8) == NULL && find(9) != NULL);
    CHECK_INT(seen.parked, 1);
    CHECK_INT(host_of("8"), 0);
    CHECK(host_of("9") != 0);
    close_host(&bed);
    fr_sys.mono_ms = fr_sys_real.mono_ms;
    check_row("");
}

/* ---- new runs ---- */

enum { MANY = 700 };

static void write_many(void)
{
    struct fr_buf b = {0};

    fr_buf_text(&b, "name: m\ntasks:\n");
    for (int i = 0; i < MANY; i++)
        fr_buf_fmt(&b, "  t%d: {run: x}\n", i);
    put_file(bed.home, "m.yaml", b.p);
    fr_buf_finish(&b);
}

static size_t count_all(void)
{
    sqlite3_stmt *q = NULL;
    size_t n = 0;

    CHECK_INT(sqlite3_prepare_v2(bed.st->db, "SELECT count(*) FROM instance", -1, &q, NULL),
              SQLITE_OK);
    if (sqlite3_step(q) == SQLITE_ROW)
        n = (size_t)sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    return n;
}

/* Rows of all new runs together are limited in each commit. */
static void test_rows(void)
{
    struct asked a[3];
    size_t rows, was, all;

    check_row("several new runs of many instances");
    write_many();
    open_host(&bed);
    rows = count_all();
    all = rows + 3 * MANY;
    for (int i = 0; i < 3; i++)
        begin_ask(&a[i], "m.yaml", 20 + i);
    while (first_job(false) != NULL)
        CHECK_INT(fr_loop_turn(&bed.loop, true, NULL), FR_OK);
    for (size_t turns = 0; rows < all && turns < MANY; turns++) {
        was = rows;
        turn_host(&bed);
        rows = count_all();
        CHECK(rows <= was + FR_RUN_PUT_ROWS);
    }
    CHECK_INT(rows, all);
    for (int i = 0; i < 3; i++)
        wait_for(&a[i], 201);
    close_host(&bed);
    check_row("");
}

/* ---- jobs ---- */

static size_t count_jobs(enum job_state state, const struct job_ops *ops)
{
    size_t n = 0;

    for (const struct host_job *job = bed.host->jobs.first; job != NULL; job = job->next)
        n += job->state == state && job->ops == ops;
    return n;
}

static int free_calls, over_calls;

static void nothing_long(struct host_job *job)
{
    (void)job;
}

static void on_free(struct host_job *job)
{
    (void)job;
    free_calls++;
}

static void on_ended(struct host_job *job)
{
    (void)job;
    over_calls++;
}

static const struct job_ops plain = {.in_thread = nothing_long, .free = on_free, .ended = on_ended};
static const struct job_ops twice = {.in_thread = nothing_long, .most = 2};
static const struct job_ops alone = {.in_thread = nothing_long, .alone = true};
static const struct job_ops makes = {.in_thread = nothing_long, .makes = true};

/* Jobs in their order, and which of them run at once: a letter each, in upper case where it runs.
 * p plain, t of which two may run, a alone, m makes a run, M as it is made, o over. */
static const struct {
    const char *jobs, *want;
} starts[] = {
    {"ppp", "PPP"}, {"ppppp", "PPPPp"}, {"ttttp", "TTttP"}, {"tptptp", "TPTPtp"},
    {"ap", "Ap"},   {"pa", "PA"},       {"am", "Am"},       {"ma", "Ma"},
    {"map", "Map"}, {"pap", "PAp"},     {"aa", "Aa"},       {"nap", "nap"},
    {"oap", "oAp"}, {"mmmmm", "MMMMm"}, {"nmp", "nMP"},     {"pppptt", "PPPPtt"},
};

static void test_starts(void)
{
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        const char *at = starts[i].jobs;
        char got[16] = "";
        size_t n = 0;

        check_row(starts[i].jobs);
        open_host(&bed);
        for (; *at != '\0'; at++) {
            const struct job_ops *ops = *at == 't'   ? &twice
                                        : *at == 'a' ? &alone
                                        : *at == 'p' ? &plain
                                                     : &makes;
            struct host_job *job =
                job_add(bed.host, ops, sizeof(*job), (struct fr_id){.b = {(uint8_t)*at}});

            if (*at == 'n' || *at == 'o')
                job->state = *at == 'n' ? JOB_MADE : JOB_OVER;
        }
        job_start_all(bed.host);
        at = starts[i].jobs;
        for (struct host_job *job = bed.host->jobs.first; job != NULL; job = job->next, at++)
            got[n++] = job->state == JOB_RUNS ? (char)(*at - 'a' + 'A') : *at;
        CHECK_TEXT(got, starts[i].want);
        for (struct host_job *job = bed.host->jobs.first; job != NULL; job = job->next)
            if (job->state == JOB_MADE)
                job->state = JOB_OVER; /* nobody writes its rows */
        fr_host_destroy(bed.host);
        fr_loop_destroy(&bed.loop);
        fr_store_close(bed.st);
        bed.host = NULL;
    }
    check_row("");
}

static bool none_runs(void)
{
    return count_jobs(JOB_RUNS, &plain) + count_jobs(JOB_WAITS, &plain) == 0;
}

/* Who waits for a job is called once it is over, the last to come first, unless it has gone; a job
 * that nobody asks for is forgotten ten seconds later. */
static void test_waiters(void)
{
    bool again[3] = {false};
    struct fr_api_waiter w[3];
    struct host_job *job;

    fr_sys.mono_ms = moved_ms;
    open_host(&bed);
    settle_host(&bed);
    while (bed.host->jobs.first != NULL && turn_host(&bed))
        ;
    check_row("three wait, and the one between goes");
    free_calls = over_calls = 0;
    job = job_add(bed.host, &plain, sizeof(*job), (struct fr_id){{1}});
    for (int i = 0; i < 3; i++) {
        w[i] = (struct fr_api_waiter){.again = on_again, .arg = &again[i]};
        job_wait(job, &w[i]);
        CHECK(job_of(bed.host, &w[i]) == job);
    }
    job_wait(job, NULL);
    job_unwait(bed.host, &w[1]);
    job_start_all(bed.host);
    while (!none_runs() && turn_host(&bed))
        ;
    CHECK(again[0] && !again[1] && again[2]);
    CHECK(job_over(job) && job->waiters == NULL);
    CHECK_INT(over_calls, 1);
    CHECK(w[0].next == NULL && w[2].next == NULL);
    check_row("it is kept for who asks again");
    ahead_ms += 10000;
    jobs_tidy(bed.host);
    CHECK(bed.host->jobs.first == job);
    CHECK_INT(free_calls, 0);
    check_row("and then forgotten");
    ahead_ms++;
    jobs_tidy(bed.host);
    CHECK(bed.host->jobs.first == NULL);
    CHECK_INT(free_calls, 1);
    CHECK(job_of(bed.host, &w[0]) == NULL);
    close_host(&bed);
    fr_sys.mono_ms = fr_sys_real.mono_ms;
    check_row("");
}

/* What a submit leaves that was not made is removed: the copies of its files, and the mark that it
 * was begun. */
static size_t count_files(const char *folder)
{
    char path[400];
    char **names = NULL;
    size_t n = 0;

    snprintf(path, sizeof(path), "%s/%s", bed.home, folder);
    (void)fr_sys.list(path, &names, &n);
    fr_sys_names_free(names, n);
    return n;
}

static void until_tidy(void)
{
    settle_host(&bed);
    while ((bed.host->jobs.untidy || bed.host->jobs.first != NULL) && turn_host(&bed))
        if (bed.host->jobs.first != NULL && job_over(bed.host->jobs.first))
            settle_host(&bed), ahead_ms += 10001;
}

static void test_leftovers(void)
{
    static const char unlike[] = "name: u\ntasks: {u: {run: 'nothing like it'}}\n";
    size_t blobs;
    struct asked a;

    fr_sys.mono_ms = moved_ms;
    open_host(&bed);
    until_tidy();
    blobs = count_files("blobs");
    CHECK_INT(count_files("begun"), 0);
    check_row("a submit whose first rows cannot be written");
    put_file(bed.home, "u.yaml", unlike);
    sqlite3_commit_hook(bed.st->db, on_commit, NULL);
    begin_ask(&a, "u.yaml", 30);
    refuses = true;
    while (!a.again && turn_host(&bed))
        ;
    refuses = false;
    ahead_ms += 1100; /* the commit is tried again */
    CHECK_INT(ask_once(&a), 500);
    sqlite3_commit_hook(bed.st->db, NULL, NULL);
    until_tidy();
    CHECK_INT(count_files("blobs"), blobs);
    CHECK_INT(count_files("begun"), 0);
    check_row("one that is refused: it is made later");
    begin_ask(&a, "u.yaml", 30);
    wait_for(&a, 201);
    CHECK_INT(count_files("blobs"), blobs + 1);
    close_host(&bed);
    fr_sys.mono_ms = fr_sys_real.mono_ms;
    check_row("");
}

int main(void)
{
    make_pipelines(&bed);
    test_syncs();
    test_given_up();
    test_parked();
    test_rows();
    test_starts();
    test_waiters();
    test_leftovers();
    remove_home(bed.home);
    return check_done();
}

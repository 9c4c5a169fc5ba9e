/* How runs join a host: in which shell, woken by what, with which agents and zones; what a submit
 * or a resume leaves; how a commit waits for another process. */
#include "engine/exec/private.h"
#include "engine/run/state.h"
#include "engine/runs/job.h"
#include "engine/runs/private.h"
#include "engine/spec/config.h"
#include "engine/store/sql.h"
#include "tests/unit/host/host_bed.h"

static struct host_bed bed = HOST_BED;

static struct host_run *find(int no)
{
    return host_find_no(bed.host, no);
}

static const char *own_env(void *self, const char *name)
{
    (void)self;
    return strcmp(name, "TOKEN") == 0 ? "own" : strcmp(name, "WHO") == 0 ? "serve" : NULL;
}

/* ---- shells ---- */

static void check_shell(const struct host_run *h, const char *cwd, uint32_t umask, bool stored)
{
    const struct fr_run_shell *shell = &h->run->env.shell;

    CHECK_TEXT(shell->cwd, cwd);
    CHECK_INT(shell->umask, umask);
    CHECK_INT(shell->stored, stored);
}

/* Run 2, when that is what made it; the host has a shell for each kind of run. */
static void check_resumed(const char *row, enum fr_origin origin, int schedule, uint32_t umask,
                          bool stored)
{
    struct fr_resume_opts opts = {.run = "2"};
    struct fr_issues issues = {0};
    struct host_run *h = NULL;
    char sql[80];

    check_row(row);
    open_host(&bed);
    bed.host->config.shell =
        (struct fr_run_shell){.cwd = "/web", .getenv = own_env, .umask = FR_UMASK_SET | 7};
    bed.host->config.schedule_shell =
        (struct fr_run_shell){.cwd = "/night", .getenv = own_env, .umask = FR_UMASK_SET | 5};
    snprintf(sql, sizeof(sql), "UPDATE run SET origin = '%s', schedule = %d WHERE no = 2",
             fr_origin_name(origin), schedule);
    CHECK_INT(sqlite3_exec(bed.st->db, sql, NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(host_resume(bed.host, &opts, NULL, &h, &issues, NULL), FR_OK);
    check_shell(h, "/", umask, stored);
    fr_issues_finish(&issues);
    close_host(&bed);
}

static void test_shells(void)
{
    const struct fr_host_own own = {
        .shell = {.cwd = "/own", .getenv = own_env, .umask = FR_UMASK_SET | 7}};
    struct fr_submit submit_own = {.spec = {.cwd = "/"}, .origin = FR_ORIGIN_CLI};
    struct fr_issues issues = {0};
    struct fr_run *run = NULL;
    char path[300];

    open_host(&bed);
    check_row("of a submit");
    submit(&bed, "p.yaml", 1, ", \"umask\": 18", "running");
    check_shell(find(1), "/", FR_UMASK_SET | 18, false);
    check_row("without an umask");
    submit(&bed, "p.yaml", 2, "", "running");
    check_shell(find(2), "/", 0, false);
    check_row("of this process");
    snprintf(path, sizeof(path), "%s/p.yaml", bed.home);
    submit_own.spec.path = path;
    CHECK_INT(fr_id_new(&submit_own.id, NULL), FR_OK);
    CHECK_INT(fr_host_submit(bed.host, &submit_own, &own, &run, &issues, NULL), FR_OK);
    check_shell(host_find(bed.host, fr_run_id(run)), "/own", FR_UMASK_SET | 7, false);
    fr_host_drop(bed.host, run);
    close_host(&bed);
    check_row("of a resume without one: what is stored");
    open_host(&bed);
    check_answer(ask(&bed, POST, "/api/v1/runs/2/resume", "{}"), 202, NULL);
    check_shell(find(2), "/", 0, true);
    close_host(&bed);
    check_resumed("of a resume by a host with a shell: not of who submitted here", FR_ORIGIN_CLI, 0,
                  0, true);
    check_resumed("of who has none", FR_ORIGIN_API, 0, FR_UMASK_SET | 7, false);
    check_resumed("of a schedule", FR_ORIGIN_CLI, 1, FR_UMASK_SET | 5, false);
    check_resumed("of a schedule, asked for over TCP", FR_ORIGIN_API, 1, FR_UMASK_SET | 5, false);
    fr_issues_finish(&issues);
    check_row("");
}

/* ---- what wakes the host ---- */

static void test_wakes(void)
{
    open_host(&bed);
    submit(&bed, "p.yaml", 4, "", "running");
    settle_host(&bed);
    check_row("a run has something to do");
    bed.host->woken = find(4)->woken = false;
    fr_run_cancel(find(4)->run);
    CHECK(bed.host->woken);
    CHECK(find(4)->woken);
    check_row("a thread is over");
    settle_host(&bed);
    bed.host->woken = false;
    CHECK(size_begin(bed.host, (struct fr_id){{1}}) != NULL);
    while (bed.host->jobs.first->state == JOB_RUNS)
        if (!CHECK_INT(fr_loop_turn(&bed.loop, true, NULL), FR_OK))
            break;
    CHECK(bed.host->woken);
    close_host(&bed);
    check_row("");
}

/* ---- agents, zones ---- */

static bool has_agent(const char *path)
{
    const struct fr_nodes *nodes = bed.host->env.nodes;

    for (size_t i = 0; i < nodes->n_agents; i++)
        if (strcmp(nodes->agents[i], path) == 0)
            return true;
    return false;
}

static void test_agents(void)
{
    char more[60], want[20];

    check_row("this process's own agent, from the first run on");
    CHECK_INT(setenv("SSH_AUTH_SOCK", "/a/own", 1), 0);
    open_host(&bed);
    submit(&bed, "p.yaml", 5, "", "running");
    CHECK(has_agent("/a/own"));
    check_row("beside sixteen others");
    for (int i = 0; i < 17; i++) {
        snprintf(more, sizeof(more), ", \"agent\": \"/a/%d\"", i);
        submit(&bed, "p.yaml", 6 + i, more, "running");
    }
    CHECK_INT(bed.host->env.nodes->n_agents, 17);
    for (int i = 0; i < 17; i++) {
        snprintf(want, sizeof(want), "/a/%d", i);
        CHECK(has_agent(want) == (i > 0));
    }
    CHECK_TEXT(bed.host->env.nodes->agents[16], "/a/own");
    check_row("one of those leaves");
    host_forget(bed.host, find(22));
    CHECK(!has_agent("/a/16") && has_agent("/a/0"));
    close_host(&bed);
    check_row("what is no path is none");
    CHECK_INT(setenv("SSH_AUTH_SOCK", "own", 1), 0);
    open_host(&bed);
    submit(&bed, "p.yaml", 23, "", "running");
    CHECK_INT(bed.host->env.nodes->n_agents, 0);
    close_host(&bed);
    CHECK_INT(unsetenv("SSH_AUTH_SOCK"), 0);
    check_row("");
}

static void test_zones(void)
{
    const struct fr_config berlin = {.zone = "Europe/Berlin"}, none = {0};
    const struct fr_host_own own = {.shell = {.cwd = "/", .getenv = own_env}};
    struct fr_submit submit_own = {.spec = {.cwd = "/"}, .origin = FR_ORIGIN_CLI};
    struct fr_issues issues = {0};
    struct fr_run *run = NULL;
    char path[300];

    check_row("the zone of schedules that name none");
    open_host(&bed);
    CHECK_TEXT(host_zones(bed.host).home, "UTC");
    CHECK_INT(fr_host_configure(bed.host, &berlin, NULL), FR_OK);
    CHECK_TEXT(host_zones(bed.host).home, "Europe/Berlin");
    CHECK_INT(fr_host_configure(bed.host, &none, NULL), FR_OK);
    CHECK_TEXT(host_zones(bed.host).home, "UTC");
    check_row("a zone that is none, of a run of this process");
    put_file(bed.home, "z.yaml",
             "name: z\nschedule: {cron: \"0 2 * * *\", zone: Mars/Base}\ntasks: {a: {run: x}}\n");
    snprintf(path, sizeof(path), "%s/z.yaml", bed.home);
    submit_own.spec.path = path;
    CHECK_INT(fr_id_new(&submit_own.id, NULL), FR_OK);
    bed.host->jobs.untidy = false;
    CHECK(fr_host_submit(bed.host, &submit_own, &own, &run, &issues, NULL) != FR_OK);
    CHECK(run == NULL);
    CHECK(issues.n > 0 && strstr(issues.lines[0], "Mars/Base") != NULL);
    check_row("what it leaves is removed");
    CHECK(bed.host->jobs.untidy);
    fr_issues_finish(&issues);
    close_host(&bed);
    check_row("");
}

/* A resume with another file may leave a copy of that. */
static void test_resume_file(void)
{
    struct fr_resume_opts opts = {.run = "24"};
    struct fr_issues issues = {0};
    struct host_run *h = NULL;
    char path[300];

    open_host(&bed);
    submit(&bed, "p.yaml", 24, "", "running");
    close_host(&bed);
    for (int i = 0; i < 2; i++) {
        enum fr_rc rc;

        check_row(i == 0 ? "a resume" : "a resume with a file, also one that fails");
        open_host(&bed);
        bed.host->jobs.untidy = false;
        snprintf(path, sizeof(path), "%s/p.yaml", bed.home);
        opts.file = i == 0 ? NULL : path;
        rc = host_resume(bed.host, &opts, NULL, &h, &issues, NULL);
        CHECK(rc == FR_OK || i == 1);
        CHECK_INT(bed.host->jobs.untidy, i);
        fr_issues_finish(&issues);
        close_host(&bed);
    }
    check_row("");
}

/* ---- another process writes ---- */

static int64_t ahead_ms;

static int64_t moved_ms(void)
{
    return 1000000 + ahead_ms;
}

static int busy_ms(void)
{
    sqlite3_stmt *q = NULL;
    int ms = -1;

    CHECK_INT(sqlite3_prepare_v2(bed.st->db, "PRAGMA busy_timeout", -1, &q, NULL), SQLITE_OK);
    if (sqlite3_step(q) == SQLITE_ROW)
        ms = sqlite3_column_int(q, 0);
    sqlite3_finalize(q);
    return ms;
}

static void test_busy(void)
{
    struct fr_err err = {0};
    sqlite3 *db = NULL;
    char path[300];
    int patience;

    fr_sys.mono_ms = moved_ms;
    open_host(&bed);
    patience = busy_ms();
    submit(&bed, "p.yaml", 25, "", "running");
    settle_host(&bed);
    snprintf(path, sizeof(path), "%s/state.db", bed.home);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    find(25)->due.commit_ms = 0;
    check_row("it is tried again soon");
    CHECK_INT(host_commit(bed.host, &err), FR_OK);
    CHECK_INT(host_commit_due(bed.host), moved_ms() + 20);
    CHECK_INT(busy_ms(), patience);
    ahead_ms += 4999;
    CHECK_INT(host_commit(bed.host, &err), FR_OK);
    CHECK_INT(host_commit_due(bed.host), moved_ms() + 20);
    CHECK(!bed.host->commit.unwritten);
    check_row("and after five seconds seldom");
    ahead_ms++;
    CHECK_INT(host_commit(bed.host, &err), FR_OK);
    CHECK_INT(host_commit_due(bed.host), moved_ms() + 1000);
    CHECK(bed.host->commit.unwritten);
    check_row("it is written");
    CHECK_INT(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    CHECK_INT(host_commit(bed.host, &err), FR_OK);
    CHECK_INT(host_commit_due(bed.host), INT64_MAX);
    CHECK(!bed.host->commit.unwritten && bed.host->commit.busy_ms == 0);
    CHECK_INT(busy_ms(), patience);
    sqlite3_close(db);
    close_host(&bed);
    fr_sys.mono_ms = fr_sys_real.mono_ms;
    check_row("");
}

int main(void)
{
    make_pipelines(&bed);
    CHECK_INT(unsetenv("SSH_AUTH_SOCK"), 0);
    test_shells();
    test_wakes();
    test_agents();
    test_zones();
    test_resume_file();
    test_busy();
    remove_home(bed.home);
    return check_done();
}

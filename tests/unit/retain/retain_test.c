/*
 * Ended runs leave a home. Whatever fails, and wherever the process is
 * killed or the power, afterwards the run is there as a whole or nothing shows it; and the next one
 * that may write removes what is left.
 */
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/retain/retain.h"
#include "engine/store/blob.h"
#include "engine/store/sql.h"
#include "tests/sim/sim_db.h"
#include "tests/unit/store/store_bed.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>

static char home[BED_HOME];

enum { DAY = 86400000, OTHER = 1, VICTIM = 2 };

static struct fr_store *st;
static struct fr_err err;
static char shared[FR_SHA256_TEXT], own[FR_SHA256_TEXT], own_file[FR_SHA256_TEXT];
static char shared_file[FR_SHA256_TEXT], inventory[FR_SHA256_TEXT];

static struct fr_id id_of(int n)
{
    return (struct fr_id){{0xab, (uint8_t)(n >> 8), (uint8_t)n, 1}};
}

static void write_file(const char *below, const char *text)
{
    struct fr_buf path = {0};

    fr_buf_fmt(&path, "%s/%s", home, below);
    *strrchr(path.p, '/') = '\0';
    CHECK_INT(fr_mkdirs(path.p, 0700, &err), FR_OK);
    path.p[strlen(path.p)] = '/';
    CHECK_INT(fr_file_write(path.p, text, strlen(text), 0600, &err), FR_OK);
    fr_buf_finish(&path);
}

static bool there(const char *below)
{
    struct fr_buf path = {0};

    fr_buf_fmt(&path, "%s/%s", home, below);
    bool yes = access(path.p, F_OK) == 0;
    fr_buf_finish(&path);
    return yes;
}

static bool blob_there(const char *hash)
{
    char name[100];

    snprintf(name, sizeof(name), "blobs/%s", hash);
    return there(name);
}

static int no_sync(int fd)
{
    (void)fd;
    return 0;
}

/* A row of each table, files in its folder, a blob of its own and one that others have, too. */
static void make_run(int n, enum fr_run_state state)
{
    struct fr_run_row run = {.id = id_of(n),
                             .name = "p",
                             .spec_hash = n == OTHER ? shared : own,
                             .inventory_hash = inventory,
                             .state = state,
                             .outcome = FR_OUT_FAILED,
                             .ended_wall = 1};
    struct fr_inst_row inst = {.key = "a", .state = FR_ST_FAILED};
    struct fr_attempt_row at = {.id = id_of(n + 5000), .no = 1, .log = "a.1.log"};
    struct fr_output_row out = {.key = "k", .value = "v"};
    struct fr_node_row node = {.name = "n1"};
    struct fr_event_row ev = {.kind = "failed"};
    struct fr_file_row files[] = {{.path = "/f", .hash = own_file},
                                  {.path = "/g", .hash = shared_file}};
    char name[100], text[FR_ID_TEXT];

    fr_sys.fdatasync = no_sync; /* of what is only set up */
    CHECK_INT(fr_store_begin_soft(st, &err), FR_OK);
    CHECK_INT(fr_blob_put(home, FR_STR("of all runs"), shared, &err), FR_OK);
    CHECK_INT(fr_blob_put(home, FR_STR("file of all"), shared_file, &err), FR_OK);
    CHECK_INT(fr_blob_put(home, FR_STR("inventory of all"), inventory, &err), FR_OK);
    snprintf(name, sizeof(name), "of run %d", n);
    if (n != OTHER)
        CHECK_INT(fr_blob_put(home, fr_str_of(name), own, &err), FR_OK);
    snprintf(name, sizeof(name), "file of run %d", n);
    CHECK_INT(fr_blob_put(home, fr_str_of(name), own_file, &err), FR_OK);
    CHECK_INT(fr_store_run_add(st, &run, &err), FR_OK);
    CHECK_INT(fr_store_inst_put(st, run.id, &inst, &err), FR_OK);
    CHECK_INT(fr_store_attempt_put(st, run.id, &at, &err), FR_OK);
    CHECK_INT(fr_store_output_put(st, run.id, &out, &err), FR_OK);
    CHECK_INT(fr_store_node_put(st, run.id, &node, &err), FR_OK);
    CHECK_INT(fr_store_event_add(st, run.id, &ev, &err), FR_OK);
    for (size_t i = 0; i < 2; i++)
        CHECK_INT(fr_store_file_put(st, run.id, &files[i], &err), FR_OK);
    CHECK_INT(fr_store_commit(st, &err), FR_OK);
    fr_id_text(run.id, text);
    snprintf(name, sizeof(name), "runs/%s/a.1.log", text);
    write_file(name, "12345678");
    snprintf(name, sizeof(name), "runs/%s/got/b", text);
    write_file(name, "12");
    snprintf(name, sizeof(name), "runs/%s.lock", text);
    write_file(name, "");
    fr_sys = fr_sys_real;
}

static const char *const tables[] = {"run",  "instance", "attempt", "output",
                                     "node", "event",    "file"};

static int64_t count(const char *table, struct fr_id run)
{
    char sql[100];
    sqlite3_stmt *stmt = NULL;
    int64_t n;

    snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s WHERE %s = ?", table,
             strcmp(table, "run") == 0 ? "id" : "run");
    CHECK_INT(sqlite3_prepare_v2(st->db, sql, -1, &stmt, NULL), SQLITE_OK);
    sqlite3_bind_blob(stmt, 1, run.b, sizeof(run.b), SQLITE_TRANSIENT);
    n = sqlite3_step(stmt) == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : -1;
    sqlite3_finalize(stmt);
    return n;
}

static bool visible(struct fr_id run)
{
    struct fr_arena arena = {0};
    struct fr_run_rows rows;
    struct fr_run_row row;
    char text[FR_ID_TEXT];
    bool listed = false, found;

    fr_id_text(run, text);
    found = fr_store_run_find(st, text, &arena, &row, &err) == FR_OK;
    CHECK_INT(fr_store_runs(st, 0, &arena, &rows, &err), FR_OK);
    for (size_t i = 0; i < rows.n; i++)
        listed |= fr_id_eq(rows.rows[i].id, run);
    CHECK(found == listed);
    fr_arena_finish(&arena);
    return found;
}

/* The folder, its files and all rows are there, or none. */
static void check_run(struct fr_id run, bool want)
{
    static const char *const files[] = {"", "/a.1.log", "/got/b"};
    char text[FR_ID_TEXT], name[100];

    fr_id_text(run, text);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        snprintf(name, sizeof(name), "runs/%s%s", text, files[i]);
        CHECK(there(name) == want);
    }
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        CHECK_INT(count(tables[i], run), want ? strcmp(tables[i], "file") == 0 ? 2 : 1 : 0);
}

static enum fr_rc finish(int *steps)
{
    bool more = true;
    enum fr_rc rc = FR_OK;

    for (*steps = 0; rc == FR_OK && more; ++*steps)
        rc = fr_retain_step(st, &more, &err);
    return rc;
}

static void set_up(void)
{
    st = open_store(home);
    make_run(OTHER, FR_RUN_OVER);
    make_run(VICTIM, FR_RUN_OVER);
}

static void remove_folders(void)
{
    char runs[300];

    snprintf(runs, sizeof(runs), "%s/runs", home);
    CHECK_INT(fr_remove_tree(runs, &err), FR_OK);
    CHECK_INT(fr_home_make(home, &err), FR_OK);
}

/* What must hold after anything; then all that is left goes. */
static void check_and_tear_down(void)
{
    char lock[100], text[FR_ID_TEXT];
    int steps;

    if (visible(id_of(VICTIM))) {
        check_run(id_of(VICTIM), true);
        CHECK(blob_there(own) && blob_there(own_file));
        CHECK_INT(fr_retain_remove(st, id_of(VICTIM), &err), FR_OK);
    }
    CHECK_INT(finish(&steps), FR_OK);
    CHECK(!visible(id_of(VICTIM)));
    check_run(id_of(VICTIM), false);
    fr_id_text(id_of(VICTIM), text);
    snprintf(lock, sizeof(lock), "runs/%s.lock", text);
    CHECK(!there(lock) && !blob_there(own) && !blob_there(own_file));
    CHECK(blob_there(shared) && blob_there(shared_file) && blob_there(inventory));
    CHECK(visible(id_of(OTHER)));
    check_run(id_of(OTHER), true);
    check_sound(home);
    fr_store_close(st);
    remove_store(home);
    remove_folders();
}

static enum fr_rc remove_victim(void)
{
    int steps;
    enum fr_rc rc = fr_retain_remove(st, id_of(VICTIM), &err);

    return rc == FR_OK ? finish(&steps) : rc;
}

/* ---- a call fails, or is the last ---- */

static struct {
    long n;
    bool kill, ever, fired;
} fault;

static bool strikes(void)
{
    if (--fault.n > 0 || (fault.n < 0 && !fault.ever))
        return false;
    fault.fired = true;
    if (fault.kill)
        _exit(9);
    return true;
}

#define CALL(type, name, params, args, code, bad)                                                  \
    static type x_##name params                                                                    \
    {                                                                                              \
        if (strikes()) {                                                                           \
            errno = (code);                                                                        \
            return bad;                                                                            \
        }                                                                                          \
        return fr_sys_real.name args;                                                              \
    }
CALL(void *, alloc, (size_t n), (n), ENOMEM, NULL)
CALL(void *, realloc, (void *p, size_t n), (p, n), ENOMEM, NULL)
CALL(int, open, (const char *p, int f, mode_t m), (p, f, m), EMFILE, -1)
CALL(int, lstat, (const char *p, struct stat *s), (p, s), EIO, -1)
CALL(int, unlink, (const char *p), (p), EIO, -1)
CALL(int, rmdir, (const char *p), (p), EIO, -1)
CALL(int, list, (const char *d, char ***v, size_t *n), (d, v, n), EMFILE, -1)
CALL(int, lock, (int fd), (fd), ENOLCK, -1)

static void arm(long n, bool kill, bool ever)
{
    fault.n = n;
    fault.kill = kill;
    fault.ever = ever;
    fault.fired = false;
    fr_sys.alloc = x_alloc;
    fr_sys.realloc = x_realloc;
    fr_sys.open = x_open;
    fr_sys.lstat = x_lstat;
    fr_sys.unlink = x_unlink;
    fr_sys.rmdir = x_rmdir;
    fr_sys.list = x_list;
    fr_sys.lock = x_lock;
}

static void test_failing(bool ever)
{
    bool more = true;

    for (long n = 1; more; n++) {
        char row[80];

        snprintf(row, sizeof(row), "call %ld fails%s", n, ever ? ", and all behind it" : "");
        check_row(row);
        set_up();
        arm(n, false, ever);
        err = (struct fr_err){0};
        enum fr_rc rc = remove_victim();
        more = fault.fired;
        fr_sys = fr_sys_real;
        CHECK(rc == FR_OK || err.msg[0] != '\0');
        CHECK(more || rc == FR_OK);
        check_and_tear_down();
        CHECK(n < 1000);
    }
    check_row("");
}

/* SQLite begins a statement. */
static int on_statement(unsigned what, void *arg, void *p, void *x)
{
    (void)what;
    (void)arg;
    (void)p;
    (void)x;
    (void)strikes();
    return 0;
}

/* A process of its own removes the run and is killed at the n-th call; at calls of SQLite, when
 * statements is true. False: it came to the end. */
static bool killed_at(long n, bool statements)
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        st = open_store(home);
        if (statements) {
            fault.n = n;
            fault.kill = true;
            sqlite3_trace_v2(st->db, SQLITE_TRACE_STMT, on_statement, NULL);
        } else {
            arm(n, true, false);
        }
        _exit(remove_victim() == FR_OK ? 0 : 1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 9);
    return WEXITSTATUS(status) == 9;
}

static void test_killed(bool statements)
{
    bool more = true;

    for (long n = 1; more; n++) {
        char row[80];

        snprintf(row, sizeof(row), "killed at %s %ld", statements ? "statement" : "call", n);
        check_row(row);
        set_up();
        fr_store_close(st);
        more = killed_at(n, statements);
        st = open_store(home);
        check_and_tear_down();
        CHECK(n < 1000 && (more || n > 15));
    }
    check_row("");
}

/* Behind each step. */
static void test_power(void)
{
    bool more = true;

    for (int n = 1; more; n++) {
        char row[80];

        snprintf(row, sizeof(row), "the power fails behind step %d", n);
        check_row(row);
        sim_db_reset();
        set_up();
        CHECK_INT(fr_retain_remove(st, id_of(VICTIM), &err), FR_OK);
        for (int i = 1; i < n; i++)
            CHECK_INT(fr_retain_step(st, &more, &err), FR_OK);
        fr_store_close(st);
        sim_db_cut();
        st = open_store(home);
        CHECK(!visible(id_of(VICTIM)));
        check_and_tear_down();
    }
    check_row("");
}

/* ---- what may go ---- */

static void test_refused(void)
{
    struct fr_arena arena = {0};
    struct fr_run_row next = {.id = id_of(9), .name = "p", .state = FR_RUN_OVER}, got;
    int steps;

    set_up();
    make_run(3, FR_RUN_RUNNING);
    check_row("a run that goes on");
    CHECK_INT(fr_retain_remove(st, id_of(3), &err), FR_BUSY);
    check_row("a pinned run");
    CHECK_INT(fr_store_run_pin(st, id_of(VICTIM), true, &err), FR_OK);
    CHECK_INT(fr_retain_remove(st, id_of(VICTIM), &err), FR_BUSY);
    CHECK_INT(fr_store_run_pin(st, id_of(VICTIM), false, &err), FR_OK);
    check_run(id_of(VICTIM), true);
    check_row("a run that is gone");
    CHECK_INT(fr_retain_remove(st, id_of(VICTIM), &err), FR_OK);
    CHECK_INT(fr_retain_remove(st, id_of(VICTIM), &err), FR_BUSY);
    CHECK_INT(fr_store_run_pin(st, id_of(VICTIM), true, &err), FR_NOTFOUND);
    CHECK_INT(fr_store_run_find(st, "2", &arena, &got, &err), FR_NOTFOUND);
    CHECK_INT(finish(&steps), FR_OK);
    CHECK_INT(fr_store_run_pin(st, id_of(VICTIM), true, &err), FR_NOTFOUND);
    check_row("the number of a removed run is not given again");
    CHECK(sqlite3_exec(st->db, "UPDATE run SET state = 'over'", NULL, NULL, NULL) == SQLITE_OK);
    CHECK_INT(fr_retain_remove(st, id_of(3), &err), FR_OK);
    CHECK_INT(finish(&steps), FR_OK);
    CHECK_INT(fr_store_run_add(st, &next, &err), FR_OK);
    CHECK_INT(next.no, 4);
    fr_arena_finish(&arena);
    fr_store_close(st);
    remove_store(home);
    check_row("");
}

static char stuck[FR_ID_TEXT];

static int list_not_stuck(const char *dir, char ***names, size_t *n)
{
    errno = EACCES;
    return strstr(dir, stuck) != NULL ? -1 : fr_sys_real.list(dir, names, n);
}

/* A run whose files cannot be removed does not hold up another. */
static void test_stuck(void)
{
    bool more = true;
    int steps;

    for (int i = OTHER; i <= VICTIM; i++) {
        check_row("a folder that cannot be removed");
        set_up();
        make_run(3, FR_RUN_OVER);
        for (int k = 1; k <= 3; k++)
            CHECK_INT(fr_retain_remove(st, id_of(k), &err), FR_OK);
        fr_id_text(id_of(i), stuck);
        fr_sys.list = list_not_stuck;
        CHECK_INT(finish(&steps), FR_DENIED);
        CHECK(strstr(err.msg, stuck) != NULL);
        CHECK(fr_retain_step(st, &more, &err) == FR_DENIED && !more);
        for (int k = 1; k <= 3; k++)
            check_run(id_of(k), k == i);
        fr_sys = fr_sys_real;
        CHECK_INT(finish(&steps), FR_OK);
        check_run(id_of(i), false);
        fr_store_close(st);
        remove_store(home);
    }
    check_row("");
}

static off_t db_bytes(void)
{
    char path[300];
    struct stat at = {.st_size = -1};

    snprintf(path, sizeof(path), "%s/state.db", home);
    CHECK(stat(path, &at) == 0);
    return at.st_size;
}

/* What was removed goes back to the file system in pieces, but for some room; and, while nothing
 * else happens, at once where it is most of the file. */
static void test_shrink(void)
{
    enum { EVENTS = 6000, MIB = 1 << 20 };
    char text[1001];
    struct fr_event_row ev = {.kind = "x", .text = text};
    int steps;

    check_row("shrink");
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    set_up();
    for (int i = 1; i <= 3; i++) {
        if (i == 3)
            make_run(3, FR_RUN_OVER);
        CHECK_INT(fr_store_begin(st, &err), FR_OK);
        for (ev.seq = 2; ev.seq < EVENTS; ev.seq++)
            CHECK_INT(fr_store_event_add(st, id_of(i), &ev, &err), FR_OK);
        CHECK_INT(fr_store_commit(st, &err), FR_OK);
    }
    for (int i = 3; i >= VICTIM; i--) {
        off_t before = db_bytes();

        CHECK_INT(fr_retain_remove(st, id_of(i), &err), FR_OK);
        CHECK_INT(finish(&steps), FR_OK);
        CHECK(i != 3 || (before > 15 * MIB && db_bytes() < before - MIB / 2));
        CHECK_INT(fr_store_shrink(st, &err), FR_OK);
        CHECK(i == 3 ? db_bytes() > 10 * MIB : db_bytes() < 10 * MIB);
    }
    CHECK_INT(count("event", id_of(OTHER)), EVENTS - 1);
    CHECK(visible(id_of(OTHER)));
    fr_store_close(st);
    check_sound(home);
    remove_store(home);
    remove_folders();
    check_row("");
}

/* A large run goes in small pieces. */
static void test_pieces(void)
{
    enum { EVENTS = 1700, FILES = 120, LOGS = 1100 };
    struct fr_event_row ev = {.kind = "x"};
    char name[100], text[FR_ID_TEXT];
    bool more = true;
    int steps = 0;

    check_row("pieces");
    set_up();
    fr_id_text(id_of(VICTIM), text);
    CHECK_INT(fr_store_begin(st, &err), FR_OK);
    for (int i = 0; i < EVENTS; i++)
        CHECK_INT(fr_store_event_add(st, id_of(VICTIM), &ev, &err), FR_OK);
    for (int i = 0; i < FILES; i++) {
        struct fr_file_row file = {.path = name, .hash = shared};

        snprintf(name, sizeof(name), "/many/%d", i);
        CHECK_INT(fr_store_file_put(st, id_of(VICTIM), &file, &err), FR_OK);
    }
    CHECK_INT(fr_store_commit(st, &err), FR_OK);
    for (int i = 0; i < LOGS; i++) {
        struct fr_buf path = {0};

        fr_buf_fmt(&path, "%s/runs/%s/%d.log", home, text, i);
        close(open(path.p, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        fr_buf_finish(&path);
    }
    CHECK_INT(fr_retain_remove(st, id_of(VICTIM), &err), FR_OK);
    for (; more; steps++) {
        int before = sqlite3_total_changes(st->db);

        CHECK_INT(fr_retain_step(st, &more, &err), FR_OK);
        CHECK(sqlite3_total_changes(st->db) - before <= 502);
    }
    CHECK(steps >= 8 && steps < 20);
    check_and_tear_down();
    check_row("");
}

/* ---- what no row knows ---- */

#define UNKNOWN "00112233445566778899aabbccddeeff"
#define ZEROS "000000000000000000000000"

static const struct {
    const char *name, *file;
    bool stays;
} strays[] = {
    {"spool/ab138b01" ZEROS, "/part", true},  /* of the attempt of run 3, which goes on */
    {"spool/ab138a01" ZEROS, "/part", false}, /* of one of run 2 */
    {"spool/notes", "", true},
    {"runs/" UNKNOWN, "/a.log", false},
    {"runs/" UNKNOWN ".lock", "", false},
    {"runs/" UNKNOWN ".txt", "", true},
    {"blobs/" UNKNOWN UNKNOWN, "", false},
    {"blobs/.half", "", false},
    {"blobs/notes", "", true},
};

static void test_sweep(void)
{
    enum { N = sizeof(strays) / sizeof(strays[0]) };
    struct fr_swept dry = {0, 0}, swept = {0, 0};

    check_row("sweep");
    set_up();
    make_run(3, FR_RUN_RUNNING);
    for (size_t i = 0; i < N; i++) {
        char name[200];

        snprintf(name, sizeof(name), "%s%s", strays[i].name, strays[i].file);
        write_file(name, "1234567");
    }
    CHECK_INT(fr_retain_sweep(st, true, &dry, &err), FR_OK);
    for (size_t i = 0; i < N; i++)
        CHECK(there(strays[i].name));
    CHECK_INT(fr_retain_sweep(st, false, &swept, &err), FR_OK);
    CHECK(dry.files == swept.files && dry.bytes == swept.bytes);
    CHECK_INT(swept.files, 5);
    CHECK_INT(swept.bytes, 35);
    for (size_t i = 0; i < N; i++) {
        check_row(strays[i].name);
        CHECK(there(strays[i].name) == strays[i].stays);
    }
    check_row("");
    for (int i = OTHER; i <= 3; i++)
        check_run(id_of(i), true);
    CHECK(blob_there(own) && blob_there(own_file) && blob_there(shared));
    fr_store_close(st);
    remove_store(home);
}

int main(void)
{
    make_home(home);
    test_failing(false);
    test_failing(true);
    test_killed(false);
    test_killed(true);
    test_refused();
    test_pieces();
    test_stuck();
    test_shrink();
    test_sweep();
    CHECK_INT(fr_remove_tree(home, &err), FR_OK);
    CHECK_INT(fr_home_make(home, &err), FR_OK);
    sim_db_setup();
    test_power();
    CHECK_INT(fr_remove_tree(home, &err), FR_OK);
    return check_done();
}

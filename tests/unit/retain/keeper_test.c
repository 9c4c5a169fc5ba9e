/*
 * A host that stays removes runs by itself: by number, by age; behind a step of the clock none by
 * its age, for a day; nothing that a backfill, a rerun that is due or a pin still needs.
 */
#include "engine/base/sys.h"
#include "engine/retain/retain.h"
#include "tests/unit/store/store_bed.h"

static char home[BED_HOME];

enum { RUNS = 7, HOUR = 3600000 };

static const int64_t DAY = 86400000;
static int64_t wall_ahead, mono_ahead;
static struct fr_store *st;
static struct fr_loop loop;
static struct fr_err err;

static int64_t wall_now(void)
{
    return fr_sys_real.wall_ms() + wall_ahead;
}

static int64_t mono_now(void)
{
    return fr_sys_real.mono_ms() + mono_ahead;
}

static struct fr_id id_of(int n)
{
    return (struct fr_id){{0xab, (uint8_t)n, 1}};
}

/* Ended three days ago. */
static void add_run(int n, const char *name)
{
    struct fr_run_row run = {.id = id_of(n),
                             .name = name,
                             .spec_hash = "h",
                             .state = FR_RUN_OVER,
                             .outcome = FR_OUT_SUCCEEDED,
                             .ended_wall = fr_sys.wall_ms() - 3 * DAY};

    CHECK_INT(fr_store_run_add(st, &run, &err), FR_OK);
}

static void change(const char *sql)
{
    char path[300];
    sqlite3 *db = NULL;

    snprintf(path, sizeof(path), "%s/state.db", home);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_INT(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* "4 5 7" */
static void numbers(struct fr_buf *out)
{
    struct fr_arena arena = {0};
    struct fr_run_rows rows = {0};

    out->n = 0;
    fr_buf_text(out, "");
    CHECK_INT(fr_store_runs(st, 0, &arena, &rows, &err), FR_OK);
    for (size_t i = rows.n; i-- > 0;)
        fr_buf_fmt(out, "%s%lld", out->n > 0 ? " " : "", (long long)rows.rows[i].no);
    fr_arena_finish(&arena);
}

static void turn_until(const char *want)
{
    struct fr_buf got = {0};

    for (numbers(&got); strcmp(got.n > 0 ? got.p : "", want) != 0; numbers(&got))
        if (!CHECK_INT(fr_loop_turn(&loop, true, &err), FR_OK))
            break;
    CHECK_TEXT(got.p, want);
    fr_buf_finish(&got);
}

/* More go than are marked in one commit: the oldest first, and all in the end. */
static void more_than_one_commit(struct fr_retain *r)
{
    enum { LAST = 222 };

    for (int n = 18; n <= LAST; n++)
        add_run(n, "t");
    fr_retain_configure(r, &(struct fr_keep_runs){.runs = 4});
    turn_until("7 8 11 12 14 15 16 17 219 220 221 222");
}

int main(void)
{
    struct fr_retain *r = NULL;
    struct fr_keep_runs none = {0}, some = {.runs = 4, .days = 1, .failed_days = 1};

    make_home(home);
    st = open_store(home);
    fr_sys.wall_ms = wall_now;
    fr_sys.mono_ms = mono_now;
    for (int n = 1; n <= RUNS; n++)
        add_run(n, "p");
    add_run(8, "q");
    for (int n = 9; n <= 12; n++)
        add_run(n, "r");
    change("INSERT INTO schedule VALUES(1, '/p', 's', 'r', '', '', 'active', 0, '', 0, 0, 0);"
           "INSERT INTO backfill VALUES(1, 1, 0, 1, 0, 'all', '[]', 1, 0, 'paused', '', 0, 1, 0, "
           "0, 0);"
           "UPDATE run SET backfill = 1 WHERE no = 9; UPDATE run SET rerun_wall = 1 WHERE no = 10;"
           "UPDATE run SET pinned = 1 WHERE no = 11");
    CHECK_INT(fr_loop_event_create(&loop, &err), FR_OK);
    CHECK_INT(fr_retain_create(&loop, st, &r, &err), FR_OK);
    fr_retain_configure(r, &none);
    fr_retain_stay(r);
    CHECK_INT(fr_loop_turn(&loop, true, &err), FR_OK); /* it has looked at the clock */

    wall_ahead = 2 * HOUR; /* a step: only those beyond `runs` go */
    fr_retain_configure(r, &some);
    turn_until("4 5 6 7 8 9 10 11 12");

    wall_ahead += 25 * HOUR; /* a day goes by */
    mono_ahead += 25 * HOUR;
    fr_retain_configure(r, &some);
    turn_until("7 8 9 10 11 12");

    change("UPDATE backfill SET state = 'over'; UPDATE run SET rerun_wall = 0");
    fr_retain_configure(r, &some);
    turn_until("7 8 11 12");

    for (int n = 13; n <= 17; n++) /* as many as are kept, and one more */
        add_run(n, "s");
    change("UPDATE run SET ended_wall = ended_wall + 100 * 86400000 WHERE no > 12");
    mono_ahead += HOUR - 60000; /* a look an hour, not before */
    wall_ahead += HOUR - 60000;
    fr_retain_wake(r);
    CHECK_INT(fr_loop_turn(&loop, true, &err), FR_OK);
    turn_until("7 8 11 12 13 14 15 16 17");
    mono_ahead += 60000;
    wall_ahead += 60000;
    fr_retain_wake(r);
    turn_until("7 8 11 12 14 15 16 17");

    more_than_one_commit(r);
    fr_retain_destroy(r);
    fr_loop_destroy(&loop);
    fr_store_close(st);
    check_sound(home);
    remove_store(home);
    fr_remove_tree(home, &err);
    return check_done();
}

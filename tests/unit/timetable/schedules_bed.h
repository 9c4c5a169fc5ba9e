/*
 * For tests of a host with schedules: on a wall clock of the test's own, with nodes that never come
 * up, so that a run which has begun is live until it is cancelled. What became of each instant is
 * read from the store.
 */
#ifndef TESTS_UNIT_SCHEDULES_BED_H
#define TESTS_UNIT_SCHEDULES_BED_H

#include "tests/unit/host/host_bed.h"

#include "engine/base/log.h"
#include "engine/timetable/pause.h"
#include "engine/timetable/schedules.h"
#include "engine/schedule/calendar.h"

static _Atomic int64_t shift_ms; /* of the wall clock; read in threads too */
static char folder[300];
static struct fr_arena arena; /* of one row of a table */

static inline int64_t shifted_wall_ms(void)
{
    return fr_sys_real.wall_ms() + shift_ms;
}

/* Now it is that time. */
static inline void set_clock(const char *text)
{
    struct fr_when when;
    struct fr_err err = {0};

    CHECK_INT(fr_when_parse(fr_str_of(text), &when, &err), FR_OK);
    shift_ms = when.s * 1000 - fr_sys_real.wall_ms();
}

static inline const char *shell_value(void *self, const char *name)
{
    (void)self;
    return strcmp(name, "WHO") == 0 ? "serve" : NULL;
}

/* What the programs and nodes of before have said counts for nothing. */
static inline void begin_host(void)
{
    const struct fr_run_shell shell = {.cwd = "/", .getenv = shell_value};
    const char *folders[] = {folder};
    struct fr_err err = {0};

    open_host();
    fr_host_stay(host);
    CHECK_INT(fr_host_watch(host, folders, 1, &shell, &err), FR_OK);
    CHECK_INT(fr_host_recover(host, &err), FR_OK);
}

static inline void write_pipeline(const char *name, const char *text)
{
    struct fr_err err = {0};
    char path[400];

    snprintf(path, sizeof(path), "%s/%s.yaml", folder, name);
    CHECK_INT(fr_file_write(path, text, strlen(text), 0600, &err), FR_OK);
}

static inline void put_pipeline(const char *name, const char *schedule)
{
    char text[800];

    snprintf(text, sizeof(text),
             "name: %s\nschedule: %s\ntasks: {a: {run: 'true', env: {W: \"${{ env.WHO }}\"}}}\n",
             name, schedule);
    write_pipeline(name, text);
}

static inline void drop_pipeline(const char *name)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/%s.yaml", folder, name);
    CHECK_INT(unlink(path), 0);
}

/* The host turns until it is so. */
static inline void until(bool (*is_so)(const char *arg), const char *arg)
{
    struct fr_timer *timer = NULL;
    struct fr_err err = {0};

    CHECK_INT(fr_loop_timer(&loop, nothing, NULL, &timer), FR_OK);
    while (!is_so(arg)) {
        fr_loop_arm_in(&loop, timer, 5); /* the clock of the test moves no descriptor */
        if (!CHECK_INT(fr_host_turn(host, &err), FR_OK))
            break;
    }
    fr_loop_untimer(&loop, &timer);
}

static inline bool is_ready(const char *arg)
{
    (void)arg;
    return fr_host_ready(host);
}

/* ---- what is logged ---- */

static char logged[4000];

static inline void note_log(void *arg, int fd, const char *text, size_t n)
{
    size_t at = strlen(logged);

    (void)arg, (void)fd;
    snprintf(logged + at, sizeof(logged) - at, "%.*s", (int)n, text);
}

static inline int no_error(void *arg)
{
    (void)arg;
    return 0;
}

static inline bool has_logged(const char *text)
{
    return strstr(logged, text) != NULL;
}

static inline void begin_log(void)
{
    static const struct fr_printer printer = {.put = note_log, .error = no_error};

    logged[0] = '\0';
    fr_print_by(&printer);
}

/* ---- what the store says ---- */

/* The schedule of that pipeline with that name, or its only one; false: there is none. */
static inline bool find_row(const char *of, struct fr_schedule_row *out)
{
    struct fr_schedule_rows rows;
    struct fr_err err = {0};

    fr_arena_finish(&arena);
    CHECK_INT(fr_store_schedules(st, &arena, &rows, &err), FR_OK);
    for (size_t i = 0; i < rows.n; i++)
        if (strcmp(rows.rows[i].pipeline, of) == 0) {
            *out = rows.rows[i];
            return true;
        }
    return false;
}

static inline bool is_gone(const char *of)
{
    struct fr_schedule_row row;

    return find_row(of, &row) && row.gone_wall != 0;
}

/* "missed 03-01T02:00-03-03T02:00 x3, ran 03-04T02:00 run 1" */
static inline void show_fires(const char *of, struct fr_buf *out)
{
    struct fr_schedule_row row;
    struct fr_fire_rows rows = {0};
    struct fr_err err = {0};

    out->n = 0;
    fr_buf_text(out, "");
    if (!find_row(of, &row))
        return;
    CHECK_INT(fr_store_fires_after(st, row.id, 0, &arena, &rows, &err), FR_OK);
    for (size_t i = 0; i < rows.n; i++) {
        const struct fr_fire_row *f = &rows.rows[i];
        char first[FR_TIME_TEXT], last[FR_TIME_TEXT];

        fr_time_text(f->first_ms / 1000, 0, first);
        fr_time_text(f->at_ms / 1000, 0, last);
        fr_buf_fmt(out, "%s%s ", i > 0 ? ", " : "", fr_fate_name(f->decision));
        if (f->count > 1)
            fr_buf_fmt(out, "%.11s-", first + 5);
        fr_buf_fmt(out, "%.11s", last + 5);
        if (f->count > 1)
            fr_buf_fmt(out, " x%lld", (long long)f->count);
        if (f->run != 0)
            fr_buf_fmt(out, " run %lld", (long long)f->run);
        if (f->outcome != FR_OUT_NONE)
            fr_buf_fmt(out, " %s", fr_outcome_name(f->outcome));
    }
}

static const char *wanted;

static inline bool has_fires(const char *of)
{
    struct fr_buf got = {0};
    bool yes;

    show_fires(of, &got);
    yes = strcmp(got.p, wanted) == 0;
    fr_buf_finish(&got);
    return yes;
}

static inline void until_fires(const char *of, const char *want)
{
    wanted = want;
    check_row(want);
    until(has_fires, of);
}

static inline void check_fires(const char *of, const char *want)
{
    struct fr_buf got = {0};

    settle();
    show_fires(of, &got);
    CHECK_TEXT(got.p, want);
    fr_buf_finish(&got);
}

static inline bool is_known(const char *of)
{
    struct fr_schedule_row row;

    return find_row(of, &row) && row.gone_wall == 0;
}

/* "run 1 running schedule 03-01T02:00, …" of a pipeline, the oldest first. */
static inline void check_runs(const char *of, const char *want)
{
    struct fr_arena a = {0};
    struct fr_run_rows rows = {0};
    struct fr_buf got = {0};

    settle();
    fr_buf_text(&got, "");
    CHECK_INT(fr_store_runs(st, 0, &a, &rows, NULL), FR_OK);
    for (size_t i = rows.n; i-- > 0;) {
        char at[FR_TIME_TEXT];

        if (strcmp(rows.rows[i].name, of) != 0)
            continue;
        fr_time_text(rows.rows[i].at_ms / 1000, 0, at);
        fr_buf_fmt(&got, "%s%lld %s %s %.11s", got.n > 0 ? ", " : "", (long long)rows.rows[i].no,
                   fr_run_word(rows.rows[i].state, rows.rows[i].outcome), rows.rows[i].origin,
                   rows.rows[i].at_ms != 0 ? at + 5 : "by hand");
    }
    CHECK_TEXT(got.p, want);
    fr_buf_finish(&got);
    fr_arena_finish(&a);
}

/* A file is broken, and its error has that text; "": there are files, and none is broken. */
static inline bool has_error(const char *text)
{
    struct fr_arena a = {0};
    struct fr_schedule_file_rows rows = {0};
    bool yes = false;

    CHECK_INT(fr_store_schedule_files(st, &a, &rows, NULL), FR_OK);
    for (size_t i = 0; i < rows.n; i++)
        yes = yes || strstr(rows.rows[i].error, text) != NULL;
    if (text[0] == '\0')
        for (size_t i = 0; i < rows.n; i++)
            yes = yes && rows.rows[i].error[0] == '\0';
    fr_arena_finish(&a);
    return yes;
}

/* The rule of the schedule of p is so in words. */
static inline bool has_rule(const char *words)
{
    struct fr_schedule_row row;

    return find_row("p", &row) && strcmp(row.rule, words) == 0;
}

static inline void reset(void)
{
    struct fr_err err = {0};

    fr_arena_finish(&arena);
    CHECK_INT(fr_remove_tree(home, &err), FR_OK);
    CHECK_INT(fr_mkdirs(home, 0700, &err), FR_OK);
    CHECK_INT(fr_home_make(home, &err), FR_OK);
    snprintf(folder, sizeof(folder), "%s/pipelines", home);
    CHECK_INT(fr_mkdirs(folder, 0700, &err), FR_OK);
}

static inline int64_t count_runs(void)
{
    struct fr_arena a = {0};
    struct fr_run_rows rows = {0};

    CHECK_INT(fr_store_runs(st, 0, &a, &rows, NULL), FR_OK);
    fr_arena_finish(&a);
    return (int64_t)rows.n;
}

#endif

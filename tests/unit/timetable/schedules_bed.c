#include "tests/unit/timetable/schedules_bed.h"

enum { UNTIL_MOST = 6000 /* turns, of 5 ms where nothing happens */ };

void set_clock(const char *text)
{
    struct fr_when when;

    CHECK_INT(fr_when_parse(fr_str_of(text), &when, NULL), FR_OK);
    bed_shift(when.s * 1000 - fr_sys_real.wall_ms());
}

const char *shell_value(void *self, const char *name)
{
    (void)self;
    return strcmp(name, "WHO") == 0 ? "serve" : NULL;
}

void begin_host(struct host_bed *bed)
{
    const struct fr_run_shell shell = {.cwd = "/", .getenv = shell_value};
    const char *folders[] = {bed->folder};

    open_host(bed);
    fr_host_stay(bed->host);
    CHECK_INT(fr_host_watch(bed->host, folders, 1, &shell, NULL), FR_OK);
    CHECK_INT(fr_host_recover(bed->host, NULL), FR_OK);
}

void write_pipeline(struct host_bed *bed, const char *name, const char *text)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/%s.yaml", bed->folder, name);
    CHECK_INT(fr_file_write(path, text, strlen(text), 0600, NULL), FR_OK);
}

void put_pipeline(struct host_bed *bed, const char *name, const char *schedule)
{
    char text[800];

    snprintf(text, sizeof(text),
             "name: %s\nschedule: %s\ntasks: {a: {run: 'true', env: {W: \"${{ env.WHO }}\"}}}\n",
             name, schedule);
    write_pipeline(bed, name, text);
}

void drop_pipeline(struct host_bed *bed, const char *name)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/%s.yaml", bed->folder, name);
    CHECK_INT(unlink(path), 0);
}

void until(struct host_bed *bed, bool (*is_so)(struct host_bed *bed, const char *arg),
           const char *arg)
{
    struct fr_timer *timer = NULL;
    int turns = 0;

    CHECK_INT(fr_loop_timer(&bed->loop, nothing, NULL, &timer), FR_OK);
    while (!is_so(bed, arg)) {
        fr_loop_arm_in(&bed->loop, timer, 5); /* the clock of the test moves no descriptor */
        if (!CHECK(turns++ < UNTIL_MOST) || !CHECK_INT(fr_host_turn(bed->host, NULL), FR_OK))
            break;
    }
    fr_loop_untimer(&bed->loop, &timer);
}

bool is_ready(struct host_bed *bed, const char *arg)
{
    (void)arg;
    return fr_host_ready(bed->host);
}

static void note_log(void *arg, int fd, const char *text, size_t n)
{
    char *to = ((struct host_bed *)arg)->logged;
    size_t at = strlen(to);

    (void)fd;
    snprintf(to + at, BED_LOGGED - at, "%.*s", (int)n, text);
}

static int no_error(void *arg)
{
    (void)arg;
    return 0;
}

bool has_logged(struct host_bed *bed, const char *text)
{
    return strstr(bed->logged, text) != NULL;
}

void begin_log(struct host_bed *bed)
{
    struct fr_printer printer = {.put = note_log, .error = no_error, .arg = bed};

    bed->logged[0] = '\0';
    fr_print_by(&printer);
}

bool find_row(struct host_bed *bed, const char *of, struct fr_schedule_row *out)
{
    struct fr_schedule_rows rows;

    fr_arena_finish(&bed->arena);
    CHECK_INT(fr_store_schedules(bed->st, &bed->arena, &rows, NULL), FR_OK);
    for (size_t i = 0; i < rows.n; i++)
        if (strcmp(rows.rows[i].pipeline, of) == 0) {
            *out = rows.rows[i];
            return true;
        }
    return false;
}

bool is_gone(struct host_bed *bed, const char *of)
{
    struct fr_schedule_row row;

    return find_row(bed, of, &row) && row.gone_wall != 0;
}

void show_fires(struct host_bed *bed, const char *of, struct fr_buf *out)
{
    struct fr_schedule_row row;
    struct fr_occurrence_rows rows = {0};

    out->n = 0;
    fr_buf_text(out, "");
    if (!find_row(bed, of, &row))
        return;
    CHECK_INT(fr_store_occurrences_after(bed->st, row.id, 0, &bed->arena, &rows, NULL), FR_OK);
    for (size_t i = 0; i < rows.n; i++) {
        const struct fr_occurrence_row *f = &rows.rows[i];
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

bool has_fires(struct host_bed *bed, const char *of)
{
    struct fr_buf got = {0};
    bool yes;

    show_fires(bed, of, &got);
    yes = strcmp(got.p, bed->wanted) == 0;
    fr_buf_finish(&got);
    return yes;
}

void until_fires(struct host_bed *bed, const char *of, const char *want)
{
    bed->wanted = want;
    check_row(want);
    until(bed, has_fires, of);
}

void check_fires(struct host_bed *bed, const char *of, const char *want)
{
    struct fr_buf got = {0};

    settle_host(bed);
    show_fires(bed, of, &got);
    CHECK_TEXT(got.p, want);
    fr_buf_finish(&got);
}

bool is_known(struct host_bed *bed, const char *of)
{
    struct fr_schedule_row row;

    return find_row(bed, of, &row) && row.gone_wall == 0;
}

void check_runs(struct host_bed *bed, const char *of, const char *want)
{
    struct fr_arena a = {0};
    struct fr_run_rows rows = {0};
    struct fr_buf got = {0};

    settle_host(bed);
    fr_buf_text(&got, "");
    CHECK_INT(fr_store_runs(bed->st, 0, &a, &rows, NULL), FR_OK);
    for (size_t i = rows.n; i-- > 0;) {
        char at[FR_TIME_TEXT];

        if (strcmp(rows.rows[i].name, of) != 0)
            continue;
        fr_time_text(rows.rows[i].at_ms / 1000, 0, at);
        fr_buf_fmt(&got, "%s%lld %s %s %.11s", got.n > 0 ? ", " : "", (long long)rows.rows[i].no,
                   fr_run_word(rows.rows[i].state, rows.rows[i].outcome),
                   fr_origin_name(rows.rows[i].origin),
                   rows.rows[i].at_ms != 0 ? at + 5 : "by hand");
    }
    CHECK_TEXT(got.p, want);
    fr_buf_finish(&got);
    fr_arena_finish(&a);
}

bool has_error(struct host_bed *bed, const char *text)
{
    struct fr_arena a = {0};
    struct fr_schedule_file_rows rows = {0};
    bool yes = false;

    CHECK_INT(fr_store_schedule_files(bed->st, &a, &rows, NULL), FR_OK);
    for (size_t i = 0; i < rows.n; i++)
        yes = yes || strstr(rows.rows[i].error, text) != NULL;
    if (text[0] == '\0')
        for (size_t i = 0; i < rows.n; i++)
            yes = yes && rows.rows[i].error[0] == '\0';
    fr_arena_finish(&a);
    return yes;
}

bool has_rule(struct host_bed *bed, const char *words)
{
    struct fr_schedule_row row;

    return find_row(bed, "p", &row) && strcmp(row.rule, words) == 0;
}

void reset(struct host_bed *bed)
{
    fr_arena_finish(&bed->arena);
    remove_home(bed->home);
    CHECK_INT(fr_mkdirs(bed->home, 0700, NULL), FR_OK);
    CHECK_INT(fr_home_make(bed->home, NULL), FR_OK);
    snprintf(bed->folder, sizeof(bed->folder), "%s/pipelines", bed->home);
    CHECK_INT(fr_mkdirs(bed->folder, 0700, NULL), FR_OK);
}

int64_t count_runs(struct host_bed *bed)
{
    struct fr_arena a = {0};
    struct fr_run_rows rows = {0};

    CHECK_INT(fr_store_runs(bed->st, 0, &a, &rows, NULL), FR_OK);
    fr_arena_finish(&a);
    return (int64_t)rows.n;
}

/* Schedules of a host whose files change, are broken, or cannot be seen. */
#include "tests/unit/timetable/schedules_bed.h"

#include <errno.h>
#include <fcntl.h>

static struct host_bed bed = HOST_BED;

static void test_removed(void)
{
    check_row("removed while it is due");
    drop_pipeline(&bed, "p");
    set_clock("2026-03-01T04:00Z");
    until(&bed, is_gone, "p");
    CHECK(!has_answer(&bed, "/api/v1/schedules/1", "due_wall"));
    check_runs(&bed, "p",
               "1 running schedule 03-01T02:00, 2 failed schedule 03-01T02:30, "
               "3 failed schedule 03-01T03:00, 4 running schedule 03-01T03:30");

    check_row("there again: from now on");
    set_clock("2026-03-01T05:10Z");
    put_pipeline(&bed, "p", "{cron: \"0,30 * * * *\", overlap: parallel}");
    until(&bed, is_known, "p");
    set_clock("2026-03-01T05:30Z");
    until_fires(&bed, "p",
                "ran 03-01T02:00 run 1, invalid 03-01T02:30 run 2 failed, "
                "invalid 03-01T03:00 run 3 failed, ran 03-01T03:30 run 4, "
                "ran 03-01T05:30 run 5");
}

static bool is_renamed(struct host_bed *b, const char *path)
{
    struct fr_schedule_rows rows = {0};
    bool yes = false;

    fr_arena_finish(&b->arena);
    CHECK_INT(fr_store_schedules(b->st, &b->arena, &rows, NULL), FR_OK);
    for (size_t i = 0; i < rows.n; i++)
        yes = yes || (rows.rows[i].gone_wall == 0 && strstr(rows.rows[i].source, path) != NULL);
    return yes;
}

static bool has_run(struct host_bed *b, const char *arg)
{
    (void)arg;
    return count_runs(b) > 0;
}

/* Another file of the same pipeline: what was due under the name of before is not its matter. */
static void test_renamed(void)
{
    char from[400], to[400];

    check_row("renamed while it is due");
    reset(&bed);
    set_clock("2026-03-01T01:00Z");
    put_pipeline(&bed, "p", "{cron: \"0 * * * *\"}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    snprintf(from, sizeof(from), "%s/p.yaml", bed.folder);
    snprintf(to, sizeof(to), "%s/q.yaml", bed.folder);
    CHECK_INT(rename(from, to), 0);
    set_clock("2026-03-01T02:00Z");
    until(&bed, is_renamed, "/q.yaml");
    CHECK(!is_renamed(&bed, "/p.yaml"));
    CHECK_INT(count_runs(&bed), 0);
    set_clock("2026-03-01T03:00Z");
    until(&bed, has_run, NULL);
    check_runs(&bed, "p", "1 running schedule 03-01T03:00");
    close_host(&bed);
}

/* The run of a pipeline that cannot be loaded: over from its begin on, with what is wrong. */
static void check_failed(const char *run, const char *reason)
{
    struct fr_arena a = {0};
    struct fr_run_row row = {0};
    struct fr_event_rows events = {0};

    CHECK_INT(fr_store_run_find(bed.st, run, &a, &row, NULL), FR_OK);
    CHECK_TEXT(row.source + strlen(bed.folder), "/p.yaml");
    CHECK_TEXT(row.who, "default");
    CHECK_TEXT(row.params, "{}");
    CHECK_INT(row.schedule, 1);
    CHECK(row.started_wall > 0 && row.started_wall == row.queued_wall);
    CHECK_INT(row.ended_wall, row.started_wall);
    if (!CHECK(strstr(row.reason, reason) != NULL))
        printf("   %s\n", row.reason);
    CHECK_INT(fr_store_events(bed.st, row.id, &a, &events, NULL), FR_OK);
    if (CHECK_INT(events.n, 1)) {
        CHECK_TEXT(events.rows[0].text, row.reason);
        CHECK_TEXT(events.rows[0].cause, "failed");
        CHECK_INT(events.rows[0].wall, row.ended_wall);
    }
    fr_arena_finish(&a);
}

/* Since when the first file is broken; 0: it is not. */
static int64_t broken_since(void)
{
    struct fr_arena a = {0};
    struct fr_schedule_file_rows rows = {0};
    int64_t wall;

    CHECK_INT(fr_store_schedule_files(bed.st, &a, &rows, NULL), FR_OK);
    wall = rows.n > 0 ? rows.rows[0].error_wall : -1;
    fr_arena_finish(&a);
    return wall;
}

/* What was said of a pause stays when its file changes, or breaks. */
static void test_paused(void)
{
    struct fr_schedule_row row, now;
    int64_t from;

    check_row("another rule of a schedule that is paused");
    reset(&bed);
    set_clock("2026-03-01T01:00Z");
    put_pipeline(&bed, "p", "{cron: \"0 2 * * *\"}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    from = fr_sys.wall_ms();
    check_answer(ask(&bed, PUT, "/api/v1/schedules/1", "{\"paused\": true, \"note\": \"moving\"}"),
                 200, NULL);
    CHECK(find_row(&bed, "p", &row) && row.state_wall >= from &&
          row.state_wall <= fr_sys.wall_ms());
    set_clock("2026-03-01T01:30Z");
    put_pipeline(&bed, "p", "{cron: \"0 3 * * *\"}");
    until(&bed, has_rule, "every day at 03:00 in UTC");
    CHECK(find_row(&bed, "p", &now) && now.state_wall == row.state_wall);
    CHECK_INT(now.state, FR_SCHEDULE_PAUSED);
    CHECK_TEXT(now.note, "moving");

    check_row("since when it is broken, and no more");
    CHECK_INT(broken_since(), 0);
    from = fr_sys.wall_ms();
    write_pipeline(&bed, "p", "name: p\nschedule: [\n");
    until(&bed, has_error, "p.yaml");
    CHECK(broken_since() >= from && broken_since() <= fr_sys.wall_ms());
    from = broken_since();
    for (int i = 0; i < 2; i++) { /* also for the hosts behind it */
        close_host(&bed);
        bed_pass(60);
        begin_host(&bed);
        until(&bed, is_ready, NULL);
        CHECK_INT(broken_since(), from);
        CHECK(is_known(&bed, "p") && has_rule(&bed, "every day at 03:00 in UTC"));
    }
    write_pipeline(&bed, "p", "name: p\nschedule: {cron: never}\ntasks: {a: {run: x}}\n");
    until(&bed, has_error, "cron: ");
    put_pipeline(&bed, "p", "{cron: \"0 3 * * *\"}");
    until(&bed, has_error, "");
    CHECK_INT(broken_since(), 0);
    close_host(&bed);
}

static void test_files(void)
{
    check_row("a file that comes while the host is there");
    reset(&bed);
    set_clock("2026-03-01T01:00Z");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    put_pipeline(&bed, "p", "{cron: \"0 2 * * *\", overlap: parallel}");
    until(&bed, is_known, "p");
    check_fires(&bed, "p", "");
    check_answer(ask(&bed, GET, "/api/v1/schedules?pipeline=p", NULL), 200,
                 "\"zone\":\"UTC\",\"due_wall\":1772330400000,\"next\":[{\"at_ms\":1772330400000},"
                 "{\"at_ms\":1772416800000},{\"at_ms\":1772503200000},{\"at_ms\":1772589600000},"
                 "{\"at_ms\":1772676000000}]}]}");
    check_answer(ask(&bed, GET, "/api/v1/schedules?pipeline=q", NULL), 200, "{\"items\":[]}");

    check_row("another rule: what is past is not judged by it");
    set_clock("2026-03-01T01:50Z");
    put_pipeline(&bed, "p", "{cron: \"0,30 * * * *\", overlap: parallel}");
    until(&bed, has_rule, "every 30 minutes in UTC");
    check_fires(&bed, "p", "");
    set_clock("2026-03-01T02:00Z");
    until_fires(&bed, "p", "ran 03-01T02:00 run 1");

    check_row("broken while it is due: its times stay, and the run has failed");
    write_pipeline(&bed, "p", "name: p\nschedule: {cron: \"0,30 * * * *\"\ntasks: no\n");
    until(&bed, has_error, "p.yaml");
    set_clock("2026-03-01T02:30Z");
    until_fires(&bed, "p", "ran 03-01T02:00 run 1, invalid 03-01T02:30 run 2 failed");
    check_runs(&bed, "p", "1 running schedule 03-01T02:00, 2 failed schedule 03-01T02:30");
    check_failed("2", "p.yaml:3:");
    check_answer(ask(&bed, GET, "/api/v1/schedules/1", NULL), 200, "\"error\":\"");
    close_host(&bed);

    check_row("also for a host that finds it broken");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    set_clock("2026-03-01T03:00Z");
    until_fires(&bed, "p",
                "ran 03-01T02:00 run 1, invalid 03-01T02:30 run 2 failed, "
                "invalid 03-01T03:00 run 3 failed");
    put_pipeline(&bed, "p", "{cron: \"0,30 * * * *\", overlap: parallel}");
    until(&bed, has_error, "");
    check_answer(ask(&bed, GET, "/api/v1/schedules/1", NULL), 200, "\"gone_wall\":0,");
    CHECK(!has_answer(&bed, "/api/v1/schedules/1", "\"error\""));
    set_clock("2026-03-01T03:30Z");
    until_fires(&bed, "p",
                "ran 03-01T02:00 run 1, invalid 03-01T02:30 run 2 failed, "
                "invalid 03-01T03:00 run 3 failed, ran 03-01T03:30 run 4");

    test_removed();
    close_host(&bed);
}

static void test_others(void)
{
    static const char linked[] = "name: l\nschedule: {every: 1h}\ntasks: {a: {run: x}}\n";
    static const char text[] = "name: t\nschedule: {every: 1h}\ntasks: {a: {run: x}}\n";
    char below[340], other[340];

    check_row("what is no pipeline is nobody's, a broken one is told of");
    reset(&bed);
    set_clock("2026-03-01T01:00Z");
    write_pipeline(&bed, "empty", "");
    write_pipeline(&bed, "three", "name: 3\nschedule: {cron: x}\ntasks: {a: {rum: x}}\n");
    write_pipeline(&bed, "five",
                   "name: 5\nschedule: {cron: x}\ntasks: {a: {rux: x, b: x}}\nx: 1\ny: 1\n");
    snprintf(below, sizeof(below), "%s/folder.yaml", bed.folder);
    CHECK_INT(fr_mkdirs(below, 0700, NULL), FR_OK);
    snprintf(below, sizeof(below), "%s/linked", bed.home);
    snprintf(other, sizeof(other), "%s/link.yaml", bed.folder);
    CHECK_INT(fr_file_write(below, linked, sizeof(linked) - 1, 0600, NULL), FR_OK);
    CHECK_INT(symlink(below, other), 0);
    snprintf(other, sizeof(other), "%s/t.txt", bed.folder);
    CHECK_INT(fr_file_write(other, text, sizeof(text) - 1, 0600, NULL), FR_OK);
    snprintf(other, sizeof(other), "%s/.hidden.yaml", bed.folder);
    CHECK_INT(symlink(below, other), 0);
    write_pipeline(&bed, ".own", "name: h\nschedule: {every: 1h}\ntasks: {a: {run: x}}\n");
    snprintf(other, sizeof(other), "%s/dangling.yml", bed.folder);
    CHECK_INT(symlink("/nonexistent/schedule", other), 0);
    write_pipeline(&bed, "unfired", "name: u\ntasks: {a: {ruk: x}}\n");
    write_pipeline(&bed, "unnamed", "tasks: {a: {run: x, b: [}}\n");
    write_pipeline(&bed, "nodes", "nodes: [{name: n1}]\n");
    write_pipeline(&bed, "text", "just text");
    write_pipeline(&bed, "broken", "name: x\nschedule: {cron: nonsense}\ntasks: {a: {run: x}}\n");
    put_pipeline(&bed, "p", "{every: 1h}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    CHECK(is_known(&bed, "p") && has_error(&bed, "cron:") && !has_error(&bed, "text.yaml"));
    CHECK(is_known(&bed, "l") && !has_error(&bed, "folder.yaml") && !has_error(&bed, "dangling"));
    CHECK(has_error(&bed, "'run'?; and 3 more: 'flowrun validate' lists all") &&
          !has_error(&bed, " 1 more"));
    CHECK(has_error(&bed, "'ruk'") && has_error(&bed, "unnamed.yaml:1:"));
    CHECK(!has_error(&bed, "nodes.yaml") && !has_error(&bed, "empty.yaml") &&
          !is_known(&bed, "t") && !has_error(&bed, "hidden"));
    CHECK(!is_known(&bed, "h"));
    close_host(&bed);

    check_row("nor is what lies in a folder below");
    snprintf(below, sizeof(below), "%s/below", bed.folder);
    CHECK_INT(fr_mkdirs(below, 0700, NULL), FR_OK);
    write_pipeline(&bed, "below/b", "name: b\nschedule: {every: 1h}\ntasks: {a: {run: x}}\n");
    put_pipeline(&bed, "q", "{every: 1h}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    CHECK(is_known(&bed, "q") && !is_known(&bed, "b"));
    close_host(&bed);
}

static bool lacks_error(struct host_bed *b, const char *text)
{
    return !has_error(b, text);
}

/* Another file in its place is seen, also where it looks the same. */
static void test_replaced(void)
{
    static const char text[] = "name: p\nschedule: {cron: \"0 3 * * *\"}\ntasks: {a: {run: x}}\n";
    char path[340], other[340];
    struct stat st_of;
    int fd;

    check_row("a file that is as large and as old as the one before");
    reset(&bed);
    set_clock("2026-03-01T01:00Z");
    write_pipeline(&bed, "p", "name: p\nschedule: {cron: \"0 2 * * *\"}\ntasks: {a: {run: x}}\n");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    CHECK(has_rule(&bed, "every day at 02:00 in UTC"));
    snprintf(path, sizeof(path), "%s/p.yaml", bed.folder);
    snprintf(other, sizeof(other), "%s/other", bed.home);
    CHECK_INT(fr_file_write(other, text, sizeof(text) - 1, 0600, NULL), FR_OK);
    CHECK_INT(stat(path, &st_of), 0);
    CHECK_INT(st_of.st_size, sizeof(text) - 1);
    CHECK_INT(utimensat(AT_FDCWD, other, (struct timespec[]){st_of.st_atim, st_of.st_mtim}, 0), 0);
    CHECK_INT(rename(other, path), 0);
    schedules_look_soon(schedules_of(bed.host), 0);
    until(&bed, has_rule, "every day at 03:00 in UTC");
    check_row("the same file, written anew in the same second");
    CHECK_INT(stat(path, &st_of), 0);
    CHECK((fd = open(path, O_WRONLY)) >= 0);
    CHECK_INT(pwrite(fd, "4", 1, (off_t)(strchr(text, '3') - text)), 1);
    CHECK_INT(close(fd), 0);
    st_of.st_mtim.tv_nsec ^= 1;
    CHECK_INT(utimensat(AT_FDCWD, path, (struct timespec[]){st_of.st_atim, st_of.st_mtim}, 0), 0);
    schedules_look_soon(schedules_of(bed.host), 0);
    until(&bed, has_rule, "every day at 04:00 in UTC");
    check_row("one that went, and came back as it was");
    CHECK_INT(rename(path, other), 0);
    schedules_look_soon(schedules_of(bed.host), 0);
    until(&bed, is_gone, "p");
    CHECK_INT(rename(other, path), 0);
    schedules_look_soon(schedules_of(bed.host), 0);
    until(&bed, is_known, "p");
    check_row("its pipeline has another name");
    write_pipeline(&bed, "p", "name: q\nschedule: {cron: \"0 4 * * *\"}\ntasks: {a: {run: x}}\n");
    schedules_look_soon(schedules_of(bed.host), 0);
    until(&bed, is_known, "q");
    CHECK(!is_known(&bed, "p"));
    check_row("a broken one that went");
    write_pipeline(&bed, "p", "name: q\nschedule: [\n");
    schedules_look_soon(schedules_of(bed.host), 0);
    until(&bed, has_error, "p.yaml");
    drop_pipeline(&bed, "p");
    schedules_look_soon(schedules_of(bed.host), 0);
    until(&bed, lacks_error, "p.yaml");
    close_host(&bed);
}

static int64_t gone_since(const char *name)
{
    struct fr_schedule_rows rows;
    int64_t wall = -1;

    fr_arena_finish(&bed.arena);
    CHECK_INT(fr_store_schedules(bed.st, &bed.arena, &rows, NULL), FR_OK);
    for (size_t i = 0; i < rows.n; i++)
        if (strcmp(rows.rows[i].name, name) == 0)
            wall = rows.rows[i].gone_wall;
    return wall;
}

static bool is_one_gone(struct host_bed *b, const char *name)
{
    (void)b;
    return gone_since(name) > 0;
}

/* One of two schedules goes: the other one changes, and that makes it no younger. */
static void test_one_gone(void)
{
    int64_t since;

    check_row("one of two schedules goes");
    reset(&bed);
    set_clock("2026-03-01T01:00Z");
    put_pipeline(&bed, "p", "[{name: a, cron: \"0 2 * * *\"}, {name: b, cron: \"0 2 * * *\"}]");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    put_pipeline(&bed, "p", "[{name: a, cron: \"0 2 * * *\"}]");
    until(&bed, is_one_gone, "b");
    since = gone_since("b");
    set_clock("2026-03-01T01:30Z");
    put_pipeline(&bed, "p", "[{name: a, cron: \"0 3 * * *\"}]");
    until(&bed, has_rule, "every day at 03:00 in UTC");
    CHECK_INT(gone_since("b"), since);
    close_host(&bed);
}

static bool unlisted;

static int list_if_possible(const char *path, char ***names, size_t *n)
{
    if (!unlisted || strcmp(path, bed.folder) != 0)
        return fr_sys_real.list(path, names, n);
    errno = EIO;
    return -1;
}

/* What cannot be seen may be there: its schedules stay as they were, and fire. */
static void test_unlisted(void)
{
    check_row("a folder that cannot be listed");
    reset(&bed);
    set_clock("2026-03-01T01:00Z");
    put_pipeline(&bed, "p", "{cron: \"0 * * * *\", overlap: parallel}");
    write_pipeline(&bed, "nodes", "nodes: [{name: n1}]\n");
    fr_sys.list = list_if_possible;
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    unlisted = true;
    schedules_look_soon(schedules_of(bed.host), 0);
    until(&bed, has_error, "looking into ");
    CHECK(!is_gone(&bed, "p") && !has_error(&bed, "nodes.yaml"));
    set_clock("2026-03-01T02:00Z");
    until_fires(&bed, "p", "ran 03-01T02:00 run 1");
    close_host(&bed);
    check_row("… for the next host");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    set_clock("2026-03-01T03:00Z");
    until_fires(&bed, "p", "ran 03-01T02:00 run 1, ran 03-01T03:00 run 2");
    unlisted = false;
    schedules_look_soon(schedules_of(bed.host), 0);
    until(&bed, has_error, "");
    CHECK(!is_gone(&bed, "p"));
    close_host(&bed);
    fr_sys.list = fr_sys_real.list;
}

/* ---- another rule ---- */

static bool is_printed_anew(struct host_bed *b, const char *before)
{
    struct fr_schedule_row row;

    return find_row(b, "p", &row) && strcmp(row.fingerprint, before) != 0;
}

/* Of 01:30, which has passed by the second rule alone. */
static void test_changes(void)
{
    static const struct {
        const char *name, *before, *after;
    } rows[] = {
        {"its times", "{at: [2026-03-01T03:00Z]}", "{at: [2026-03-01T01:30Z, 2026-03-01T03:00Z]}"},
        {"the last of its times", "{at: [2026-03-01T03:00Z, 2026-03-03T03:00Z]}",
         "{at: [2026-03-01T03:00Z, 2026-03-02T03:00Z]}"},
        {"its days", "{cron: \"30 1 2 * 0\", days: all}", "{cron: \"30 1 2 * 0\", days: any}"},
        {"its distance", "{every: 12h}", "{every: 30m}"},
        {"its expression", "{cron: \"0 3 * * *\"}", "{cron: \"30 * * * *\"}"},
        {"its kind", "{cron: \"0 3 * * *\"}", "{every: 30m}"},
        {"its zone", "{cron: \"30 1 * * *\", zone: Asia/Tokyo}", "{cron: \"30 1 * * *\"}"},
        {"its begin", "{every: 30m, start: 2026-03-01T03:00Z}",
         "{every: 30m, start: 2026-03-01T01:00Z}"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_schedule_row row = {.fingerprint = ""};
        char before[80];

        check_row(rows[i].name);
        reset(&bed);
        set_clock("2026-03-01T01:10Z");
        put_pipeline(&bed, "p", rows[i].before);
        begin_host(&bed);
        until(&bed, is_ready, NULL);
        CHECK(find_row(&bed, "p", &row));
        (void)snprintf(before, sizeof(before), "%s", row.fingerprint);
        set_clock("2026-03-01T01:50Z");
        put_pipeline(&bed, "p", rows[i].after);
        schedules_look_soon(schedules_of(bed.host), 0);
        until(&bed, is_printed_anew, before);
        check_fires(&bed, "p", "");
        CHECK(find_row(&bed, "p", &row) && row.since_ms > fr_sys.wall_ms() - 300000);
        close_host(&bed);
    }
}

/* Each has a moment of its own in the hour behind its time. */
static void test_jitter(void)
{
    char id[FR_ID_TEXT], want[60];
    int64_t at_ms = 1772330400000, delay_ms;

    check_row("jitter");
    reset(&bed);
    set_clock("2026-03-01T01:00Z");
    put_pipeline(&bed, "p", "{cron: \"0 2 * * *\", jitter: 1h}");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    fr_id_text(fr_store_home_id(bed.st), id);
    delay_ms = fr_jitter_ms(&(struct fr_jitter_of){id, "p", "default"}, 3600000);
    (void)snprintf(want, sizeof(want), "\"due_wall\":%lld", (long long)(at_ms + delay_ms));
    check_answer(ask(&bed, GET, "/api/v1/schedules/1", NULL), 200, want);
    bed_shift(at_ms + delay_ms - fr_sys_real.wall_ms());
    until_fires(&bed, "p", "ran 03-01T02:00 run 1");
    close_host(&bed);
}

/* ---- many ---- */

static size_t count_known(void)
{
    struct fr_schedule_rows rows = {0};
    size_t n = 0;

    fr_arena_finish(&bed.arena);
    CHECK_INT(fr_store_schedules(bed.st, &bed.arena, &rows, NULL), FR_OK);
    for (size_t i = 0; i < rows.n; i++)
        n += rows.rows[i].gone_wall == 0;
    CHECK_INT(n, rows.n);
    return n;
}

static bool is_hourly(struct host_bed *b, const char *of)
{
    struct fr_schedule_row row;

    return find_row(b, of, &row) && strcmp(row.rule, "every 1 h in UTC") == 0;
}

/* A file that changes is that file, and none of those beside it. */
static void test_several(void)
{
    static const char *const names[] = {"m", "c", "x", "a", "r", "e", "z"};
    char want[800];

    check_row("several files");
    reset(&bed);
    set_clock("2026-03-01T01:00Z");
    for (size_t i = 0; i < 7; i++)
        put_pipeline(&bed, names[i], "{cron: \"0 2 * * *\"}");
    write_pipeline(&bed, "plain", "name: plain\ntasks: {a: {run: x}}\n");
    write_pipeline(&bed, "also", "name: also\ntasks: {a: {run: x}}\n");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    CHECK_INT(count_known(), 7);
    for (size_t i = 0; i < 7; i++) {
        put_pipeline(&bed, names[i], "{every: 1h}");
        schedules_look_soon(schedules_of(bed.host), 0);
        until(&bed, is_hourly, names[i]);
        CHECK_INT(count_known(), 7);
    }
    check_row("pipelines of the folder, whether they have schedules or not");
    (void)snprintf(want, sizeof(want),
                   "{\"name\":\"also\",\"file\":\"%s/also.yaml\",\"schedules\":0},{\"name\":"
                   "\"plain\",\"file\":\"%s/plain.yaml\",\"schedules\":0}",
                   bed.folder, bed.folder);
    check_answer(ask(&bed, GET, "/api/v1/pipelines", NULL), 200, want);
    check_answer(ask(&bed, GET, "/api/v1/pipelines/plain", NULL), 200, "\"schedules\":[]}");
    check_answer(ask(&bed, GET, "/api/v1/pipelines/plain/history", NULL), 200, "{\"tasks\":[],");
    check_answer(ask(&bed, GET, "/api/v1/pipelines/m", NULL), 200,
                 "\"pipeline\":\"m\",\"name\":\"default\",\"rule\":\"every 1 h in UTC\"");
    drop_pipeline(&bed, "plain");
    schedules_look_soon(schedules_of(bed.host), 0);
    for (int i = 0; i < 1000 && has_answer(&bed, "/api/v1/pipelines", "plain"); i++)
        settle_host(&bed);
    check_answer(ask(&bed, GET, "/api/v1/pipelines/plain", NULL), 404, "no pipeline 'plain'");
    close_host(&bed);
    check_row("the next host finds the same");
    begin_host(&bed);
    until(&bed, is_ready, NULL);
    CHECK_INT(count_known(), 7);
    close_host(&bed);
}

/* Of two folders one cannot be listed: files of the other one are as they are. */
static void test_two_folders(void)
{
    const struct fr_run_shell shell = {.cwd = "/", .getenv = shell_value};
    char other[320], path[400];
    const char *folders[] = {bed.folder, other};
    static const char text[] = "name: q\nschedule: {every: 1h}\ntasks: {a: {run: x}}\n";

    check_row("a folder that cannot be listed, beside another one");
    reset(&bed);
    set_clock("2026-03-01T01:00Z");
    put_pipeline(&bed, "p", "{every: 1h}");
    (void)snprintf(other, sizeof(other), "%s", bed.folder);
    other[strlen(other) - 1]++; /* as long */
    CHECK_INT(fr_mkdirs(other, 0700, NULL), FR_OK);
    (void)snprintf(path, sizeof(path), "%s/q.yaml", other);
    CHECK_INT(fr_file_write(path, text, sizeof(text) - 1, 0600, NULL), FR_OK);
    fr_sys.list = list_if_possible;
    open_host(&bed);
    fr_host_stay(bed.host);
    CHECK_INT(fr_host_watch(bed.host, folders, 2, &shell, NULL), FR_OK);
    until(&bed, is_ready, NULL);
    CHECK(is_known(&bed, "p") && is_known(&bed, "q"));
    unlisted = true;
    schedules_look_soon(schedules_of(bed.host), 0);
    until(&bed, has_error, "looking into ");
    check_answer(ask(&bed, GET, "/api/v1/schedules?pipeline=p", NULL), 200,
                 "\"error\":\"looking into");
    CHECK(!has_answer(&bed, "/api/v1/schedules?pipeline=q", "\"error\""));
    unlisted = false;
    close_host(&bed);
    fr_sys.list = fr_sys_real.list;
}

int main(void)
{
    make_home(bed.home);
    fr_sys.wall_ms = bed_wall_ms;
    test_files();
    test_paused();
    test_renamed();
    test_others();
    test_replaced();
    test_one_gone();
    test_unlisted();
    test_two_folders();
    test_changes();
    test_jitter();
    test_several();
    fr_sys = fr_sys_real;
    fr_arena_finish(&bed.arena);
    remove_home(bed.home);
    return check_done();
}

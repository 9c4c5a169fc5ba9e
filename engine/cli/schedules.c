/* schedules: lists schedules, their next times and past decisions; pauses and resumes them. */
#include "engine/cli/cli.h"
#include "engine/cli/fires.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/timetable/pause.h"
#include "engine/spec/config.h"
#include "engine/store/types.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NEXT_SHOWN = 3, DECIDED_SHOWN = 20 };

struct view {
    struct cli_call *call;
    struct fr_store *st; /* borrows: the call's */
    struct fr_zones zones;
    struct fr_schedule_rows rows;
    struct fr_schedule_file_rows files;
    /* The file read last. */
    const char *source;
    struct fr_spec *spec; /* owns; NULL: it cannot be read */
};

/* A schedule with its rule, from the text of the file that the host uses. */
struct shown {
    const struct fr_schedule_row *row;
    const struct fr_schedule_file_row *file; /* NULL: none */
    const struct fr_schedule *s; /* NULL: the file no longer has it, or cannot be read */
    struct fr_timetable t;
    int64_t delay_ms;
    int64_t next_ms; /* FR_NO_END: there is none */
};

static const struct fr_schedule_file_row *file_of(const struct view *v, const char *source)
{
    for (size_t i = 0; i < v->files.n; i++)
        if (strcmp(v->files.rows[i].path, source) == 0)
            return &v->files.rows[i];
    return NULL;
}

static void read_file(struct view *v, const struct fr_schedule_file_row *file)
{
    struct fr_source text = {file->path, fr_str_of(file->text)};
    struct fr_spec_opts opts = {.path = file->path,
                                .cwd = "/",
                                .sources = &text,
                                .n_sources = 1,
                                .zones = &v->zones,
                                .scheduled = true,
                                .getenv = cli_getenv};
    struct fr_issues issues = {0};

    if (v->source != NULL && strcmp(v->source, file->path) == 0)
        return;
    fr_spec_destroy(v->spec);
    v->spec = NULL;
    v->source = file->path;
    if (file->text[0] != '\0')
        (void)fr_spec_load(&opts, &v->spec, &issues, NULL);
    fr_issues_finish(&issues);
}

static void look_at(struct view *v, const struct fr_schedule_row *row, struct shown *out)
{
    struct fr_due due;
    char home[FR_ID_TEXT];

    *out = (struct shown){.row = row, .file = file_of(v, row->source), .next_ms = FR_NO_END};
    if (row->gone_wall != 0 || out->file == NULL)
        return;
    read_file(v, out->file);
    for (size_t i = 0; v->spec != NULL && i < v->spec->n_schedules; i++)
        if (strcmp(v->spec->schedules[i].name, row->name) == 0)
            out->s = &v->spec->schedules[i];
    if (out->s == NULL || fr_timetable_open(&out->t, out->s, &v->zones, NULL) != FR_OK) {
        out->s = NULL;
        return;
    }
    fr_id_text(fr_store_home_id(v->st), home);
    out->delay_ms =
        fr_jitter_ms(&(struct fr_jitter_of){home, row->pipeline, row->name}, out->s->jitter_ms);
    due = (struct fr_due){.rule = &out->t.rule, .seen_ms = row->seen_ms};
    out->next_ms = fr_next_due(&due);
}

static const char *word_of(const struct shown *s)
{
    return s->row->gone_wall != 0                         ? "gone"
           : s->row->state == FR_SCHEDULE_PAUSED          ? "paused"
           : s->file != NULL && s->file->error[0] != '\0' ? "invalid"
           : s->s != NULL && s->next_ms == FR_NO_END      ? "finished"
                                                          : "active";
}

/* ---- decisions ---- */

/* "ran: run 4 succeeded", "3 missed", "skipped: run 4" */
static void name_decision(const struct fr_occurrence_row *row, struct fr_buf *out)
{
    if (row->count > 1)
        fr_buf_fmt(out, "%lld ", (long long)row->count);
    fr_buf_text(out, fr_fate_name(row->decision));
    if (row->run != 0)
        fr_buf_fmt(out, "%s run %lld", row->decision == FR_FATE_SKIPPED ? ": beside" : ":",
                   (long long)row->run);
    if (row->outcome != FR_OUT_NONE)
        fr_buf_fmt(out, " %s", fr_outcome_name(row->outcome));
    if (row->note[0] != '\0')
        fr_buf_fmt(out, " (%s)", row->note);
}

static enum fr_rc read_fires(struct view *v, const struct fr_schedule_row *row, size_t limit,
                             struct fr_occurrence_rows *out, struct fr_err *err)
{
    struct fr_occurrence_page page = {row->id, INT64_MAX, limit};

    return fr_store_occurrences_before(v->st, &page, &v->call->arena, out, err);
}

static const struct fr_zone *zone_of(const struct shown *s)
{
    static const struct fr_zone utc = {.name = "UTC"};

    return s->s != NULL ? &s->t.zone : &utc;
}

/* ---- the list ---- */

static void print_row(const struct shown *s, const struct fr_occurrence_rows *last)
{
    struct fr_buf decided = {0};
    char name[80], in[24], next[CLI_FIRE_TEXT + sizeof(", in ") + sizeof(in)] = "-";
    int64_t left = s->next_ms - fr_sys.wall_ms();

    snprintf(name, sizeof(name), "%s/%s", s->row->pipeline, s->row->name);
    if (s->next_ms != FR_NO_END && s->row->gone_wall == 0)
        cli_fire_text(zone_of(s), s->next_ms, next);
    if (s->next_ms != FR_NO_END && left >= 0) {
        fr_show_duration(left, in);
        snprintf(next + strlen(next), sizeof(next) - strlen(next), ", in %s", in);
    }
    fr_buf_text(&decided, last->n > 0 ? "" : "-");
    if (last->n > 0)
        name_decision(&last->rows[0], &decided);
    if (!decided.bad)
        fr_print("%-32s  %-8s  %-66s  %s\n", name, word_of(s), next, decided.p);
    fr_buf_finish(&decided);
}

static void print_errors(const struct view *v)
{
    for (size_t i = 0; i < v->files.n; i++) {
        const struct fr_schedule_file_row *f = &v->files.rows[i];
        char date[32];

        if (f->error[0] == '\0')
            continue;
        cli_date(f->error_wall, date);
        fr_print("\n%s cannot be used since %s%s:\n%s\n", f->path, date,
                 f->text[0] != '\0' ? ", its schedules stay as they were" : "", f->error);
    }
}

static enum fr_rc print_list(struct view *v, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    if (v->rows.n == 0)
        fr_print("no served folder has a schedule: 'flowrun serve FOLDER' starts pipelines of "
                 "FOLDER by their schedule:\n");
    else
        fr_print("%-32s  %-8s  %-66s  %s\n", "schedule", "state", "next", "newest decision");
    for (size_t i = 0; rc == FR_OK && i < v->rows.n; i++) {
        struct fr_occurrence_rows last = {0};
        struct shown s;

        look_at(v, &v->rows.rows[i], &s);
        if ((rc = read_fires(v, s.row, 1, &last, err)) == FR_OK)
            print_row(&s, &last);
        fr_timetable_close(&s.t);
    }
    print_errors(v);
    return rc;
}

/* ---- one of them ---- */

static void print_next(const struct shown *s)
{
    int64_t at = s->next_ms;
    char length[24], time[CLI_FIRE_TEXT];

    for (int n = 0; s->s != NULL && n < NEXT_SHOWN && at != FR_NO_END; n++) {
        cli_fire_text(&s->t.zone, at, time);
        fr_print("  %-8s %s\n", n == 0 ? "next" : "", time);
        if (!fr_rule_next(&s->t.rule, at, &at))
            at = FR_NO_END;
    }
    fr_show_duration(s->delay_ms, length);
    if (s->delay_ms > 0)
        fr_print("  %-8s each later by %s (jitter)\n", "", length);
}

static void print_decided(const struct shown *s, const struct fr_occurrence_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++) {
        const struct fr_occurrence_row *row = &rows->rows[i];
        struct fr_buf what = {0};
        char at[CLI_FIRE_TEXT], since[CLI_FIRE_TEXT];

        cli_fire_text(zone_of(s), row->at_ms, at);
        cli_fire_text(zone_of(s), row->first_ms, since);
        name_decision(row, &what);
        if (row->count > 1)
            fr_buf_fmt(&what, ", since %s", since);
        if (!what.bad)
            fr_print("  %-8s %-54s  %s\n", i == 0 ? "decided" : "", at, what.p);
        fr_buf_finish(&what);
    }
}

static enum fr_rc print_one(struct view *v, const struct shown *s, struct fr_err *err)
{
    struct fr_occurrence_rows rows = {0};
    char since[32];
    enum fr_rc rc = read_fires(v, s->row, DECIDED_SHOWN, &rows, err);

    if (rc != FR_OK)
        return rc;
    cli_date(s->row->gone_wall != 0 ? s->row->gone_wall : s->row->state_wall, since);
    fr_print("%s/%s of %s: %s\n", s->row->pipeline, s->row->name, s->row->source, s->row->rule);
    fr_print("  %-8s %s since %s%s%s\n", "state", word_of(s), since,
             s->row->note[0] != '\0' ? ": " : "", s->row->note);
    if (s->file != NULL && s->file->error[0] != '\0')
        fr_print("  %-8s the file cannot be used, what it said before counts: %s\n", "",
                 s->file->error);
    print_next(s);
    print_decided(s, &rows);
    return FR_OK;
}

static enum fr_rc print_json(struct view *v, const struct shown *s, struct fr_err *err)
{
    struct fr_occurrence_rows rows = {0};
    const struct fr_schedule_row *r = s->row;
    json_t *next = json_array(), *doc;
    int64_t at = s->next_ms;
    enum fr_rc rc = read_fires(v, r, DECIDED_SHOWN, &rows, err);

    for (int n = 0; s->s != NULL && n < NEXT_SHOWN && at != FR_NO_END; n++) {
        json_array_append_new(next, json_integer(at));
        if (!fr_rule_next(&s->t.rule, at, &at))
            at = FR_NO_END;
    }
    doc = fr_row_json(&fr_schedule_type, r);
    json_object_set_new(doc, "state", json_string(word_of(s)));
    json_object_set_new(doc, "error", json_string(s->file != NULL ? s->file->error : ""));
    json_object_set_new(doc, "delay_ms", json_integer((json_int_t)s->delay_ms));
    json_object_set_new(doc, "next_ms", next);
    json_object_set_new(doc, "fires", fr_rows_json(&fr_occurrence_type, rows.rows, rows.n));
    cli_put_json(doc);
    return rc;
}

/* ---- the command ---- */

/* The absolute path, in path, if name is a file; else name. */
static const char *find_file(const char *name, char path[PATH_MAX])
{
    struct stat st;

    return name != NULL && stat(name, &st) == 0 && S_ISREG(st.st_mode) &&
                   realpath(name, path) != NULL
               ? path
               : name;
}

static enum fr_rc open_view(struct view *v, const char *name, struct fr_err *err)
{
    struct cli_call *c = v->call;
    char path[PATH_MAX];
    enum fr_rc rc = cli_config(NULL, &c->config, &c->issues, err);

    if (rc == FR_OK && c->home.st == NULL)
        rc = cli_store_read(&c->home.st, err);
    v->st = c->home.st;
    if (rc == FR_OK)
        rc = fr_store_schedules(v->st, &c->arena, &v->rows, err);
    if (rc == FR_OK)
        rc = fr_store_schedule_files(v->st, &c->arena, &v->files, err);
    if (rc == FR_OK)
        rc = fr_schedules_named(&v->rows, find_file(name, path), err);
    if (rc == FR_OK)
        v->zones = (struct fr_zones){getenv("TZDIR"), c->config->zone, fr_sys.wall_ms()};
    return rc;
}

static enum fr_rc show(struct view *v, const char *name, struct fr_err *err)
{
    enum fr_rc rc = open_view(v, name, err);

    if (rc == FR_OK && name == NULL && !v->call->json)
        return print_list(v, err);
    for (size_t i = 0; rc == FR_OK && i < v->rows.n; i++) {
        struct shown s;

        look_at(v, &v->rows.rows[i], &s);
        rc = (v->call->json ? print_json : print_one)(v, &s, err);
        fr_timetable_close(&s.t);
    }
    return rc;
}

static enum fr_rc ask_host(struct view *v, int64_t id, const struct fr_pause *how,
                           struct fr_err *err)
{
    struct cli_question q = {.method = "PUT"};

    q.body = how->pause ? json_pack("{s:b, s:s, s:b}", "paused", 1, "note",
                                    how->note != NULL ? how->note : "", "queued", how->queued)
                        : json_pack("{s:b, s:b}", "paused", 0, "catchup", how->catchup);
    return cli_ask(fr_store_home(v->st), &q, err, "/api/v1/schedules/%lld", (long long)id);
}

/* Pauses or resumes the named schedules, without those that are so already. */
static enum fr_rc pause_all(struct view *v, const char *name, const struct fr_pause *how,
                            struct fr_err *err)
{
    const struct cli_writer *w = &v->call->home;
    size_t done = 0;
    enum fr_rc rc = cli_writer_open(&v->call->home, err);

    if (rc == FR_OK)
        rc = open_view(v, name, err);

    for (size_t i = 0; rc == FR_OK && i < v->rows.n; i++) {
        struct fr_schedule_row row = v->rows.rows[i];

        if ((row.state == FR_SCHEDULE_PAUSED) == how->pause && !how->queued)
            continue;
        rc = w->lock_fd < 0 ? ask_host(v, row.id, how, err)
                            : fr_schedule_pause(v->st, &row, how, err);
        if (rc == FR_OK)
            fr_print("%s/%s is %s%s\n", row.pipeline, row.name,
                     how->pause ? "paused" : "active again",
                     how->queued ? ", and its runs that waited do not begin" : "");
        done++;
    }
    if (rc == FR_OK && done == 0)
        fr_print("%s already\n", how->pause ? "paused" : "active");
    return rc;
}

enum fr_rc cli_schedules(struct cli_call *c, struct fr_err *err)
{
    const char *word = cli_arg(c, 0);
    struct fr_pause how = {.pause = word != NULL && strcmp(word, "pause") == 0,
                           .note = cli_value(c, "--note"),
                           .queued = cli_has(c, "--queued"),
                           .catchup = cli_has(c, "--catchup")};
    bool changes = how.pause || (word != NULL && strcmp(word, "resume") == 0);
    bool all = cli_has(c, "--all"), named = changes && !all;
    struct view v = {.call = c};
    enum fr_rc rc;

    if (how.queued && !how.pause)
        return fr_fail(err, FR_USAGE, "--queued is of 'schedules pause'");
    if ((rc = cli_args_between(c, named ? 2 : 0, named ? 2 : 1, err)) == FR_OK)
        rc = changes ? pause_all(&v, all ? NULL : c->args.v[1], &how, err) : show(&v, word, err);
    fr_spec_destroy(v.spec);
    return rc;
}

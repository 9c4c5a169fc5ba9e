/* backfill: makes runs for past instants of a schedule. */
#include "engine/cli/fires.h"
#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/timetable/backfill.h"
#include "engine/store/occurrences.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct backfill {
    struct cli_call *call;
    const char *file, *from, *to, *order, *existing; /* as given */
    bool dry;
    struct fr_spec *spec;         /* owns */
    const struct fr_schedule *s;  /* in spec */
    struct fr_timetable t;        /* owns */
    struct fr_schedule_row known; /* its row in the store; id 0: none */
    struct fr_backfill_row row;
    int64_t runs; /* number of runs that would be made now */
};

/* ---- the request ---- */

static const char *value_of(const struct backfill *b, const char *option, const char *otherwise)
{
    const char *value = cli_value(b->call, option);

    return value != NULL ? value : otherwise;
}

static enum fr_rc find_schedule(struct backfill *b, struct fr_err *err)
{
    const struct fr_spec *spec = b->spec;
    const char *name = cli_value(b->call, "--schedule");

    for (size_t i = 0; i < spec->n_schedules; i++)
        if (name != NULL ? strcmp(spec->schedules[i].name, name) == 0 : spec->n_schedules == 1)
            b->s = &spec->schedules[i];
    if (b->s != NULL)
        return FR_OK;
    if (spec->n_schedules == 0)
        return fr_fail(err, FR_USAGE, "%s has no schedule", b->file);
    if (name == NULL)
        return fr_fail(err, FR_USAGE,
                       "%s has %zu schedules: name one with --schedule; 'flowrun validate' lists "
                       "them",
                       b->file, spec->n_schedules);
    return fr_fail(err, FR_USAGE, "%s has no schedule '%s'; 'flowrun validate' lists them", b->file,
                   name);
}

/* Reads a wall time in the schedule's zone. */
static enum fr_rc read_time(const struct backfill *b, const char *option, const char *text,
                            int64_t *ms, struct fr_err *err)
{
    struct fr_when when;

    if (text == NULL)
        return fr_fail(err, FR_USAGE, "backfill needs %s, as %s 2026-12-24 or %s 2026-12-24T02:00",
                       option, option, option);
    if (fr_when_parse(fr_str_of(text), &when, err) != FR_OK)
        return fr_while(err, "%s", option);
    *ms = fr_zone_instant(&b->t.zone, when) * 1000;
    return FR_OK;
}

static enum fr_rc check_word(const struct backfill *b, const char *option, const char *text,
                             struct fr_err *err)
{
    const char *words = cli_option(b->call->cmd, option)->words;
    struct fr_buf all = {0};

    if (fr_word_in(words, text))
        return FR_OK;
    for (const char *p = words; *p != '\0'; p++)
        fr_buf_add(&all, *p == ' ' ? ", " : p, *p == ' ' ? 2 : 1);
    fr_fail(err, FR_USAGE, "%s is one of %s, not '%s'", option, all.bad ? "" : all.p, text);
    fr_buf_finish(&all);
    return FR_USAGE;
}

static enum fr_rc read_numbers(struct backfill *b, struct fr_err *err)
{
    const char *most = value_of(b, "--max-active", "1"), *first = value_of(b, "--priority", "-10");
    struct fr_backfill_row *row = &b->row;

    if (fr_parse_i64(fr_str_of(most), &row->max_active, NULL) != FR_OK || row->max_active < 1 ||
        row->max_active > 1000)
        return fr_fail(err, FR_USAGE, "--max-active is a number from 1 to 1000, not '%s'", most);
    if (fr_parse_i64(fr_str_of(first), &row->priority, NULL) != FR_OK)
        return fr_fail(err, FR_USAGE, "--priority is a whole number, not '%s'", first);
    return FR_OK;
}

static enum fr_rc count(struct backfill *b, struct fr_err *err)
{
    struct fr_backfill_row *row = &b->row;
    int64_t now = fr_sys.wall_ms() + 1;

    row->to_ms = row->to_ms < now ? row->to_ms : now; /* future instants are left to the schedule */
    if (row->from_ms >= row->to_ms)
        return fr_fail(err, FR_USAGE, "there is no time from %s to %s that is past", b->from,
                       b->to);
    row->total = fr_rule_count(&b->t.rule, row->from_ms - 1, row->to_ms - 1);
    if (row->total == 0)
        return fr_fail(err, FR_USAGE, "schedule %s never fires from %s to %s", b->s->name, b->from,
                       b->to);
    if (row->total > FR_BACKFILL_MOST)
        return fr_fail(err, FR_USAGE,
                       "schedule %s fires %lld times from %s to %s; a backfill makes at most %d",
                       b->s->name, (long long)row->total, b->from, b->to, FR_BACKFILL_MOST);
    row->cursor_ms = row->newest != 0 ? row->to_ms : row->from_ms - 1;
    return FR_OK;
}

static enum fr_rc read_wish(struct backfill *b, struct fr_err *err)
{
    struct fr_spec_opts opts;
    enum fr_rc rc = cli_pipeline(b->call, b->file, &opts, err);

    opts.scheduled = true;
    if (rc == FR_OK)
        rc = fr_spec_load(&opts, &b->spec, &b->call->issues, err);
    if (rc == FR_OK && (rc = find_schedule(b, err)) == FR_OK)
        rc = fr_timetable_open(&b->t, b->s, &b->call->spec.zones, err);
    if (rc == FR_OK && (rc = read_time(b, "--from", b->from, &b->row.from_ms, err)) == FR_OK &&
        (rc = read_time(b, "--to", b->to, &b->row.to_ms, err)) == FR_OK &&
        (rc = check_word(b, "--order", b->order, err)) == FR_OK &&
        (rc = check_word(b, "--existing", b->existing, err)) == FR_OK)
        rc = read_numbers(b, err);
    b->row.newest = strcmp(b->order, "newest") == 0;
    b->row.existing = (enum fr_existing)fr_word_find(&fr_existing_words, fr_str_of(b->existing));
    return rc == FR_OK ? count(b, err) : rc;
}

/* ---- the schedule and its instants ---- */

static enum fr_rc find_known(struct backfill *b, struct fr_store *st, struct fr_err *err)
{
    struct fr_schedule_rows rows = {0};
    char path[PATH_MAX];
    enum fr_rc rc = fr_store_schedules(st, &b->call->arena, &rows, err);

    if (rc == FR_OK && realpath(b->file, path) == NULL)
        rc = fr_fail(err, FR_NOTFOUND, "there is no file %s", b->file);
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++)
        if (strcmp(rows.rows[i].source, path) == 0 && strcmp(rows.rows[i].name, b->s->name) == 0)
            b->known = rows.rows[i];
    b->row.schedule = b->known.id;
    if (rc == FR_OK && b->known.id == 0 && !b->dry)
        rc =
            fr_fail(err, FR_NOTFOUND,
                    "this home does not know schedule %s of %s: 'flowrun serve' with the folder of "
                    "the file makes it known (it may be paused), and makes the runs",
                    b->s->name, path);
    return rc;
}

static void say_instant(const struct backfill *b, int64_t at, const struct fr_instant *there,
                        bool wanted)
{
    const char *word = fr_word(&fr_outcome_or_live_words, there->word);
    char text[CLI_FIRE_TEXT];

    if (b->call->json) {
        cli_put_json(json_pack("{s:I, s:s, s:I, s:b}", "at_ms", (json_int_t)at, "existing", word,
                               "run", (json_int_t)there->run, "makes_run", wanted));
        return;
    }
    cli_fire_text(&b->t.zone, at, text);
    fr_print("%-46s  %s", text, wanted ? "a run" : "left as it is");
    if (there->run != 0)
        fr_print(": run %lld %s", (long long)there->run,
                 there->word == FR_OUT_LIVE ? "is not over" : word);
    fr_print("\n");
}

/* Counts the runs; a dry run names each instant. */
static enum fr_rc look(struct backfill *b, struct fr_store *st, struct fr_err *err)
{
    struct fr_backfill_row at = b->row;
    enum fr_rc rc = FR_OK;
    int64_t ms;

    while (rc == FR_OK && fr_backfill_next(&at, &b->t.rule, &ms)) {
        struct fr_arena arena = {0};
        struct fr_instant there = {0};
        bool wanted;

        at.cursor_ms = ms;
        if (at.schedule != 0)
            rc = fr_store_instant(st, at.schedule, ms, &arena, &there, err);
        wanted = rc == FR_OK && fr_backfill_wants(&at, &there);
        b->runs += wanted;
        if (rc == FR_OK && b->dry)
            say_instant(b, ms, &there, wanted);
        fr_arena_finish(&arena);
    }
    return rc;
}

/* ---- it is made ---- */

static enum fr_rc ask_host(struct backfill *b, const char *home, struct fr_err *err)
{
    const struct fr_backfill_row *row = &b->row;
    json_t *answer = NULL;
    struct cli_question q = {
        .method = "POST",
        .body = json_pack("{s:I, s:I, s:I, s:I, s:s, s:s, s:I, s:I, s:o}", "schedule",
                          (json_int_t)row->schedule, "from_ms", (json_int_t)row->from_ms, "to_ms",
                          (json_int_t)row->to_ms, "total", (json_int_t)row->total, "order",
                          b->order, "existing", b->existing, "max_active",
                          (json_int_t)row->max_active, "priority", (json_int_t)row->priority,
                          "params", fr_json_texts(b->call->spec.params.v, b->call->spec.params.n)),
        .answer = &answer};
    enum fr_rc rc = cli_ask(home, &q, err, "/api/v1/backfills");

    b->row.id = json_integer_value(json_object_get(answer, "id"));
    json_decref(answer);
    return rc;
}

static enum fr_rc add_here(struct backfill *b, struct fr_store *st, struct fr_err *err)
{
    json_t *list = fr_json_texts(b->call->spec.params.v, b->call->spec.params.n);
    char *text = json_dumps(list, JSON_COMPACT);
    enum fr_rc rc = text != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for parameters");

    b->row.params = text;
    b->row.state = FR_BACKFILL_ACTIVE;
    b->row.made_wall = fr_sys.wall_ms();
    if (rc == FR_OK)
        rc = fr_store_backfill_add(st, &b->row, err);
    b->row.params = NULL;
    free(text);
    json_decref(list);
    return rc;
}

static void say_sum(const struct backfill *b, bool hosted)
{
    long long left = (long long)(b->row.total - b->runs);

    if (b->call->json) {
        cli_put_json(json_pack("{s:I, s:I, s:I, s:b}", "backfill", (json_int_t)b->row.id, "total",
                               (json_int_t)b->row.total, "runs", (json_int_t)b->runs, "dry_run",
                               b->dry));
        return;
    }
    if (b->dry) {
        fr_print("%lld instants: %lld runs would be made, %lld are left as they are\n",
                 (long long)b->row.total, (long long)b->runs, left);
        return;
    }
    fr_print("backfill %lld of %s/%s: %lld instants, %lld runs, %lld at a time; %lld are left as "
             "they are\n",
             (long long)b->row.id, b->known.pipeline, b->known.name, (long long)b->row.total,
             (long long)b->runs, (long long)b->row.max_active, left);
    fr_print("%s'flowrun backfills' shows how far it is, 'flowrun backfills cancel %lld' ends it\n",
             hosted ? "" : "it begins with the next 'flowrun serve' of its folder; ",
             (long long)b->row.id);
}

static enum fr_rc make(struct backfill *b, struct fr_err *err)
{
    struct cli_writer *w = &b->call->home;
    enum fr_rc rc = b->dry ? cli_store_read(&w->st, err) : cli_writer_open(w, err);
    bool hosted = w->lock_fd < 0;

    if (rc == FR_OK && (rc = find_known(b, w->st, err)) == FR_OK)
        rc = look(b, w->st, err);
    if (rc == FR_OK && !b->dry)
        rc = hosted ? ask_host(b, fr_store_home(w->st), err) : add_here(b, w->st, err);
    if (rc == FR_OK)
        say_sum(b, hosted);
    return rc;
}

enum fr_rc cli_backfill(struct cli_call *c, struct fr_err *err)
{
    struct backfill b = {.call = c,
                         .file = c->args.v[0],
                         .from = cli_value(c, "--from"),
                         .to = cli_value(c, "--to"),
                         .dry = cli_has(c, "--dry-run")};
    enum fr_rc rc;

    b.order = value_of(&b, "--order", "oldest");
    b.existing = value_of(&b, "--existing", "skip");
    if ((rc = read_wish(&b, err)) == FR_OK)
        rc = make(&b, err);
    fr_timetable_close(&b.t);
    fr_spec_destroy(b.spec);
    return rc;
}

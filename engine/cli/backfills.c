/* backfills: lists them with their progress; pauses, resumes or cancels one. */
#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/timetable/backfill.h"
#include "engine/store/occurrences.h"
#include "engine/store/types.h"

static const struct fr_schedule_row *schedule_of(const struct fr_schedule_rows *rows, int64_t id)
{
    for (size_t i = 0; i < rows->n; i++)
        if (rows->rows[i].id == id)
            return &rows->rows[i];
    return NULL;
}

static void print_one(const struct fr_backfill_row *r, const struct fr_schedule_row *s, bool json)
{
    struct fr_buf name = {0};
    json_t *doc;
    char from[32], to[32];

    fr_buf_fmt(&name, "%s/%s", s != NULL ? s->pipeline : "", s != NULL ? s->name : "");
    cli_date(r->from_ms, from);
    cli_date(r->to_ms, to);
    if (json) {
        doc = fr_row_json(&fr_backfill_type, r);
        json_object_set_new(doc, "name", json_string(name.bad ? "" : name.p));
        cli_put_json(doc);
    } else {
        fr_print("%8lld  %-32s  %-19s  %-19s  %-9s  %5lld of %-5lld  %5lld%s%s\n", (long long)r->id,
                 name.bad ? "" : name.p, from, to, fr_word(&fr_backfill_state_words, r->state),
                 (long long)(r->made + r->kept), (long long)r->total, (long long)r->made,
                 r->note[0] != '\0' ? "  " : "", r->note);
    }
    fr_buf_finish(&name);
}

static enum fr_rc list(struct cli_call *c, struct fr_err *err)
{
    struct fr_backfill_rows rows = {0};
    struct fr_schedule_rows schedules = {0};
    enum fr_rc rc = cli_store_read(&c->home.st, err);

    if (rc == FR_OK)
        rc = fr_store_backfills(c->home.st, false, &c->arena, &rows, err);
    if (rc == FR_OK)
        rc = fr_store_schedules(c->home.st, &c->arena, &schedules, err);
    if (rc == FR_OK && !c->json && rows.n == 0)
        fr_print("there is no backfill\n");
    else if (rc == FR_OK && !c->json)
        fr_print("%8s  %-32s  %-19s  %-19s  %-9s  %14s  %5s\n", "backfill", "schedule", "from",
                 "to", "state", "instants", "runs");
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++)
        print_one(&rows.rows[i], schedule_of(&schedules, rows.rows[i].schedule), c->json);
    return rc;
}

static enum fr_rc change(struct cli_call *c, size_t act, struct fr_err *err)
{
    static const struct {
        enum fr_backfill_state state;
        const char *done;
    } acts[] = {{FR_BACKFILL_PAUSED, "paused; runs that were made go on"},
                {FR_BACKFILL_ACTIVE, "active again"},
                {FR_BACKFILL_CANCELLED, "cancelled; runs that were started go on"}};
    int64_t id = 0;
    enum fr_rc rc;

    if (fr_parse_i64(fr_str_of(c->args.v[1]), &id, NULL) != FR_OK)
        return fr_fail(err, FR_USAGE, "a backfill is named by its number, not '%s'", c->args.v[1]);
    rc = cli_writer_open(&c->home, err);
    if (rc == FR_OK && c->home.lock_fd >= 0)
        rc = fr_backfill_change(c->home.st, id, acts[act].state, err);
    else if (rc == FR_OK)
        rc = cli_ask(fr_store_home(c->home.st), &(struct cli_question){.method = "POST"}, err,
                     "/api/v1/backfills/%lld/%s", (long long)id, c->args.v[0]);
    if (rc == FR_OK)
        fr_print("backfill %lld: %s\n", (long long)id, acts[act].done);
    return rc;
}

enum fr_rc cli_backfills(struct cli_call *c, struct fr_err *err)
{
    size_t act;
    enum fr_rc rc = cli_verb(c, "pause resume cancel", &act, err);

    if (rc != FR_OK || c->args.n == 0)
        return rc == FR_OK ? list(c, err) : rc;
    rc = cli_args_between(c, 2, 2, err);
    return rc == FR_OK ? change(c, act, err) : rc;
}

/* backfills: how far they are; pause, resume and cancel them. */
#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/timetable/backfill.h"
#include "engine/store/fires.h"
#include "engine/store/types.h"

#include <stdio.h>
#include <string.h>

static const char *const acts[] = {"pause", "resume", "cancel"};

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
                 name.bad ? "" : name.p, from, to, r->state, (long long)(r->made + r->kept),
                 (long long)r->total, (long long)r->made, r->note[0] != '\0' ? "  " : "", r->note);
    }
    fr_buf_finish(&name);
}

static enum fr_rc list(bool json, struct fr_err *err)
{
    struct fr_store *st = NULL;
    struct fr_arena arena = {0};
    struct fr_backfill_rows rows = {0};
    struct fr_schedule_rows schedules = {0};
    enum fr_rc rc = cli_store_read(&st, err);

    if (rc == FR_OK)
        rc = fr_store_backfills(st, false, &arena, &rows, err);
    if (rc == FR_OK)
        rc = fr_store_schedules(st, &arena, &schedules, err);
    if (rc == FR_OK && !json && rows.n == 0)
        fr_print("there is no backfill\n");
    else if (rc == FR_OK && !json)
        fr_print("%8s  %-32s  %-19s  %-19s  %-9s  %14s  %5s\n", "backfill", "schedule", "from",
                 "to", "state", "instants", "runs");
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++)
        print_one(&rows.rows[i], schedule_of(&schedules, rows.rows[i].schedule), json);
    fr_arena_finish(&arena);
    fr_store_close(st);
    return rc;
}

static enum fr_rc change(size_t act, const char *name, struct fr_err *err)
{
    struct fr_store *st = NULL;
    struct fr_buf home = {0};
    char path[80];
    int64_t id = 0;
    int lock_fd = -1;
    enum fr_rc rc;

    if (fr_parse_i64(fr_str_of(name), &id, NULL) != FR_OK)
        return fr_fail(err, FR_USAGE, "a backfill is named by its number, not '%s'", name);
    rc = cli_store(&st, &lock_fd, err);
    snprintf(path, sizeof(path), "/api/v1/backfills/%lld/%s", (long long)id, acts[act]);
    if (rc == FR_OK)
        rc = fr_backfill_change(st, id, (enum fr_backfill_act)act, err);
    else if (rc == FR_BUSY && (rc = cli_home(&home, err)) == FR_OK)
        rc = cli_ask(home.p, &(struct cli_question){.method = "POST", .path = path}, NULL, err);
    if (rc == FR_OK)
        fr_print("backfill %lld: %s\n", (long long)id,
                 act == FR_BACKFILL_PAUSE    ? "paused; runs that were made go on"
                 : act == FR_BACKFILL_RESUME ? "active again"
                                             : "cancelled; runs that were started go on");
    fr_buf_finish(&home);
    cli_store_close(st, lock_fd);
    return rc;
}

int cli_backfills(const struct cli_command *cmd, char **argv)
{
    struct cli_list args = {0};
    bool json = false;
    const struct cli_opt opts[] = {
        {"--json", 0, NULL, "one JSON object a backfill", .flag = &json},
        {.name = NULL},
    };
    struct fr_err err = {0};
    size_t act = sizeof(acts) / sizeof(acts[0]);
    enum fr_rc rc = cli_parse(cmd, opts, argv, &args, &err);

    for (size_t i = 0; rc == FR_OK && args.n > 0 && i < sizeof(acts) / sizeof(acts[0]); i++)
        act = strcmp(args.v[0], acts[i]) == 0 ? i : act;
    if (rc == FR_OK && args.n > 0 && act == sizeof(acts) / sizeof(acts[0]))
        rc = fr_fail(&err, FR_USAGE, "backfills: what is '%s'? It takes pause, resume or cancel",
                     args.v[0]);
    if (rc == FR_OK && args.n > 0)
        rc = cli_args_between(cmd, &args, 2, 2, &err);
    if (rc == FR_OK)
        rc = args.n > 0 ? change(act, args.v[1], &err) : list(json, &err);
    cli_list_finish(&args);
    return rc == FR_OK ? CLI_OK : (int)cli_fail(&err);
}

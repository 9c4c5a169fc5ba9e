/* rm, gc, pin, unpin: which ended runs the home keeps. */
#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/retain/retain.h"

/* Opens the home for writing, and finds the runs that the arguments name: all of them or none. */
static enum fr_rc find_all(struct cli_call *c, struct fr_run_row **out, struct fr_err *err)
{
    enum fr_rc rc = cli_writer_open(&c->home, err);

    *out = fr_arena_array(&c->arena, c->args.n, sizeof(**out));
    if (rc == FR_OK && *out == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for runs");
    for (size_t i = 0; rc == FR_OK && i < c->args.n; i++)
        rc = fr_store_run_find(c->home.st, c->args.v[i], &c->arena, &(*out)[i], err);
    return rc;
}

static enum fr_rc check_removable(const struct fr_run_row *row, struct fr_err *err)
{
    long long no = row->no;

    if (row->state != FR_RUN_OVER)
        return fr_fail(err, FR_USAGE, "run %lld is not over: 'flowrun cancel %lld' ends it", no,
                       no);
    if (row->rerun_wall != 0)
        return fr_fail(err, FR_USAGE,
                       "run %lld is to run again by itself: 'flowrun cancel %lld' prevents that",
                       no, no);
    if (row->pinned != 0)
        return fr_fail(err, FR_USAGE, "run %lld is pinned: 'flowrun unpin %lld' lets it go", no,
                       no);
    return FR_OK;
}

/* Removes the rest of removed runs. */
static enum fr_rc finish_removed(struct fr_store *st, struct fr_err *err)
{
    bool more = true;
    enum fr_rc rc = FR_OK;

    while (rc == FR_OK && more)
        rc = fr_retain_step(st, &more, err);
    return rc;
}

static void say_gone(const struct fr_over_row *row, int64_t bytes, bool dry, bool json)
{
    const char *outcome = fr_outcome_name(row->outcome);
    char id[FR_ID_TEXT], size[24], date[32];

    fr_id_text(row->id, id);
    fr_show_size(bytes, size);
    cli_date(row->ended_wall, date);
    if (json)
        cli_put_json(json_pack("{s:I, s:s, s:s, s:s, s:I, s:I, s:b}", "no", (json_int_t)row->no,
                               "id", id, "pipeline", row->name, "outcome", outcome, "ended_wall",
                               (json_int_t)row->ended_wall, "bytes", (json_int_t)bytes, "removed",
                               !dry));
    else
        fr_print("run %lld (%.8s) of %s, %s %s, %s%s\n", (long long)row->no, id, row->name, outcome,
                 date, dry ? "would be removed: " : "removed: ", size);
}

/* Removes the run and prints that. */
static enum fr_rc remove_one(const struct cli_call *c, const struct fr_over_row *row, int64_t bytes,
                             struct fr_err *err)
{
    char id[FR_ID_TEXT];
    enum fr_rc rc;

    if (c->home.lock_fd >= 0) {
        rc = fr_retain_remove(c->home.st, row->id, err);
    } else {
        fr_id_text(row->id, id);
        rc = cli_ask(fr_store_home(c->home.st), &(struct cli_question){.method = "DELETE"}, err,
                     "/api/v1/runs/%s", id);
    }
    if (rc == FR_OK)
        say_gone(row, bytes, false, c->json);
    return rc == FR_OK && c->home.lock_fd >= 0 ? finish_removed(c->home.st, err) : rc;
}

static bool named_before(const struct fr_run_row *rows, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (fr_id_eq(rows[k].id, rows[i].id))
            return true;
    return false;
}

enum fr_rc cli_rm(struct cli_call *c, struct fr_err *err)
{
    struct fr_run_row *rows;
    enum fr_rc rc = find_all(c, &rows, err);

    for (size_t i = 0; rc == FR_OK && i < c->args.n; i++)
        rc = check_removable(&rows[i], err);
    for (size_t i = 0; rc == FR_OK && i < c->args.n; i++)
        if (!named_before(rows, i))
            rc = remove_one(c,
                            &(struct fr_over_row){.id = rows[i].id,
                                                  .no = rows[i].no,
                                                  .name = rows[i].name,
                                                  .outcome = rows[i].outcome,
                                                  .ended_wall = rows[i].ended_wall},
                            fr_retain_bytes(c->home.st, rows[i].id), err);
    return rc;
}

/* ---- gc ---- */

struct gc {
    struct cli_call *c;
    bool dry;
    size_t runs;
    int64_t bytes;
    struct fr_swept swept;
};

static enum fr_rc collect_runs(struct gc *g, struct fr_err *err)
{
    struct cli_call *c = g->c;
    struct fr_over_rows rows = {0};
    struct fr_keep_by by = {c->config->keep, fr_sys.wall_ms()};
    enum fr_rc rc = fr_retain_choose(c->home.st, &by, &c->arena, &rows, err);

    for (size_t i = rows.n; rc == FR_OK && i-- > 0;) { /* the oldest first */
        const struct fr_over_row *row = &rows.rows[i];
        int64_t bytes = fr_retain_bytes(c->home.st, row->id);

        if (g->dry)
            say_gone(row, bytes, true, c->json);
        else if ((rc = remove_one(c, row, bytes, err)) == FR_BUSY || rc == FR_NOTFOUND) {
            rc = FR_OK; /* it was retried, pinned or removed meanwhile */
            continue;
        }
        if (rc != FR_OK)
            break;
        g->runs++;
        g->bytes += bytes;
    }
    return rc;
}

/* Removes files that no row names. */
static enum fr_rc sweep(struct gc *g, struct fr_err *err)
{
    struct fr_store *st = g->c->home.st;
    json_t *answer = NULL;
    enum fr_rc rc;

    if (g->dry || g->c->home.lock_fd >= 0)
        return fr_retain_sweep(st, g->dry, &g->swept, err);
    rc = cli_ask(fr_store_home(st), &(struct cli_question){.method = "POST", .answer = &answer},
                 err, "/api/v1/sweep");
    g->swept.files = (size_t)json_integer_value(json_object_get(answer, "files"));
    g->swept.bytes = json_integer_value(json_object_get(answer, "bytes"));
    json_decref(answer);
    return rc;
}

/* Rewrites the database if no run is open. */
static enum fr_rc shrink(struct fr_store *st, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_run_rows open = {0};
    enum fr_rc rc = fr_store_runs_open(st, &arena, &open, err);

    fr_arena_finish(&arena);
    return rc == FR_OK && open.n == 0 ? fr_store_shrink(st, err) : rc;
}

static void say_sum(const struct gc *g)
{
    const struct fr_keep_runs *keep = &g->c->config->keep;
    char size[24];

    fr_show_size(g->bytes + g->swept.bytes, size);
    if (g->c->json) {
        cli_put_json(json_pack("{s:I, s:I, s:I, s:b}", "runs", (json_int_t)g->runs, "files",
                               (json_int_t)g->swept.files, "bytes",
                               (json_int_t)(g->bytes + g->swept.bytes), "removed", !g->dry));
        return;
    }
    if (keep->runs == 0 && keep->days == 0 && keep->failed_days == 0 && keep->bytes == 0)
        fr_print(
            "the configuration keeps all runs: 'flowrun help config' says how to limit them\n");
    fr_print("%zu run%s and %zu file%s of no run %s: %s\n", g->runs, fr_plural(g->runs),
             g->swept.files, fr_plural(g->swept.files), g->dry ? "would be removed" : "removed",
             size);
}

enum fr_rc cli_gc(struct cli_call *c, struct fr_err *err)
{
    struct gc g = {.c = c, .dry = cli_has(c, "--dry-run")};
    enum fr_rc rc = cli_config(NULL, &c->config, &c->issues, err);

    if (rc == FR_OK)
        rc = g.dry ? cli_store_read(&c->home.st, err) : cli_writer_open(&c->home, err);
    if (rc == FR_OK && c->home.lock_fd >= 0)
        rc = finish_removed(c->home.st, err);
    if (rc == FR_OK)
        rc = collect_runs(&g, err);
    if (rc == FR_OK)
        rc = sweep(&g, err);
    if (rc == FR_OK && c->home.lock_fd >= 0)
        rc = shrink(c->home.st, err);
    if (rc == FR_OK)
        say_sum(&g);
    return rc;
}

/* ---- pin ---- */

static enum fr_rc set_pin(struct cli_call *c, bool pin, struct fr_err *err)
{
    struct fr_run_row *rows;
    enum fr_rc rc = find_all(c, &rows, err);

    for (size_t i = 0; rc == FR_OK && i < c->args.n; i++)
        rc = c->home.lock_fd >= 0 ? fr_store_run_pin(c->home.st, rows[i].id, pin, err)
                                  : cli_ask_run(c->home.st, rows[i].id, "pin",
                                                json_pack("{s:b}", "pinned", pin), err);
    return rc;
}

enum fr_rc cli_pin(struct cli_call *c, struct fr_err *err)
{
    return set_pin(c, true, err);
}

enum fr_rc cli_unpin(struct cli_call *c, struct fr_err *err)
{
    return set_pin(c, false, err);
}

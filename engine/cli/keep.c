/* rm, gc, pin, unpin: which ended runs stay in the home. */
#include "engine/client/ask.h"
#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/retain/retain.h"

#include <stdio.h>
#include <string.h>

/* The runs that args names, all of them or none. */
static enum fr_rc find_all(struct fr_store *st, const struct cli_list *args, struct fr_arena *arena,
                           struct fr_run_row **out, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    *out = fr_arena_array(arena, args->n, sizeof(**out));
    if (*out == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for runs");
    for (size_t i = 0; rc == FR_OK && i < args->n; i++)
        rc = fr_store_run_find(st, args->v[i], arena, &(*out)[i], err);
    return rc;
}

static enum fr_rc check_removable(const struct fr_run_row *row, struct fr_err *err)
{
    long long no = row->no;

    if (strcmp(row->state, "over") != 0)
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

/* All that is left of removed runs goes. */
static enum fr_rc finish_removed(struct fr_store *st, struct fr_err *err)
{
    bool more = true;
    enum fr_rc rc = FR_OK;

    while (rc == FR_OK && more)
        rc = fr_retain_step(st, &more, err);
    return rc;
}

struct gone { /* what is said of a run */
    struct fr_id id;
    int64_t no, ended_wall, bytes;
    const char *name, *outcome;
};

static void say_gone(const struct gone *g, bool dry, bool json)
{
    char id[FR_ID_TEXT], size[24], date[32];

    fr_id_text(g->id, id);
    fr_show_size(g->bytes, size);
    cli_date(g->ended_wall, date);
    if (json)
        cli_put_json(json_pack("{s:I, s:s, s:s, s:s, s:I, s:I, s:b}", "no", (json_int_t)g->no, "id",
                               id, "pipeline", g->name, "outcome", g->outcome, "ended_wall",
                               (json_int_t)g->ended_wall, "bytes", (json_int_t)g->bytes, "removed",
                               !dry));
    else
        fr_print("run %lld (%.8s) of %s, %s %s, %s%s\n", (long long)g->no, id, g->name, g->outcome,
                 date, dry ? "would be removed: " : "removed: ", size);
}

/* The run is removed, and said to be. */
static enum fr_rc remove_one(const struct cli_writer *w, const struct gone *g, bool json,
                             struct fr_err *err)
{
    enum fr_rc rc = w->lock_fd < 0 ? cli_writer_ask(w, "DELETE", g->id, "", NULL, err)
                                   : fr_retain_remove(w->st, g->id, err);

    if (rc == FR_OK)
        say_gone(g, false, json);
    return rc == FR_OK && w->lock_fd >= 0 ? finish_removed(w->st, err) : rc;
}

static bool named_before(const struct fr_run_row *rows, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (fr_id_eq(rows[k].id, rows[i].id))
            return true;
    return false;
}

int cli_rm(const struct cli_command *cmd, char **argv)
{
    struct cli_list args = {0};
    bool json = false;
    const struct cli_opt opts[] = {
        {"--json", 0, NULL, "one JSON object a run", .flag = &json},
        {.name = NULL},
    };
    struct cli_writer w = {.lock_fd = -1};
    struct fr_arena arena = {0};
    struct fr_run_row *rows = NULL;
    struct fr_err err = {0};
    enum fr_rc rc = cli_parse(cmd, opts, argv, &args, &err);

    if (rc == FR_OK)
        rc = cli_writer_open(&w, &err);
    if (rc == FR_OK)
        rc = find_all(w.st, &args, &arena, &rows, &err);
    for (size_t i = 0; rc == FR_OK && i < args.n; i++)
        rc = check_removable(&rows[i], &err);
    for (size_t i = 0; rc == FR_OK && i < args.n; i++)
        if (!named_before(rows, i))
            rc = remove_one(&w,
                            &(struct gone){rows[i].id, rows[i].no, rows[i].ended_wall,
                                           fr_retain_bytes(w.st, rows[i].id), rows[i].name,
                                           rows[i].outcome},
                            json, &err);
    fr_arena_finish(&arena);
    cli_writer_close(&w);
    cli_list_finish(&args);
    return rc == FR_OK ? CLI_OK : (int)cli_fail(&err);
}

/* ---- gc ---- */

struct gc {
    struct cli_writer w;
    bool dry, json;
    size_t runs;
    int64_t bytes;
    struct fr_swept swept;
};

static enum fr_rc collect_runs(struct gc *g, const struct fr_keep_runs *keep, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_over_rows rows = {0};
    struct fr_keep_by by = {*keep, fr_sys.wall_ms()};
    enum fr_rc rc = fr_retain_choose(g->w.st, &by, &arena, &rows, err);

    for (size_t i = rows.n; rc == FR_OK && i-- > 0;) { /* the oldest first */
        const struct fr_over_row *row = &rows.rows[i];
        struct gone gone = {row->id,         row->no,
                            row->ended_wall, fr_retain_bytes(g->w.st, row->id),
                            row->name,       row->outcome};

        if (g->dry)
            say_gone(&gone, true, g->json);
        else if ((rc = remove_one(&g->w, &gone, g->json, err)) == FR_BUSY || rc == FR_NOTFOUND) {
            rc = FR_OK; /* it was retried, pinned or removed meanwhile */
            continue;
        }
        if (rc != FR_OK)
            break;
        g->runs++;
        g->bytes += gone.bytes;
    }
    fr_arena_finish(&arena);
    return rc;
}

/* What no row knows goes. */
static enum fr_rc sweep(struct gc *g, struct fr_err *err)
{
    struct cli_question q = {.method = "POST", .path = "/api/v1/sweep"};
    json_t *answer = NULL;
    enum fr_rc rc;

    if (g->dry || g->w.lock_fd >= 0)
        return fr_retain_sweep(g->w.st, g->dry, &g->swept, err);
    rc = cli_ask(fr_store_home(g->w.st), &q, &answer, err);
    g->swept.files = (size_t)json_integer_value(json_object_get(answer, "files"));
    g->swept.bytes = json_integer_value(json_object_get(answer, "bytes"));
    json_decref(answer);
    return rc;
}

/* Where nothing of this home runs, its file may be written anew. */
static enum fr_rc shrink(struct fr_store *st, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_run_rows open = {0};
    enum fr_rc rc = fr_store_runs_open(st, &arena, &open, err);

    fr_arena_finish(&arena);
    return rc == FR_OK && open.n == 0 ? fr_store_shrink(st, err) : rc;
}

static void say_sum(const struct gc *g, bool limited)
{
    char size[24];

    fr_show_size(g->bytes + g->swept.bytes, size);
    if (g->json) {
        cli_put_json(json_pack("{s:I, s:I, s:I, s:b}", "runs", (json_int_t)g->runs, "files",
                               (json_int_t)g->swept.files, "bytes",
                               (json_int_t)(g->bytes + g->swept.bytes), "removed", !g->dry));
        return;
    }
    if (!limited)
        fr_print(
            "the configuration keeps all runs: 'flowrun help config' says how to limit them\n");
    fr_print("%zu run%s and %zu file%s of no run %s: %s\n", g->runs, g->runs == 1 ? "" : "s",
             g->swept.files, g->swept.files == 1 ? "" : "s",
             g->dry ? "would be removed" : "removed", size);
}

int cli_gc(const struct cli_command *cmd, char **argv)
{
    struct cli_list args = {0};
    struct gc g = {.w = {.lock_fd = -1}};
    const struct cli_opt opts[] = {
        {"--dry-run", 'n', NULL, "say what would go and remove nothing", .flag = &g.dry},
        {"--json", 0, NULL, "one JSON object a run, and one for all", .flag = &g.json},
        {.name = NULL},
    };
    struct fr_config *config = NULL;
    struct fr_issues issues = {0};
    struct fr_err err = {0};
    enum fr_rc rc = cli_parse(cmd, opts, argv, &args, &err);

    if (rc == FR_OK)
        rc = cli_config(NULL, &config, &issues, &err);
    if (rc == FR_OK)
        rc = g.dry ? cli_store_read(&g.w.st, &err) : cli_writer_open(&g.w, &err);
    if (rc == FR_OK && g.w.lock_fd >= 0)
        rc = finish_removed(g.w.st, &err);
    if (rc == FR_OK)
        rc = collect_runs(&g, &config->keep, &err);
    if (rc == FR_OK)
        rc = sweep(&g, &err);
    if (rc == FR_OK && g.w.lock_fd >= 0)
        rc = shrink(g.w.st, &err);
    if (rc == FR_OK)
        say_sum(&g, config->keep.runs > 0 || config->keep.days > 0 ||
                        config->keep.failed_days > 0 || config->keep.bytes > 0);
    int code = rc == FR_OK ? CLI_OK : (int)cli_fail_issues(&issues, &err);
    cli_writer_close(&g.w);
    fr_config_destroy(config);
    fr_issues_finish(&issues);
    cli_list_finish(&args);
    return code;
}

/* ---- pin ---- */

static int set_pin(const struct cli_command *cmd, char **argv, bool pin)
{
    const struct cli_opt opts[] = {{.name = NULL}};
    struct cli_list args = {0};
    struct cli_writer w = {.lock_fd = -1};
    struct fr_arena arena = {0};
    struct fr_run_row *rows = NULL;
    struct fr_err err = {0};
    enum fr_rc rc = cli_parse(cmd, opts, argv, &args, &err);

    if (rc == FR_OK)
        rc = cli_writer_open(&w, &err);
    if (rc == FR_OK)
        rc = find_all(w.st, &args, &arena, &rows, &err);
    for (size_t i = 0; rc == FR_OK && i < args.n; i++)
        rc = w.lock_fd >= 0 ? fr_store_run_pin(w.st, rows[i].id, pin, &err)
                            : cli_writer_ask(&w, "POST", rows[i].id, "/pin",
                                             json_pack("{s:b}", "pinned", pin), &err);
    fr_arena_finish(&arena);
    cli_writer_close(&w);
    cli_list_finish(&args);
    return rc == FR_OK ? CLI_OK : (int)cli_fail(&err);
}

int cli_pin(const struct cli_command *cmd, char **argv)
{
    return set_pin(cmd, argv, true);
}

int cli_unpin(const struct cli_command *cmd, char **argv)
{
    return set_pin(cmd, argv, false);
}

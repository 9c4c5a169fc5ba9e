/* rerun: a run that is over is made again, as a new one. */
#include "engine/cli/cli.h"
#include "engine/client/pipeline.h"

#include "engine/base/file.h"

#include <string.h>

struct rerun {
    struct fr_arena arena; /* of again */
    struct fr_again again;
    bool edited; /* the pipeline file is not what the run kept */
};

static enum fr_rc find(struct rerun *r, const char *text, struct fr_err *err)
{
    struct fr_store *st = NULL;
    struct fr_run_row row;
    char hash[FR_SHA256_TEXT];
    enum fr_rc rc = cli_store_read(&st, err);

    if (rc == FR_OK)
        rc = fr_store_run_find(st, text, &r->arena, &row, err);
    if (rc == FR_OK)
        rc = fr_run_again(st, &row, &r->arena, &r->again, err);
    r->edited = rc == FR_OK && fr_sha256_file(row.source, hash, NULL) == FR_OK &&
                strcmp(hash, row.spec_hash) != 0;
    fr_store_close(st);
    return rc;
}

static int go(struct rerun *r, struct fr_submit *submit, const struct cli_show_opts *how)
{
    struct cli_wish wish = {.submit = submit};
    const struct fr_run_row *row = &r->again.row;
    struct cli_drive d = {0};
    struct fr_err err = {0};
    enum fr_rc rc = fr_id_new(&submit->id, &err);
    int code;

    submit->again = &r->again;
    if (rc == FR_OK)
        rc = cli_drive_init(&d, how, &err);
    if (rc == FR_OK && r->edited)
        cli_show_say(d.show,
                     "%s was changed since run %lld began: that run's copy is used; 'flowrun run' "
                     "takes the file as it is now",
                     row->source, (long long)row->no);
    code = rc == FR_OK ? (int)cli_go(&d, &wish) : (int)cli_fail(&err);
    cli_drive_finish(&d);
    return code;
}

int cli_rerun(const struct cli_command *cmd, char **argv)
{
    struct cli_spec spec = {0};
    struct cli_list args = {0};
    struct cli_show_opts how = {0};
    struct fr_submit submit = {.origin = "retry"};
    struct rerun r = {0};
    const char *priority = "0";
    const struct cli_opt opts[] = {
        {"--param", 'p', "NAME=VALUE", "another value of a parameter", .list = &spec.params},
        {"--nodes", 0, "FILE", "inventory: the same as -p nodes=FILE", .value = &spec.nodes},
        {"--priority", 0, "N", "in the queue the larger goes first (default 0)",
         .value = &priority},
        {"--json", 0, NULL, "one JSON object an event", .flag = &how.json},
        {"--quiet", 'q', NULL, "show failures and the end alone; with --json no task output",
         .flag = &how.quiet},
        {"--verbose", 'v', NULL, "show also when tasks start, run and are stopped",
         .flag = &how.verbose},
        {.name = NULL},
    };
    struct fr_err err = {0};
    enum fr_rc rc = cli_parse(cmd, opts, argv, &args, &err);

    if (rc == FR_OK && fr_parse_i64(fr_str_of(priority), &submit.priority, NULL) != FR_OK)
        rc = fr_fail(&err, FR_USAGE, "rerun: --priority is a whole number, not '%s'", priority);
    if (rc == FR_OK)
        rc = cli_spec_opts(&spec, &submit.spec, &err);
    if (rc == FR_OK)
        rc = find(&r, args.v[0], &err);
    int code = rc == FR_OK ? go(&r, &submit, &how) : (int)cli_fail(&err);
    fr_arena_finish(&r.arena);
    cli_spec_finish(&spec);
    cli_list_finish(&args);
    return code;
}

#include "engine/cli/cli.h"
#include "engine/client/pipeline.h"

int cli_run(const struct cli_command *cmd, char **argv)
{
    struct cli_spec spec = {0};
    struct cli_list args = {0};
    struct cli_show_opts how = {0};
    struct fr_submit submit = {0};
    const char *priority = "0";
    const struct cli_opt opts[] = {
        {"--param", 'p', "NAME=VALUE", "set a parameter of the pipeline", .list = &spec.params},
        {"--nodes", 0, "FILE", "inventory: the same as -p nodes=FILE", .value = &spec.nodes},
        {"--priority", 0, "N", "in the queue the larger goes first (default 0)",
         .value = &priority},
        {"--at", 0, "TIME",
         "logical time of the run, for schedule.*: 2026-12-24T02:00 (default now)",
         .value = &submit.occasion.at},
        {"--json", 0, NULL, "one JSON object an event", .flag = &how.json},
        {"--quiet", 'q', NULL, "show failures and the end alone; with --json no task output",
         .flag = &how.quiet},
        {"--verbose", 'v', NULL, "show also when tasks start, run and are stopped",
         .flag = &how.verbose},
        {.name = NULL},
    };
    struct cli_wish wish = {.submit = &submit};
    struct cli_drive d = {0};
    struct fr_err err = {0};
    enum cli_exit code;
    enum fr_rc rc = cli_parse(cmd, opts, argv, &args, &err);

    if (rc == FR_OK && fr_parse_i64(fr_str_of(priority), &submit.priority, NULL) != FR_OK)
        rc = fr_fail(&err, FR_USAGE, "run: --priority is a whole number, not '%s'", priority);
    if (rc == FR_OK) {
        spec.file = args.v[0];
        rc = cli_spec_opts(&spec, &submit.spec, &err);
    }
    if (rc == FR_OK)
        rc = fr_id_new(&submit.id, &err);
    if (rc == FR_OK)
        rc = cli_drive_init(&d, &how, &err);
    code = rc == FR_OK ? cli_go(&d, &wish) : cli_fail(&err);
    cli_drive_finish(&d);
    cli_spec_finish(&spec);
    cli_list_finish(&args);
    return code;
}

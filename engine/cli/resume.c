#include "engine/cli/cli.h"

/* resume and retry differ in what they ask for, not in how they go on. */
static int go_on(struct fr_resume_opts *ro, bool json, bool quiet)
{
    struct fr_issues issues = {0};
    struct cli_drive d = {0};
    struct fr_run *run = NULL;
    struct fr_err err = {0};
    enum cli_exit code;
    enum fr_rc rc = cli_drive_init(&d, json, quiet, &err);

    if (rc == FR_OK)
        rc = fr_run_resume(&d.env, ro, &run, &issues, &err);
    code = rc == FR_OK ? cli_drive(&d, run) : cli_fail_issues(&issues, &err);
    cli_drive_finish(&d);
    fr_issues_finish(&issues);
    return code;
}

int cli_resume(const struct cli_command *cmd, char **argv)
{
    struct fr_resume_opts ro = {0};
    struct cli_list args = {0}, abandon = {0};
    bool json = false, quiet = false;
    const struct cli_opt opts[] = {
        {"--file", 0, "FILE", "go on with a changed pipeline file", .value = &ro.file},
        {"--abandon", 0, "NODE", "give a lost node up: its attempts end as node_lost",
         .list = &abandon},
        {"--json", 0, NULL, "one JSON object an event", .flag = &json},
        {"--quiet", 'q', NULL, "do not show what tasks print", .flag = &quiet},
        {.name = NULL},
    };
    struct fr_err err = {0};
    int code;
    enum fr_rc rc = cli_parse(cmd, opts, argv, &args, &err);

    if (rc == FR_OK)
        rc = cli_args_between(cmd, &args, 0, 1, &err);
    ro.run = args.n > 0 ? args.v[0] : NULL;
    ro.abandon = abandon.v;
    ro.n_abandon = abandon.n;
    code = rc == FR_OK ? go_on(&ro, json, quiet) : (int)cli_fail(&err);
    cli_list_finish(&args);
    cli_list_finish(&abandon);
    return code;
}

int cli_retry(const struct cli_command *cmd, char **argv)
{
    struct fr_resume_opts ro = {.retry = true};
    struct cli_list args = {0};
    bool json = false, quiet = false;
    const struct cli_opt opts[] = {
        {"--from", 0, "TASK", "this task and all that waits for it, also what succeeded",
         .value = &ro.retry_from},
        {"--file", 0, "FILE", "use a changed pipeline file", .value = &ro.file},
        {"--json", 0, NULL, "one JSON object an event", .flag = &json},
        {"--quiet", 'q', NULL, "do not show what tasks print", .flag = &quiet},
        {.name = NULL},
    };
    struct fr_err err = {0};
    int code;
    enum fr_rc rc = cli_parse(cmd, opts, argv, &args, &err);

    if (rc == FR_OK)
        rc = cli_args_between(cmd, &args, 0, 1, &err);
    ro.run = args.n > 0 ? args.v[0] : NULL;
    code = rc == FR_OK ? go_on(&ro, json, quiet) : (int)cli_fail(&err);
    cli_list_finish(&args);
    return code;
}

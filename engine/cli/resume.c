#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/store/home.h"

/* The owner of the run is asked to give the nodes up. *asked: there is one, and it did. */
static enum fr_rc ask_owner(const struct fr_resume_opts *ro, bool *asked, struct fr_err *err)
{
    struct fr_store *st = NULL;
    struct fr_arena arena = {0};
    struct fr_run_row run;
    bool gone = false;
    enum fr_rc rc = cli_store(&st, err);

    if (rc == FR_OK)
        rc = ro->run != NULL ? fr_store_run_find(st, ro->run, &arena, &run, err)
                             : fr_store_run_open(st, &arena, &run, err);
    *asked = rc == FR_OK && fr_home_owned(fr_store_home(st), run.id);
    for (size_t i = 0; rc == FR_OK && *asked && i < ro->n_abandon; i++) {
        struct fr_request_row req = {.kind = "abandon", .arg = ro->abandon[i]};

        rc = cli_ask(st, run.id, &req, &gone, err);
        *asked = !gone;
        if (rc == FR_OK && *asked)
            fr_print("the owner of run %lld was told to give node %s up\n", (long long)run.no,
                     ro->abandon[i]);
    }
    fr_store_close(st);
    fr_arena_finish(&arena);
    return rc;
}

/* resume and retry differ in what they ask for, not in how they go on. */
static int go_on(struct fr_resume_opts *ro, bool json, bool quiet)
{
    struct fr_issues issues = {0};
    struct cli_drive d = {0};
    struct fr_run *run = NULL;
    struct fr_err err = {0};
    enum cli_exit code;
    bool asked = false;
    enum fr_rc rc = ro->n_abandon > 0 ? ask_owner(ro, &asked, &err) : FR_OK;

    if (asked)
        return rc == FR_OK ? CLI_OK : cli_fail(&err);
    if (rc == FR_OK)
        rc = cli_drive_init(&d, json, quiet, &err);
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
        {"--abandon", 0, "NODE",
         "give a lost node up: its attempts end as node_lost; also of a run that another flowrun "
         "looks after",
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

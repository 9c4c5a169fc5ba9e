#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/store/home.h"

/* Asks the owner of the run to give the nodes up. *asked: there is one, and it did. */
static enum fr_rc ask_owner(struct fr_store *st, const struct fr_run_row *run,
                            const struct fr_resume_opts *ro, bool *asked, struct fr_err *err)
{
    bool gone = false;
    enum fr_rc rc = FR_OK;

    *asked = fr_home_owned(fr_store_home(st), run->id);
    for (size_t i = 0; rc == FR_OK && *asked && i < ro->n_abandon; i++) {
        struct fr_request_row req = {.kind = "abandon", .arg = ro->abandon[i]};

        rc = cli_ask(st, run->id, &req, &gone, err);
        *asked = !gone;
        if (rc == FR_OK && *asked)
            fr_print("the owner of run %lld gives node %s up\n", (long long)run->no,
                     ro->abandon[i]);
    }
    return rc;
}

/* Finds the run to resume, whose id stays in id. *asked: its owner did what is wanted. */
static enum fr_rc pick(struct fr_resume_opts *ro, char id[FR_ID_TEXT], bool *asked,
                       struct fr_err *err)
{
    enum cli_pick act = ro->n_abandon > 0 ? CLI_PICK_ABANDON : CLI_PICK_RESUME;
    struct fr_store *st = NULL;
    struct fr_arena arena = {0};
    struct fr_run_row run;
    enum fr_rc rc = cli_store(&st, err);

    if (rc == FR_OK)
        rc = cli_pick_run(st, ro->run, act, &arena, &run, err);
    if (rc == FR_OK && ro->n_abandon > 0)
        rc = ask_owner(st, &run, ro, asked, err);
    if (rc == FR_OK) {
        fr_id_text(run.id, id);
        ro->run = id;
    }
    fr_store_close(st);
    fr_arena_finish(&arena);
    return rc;
}

/* resume and retry differ in what they ask for, not in how they go on. */
static int go_on(struct fr_resume_opts *ro, const struct cli_show_opts *how)
{
    struct fr_issues issues = {0};
    struct cli_drive d = {0};
    struct fr_run *run = NULL;
    struct fr_err err = {0};
    enum cli_exit code;
    bool asked = false;
    char id[FR_ID_TEXT];
    enum fr_rc rc = ro->retry ? FR_OK : pick(ro, id, &asked, &err);

    if (rc == FR_OK && asked)
        return CLI_OK;
    if (rc == FR_OK)
        rc = cli_drive_init(&d, how, &err);
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
    struct cli_show_opts how = {0};
    const struct cli_opt opts[] = {
        {"--file", 0, "FILE", "go on with a changed pipeline file", .value = &ro.file},
        {"--abandon", 0, "NODE",
         "give a lost node up: its attempts end as node_lost; also of a run that another flowrun "
         "looks after",
         .list = &abandon},
        {"--json", 0, NULL, "one JSON object an event", .flag = &how.json},
        {"--quiet", 'q', NULL, "show failures and the end alone; with --json no task output",
         .flag = &how.quiet},
        {"--verbose", 'v', NULL, "show also when tasks start, run and are stopped",
         .flag = &how.verbose},
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
    code = rc == FR_OK ? go_on(&ro, &how) : (int)cli_fail(&err);
    cli_list_finish(&args);
    cli_list_finish(&abandon);
    return code;
}

int cli_retry(const struct cli_command *cmd, char **argv)
{
    struct fr_resume_opts ro = {.retry = true};
    struct cli_list args = {0};
    struct cli_show_opts how = {0};
    const struct cli_opt opts[] = {
        {"--from", 0, "TASK", "this task and all that waits for it, also what succeeded",
         .value = &ro.retry_from},
        {"--file", 0, "FILE", "use a changed pipeline file", .value = &ro.file},
        {"--json", 0, NULL, "one JSON object an event", .flag = &how.json},
        {"--quiet", 'q', NULL, "show failures and the end alone; with --json no task output",
         .flag = &how.quiet},
        {"--verbose", 'v', NULL, "show also when tasks start, run and are stopped",
         .flag = &how.verbose},
        {.name = NULL},
    };
    struct fr_err err = {0};
    int code;
    enum fr_rc rc = cli_parse(cmd, opts, argv, &args, &err);

    if (rc == FR_OK)
        rc = cli_args_between(cmd, &args, 0, 1, &err);
    ro.run = args.n > 0 ? args.v[0] : NULL;
    code = rc == FR_OK ? go_on(&ro, &how) : (int)cli_fail(&err);
    cli_list_finish(&args);
    return code;
}

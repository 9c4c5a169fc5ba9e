#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/store/home.h"

#include <stdio.h>

/* Asks the host that drives the run to give the nodes up. */
static enum fr_rc ask_host(struct fr_store *st, const struct fr_run_row *run,
                           const struct fr_resume_opts *ro, struct fr_err *err)
{
    json_t *body = json_object(), *nodes = json_array();
    char path[64], id[FR_ID_TEXT];
    enum fr_rc rc;

    for (size_t i = 0; i < ro->n_abandon; i++)
        json_array_append_new(nodes, json_string(ro->abandon[i]));
    json_object_set_new(body, "abandon", nodes);
    fr_id_text(run->id, id);
    snprintf(path, sizeof(path), "/api/v1/runs/%s/resume", id);
    rc = cli_ask(fr_store_home(st),
                 &(struct cli_question){.method = "POST", .path = path, .body = body}, NULL, err);
    json_decref(body);
    for (size_t i = 0; rc == FR_OK && i < ro->n_abandon; i++)
        fr_print("the host of run %lld gives node %s up\n", (long long)run->no, ro->abandon[i]);
    return rc;
}

/* Finds the run to resume, whose id stays in id. *asked: its host did what is wanted. */
static enum fr_rc pick(struct fr_resume_opts *ro, char id[FR_ID_TEXT], bool *asked,
                       struct fr_err *err)
{
    enum cli_pick act = ro->n_abandon > 0 ? CLI_PICK_ABANDON : CLI_PICK_RESUME;
    struct fr_store *st = NULL;
    struct fr_arena arena = {0};
    struct fr_run_row run;
    enum fr_rc rc = cli_store_read(&st, err);

    if (rc == FR_OK)
        rc = cli_pick_run(st, ro->run, act, &arena, &run, err);
    *asked = rc == FR_OK && ro->n_abandon > 0 && cli_is_driven(st, &run);
    if (*asked)
        rc = ask_host(st, &run, ro, err);
    if (rc == FR_OK) {
        fr_id_text(run.id, id);
        ro->run = id;
    }
    fr_store_close(st);
    fr_arena_finish(&arena);
    return rc;
}

/* resume and retry differ in what they ask for, not in how they go on. */
static int go_on(const struct fr_resume_opts *ro, const struct cli_show_opts *how)
{
    struct cli_wish wish = {.resume = *ro};
    struct cli_drive d = {0};
    struct fr_err err = {0};
    bool asked = false;
    int code;
    char id[FR_ID_TEXT];
    enum fr_rc rc = ro->retry ? FR_OK : pick(&wish.resume, id, &asked, &err);

    if (rc == FR_OK && asked)
        return CLI_OK;
    if (rc == FR_OK)
        rc = cli_drive_init(&d, how, &err);
    code = rc == FR_OK ? (int)cli_go(&d, &wish) : (int)cli_fail(&err);
    cli_drive_finish(&d);
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
         "drives",
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

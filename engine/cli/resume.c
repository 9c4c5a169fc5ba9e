#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/store/home.h"
#include "engine/store/unfetched.h"

#include <stdio.h>
#include <string.h>

struct ask {
    struct fr_resume_opts *ro; /* borrows; its run becomes id */
    char id[FR_ID_TEXT];
    bool json;
    bool done; /* nothing is left to be done; code says how that ends */
    int code;
};

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

/* ---- what is so already ---- */

static int exit_of(const char *outcome)
{
    return strcmp(outcome, "succeeded") == 0   ? CLI_OK
           : strcmp(outcome, "cancelled") == 0 ? CLI_CANCELLED
                                               : CLI_FAILED;
}

static void say_done(const struct fr_run_row *run, const char *what, bool json)
{
    bool good = strcmp(run->outcome, "succeeded") == 0;
    long long no = run->no;

    if (json)
        cli_put_json(json_pack("{s:I, s:s, s:s}", "run", (json_int_t)no, "state", run->outcome,
                               "reason", run->reason));
    else
        fr_print("run %lld is over (%s)%s%s: %s; 'flowrun retry %lld%s' runs again %s\n", no,
                 run->outcome, run->reason[0] != '\0' ? ": " : "", run->reason, what, no,
                 good ? " --from TASK" : "", good ? "from there" : "what failed");
}

/* Whoever resumes a run wants its end, which may have come meanwhile: the answer is that of
 * attach. Output that a node still has is fetched first. */
static enum fr_rc look_over(struct fr_store *st, const struct fr_run_row *run, struct ask *a,
                            struct fr_err *err)
{
    bool late = false;
    enum fr_rc rc = FR_OK;

    if (strcmp(run->state, "over") != 0 || a->ro->file != NULL || a->ro->n_abandon > 0)
        return FR_OK;
    rc = fr_store_lacks_output(st, run->id, &late, err);
    if (rc != FR_OK || late)
        return rc;
    say_done(run, "there is nothing to resume", a->json);
    a->done = true;
    a->code = exit_of(run->outcome);
    return FR_OK;
}

/* Whoever runs again what failed has what it wants where nothing did. */
static enum fr_rc look_failed(struct fr_store *st, const struct fr_run_row *run, struct ask *a,
                              struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_inst_rows rows = {0};
    bool any = a->ro->retry_from != NULL || a->ro->file != NULL || strcmp(run->state, "over") != 0;
    enum fr_rc rc = any ? FR_OK : fr_store_insts(st, run->id, &arena, &rows, err);

    for (size_t i = 0; i < rows.n; i++)
        any |= rows.rows[i].hook[0] == '\0' && strcmp(rows.rows[i].state, "succeeded") != 0 &&
               strcmp(rows.rows[i].state, "skipped") != 0;
    fr_arena_finish(&arena);
    if (rc != FR_OK || any)
        return rc;
    say_done(run, "nothing of it failed, so nothing runs again", a->json);
    a->done = true;
    return FR_OK;
}

/* Finds the run, whose id stays in a->id, and whether anything is left to be done. */
static enum fr_rc pick(struct ask *a, struct fr_err *err)
{
    struct fr_resume_opts *ro = a->ro;
    enum cli_pick act = ro->n_abandon > 0 ? CLI_PICK_ABANDON : CLI_PICK_RESUME;
    struct fr_store *st = NULL;
    struct fr_arena arena = {0};
    struct fr_run_row run;
    enum fr_rc rc = cli_store_read(&st, err);

    if (rc == FR_OK)
        rc = ro->retry ? fr_store_run_find(st, ro->run, &arena, &run, err)
                       : cli_pick_run(st, ro->run, act, &arena, &run, err);
    if (rc == FR_OK)
        rc = (ro->retry ? look_failed : look_over)(st, &run, a, err);
    if (rc == FR_OK && !a->done && ro->n_abandon > 0 && cli_is_driven(st, &run)) {
        a->done = true;
        rc = ask_host(st, &run, ro, err);
    }
    if (rc == FR_OK) {
        fr_id_text(run.id, a->id);
        ro->run = a->id;
    }
    fr_store_close(st);
    fr_arena_finish(&arena);
    return rc;
}

/* resume and retry differ in what they ask for, not in how they go on. */
static int go_on(const struct fr_resume_opts *ro, const struct cli_show_opts *how)
{
    struct cli_wish wish = {.resume = *ro};
    struct ask a = {.ro = &wish.resume, .json = how->json, .code = CLI_OK};
    struct cli_drive d = {0};
    struct fr_err err = {0};
    int code;
    enum fr_rc rc = pick(&a, &err);

    if (rc == FR_OK && a.done)
        return a.code;
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

    ro.run = args.n > 0 ? args.v[0] : NULL;
    code = rc == FR_OK ? go_on(&ro, &how) : (int)cli_fail(&err);
    cli_list_finish(&args);
    return code;
}

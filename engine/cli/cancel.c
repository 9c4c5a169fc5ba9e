/* Asking the owner of a run to stop it; without an owner, taking it over to stop it. */
#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/store/home.h"

#include <string.h>

enum { ANSWER_MS = 10000 };

/* Waits until the owner has answered request id. */
static enum fr_rc wait_answer(struct fr_store *st, struct fr_id run, int64_t id, struct fr_err *err)
{
    int64_t until = fr_sys.mono_ms() + ANSWER_MS;

    for (;;) {
        struct fr_arena arena = {0};
        struct fr_request_rows rows;
        bool open = false;
        enum fr_rc rc = fr_store_requests(st, run, &arena, &rows, err);

        for (size_t i = 0; rc == FR_OK && i < rows.n; i++)
            open = open || rows.rows[i].id == id;
        fr_arena_finish(&arena);
        if (rc != FR_OK || !open)
            return rc;
        if (fr_sys.mono_ms() > until)
            return fr_fail(err, FR_TIMEOUT, "the owner of the run does not answer");
        fr_sys.poll(NULL, 0, 20);
    }
}

static enum fr_rc ask(struct fr_store *st, const struct fr_run_row *run, struct fr_err *err)
{
    struct fr_request_row req = {.kind = "cancel", .asked_wall = fr_sys.wall_ms()};
    enum fr_rc rc = fr_store_request_add(st, run->id, &req, err);

    if (rc == FR_OK) /* one that just took it over reads its requests before it listens */
        (void)fr_home_poke(fr_store_home(st), run->id, NULL);
    if (rc == FR_OK)
        rc = wait_answer(st, run->id, req.id, err);
    return rc;
}

/* Nobody looks after it: this process does, until its tasks are stopped. *busy: somebody was
 * faster. */
static int stop_here(struct fr_id run, bool json, bool *busy)
{
    char id[FR_ID_TEXT];
    struct fr_resume_opts ro = {.run = id};
    struct fr_issues issues = {0};
    struct cli_drive d = {0};
    struct fr_run *r = NULL;
    struct fr_err err = {0};
    enum cli_exit code = CLI_OK;
    enum fr_rc rc = cli_drive_init(&d, json, true, &err);

    fr_id_text(run, id);
    if (rc == FR_OK)
        rc = fr_run_resume(&d.env, &ro, &r, &issues, &err);
    if (rc == FR_OK) {
        fr_run_cancel(r);
        code = cli_drive(&d, r);
        code = code == CLI_CANCELLED ? CLI_OK : code;
    } else if (rc == FR_BUSY) {
        *busy = true;
    } else {
        code = cli_fail_issues(&issues, &err);
    }
    cli_drive_finish(&d);
    fr_issues_finish(&issues);
    return code;
}

int cli_cancel(const struct cli_command *cmd, char **argv)
{
    struct cli_list args = {0};
    bool json = false, owned = false;
    const struct cli_opt opts[] = {
        {"--json", 0, NULL, "one JSON object an event, when it stops the tasks itself",
         .flag = &json},
        {.name = NULL},
    };
    struct fr_store *st = NULL;
    struct fr_arena arena = {0};
    struct fr_run_row run;
    struct fr_err err = {0};
    int code = CLI_OK;
    enum fr_rc rc = cli_parse(cmd, opts, argv, &args, &err);

    if (rc == FR_OK)
        rc = cli_args_between(cmd, &args, 0, 1, &err);
    if (rc == FR_OK)
        rc = cli_store(&st, &err);
    if (rc == FR_OK)
        rc = args.n > 0 ? fr_store_run_find(st, args.v[0], &arena, &run, &err)
                        : fr_store_run_open(st, &arena, &run, &err);
    if (rc == FR_OK && strcmp(run.state, "over") == 0)
        rc = fr_fail(&err, FR_USAGE, "run %lld is over (%s)", (long long)run.no, run.outcome);
    if (rc == FR_OK) {
        owned = fr_home_owned(fr_store_home(st), run.id);
        code = owned ? CLI_OK : stop_here(run.id, json, &owned);
        if (owned && (rc = ask(st, &run, &err)) == FR_OK)
            fr_print("run %lld is being cancelled by its owner\n", (long long)run.no);
    }
    if (rc != FR_OK)
        code = cli_fail(&err);
    fr_store_close(st);
    fr_arena_finish(&arena);
    cli_list_finish(&args);
    return code;
}

#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/store/unfetched.h"

struct ask {
    struct fr_resume_opts *ro; /* borrows; pick() sets ro->run to id */
    char id[FR_ID_TEXT];
    bool json;
    bool done; /* nothing is left to do; code is the exit code */
    int code;
};

/* Asks the host that drives the run to give the nodes up. */
static enum fr_rc ask_host(struct fr_store *st, const struct fr_run_row *run,
                           const struct fr_resume_opts *ro, struct fr_err *err)
{
    json_t *nodes = fr_json_texts(ro->abandon, ro->n_abandon);
    enum fr_rc rc = cli_ask_run(st, run->id, "resume", json_pack("{s:o}", "abandon", nodes), err);

    for (size_t i = 0; rc == FR_OK && i < ro->n_abandon; i++)
        fr_print("the host of run %lld gives node %s up\n", (long long)run->no, ro->abandon[i]);
    return rc;
}

/* ---- nothing left to do ---- */

static int exit_of(enum fr_outcome outcome)
{
    return outcome == FR_OUT_SUCCEEDED   ? CLI_OK
           : outcome == FR_OUT_CANCELLED ? CLI_CANCELLED
                                         : CLI_FAILED;
}

static void say_done(const struct fr_run_row *run, const char *what, bool json)
{
    bool good = run->outcome == FR_OUT_SUCCEEDED;
    const char *outcome = fr_outcome_name(run->outcome);
    long long no = run->no;

    if (json)
        cli_put_json(json_pack("{s:I, s:s, s:s}", "run", (json_int_t)no, "state", outcome, "reason",
                               run->reason));
    else
        fr_print("run %lld is over (%s)%s%s: %s; 'flowrun retry %lld%s' runs again %s\n", no,
                 outcome, run->reason[0] != '\0' ? ": " : "", run->reason, what, no,
                 good ? " --from TASK" : "", good ? "from there" : "what failed");
}

/* resume of a run that is over ends at once with the run's exit code, unless a node still has
 * output of it. */
static enum fr_rc look_over(struct fr_store *st, const struct fr_run_row *run, struct ask *a,
                            struct fr_err *err)
{
    bool late = false;
    enum fr_rc rc = FR_OK;

    if (run->state != FR_RUN_OVER || a->ro->file != NULL || a->ro->n_abandon > 0)
        return FR_OK;
    rc = fr_store_lacks_output(st, run->id, &late, err);
    if (rc != FR_OK || late)
        return rc;
    say_done(run, "there is nothing to resume", a->json);
    a->done = true;
    a->code = exit_of(run->outcome);
    return FR_OK;
}

/* retry of a run in which nothing failed has nothing to do. */
static enum fr_rc look_failed(struct fr_store *st, const struct fr_run_row *run, struct ask *a,
                              struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_inst_rows rows = {0};
    bool any = a->ro->retry_from != NULL || a->ro->file != NULL || run->state != FR_RUN_OVER;
    enum fr_rc rc = any ? FR_OK : fr_store_insts(st, run->id, &arena, &rows, err);

    for (size_t i = 0; i < rows.n; i++)
        any |= rows.rows[i].hook[0] == '\0' && rows.rows[i].state != FR_ST_SUCCEEDED &&
               rows.rows[i].state != FR_ST_SKIPPED;
    fr_arena_finish(&arena);
    if (rc != FR_OK || any)
        return rc;
    say_done(run, "nothing of it failed, so nothing runs again", a->json);
    a->done = true;
    return FR_OK;
}

/* Finds the run, whose id goes to a->id. a->done: nothing is left to do. */
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

/* Common part of resume and retry. */
static enum fr_rc go_on(struct cli_call *c, const struct fr_resume_opts *ro, struct fr_err *err)
{
    struct cli_wish wish = {.resume = *ro};
    struct ask a = {.ro = &wish.resume, .json = c->json, .code = CLI_OK};
    enum fr_rc rc = pick(&a, err);

    c->code = a.code;
    return rc != FR_OK || a.done ? rc : cli_begin(c, &wish, NULL, err);
}

enum fr_rc cli_resume(struct cli_call *c, struct fr_err *err)
{
    const struct cli_list *abandon = cli_values(c, "--abandon");

    return go_on(c,
                 &(struct fr_resume_opts){.run = cli_arg(c, 0),
                                          .file = cli_value(c, "--file"),
                                          .abandon = abandon->v,
                                          .n_abandon = abandon->n},
                 err);
}

enum fr_rc cli_retry(struct cli_call *c, struct fr_err *err)
{
    return go_on(c,
                 &(struct fr_resume_opts){.run = cli_arg(c, 0),
                                          .retry = true,
                                          .retry_from = cli_value(c, "--from"),
                                          .file = cli_value(c, "--file")},
                 err);
}

/* cancel: asks the home's host to stop the tasks of a run, and waits until they have ended. Without
 * a host, this process is the host until then. */
#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/store/home.h"

#include <string.h>

enum { LOOK_MS = 20, LOOK_MAX_MS = 500 };

struct cancel {
    struct fr_store *st; /* borrows */
    bool json;
    bool queued;           /* cancel the run only while it is queued */
    struct fr_arena arena; /* of the row */
    struct fr_run_row run; /* as last read */
    struct fr_buf said;    /* "NODE\n" of nodes already named as unreachable */
    bool hooks;            /* the run was in its hooks: only they are left to stop */
    bool ended;            /* the run was over before any request */
};

static enum fr_rc look(struct cancel *c, struct fr_err *err)
{
    char id[FR_ID_TEXT];

    fr_id_text(c->run.id, id);
    fr_arena_finish(&c->arena);
    return fr_store_run_find(c->st, id, &c->arena, &c->run, err);
}

/* Whether the tasks of the run have ended. Hooks may still run. */
static bool stopped(const struct cancel *c)
{
    return c->run.state == FR_RUN_OVER || (!c->hooks && c->run.state == FR_RUN_HOOKS);
}

/* Prints once each unreachable node that the end waits for. */
static enum fr_rc name_unreachable(struct cancel *c, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_inst_rows rows = {0};
    enum fr_rc rc = fr_store_insts(c->st, c->run.id, &arena, &rows, err);

    for (size_t i = 0; rc == FR_OK && i < rows.n; i++) {
        const struct fr_inst_row *r = &rows.rows[i];
        struct fr_str line = fr_str_of(fr_arena_fmt(&arena, "%s\n", r->node));

        if (r->unreachable_wall == 0 || r->live == 0 ||
            (c->said.n > 0 && memmem(c->said.p, c->said.n, line.p, line.n) != NULL))
            continue;
        fr_buf_add(&c->said, line.p, line.n);
        if (!c->json)
            fr_print("%s on %s is unreachable: it is stopped once the node is back; 'flowrun "
                     "resume %lld --abandon %s' gives the node up, Ctrl-C leaves the waiting\n",
                     r->task, r->node, (long long)c->run.no, r->node);
    }
    fr_arena_finish(&arena);
    return rc;
}

/* Becomes the host, takes the run over and stops its tasks. *busy: another process is the host. */
static int stop_here(struct cancel *c, bool *busy)
{
    char id[FR_ID_TEXT];
    struct fr_resume_opts ro = {.run = id};
    struct fr_issues issues = {0};
    struct cli_drive d = {0};
    struct fr_run *r = NULL;
    struct fr_err err = {0};
    int code = CLI_OK;
    enum fr_rc rc =
        cli_drive_init(&d, &(struct cli_show_opts){.json = c->json, .quiet = true}, &err);

    fr_id_text(c->run.id, id);
    if (rc == FR_OK)
        rc = cli_lead(&d, &err);
    *busy = rc == FR_BUSY;
    if (rc == FR_OK) {
        struct fr_host_own own = {cli_shell(d.paths.cwd), cli_show_view(d.show)};

        rc = fr_host_resume(d.host, &ro, &own, &r, &issues, &err);
    }
    if (rc == FR_OK) {
        fr_run_cancel(r);
        code = cli_drive(&d, r);
        code = code == CLI_CANCELLED || code == CLI_FAILED ? CLI_OK : code;
    } else if (!*busy) {
        code = cli_fail_issues(&issues, &err);
    }
    cli_drive_finish(&d);
    fr_issues_finish(&issues);
    return code;
}

/* Asks the host to cancel the run. *gone: there is no host, or it ended before it answered. */
static enum fr_rc ask_host(struct cancel *c, bool *gone, struct fr_err *err)
{
    enum fr_rc rc = cli_ask_run(c->st, c->run.id, "cancel",
                                c->queued ? json_pack("{s:b}", "queued", 1) : NULL, err);

    *gone = rc == FR_UNREACHABLE;
    return *gone ? FR_OK : rc;
}

/* Waits until all tasks have ended, whoever drives the run. */
static enum fr_rc wait_stopped(struct cancel *c, int *code, struct fr_err *err)
{
    bool asked = false, busy = false, gone = false;
    int64_t pause = LOOK_MS;
    struct fr_home_who host;
    enum fr_rc rc = FR_OK;

    c->hooks = c->run.state == FR_RUN_HOOKS;
    while (rc == FR_OK && *code == CLI_OK && !stopped(c)) {
        if (fr_home_leader(fr_store_home(c->st), &host, NULL) != FR_OK) {
            asked = false;
            *code = stop_here(c, &busy);
        } else if (!asked || !cli_is_driven(c->st, &c->run)) {
            rc = ask_host(c, &gone, err);
            if (rc == FR_BUSY && look(c, NULL) == FR_OK && stopped(c))
                return FR_OK; /* the run ended meanwhile */
            if (rc == FR_OK && !gone && !asked && !c->json)
                fr_print("run %lld is being cancelled by its host\n", (long long)c->run.no);
            asked = rc == FR_OK && !gone;
        } else {
            pause = pause * 5 / 4 < LOOK_MAX_MS ? pause * 5 / 4 : LOOK_MAX_MS;
            if (pause == LOOK_MAX_MS)
                rc = name_unreachable(c, err);
        }
        if (rc == FR_OK && (!asked || pause > LOOK_MS))
            fr_sys.poll(NULL, 0, (int)pause);
        if (rc == FR_OK)
            rc = look(c, err);
    }
    return rc;
}

static json_t *left_json(const struct fr_inst_row *r)
{
    return json_pack("{s:s, s:s, s:s, s:s}", "task", r->task, "node", r->node, "state",
                     fr_state_name(r->state), "reason", r->reason);
}

/* Prints how the run ended and names the tasks that may still run. */
static int say_found(const struct cancel *c, const struct fr_inst_rows *rows)
{
    json_t *left = c->json ? json_array() : NULL;
    size_t n_stopped = 0, n_left = 0;
    const char *end = fr_outcome_name(c->run.outcome);

    for (size_t i = 0; i < rows->n; i++) {
        const struct fr_inst_row *r = &rows->rows[i];
        bool unproven = r->attempt_state == FR_ST_STOP_UNPROVEN;

        n_stopped += r->attempt_state == FR_ST_CANCELLED && r->cause == FR_CAUSE_STOPPED;
        n_left += unproven;
        if (unproven && c->json)
            json_array_append_new(left, left_json(r));
        else if (unproven)
            fr_print("%s is not proven stopped: %s\n", r->key, r->reason);
    }
    if (c->json) {
        cli_put_json(json_pack("{s:I, s:s, s:I, s:o}", "run", (json_int_t)c->run.no, "state", end,
                               "stopped", (json_int_t)n_stopped, "left", left));
    } else if (n_left > 0) {
        fr_print("run %lld is %s, but %zu of its tasks may still run; end what is named by hand, "
                 "'flowrun retry %lld' stops it again before anything else starts there\n",
                 (long long)c->run.no, end, n_left, (long long)c->run.no);
    } else if (c->ended) {
        fr_print("run %lld is over (%s): there is nothing to stop\n", (long long)c->run.no, end);
    } else {
        fr_print("run %lld is %s: %zu task%s stopped, no process of them is left%s\n",
                 (long long)c->run.no, end, n_stopped, fr_plural(n_stopped),
                 c->run.state == FR_RUN_HOOKS ? "; its hooks run now" : "");
    }
    return n_left > 0 ? CLI_FAILED : CLI_OK;
}

static enum fr_rc say_end(const struct cancel *c, int *code, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_inst_rows rows = {0};
    enum fr_rc rc = fr_store_insts(c->st, c->run.id, &arena, &rows, err);

    if (rc == FR_OK)
        *code = say_found(c, &rows);
    fr_arena_finish(&arena);
    return rc;
}

/* Of a run that is over: cancels the rerun that is due, if there is one. */
static enum fr_rc cancel_over(struct cancel *c, int *code, struct fr_err *err)
{
    struct cli_writer w = {.lock_fd = -1};
    const char *outcome = fr_outcome_name(c->run.outcome);
    bool gone = false;
    enum fr_rc rc;

    if (c->run.rerun_wall == 0) { /* the same answer as if the run had ended during the request */
        c->ended = true;
        return say_end(c, code, err);
    }
    rc = cli_writer_open(&w, err);
    if (rc == FR_OK)
        rc = w.lock_fd < 0 ? ask_host(c, &gone, err)
                           : fr_store_rerun_drop(w.st, c->run.id, FR_RERUN_CANCELLED, err);
    cli_writer_close(&w);
    if (rc == FR_OK && gone)
        return fr_fail(err, FR_BUSY, "the host went before it answered; try again");
    if (rc == FR_OK && c->json)
        cli_put_json(json_pack("{s:I, s:s, s:b}", "run", (json_int_t)c->run.no, "state", outcome,
                               "rerun", false));
    else if (rc == FR_OK)
        fr_print("run %lld is over (%s) and does not run again by itself\n", (long long)c->run.no,
                 outcome);
    return rc;
}

static enum fr_rc stop(struct cancel *c, int *code, struct fr_err *err)
{
    enum fr_rc rc = wait_stopped(c, code, err);

    return rc == FR_OK && *code == CLI_OK ? say_end(c, code, err) : rc;
}

static void finish(struct cancel *c)
{
    fr_arena_finish(&c->arena);
    fr_buf_finish(&c->said);
}

enum fr_rc cli_cancel_queued(struct cli_call *call, const struct fr_run_row *run,
                             struct fr_err *err)
{
    struct cancel c = {.st = call->home.st, .json = call->json, .queued = true, .run = *run};
    enum fr_rc rc = look(&c, err);

    if (rc == FR_OK && cli_is_queued(&c.run))
        rc = stop(&c, &call->code, err);
    if (rc == FR_OK || rc == FR_BUSY)
        rc = look(&c, err);
    if (rc == FR_OK && c.run.state != FR_RUN_OVER && !c.json)
        fr_print("run %lld has started meanwhile, and goes on\n", (long long)c.run.no);
    finish(&c);
    return rc;
}

enum fr_rc cli_cancel(struct cli_call *call, struct fr_err *err)
{
    struct cancel c = {.json = call->json};
    enum fr_rc rc = cli_store_read(&call->home.st, err);

    c.st = call->home.st;
    if (rc == FR_OK)
        rc = cli_pick_run(c.st, cli_arg(call, 0), CLI_PICK_CANCEL, &c.arena, &c.run, err);
    if (rc == FR_OK)
        rc = (c.run.state == FR_RUN_OVER ? cancel_over : stop)(&c, &call->code, err);
    finish(&c);
    return rc;
}

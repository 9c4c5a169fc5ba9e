/* A run that the home's host drives and this process shows. */
#include "engine/client/attached_run.h"

#include "engine/show/model.h"
#include "engine/client/pipeline.h"
#include "engine/client/waiting.h"

#include "engine/api/body.h"
#include "engine/base/sys.h"
#include "engine/store/home.h"
#include "engine/store/unfetched.h"
#include "engine/view/allocations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TICK_MS = 500,     /* between two looks at nodes whose output is awaited */
    LINGER_MS = 10000, /* time for the last output after the run's end */
    LEFT_MS = 2000     /* after so long without a host, a host is asked again */
};

/* ---- requests ---- */

static void put_env(json_t *to, const char *name, const char *value)
{
    if (value != NULL)
        json_object_set_new(to, name, json_string(value));
}

/* A body with the part of this shell that the host needs to read the pipeline and to resolve its
 * secrets. */
static json_t *shell_json(const struct cli_drive *d, const struct fr_spec *spec)
{
    json_t *body = json_object(), *env = json_object();

    json_object_set_new(body, "cwd", json_string(d->paths.cwd));
    if (d->nested) {
        put_env(body, "parent_run", getenv("FLOWRUN_RUN"));
        put_env(body, "parent_attempt", getenv("FLOWRUN_ATTEMPT"));
    }
    for (const char *const *name = fr_run_inherited(); *name != NULL; name++)
        put_env(env, *name, getenv(*name));
    for (size_t i = 0; i < spec->n_env_used; i++)
        put_env(env, spec->env_used[i].name, spec->env_used[i].value.s);
    json_object_set_new(body, "env", env);
    json_object_set_new(body, "agent", cli_agent());
    json_object_set_new(body, "umask", json_integer(fr_sys.umask() & 0777));
    json_object_set_new(body, "secrets", cli_secrets(spec));
    return body;
}

/* Sends POST to the path of a run (id "": of all runs) at the host; the answer is in a->answer.
 * Drops body. */
static enum fr_rc post(struct attached_run *a, const char *id, const char *what, json_t *body,
                       struct fr_err *err)
{
    char path[80];
    struct client_request req = {.method = "POST", .path = path};

    snprintf(path, sizeof(path), "/api/v1/runs%s%s%s", id[0] != '\0' ? "/" : "", id, what);
    client_answer_finish(&a->answer);
    return cli_request(a->client, &req, body, &a->answer, err);
}

/* Checks the file here first, so that mistakes name the path as the user wrote it. The stored copy
 * of a repeated run has no mistakes. */
static enum fr_rc submit(struct attached_run *a, const struct fr_submit *what, struct fr_err *err)
{
    struct fr_run_shell shell = cli_shell(a->d->paths.cwd);
    struct fr_issues *issues = &a->answer.issues;
    struct fr_stored read = {0};
    char id[FR_ID_TEXT] = "";
    json_t *body;
    enum fr_rc rc;

    if (what->again != NULL) {
        fr_id_text(what->again->row.id, id);
        rc = fr_run_stored(a->st, &what->again->row, &read, err);
    } else if ((rc = cli_spec_shared(&what->spec, a->d->home.p, err)) == FR_OK &&
               (rc = fr_spec_load(&what->spec, &read.spec, issues, err)) == FR_OK &&
               (rc = fr_plan_make(read.spec, &read.arena, &read.plan, err)) == FR_OK) {
        rc = fr_run_check(read.plan, &shell, NULL, issues, err);
    }
    if (rc == FR_OK) {
        body = shell_json(a->d, read.spec);
        body_write(what->again != NULL ? BODY_RERUN : BODY_SUBMIT, what, a->d->paths.cwd, body);
        rc = post(a, id, what->again != NULL ? "/rerun" : "", body, err);
    }
    fr_run_stored_finish(&read);
    return rc;
}

static enum fr_rc resume(struct attached_run *a, const struct cli_wish *wish, struct fr_err *err)
{
    json_t *body = shell_json(a->d, cli_follow_plan(a->f)->spec);

    body_write(BODY_RESUME, &wish->resume, a->d->paths.cwd, body);
    return post(a, wish->id, "/resume", body, err);
}

/* ---- the view ---- */

static void take_note(void *arg, const struct fr_note *note)
{
    struct attached_run *a = arg;

    if (a->quiet)
        cli_show_learn(a->d->show, note);
    else
        cli_show_note(a->d->show, note);
}

static void on_tick(void *arg)
{
    struct attached_run *a = arg;

    a->ticked = true;
    fr_loop_arm_in(&a->d->loop, a->tick, TICK_MS);
}

/* Prints the instances that wait for a person: the new viewer may help. */
static void say_waits(const struct attached_run *a)
{
    const struct cli_model *m = cli_show_model(a->d->show);

    for (uint32_t i = 0; i < m->plan->n_insts; i++)
        if (m->insts[i].state == FR_ST_WAITING && m->insts[i].reason[0] != '\0' &&
            !m->plan->tasks[m->plan->insts[i].task].awaited)
            cli_show_say(a->d->show, "%s waiting: %s", m->plan->insts[i].key, m->insts[i].reason);
}

/* Begins to follow and show the run. past: earlier events update the model and are not printed. */
static enum fr_rc begin(struct attached_run *a, const char *id, bool past, struct fr_err *err)
{
    struct cli_follow_opts fo = {.store = a->st, .run = id, .note = take_note, .arg = a};
    enum fr_rc rc;

    if (a->f != NULL)
        return FR_OK;
    rc = cli_follow_create(&a->f, &fo, err);
    if (rc == FR_OK && fr_loop_timer(&a->d->loop, on_tick, a, &a->tick) != FR_OK)
        rc = fr_fail(err, FR_NOMEM, "no memory to follow a run");
    if (rc == FR_OK)
        rc = cli_show_begin_stored(a->d->show, cli_follow_row(a->f), cli_follow_plan(a->f), err);
    if (rc != FR_OK)
        return rc;
    a->d->shown = true;
    fr_loop_arm_in(&a->d->loop, a->tick, TICK_MS);
    a->quiet = past;
    if (past)
        rc = cli_follow_catch_up(a->f, err);
    if (past && rc == FR_OK)
        say_waits(a);
    a->quiet = false;
    return rc;
}

/* ---- the host ---- */

/* Prints at once that the host is stopped, as by Ctrl-Z: all runs wait for it. */
static void look_at_host(void *arg)
{
    struct attached_run *a = arg;
    int64_t pid = 0;
    bool stopped = cli_host_stopped(a->d->home.p, &pid);

    fr_loop_arm_in(&a->d->loop, a->watch, CLI_LOOK_MS);
    if (stopped == a->stopped)
        return;
    a->stopped = stopped;
    if (!stopped)
        cli_show_say(a->d->show, "the host goes on");
    else
        cli_show_say(a->d->show,
                     "the host of this home (pid %lld) is stopped, and nothing is started: "
                     "'kill -CONT %lld' lets it go on; 'kill -9 %lld' ends it, tasks go on and the "
                     "next flowrun takes over",
                     (long long)pid, (long long)pid, (long long)pid);
    cli_out_flush(a->d->out); /* a request may block the loop's flush */
}

static enum fr_rc connect_host(struct attached_run *a, struct fr_err *err)
{
    struct fr_buf sock = {0};
    enum fr_rc rc = cli_may_ask(a->d->home.p, err);

    if (rc == FR_OK && a->st == NULL)
        rc = fr_store_open_read(a->d->home.p, &a->st, err);
    fr_home_sock(a->d->home.p, &sock);
    if (rc == FR_OK && sock.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for a path");
    if (rc == FR_OK && a->client == NULL)
        rc = client_create(&a->d->loop, sock.p, &a->client, err);
    if (rc == FR_OK && a->watch == NULL &&
        fr_loop_timer(&a->d->loop, look_at_host, a, &a->watch) != FR_OK)
        rc = fr_fail(err, FR_NOMEM, "no memory to follow a run");
    if (rc == FR_OK)
        fr_loop_arm_in(&a->d->loop, a->watch, CLI_LOOK_MS);
    fr_buf_finish(&sock);
    return rc;
}

/* Finds the run that the user named, and keeps its id in wish. */
static enum fr_rc name_run(struct attached_run *a, struct cli_wish *wish, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_run_row row;
    enum fr_rc rc = fr_store_run_find(a->st, wish->resume.run, &arena, &row, err);

    if (rc == FR_OK) {
        fr_id_text(row.id, wish->id);
        wish->resume.run = wish->id;
    }
    fr_arena_finish(&arena);
    return rc;
}

/* Reads from the store what a host that ended did of the request. *over: the run is over, and
 * nothing is left to request or to fetch. */
static enum fr_rc find_done(struct attached_run *a, struct cli_wish *wish, bool *over,
                            struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_run_row row;
    bool complete = false, lacks = false;
    enum fr_rc rc = cli_follow_catch_up(a->f, err);

    if (rc == FR_OK && wish->resume.retry &&
        (rc = fr_store_run_find(a->st, wish->id, &arena, &row, err)) == FR_OK &&
        row.round > cli_follow_row(a->f)->round) /* the host began the retry */
        wish->resume = (struct fr_resume_opts){.run = wish->id};
    *over = rc == FR_OK && !wish->resume.retry && cli_follow_over(a->f, &complete);
    if (*over && !complete) {
        rc = fr_store_lacks_output(a->st, cli_follow_row(a->f)->id, &lacks, err);
        *over = rc == FR_OK && !lacks;
    }
    fr_arena_finish(&arena);
    return rc;
}

/* Asks the next host to resume the run, unless the run is over, or ends during the request. */
static enum fr_rc resume_again(struct attached_run *a, struct cli_wish *wish, struct fr_err *err)
{
    struct fr_err refused = {0};
    bool over = false;
    enum fr_rc rc = find_done(a, wish, &over, err);

    if (rc == FR_OK && !over)
        rc = resume(a, wish, err);
    if (rc == FR_USAGE) {
        refused = *err;
        rc = find_done(a, wish, &over, err);
    }
    return rc == FR_OK && refused.rc != FR_OK && !over ? fr_fail(err, FR_USAGE, "%s", refused.msg)
                                                       : rc;
}

/* Hands the run to the host, and begins to follow it. */
static enum fr_rc hand_over(struct attached_run *a, struct cli_wish *wish, struct fr_err *err)
{
    bool again = a->f != NULL;
    enum fr_rc rc;

    if (wish->submit != NULL) {
        fr_id_text(wish->submit->id, wish->id);
        if ((rc = submit(a, wish->submit, err)) != FR_OK)
            return rc;
        wish->submit = NULL;
        wish->resume = (struct fr_resume_opts){.run = wish->id};
        return begin(a, wish->id, false, err);
    }
    rc = wish->id[0] == '\0' ? name_run(a, wish, err) : FR_OK;
    if (rc == FR_OK)
        rc = again ? resume_again(a, wish, err) : begin(a, wish->id, true, err);
    if (rc == FR_OK && !again)
        rc = resume(a, wish, err);
    if (rc == FR_OK) /* a retry is requested once */
        wish->resume = (struct fr_resume_opts){.run = wish->id};
    return rc;
}

/* Shows an event of the stream that no row has. */
static void show_text(struct attached_run *a, json_t *data)
{
    const struct fr_plan *plan = cli_follow_plan(a->f);
    const char *node = json_string_value(json_object_get(data, "node"));
    json_t *idx = json_object_get(data, "idx");
    struct fr_note note = {.kind = FR_NOTE_TROUBLE,
                           .wall_ms = json_integer_value(json_object_get(data, "wall")),
                           .inst = FR_PLAN_NONE,
                           .node = node != NULL ? fr_plan_node(plan, node) : FR_PLAN_NONE,
                           .text = json_string_value(json_object_get(data, "text"))};

    if (note.node != FR_PLAN_NONE) {
        note.kind = FR_NOTE_NODE;
        note.up = json_is_true(json_object_get(data, "up"));
    }
    if (json_is_integer(idx) && json_integer_value(idx) >= 0 &&
        json_integer_value(idx) < (json_int_t)plan->n_insts)
        note.inst = (uint32_t)json_integer_value(idx);
    if (note.text != NULL)
        cli_show_note(a->d->show, &note);
}

static void on_event(void *arg, const struct fr_sse_event *e)
{
    struct attached_run *a = arg;

    if (strcmp(e->event, "note") == 0) {
        json_t *data = json_loadb(e->data.p, e->data.n, 0, NULL);

        show_text(a, data);
        json_decref(data);
    }
    a->news = a->followed = true;
}

static void on_end(void *arg, const struct fr_err *why)
{
    struct attached_run *a = arg;

    (void)why;
    a->stream = NULL;
    a->gone = true;
}

static void ask_stop(void *arg)
{
    struct attached_run *a = arg;

    a->stop = true;
}

/* Whether no host has driven the open run for LEFT_MS. The host may have ended before this process
 * opened the stream; the next host, whose stream it is then, does not know the run. */
static bool is_left(struct attached_run *a)
{
    struct fr_arena arena = {0};
    struct fr_run_row row;
    int64_t now = fr_sys.mono_ms();
    char id[FR_ID_TEXT];

    fr_id_text(cli_follow_row(a->f)->id, id);
    if (fr_store_run_find(a->st, id, &arena, &row, NULL) != FR_OK || row.state == FR_RUN_OVER ||
        cli_is_driven(a->st, &row))
        a->driven_ms = now;
    fr_arena_finish(&arena);
    return now > a->driven_ms + LEFT_MS;
}

/* Shows the next slice. *end: the run is over, and all of it is shown. */
static enum fr_rc look(struct attached_run *a, bool *more, bool *end, struct fr_err *err)
{
    bool complete = false, over;
    enum fr_rc rc = a->ticked ? cli_follow_nodes(a->f, err) : FR_OK;

    if (a->news || *more)
        a->moved_ms = fr_sys.mono_ms();
    if (rc == FR_OK && a->ticked && is_left(a))
        rc = fr_fail(err, FR_UNREACHABLE, "the home's host does not drive the run");
    a->news = a->ticked = false;
    if (rc == FR_OK)
        rc = cli_follow_news(a->f, more, err);
    over = cli_follow_over(a->f, &complete);
    *end = !*more && over && (complete || fr_sys.mono_ms() > a->moved_ms + LINGER_MS);
    return rc;
}

static enum fr_rc stop_tasks(struct attached_run *a, const struct cli_wish *wish,
                             struct fr_err *err)
{
    enum fr_rc rc = post(a, wish->id, "/cancel", json_object(), err);

    a->stop = false;
    return rc == FR_BUSY ? FR_OK : rc; /* the run is over */
}

static enum fr_rc follow(struct attached_run *a, const struct cli_wish *wish, struct fr_err *err)
{
    struct cli_drive *d = a->d;
    bool more = true, end = false;
    enum fr_rc rc = FR_OK;

    while (rc == FR_OK && !end && !d->leave) {
        cli_out_flush(d->out);
        rc = fr_loop_turn(&d->loop, !more && !a->news && !a->gone && !a->stop && !a->ticked, err);
        if (rc == FR_OK && (more || a->news || a->gone || a->ticked))
            rc = look(a, &more, &end, err);
        if (rc == FR_OK && a->stop)
            rc = stop_tasks(a, wish, err);
        if (rc == FR_OK && a->gone && !more && !end)
            rc = fr_fail(err, FR_UNREACHABLE, "the home's host went");
    }
    return rc;
}

/* A host that does not stay leaves the run soon; whether this one does, and whether others follow
 * it, is not known here. */
static enum cli_exit leave(const struct attached_run *a)
{
    const struct fr_run_row *run = cli_follow_row(a->f);
    enum cli_exit code = cli_left(a->d);
    struct fr_allocation_rows rows = {0};
    struct fr_arena arena = {0};
    struct fr_buf text = {0};
    struct fr_str rest, line;

    if (!a->d->stopping && fr_store_allocations(a->st, run->id, &arena, &rows, NULL) == FR_OK)
        fr_left_rows(&rows, run->no,
                     "a 'flowrun serve' of this home, whoever else follows the run, or ", &text);
    rest = (struct fr_str){text.p, text.bad ? 0 : text.n};
    while (fr_next_line(&rest, &line))
        cli_show_say(a->d->show, "%.*s", (int)line.n, line.p);
    fr_buf_finish(&text);
    fr_arena_finish(&arena);
    return code;
}

enum fr_rc attached_run_go(struct attached_run *a, struct cli_wish *wish, enum cli_exit *code,
                           struct fr_err *err)
{
    struct client_listener own = {on_event, on_end, a};
    char path[80];
    enum fr_rc rc = connect_host(a, err);

    a->d->asks = true;
    if (rc == FR_OK)
        rc = hand_over(a, wish, err);
    a->d->asks = false;
    if (rc != FR_OK)
        return rc;
    cli_say_queued(a->d, a->st);
    a->gone = false;
    a->driven_ms = fr_sys.mono_ms();
    a->taken = true;
    a->news = true;
    snprintf(path, sizeof(path), "/api/v1/stream?runs=%s", wish->id);
    rc = client_stream(a->client, path, NULL, &own, &a->stream, err);
    if (rc != FR_OK)
        return rc;
    cli_on_stop(a->d, cli_follow_row(a->f)->no, ask_stop, a);
    rc = follow(a, wish, err);
    client_stream_close(a->stream);
    a->stream = NULL;
    if (rc == FR_OK)
        *code = a->d->leave ? leave(a) : attached_run_end(a);
    if (rc != FR_STOPPED)
        return rc;
    cli_show_say(a->d->show, "%s", err->msg); /* the run goes on with another pipeline */
    *code = CLI_LEFT;
    return FR_OK;
}

enum fr_rc attached_run_take_over(struct attached_run *a, struct cli_wish *wish, bool *over,
                                  struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_run_row row;
    char id[FR_ID_TEXT];
    enum fr_rc rc;

    *over = false;
    if (a->f != NULL)
        cli_show_moved(a->d->show);
    cli_on_stop(a->d, 0, NULL, NULL);
    if (a->watch != NULL)
        fr_loop_untimer(&a->d->loop, &a->watch);
    if (wish->submit != NULL && a->client != NULL) {
        /* the host may have added the run before it ended */
        fr_id_text(wish->submit->id, id);
        if (fr_store_run_find(a->d->store, id, &arena, &row, NULL) == FR_OK) {
            memcpy(wish->id, id, sizeof(id));
            wish->submit = NULL;
            wish->resume = (struct fr_resume_opts){.run = wish->id};
        }
        fr_arena_finish(&arena);
    }
    rc = a->f != NULL ? find_done(a, wish, over, err) : FR_OK;
    return rc == FR_OK && a->f != NULL && !*over ? cli_follow_booked(a->f, err) : rc;
}

enum cli_exit attached_run_end(const struct attached_run *a)
{
    return cli_exit_of_run(cli_show_model(a->d->show));
}

void attached_run_finish(struct attached_run *a)
{
    cli_on_stop(a->d, 0, NULL, NULL);
    client_stream_close(a->stream);
    client_answer_finish(&a->answer);
    client_destroy(a->client);
    if (a->watch != NULL)
        fr_loop_untimer(&a->d->loop, &a->watch);
    if (a->tick != NULL)
        fr_loop_untimer(&a->d->loop, &a->tick);
    cli_follow_destroy(a->f);
    fr_store_close(a->st);
}

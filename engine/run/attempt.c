/*
 * An attempt between its node and the scheduler: what the executor posted becomes events of the
 * scheduler, and what the scheduler decided takes effect, after the commit that makes it right.
 */
#include "engine/run/inside.h"
#include "engine/run/metrics.h"
#include "engine/run/times.h"

#include <stdio.h>
#include <string.h>

static struct fr_event about(const struct run_attempt *at, enum fr_event_kind kind)
{
    return (struct fr_event){.kind = kind, .inst = at->inst, .attempt = at->id};
}

/* Ends an attempt of which nothing is on the node. once: it is not tried again. */
static void end(struct fr_run *run, struct run_attempt *at, enum fr_cause cause, bool once,
                const char *reason)
{
    struct fr_event ev = about(at, FR_EV_ENDED);

    run_start_drop(run, at->start);
    at->start = NULL;
    at->ended = true;
    at->log_end = true; /* the node has none of it */
    run_say(at->reason, reason, strlen(reason));
    (void)run_times_ended(run, at, NULL);
    ev.cause = cause;
    ev.no_retry = once;
    ev.proven = true;
    run_queue_or_die(run, &ev);
}

static void unstarted(struct fr_run *run, struct run_attempt *at, const struct fr_err *err,
                      bool once)
{
    enum fr_cause cause = run->no_value ? FR_CAUSE_EXPRESSION : FR_CAUSE_START_FAILED;

    run->no_value = false;
    end(run, at, cause, once, err->msg);
}

/* A mistake in the pipeline, a denied or a missing file fails the next try too. A full disk, a lost
 * connection or missing memory may pass. */
static bool is_permanent(enum fr_rc rc)
{
    return rc == FR_USAGE || rc == FR_DENIED || rc == FR_NOTFOUND || rc == FR_UNSUPPORTED;
}

void run_start_failed(struct fr_run *run, struct run_attempt *at, const struct fr_err *err)
{
    unstarted(run, at, err, is_permanent(err->rc));
}

void run_start_refused(struct fr_run *run, struct run_attempt *at, const struct fr_err *err)
{
    unstarted(run, at, err, false);
}

/* ---- refs ---- */

uint64_t run_job_add(struct fr_run *run, struct run_attempt *at)
{
    struct run_job *job = fr_sys.alloc(sizeof(*job));

    if (job == NULL)
        return 0;
    *job = (struct run_job){run->jobs, ++run->last_ref, at};
    run->jobs = job;
    return job->ref;
}

/* The attempt that waits for the answer, once; NULL: none does any more. */
static struct run_attempt *end_job(struct fr_run *run, uint64_t ref)
{
    for (struct run_job **p = &run->jobs, *job; (job = *p) != NULL; p = &job->next)
        if (job->ref == ref) {
            struct run_attempt *at = job->at;

            *p = job->next;
            fr_sys.free(job);
            return at;
        }
    return NULL;
}

/* ---- events ---- */

/* A node that keeps the rules gives declared names alone, as UTF-8 and not too long. */
static bool outputs_fine(struct fr_run *run, const struct run_attempt *at, const struct fr_ended *e)
{
    const struct fr_task *task = run_task_of(run, at->inst)->spec;
    size_t bytes = 0;

    for (size_t i = 0; i < e->outputs.n; i++) {
        struct fr_str kv = e->outputs.v[i];
        const char *eq = memchr(kv.p, '=', kv.n);
        bool known = false;

        for (size_t k = 0; eq != NULL && k < task->n_outputs; k++)
            known =
                known || fr_str_is((struct fr_str){kv.p, (size_t)(eq - kv.p)}, task->outputs[k]);
        bytes += kv.n;
        if (!known || !fr_utf8_valid(kv.p, kv.n) || bytes > FR_OUTPUTS_MAX)
            return false;
    }
    return e->outputs.n <= task->n_outputs;
}

/* false: flowrun ends; the node keeps them until its end is committed. */
static bool keep_outputs(struct fr_run *run, struct run_attempt *at, const struct fr_ended *e)
{
    struct fr_err err;

    at->outputs = (struct fr_strs){0};
    for (size_t i = 0; i < e->outputs.n; i++)
        if (!run_add(&run->arena, &at->outputs, "%.*s", (int)e->outputs.v[i].n, e->outputs.v[i].p))
            goto nomem;
    at->outputs_new = true;
    run->insts[at->inst].outputs = at->outputs; /* conditions of this very turn may want them */
    return true;
nomem:
    fr_fail(&err, FR_NOMEM, "no memory for the outputs of %s", run->plan->insts[at->inst].key);
    run_die(run, &err);
    return false;
}

static void why_ended(struct run_attempt *at, const struct fr_ended *e)
{
    struct fr_buf b = {0};

    fr_buf_visible(&b, e->text.p, e->text.n);
    if (e->survivors.n > 0) {
        fr_buf_fmt(&b, "%sstill there:", b.n > 0 ? "; " : "");
        for (size_t i = 0; i < e->survivors.n; i++) {
            fr_buf_text(&b, i > 0 ? ", " : " ");
            fr_buf_visible(&b, e->survivors.v[i].p, e->survivors.v[i].n);
        }
    }
    if (e->dropped_bytes > 0)
        fr_buf_fmt(&b, "%s%llu bytes of its output were dropped", b.n > 0 ? "; " : "",
                   (unsigned long long)e->dropped_bytes);
    if (!b.bad && b.n > 0)
        run_say(at->reason, b.p, b.n);
    fr_buf_finish(&b);
}

static void on_ended(struct fr_run *run, struct run_attempt *at, const struct fr_ended *e)
{
    struct fr_event ev = about(at, FR_EV_ENDED);
    const struct fr_action *act = &run_task_of(run, at->inst)->spec->act;
    bool well = e->cause == FR_END_EXIT && e->code == 0, fine = outputs_fine(run, at, e);

    at->metrics_bytes = e->metrics_bytes;
    at->log_bytes = e->log_bytes; /* also of one that this process knows as ended from the store */
    if (!at->ended) {
        ev.ago_ms = run_times_ended(run, at, e);
        why_ended(at, e);
        if (well && e->text.n == 0 && fine && !keep_outputs(run, at, e))
            return;
        if (well && e->text.n == 0 && !fine)
            snprintf(at->reason, sizeof(at->reason),
                     "node %s gave outputs that were not declared, or are no text",
                     run->plan->nodes[run_node_of(run, at->inst)].name);
        at->ended = true;
        if (!at->followed)
            run_follow(run, at); /* it ended while nobody looked: its log is still to come */
    }
    ev.cause = fr_cause_of_end(e->cause);
    if (ev.cause == FR_CAUSE_N) {
        ev.cause = FR_CAUSE_LOST;
        snprintf(at->reason, sizeof(at->reason), "node %s gave a cause that is not known here: %u",
                 run->plan->nodes[run_node_of(run, at->inst)].name, (unsigned)e->cause);
    }
    ev.code = e->code;
    ev.proven = e->survivors.n == 0;
    if (well && (e->text.n > 0 || !fine)) {
        ev.code = RUN_EXIT_OUTPUTS; /* it went well, and its outputs cannot be read */
        ev.no_retry = true;
    }
    ev.no_retry = ev.no_retry ||
                  (act->what == FR_USES && e->cause == FR_END_EXIT && e->code == FR_EXIT_USAGE);
    at->displaced = ev.proven && run_displaces(run, at, ev.cause) ? ev.cause : FR_CAUSE_NONE;
    if (at->displaced == FR_CAUSE_NONE)
        run_queue_or_die(run, &ev);
}

static void on_unknown(struct fr_run *run, struct run_attempt *at, bool prepared)
{
    struct fr_event ev = about(at, FR_EV_UNKNOWN);
    const struct run_node *node = &run->nodes[run_node_of(run, at->inst)];

    if (at->busy) /* of course: it starts once the older one is gone */
        return;
    ev.same_home = fr_id_zero(at->home_id) || fr_id_eq(at->home_id, node->home_id);
    ev.same_boot = at->boot_id[0] == '\0' || strcmp(at->boot_id, node->boot_id) == 0;
    ev.prepared = prepared;
    run_queue_or_die(run, &ev);
}

static void on_state(struct fr_run *run, struct run_attempt *at, const struct fr_state *s)
{
    struct fr_event ev = about(at, FR_EV_PREPARED);

    if (at->ended && at->ack && (s->status == FR_AT_UNKNOWN || s->status == FR_AT_TOMBSTONED)) {
        at->log_end = true; /* acknowledged before this process began: the node has forgotten it */
        run_ack(run, at);
        return;
    }
    if (s->port != 0)
        at->port = (int)s->port;
    switch (s->status) {
    case FR_AT_UNKNOWN:
        on_unknown(run, at, s->prepared);
        return;
    case FR_AT_PREPARED:
        ev.unready = true;
        break;
    case FR_AT_RUNNING:
        run_times_launched(run, at, s->launched_ms);
        ev.kind = FR_EV_LAUNCHED;
        break;
    case FR_AT_TOMBSTONED:
        ev.kind = FR_EV_TOMBSTONED;
        at->ended = at->log_end = true;
        break;
    default:
        return; /* ended follows */
    }
    run_queue_or_die(run, &ev);
}

static void on_prepared(struct fr_run *run, struct run_attempt *at, const struct fr_prepared *p)
{
    struct fr_event ev = about(at, FR_EV_PREPARED);

    if (p->rc != FR_OK) {
        struct fr_err err = {.rc = (enum fr_rc)p->rc};

        run_say(err.msg, p->text.p != NULL ? p->text.p : "", p->text.n);
        run_start_refused(run, at, &err);
        return;
    }
    at->port = (int)p->port;
    run_queue_or_die(run, &ev);
}

/* Answers about an attempt that is stopped because it lives where ours should start. */
static bool on_other(struct fr_run *run, const struct fr_exec_event *ev)
{
    for (struct run_other **p = &run->others; *p != NULL; p = &(*p)->next) {
        struct run_other *o = *p;
        struct run_attempt *at;
        struct fr_event clear = {.kind = FR_EV_CLEARED,
                                 .inst = o->inst,
                                 .attempt = o->attempt,
                                 .other = o->id,
                                 .proven = true};

        if (!fr_id_eq(o->id, ev->attempt) || run_node_of(run, o->inst) != ev->node)
            continue;
        if (ev->kind == FR_EXEC_ENDED ||
            (ev->kind == FR_EXEC_STATE &&
             (ev->state.status == FR_AT_UNKNOWN || ev->state.status == FR_AT_TOMBSTONED))) {
            if (ev->kind == FR_EXEC_ENDED && ev->ended.survivors.n > 0)
                return true; /* not gone: it is stopped again when the scheduler asks */
            *p = o->next;
            if ((at = run_attempt_find(run, o->attempt)) != NULL)
                at->busy = false;
            run_queue_or_die(run, &clear);
        }
        return true;
    }
    return false;
}

static void on_attempt(struct fr_run *run, struct run_attempt *at, const struct fr_exec_event *ev)
{
    struct fr_event out;

    switch (ev->kind) {
    case FR_EXEC_PREPARED:
        on_prepared(run, at, &ev->prepared);
        break;
    case FR_EXEC_BUSY:
        out = about(at, FR_EV_BUSY);
        out.other = ev->busy.other;
        at->busy = true;
        run_queue_or_die(run, &out);
        break;
    case FR_EXEC_LAUNCHED:
        run_times_launched(run, at, ev->launched.mono_ms);
        out = about(at, FR_EV_LAUNCHED);
        run_queue_or_die(run, &out);
        break;
    case FR_EXEC_LOG:
        run_log_take(run, at, ev);
        break;
    case FR_EXEC_TAIL:
        run_log_tail(run, at, ev);
        break;
    case FR_EXEC_METRICS:
        run_metrics_take(run, at, ev);
        break;
    case FR_EXEC_ENDED:
        on_ended(run, at, &ev->ended);
        break;
    case FR_EXEC_LOG_END:
        at->log_end = (at->log.cut || at->log.size >= at->log_bytes) &&
                      (at->metrics.cut || at->metrics.size >= at->metrics_bytes);
        run_ack(run, at);
        break;
    case FR_EXEC_STATE:
        on_state(run, at, &ev->state);
        break;
    default:
        break;
    }
}

static void on_transfer(struct fr_run *run, const struct fr_exec_event *ev)
{
    struct run_attempt *at = end_job(run, ev->ref);

    if (ev->kind == FR_EXEC_PUT_DONE && ev->put.dir.n > 0 && run->nodes[ev->node].store == NULL)
        run->nodes[ev->node].store = fr_arena_text(&run->arena, ev->put.dir.p, ev->put.dir.n);
    if (at != NULL && at->start != NULL)
        run_start_answer(run, at, ev);
}

void run_take_event(struct fr_run *run, struct fr_exec_event *ev)
{
    struct run_attempt *at;

    switch (ev->kind) {
    case FR_EXEC_UP:
        run_node_up(run, (uint32_t)ev->node, ev);
        return;
    case FR_EXEC_DOWN:
        run_node_down(run, (uint32_t)ev->node, ev);
        return;
    case FR_EXEC_NOTE:
        run_node_note(run, (uint32_t)ev->node, "%.*s", (int)ev->text.n, ev->text.p);
        return;
    case FR_EXEC_PUT_DONE:
    case FR_EXEC_GET_DONE:
    case FR_EXEC_FACTS:
    case FR_EXEC_FAILED:
        on_transfer(run, ev);
        return;
    case FR_EXEC_LEASED:
    case FR_EXEC_CONFIG:
        return;
    default:
        break;
    }
    if (on_other(run, ev) || (at = run_attempt_find(run, ev->attempt)) == NULL)
        return;
    if (run_node_of(run, at->inst) == ev->node)
        on_attempt(run, at, ev);
    else if (!run->nodes[ev->node].foreign_shown) {
        run->nodes[ev->node].foreign_shown = true;
        run_node_note(run, (uint32_t)ev->node, "reports on %s, which does not run there: ignored",
                      run->plan->insts[at->inst].key);
    }
}

/* ---- effects ---- */

void run_eval(struct fr_run *run, const struct fr_act *act)
{
    const struct fr_task *task = run_task_of(run, act->inst)->spec;
    struct run_scope scope = {.run = run, .inst = act->inst, .attempt_no = 1};
    struct fr_resolver resolver = run_resolver(&scope);
    struct fr_event ev = {.kind = FR_EV_WHEN, .inst = act->inst};
    struct fr_err err;

    ev.failed = fr_text_true(&task->when, &resolver, &ev.value, &err) != FR_OK;
    run->insts[act->inst].no_when =
        ev.failed ? fr_arena_fmt(&run->arena, "when: %s", err.msg) : NULL;
    run_queue_or_die(run, &ev);
}

void run_ack(struct fr_run *run, struct run_attempt *at)
{
    struct fr_err err;

    if (!at->ack || !at->log_end)
        return;
    if (at->sent) {
        if (run_log_sync(run, at, &err) != FR_OK || run_metrics_sync(run, at, &err) != FR_OK) {
            run_trouble(run, at->inst, "%s", err.msg);
            return; /* the node keeps it; the next process asks again */
        }
        (void)run->exec.ops->ack_end(run->exec.self, run_exec_attempt(run, at), NULL);
    }
    struct run_done *done = fr_grow(run->done, run->n_done + 1, &run->cap_done, sizeof(*done));

    if (done == NULL)
        return; /* no memory: the next process asks again */
    run->done = done;
    run->done[run->n_done++] = (struct run_done){at->inst, at->no, at->id};
    if (fr_id_eq(run->insts[at->inst].row.id, at->id))
        run->insts[at->inst].row.done = 1;
    run_attempt_drop(run, at);
}

static void stop(struct fr_run *run, const struct fr_act *act)
{
    struct run_attempt *at = run_attempt_find(run, act->attempt);
    struct fr_exec_attempt ea = {run_node_of(run, act->inst), act->attempt};
    struct fr_err err;

    if (at != NULL && at->ended && !at->sent)
        return;
    if (at != NULL && !at->sent) {
        end(run, at, FR_CAUSE_STOPPED, false, "stopped before it was started");
        return;
    }
    if (run->exec.ops->stop(run->exec.self, ea, act->grace_ms, (uint32_t)act->stop_cause, &err) !=
        FR_OK)
        run_trouble(run, act->inst, "%s", err.msg);
}

static void stop_other(struct fr_run *run, const struct fr_act *act)
{
    struct fr_exec_attempt ea = {run_node_of(run, act->inst), act->other};
    struct run_other *o;
    struct fr_err err = {0};

    for (o = run->others; o != NULL; o = o->next)
        if (fr_id_eq(o->id, act->other))
            break;
    if (o == NULL) {
        if ((o = fr_arena_alloc(&run->arena, sizeof(*o))) == NULL) {
            run_trouble(run, act->inst, "no memory to stop an older attempt");
            return;
        }
        *o = (struct run_other){run->others, act->other, act->attempt, act->inst};
        run->others = o;
    }
    run_node_note(run, (uint32_t)ea.node, "an older attempt of %s lives there: stopping it",
                  run->plan->insts[act->inst].key);
    if (run->exec.ops->stop(run->exec.self, ea, act->grace_ms, FR_CAUSE_STOPPED, &err) != FR_OK)
        run_trouble(run, act->inst, "%s", err.msg);
}

void run_follow(struct fr_run *run, struct run_attempt *at)
{
    struct fr_exec_have have = {0};
    struct fr_err err;

    at->followed = true;
    if (run_log_look(run, at, &err) != FR_OK || run_metrics_look(run, at, &err) != FR_OK) {
        run_trouble(run, at->inst, "%s", err.msg);
        return;
    }
    have.log = at->log.refetch ? 0 : at->log.size;
    have.metrics = at->metrics.refetch ? 0 : at->metrics.size;
    if (run->exec.ops->attach(run->exec.self, run_exec_attempt(run, at), have, &err) != FR_OK)
        run_trouble(run, at->inst, "%s", err.msg);
}

static void ask(struct fr_run *run, const struct fr_act *act)
{
    struct run_attempt *at = run_attempt_find(run, act->attempt);
    struct fr_exec_attempt ea = {run_node_of(run, act->inst), act->attempt};
    struct fr_err err;
    enum fr_rc rc;

    if (at != NULL && act->kind == FR_ACT_QUERY && !at->sent && at->start != NULL)
        return; /* still being staged here: the node cannot know it */
    if (at != NULL)
        at->sent = true;
    if (act->kind == FR_ACT_TOMBSTONE)
        rc = run->exec.ops->tombstone(run->exec.self, ea, &err);
    else
        rc = run->exec.ops->query(run->exec.self, &ea, 1, &err);
    if (rc != FR_OK)
        run_trouble(run, act->inst, "%s", err.msg);
}

void run_act(struct fr_run *run, const struct fr_act *act)
{
    struct run_attempt *at = run_attempt_find(run, act->attempt);

    switch (act->kind) {
    case FR_ACT_CONNECT:
        run_node_connect(run, act->node);
        break;
    case FR_ACT_START:
    case FR_ACT_PREPARE:
        run_start(run, act);
        break;
    case FR_ACT_GO:
        run_start_go(run, act);
        break;
    case FR_ACT_STOP:
        stop(run, act);
        break;
    case FR_ACT_STOP_OTHER:
        stop_other(run, act);
        break;
    case FR_ACT_QUERY:
    case FR_ACT_TOMBSTONE:
        ask(run, act);
        break;
    case FR_ACT_ATTACH:
        if (at != NULL)
            run_follow(run, at);
        break;
    case FR_ACT_ACK:
        if (at != NULL) {
            at->ack = true;
            run_ack(run, at);
        }
        break;
    case FR_ACT_FORGET:
        if (at != NULL) {
            at->sent = false;
            at->ended = at->log_end = at->ack = true;
            run_ack(run, at);
        }
        break;
    case FR_ACT_OVER:
        run->over = true;
        run->over_ms = fr_sys.mono_ms();
        run_log_missing(run, run->over_ms);
        break;
    default:
        break;
    }
}

void run_attempt_drop(struct fr_run *run, struct run_attempt *at)
{
    for (struct run_job *job = run->jobs; job != NULL; job = job->next)
        if (job->at == at)
            job->at = NULL;
    run_start_drop(run, at->start);
    at->start = NULL;
    run_log_close(at);
    run_progress_drop(at);
    for (struct run_attempt **p = &run->attempts; *p != NULL; p = &(*p)->next) {
        if (*p == at) {
            *p = at->next;
            at->next = run->spare;
            run->spare = at;
            return;
        }
    }
}

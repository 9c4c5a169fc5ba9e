/* Effects, performed after the commit that makes them right. */
#include "engine/run/inside.h"

#include <stdio.h>

void run_eval(struct fr_run *run, const struct fr_act *act)
{
    const struct fr_task *task = run_task_of(run, act->inst)->spec;
    struct run_scope scope = {.run = run, .inst = act->inst, .attempt_no = 1};
    struct fr_resolver resolver = run_resolver(&scope);
    struct fr_event ev = {.kind = FR_EV_WHEN, .inst = act->inst};
    struct fr_err err;

    ev.failed = fr_text_true(&task->when, &resolver, &ev.value, &err) != FR_OK;
    if (ev.failed)
        run_trouble(run, act->inst, "%s", err.msg);
    run_queue_or_die(run, &ev);
}

void run_ack(struct fr_run *run, struct run_attempt *at)
{
    struct fr_err err;

    if (!at->ack || !at->log_end)
        return;
    if (at->sent) {
        if (run_log_sync(run, at, &err) != FR_OK) {
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
        run_end(run, at, FR_CAUSE_STOPPED, "stopped before it was started");
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
    struct fr_err err;

    at->followed = true;
    if (run_log_look(run, at, &err) != FR_OK)
        run_trouble(run, at->inst, "%s", err.msg);
    else if (run->exec.ops->attach(run->exec.self, run_exec_attempt(run, at),
                                   at->log.refetch ? 0 : at->log.size, &err) != FR_OK)
        run_trouble(run, at->inst, "%s", err.msg);
}

static void connect_node(struct fr_run *run, uint32_t n)
{
    struct run_node *node = &run->nodes[n];
    struct fr_err err;

    node->refused = false;
    if (run->exec.ops->connect(run->exec.self, n, &err) != FR_OK)
        run_trouble(run, FR_PLAN_NONE, "%s", err.msg);
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
        connect_node(run, act->node);
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
        break;
    default:
        break;
    }
}

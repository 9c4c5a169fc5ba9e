/* The run's owner: its lock, its socket, and what other processes ask of it. */
#include "engine/run/inside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void on_poke(void *arg, int what)
{
    struct fr_run *run = arg;
    int fd = fr_sys.accept(run->sock_fd);

    (void)what;
    if (fd >= 0)
        fr_sys.close(fd);
    run->notified = true;
    run_wake(run);
}

enum fr_rc run_own(struct fr_run *run, struct fr_err *err)
{
    struct fr_buf path = {0};
    enum fr_rc rc = fr_home_own(run->home, run->id, &run->lock_fd, err);

    if (rc != FR_OK)
        return rc;
    fr_home_at(run->home, FR_HOME_SOCK, run->id, &path);
    if (path.bad)
        return fr_fail(err, FR_NOMEM, "no memory for a path");
    fr_sys.unlink(path.p); /* of an owner that died: the lock says so */
    run->sock_fd = fr_sys.listen_unix(path.p);
    if (run->sock_fd < 0)
        rc = fr_fail_errno(err, errno, "listening at %s", path.p);
    else if (fr_sys.set_nonblock(run->sock_fd, true) != 0)
        rc = fr_fail_errno(err, errno, "setting up %s", path.p);
    else if (fr_loop_watch(run->env.loop, run->sock_fd, on_poke, run, &run->sock) != FR_OK)
        rc = fr_fail(err, FR_NOMEM, "no memory to listen at %s", path.p);
    if (rc == FR_OK)
        fr_loop_want(run->env.loop, run->sock, FR_LOOP_READ);
    run->notified = true; /* what was asked while nobody owned it */
    fr_buf_finish(&path);
    return rc;
}

void run_disown(struct fr_run *run)
{
    struct fr_buf path = {0};

    if (run->sock != NULL)
        fr_loop_unwatch(run->env.loop, &run->sock);
    if (run->sock_fd >= 0) {
        fr_sys.close(run->sock_fd);
        fr_home_at(run->home, FR_HOME_SOCK, run->id, &path);
        if (!path.bad)
            fr_sys.unlink(path.p);
        fr_buf_finish(&path);
    }
    if (run->lock_fd >= 0)
        fr_sys.close(run->lock_fd);
    run->sock_fd = run->lock_fd = -1;
}

enum fr_rc run_abandon(struct fr_run *run, const char *name, struct fr_err *err)
{
    struct fr_event ev = {.kind = FR_EV_ABANDON, .node = fr_plan_node(run->plan, name)};
    struct run_node *node;
    struct fr_buf why = {0};
    enum fr_rc rc;

    if (ev.node == FR_PLAN_NONE)
        return fr_fail(err, FR_USAGE, "the run has no node '%s'", name);
    node = &run->nodes[ev.node];
    if ((rc = run_queue(run, &ev, err)) != FR_OK || node->up)
        return rc;
    node->refused = true;
    fr_buf_fmt(&why, "its node is given up%s%s", node->reason[0] != '\0' ? ": " : "", node->reason);
    if (!why.bad)
        snprintf(node->reason, sizeof(node->reason), "%s", why.p);
    fr_buf_finish(&why);
    ev.kind = FR_EV_NODE_REFUSED; /* nor is it waited for with what is still to start there */
    return run_queue(run, &ev, err);
}

/* What follows from a request, and what to answer. */
static const char *grant(struct fr_run *run, const struct fr_request_row *row)
{
    struct fr_event ev = {.task = FR_PLAN_NONE};

    if (strcmp(row->kind, "cancel") == 0) {
        if (run->over)
            return "the run is over";
        ev.kind = FR_EV_CANCEL;
        run_trouble(run, FR_PLAN_NONE, "cancelled from another shell: stopping all tasks");
    } else if (strcmp(row->kind, "abandon") == 0) {
        if (run->over)
            return "the run is over";
        return run_abandon(run, row->arg, NULL) == FR_OK ? "ok" : "the run has no such node";
    } else if (strcmp(row->kind, "retry") == 0) {
        ev.kind = FR_EV_RETRY;
        if (fr_sched_now(run->sched).state != FR_RUN_OVER)
            return "the run is still going on; cancel it first, or wait for its end";
        if (row->arg[0] != '\0' && (ev.task = fr_plan_task(run->plan, row->arg)) == FR_PLAN_NONE)
            return "the run has no such task";
    } else {
        return "this flowrun does not know such a request";
    }
    run_queue_or_die(run, &ev);
    return "ok";
}

static bool answered(const struct fr_run *run, int64_t id)
{
    for (const struct run_answer *a = run->answers; a != NULL; a = a->next)
        if (a->id == id)
            return true;
    return false;
}

void run_requests(struct fr_run *run)
{
    struct fr_arena arena = {0};
    struct fr_request_rows rows = {0};
    struct fr_err err;
    enum fr_rc rc = fr_store_requests(run->env.store, run->id, &arena, &rows, &err);

    for (size_t i = 0; rc == FR_OK && i < rows.n; i++) {
        struct run_answer *a = fr_arena_alloc(&run->arena, sizeof(*a));

        if (answered(run, rows.rows[i].id))
            continue;
        if (a == NULL) {
            rc = fr_fail(&err, FR_NOMEM, "no memory for a request");
            break;
        }
        *a = (struct run_answer){run->answers, rows.rows[i].id, grant(run, &rows.rows[i])};
        run->answers = a;
    }
    if (rc != FR_OK) {
        run_trouble(run, FR_PLAN_NONE, "reading requests: %s", err.msg);
        run->notified = rc == FR_BUSY;
    }
    fr_arena_finish(&arena);
}

#include "engine/supervise/supervise.h"

#include "engine/base/file.h"
#include "engine/supervise/environ.h"
#include "engine/supervise/reason.h"
#include "engine/supervise/private.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
    KILLED_BY_SHELL = 128 + SIGKILL, /* exit code of a shell whose last command was killed */
};

void sup_stop(struct sup *s, enum fr_end_cause cause, uint32_t stop_cause, int64_t grace_ms)
{
    if (s->phase >= SUP_RECORDING)
        return;
    if (!s->stopping && (s->alive || s->phase == SUP_WAITING)) {
        s->stopping = true;
        s->end.cause = cause;
        s->end.stop_cause = stop_cause;
    }
    if (s->phase == SUP_WAITING) {
        s->phase = SUP_CLOSING;
        fr_stopper_begin(&s->stopper, 0);
        return;
    }
    if (s->phase == SUP_RUNNING) {
        s->phase = SUP_LEAVING;
        s->stopper.tree.n_spare = s->n_sidecars;
    }
    fr_stopper_begin(&s->stopper, grace_ms);
}

/* Begins to stop whatever the phase is about; sidecars are spared until the command's own tree is
 * gone. */
static void enter(struct sup *s, enum sup_phase phase, int64_t grace_ms)
{
    s->phase = phase;
    s->stopper.tree.n_spare = phase == SUP_CLOSING ? 0 : s->n_sidecars;
    s->stopper.phase = FR_STOP_NONE;
    fr_stopper_begin(&s->stopper, grace_ms);
}

/* The command ended: its end is journalled before it is reaped. */
static void take_exit(struct sup *s, const struct fr_wait *w)
{
    s->alive = false;
    s->end.ended_ms = fr_sys.mono_ms();
    s->end.ended_boot_ms = fr_sys.boot_ms();
    s->end.code = w->code;
    if (!s->stopping)
        s->end.cause = w->signaled ? FR_END_SIGNAL : FR_END_EXIT;
    /* a SIGKILL that was not ours, or that a shell reports, while the OOM-kill counter grew */
    if (((s->end.cause == FR_END_SIGNAL && w->code == SIGKILL) ||
         (s->end.cause == FR_END_EXIT && w->code == KILLED_BY_SHELL)) &&
        sup_oom_grew(s->process))
        s->end.cause = FR_END_OOM;
    s->exited = s->end.cause == FR_END_EXIT; /* also if a cause below says more of the status */
    sup_journal_exit(s);
    fr_fd_close(&s->child_fd);
}

/* Looks at ended children. True when there are no children at all: then, this process being a
 * subreaper, nothing of the attempt is left. */
static bool reap(struct sup *s)
{
    struct fr_wait w;

    for (;;) {
        if (fr_sys.wait(-1, &w, FR_WAIT_PEEK | FR_WAIT_NOHANG) != 0)
            return errno == ECHILD;
        if (w.pid == 0)
            return false;
        if (s->alive && w.pid == s->child.pid)
            take_exit(s, &w);
        if (fr_sys.wait(w.pid, &w, FR_WAIT_NOHANG) != 0)
            return false;
    }
}

/* An error's text, masked: it may quote arguments of the command. */
static struct fr_str masked(struct sup *s, const char *text)
{
    struct fr_buf out = {0};
    struct fr_mask m;

    fr_mask_init(&m, &s->masked);
    fr_mask_feed(&m, text, strlen(text), &out);
    fr_mask_end(&m, &out);
    fr_buf_add(&out, "", 1);
    struct fr_str kept = fr_reason_keep(out.bad ? "no memory to say why" : out.p, &s->arena);
    fr_mask_finish(&m);
    fr_buf_finish(&out);
    return kept;
}

static void start_failed(struct sup *s, const struct fr_err *err)
{
    s->end.cause = FR_END_START_FAILED;
    s->end.text = masked(s, err->msg);
    s->end.launched = false;
    s->stopping = true;
    enter(s, SUP_CLOSING, s->req->grace_ms);
}

static void set_notice(struct sup *s)
{
    if (s->req->notice_ms > 0 && s->req->deadline_wall > 0)
        s->notice_ms =
            fr_sys.mono_ms() + (s->req->deadline_wall - fr_sys.wall_ms()) - s->req->notice_ms;
}

/* It has half of the time that is left; the other half is for its log, and for its job to end. One
 * that began late has less than it asked for. */
static void stop_by_notice(struct sup *s)
{
    int64_t left = s->req->deadline_wall - fr_sys.wall_ms();

    left = left < s->req->notice_ms ? left : s->req->notice_ms;
    s->notice_ms = INT64_MAX;
    sup_stop(s, FR_END_TIME_LIMIT, 0, left > 0 ? left / 2 : 0);
}

static void launch(struct sup *s)
{
    struct fr_err err;
    enum fr_rc rc = sup_launch(s, &err);

    if (rc == FR_STOPPED) {
        s->phase = SUP_OVER;
    } else if (rc != FR_OK) {
        start_failed(s, &err);
    } else {
        s->phase = SUP_RUNNING;
        if (s->req->timeout_ms > 0)
            s->timeout_ms = s->end.launched_ms + s->req->timeout_ms;
        set_notice(s);
        s->launch_due_ms = fr_sys.mono_ms() + SUP_QUICK_MS;
    }
}

static void check_deadlines(struct sup *s)
{
    int64_t now = fr_sys.mono_ms();

    if (now >= s->launch_due_ms)
        sup_send_launched(s);
    if (now >= s->metrics_ms && s->phase < SUP_RECORDING)
        sup_metrics_look(s);
    if (s->phase == SUP_WAITING && now >= s->expires_ms) {
        struct fr_err err;
        fr_fail(&err, FR_TIMEOUT, "no go came within %d s", FR_PREPARED_EXPIRES_MS / 1000);
        start_failed(s, &err);
    }
    if (s->phase == SUP_RUNNING && now >= s->timeout_ms)
        sup_stop(s, FR_END_TIMEOUT, 0, s->req->grace_ms);
    if (s->phase == SUP_RUNNING && now >= s->notice_ms)
        stop_by_notice(s);
    if (s->phase <= SUP_RUNNING && s->lease_ms != INT64_MAX && fr_sys.boot_ms() >= s->lease_ms)
        sup_stop(s, FR_END_NODE_LOST, 0, s->req->grace_ms);
}

/* Makes the next step of the phase. */
static void advance(struct sup *s)
{
    bool childless = s->phase > SUP_WAITING && s->phase < SUP_RECORDING && reap(s);

    check_deadlines(s);
    if (s->phase == SUP_WAITING && s->go)
        launch(s);
    if (s->phase == SUP_RUNNING && !s->alive && s->req->leaves && s->n_sidecars == 0 &&
        s->end.cause == FR_END_EXIT && s->end.code == 0)
        sup_gather_end(s);
    else if (s->phase == SUP_RUNNING && !s->alive)
        enter(s, SUP_LEAVING, s->req->grace_ms);
    if (s->phase == SUP_LEAVING || s->phase == SUP_CLOSING) {
        if (childless && !s->alive)
            s->stopper.phase = FR_STOP_DONE;
        fr_stopper_step(&s->stopper);
    }
    if (s->phase == SUP_LEAVING && s->stopper.phase >= FR_STOP_DONE && childless) {
        sup_gather_end(s);
    } else if (s->phase == SUP_LEAVING && s->stopper.phase >= FR_STOP_DONE) {
        if (s->stopper.phase == FR_STOP_UNPROVEN)
            enter(s, SUP_CLOSING, 0);
        else if (!s->alive)
            enter(s, SUP_CLOSING, s->req->grace_ms);
    } else if (s->phase == SUP_CLOSING && s->stopper.phase >= FR_STOP_DONE) {
        reap(s);
        sup_gather_end(s);
    }
    if (s->phase == SUP_RECORDING)
        sup_record(s);
}

static int poll_timeout(const struct sup *s)
{
    int64_t now = fr_sys.mono_ms(), due = INT64_MAX;

    if (s->phase == SUP_WAITING)
        due = s->expires_ms;
    if (s->phase == SUP_RUNNING)
        due = s->timeout_ms < s->notice_ms ? s->timeout_ms : s->notice_ms;
    if (s->phase == SUP_LEAVING || s->phase == SUP_CLOSING)
        due = s->stopper.due_ms;
    if (s->phase == SUP_RECORDING)
        due = s->retry_ms;
    if (s->phase <= SUP_RUNNING && s->lease_ms != INT64_MAX) {
        int64_t lease = now + (s->lease_ms - fr_sys.boot_ms());
        due = lease < due ? lease : due;
    }
    if (s->launch_due_ms < due)
        due = s->launch_due_ms;
    if (s->metrics_ms < due && s->phase < SUP_RECORDING)
        due = s->metrics_ms;
    if (s->alive && s->child_fd < 0 && due > now + SUP_TICK_MS)
        due = now + SUP_TICK_MS;
    if (due == INT64_MAX)
        return -1;
    int64_t ms = due - now;
    return ms < 0 ? 0 : ms > 3600000 ? 3600000 : (int)ms;
}

static struct pollfd poll_entry(int fd, int events)
{
    return (struct pollfd){.fd = fd, .events = (short)events};
}

static void turn(struct sup *s)
{
    struct pollfd p[SUP_POLL];
    nfds_t n = 0;

    for (int i = 0; i < SUP_CONNS; i++) {
        sup_conn_write(s, &s->conns[i]);
        p[n++] = poll_entry(s->conns[i].fd, POLLIN | (s->conns[i].out.n > 0 ? POLLOUT : 0));
    }
    p[n++] = poll_entry(s->listen_fd, POLLIN);
    p[n++] = poll_entry(s->process->socket_fd, POLLIN);
    p[n++] = poll_entry(s->child_fd, POLLIN);
    p[n++] = poll_entry(s->input_fd, POLLOUT);
    for (size_t i = 0; i < s->n_streams; i++)
        p[n++] = poll_entry(s->streams[i].fd, POLLIN);
    if (fr_sys.poll(p, n, poll_timeout(s)) <= 0)
        return;
    for (int i = 0; i < SUP_CONNS; i++)
        if (p[i].revents != 0 && s->conns[i].fd == p[i].fd && p[i].fd >= 0)
            sup_conn_read(s, &s->conns[i]);
    for (int i = SUP_CONNS; i < SUP_CONNS + 2; i++)
        if (p[i].revents != 0)
            sup_accept(s, p[i].fd);
    if (p[SUP_CONNS + 3].revents != 0)
        sup_input_write(s);
    for (size_t i = 0; i < s->n_streams && SUP_CONNS + 4 + i < n; i++)
        if (p[SUP_CONNS + 4 + i].revents != 0)
            sup_stream_read(s, &s->streams[i]);
}

/* Opens the socket by which serve reaches the attempt before its launch is journalled. */
static enum fr_rc open_socket(struct sup *s, struct fr_err *err)
{
    char path[FR_NODE_PATH];

    if (s->process->socket_fd >= 0 && s->a->prepare.go_now)
        return FR_OK;
    fr_home_path(s->home.path, FR_HOME_SOCKET, s->a->prepare.attempt, path);
    fr_sys.unlink(path);
    s->listen_fd = fr_sys.listen_unix(path);
    if (s->listen_fd < 0)
        return fr_fail_errno(err, errno, "cannot listen on %s", path);
    fr_sys.set_nonblock(s->listen_fd, true);
    return FR_OK;
}

/* Takes lock and socket, and checks once more that this attempt may start. */
static enum fr_rc begin(struct sup *s, struct fr_err *err)
{
    struct fr_id id = s->a->prepare.attempt;
    struct sup_process *p = s->process;
    char home[FR_HOME_MAX];
    enum fr_rc rc;

    snprintf(home, sizeof(home), "%.*s", (int)s->a->home.n, s->a->home.p);
    if (p->home.journal < 0 && (rc = fr_home_open(&p->home, home, err)) != FR_OK)
        return rc;
    s->home = p->home;
    if ((rc = fr_logfile_open(&s->log, s->home.path, id, s->req, err)) != FR_OK)
        return rc;
    s->table = (struct fr_table){.at = s->a->journal_at, .only = true, .only_id = id};
    if ((rc = fr_table_read(&s->table, s->home.journal, err)) != FR_OK)
        return rc;
    const struct fr_attempt *a = fr_table_find(&s->table, id);
    if (a == NULL || !a->prepared || a->launched || a->ended || a->tombstoned)
        return fr_fail(err, FR_STOPPED, "this attempt is not to be started");
    if (p->self.pid == 0 && (fr_sys.subreaper() != 0 || fr_sys.self(&p->self) != 0))
        return fr_fail_errno(err, errno, "cannot become a subreaper");
    if ((rc = open_socket(s, err)) != FR_OK)
        return rc;
    fr_id_text(id, s->stopper.tree.marker);
    s->stopper.tree.supervisor = p->self;
    s->stopper.tree.cgroup = p->cgroup;
    s->stopper.tree.spare = s->sidecars;
    if (s->req->become) {
        const struct fr_strs *base[] = {&s->a->environ};
        s->stopper.tree.self = fr_arena_text(&s->arena, s->a->self.p, s->a->self.n);
        s->stopper.tree.environ = fr_environ_make(base, 1, &s->arena);
    }
    return FR_OK;
}

/* The attempt cannot start: writes its tombstone. */
static void refuse(struct sup *s, enum fr_rc rc, const char *why)
{
    struct fr_rec rec = {.kind = FR_REC_TOMBSTONE, .attempt = s->a->prepare.attempt};
    struct fr_err err;

    if (s->home.journal >= 0 && fr_journal_append(s->home.journal, &rec, &err) == FR_OK &&
        s->dir[0] != '\0')
        fr_remove_tree(s->dir, &err);
    sup_send_prepared(s, rc, masked(s, why).p);
    s->phase = SUP_OVER;
}

static void prepare(struct sup *s)
{
    struct fr_err err;
    enum fr_rc rc = sup_prepare(s, &err);

    s->expires_ms = fr_sys.mono_ms() + FR_PREPARED_EXPIRES_MS;
    s->go = s->a->prepare.go_now;
    if (rc != FR_OK)
        refuse(s, rc, err.msg);
    else if (!s->go)
        sup_send_prepared(s, FR_OK, "");
    if (s->phase == SUP_WAITING) /* a stop or a go may have come in one piece with the handover */
        sup_conn_take(s, &s->conns[0]);
}

/* No process of this attempt is left, so this supervisor can take the next attempt. */
static bool fit_for_another(const struct sup *s)
{
    struct fr_wait w;

    return s->process->socket_fd >= 0 && s->end.survivors.n == 0 &&
           fr_sys.wait(-1, &w, FR_WAIT_PEEK | FR_WAIT_NOHANG) != 0 && errno == ECHILD;
}

/* No connection is left that could report a failure. Without the record, a power cut makes the
 * attempt count as lost. */
static void sync_end(struct sup *s)
{
    struct fr_err err;

    if (fr_sys.fdatasync(s->home.journal) != 0)
        fr_table_rewrite(&s->table, s->home.journal, &err);
}

/* Reports that the attempt is over: by STATE on the socket that carries the next attempt, or by
 * closing it. */
static void let_go(struct sup *s)
{
    struct sup_process *process = s->process;
    struct fr_msg m = {.type = FR_MSG_STATE};
    bool fit = fit_for_another(s), kept = false;

    if (s->launch_due_ms != INT64_MAX)
        sup_send_launched(s);
    m.state.attempt = s->a->prepare.attempt;
    m.state.status = FR_AT_ENDED;
    for (int i = 0; i < SUP_CONNS; i++) {
        struct sup_conn *c = &s->conns[i];
        bool own = fit && c->own;
        struct fr_err err;
        if (own && fr_msg_put(&m, &c->out, &err) != FR_OK)
            own = false;
        sup_conn_write(s, c);
        if (own && c->fd >= 0 && c->out.n == 0) {
            kept = true;
            process->in = c->in;
            fr_buf_finish(&c->out);
        } else {
            sup_conn_close(c);
        }
    }
    if (!kept)
        process->sock = -1;
    if (!kept && s->home.journal >= 0)
        sync_end(s); /* else serve syncs the journal */
}

static void finish(struct sup *s)
{
    if (s->listen_fd >= 0)
        fr_home_unlink(s->home.path, FR_HOME_SOCKET, s->a->prepare.attempt);
    fr_fd_close(&s->listen_fd);
    fr_fd_close(&s->port_fd);
    fr_fd_close(&s->claim_fd);
    fr_fd_close(&s->input_fd);
    fr_logfile_close(&s->log);
    fr_metrics_close(&s->metrics);
    let_go(s);
    sup_drop_dir(s);
    fr_table_finish(&s->table);
    fr_stopper_finish(&s->stopper);
    fr_buf_finish(&s->input);
    fr_arena_finish(&s->arena);
}

int sup_attempt(struct sup_process *process, const struct fr_supervise *a)
{
    struct sup s = {.a = a,
                    .process = process,
                    .req = &a->prepare.request,
                    .home = {.journal = -1, .lock = -1},
                    .log = {.fd = -1, .index = -1},
                    .metrics = {.from = -1, .fd = -1, .attempt = a->prepare.attempt},
                    .metrics_ms = INT64_MAX,
                    .child_fd = -1,
                    .listen_fd = -1,
                    .port_fd = -1,
                    .claim_fd = -1,
                    .input_fd = -1,
                    .expires_ms = INT64_MAX,
                    .timeout_ms = INT64_MAX,
                    .notice_ms = INT64_MAX,
                    .lease_ms = INT64_MAX,
                    .launch_due_ms = INT64_MAX,
                    .end = {.attempt = a->prepare.attempt}};
    struct fr_err err;

    for (int i = 0; i < SUP_CONNS; i++)
        s.conns[i].fd = -1;
    if (a->prepare.request.lease_ms > 0)
        s.lease_ms = a->lease_from_ms + a->prepare.request.lease_ms;
    s.conns[0] =
        (struct sup_conn){.fd = process->sock, .in = process->in, .own = process->sock >= 0};
    process->in = (struct fr_wire_in){0};
    if (process->sock >= 0 && process->socket_fd < 0)
        fr_sys.set_nonblock(process->sock, true); /* else open_process() did */
    enum fr_rc rc = begin(&s, &err);
    if (rc == FR_OK)
        prepare(&s);
    else if (rc == FR_BUSY || rc == FR_STOPPED)
        s.phase = SUP_OVER; /* another supervisor has it, or nobody wants it */
    else
        refuse(&s, rc, err.msg);
    while (s.phase != SUP_OVER) {
        advance(&s);
        if (s.phase != SUP_OVER)
            turn(&s);
    }
    finish(&s);
    return rc == FR_OK ? 0 : 1;
}

/* Supervisors as serve sees them. It talks to the live ones by socket and cleans up after the dead.
 */
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/supervise/cgroup.h"
#include "engine/supervise/logfile.h"
#include "engine/supervise/reason.h"
#include "engine/node/private.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { READ_PIECE = 16 << 10 };

struct srv_live *srv_live_get(struct srv *s, struct fr_attempt *a)
{
    struct srv_live *l = a->live;

    if (l != NULL)
        return l;
    if ((l = fr_sys.alloc(sizeof(*l))) == NULL)
        return NULL;
    *l = (struct srv_live){
        .next = s->lives, .a = a, .run = srv_run_find(s, a->run), .fd = -1, .due_ms = INT64_MAX};
    l->log_fd = l->index_fd = l->tail_fd = l->metrics_fd = -1;
    s->lives = l;
    s->n_lives++;
    a->live = l;
    return l;
}

static void close_socket(struct srv_live *l)
{
    fr_fd_close(&l->fd);
    l->waits = false;
    fr_wire_finish(&l->in);
    fr_buf_finish(&l->out);
    fr_buf_finish(&l->order);
    l->in = (struct fr_wire_in){0};
}

void srv_live_drop(struct srv *s, struct srv_live *l)
{
    struct srv_live **at = &s->lives;

    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    srv_unqueue(s, l);
    s->n_lives--;
    l->a->live = NULL;
    close_socket(l);
    fr_fd_close(&l->log_fd);
    fr_fd_close(&l->index_fd);
    fr_fd_close(&l->tail_fd);
    fr_fd_close(&l->metrics_fd);
    fr_stopper_finish(&l->stopper);
    fr_sys.free(l);
}

void srv_live_finish(struct srv *s)
{
    while (s->lives != NULL)
        srv_live_drop(s, s->lives);
}

void srv_live_load(struct srv *s, struct fr_id run)
{
    for (size_t i = 0; i < s->table.n; i++) {
        struct fr_attempt *a = s->table.v[i];
        if (a->ended || a->tombstoned || a->acked || !fr_id_eq(a->run, run))
            continue;
        struct srv_live *l = srv_live_get(s, a);
        if (l != NULL && l->fd < 0 && !l->sweeping)
            l->due_ms = fr_sys.mono_ms();
    }
}

/* Whether a process may still listen there. A shim that waits for its attempt accepts only one
 * connection, so no connection is tried there. */
static bool may_listen(struct srv *s, struct fr_id id, const char *path)
{
    const struct fr_attempt *a = fr_table_find(&s->table, id);
    int fd;

    if (fr_home_alive(s->home.path, id))
        return true;
    if (a == NULL && (fd = fr_sys.connect_unix(path)) >= 0) {
        fr_sys.close(fd);
        return true;
    }
    if (a == NULL)
        return errno != ECONNREFUSED;
    return !a->ended && !a->tombstoned && !a->acked &&
           strcmp(a->boot, s->home.boot) == 0; /* a shim has no lock at first */
}

void srv_live_tidy(struct srv *s)
{
    char path[2 * FR_NODE_PATH];
    char **names;
    size_t n;

    snprintf(path, sizeof(path), "%s/s", s->home.path);
    if (fr_sys.list(path, &names, &n) != 0)
        return;
    for (size_t i = 0; i < n; i++) {
        struct fr_id id;
        bool whole = fr_id_parse(fr_str_of(names[i]), &id);
        snprintf(path, sizeof(path), "%s/s/%s", s->home.path, names[i]);
        if (whole ? may_listen(s, id, path) : strstr(names[i], ".new") == NULL)
            continue;
        fr_sys.unlink(path);
        if (whole) {
            srv_supervisor_cgroup(s, id, path);
            fr_cgroup_remove(path);
        }
    }
    fr_sys_names_free(names, n);
}

void srv_live_put(struct srv *s, struct srv_live *l, const struct fr_msg *m)
{
    struct fr_err err;

    if (fr_msg_put(m, &l->out, &err) != FR_OK)
        srv_fail(s, &err);
    l->due_ms = fr_sys.mono_ms();
}

void srv_live_unlink(struct srv *s, struct fr_id id)
{
    fr_home_unlink(s->home.path, FR_HOME_SOCKET, id);
}

/* The exit as the dead supervisor journalled it, else an end of cause lost. */
static void known_end(const struct fr_attempt *a, struct fr_arena *arena, struct fr_ended *e)
{
    struct fr_err err;

    *e = (struct fr_ended){0};
    if (a->end.n > 0 && fr_ended_get((struct fr_str){a->end.p, a->end.n}, arena, e, &err) == FR_OK)
        return;
    e->attempt = a->id;
    e->cause = FR_END_LOST;
    e->launched = true;
    e->launched_ms = a->launched_ms;
    e->text = strlen(a->container) > 0
                  ? FR_STR("its container is gone, or the shim in it was killed")
                  : FR_STR("its supervisor is gone");
}

/* Journals the end of an attempt whose supervisor is dead. Its processes are gone, or named as
 * survivors. */
static void record_end(struct srv *s, struct srv_live *l, const char *why)
{
    char path[FR_NODE_PATH];
    struct fr_arena arena = {0};
    struct fr_ended e;
    struct fr_buf b = {0};
    struct fr_err err;

    known_end(l->a, &arena, &e);
    if (why != NULL && e.cause == FR_END_LOST)
        e.text = fr_str_of(why);
    e.survivors = fr_stopper_survivors(&l->stopper, &arena);
    fr_logfile_recover(s->home.path, l->a->id, strcmp(l->a->boot, s->home.boot) == 0,
                       &e.dropped_bytes);
    if (e.log_bytes == 0)
        e.log_bytes = fr_home_bytes(s->home.path, FR_HOME_LOG, l->a->id);
    if (e.metrics_bytes == 0)
        e.metrics_bytes = fr_home_bytes(s->home.path, FR_HOME_METRICS, l->a->id);
    if (e.text.n > 0) /* it may hold a secret */
        fr_home_unlink(s->home.path, FR_HOME_OUTPUT, l->a->id);
    fr_home_path(s->home.path, FR_HOME_DIR, l->a->id, path);
    if (e.survivors.n == 0)
        fr_sys.rmdir(path); /* stays when there is something in it */
    fr_cgroup_remove(l->a->cgroup);
    fr_ended_put(&e, &b);
    struct fr_rec rec = {.kind = FR_REC_ENDED, .attempt = l->a->id, .ended = {b.p, b.n}};
    srv_live_unlink(s, l->a->socket_id);
    if (srv_journal(s, &rec, &err) != FR_OK)
        l->due_ms = fr_sys.mono_ms() + 1000; /* a full disk: tried again; no message until then */
    else
        l->sweeping = false;
    fr_buf_finish(&b);
    fr_arena_finish(&arena);
}

void srv_live_sweep(struct srv *s, struct srv_live *l, int64_t grace_ms)
{
    (void)s;
    if (!l->sweeping) {
        l->sweeping = true;
        l->stopper.phase = FR_STOP_NONE;
        l->stopper.tree.cgroup = l->a->cgroup;
        fr_id_text(l->a->id, l->stopper.tree.marker);
        if (l->a->container == NULL || l->a->container[0] == '\0')
            l->stopper.tree.supervisor =
                l->a->supervisor; /* a shim's pid counts in its container only */
    }
    fr_stopper_begin(&l->stopper, grace_ms);
    l->due_ms = fr_sys.mono_ms();
}

/* The attempt never starts: answers the open prepare or stop of the engine. */
static void say_tombstoned(struct srv *s, struct srv_live *l, const char *why)
{
    struct fr_err err;

    fr_fail(&err, FR_IO, "%s", why);
    if (l->starting)
        srv_refuse(s, l->a->id, &err);
    else if (l->report)
        srv_send_state(s, l->a->id);
    l->starting = l->report = false;
}

/* A prepared attempt whose supervisor is gone cannot start any more. */
static void give_up(struct srv *s, struct srv_live *l, const char *why)
{
    struct fr_rec rec = {.kind = FR_REC_TOMBSTONE, .attempt = l->a->id};
    struct fr_err err;

    l->due_ms = INT64_MAX;
    if (!l->starting && !l->report)
        return; /* a prepare may still come again and start it */
    if (srv_journal(s, &rec, &err) != FR_OK) {
        l->due_ms = fr_sys.mono_ms() + 1000;
        return;
    }
    if (!l->a->tombstoned) { /* a supervisor that was late has launched it just before */
        l->due_ms = fr_sys.mono_ms();
        return;
    }
    srv_live_unlink(s, l->a->id);
    say_tombstoned(s, l, why);
}

/* No supervisor held the lock, and the journal had no end. A supervisor holds the lock from before
 * its launch until after its end, so one that is known to have launched, held no lock after that
 * and still has no end is dead. */
static void supervisor_died(struct srv *s, struct srv_live *l)
{
    bool launched = l->a->launched;
    struct fr_err err;

    if (!launched && !l->a->tombstoned && srv_hand_over_again(s, l))
        return;
    /* it may have written its end and gone between two looks, or only begun */
    if (fr_table_read(&s->table, s->home.journal, &err) != FR_OK || l->a->ended ||
        l->a->tombstoned || l->a->launched != launched)
        return; /* the next step looks again */
    close_socket(l);
    if (!launched) {
        give_up(s, l, "its supervisor ended before it was ready");
    } else if (strcmp(l->a->boot, s->home.boot) != 0) {
        record_end(s, l, "the node was rebooted");
    } else {
        srv_live_sweep(s, l, l->a->grace_ms);
    }
}

static void connect_socket(struct srv *s, struct srv_live *l)
{
    char path[FR_NODE_PATH];

    fr_home_path(s->home.path, FR_HOME_SOCKET, l->a->socket_id, path);
    l->fd = fr_sys.connect_unix(path);
    l->due_ms = l->fd >= 0 ? INT64_MAX : fr_sys.mono_ms() + SRV_RETRY_MS;
    if (l->fd >= 0) {
        l->shim_until_ms = 0;
        fr_sys.set_nonblock(l->fd, true);
    }
    if (l->fd >= 0 && l->run != NULL && l->run->leased_ms != 0) { /* the engine has it confirmed */
        struct fr_msg m = {.type = FR_MSG_LEASED, .leased = {.boot_ms = l->run->leased_ms}};
        srv_live_put(s, l, &m);
    }
}

/* Waits for the shim's socket. A shim holds no lock before it has its attempt. */
static void await_shim(struct srv *s, struct srv_live *l)
{
    struct fr_wait w = {0};
    char why[192];

    connect_socket(s, l);
    if (l->fd >= 0)
        return;
    if (l->runtime.pid != 0 && fr_sys.wait(l->runtime.pid, &w, FR_WAIT_NOHANG) == 0 && w.pid != 0) {
        l->runtime.pid = 0;
        if (w.signaled || w.code != 0) {
            l->shim_until_ms = 0;
            snprintf(why, sizeof(why),
                     "container %s is gone, stopped or cannot be entered (exec ended with %s %d)",
                     l->box, w.signaled ? "signal" : "status", w.code);
            give_up(s, l, why);
            return;
        }
    }
    if (fr_sys.mono_ms() >= l->shim_until_ms) {
        l->shim_until_ms = 0;
        give_up(s, l, "flownode shim did not come up in the container");
    }
}

static void write_socket(struct srv_live *l)
{
    if (l->fd < 0 || l->out.n == 0)
        return;
    ssize_t k = fr_sys.write(l->fd, l->out.p, l->out.n);
    if (k > 0)
        fr_buf_cut(&l->out, (size_t)k);
    /* a broken socket shows when it is read */
}

static void over(struct srv *s, struct srv_live *l)
{
    srv_unqueue(s, l);
    close_socket(l);
    l->due_ms = INT64_MAX;
    l->more = l->metrics_more = true;
    if (l->a->tombstoned && !l->a->launched) /* its supervisor's message may be incomplete */
        say_tombstoned(s, l, "its supervisor gave it up before it was ready");
    else if (l->report && l->a->ended)
        srv_send_ended(s, l->a);
    l->starting = false;
    l->report = false;
    if (!l->follow)
        srv_live_drop(s, l);
}

/* Kills a supervisor that did not carry out a stop in time. Serve then stops its processes in its
 * place. The pid of a supervisor in a container is not known here. */
static void kill_stalled(struct srv_live *l)
{
    const struct fr_attempt *a = l->a;

    l->stop_by_ms = 0;
    if (a->ended || a->acked || !a->launched || a->container[0] != '\0')
        return;
    fr_log(FR_LOG_WARN, "node", "supervisor %d of %s does not answer: it is killed",
           (int)a->supervisor.pid, a->instance);
    fr_sys.kill(a->supervisor, SIGKILL);
}

void srv_live_step(struct srv *s, struct srv_live *l)
{
    int64_t now = fr_sys.mono_ms();
    struct fr_wait w = {0};

    if (l->stop_by_ms != 0 && now >= l->stop_by_ms)
        kill_stalled(l);

    if (l->runtime.pid != 0 && l->shim_until_ms == 0 &&
        fr_sys.wait(l->runtime.pid, &w, FR_WAIT_NOHANG) == 0 && w.pid != 0)
        l->runtime.pid = 0; /* the shim is up; RUNTIME exec is of no more use */
    if (l->a->acked) /* another serve has recorded its end: nothing is known of it any more */
        l->sweeping = false;
    if (l->sweeping && now >= l->due_ms) {
        fr_stopper_step(&l->stopper);
        l->due_ms = l->stopper.due_ms;
        if (l->stopper.phase >= FR_STOP_DONE)
            record_end(s, l, NULL);
        if (l->sweeping)
            return;
    }
    write_socket(l);
    if (l->fd >= 0)
        l->due_ms = INT64_MAX;
    if (now < l->due_ms)
        return;
    if (!l->sweeping && (l->a->ended || l->a->tombstoned || l->a->acked))
        over(s, l);
    else if (l->queued != 0)
        l->due_ms = INT64_MAX; /* no supervisor has it yet */
    else if (l->shim_until_ms != 0)
        await_shim(s, l);
    else if (fr_home_alive(s->home.path, l->a->id))
        connect_socket(s, l);
    else if (!l->sweeping)
        supervisor_died(s, l);
}

/* The supervisor sends nothing more: the next step reads the journal. */
static void let_go(struct srv *s, struct srv_live *l)
{
    struct fr_err err;

    fr_wire_finish(&l->in);
    l->in = (struct fr_wire_in){0};
    l->due_ms = fr_sys.mono_ms();
    if (s->sync_ms == INT64_MAX)
        s->sync_ms = l->due_ms + SRV_SYNC_MS;
    if (fr_table_read(&s->table, s->home.journal, &err) != FR_OK)
        srv_fail(s, &err);
}

/* PREPARED and LAUNCHED go to the engine unchanged; GREW makes serve read log and metrics. False:
 * the supervisor has another attempt, or none. */
static bool take(struct srv *s, struct srv_live *l, const struct fr_msg *m)
{
    if (m->type == FR_MSG_PREPARED) {
        l->starting = false;
        l->report = l->report && m->prepared.rc == FR_OK;
        l->port = m->prepared.port;
        l->waits = m->prepared.rc == FR_OK;
        srv_send(s, m);
    } else if (m->type == FR_MSG_LAUNCHED) {
        l->starting = l->waits = false;
        l->pid = m->launched.pid;
        srv_send(s, m);
    } else if (m->type == FR_MSG_GREW) {
        l->more = l->metrics_more = true;
    } else if (m->type == FR_MSG_STATE && !fr_id_eq(m->state.attempt, l->a->id)) {
        return false;
    } else if (m->type == FR_MSG_STATE && m->state.status == FR_AT_ENDED) {
        fr_buf_finish(&l->order);
        srv_spare_keep(s, l);
    }
    if (!l->starting)
        fr_buf_finish(&l->order);
    return true;
}

void srv_live_read(struct srv *s, struct srv_live *l)
{
    char piece[READ_PIECE];
    ssize_t k = l->fd >= 0 ? fr_sys.read(l->fd, piece, sizeof(piece)) : -1;
    bool got = k > 0, broken = k == 0;
    struct fr_err err;

    if (k < 0 && (l->fd < 0 || errno == EAGAIN || errno == EINTR))
        return;
    if (k > 0)
        fr_wire_feed(&l->in, piece, (size_t)k);
    while (got && !broken && l->fd >= 0) {
        struct fr_arena arena = {0};
        struct fr_msg m;
        if (fr_wire_next(&l->in, &arena, &m, &got, &err) != FR_OK || (got && !take(s, l, &m)))
            broken = true;
        fr_arena_finish(&arena);
    }
    if (k > 0 && !broken && l->fd >= 0)
        return;
    if (l->fd >= 0) {
        fr_sys.close(l->fd);
        srv_live_tidy(s); /* it ended, perhaps by a signal */
    }
    l->fd = -1;
    l->waits = false;
    let_go(s, l);
}

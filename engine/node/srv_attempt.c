/* The engine's messages about attempts. */
#include "engine/node/private.h"

#include <string.h>

/* The status according to the records read so far. */
static enum fr_attempt_status known_status(const struct fr_attempt *a)
{
    const struct srv_live *l = a != NULL ? a->live : NULL;

    if (a == NULL || a->acked)
        return FR_AT_UNKNOWN;
    if (a->tombstoned && !a->launched)
        return FR_AT_TOMBSTONED;
    if (l != NULL && l->sweeping)
        return FR_AT_SWEEPING;
    if (a->ended)
        return FR_AT_ENDED;
    return a->launched ? FR_AT_RUNNING : FR_AT_PREPARED;
}

/* A prepared attempt needs its supervisor. If no supervisor holds the lock, the attempt may have
 * launched and ended since the journal was read. */
static enum fr_attempt_status status_of(struct srv *s, const struct fr_attempt *a)
{
    const struct srv_live *l = a != NULL ? a->live : NULL;
    enum fr_attempt_status st = known_status(a);
    struct fr_err err;

    if (st != FR_AT_PREPARED ||
        (l != NULL && (l->fd >= 0 || l->shim_until_ms != 0 || l->queued != 0)) ||
        fr_home_alive(s->home.path, a->id))
        return st;
    if (fr_table_read(&s->table, s->home.journal, &err) != FR_OK)
        srv_fail(s, &err);
    st = known_status(a);
    return st == FR_AT_PREPARED ? FR_AT_UNKNOWN : st;
}

/* The times of the end as this boot's clock has them. An end before a reboot is placed by the
 * calendar; one that an older supervisor wrote has the clock that stands still in sleep alone. */
static void place_end(const struct srv *s, const struct fr_attempt *a, struct fr_ended *e)
{
    int64_t now = fr_sys.boot_ms(), ago = now - e->ended_boot_ms;
    int64_t ran = e->ended_boot_ms - e->launched_boot_ms;

    if (e->ended_ms <= 0)
        return;
    if (e->ended_boot_ms == 0 || e->launched_boot_ms == 0)
        ran = e->launched_ms > 0 ? e->ended_ms - e->launched_ms : 0;
    if (strcmp(a->boot, s->home.boot) != 0)
        ago = fr_sys.wall_ms() - a->end_wall_ms;
    else if (e->ended_boot_ms == 0)
        ago = fr_sys.mono_ms() - e->ended_ms;
    e->sent_boot_ms = now;
    e->ended_boot_ms = now - (ago > 0 ? ago : 0);
    e->launched_boot_ms = e->ended_boot_ms - (ran > 0 ? ran : 0);
}

void srv_send_ended(struct srv *s, const struct fr_attempt *a)
{
    struct fr_msg m = {.type = FR_MSG_ENDED};
    struct srv_live *l = a->live;
    struct fr_arena arena = {0};
    uint64_t metrics = fr_home_bytes(s->home.path, FR_HOME_METRICS, a->id);
    uint64_t left = fr_home_bytes(s->home.path, FR_HOME_LOG, a->id);
    struct fr_err err;

    if (fr_ended_get((struct fr_str){a->end.p, a->end.n}, &arena, &m.ended, &err) == FR_OK) {
        if (left < m.ended.log_bytes) { /* a power cut took the rest */
            m.ended.dropped_bytes += m.ended.log_bytes - left;
            m.ended.log_bytes = left;
        }
        if (metrics < m.ended.metrics_bytes)
            m.ended.metrics_bytes = metrics;
        place_end(s, a, &m.ended);
        if (l != NULL)
            srv_bulk_rest(s, l, m.ended.log_bytes);
        srv_send(s, &m);
    } else {
        srv_fail(s, &err);
    }
    fr_arena_finish(&arena);
}

void srv_send_state(struct srv *s, struct fr_id id)
{
    const struct fr_attempt *a = fr_table_find(&s->table, id);
    const struct srv_live *l = a != NULL ? a->live : NULL;
    struct fr_msg m = {.type = FR_MSG_STATE};

    m.state.attempt = id;
    m.state.status = status_of(s, a);
    m.state.prepared = m.state.status == FR_AT_UNKNOWN && a != NULL && !a->acked;
    if (a != NULL && !a->acked) {
        m.state.generation = a->generation;
        m.state.spec_hash = fr_str_of(a->spec_hash);
        m.state.launched_ms = a->launched_ms;
        m.state.log_bytes = fr_home_bytes(s->home.path, FR_HOME_LOG, id);
    }
    if (l != NULL) {
        m.state.pid = l->pid;
        m.state.port = l->port;
    }
    srv_send(s, &m);
}

/* Sends the state; then, now or later, prepared, launched and ended. */
static void answer(struct srv *s, struct fr_id id)
{
    struct fr_attempt *a = fr_table_find(&s->table, id);
    enum fr_attempt_status st = status_of(s, a);
    struct fr_msg prepared = {.type = FR_MSG_PREPARED, .prepared = {.attempt = id}};
    struct srv_live *l;

    srv_send_state(s, id);
    if (st == FR_AT_ENDED)
        srv_send_ended(s, a);
    if (st != FR_AT_PREPARED && st != FR_AT_RUNNING && st != FR_AT_SWEEPING)
        return;
    if ((l = srv_live_get(s, a)) == NULL)
        return;
    l->report = true;
    prepared.prepared.port = l->port;
    if (l->waits) /* the first one may have come before the engine knew the attempt */
        srv_send(s, &prepared);
    else if (l->fd < 0 && !l->sweeping)
        l->due_ms = fr_sys.mono_ms();
}

/* The keeper gives up attempts that have not started yet (closing.c). */
static bool is_closing(const struct srv *s)
{
    return s->a->closing != NULL && *s->a->closing;
}

static void take_prepare(struct srv *s, const struct fr_prepare *p)
{
    struct fr_attempt *a = fr_table_find(&s->table, p->attempt), *rival;
    struct fr_rec rec = {.kind = FR_REC_PREPARED,
                         .attempt = p->attempt,
                         .epoch = s->epoch,
                         .run = p->run,
                         .instance = p->instance,
                         .spec_hash = p->spec_hash,
                         .generation = p->generation,
                         .boot = fr_str_of(s->home.boot)};
    uint64_t at = s->table.at;
    struct fr_err err;

    if (srv_run_find(s, p->run) == NULL) {
        fr_fail(&err, FR_PROTO, "a prepare of a run that has not joined");
        srv_refuse(s, p->attempt, &err);
        return;
    }
    if (a != NULL && (a->acked || status_of(s, a) != FR_AT_UNKNOWN)) {
        answer(s, p->attempt);
        return;
    }
    if (is_closing(s)) {
        fr_fail(&err, FR_STOPPED, "the job of Slurm ends: nothing starts in it any more");
        srv_refuse(s, p->attempt, &err);
        return;
    }
    while ((rival = fr_table_rival(&s->table, p)) != NULL && status_of(s, rival) == FR_AT_UNKNOWN) {
        /* prepared once, and its supervisor is gone: it shall not come back beside this one */
        struct fr_rec tombstone = {.kind = FR_REC_TOMBSTONE, .attempt = rival->id};
        if (srv_journal(s, &tombstone, &err) != FR_OK) {
            srv_refuse(s, p->attempt, &err);
            return;
        }
        srv_live_unlink(s, rival->id);
    }
    if (rival != NULL) {
        struct fr_msg m = {.type = FR_MSG_BUSY};
        m.busy =
            (struct fr_busy){p->attempt, rival->id, rival->generation, fr_str_of(rival->spec_hash)};
        srv_send(s, &m);
        return;
    }
    if (srv_journal(s, &rec, &err) != FR_OK) {
        srv_refuse(s, p->attempt, &err);
        return;
    }
    a = fr_table_find(&s->table, p->attempt);
    if (srv_superseded(s) || a == NULL || a->tombstoned) {
        fr_fail(&err, FR_STOPPED, "a newer connection came first");
        srv_fail(s, &err);
    } else if (a->launched) {
        answer(s, p->attempt); /* by a supervisor that was late */
    } else if (p->request.lease_ms > 0 && fr_sys.boot_ms() - s->before_ms >= p->request.lease_ms) {
        /* serve was held up: the sender may count the attempt as lost by now */
        fr_fail(&err, FR_STOPPED, "a start waited here for longer than its lease");
        srv_fail(s, &err);
    } else {
        srv_start(s, p, at);
    }
}

/* The attempt with its runtime state, when a supervisor of it may live. */
static struct srv_live *reachable(struct srv *s, struct fr_id id)
{
    struct fr_attempt *a = fr_table_find(&s->table, id);
    enum fr_attempt_status st = status_of(s, a);

    return st == FR_AT_PREPARED || st == FR_AT_RUNNING || st == FR_AT_SWEEPING ? srv_live_get(s, a)
                                                                               : NULL;
}

static void take_go(struct srv *s, const struct fr_msg *m)
{
    struct srv_live *l = reachable(s, m->go.attempt);

    if (l == NULL || l->a->launched) {
        answer(s, m->go.attempt);
        return;
    }
    l->report = true;
    l->waits = false;
    if (!is_closing(s))
        srv_live_put(s, l, m);
}

static void take_attach(struct srv *s, const struct fr_attach *m)
{
    struct fr_attempt *a = fr_table_find(&s->table, m->attempt);
    enum fr_attempt_status st = status_of(s, a);
    struct srv_live *l = a != NULL ? a->live : NULL;

    if (l == NULL || !l->starting || st != FR_AT_PREPARED) /* else prepared or launched follows */
        srv_send_state(s, m->attempt);
    if (st == FR_AT_UNKNOWN || st == FR_AT_TOMBSTONED || (l = srv_live_get(s, a)) == NULL)
        return;
    l->follow = true;
    l->offset = m->offset;
    l->tail = m->tail;
    l->tail_at = m->tail_at;
    l->tail_ended = false;
    l->metrics = m->metrics;
    l->metrics_at = m->metrics_at;
    l->more = l->metrics_more = !l->starting; /* else GREW sets them */
    if (st == FR_AT_ENDED) {
        srv_send_ended(s, a);
        return;
    }
    l->report = true;
    if (l->fd < 0 && !l->sweeping)
        l->due_ms = fr_sys.mono_ms();
}

static void write_tombstone(struct srv *s, struct fr_id id)
{
    struct fr_rec rec = {.kind = FR_REC_TOMBSTONE, .attempt = id};
    struct fr_msg stop = {.type = FR_MSG_STOP};
    struct fr_attempt *a = fr_table_find(&s->table, id);
    struct fr_err err;

    if ((a == NULL || (!a->launched && !a->ended && !a->tombstoned && !a->acked)) &&
        srv_journal(s, &rec, &err) != FR_OK) {
        srv_fail(s, &err);
        return;
    }
    a = fr_table_find(&s->table, id);
    if (!fr_home_alive(s->home.path, id))
        srv_live_unlink(s, id);
    if (a != NULL && a->tombstoned && a->live != NULL) {
        stop.stop.attempt = id; /* a supervisor that waits for go need not */
        srv_live_put(s, a->live, &stop);
    }
}

/* The journal has no record of the attempt, but its command may run: the home may have been removed
 * after the launch. If it has processes, the attempt counts as launched, and they are stopped as if
 * its supervisor had died. */
static bool stop_stray(struct srv *s, const struct fr_stop *stop)
{
    struct fr_rec rec = {.kind = FR_REC_LAUNCHED,
                         .attempt = stop->attempt,
                         .boot = fr_str_of(s->home.boot),
                         .launched_ms = fr_sys.mono_ms(),
                         .grace_ms = stop->grace_ms};
    struct fr_tree tree = {0};
    struct fr_procinfo *list;
    struct srv_live *l;
    struct fr_err err;
    size_t n;

    fr_id_text(stop->attempt, tree.marker);
    enum fr_rc rc = fr_tree_find(&tree, &list, &n, &err);
    fr_sys.free(list);
    if (rc == FR_OK && n == 0)
        return false;
    if (rc != FR_OK || srv_journal(s, &rec, &err) != FR_OK) {
        srv_fail(s, &err);
        return true;
    }
    if ((l = srv_live_get(s, fr_table_find(&s->table, stop->attempt))) != NULL) {
        l->report = true;
        srv_live_sweep(s, l, stop->grace_ms);
    }
    return true;
}

static void take_stop(struct srv *s, const struct fr_msg *m)
{
    struct fr_attempt *a = fr_table_find(&s->table, m->stop.attempt);
    enum fr_attempt_status st = status_of(s, a);
    struct fr_arena arena = {0};
    struct fr_ended e = {0};
    struct fr_err err;
    struct srv_live *l;

    if (a == NULL && stop_stray(s, &m->stop))
        return;
    if (st == FR_AT_UNKNOWN && (a == NULL || !a->acked)) {
        write_tombstone(s, m->stop.attempt);
        a = fr_table_find(&s->table, m->stop.attempt);
        st = status_of(s, a); /* its launch may have come first */
    }
    if (st == FR_AT_UNKNOWN || st == FR_AT_TOMBSTONED) {
        srv_send_state(s, m->stop.attempt);
        return;
    }
    if ((l = srv_live_get(s, a)) == NULL)
        return;
    l->report = true;
    if (st == FR_AT_SWEEPING) {
        srv_live_sweep(s, l, m->stop.grace_ms);
    } else if (l->queued != 0) {
        l->starting = false;
        write_tombstone(s, m->stop.attempt); /* the next step sends tombstoned */
    } else if (st == FR_AT_ENDED) {
        fr_ended_get((struct fr_str){a->end.p, a->end.n}, &arena, &e, &err);
        if (e.survivors.n > 0)
            srv_live_sweep(s, l, m->stop.grace_ms); /* tried again: perhaps they can go now */
        else
            l->due_ms = fr_sys.mono_ms(); /* the next step sends ended */
        fr_arena_finish(&arena);
    } else {
        l->stop_by_ms = fr_sys.mono_ms() + (int64_t)m->stop.grace_ms + SRV_STALLED_MS;
        srv_live_put(s, l, m);
    }
}

static void take_ack(struct srv *s, struct fr_id id)
{
    struct fr_attempt *a = fr_table_find(&s->table, id);
    struct fr_rec rec = {.kind = FR_REC_ACKED, .attempt = id};
    struct srv_live *l = a != NULL ? a->live : NULL;
    struct fr_err err;

    if (a == NULL || !(a->acked || a->ended || a->tombstoned))
        return;
    if (l != NULL && l->report && a->ended && !a->acked)
        srv_send_ended(s, a); /* a stop that came just before is answered, too */
    if (l != NULL)
        srv_live_drop(s, l);
    if (!a->acked && srv_journal(s, &rec, &err) != FR_OK) {
        srv_fail(s, &err);
        return;
    }
    /* also for a repeated ack: a serve that was killed here left some files */
    if (fr_id_eq(a->socket_id, id))
        srv_live_unlink(s, id);
    srv_keep_acked(s, id);
}

/* Passes the engine's renewal on to all supervisors of the run. */
static void take_lease(struct srv *s, const struct fr_lease *lease)
{
    struct fr_msg m = {.type = FR_MSG_LEASED, .leased = {lease->ref, fr_sys.boot_ms(), lease->run}};
    struct srv_run *run = srv_run_find(s, lease->run);

    if (run == NULL)
        return; /* it has left */
    run->leased_ms = m.leased.boot_ms;
    for (struct srv_live *l = s->lives; l != NULL; l = l->next)
        if (l->fd >= 0 && l->run == run)
            srv_live_put(s, l, &m);
    srv_send(s, &m);
}

void srv_attempt_message(struct srv *s, const struct fr_msg *m)
{
    struct fr_err err;

    switch (m->type) {
    case FR_MSG_PREPARE:
        take_prepare(s, &m->prepare);
        break;
    case FR_MSG_GO:
        take_go(s, m);
        break;
    case FR_MSG_ATTACH:
        take_attach(s, &m->attach);
        break;
    case FR_MSG_STOP:
        take_stop(s, m);
        break;
    case FR_MSG_QUERY:
        for (size_t i = 0; i < m->query.attempts.n; i++)
            answer(s, m->query.attempts.v[i]);
        break;
    case FR_MSG_TOMBSTONE:
        write_tombstone(s, m->tombstone.attempt);
        answer(s, m->tombstone.attempt);
        break;
    case FR_MSG_ACK_END:
        take_ack(s, m->ack_end.attempt);
        break;
    case FR_MSG_LEASE:
        take_lease(s, &m->lease);
        break;
    default:
        fr_fail(&err, FR_PROTO, "a %s message is not for a node", fr_msg_name(m->type));
        srv_end(s, &err);
    }
}

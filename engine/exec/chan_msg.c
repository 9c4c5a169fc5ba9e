#include "engine/exec/private.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/base/tail.h"

enum { OUT_ENOUGH = 64 << 10, TIME_BITS = 53 };

/* The run of an attempt that was not sent to this node, where it uses this one, too. */
static struct fr_use *elsewhere(const struct fr_chan *ch, struct fr_id attempt)
{
    for (const struct fr_chan *c = ch->ex->chans; c != NULL; c = c->next) {
        const struct fr_tracked *t = fr_tracked_find(c, attempt);

        for (struct fr_use *use = t != NULL ? ch->uses : NULL; use != NULL; use = use->next)
            if (use->run == t->use->run)
                return use;
    }
    return NULL;
}

static void post(struct fr_chan *ch, struct fr_exec_event *ev, enum fr_exec_kind kind,
                 struct fr_id attempt)
{
    const struct fr_tracked *t = fr_tracked_find(ch, attempt);
    struct fr_use *use = t != NULL ? t->use : elsewhere(ch, attempt);

    if (use == NULL) { /* acknowledged, or of a run that has left */
        fr_exec_event_free(ev);
        return;
    }
    ev->kind = kind;
    ev->attempt = attempt;
    fr_use_post(use, ev);
}

static void post_log_end(struct fr_chan *ch, struct fr_tracked *t)
{
    struct fr_exec_event *ev;

    if (!t->ended || t->have.log < t->all.log || t->have.metrics < t->all.metrics)
        return;
    ev = fr_chan_event(ch, FR_EXEC_LOG_END);
    if (ev == NULL) { /* the reconnection repeats ended, and with it this event */
        ch->failed = true;
        return;
    }
    fr_follow_end(ch, t);
    post(ch, ev, FR_EXEC_LOG_END, t->attempt);
}

static struct fr_tracked *followed(const struct fr_chan *ch, struct fr_id attempt)
{
    struct fr_tracked *t = fr_tracked_find(ch, attempt);

    return t != NULL && t->followed ? t : NULL;
}

enum fr_rc fr_chan_time(int64_t ms, struct fr_err *err)
{
    if (ms >= 0 && ms < (int64_t)1 << TIME_BITS)
        return FR_OK;
    return fr_fail(err, FR_PROTO, "a time of %lld ms", (long long)ms);
}

/* Posts each piece once and in order, also when the node repeats pieces after a reconnection. */
static enum fr_rc on_log(struct fr_chan *ch, const struct fr_log_piece *l, struct fr_exec_event *ev,
                         struct fr_err *err)
{
    struct fr_tracked *f = followed(ch, l->attempt);
    uint64_t skip;
    enum fr_rc rc = fr_chan_received_bulk(ch, l->bytes.n, err);

    if (rc == FR_OK)
        rc = fr_chan_time(l->mono_ms, err);
    if (rc != FR_OK) {
        fr_exec_event_free(ev);
        return rc;
    }
    if (f == NULL || l->offset + l->bytes.n <= f->have.log) {
        fr_exec_event_free(ev);
        return FR_OK;
    }
    if (l->offset > f->have.log) {
        uint64_t have = f->have.log;

        fr_exec_event_free(ev);
        return fr_fail(err, FR_PROTO, "log goes on at byte %llu, but only %llu came before",
                       (unsigned long long)l->offset, (unsigned long long)have);
    }
    skip = f->have.log - l->offset;
    ev->log = *l;
    ev->log.offset += skip;
    ev->log.bytes.p += skip;
    ev->log.bytes.n -= (size_t)skip;
    f->have.log += ev->log.bytes.n;
    post(ch, ev, FR_EXEC_LOG, l->attempt);
    post_log_end(ch, f);
    return FR_OK;
}

/* The same for a piece of the metrics. */
static enum fr_rc on_metrics(struct fr_chan *ch, const struct fr_metrics_piece *m,
                             struct fr_exec_event *ev, struct fr_err *err)
{
    struct fr_tracked *f = followed(ch, m->attempt);
    enum fr_rc rc = fr_chan_received_bulk(ch, m->bytes.n, err);
    uint64_t have = f != NULL ? f->have.metrics : 0;

    if (rc == FR_OK && f != NULL && m->offset > have)
        rc = fr_fail(err, FR_PROTO, "metrics go on at byte %llu, but only %llu came before",
                     (unsigned long long)m->offset, (unsigned long long)have);
    if (rc != FR_OK || f == NULL || m->offset + m->bytes.n <= have) {
        fr_exec_event_free(ev);
        return rc;
    }
    ev->metrics = (struct fr_metrics_piece){
        m->attempt, have, {m->bytes.p + (have - m->offset), m->bytes.n - (have - m->offset)}};
    f->have.metrics += ev->metrics.bytes.n;
    post(ch, ev, FR_EXEC_METRICS, m->attempt);
    post_log_end(ch, f);
    return FR_OK;
}

/* The same for a piece of the tail. Bytes that the node has dropped are missing. */
static enum fr_rc on_tail(struct fr_chan *ch, const struct fr_tail_piece *t,
                          struct fr_exec_event *ev, struct fr_err *err)
{
    struct fr_tracked *f = followed(ch, t->attempt);
    enum fr_rc rc = fr_chan_received_bulk(ch, t->bytes.n, err);

    if (rc == FR_OK)
        rc = fr_chan_time(t->mono_ms, err);
    if (rc == FR_OK && (t->at > (uint64_t)INT64_MAX || t->head > (uint64_t)INT64_MAX ||
                        t->keep > FR_TAIL_MAX || t->joined > (uint64_t)INT64_MAX))
        rc = fr_fail(err, FR_PROTO, "a tail of a log at byte %llu", (unsigned long long)t->at);
    if (rc != FR_OK || f == NULL || (t->at < f->tail && t->joined == 0)) {
        fr_exec_event_free(ev);
        return rc;
    }
    f->tail = t->at + t->bytes.n;
    ev->tail = *t;
    post(ch, ev, FR_EXEC_TAIL, t->attempt);
    return FR_OK;
}

static void on_ended(struct fr_chan *ch, const struct fr_ended *e, struct fr_exec_event *ev)
{
    struct fr_tracked *f = followed(ch, e->attempt);
    struct fr_exec_have all = {e->log_bytes, e->metrics_bytes};

    fr_pend_answered(ch, e->attempt, FR_MSG_ENDED);
    ev->ended = *e;
    post(ch, ev, FR_EXEC_ENDED, e->attempt);
    if (f == NULL)
        return;
    f->ended = true;
    f->all = all;
    post_log_end(ch, f);
}

static void on_prepared(struct fr_chan *ch, const struct fr_prepared *p, struct fr_exec_event *ev)
{
    if (p->rc == FR_OK && fr_pend_go_now(ch, p->attempt)) { /* launched is the answer */
        fr_exec_event_free(ev);
        return;
    }
    fr_pend_answered(ch, p->attempt, p->rc == FR_OK ? FR_MSG_PREPARED : FR_MSG_ENDED);
    ev->prepared = *p;
    post(ch, ev, FR_EXEC_PREPARED, p->attempt);
}

/* A start that is under way also shows as prepared. Posting it would make the scheduler start it
 * once more. */
static void on_state(struct fr_chan *ch, const struct fr_state *s, struct fr_exec_event *ev)
{
    fr_pend_state(ch, s);
    if (s->status == FR_AT_PREPARED && fr_pend_go_now(ch, s->attempt)) {
        fr_exec_event_free(ev);
        return;
    }
    ev->state = *s;
    post(ch, ev, FR_EXEC_STATE, s->attempt);
}

static enum fr_rc on_error(struct fr_chan *ch, const struct fr_msg *m, struct fr_exec_event *ev,
                           struct fr_err *err)
{
    const struct fr_error *e = &m->error;
    enum fr_rc rc = e->rc == 0 || e->rc > FR_BUG ? FR_PROTO : (enum fr_rc)e->rc;
    struct fr_use *use;

    if (e->ref == 0) {
        fr_fail(err, rc, "the node ends the connection: %.*s", (int)e->text.n, e->text.p);
        fr_exec_event_free(ev);
        return rc;
    }
    if (fr_xfer_message(ch, m)) { /* posts what follows from it */
        fr_exec_event_free(ev);
        return FR_OK;
    }
    if (!fr_pend_ref(ch, e->ref, &use, &ev->ref)) {
        if (!ch->unknown_ref_logged)
            fr_log(FR_LOG_WARN, "exec", "node=%s error for an unknown ref: %.*s", ch->node.name,
                   (int)e->text.n, e->text.p);
        ch->unknown_ref_logged = true;
        fr_exec_event_free(ev);
        return FR_OK;
    }
    ev->kind = FR_EXEC_FAILED;
    fr_fail(&ev->err, rc, "node %s: %.*s", ch->node.name, (int)e->text.n, e->text.p);
    fr_use_post(use, ev);
    return FR_OK;
}

static void on_answer(struct fr_chan *ch, uint64_t ref, enum fr_exec_kind kind,
                      struct fr_exec_event *ev)
{
    struct fr_use *use;

    if (!fr_pend_ref(ch, ref, &use, &ev->ref)) {
        fr_exec_event_free(ev); /* asked on an earlier connection, and answered there */
        return;
    }
    ev->kind = kind;
    fr_use_post(use, ev);
}

static void on_leased(struct fr_chan *ch, const struct fr_leased *l, struct fr_exec_event *ev)
{
    struct fr_use *use = ch->uses;

    while (use != NULL && !fr_id_eq(use->run->id, l->run))
        use = use->next;
    if (use == NULL) {
        fr_exec_event_free(ev);
        return;
    }
    ev->kind = FR_EXEC_LEASED;
    ev->leased = *l;
    fr_use_post(use, ev);
}

/* Takes messages about an attempt. False: m is about something else, and the caller keeps ev. */
static bool about_attempt(struct fr_chan *ch, const struct fr_msg *m, struct fr_exec_event *ev)
{
    switch (m->type) {
    case FR_MSG_PREPARED:
        on_prepared(ch, &m->prepared, ev);
        return true;
    case FR_MSG_BUSY:
        if (!fr_pend_answered(ch, m->busy.attempt, FR_MSG_BUSY)) {
            fr_exec_event_free(ev); /* once an answer, each further one would be another to stop */
            return true;
        }
        ev->busy = m->busy;
        post(ch, ev, FR_EXEC_BUSY, m->busy.attempt);
        return true;
    case FR_MSG_LAUNCHED:
        fr_pend_answered(ch, m->launched.attempt, FR_MSG_LAUNCHED);
        ev->launched = m->launched;
        post(ch, ev, FR_EXEC_LAUNCHED, m->launched.attempt);
        return true;
    case FR_MSG_ENDED:
        on_ended(ch, &m->ended, ev);
        return true;
    case FR_MSG_STATE:
        on_state(ch, &m->state, ev);
        return true;
    default:
        return false;
    }
}

static void take_sample(const struct fr_chan *ch, const struct fr_sample *sample)
{
    const struct fr_nodes_args *args = &ch->ex->args;
    struct fr_exec_sampled s = {ch->node.name, &ch->up, ch->offset_ms, ch->rtt_ms, sample};

    if (args->sample != NULL)
        args->sample(args->sample_arg, &s);
}

/* Credit, pings and transfers: the run does not see them. ev is not used. */
static enum fr_rc about_connection(struct fr_chan *ch, const struct fr_msg *m, struct fr_err *err)
{
    struct fr_msg pong = {.type = FR_MSG_PONG};
    enum fr_rc rc;

    switch (m->type) {
    case FR_MSG_PING:
        pong.pong = (struct fr_pong){m->ping.mono_ms, fr_sys.mono_ms(), fr_sys.wall_ms()};
        if (ch->out.n < OUT_ENOUGH) /* a node that does not read gets no further pongs */
            fr_chan_put(ch, &pong);
        return FR_OK;
    case FR_MSG_PONG:
        return fr_chan_pong(ch, &m->pong, err);
    case FR_MSG_CREDIT:
        if (m->credit.bytes > FR_CREDIT_MAX || ch->credit + m->credit.bytes > FR_CREDIT_MAX)
            return fr_fail(err, FR_PROTO, "more credit than %d bytes", FR_CREDIT_MAX);
        ch->credit += m->credit.bytes;
        fr_xfer_pump(ch);
        return FR_OK;
    case FR_MSG_SAMPLE:
        take_sample(ch, &m->sample);
        return FR_OK;
    case FR_MSG_GET_DATA:
        if ((rc = fr_chan_received_bulk(ch, m->get_data.bytes.n, err)) == FR_OK)
            fr_xfer_message(ch, m);
        return rc;
    case FR_MSG_GET_END:
    case FR_MSG_PUT_STATE:
        fr_xfer_message(ch, m); /* not ours: of a connection before */
        return FR_OK;
    default:
        return fr_fail(err, FR_PROTO, "a '%s' from a node", fr_msg_name(m->type));
    }
}

enum fr_rc fr_chan_message(struct fr_chan *ch, const struct fr_msg *m, struct fr_exec_event *ev,
                           struct fr_err *err)
{
    enum fr_rc rc;

    if (m->type == FR_MSG_HELLO)
        return fr_chan_hello(ch, &m->hello, ev, err);
    if (m->type == FR_MSG_ERROR)
        return on_error(ch, m, ev, err);
    if (ch->state != FR_CHAN_UP) {
        fr_exec_event_free(ev);
        return fr_fail(err, FR_PROTO, "a '%s' before hello", fr_msg_name(m->type));
    }
    if (about_attempt(ch, m, ev))
        return FR_OK;
    switch (m->type) {
    case FR_MSG_LOG:
        return on_log(ch, &m->log, ev, err);
    case FR_MSG_METRICS:
        return on_metrics(ch, &m->metrics, ev, err);
    case FR_MSG_TAIL:
        return on_tail(ch, &m->tail, ev, err);
    case FR_MSG_LISTING:
        ev->listing = m->listing;
        on_answer(ch, m->listing.ref, FR_EXEC_LISTING, ev);
        return FR_OK;
    case FR_MSG_FACTS_ARE:
        ev->facts = m->facts_are;
        on_answer(ch, m->facts_are.ref, FR_EXEC_FACTS, ev);
        return FR_OK;
    case FR_MSG_LEASED:
        on_leased(ch, &m->leased, ev);
        return FR_OK;
    default:
        rc = about_connection(ch, m, err);
        fr_exec_event_free(ev);
        return rc;
    }
}

#include "engine/exec/private.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/base/tail.h"

enum { OUT_ENOUGH = 64 << 10, TIME_BITS = 53 };

/* A message lies in the arena of *ev. Posting *ev sets it to NULL; then the message is gone, too.
 */

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

static void post_to(struct fr_use *use, struct fr_exec_event **ev, enum fr_exec_kind kind)
{
    struct fr_exec_event *posted = *ev;

    *ev = NULL;
    posted->kind = kind;
    fr_use_post(use, posted);
}

/* Posts nothing about an attempt that is acknowledged, or whose run has left. */
static void post(struct fr_chan *ch, struct fr_exec_event **ev, enum fr_exec_kind kind,
                 struct fr_id attempt)
{
    const struct fr_tracked *t = fr_tracked_find(ch, attempt);
    struct fr_use *use = t != NULL ? t->use : elsewhere(ch, attempt);

    (*ev)->attempt = attempt;
    if (use != NULL)
        post_to(use, ev, kind);
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
    post(ch, &ev, FR_EXEC_LOG_END, t->attempt);
    fr_exec_event_free(ev);
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

/* ---- log, metrics, tail ---- */

/* Cuts a piece to the bytes after the first `have`. */
static void skip_known(uint64_t *offset, struct fr_str *bytes, uint64_t have)
{
    bytes->p += have - *offset;
    bytes->n -= (size_t)(have - *offset);
    *offset = have;
}

/* Posts each piece once and in order, also when the node repeats pieces after a reconnection. */
static enum fr_rc on_log(struct fr_chan *ch, const struct fr_log_piece *l,
                         struct fr_exec_event **ev, struct fr_err *err)
{
    struct fr_tracked *f = followed(ch, l->attempt);
    uint64_t have = f != NULL ? f->have.log : 0;
    enum fr_rc rc = fr_chan_received_bulk(ch, l->bytes.n, err);

    if (rc == FR_OK)
        rc = fr_chan_time(l->mono_ms, err);
    if (rc == FR_OK && f != NULL && l->offset > have)
        rc = fr_fail(err, FR_PROTO, "log goes on at byte %llu, but only %llu came before",
                     (unsigned long long)l->offset, (unsigned long long)have);
    if (rc != FR_OK || f == NULL || l->offset + l->bytes.n <= have)
        return rc;
    f->have.log = l->offset + l->bytes.n;
    (*ev)->log = *l;
    skip_known(&(*ev)->log.offset, &(*ev)->log.bytes, have);
    post(ch, ev, FR_EXEC_LOG, l->attempt);
    post_log_end(ch, f);
    return FR_OK;
}

static enum fr_rc on_metrics(struct fr_chan *ch, const struct fr_metrics_piece *p,
                             struct fr_exec_event **ev, struct fr_err *err)
{
    struct fr_tracked *f = followed(ch, p->attempt);
    uint64_t have = f != NULL ? f->have.metrics : 0;
    enum fr_rc rc = fr_chan_received_bulk(ch, p->bytes.n, err);

    if (rc == FR_OK && f != NULL && p->offset > have)
        rc = fr_fail(err, FR_PROTO, "metrics go on at byte %llu, but only %llu came before",
                     (unsigned long long)p->offset, (unsigned long long)have);
    if (rc != FR_OK || f == NULL || p->offset + p->bytes.n <= have)
        return rc;
    f->have.metrics = p->offset + p->bytes.n;
    (*ev)->metrics = *p;
    skip_known(&(*ev)->metrics.offset, &(*ev)->metrics.bytes, have);
    post(ch, ev, FR_EXEC_METRICS, p->attempt);
    post_log_end(ch, f);
    return FR_OK;
}

/* Bytes that the node has dropped are missing. */
static enum fr_rc on_tail(struct fr_chan *ch, const struct fr_tail_piece *t,
                          struct fr_exec_event **ev, struct fr_err *err)
{
    struct fr_tracked *f = followed(ch, t->attempt);
    enum fr_rc rc = fr_chan_received_bulk(ch, t->bytes.n, err);

    if (rc == FR_OK)
        rc = fr_chan_time(t->mono_ms, err);
    if (rc == FR_OK && (t->at > (uint64_t)INT64_MAX || t->head > (uint64_t)INT64_MAX ||
                        t->keep > FR_TAIL_MAX || t->joined > (uint64_t)INT64_MAX))
        rc = fr_fail(err, FR_PROTO, "a tail of a log at byte %llu", (unsigned long long)t->at);
    if (rc != FR_OK || f == NULL || (t->at < f->tail && t->joined == 0))
        return rc;
    f->tail = t->at + t->bytes.n;
    (*ev)->tail = *t;
    post(ch, ev, FR_EXEC_TAIL, t->attempt);
    return FR_OK;
}

/* ---- attempts ---- */

static void on_prepared(struct fr_chan *ch, const struct fr_prepared *p, struct fr_exec_event **ev)
{
    if (p->rc == FR_OK && fr_pend_go_now(ch, p->attempt))
        return; /* launched is the answer */
    fr_pend_answered(ch, p->attempt, p->rc == FR_OK ? FR_MSG_PREPARED : FR_MSG_ENDED);
    (*ev)->prepared = *p;
    post(ch, ev, FR_EXEC_PREPARED, p->attempt);
}

static void on_busy(struct fr_chan *ch, const struct fr_busy *b, struct fr_exec_event **ev)
{
    if (!fr_pend_answered(ch, b->attempt, FR_MSG_BUSY))
        return; /* once an answer, each further one would be another to stop */
    (*ev)->busy = *b;
    post(ch, ev, FR_EXEC_BUSY, b->attempt);
}

static void on_launched(struct fr_chan *ch, const struct fr_launched *l, struct fr_exec_event **ev)
{
    fr_pend_answered(ch, l->attempt, FR_MSG_LAUNCHED);
    (*ev)->launched = *l;
    post(ch, ev, FR_EXEC_LAUNCHED, l->attempt);
}

static void on_ended(struct fr_chan *ch, const struct fr_ended *e, struct fr_exec_event **ev)
{
    struct fr_tracked *f = followed(ch, e->attempt);
    struct fr_exec_have all = {e->log_bytes, e->metrics_bytes};

    fr_pend_answered(ch, e->attempt, FR_MSG_ENDED);
    (*ev)->ended = *e;
    post(ch, ev, FR_EXEC_ENDED, e->attempt);
    if (f == NULL)
        return;
    f->ended = true;
    f->all = all;
    post_log_end(ch, f);
}

/* A start that is under way also shows as prepared. Posting it would make the scheduler start it
 * once more. */
static void on_state(struct fr_chan *ch, const struct fr_state *s, struct fr_exec_event **ev)
{
    fr_pend_state(ch, s);
    if (s->status == FR_AT_PREPARED && fr_pend_go_now(ch, s->attempt))
        return;
    (*ev)->state = *s;
    post(ch, ev, FR_EXEC_STATE, s->attempt);
}

/* ---- requests ---- */

static enum fr_rc on_error(struct fr_chan *ch, const struct fr_msg *m, struct fr_exec_event **ev,
                           struct fr_err *err)
{
    const struct fr_error *e = &m->error;
    enum fr_rc rc = e->rc == 0 || e->rc > FR_BUG ? FR_PROTO : (enum fr_rc)e->rc;
    struct fr_use *use;

    if (e->ref == 0)
        return fr_fail(err, rc, "the node ends the connection: %.*s", (int)e->text.n, e->text.p);
    if (fr_xfer_message(ch, m)) /* it posts the event */
        return FR_OK;
    if (fr_pend_ref(ch, e->ref, &use, &(*ev)->ref)) {
        fr_fail(&(*ev)->err, rc, "node %s: %.*s", ch->node.name, (int)e->text.n, e->text.p);
        post_to(use, ev, FR_EXEC_FAILED);
        return FR_OK;
    }
    if (!ch->unknown_ref_logged)
        fr_log(FR_LOG_WARN, "exec", "node=%s error for an unknown ref: %.*s", ch->node.name,
               (int)e->text.n, e->text.p);
    ch->unknown_ref_logged = true;
    return FR_OK;
}

static void on_facts(struct fr_chan *ch, const struct fr_facts_are *f, struct fr_exec_event **ev)
{
    struct fr_use *use;

    (*ev)->facts = *f;
    if (fr_pend_ref(ch, f->ref, &use, &(*ev)->ref)) /* else an earlier connection answered */
        post_to(use, ev, FR_EXEC_FACTS);
}

static void on_leased(struct fr_chan *ch, const struct fr_leased *l, struct fr_exec_event **ev)
{
    struct fr_use *use = ch->uses;

    while (use != NULL && !fr_id_eq(use->run->id, l->run))
        use = use->next;
    (*ev)->leased = *l;
    if (use != NULL)
        post_to(use, ev, FR_EXEC_LEASED);
}

/* ---- the connection ---- */

static void on_ping(struct fr_chan *ch, const struct fr_ping *p)
{
    struct fr_msg pong = {.type = FR_MSG_PONG,
                          .pong = {p->mono_ms, fr_sys.mono_ms(), fr_sys.wall_ms()}};

    if (ch->out.n < OUT_ENOUGH) /* a node that does not read gets no further pongs */
        fr_chan_put(ch, &pong);
}

static enum fr_rc on_credit(struct fr_chan *ch, uint64_t bytes, struct fr_err *err)
{
    if (bytes > FR_CREDIT_MAX || ch->credit + bytes > FR_CREDIT_MAX)
        return fr_fail(err, FR_PROTO, "more credit than %d bytes", FR_CREDIT_MAX);
    ch->credit += bytes;
    fr_xfer_pump(ch);
    fr_pipe_room(ch);
    return FR_OK;
}

static void on_sample(const struct fr_chan *ch, const struct fr_sample *sample)
{
    const struct fr_nodes_args *args = &ch->ex->args;
    struct fr_exec_sampled s = {ch->node.name, &ch->up, ch->offset_ms, ch->rtt_ms, sample};

    if (args->sample != NULL)
        args->sample(args->sample_arg, &s);
}

/* Messages of a node that is up. */
static enum fr_rc take(struct fr_chan *ch, const struct fr_msg *m, struct fr_exec_event **ev,
                       struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    switch (m->type) {
    case FR_MSG_PREPARED:
        on_prepared(ch, &m->prepared, ev);
        break;
    case FR_MSG_BUSY:
        on_busy(ch, &m->busy, ev);
        break;
    case FR_MSG_LAUNCHED:
        on_launched(ch, &m->launched, ev);
        break;
    case FR_MSG_ENDED:
        on_ended(ch, &m->ended, ev);
        break;
    case FR_MSG_STATE:
        on_state(ch, &m->state, ev);
        break;
    case FR_MSG_LOG:
        return on_log(ch, &m->log, ev, err);
    case FR_MSG_METRICS:
        return on_metrics(ch, &m->metrics, ev, err);
    case FR_MSG_TAIL:
        return on_tail(ch, &m->tail, ev, err);
    case FR_MSG_FACTS_ARE:
        on_facts(ch, &m->facts_are, ev);
        break;
    case FR_MSG_LEASED:
        on_leased(ch, &m->leased, ev);
        break;
    case FR_MSG_PING:
        on_ping(ch, &m->ping);
        break;
    case FR_MSG_PONG:
        return fr_chan_pong(ch, &m->pong, err);
    case FR_MSG_CREDIT:
        return on_credit(ch, m->credit.bytes, err);
    case FR_MSG_SAMPLE:
        on_sample(ch, &m->sample);
        break;
    case FR_MSG_PIPE_DATA:
    case FR_MSG_PIPE_MORE:
    case FR_MSG_PIPE_END:
        return fr_pipe_message(ch, m, err);
    case FR_MSG_GET_DATA:
        rc = fr_chan_received_bulk(ch, m->get_data.bytes.n, err); /* fall through */
    case FR_MSG_GET_END:
    case FR_MSG_PUT_STATE:
        if (rc == FR_OK) /* one that is not known is of an earlier connection */
            fr_xfer_message(ch, m);
        break;
    default:
        rc = fr_fail(err, FR_PROTO, "a '%s' from a node", fr_msg_name(m->type));
    }
    return rc;
}

enum fr_rc fr_chan_message(struct fr_chan *ch, const struct fr_msg *m, struct fr_exec_event *ev,
                           struct fr_err *err)
{
    enum fr_rc rc;

    if (m->type == FR_MSG_HELLO)
        rc = fr_chan_hello(ch, &m->hello, err);
    else if (m->type == FR_MSG_ERROR)
        rc = on_error(ch, m, &ev, err);
    else if (ch->state != FR_CHAN_UP)
        rc = fr_fail(err, FR_PROTO, "a '%s' before hello", fr_msg_name(m->type));
    else
        rc = take(ch, m, &ev, err);
    fr_exec_event_free(ev);
    return rc;
}

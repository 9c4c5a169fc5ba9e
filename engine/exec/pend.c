#include "engine/exec/private.h"

#include "engine/base/sys.h"

#include <string.h>

/* Secrets may have been in it. */
static void wipe(struct fr_pend *p)
{
    if (p->bytes.p != NULL)
        explicit_bzero(p->bytes.p, p->bytes.n);
}

static void take_off(struct fr_pends *list, struct fr_pend **at)
{
    struct fr_pend *p = *at;

    *at = p->next;
    if (list->last == &p->next)
        list->last = at;
    wipe(p);
    fr_buf_finish(&p->bytes);
    fr_sys.free(p);
}

/* A command replaces an earlier one of its kind: a second stop may have a shorter grace. A stop or
 * tombstone also removes a start that waits, so that the next connection does not start the attempt
 * first. */
static bool replaces(enum fr_msg_type type, enum fr_msg_type older)
{
    return type == older || ((type == FR_MSG_STOP || type == FR_MSG_TOMBSTONE) &&
                             (older == FR_MSG_PREPARE || older == FR_MSG_GO));
}

static void forget_older(struct fr_chan *ch, enum fr_msg_type type, struct fr_id attempt)
{
    for (struct fr_pend **at = &ch->asked.first; *at != NULL;) {
        struct fr_pend *p = *at;

        if (replaces(type, p->type) && !fr_id_zero(attempt) && fr_id_eq(p->attempt, attempt))
            take_off(&ch->asked, at);
        else
            at = &p->next;
    }
}

/* A prepare or go is not repeated after the node was rebooted or lost its home: the node may have
 * forgotten that it started the attempt. A query asks for its state in its place. */
static void ask_instead(struct fr_chan *ch, struct fr_pend *p)
{
    struct fr_msg m = {.type = FR_MSG_QUERY, .query = {{&p->attempt, 1}}};
    struct fr_err err;

    wipe(p);
    fr_buf_finish(&p->bytes);
    p->bytes = (struct fr_buf){0};
    p->type = FR_MSG_QUERY;
    p->go_now = false;
    if (fr_msg_put(&m, &p->bytes, &err) != FR_OK)
        ch->failed = true;
}

static void send_one(struct fr_chan *ch, struct fr_pend *p)
{
    if (!p->sent)
        p->machine = ch->machine;
    else if (p->machine != ch->machine && (p->type == FR_MSG_PREPARE || p->type == FR_MSG_GO))
        ask_instead(ch, p);
    fr_buf_add(&ch->out, p->bytes.p, p->bytes.n);
    p->sent = true;
    p->sent_ms = fr_sys.mono_ms();
    ch->failed = ch->failed || ch->out.bad;
    fr_chan_queued(ch);
}

enum fr_rc fr_pend_add(struct fr_use *use, const struct fr_msg *m, struct fr_id attempt,
                       uint64_t ref, struct fr_err *err)
{
    struct fr_chan *ch = use->ch;
    bool ack = m->type == FR_MSG_ACK_END;
    struct fr_pends *list = ack ? &ch->acks : &ch->asked;
    struct fr_pend *p = fr_sys.alloc(sizeof(*p));
    struct fr_msg out = *m;
    enum fr_rc rc;

    if (p == NULL || (!ack && !fr_id_zero(attempt) && fr_track(use, attempt) == NULL)) {
        fr_sys.free(p);
        return fr_fail(err, FR_NOMEM, "no memory for a command to node %s", ch->node.name);
    }
    *p = (struct fr_pend){.use = use, .type = m->type, .attempt = attempt, .asked = ref};
    p->go_now = m->type == FR_MSG_PREPARE && m->prepare.go_now;
    if (ref != 0)
        p->ref = ++ch->last_ref;
    if (m->type == FR_MSG_FACTS)
        out.facts.ref = p->ref;
    if ((rc = fr_msg_put(&out, &p->bytes, err)) != FR_OK) {
        wipe(p);
        fr_buf_finish(&p->bytes);
        fr_sys.free(p);
        return rc;
    }
    if (list == &ch->asked)
        forget_older(ch, m->type, attempt);
    fr_use_begin(use);
    *list->last = p;
    list->last = &p->next;
    if (ch->state == FR_CHAN_UP) {
        send_one(ch, p);
        fr_loop_post(ch->ex->loop, &ch->flush);
    }
    return FR_OK;
}

void fr_pend_send(struct fr_chan *ch)
{
    for (struct fr_pend *p = ch->asked.first; p != NULL; p = p->next)
        send_one(ch, p);
    for (struct fr_pend *p = ch->acks.first; p != NULL; p = p->next)
        send_one(ch, p);
    fr_follow_send(ch);
    fr_loop_post(ch->ex->loop, &ch->flush);
}

static bool settles(const struct fr_pend *p, enum fr_msg_type by)
{
    switch (p->type) {
    case FR_MSG_PREPARE:
        return by == FR_MSG_BUSY || by == FR_MSG_ENDED || by == FR_MSG_LAUNCHED ||
               (by == FR_MSG_PREPARED && !p->go_now);
    case FR_MSG_GO:
        return by == FR_MSG_LAUNCHED || by == FR_MSG_ENDED;
    case FR_MSG_STOP:
        return by == FR_MSG_ENDED;
    default:
        return false;
    }
}

bool fr_pend_answered(struct fr_chan *ch, struct fr_id attempt, enum fr_msg_type by)
{
    bool waited = false;

    for (struct fr_pend **at = &ch->asked.first; *at != NULL;) {
        struct fr_pend *p = *at;

        if (fr_id_eq(p->attempt, attempt) && settles(p, by)) {
            take_off(&ch->asked, at);
            waited = true;
        } else {
            at = &p->next;
        }
    }
    return waited;
}

/* A state answers the oldest query about the attempt. Without a query it shows the progress of
 * prepare, go or stop. */
static bool state_settles(const struct fr_pend *p, uint32_t status)
{
    bool never = status == FR_AT_UNKNOWN || status == FR_AT_TOMBSTONED;

    switch (p->type) {
    case FR_MSG_PREPARE:
        return status != FR_AT_UNKNOWN && !(p->go_now && status == FR_AT_PREPARED);
    case FR_MSG_GO:
        return status != FR_AT_PREPARED;
    case FR_MSG_STOP:
        return never;
    default:
        return false;
    }
}

void fr_pend_state(struct fr_chan *ch, const struct fr_state *s)
{
    for (struct fr_pend **at = &ch->asked.first; *at != NULL; at = &(*at)->next) {
        struct fr_pend *p = *at;

        if (!fr_id_eq(p->attempt, s->attempt) || !p->sent)
            continue;
        if (p->type == FR_MSG_QUERY || p->type == FR_MSG_TOMBSTONE) {
            take_off(&ch->asked, at);
            return;
        }
    }
    for (struct fr_pend **at = &ch->asked.first; *at != NULL;) {
        struct fr_pend *p = *at;

        if (fr_id_eq(p->attempt, s->attempt) && p->sent && state_settles(p, s->status))
            take_off(&ch->asked, at);
        else
            at = &p->next;
    }
    if (s->status == FR_AT_UNKNOWN || s->status == FR_AT_TOMBSTONED)
        fr_follow_end(ch, fr_tracked_find(ch, s->attempt));
}

bool fr_pend_go_now(const struct fr_chan *ch, struct fr_id attempt)
{
    for (const struct fr_pend *p = ch->asked.first; p != NULL; p = p->next)
        if (p->type == FR_MSG_PREPARE && p->go_now && fr_id_eq(p->attempt, attempt))
            return true;
    return false;
}

bool fr_pend_ref(struct fr_chan *ch, uint64_t ref, struct fr_use **use, uint64_t *asked)
{
    for (struct fr_pend **at = &ch->asked.first; *at != NULL; at = &(*at)->next)
        if (ref != 0 && (*at)->ref == ref) {
            *use = (*at)->use;
            *asked = (*at)->asked;
            take_off(&ch->asked, at);
            return true;
        }
    return false;
}

/* Acknowledgements are sent in order, so the oldest are first. */
void fr_pend_ponged(struct fr_chan *ch, int64_t ping_ms)
{
    while (ch->acks.first != NULL && ch->acks.first->sent && ch->acks.first->sent_ms < ping_ms)
        take_off(&ch->acks, &ch->acks.first);
}

static void drop_of(struct fr_pends *list, const struct fr_use *use)
{
    for (struct fr_pend **at = &list->first; *at != NULL;)
        if ((*at)->use == use)
            take_off(list, at);
        else
            at = &(*at)->next;
}

void fr_pend_leave(struct fr_use *use)
{
    drop_of(&use->ch->asked, use);
    for (struct fr_pend *p = use->ch->acks.first; p != NULL; p = p->next)
        p->use = p->use == use ? NULL : p->use;
}

void fr_pend_finish(struct fr_chan *ch)
{
    drop_of(&ch->asked, NULL);
    drop_of(&ch->acks, NULL);
}

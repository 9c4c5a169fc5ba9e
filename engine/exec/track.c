/* The run of each attempt, and how far its log has come. */
#include "engine/exec/private.h"

#include "engine/base/sys.h"

static size_t bucket(struct fr_id attempt)
{
    return fr_id_key(attempt) % FR_CHAN_BUCKETS;
}

struct fr_tracked *fr_tracked_find(const struct fr_chan *ch, struct fr_id attempt)
{
    struct fr_tracked *t = ch->tracked[bucket(attempt)];

    while (t != NULL && !fr_id_eq(t->attempt, attempt))
        t = t->next;
    return t;
}

struct fr_tracked *fr_track(struct fr_use *use, struct fr_id attempt)
{
    struct fr_tracked *t = fr_tracked_find(use->ch, attempt);
    struct fr_tracked **at = &use->ch->tracked[bucket(attempt)];

    if (t == NULL && (t = fr_sys.alloc(sizeof(*t))) != NULL) {
        *t = (struct fr_tracked){.next = *at, .attempt = attempt};
        *at = t;
    }
    if (t != NULL)
        t->use = use;
    return t;
}

static void take_off(struct fr_chan *ch, struct fr_tracked **at)
{
    struct fr_tracked *t = *at;

    fr_follow_end(ch, t);
    *at = t->next;
    fr_sys.free(t);
}

void fr_untrack(struct fr_chan *ch, struct fr_id attempt)
{
    for (struct fr_tracked **at = &ch->tracked[bucket(attempt)]; *at != NULL; at = &(*at)->next)
        if (fr_id_eq((*at)->attempt, attempt)) {
            take_off(ch, at);
            return;
        }
}

void fr_track_leave(struct fr_use *use)
{
    for (size_t i = 0; i < FR_CHAN_BUCKETS; i++)
        for (struct fr_tracked **at = &use->ch->tracked[i]; *at != NULL;)
            if ((*at)->use == use)
                take_off(use->ch, at);
            else
                at = &(*at)->next;
}

static void send_attach(struct fr_chan *ch, const struct fr_tracked *t)
{
    struct fr_msg m = {.type = FR_MSG_ATTACH,
                       .attach = {.attempt = t->attempt,
                                  .offset = t->have.log,
                                  .tail = true,
                                  .tail_at = t->tail,
                                  .metrics = true,
                                  .metrics_at = t->have.metrics}};

    fr_chan_put(ch, &m);
}

enum fr_rc fr_follow_add(struct fr_use *use, struct fr_id attempt, struct fr_exec_have have,
                         struct fr_err *err)
{
    struct fr_chan *ch = use->ch;
    struct fr_tracked *t = fr_track(use, attempt);

    if (t == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a log of node %s", ch->node.name);
    if (!t->followed) {
        ch->n_followed++;
        t->tail = 0;
    }
    t->followed = true;
    t->have = have;
    t->ended = false;
    fr_use_begin(use);
    if (ch->state == FR_CHAN_UP) {
        send_attach(ch, t);
        fr_loop_post(ch->ex->loop, &ch->flush);
    }
    return FR_OK;
}

void fr_follow_end(struct fr_chan *ch, struct fr_tracked *t)
{
    if (t == NULL || !t->followed)
        return;
    t->followed = false;
    ch->n_followed--;
}

void fr_follow_send(struct fr_chan *ch)
{
    for (size_t i = 0; i < FR_CHAN_BUCKETS; i++)
        for (const struct fr_tracked *t = ch->tracked[i]; t != NULL; t = t->next)
            if (t->followed)
                send_attach(ch, t);
}

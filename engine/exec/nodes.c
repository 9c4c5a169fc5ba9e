/* All channels of a process, and the runs that use them. */
#include "engine/exec/private.h"

#include "engine/base/sys.h"

#include <assert.h>
#include <string.h>

/* ---- events of a run ---- */

void fr_use_post(struct fr_use *use, struct fr_exec_event *ev)
{
    ev->node = use->index;
    use->run->sink.post(use->run->sink.arg, ev);
}

enum fr_rc fr_use_up(struct fr_use *use, struct fr_err *err)
{
    struct fr_chan *ch = use->ch;
    struct fr_exec_event *ev = fr_chan_event(ch, FR_EXEC_UP);
    const struct fr_exec_up *up = &ch->up;

    if (ev != NULL) {
        ev->up = *up;
        ev->up.offset_ms = ch->offset_ms;
        ev->up.rtt_ms = ch->rtt_ms;
        ev->up.boot.p = fr_arena_text(&ev->arena, up->boot.p, up->boot.n);
        ev->up.build.p = fr_arena_text(&ev->arena, up->build.p, up->build.n);
    }
    if (ev == NULL || ev->up.boot.p == NULL || ev->up.build.p == NULL) {
        fr_exec_event_free(ev);
        return fr_fail(err, FR_NOMEM, "no memory to say that node %s is up", ch->node.name);
    }
    fr_use_post(use, ev);
    return FR_OK;
}

void fr_use_down(struct fr_use *use, const struct fr_err *err, int64_t pause, bool silent)
{
    struct fr_chan *ch = use->ch;
    int64_t since = ch->away_ms > use->since_ms ? ch->away_ms : use->since_ms;
    int64_t retry_for = ch->node.retry_for_ms;
    struct fr_exec_event *ev = fr_chan_event(ch, FR_EXEC_DOWN);

    if (ev == NULL)
        return; /* no memory for the event; the pause goes on */
    ev->down = (struct fr_exec_down){.retry_ms = pause,
                                     .since_ms = since,
                                     .until_ms = retry_for == 0 ? -1 : since + retry_for,
                                     .silent = silent};
    ev->err = *err;
    fr_while(&ev->err, "node %s", ch->node.name);
    fr_use_post(use, ev);
}

void fr_chan_tell(struct fr_chan *ch, enum fr_exec_kind kind, const char *text)
{
    for (struct fr_use *use = ch->uses; use != NULL; use = use->next) {
        struct fr_exec_event *ev = use->since_ms >= 0 ? fr_chan_event(ch, kind) : NULL;

        if (ev == NULL)
            continue; /* without memory a note less */
        ev->text = fr_str_of(fr_arena_dup(&ev->arena, text));
        fr_use_post(use, ev);
    }
}

void fr_use_begin(struct fr_use *use)
{
    struct fr_chan *ch = use->ch;

    if (use->since_ms >= 0) {
        fr_chan_needed(ch);
        return;
    }
    use->since_ms = fr_sys.mono_ms();
    if (ch->state != FR_CHAN_UP) {
        fr_chan_connect(ch);
        return;
    }
    use->up_due = true;
    fr_use_join(use);
    fr_loop_post(ch->ex->loop, &ch->ex->kick);
    fr_loop_post(ch->ex->loop, &ch->flush);
}

void fr_use_join(struct fr_use *use)
{
    if (use->ch->node.login)
        return; /* it has no attempts */
    fr_chan_put(use->ch, &(struct fr_msg){.type = FR_MSG_JOIN, .join = {use->run->id}});
}

static void post_ups(struct fr_chan *ch)
{
    for (struct fr_use *use = ch->uses; use != NULL; use = use->next) {
        if (!use->up_due)
            continue;
        use->up_due = false;
        if (fr_use_up(use, NULL) != FR_OK)
            fr_chan_try_again(ch);
    }
}

/* Starts as many of the queued connects as may run, in the order of the nodes. */
static void on_kick(void *arg)
{
    struct fr_nodes *ex = arg;

    for (struct fr_chan *ch = ex->chans; ch != NULL; ch = ch->next) {
        post_ups(ch);
        if (ch->state == FR_CHAN_QUEUED && ex->connecting < FR_EXEC_CONNECTS)
            fr_chan_start(ch);
    }
}

/* ---- which channel ---- */

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool same_node(const struct fr_exec_node *a, const struct fr_exec_node *b)
{
    const struct fr_ssh_target *s = &a->ssh, *t = &b->ssh;

    return same_text(a->name, b->name) && a->transport == b->transport &&
           fr_id_eq(a->run, b->run) && a->login == b->login && same_text(s->host, t->host) &&
           same_text(s->user, t->user) && s->port == t->port && same_text(s->key, t->key) &&
           same_text(s->config, t->config) && same_text(s->known_hosts, t->known_hosts) &&
           s->connect_ms == t->connect_ms && same_text(a->work, b->work) &&
           a->keep_days == b->keep_days && a->keep_bytes == b->keep_bytes &&
           a->connect_ms == b->connect_ms && a->retry_for_ms == b->retry_for_ms;
}

/* All text of the node: the channel outlives the run that made it. */
static bool own_texts(struct fr_chan *ch)
{
    struct fr_ssh_target *t = &ch->node.ssh;
    const char **texts[] = {&ch->node.name, &ch->node.work, &t->host,       &t->user,
                            &t->key,        &t->config,     &t->known_hosts};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (*texts[i] != NULL && (*texts[i] = fr_arena_dup(&ch->arena, *texts[i])) == NULL)
            return false;
    return true;
}

static enum fr_rc use_chan(struct fr_nodes *ex, struct fr_use *use, const struct fr_exec_node *node,
                           struct fr_err *err)
{
    struct fr_chan **at = &ex->chans, *ch;

    while (*at != NULL && !same_node(&(*at)->node, node))
        at = &(*at)->next;
    if ((ch = *at) == NULL) {
        if ((ch = fr_sys.alloc(sizeof(*ch))) == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for node %s", node->name);
        enum fr_rc rc = fr_chan_init(ch, ex, node, err);

        if (rc == FR_OK && !own_texts(ch))
            rc = fr_fail(err, FR_NOMEM, "no memory for node %s", node->name);
        if (rc != FR_OK) {
            fr_chan_finish(ch);
            fr_sys.free(ch);
            return rc;
        }
        *at = ch;
    }
    use->ch = ch;
    use->next = ch->uses;
    use->at = &ch->uses;
    if (use->next != NULL)
        use->next->at = &use->next;
    ch->uses = use;
    return FR_OK;
}

static void drop_chan(struct fr_chan *ch)
{
    struct fr_chan **at = &ch->ex->chans;

    while (*at != ch)
        at = &(*at)->next;
    *at = ch->next;
    fr_chan_finish(ch);
    fr_sys.free(ch);
}

/* Drops channels without runs that are down, or were unused for linger_ms. */
static void on_linger(void *arg)
{
    struct fr_nodes *ex = arg;
    int64_t now = fr_sys.mono_ms(), due = -1;

    for (struct fr_chan *ch = ex->chans, *next; ch != NULL; ch = next) {
        int64_t end = ch->left_ms + ex->args.linger_ms;

        next = ch->next;
        if (ch->uses != NULL)
            continue;
        if (ch->state != FR_CHAN_UP || end <= now)
            drop_chan(ch);
        else if (due < 0 || end < due)
            due = end;
    }
    fr_loop_arm(ex->loop, ex->linger, due);
}

void fr_nodes_unused(struct fr_nodes *ex)
{
    fr_loop_arm_in(ex->loop, ex->linger, 0);
}

static void leave(struct fr_use *use)
{
    struct fr_chan *ch = use->ch;
    struct fr_msg m = {.type = FR_MSG_LEAVE, .leave = {use->run->id}};

    if (ch->state == FR_CHAN_UP) {
        if (use->since_ms >= 0 && !ch->node.login)
            fr_chan_put(ch, &m);
        fr_chan_flush(ch); /* the last acknowledgements, too */
    }
    fr_pend_leave(use);
    fr_track_leave(use);
    fr_xfer_leave(use);
    *use->at = use->next;
    if (use->next != NULL)
        use->next->at = use->at;
    if (ch->uses != NULL)
        return;
    ch->left_ms = fr_sys.mono_ms();
    if (ch->state != FR_CHAN_UP || ch->ex->args.linger_ms == 0)
        drop_chan(ch);
    else
        fr_nodes_unused(ch->ex);
}

/* ---- places ---- */

void fr_nodes_places(struct fr_nodes *ex, fr_place_fn *find, void *arg)
{
    ex->find_place = find;
    ex->find_arg = arg;
    fr_nodes_moved(ex);
}

void fr_nodes_moved(struct fr_nodes *ex)
{
    for (struct fr_chan *ch = ex->chans; ch != NULL; ch = ch->next) {
        if (ch->nowhere)
            fr_chan_connect(ch);
        else if (ch->node.transport == FR_TRANSPORT_PLACE && ch->state == FR_CHAN_UP)
            fr_chan_leave_place(ch);
    }
}

const char *fr_nodes_program_dir(const struct fr_nodes *ex)
{
    return ex->args.flownode_dir;
}

/* ---- runs join and leave ---- */

void fr_joined_leave(void *self)
{
    struct fr_joined *run = self;

    for (size_t i = 0; i < run->n; i++)
        leave(&run->uses[i]);
    fr_sys.free(run->uses);
    fr_sys.free(run);
}

enum fr_rc fr_nodes_join(struct fr_nodes *ex, const struct fr_nodes_run *run, struct fr_exec *out,
                         struct fr_err *err)
{
    struct fr_joined *j = fr_sys.alloc(sizeof(*j));
    enum fr_rc rc = FR_OK;
    size_t bytes = 0;

    *out = (struct fr_exec){0};
    if (j == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the executor");
    *j = (struct fr_joined){.ex = ex, .id = run->id, .sink = run->sink};
    if (!fr_mul_size(run->n + 1, sizeof(*j->uses), &bytes) ||
        (j->uses = fr_sys.alloc(bytes)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for %zu nodes", run->n);
    for (; rc == FR_OK && j->n < run->n; j->n += rc == FR_OK) {
        j->uses[j->n] = (struct fr_use){.run = j, .index = j->n, .since_ms = -1};
        rc = use_chan(ex, &j->uses[j->n], &run->nodes[j->n], err);
    }
    if (rc != FR_OK) {
        fr_joined_leave(j);
        return rc;
    }
    if (ex->args.epoch == 0)
        ex->fence = run->id;
    *out = (struct fr_exec){&fr_node_ops, j};
    return FR_OK;
}

enum fr_rc fr_nodes_create(struct fr_nodes **out, const struct fr_nodes_args *args,
                           struct fr_err *err)
{
    struct fr_nodes *ex = fr_sys.alloc(sizeof(*ex));
    struct fr_id owner;
    enum fr_rc rc;

    *out = NULL;
    if (ex == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the connections");
    *ex = (struct fr_nodes){.loop = args->loop, .args = *args, .fence = args->control};
    ex->kick = (struct fr_post){.run = on_kick, .arg = ex};
    if ((rc = fr_id_new(&owner, err)) == FR_OK)
        fr_id_text(owner, ex->owner);
    if (rc == FR_OK && fr_loop_timer(ex->loop, on_linger, ex, &ex->linger) != FR_OK)
        rc = fr_fail(err, FR_NOMEM, "no memory for the connections");
    if (rc == FR_OK && args->make_link == NULL)
        rc = fr_ship_create(&ex->ship, args->flownode_dir, err);
    if (rc != FR_OK) {
        fr_nodes_destroy(ex);
        return rc;
    }
    *out = ex;
    return FR_OK;
}

void fr_nodes_destroy(struct fr_nodes *ex)
{
    if (ex == NULL)
        return;
    while (ex->chans != NULL) {
        assert(ex->chans->uses == NULL);
        drop_chan(ex->chans);
    }
    fr_loop_untimer(ex->loop, &ex->linger);
    fr_loop_withdraw(ex->loop, &ex->kick);
    fr_ship_destroy(ex->ship);
    fr_agents_finish(ex);
    fr_buf_finish(&ex->ssh_defaults);
    fr_sys.free(ex);
}

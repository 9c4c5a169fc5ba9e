#include "engine/exec/private.h"

#include "engine/base/sys.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    TICK_MS = 1000, /* while connecting */
    LATE_MS = 3000, /* a timer that fires so late: this process was held up */
    PAUSE_MIN_MS = 500,
    AGENT_MS = 100, /* before a login with another agent */
    PAUSE_MAX_MS = 15000,
    STEADY_MS = 2000, /* a connection that ends before this is a short one */
    SHORT_MAX = 8,    /* after so many short ones in a row the pause is the longest */
    WINDOW_MIN = 32 << 10,
    LOGIN_PROTO = 3,
    RATE_MS = 500, /* over which the rate of bulk bytes is taken */
};

struct fr_exec_event *fr_chan_event(struct fr_chan *ch, enum fr_exec_kind kind)
{
    struct fr_exec_event *ev = ch->spare;

    ch->spare = NULL;
    if (ev != NULL)
        fr_arena_finish(&ev->arena);
    else if ((ev = fr_sys.alloc(sizeof(*ev))) == NULL)
        return NULL;
    *ev = (struct fr_exec_event){.kind = kind};
    return ev;
}

void fr_chan_try_again(struct fr_chan *ch)
{
    ch->failed = true;
    fr_loop_arm_in(ch->ex->loop, ch->timer, 0);
}

/* sshd limits logins in progress: once the node has answered, another may connect. */
static void release_slot(struct fr_chan *ch)
{
    if (!ch->holds_slot)
        return;
    ch->holds_slot = false;
    ch->ex->connecting--;
    fr_loop_post(ch->ex->loop, &ch->ex->kick);
}

static void reset_connection(struct fr_chan *ch)
{
    ch->serial++;
    ch->link_up = ch->failed = ch->leaves = ch->unknown_ref_logged = false;
    fr_wire_finish(&ch->in);
    ch->in = (struct fr_wire_in){.magic = true};
    fr_buf_finish(&ch->out);
    ch->out = (struct fr_buf){0};
    fr_boot_finish(&ch->boot);
    ch->boot = (struct fr_boot){.folders = {ch->folders.p, ch->folders.n}};
    ch->credit = 0;
    ch->window = WINDOW_MIN;
    ch->owed = ch->rate_bytes = ch->allowed = 0;
}

static bool is_final(const struct fr_chan *ch, enum fr_rc rc)
{
    if (ch->was_up && !ch->fenced)
        return false;
    return ch->fenced || rc == FR_DENIED || rc == FR_USAGE || rc == FR_CORRUPT ||
           rc == FR_NOTFOUND || rc == FR_UNSUPPORTED || rc == FR_PROTO;
}

/* The next pause: doubled, plus up to 20 % of jitter, so that nodes do not reconnect in step. */
static int64_t next_pause(struct fr_chan *ch)
{
    uint8_t dice = 0;
    int64_t ms;

    ch->pause_ms = ch->pause_ms == 0 ? PAUSE_MIN_MS : ch->pause_ms * 2;
    if (ch->pause_ms > PAUSE_MAX_MS)
        ch->pause_ms = PAUSE_MAX_MS;
    fr_sys.random(&dice, sizeof(dice));
    ms = ch->pause_ms;
    return ms + ms * dice / (5 * 256);
}

void fr_chan_lost(struct fr_chan *ch, const struct fr_err *err, bool silent)
{
    int64_t pause;
    bool another = fr_chan_next_agent(ch, err), final;

    ch->fenced = ch->fenced || err->rc == FR_BUSY;
    final = !another && is_final(ch, err->rc);
    ch->denied = final && err->rc == FR_DENIED;
    if (final)
        ch->refused = 0;
    if (ch->state == FR_CHAN_UP)
        ch->short_connections =
            fr_sys.mono_ms() - ch->up_ms < STEADY_MS ? ch->short_connections + 1 : 0;
    if (ch->short_connections > SHORT_MAX)
        ch->pause_ms = PAUSE_MAX_MS;
    pause = final ? -1 : another ? AGENT_MS : next_pause(ch);
    if (ch->away_ms < 0)
        ch->away_ms = fr_sys.mono_ms();
    if (ch->link.ops != NULL)
        ch->link.ops->close(ch->link.self);
    fr_link_destroy(&ch->ask);
    fr_pipe_lost(ch, err);
    release_slot(ch);
    reset_connection(ch);
    ch->state = final ? FR_CHAN_IDLE : FR_CHAN_PAUSING;
    if (final)
        fr_loop_arm(ch->ex->loop, ch->timer, -1);
    else
        fr_loop_arm_in(ch->ex->loop, ch->timer, pause);
    for (struct fr_use *use = ch->uses; use != NULL; use = use->next) {
        use->up_due = false;
        if (use->since_ms >= 0)
            fr_use_down(use, err, pause, silent);
    }
    if (ch->uses == NULL)
        fr_nodes_unused(ch->ex);
}

void fr_chan_flush(struct fr_chan *ch)
{
    size_t n;

    if (!ch->link_up)
        return;
    if (ch->boot.rest.n > 0) { /* the dialogue that installs flownode */
        n = ch->link.ops->send(ch->link.self, ch->boot.rest.p, ch->boot.rest.n);
        ch->boot.rest.p += n;
        ch->boot.rest.n -= n;
        if (n > 0)
            ch->received_ms = fr_sys.mono_ms();
    }
    if (ch->booting && !ch->boot.done)
        return;
    n = ch->out.n > 0 ? ch->link.ops->send(ch->link.self, ch->out.p, ch->out.n) : 0;
    fr_buf_cut(&ch->out, n);
    if (n > 0 || ch->out.n == 0)
        ch->written_ms = fr_sys.mono_ms();
}

void fr_chan_put(struct fr_chan *ch, const struct fr_msg *m)
{
    struct fr_err err = {0};

    if (fr_msg_put(m, &ch->out, &err) != FR_OK)
        ch->failed = true;
    fr_chan_queued(ch);
}

static void send_hello(struct fr_chan *ch)
{
    struct fr_msg m = {.type = FR_MSG_HELLO};

    ch->up.epoch = (uint64_t)ch->ex->args.epoch << 32 | ++ch->ex->connects;
    m.hello = (struct fr_hello){
        .proto_min = FR_PROTO_MIN,
        .proto_max = FR_PROTO_MAX,
        .home = ch->ex->fence,
        .boot = fr_str_of(ch->ex->owner),
        .epoch = ch->up.epoch,
        .mono_ms = fr_sys.mono_ms(),
        .wall_ms = fr_sys.wall_ms(),
        .keep_days = (uint32_t)ch->node.keep_days,
        .keep_bytes = (uint64_t)ch->node.keep_bytes,
        .same_disk = ch->node.transport == FR_TRANSPORT_LOCAL,
        .channel = ch->id,
        .samples = ch->ex->args.sample != NULL && !ch->node.login,
    };
    ch->ping_ms = m.hello.mono_ms;
    fr_chan_put(ch, &m);
    fr_chan_flush(ch);
}

static void grant(struct fr_chan *ch, int64_t bytes)
{
    struct fr_msg m = {.type = FR_MSG_CREDIT, .credit = {(uint64_t)bytes}};

    ch->allowed += bytes;
    fr_chan_put(ch, &m);
}

enum fr_rc fr_chan_received_bulk(struct fr_chan *ch, size_t bytes, struct fr_err *err)
{
    int64_t now = fr_sys.mono_ms(), past = now - ch->rate_since_ms, window;

    if ((int64_t)bytes > ch->allowed)
        return fr_fail(err, FR_PROTO, "%zu bytes came, where %lld were allowed", bytes,
                       (long long)ch->allowed);
    ch->allowed -= (int64_t)bytes;
    ch->owed += (int64_t)bytes;
    ch->rate_bytes += (int64_t)bytes;
    if (past >= RATE_MS) { /* the window: the bytes of half a second */
        window = ch->rate_bytes * RATE_MS / past;
        window = window < WINDOW_MIN ? WINDOW_MIN : window;
        window = window > FR_CREDIT_MAX ? FR_CREDIT_MAX : window;
        ch->owed += window - ch->window;
        ch->window = window;
        ch->rate_since_ms = now;
        ch->rate_bytes = 0;
    } else if (ch->rate_bytes > ch->window && ch->window < FR_CREDIT_MAX) {
        ch->owed += FR_CREDIT_MAX - ch->window; /* more than a window in less than that: fast */
        ch->window = FR_CREDIT_MAX;
    }
    if (ch->owed < ch->window / 4)
        return FR_OK;
    grant(ch, ch->owed);
    ch->owed = 0;
    fr_chan_flush(ch);
    return FR_OK;
}

/* Printable, short: it is stored and shown. */
static bool is_word(struct fr_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] >= 0x7f)
            return false;
    return s.n <= 64;
}

static void keep_hello(struct fr_chan *ch, const struct fr_hello *h)
{
    int64_t now = fr_sys.mono_ms();

    ch->rtt_ms = now - ch->ping_ms;
    ch->offset_ms = h->mono_ms - now;
    if (!fr_id_eq(ch->up.home, h->home) || !fr_str_is(h->boot, ch->boot_id)) {
        snprintf(ch->boot_id, sizeof(ch->boot_id), "%.*s", (int)h->boot.n, h->boot.p);
        ch->machine++;
    }
    snprintf(ch->build, sizeof(ch->build), "%.*s", (int)h->build.n, h->build.p);
    ch->up = (struct fr_exec_up){
        .home = h->home,
        .boot = fr_str_of(ch->boot_id),
        .build = fr_str_of(ch->build),
        .epoch = ch->up.epoch,
        .wall_offset_ms = h->wall_ms - fr_sys.wall_ms(),
        .how = fr_str_of(ch->node.transport == FR_TRANSPORT_PLACE ? "srun" : ch->link.ops->name),
    };
}

enum fr_rc fr_chan_hello(struct fr_chan *ch, const struct fr_hello *h, struct fr_err *err)
{
    enum fr_rc rc = fr_wire_agree(h, err);
    int64_t now = fr_sys.mono_ms();

    if (rc == FR_OK && ch->state != FR_CHAN_CONNECTING)
        rc = fr_fail(err, FR_PROTO, "a second hello");
    if (rc == FR_OK && (rc = fr_chan_time(h->mono_ms, err)) == FR_OK)
        rc = fr_chan_time(h->wall_ms, err);
    if (rc == FR_OK && ch->node.login && h->proto_max < LOGIN_PROTO)
        rc = fr_fail(err, FR_PROTO, "its flownode runs no commands of Slurm");
    if (rc == FR_OK && !(is_word(h->boot) && is_word(h->build)))
        rc = fr_fail(err, FR_PROTO, "a hello whose boot id or build is no word");
    if (rc == FR_OK)
        keep_hello(ch, h);
    if (rc != FR_OK)
        return rc;
    ch->state = FR_CHAN_UP;
    release_slot(ch);
    ch->was_up = true;
    ch->pause_ms = 0;
    ch->refused = 0;
    ch->away_ms = -1;
    ch->up_ms = now;
    for (struct fr_use *use = ch->uses; use != NULL; use = use->next)
        if (use->since_ms >= 0) {
            if ((rc = fr_use_up(use, err)) != FR_OK)
                return rc;
            fr_use_join(use);
        }
    ch->rate_since_ms = now;
    ch->due_ms = now;
    grant(ch, ch->window);
    fr_loop_arm_in(ch->ex->loop, ch->timer, 0); /* the first ping refines the offset */
    ch->ping_ms = now - FR_PING_IDLE_MS;
    ch->unanswered_ms = -1;
    fr_pend_send(ch);
    fr_xfer_restart(ch);
    fr_chan_flush(ch);
    return FR_OK;
}

/* Handles all whole messages received. False: the connection is gone. */
static bool take_messages(struct fr_chan *ch)
{
    uint32_t serial = ch->serial;
    struct fr_err err = {0};

    for (;;) {
        struct fr_exec_event *ev = fr_chan_event(ch, 0);
        struct fr_msg m = {0};
        bool got = false;
        enum fr_rc rc;

        if (ev == NULL)
            rc = fr_fail(&err, FR_NOMEM, "no memory for a message");
        else
            rc = fr_wire_next(&ch->in, &ev->arena, &m, &got, &err);
        if (rc != FR_OK || !got) {
            ch->spare = ev;
            if (rc != FR_OK)
                fr_chan_lost(ch, &err, false);
            return rc == FR_OK;
        }
        ch->answered = false;
        rc = fr_chan_message(ch, &m, ev, &err);
        if (rc != FR_OK && ch->serial == serial)
            fr_chan_lost(ch, &err, false);
        if (ch->serial != serial)
            return false;
    }
}

static enum fr_rc feed_boot(struct fr_chan *ch, const char **p, size_t *n, struct fr_err *err)
{
    size_t used = 0;
    enum fr_rc rc = fr_boot_feed(&ch->boot, ch->ex->ship, (struct fr_str){*p, *n}, &used, err);

    *p += used;
    *n -= used;
    if (rc != FR_OK)
        return rc;
    if (ch->boot.note.n > 0 && !ch->boot.note.bad)
        fr_chan_tell(ch, FR_EXEC_NOTE, ch->boot.note.p);
    ch->boot.note.n = 0;
    if (ch->boot.program != NULL)
        release_slot(ch);
    fr_chan_flush(ch);
    if (ch->boot.done) {
        ch->received_ms = fr_sys.mono_ms();
        send_hello(ch);
    }
    return FR_OK;
}

static void on_up(void *arg)
{
    struct fr_chan *ch = arg;

    if (ch->link_up)
        return;
    ch->link_up = true;
    if (!ch->booting)
        send_hello(ch);
}

/* The first piece of a message that srun brings is answered at once (wire.h). */
static void answer_piece(struct fr_chan *ch)
{
    struct fr_msg m = {.type = FR_MSG_CREDIT};

    if (!fr_wire_waits(&ch->in) || ch->answered || ch->node.transport != FR_TRANSPORT_PLACE ||
        ch->state != FR_CHAN_UP)
        return;
    ch->answered = true;
    if (ch->out.n == 0)
        fr_chan_put(ch, &m);
}

static void on_bytes(void *arg, const char *p, size_t n)
{
    struct fr_chan *ch = arg;
    struct fr_err err = {0};

    on_up(ch); /* the first bytes may come before on_up() */
    if (ch->booting && !ch->boot.done && feed_boot(ch, &p, &n, &err) != FR_OK) {
        fr_chan_lost(ch, &err, false);
        return;
    }
    if (n == 0)
        return;
    fr_wire_feed(&ch->in, p, n);
    if (take_messages(ch)) {
        ch->unanswered_ms = -1;
        if (ch->state == FR_CHAN_UP) /* before that, noise is no progress */
            ch->received_ms = fr_sys.mono_ms();
        answer_piece(ch);
        fr_chan_flush(ch);
    }
}

static void on_writable(void *arg)
{
    struct fr_chan *ch = arg;

    fr_chan_flush(ch);
    fr_xfer_pump(ch);
    fr_pipe_room(ch);
}

static void on_down(void *arg, const struct fr_err *err, bool ran)
{
    struct fr_chan *ch = arg;
    struct fr_err full = *err;

    if (ch->booting && ch->state == FR_CHAN_CONNECTING && !ch->boot.done)
        fr_chan_explain(ch, &full, ran);
    fr_chan_lost(ch, &full, false);
}

void fr_chan_open(struct fr_chan *ch)
{
    struct fr_link_events events = {on_up, on_bytes, on_writable, on_down, ch};
    struct fr_err err = {0};

    ch->received_ms = fr_sys.mono_ms();
    if (ch->link.ops->open(ch->link.self, &events, &err) != FR_OK)
        fr_chan_lost(ch, &err, false);
}

void fr_chan_start(struct fr_chan *ch)
{
    struct fr_err err = {0};
    enum fr_rc rc = FR_OK;

    assert(ch->state == FR_CHAN_QUEUED);
    reset_connection(ch);
    if (ch->node.transport == FR_TRANSPORT_PLACE) {
        rc = fr_chan_find(ch, &err);
        if ((ch->nowhere = rc == FR_BUSY)) {
            ch->state = FR_CHAN_IDLE;
            return;
        }
    }
    ch->state = FR_CHAN_CONNECTING;
    ch->ex->connecting++;
    ch->holds_slot = true;
    ch->opened_ms = ch->written_ms = ch->received_ms = fr_sys.mono_ms();
    if (ch->away_ms < 0)
        ch->away_ms = ch->opened_ms;
    ch->due_ms = ch->opened_ms + TICK_MS;
    if (ch->node.transport != FR_TRANSPORT_PLACE)
        fr_chan_pick_agent(ch);
    if (rc == FR_OK && ch->link.ops == NULL)
        rc = fr_chan_route(ch, &err);
    fr_loop_arm(ch->ex->loop, ch->timer, ch->due_ms);
    if (rc != FR_OK)
        fr_chan_lost(ch, &err, false);
    else if (ch->link.ops != NULL)
        fr_chan_open(ch);
}

void fr_chan_connect(struct fr_chan *ch)
{
    if (ch->state != FR_CHAN_IDLE && ch->state != FR_CHAN_PAUSING)
        return;
    ch->state = FR_CHAN_QUEUED;
    ch->denied = false;
    fr_loop_arm(ch->ex->loop, ch->timer, -1);
    fr_loop_post(ch->ex->loop, &ch->ex->kick);
}

void fr_chan_needed(struct fr_chan *ch)
{
    if (ch->state == FR_CHAN_IDLE && !ch->fenced)
        fr_chan_connect(ch);
}

static void on_timer(void *arg)
{
    struct fr_chan *ch = arg;
    int64_t now = fr_sys.mono_ms(), due = 0;
    bool late = now - ch->due_ms > LATE_MS;
    struct fr_err err;

    if (ch->leaves)
        fr_chan_leave_place(ch);
    if (ch->failed) {
        fr_fail(&err, FR_NOMEM, "no memory for what was to be sent");
        fr_chan_lost(ch, &err, false);
    } else if (ch->state == FR_CHAN_PAUSING)
        fr_chan_connect(ch);
    else if (ch->state == FR_CHAN_UP)
        due = fr_chan_check_alive(ch, now, late);
    else if (ch->state == FR_CHAN_CONNECTING && !late && fr_chan_slow(ch, now))
        return;
    else if (ch->state == FR_CHAN_CONNECTING)
        due = now + TICK_MS;
    if (due == 0 || ch->failed)
        return;
    ch->due_ms = due;
    fr_loop_arm(ch->ex->loop, ch->timer, due);
}

static void on_flush(void *arg)
{
    fr_chan_flush(arg);
}

enum fr_rc fr_chan_init(struct fr_chan *ch, struct fr_nodes *ex, const struct fr_exec_node *node,
                        struct fr_err *err)
{
    *ch = (struct fr_chan){.ex = ex, .node = *node, .away_ms = -1};
    ch->flush = (struct fr_post){.run = on_flush, .arg = ch};
    ch->hash = (struct fr_post){.run = fr_xfer_hash, .arg = ch};
    ch->asked.last = &ch->asked.first;
    ch->acks.last = &ch->acks.first;
    reset_connection(ch);
    if (fr_id_new(&ch->id, err) != FR_OK)
        return err != NULL ? err->rc : FR_IO;
    if (fr_loop_timer(ex->loop, on_timer, ch, &ch->timer) != FR_OK)
        return fr_fail(err, FR_NOMEM, "no memory for node %s", node->name);
    return FR_OK;
}

void fr_chan_finish(struct fr_chan *ch)
{
    release_slot(ch);
    fr_loop_withdraw(ch->ex->loop, &ch->flush);
    fr_loop_withdraw(ch->ex->loop, &ch->hash);
    fr_link_destroy(&ch->link);
    fr_link_destroy(&ch->ask);
    fr_buf_finish(&ch->answer);
    fr_arena_finish(&ch->conf_arena);
    fr_loop_untimer(ch->ex->loop, &ch->timer);
    fr_pend_finish(ch);
    reset_connection(ch);
    fr_wire_finish(&ch->in);
    fr_arena_finish(&ch->arena);
    fr_buf_finish(&ch->folders);
    fr_exec_event_free(ch->spare);
    ch->spare = NULL;
}

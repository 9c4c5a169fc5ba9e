#include "engine/node/serve.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/supervise/environ.h"
#include "engine/node/private.h"

#include <errno.h>
#include <string.h>

enum { READ_PIECE = 64 << 10, POLL_FIXED = 2 };

static void send_hello(struct srv *s)
{
    struct fr_msg m = {.type = FR_MSG_HELLO};

    m.hello = (struct fr_hello){.proto_min = FR_PROTO_MIN,
                                .proto_max = FR_PROTO_MAX,
                                .build = fr_str_of(s->a->build),
                                .home = s->table.home,
                                .boot = fr_str_of(s->home.boot),
                                .mono_ms = fr_sys.mono_ms(),
                                .wall_ms = fr_sys.wall_ms()};
    fr_buf_text(&s->ctl, FR_WIRE_MAGIC);
    srv_send(s, &m);
    m = (struct fr_msg){.type = FR_MSG_CREDIT, .credit = {FR_CREDIT_MAX}};
    srv_send(s, &m);
}

static void newer_epoch(struct srv *s)
{
    struct fr_err err;
    uint64_t other = srv_epoch_of(s, s->store);

    if (other < srv_epoch_of(s, s->channel))
        other = srv_epoch_of(s, s->channel);
    fr_fail(&err, FR_BUSY,
            "another flowrun has taken over: epoch %llu is older than %llu, a newer connection has "
            "this node",
            (unsigned long long)s->epoch, (unsigned long long)other);
    srv_end(s, &err);
}

/* A flowrun commits its epoch's upper half before it connects, so two with the same one began from
 * copies of one home. */
static bool is_copy(struct srv *s, const struct fr_hello *h)
{
    const struct fr_fence *f = fr_table_fence(&s->table, h->home);
    struct fr_err err;

    if (f == NULL || h->epoch >> 32 != f->epoch >> 32 || f->owner[0] == '\0' || h->boot.n == 0 ||
        fr_str_is(h->boot, f->owner))
        return false;
    fr_fail(&err, FR_BUSY,
            "another flowrun has this node, with a copy of the same home: 'flowrun resume' takes "
            "over once the other one is stopped");
    srv_end(s, &err);
    return true;
}

/* Fences off older processes, and older connections of the same channel. */
static enum fr_rc write_epochs(struct srv *s, const struct fr_hello *h, struct fr_err *err)
{
    struct fr_rec of_store = {.kind = FR_REC_EPOCH,
                              .attempt = h->home,
                              .run = h->home,
                              .epoch = h->epoch,
                              .boot = h->boot};
    struct fr_rec of_channel = {
        .kind = FR_REC_EPOCH, .run = h->channel, .epoch = h->epoch, .boot = h->boot};
    enum fr_rc rc = FR_OK;

    if (fr_table_fence(&s->table, h->home) == NULL ||
        srv_epoch_of(s, h->home) >> 32 < h->epoch >> 32)
        rc = srv_journal(s, &of_store, err);
    if (rc == FR_OK && srv_epoch_of(s, h->channel) < h->epoch)
        rc = srv_journal(s, &of_channel, err);
    return rc;
}

static void take_hello(struct srv *s, const struct fr_hello *h)
{
    struct fr_err err;

    if (is_copy(s, h))
        return;
    s->store = h->home;
    s->channel = h->channel;
    s->epoch = h->epoch;
    if (fr_wire_agree(h, &err) != FR_OK || write_epochs(s, h, &err) != FR_OK) {
        srv_end(s, &err);
    } else if (srv_superseded(s)) {
        newer_epoch(s);
    }
    if (!s->hello && !s->over)
        srv_keep_begin(s, h);
    s->hello = true;
    if (h->samples)
        srv_samples_begin(s);
}

static void send_pong(struct srv *s, int64_t ping_ms)
{
    struct fr_msg m = {.type = FR_MSG_PONG, .pong = {ping_ms, fr_sys.mono_ms(), fr_sys.wall_ms()}};

    srv_send(s, &m);
}

static void take(struct srv *s, const struct fr_msg *m)
{
    struct fr_err err;

    switch (m->type) {
    case FR_MSG_HELLO:
        take_hello(s, &m->hello);
        break;
    case FR_MSG_PING:
        send_pong(s, m->ping.mono_ms);
        break;
    case FR_MSG_PONG:
        break;
    case FR_MSG_JOIN:
        srv_join(s, m->join.run);
        break;
    case FR_MSG_LEAVE:
        srv_leave(s, m->leave.run);
        break;
    case FR_MSG_CANCEL:
        srv_bulk_cancel(s, m->cancel.ref);
        srv_put_cancel(s, m->cancel.ref);
        break;
    case FR_MSG_CREDIT:
        s->credit += m->credit.bytes;
        break;
    case FR_MSG_PUT_BEGIN:
        srv_put_begin(s, &m->put_begin);
        break;
    case FR_MSG_PUT_DATA:
        srv_put_data(s, &m->put_data);
        break;
    case FR_MSG_PUT_END:
        srv_put_end(s, m->put_end.ref);
        break;
    case FR_MSG_GET:
        srv_get_begin(s, &m->get);
        break;
    case FR_MSG_GET_MORE:
        srv_get_more(s, &m->get_more);
        break;
    case FR_MSG_PIPE_OPEN:
        srv_pipe_open(s, &m->pipe_open);
        break;
    case FR_MSG_PIPE_DATA:
        srv_pipe_data(s, &m->pipe_data);
        break;
    case FR_MSG_PIPE_CLOSE:
        srv_pipe_close(s, &m->pipe_close);
        break;
    case FR_MSG_FACTS:
        srv_facts(s, m->facts.ref);
        break;
    case FR_MSG_ERROR:
        fr_fail(&err, FR_PROTO, "the engine says: %.*s", (int)m->error.text.n, m->error.text.p);
        srv_fail(s, &err);
        break;
    default:
        srv_attempt_message(s, m);
    }
}

/* Before each message: has a newer connection taken over? */
static void take_checked(struct srv *s, const struct fr_msg *m)
{
    struct fr_err err;

    if (!s->hello && m->type != FR_MSG_HELLO) {
        fr_fail(&err, FR_PROTO, "a %s message before hello", fr_msg_name(m->type));
        srv_end(s, &err);
    } else if (fr_table_read(&s->table, s->home.journal, &err) != FR_OK) {
        srv_fail(s, &err);
    } else if (s->hello && srv_superseded(s)) {
        newer_epoch(s);
    } else {
        take(s, m);
    }
}

static void read_input(struct srv *s)
{
    char *piece = fr_sys.alloc(READ_PIECE);
    ssize_t k = piece != NULL ? fr_sys.read(s->a->in, piece, READ_PIECE) : -1;
    bool got = k > 0;

    if (k == 0 || (k < 0 && errno != EAGAIN && errno != EINTR))
        s->over = true;
    if (k > 0) {
        s->received_ms = fr_sys.mono_ms();
        s->before_ms = s->read_ms;
        s->read_ms = fr_sys.boot_ms();
        if (s->a->heard_ms != NULL)
            *s->a->heard_ms = s->received_ms;
        fr_wire_feed(&s->in, piece, (size_t)k);
    }
    fr_sys.free(piece);
    while (got && !s->over) {
        struct fr_arena arena = {0};
        struct fr_msg m;
        struct fr_err err;
        if (fr_wire_next(&s->in, &arena, &m, &got, &err) != FR_OK) {
            srv_end(s, &err);
        } else if (got) {
            s->answered = false;
            take_checked(s, &m);
        }
        fr_arena_finish(&arena);
    }
    if (s->a->answers && s->hello && fr_wire_waits(&s->in) && !s->answered) {
        s->answered = true;
        if (s->ctl.n == 0 && s->out.n == 0)
            srv_send(s, &(struct fr_msg){.type = FR_MSG_CREDIT});
    }
}

/* Control first, then one bulk message at a time. */
static void write_output(struct srv *s)
{
    for (;;) {
        if (s->out.n == 0 && s->ctl.n > 0) {
            struct fr_buf empty = s->out;
            s->out = s->ctl;
            s->ctl = empty;
        } else if (s->out.n == 0 && s->credit > 0) {
            srv_bulk_next(s);
        }
        if (s->out.n == 0)
            return;
        ssize_t k = fr_sys.write(s->a->out, s->out.p, s->out.n);
        if (k < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (k <= 0) {
            s->over = true;
            return;
        }
        fr_buf_cut(&s->out, (size_t)k);
    }
}

/* False: the journal is not on the disk (see journal.h). */
static bool sync_journal(struct srv *s, struct fr_err *err)
{
    s->sync_ms = INT64_MAX;
    return fr_sys.fdatasync(s->home.journal) == 0 ||
           fr_table_rewrite(&s->table, s->home.journal, err) == FR_OK;
}

static void on_time(struct srv *s, int64_t now)
{
    struct fr_err err;

    if (now >= s->look_ms) {
        s->look_ms = now + SRV_LOOK_MS;
        if (fr_table_read(&s->table, s->home.journal, &err) != FR_OK)
            srv_fail(s, &err);
        else if (s->hello && srv_superseded(s))
            newer_epoch(s);
    }
    if (now >= s->sync_ms && !sync_journal(s, &err)) {
        fr_while(&err, "the node's home %s", s->home.path);
        srv_end(s, &err);
    }
    if (now - s->received_ms > SRV_IDLE_MS)
        s->over = true;
}

static int timeout_of(const struct srv *s)
{
    int64_t now = fr_sys.mono_ms(), due = s->look_ms < s->sync_ms ? s->look_ms : s->sync_ms;

    if (s->samples.due_ms != 0 && s->samples.due_ms < due)
        due = s->samples.due_ms;
    if (srv_pipe_due(s) < due)
        due = srv_pipe_due(s);
    if (srv_put_looking(s) || srv_keep_busy(s))
        return 0;
    for (const struct srv_live *l = s->lives; l != NULL; l = l->next)
        due = l->due_ms < due ? l->due_ms : due;
    for (const struct srv_live *l = s->lives; l != NULL && s->credit > 0 && s->out.n == 0;
         l = l->next)
        due = l->tail_waits && l->tail_ms < due ? l->tail_ms : due;
    return due <= now ? 0 : (int)(due - now);
}

static bool grow_polls(struct srv *s)
{
    size_t n = POLL_FIXED + s->n_lives + s->n_spare + SRV_PIPE_POLLS * s->n_pipes;
    struct pollfd *polls = fr_grow(s->polls, n, &s->cap_polls, sizeof(*polls));
    struct srv_live **polled = fr_grow(s->polled, n, &s->cap_polled, sizeof(struct srv_live *));

    s->polls = polls != NULL ? polls : s->polls;
    s->polled = polled != NULL ? polled : s->polled;
    return polls != NULL && polled != NULL;
}

static void turn(struct srv *s)
{
    struct fr_err err;
    nfds_t n = POLL_FIXED;

    write_output(s);
    if (!grow_polls(s)) {
        fr_fail(&err, FR_NOMEM, "no memory to wait for %zu attempts", s->n_lives);
        srv_fail(s, &err);
        return;
    }
    struct pollfd *p = s->polls;
    struct srv_live **of = s->polled;
    p[0] = (struct pollfd){.fd = s->ctl.n < SRV_CTL_MAX ? s->a->in : -1, .events = POLLIN};
    p[1] = (struct pollfd){.fd = s->out.n > 0 ? s->a->out : -1, .events = POLLOUT};
    for (struct srv_live *l = s->lives; l != NULL; l = l->next) {
        if (l->fd < 0)
            continue;
        of[n] = l;
        p[n++] =
            (struct pollfd){.fd = l->fd, .events = (short)(POLLIN | (l->out.n > 0 ? POLLOUT : 0))};
    }
    const nfds_t busy = n;
    for (size_t i = 0; i < s->n_spare; i++)
        p[n++] = (struct pollfd){.fd = s->spare[i], .events = POLLIN};
    const nfds_t spare = n;
    n = srv_pipe_wanted(s, p, n);
    if (s->over || fr_sys.poll(p, n, timeout_of(s)) < 0)
        return;
    for (nfds_t i = busy; i < spare; i++)
        if (p[i].revents != 0)
            srv_spare_gone(s, p[i].fd); /* an idle one only becomes readable at its end */
    for (nfds_t i = POLL_FIXED; i < busy; i++)
        if (p[i].revents != 0)
            srv_live_read(s, of[i]);
    srv_pipe_step(s, p);
    if (p[0].revents != 0)
        read_input(s);
    srv_put_step(s);
    for (struct srv_live *l = s->lives, *next; l != NULL; l = next) {
        next = l->next;
        srv_live_step(s, l);
    }
    srv_keep_step(s); /* after a start that came with an acknowledgement */
    srv_start_queued(s);
    if (s->samples.due_ms != 0)
        srv_samples_step(s);
    on_time(s, fr_sys.mono_ms());
}

enum fr_rc srv_home(struct srv *s, struct fr_err *err)
{
    struct fr_rec rec = {.kind = FR_REC_HOME};
    enum fr_rc rc;

    if ((rc = fr_home_open(&s->home, s->a->home, err)) != FR_OK ||
        (rc = fr_table_read(&s->table, s->home.journal, err)) != FR_OK ||
        !fr_id_zero(s->table.home))
        return rc;
    rc = fr_id_new(&rec.attempt, err);
    return rc == FR_OK ? srv_journal(s, &rec, err) : rc;
}

static enum fr_rc begin(struct srv *s, struct fr_err *err)
{
    enum fr_rc rc = srv_home(s, err);

    if (rc != FR_OK)
        return rc;
    srv_live_tidy(s);
    if (!fr_environ_base(s->a->environ, s->a->passed, &s->arena, &s->environ))
        return fr_fail(err, FR_NOMEM, "no memory for the environment");
    fr_sys.set_nonblock(s->a->in, true);
    fr_sys.set_nonblock(s->a->out, true);
    s->received_ms = fr_sys.mono_ms();
    s->read_ms = s->before_ms = fr_sys.boot_ms();
    s->look_ms = s->received_ms + SRV_LOOK_MS;
    send_hello(s);
    return FR_OK;
}

static void finish(struct srv *s)
{
    struct fr_err err;

    if (s->home.journal >= 0)
        srv_live_tidy(s); /* of supervisors that were killed while they had no attempt */
    srv_live_finish(s);
    srv_spare_finish(s);
    srv_bulk_finish(s);
    srv_put_finish(s);
    srv_pipe_finish(s);
    srv_keep_finish(s);
    if (s->sync_ms != INT64_MAX && !sync_journal(s, &err))
        fr_log(FR_LOG_WARN, "node", "%s: the newest records may not survive a power cut", err.msg);
    srv_run_finish(s);
    srv_samples_finish(s);
    fr_home_close(&s->home);
    fr_table_finish(&s->table);
    fr_wire_finish(&s->in);
    fr_buf_finish(&s->ctl);
    fr_buf_finish(&s->out);
    fr_sys.free(s->polls);
    fr_sys.free(s->polled);
    fr_arena_finish(&s->arena);
}

enum fr_rc fr_serve(const struct fr_serve_args *a, struct fr_err *err)
{
    struct srv s = {.a = a, .home = {.journal = -1, .lock = -1}, .sync_ms = INT64_MAX};
    enum fr_rc rc = begin(&s, err);

    while (rc == FR_OK && !s.over)
        turn(&s);
    if (rc == FR_OK && s.err.rc != FR_OK) {
        s.credit = 0;
        write_output(&s); /* the reason, as far as the other side takes it at once */
        rc = s.err.rc;
        if (err != NULL)
            *err = s.err;
    }
    finish(&s);
    return rc;
}

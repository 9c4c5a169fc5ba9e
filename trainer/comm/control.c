#include "trainer/comm/control.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/base/thread.h"
#include "trainer/comm/frame.h"
#include "trainer/comm/join.h"
#include "trainer/comm/collective_check.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BEAT_MS = 1000, SILENT_MS = 10000, REACT_MS = 4000, READ_BYTES = 256 * 1024 };

/* One connection: rank 0 has one to every other rank, each other rank one to rank 0. */
struct wire {
    int fd; /* -1: closed */
    struct fr_buf in, out;
    int64_t received_ms; /* time of the last received byte */
    struct tr_beat beat;
    bool reported, gone; /* silence was reported; a goodbye was received */
};

struct tr_control {
    struct tr_control_opts o;
    struct tr_peer *peers; /* owns: size */
    struct wire *wires;    /* owns: size; wires[me] unused */
    pthread_t thread;
    bool thread_runs;
    int wake;             /* eventfd: the main thread has added output or wants the thread to end */
    pthread_mutex_t lock; /* guards all below and every wire */
    pthread_cond_t changed;
    struct tr_beat mine;
    char *parts; /* rank 0: the host all-gather under way, size*bytes; others: the result */
    size_t part_bytes;
    bool *have;                        /* rank 0: ranks whose part has arrived */
    bool whole;                        /* other ranks: the result has arrived */
    struct tr_collective_check *check; /* owns; rank 0: announced calls */
    bool *go;                          /* owns; rank 0: size */
    bool agreed;                       /* rank 0 released the announced call of this rank */
    bool leaving;
    int64_t aborted_ms;
    struct fr_err why;
    atomic_int failed; /* enum fr_rc of why */
};

static void fail_locked(struct tr_control *c, enum fr_rc rc, const char *text)
{
    if (atomic_load(&c->failed) != FR_OK)
        return;
    fr_fail(&c->why, rc, "%s", text);
    c->aborted_ms = fr_sys.mono_ms();
    atomic_store(&c->failed, (int)rc);
    pthread_cond_broadcast(&c->changed);
    struct fr_buf body = {0};
    uint32_t code = (uint32_t)rc;
    fr_buf_add(&body, &code, sizeof(code));
    fr_buf_text(&body, text);
    for (int r = 0; r < c->o.size; r++)
        if (r != c->o.rank && c->wires[r].fd >= 0)
            tr_frame_add(&c->wires[r].out, TR_FRAME_ABORT, body.p, body.n);
    fr_buf_finish(&body);
}

/* Appends "rank 3 (node2)" and the collective of the last heartbeat. */
static void name_rank(const struct tr_control *c, int r, struct fr_buf *out)
{
    const struct tr_beat *b = &c->wires[r].beat;

    fr_buf_fmt(out, "rank %d (%s)", r, c->peers[r].host);
    if (b->what[0] != '\0')
        fr_buf_fmt(out, " in collective %lld '%s'", (long long)b->seq, b->what);
    else
        fr_buf_fmt(out, " after collective %lld", (long long)b->seq);
}

static void closed_locked(struct tr_control *c, int r)
{
    struct wire *w = &c->wires[r];
    struct fr_buf text = {0};

    close(w->fd);
    w->fd = -1;
    if (w->gone || c->leaving)
        return;
    name_rank(c, r, &text);
    fr_buf_text(&text, " ended");
    fail_locked(c, FR_PEER, text.p);
    fr_buf_finish(&text);
}

/* Takes a part of the all-gather, or all of it, from rank r. */
static void part_locked(struct tr_control *c, int r, enum tr_frame_type type, struct fr_str p)
{
    size_t want = type == TR_FRAME_PART ? c->part_bytes : c->part_bytes * (size_t)c->o.size;

    if (c->parts == NULL || p.n != want) {
        fail_locked(c, FR_PROTO, "ranks disagree about a host collective");
        return;
    }
    if (type == TR_FRAME_PART) {
        memcpy(c->parts + (size_t)r * c->part_bytes, p.p, p.n);
        c->have[r] = true;
    } else {
        memcpy(c->parts, p.p, p.n);
        c->whole = true;
    }
    pthread_cond_broadcast(&c->changed);
}

static void announce_locked(struct tr_control *c, int r, struct fr_str body)
{
    struct fr_err err = {.rc = FR_PROTO, .msg = "ranks disagree about checking mode"};

    if (c->check == NULL || tr_collective_check_announce(c->check, r, body, &err) != FR_OK)
        fail_locked(c, err.rc, err.msg);
}

/* Handles the first frame of rank r; false: no complete frame. A PART that arrives before this rank
 * has begun the same collective stays in the buffer. */
static bool frame_locked(struct tr_control *c, int r)
{
    struct wire *w = &c->wires[r];
    enum tr_frame_type type;
    struct fr_str p;
    int got = tr_frame_first(&w->in, &type, &p);

    if (got < 0)
        fail_locked(c, FR_PROTO, "a rank sent bytes that are no frame");
    if (got <= 0 || (type == TR_FRAME_PART && (c->parts == NULL || c->have[r])))
        return false;
    if (type == TR_FRAME_BEAT && p.n == sizeof(w->beat)) {
        memcpy(&w->beat, p.p, sizeof(w->beat));
        w->beat.what[TR_CONTROL_WHAT - 1] = '\0';
    } else if (type == TR_FRAME_PART || type == TR_FRAME_WHOLE)
        part_locked(c, r, type, p);
    else if (type == TR_FRAME_ABORT && p.n >= sizeof(uint32_t)) {
        uint32_t code;
        char text[FR_ERR_MAX];
        size_t n = p.n - sizeof(code) < sizeof(text) - 1 ? p.n - sizeof(code) : sizeof(text) - 1;
        memcpy(&code, p.p, sizeof(code));
        memcpy(text, p.p + sizeof(code), n);
        text[n] = '\0';
        fail_locked(c, code > FR_OK && code <= FR_BUG ? (enum fr_rc)code : FR_PEER, text);
    } else if (type == TR_FRAME_ANNOUNCE) {
        announce_locked(c, r, p);
    } else if (type == TR_FRAME_AGREED) {
        c->agreed = true;
        pthread_cond_broadcast(&c->changed);
    } else if (type == TR_FRAME_BYE)
        w->gone = true;
    fr_buf_cut(&w->in, TR_FRAME_HEAD + p.n);
    return true;
}

/* Reads and handles the available bytes; false: none. */
static bool read_locked(struct tr_control *c, int r, char *piece)
{
    struct wire *w = &c->wires[r];
    ssize_t k = recv(w->fd, piece, READ_BYTES, MSG_DONTWAIT);

    if (k > 0) {
        w->received_ms = fr_sys.mono_ms();
        if (w->reported)
            fr_log(FR_LOG_INFO, "comm", "rank %d (%s) answers again", r, c->peers[r].host);
        w->reported = false;
        fr_buf_add(&w->in, piece, (size_t)k);
    }
    while (frame_locked(c, r)) {
    }
    if (k == 0 || (k < 0 && errno != EAGAIN && errno != EINTR))
        closed_locked(c, r);
    return k > 0;
}

/* When sending fails, unread frames may have the reason. */
static void write_locked(struct tr_control *c, int r, char *piece)
{
    struct wire *w = &c->wires[r];
    ssize_t k = send(w->fd, w->out.p, w->out.n, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (k > 0)
        fr_buf_cut(&w->out, (size_t)k);
    else if (k < 0 && errno != EAGAIN && errno != EINTR) {
        while (read_locked(c, r, piece)) {
        }
        if (w->fd >= 0)
            closed_locked(c, r);
    }
}

/* Reports a silent rank once; ends the run at the time-out. */
static void watch_locked(struct tr_control *c, int64_t now)
{
    struct fr_buf text = {0};

    for (int r = 0; r < c->o.size; r++) {
        struct wire *w = &c->wires[r];
        int64_t quiet = now - w->received_ms;
        if (w->fd < 0 || w->gone || quiet <= SILENT_MS || (w->reported && quiet <= c->o.timeout_ms))
            continue;
        name_rank(c, r, &text);
        fr_buf_fmt(&text, " has been silent for %lld s", (long long)(quiet / 1000));
        if (!w->reported)
            fr_log(FR_LOG_WARN, "comm", "%s; the run ends at %lld s (--ddp_timeout)", text.p,
                   (long long)(c->o.timeout_ms / 1000));
        w->reported = true;
        if (quiet > c->o.timeout_ms)
            fail_locked(c, FR_TIMEOUT, text.p);
        fr_buf_finish(&text);
    }
    if (atomic_load(&c->failed) != FR_OK && !c->leaving && now - c->aborted_ms > REACT_MS) {
        fr_log(FR_LOG_ERROR, "comm", "%s; this rank did not stop by itself", c->why.msg);
        _exit(c->o.exit_code);
    }
}

/* What rank 0 knows of rank r besides data calls; NULL: nothing. */
static const char *elsewhere(const struct tr_control *c, int r)
{
    const struct wire *w = &c->wires[r];
    enum tr_frame_type type;
    struct fr_str p;

    if (w->gone)
        return "nothing any more";
    if ((c->parts != NULL && c->have[r]) ||
        (tr_frame_first(&w->in, &type, &p) > 0 && type == TR_FRAME_PART))
        return "a host collective";
    return NULL;
}

/* On rank 0: releases ranks that have announced the same call; ends the run when calls differ. */
static void judge_locked(struct tr_control *c)
{
    struct fr_err err;

    if (c->check == NULL)
        return;
    tr_collective_check_release(c->check, c->go);
    for (int r = 0; r < c->o.size; r++) {
        tr_collective_check_elsewhere(c->check, r, elsewhere(c, r));
        if (c->go[r] && r != c->o.rank)
            tr_frame_add(&c->wires[r].out, TR_FRAME_AGREED, "", 0);
    }
    if (c->go[c->o.rank]) {
        c->agreed = true;
        pthread_cond_broadcast(&c->changed);
    }
    if (tr_collective_check_judge(c->check, &err) != FR_OK)
        fail_locked(c, err.rc, err.msg);
}

static void beat_locked(struct tr_control *c)
{
    for (int r = 0; r < c->o.size; r++) {
        struct wire *w = &c->wires[r];
        if (w->fd >= 0 && w->out.n == 0) /* pending output serves as a heartbeat */
            tr_frame_add(&w->out, TR_FRAME_BEAT, &c->mine, sizeof(c->mine));
    }
}

static size_t poll_set(struct tr_control *c, struct pollfd *set, int *ranks)
{
    size_t n = 0;

    set[n++] = (struct pollfd){.fd = c->wake, .events = POLLIN};
    for (int r = 0; r < c->o.size; r++)
        if (c->wires[r].fd >= 0) {
            ranks[n] = r;
            set[n++] = (struct pollfd){.fd = c->wires[r].fd,
                                       .events = c->wires[r].out.n > 0 ? POLLIN | POLLOUT : POLLIN};
        }
    return n;
}

/* Whether all output is sent: the goodbye must be sent before the thread ends. */
static bool flushed(const struct tr_control *c)
{
    for (int r = 0; r < c->o.size; r++)
        if (c->wires[r].fd >= 0 && c->wires[r].out.n > 0)
            return false;
    return true;
}

struct thread_room {
    struct pollfd *set;
    int *ranks;
    char *piece;
};

static void serve(struct tr_control *c, struct thread_room *room)
{
    int64_t beat_at = 0, leave_by = INT64_MAX;

    pthread_mutex_lock(&c->lock);
    for (;;) {
        int64_t now = fr_sys.mono_ms();
        if (c->leaving && leave_by == INT64_MAX)
            leave_by = now + BEAT_MS;
        if (c->leaving && (flushed(c) || now > leave_by))
            break;
        if (now >= beat_at) {
            beat_locked(c);
            beat_at = now + BEAT_MS;
        }
        watch_locked(c, now);
        size_t n = poll_set(c, room->set, room->ranks);
        pthread_mutex_unlock(&c->lock);
        int64_t wait = beat_at - now;
        fr_sys.poll(room->set, n, wait > 0 ? (int)wait : 0);
        pthread_mutex_lock(&c->lock);
        uint64_t drained;
        if (room->set[0].revents != 0 && read(c->wake, &drained, sizeof(drained)) < 0)
            continue;
        for (size_t i = 1; i < n; i++) {
            int r = room->ranks[i];
            if (c->wires[r].fd >= 0 && (room->set[i].revents & ~POLLOUT) != 0)
                read_locked(c, r, room->piece);
            if (c->wires[r].fd >= 0 && c->wires[r].out.n > 0)
                write_locked(c, r, room->piece);
        }
        for (int r = 0; r < c->o.size; r++) /* parts that arrived before this rank began */
            while (c->wires[r].in.n > 0 && frame_locked(c, r)) {
            }
        judge_locked(c);
    }
    pthread_mutex_unlock(&c->lock);
}

static void *control_thread(void *arg)
{
    struct tr_control *c = arg;
    size_t n = (size_t)c->o.size + 1;
    struct thread_room room = {.set = fr_sys.alloc(n * sizeof(*room.set)),
                               .ranks = fr_sys.alloc(n * sizeof(*room.ranks)),
                               .piece = fr_sys.alloc(READ_BYTES)};

    if (room.set != NULL && room.ranks != NULL && room.piece != NULL)
        serve(c, &room);
    else {
        pthread_mutex_lock(&c->lock);
        fail_locked(c, FR_NOMEM, "no memory for the control thread");
        pthread_mutex_unlock(&c->lock);
    }
    fr_sys.free(room.set);
    fr_sys.free(room.ranks);
    fr_sys.free(room.piece);
    return NULL;
}

static void wake_thread(struct tr_control *c)
{
    uint64_t one = 1;
    ssize_t k = write(c->wake, &one, sizeof(one)); /* a full eventfd: the thread is awake already */

    (void)k;
}

static enum fr_rc allocate(const struct tr_control_opts *o, struct tr_control **out,
                           struct fr_err *err)
{
    size_t n = (size_t)o->size;
    struct tr_control *c = fr_sys.alloc(sizeof(*c));

    *out = c;
    if (c == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the control plane");
    memset(c, 0, sizeof(*c));
    c->o = *o;
    c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    c->peers = fr_sys.alloc(n * sizeof(*c->peers));
    c->wires = fr_sys.alloc(n * sizeof(*c->wires));
    c->have = fr_sys.alloc(n * sizeof(*c->have));
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    if (c->peers == NULL || c->wires == NULL || c->have == NULL || c->wake < 0)
        return fr_fail(err, FR_NOMEM, "no memory for %d ranks", o->size);
    memset(c->peers, 0, n * sizeof(*c->peers));
    memset(c->wires, 0, n * sizeof(*c->wires));
    for (size_t r = 0; r < n; r++)
        c->wires[r].fd = -1;
    if (o->rank != 0)
        return FR_OK;
    if ((c->go = fr_sys.alloc(n * sizeof(*c->go))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %d ranks", o->size);
    return tr_collective_check_create(o->size, &c->check, err);
}

enum fr_rc tr_control_join(const struct tr_control_opts *o, struct tr_control **out,
                           struct fr_err *err)
{
    struct tr_control *c;
    int *fds = fr_sys.alloc((size_t)o->size * sizeof(int));
    enum fr_rc rc = fds == NULL ? fr_fail(err, FR_NOMEM, "no memory for %d ranks", o->size) : FR_OK;

    *out = c = NULL;
    if (rc == FR_OK)
        rc = allocate(o, &c, err);
    if (rc == FR_OK)
        rc = tr_join(o, fds, c->peers, err);
    if (rc == FR_OK) {
        for (int r = 0; r < o->size; r++) {
            c->wires[r].fd = fds[r];
            c->wires[r].received_ms = fr_sys.mono_ms();
        }
        c->thread_runs = fr_thread_start(&c->thread, NULL, control_thread, c) == 0;
        if (!c->thread_runs)
            rc = fr_fail(err, FR_NOMEM, "cannot start the control thread");
    }
    fr_sys.free(fds);
    if (rc == FR_OK)
        *out = c;
    else
        tr_control_leave(c);
    return rc;
}

void tr_control_leave(struct tr_control *c)
{
    if (c == NULL)
        return;
    if (c->thread_runs) {
        pthread_mutex_lock(&c->lock);
        c->leaving = true;
        for (int r = 0; r < c->o.size; r++)
            if (c->wires[r].fd >= 0 && atomic_load(&c->failed) == FR_OK)
                tr_frame_add(&c->wires[r].out, TR_FRAME_BYE, "", 0);
        pthread_mutex_unlock(&c->lock);
        wake_thread(c);
        pthread_join(c->thread, NULL);
    }
    for (int r = 0; c->wires != NULL && r < c->o.size; r++) {
        if (c->wires[r].fd >= 0)
            close(c->wires[r].fd);
        fr_buf_finish(&c->wires[r].in);
        fr_buf_finish(&c->wires[r].out);
    }
    if (c->wake >= 0)
        close(c->wake);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    fr_sys.free(c->peers);
    fr_sys.free(c->wires);
    fr_sys.free(c->have);
    fr_sys.free(c->go);
    tr_collective_check_destroy(c->check);
    fr_sys.free(c);
}

const struct tr_peer *tr_control_peers(const struct tr_control *c)
{
    return c->peers;
}

static bool all_here(const struct tr_control *c)
{
    for (int r = 0; r < c->o.size; r++)
        if (!c->have[r])
            return false;
    return true;
}

enum fr_rc tr_control_all_gather(struct tr_control *c, void *all, const void *mine, size_t bytes,
                                 struct fr_err *err)
{
    size_t me = (size_t)c->o.rank, size = (size_t)c->o.size;
    bool done;

    pthread_mutex_lock(&c->lock);
    c->parts = all;
    c->part_bytes = bytes;
    c->whole = false;
    memset(c->have, 0, size * sizeof(*c->have));
    c->have[me] = true;
    memmove((char *)all + me * bytes, mine, bytes);
    if (me != 0)
        tr_frame_add(&c->wires[0].out, TR_FRAME_PART, mine, bytes);
    wake_thread(c);
    while (atomic_load(&c->failed) == FR_OK && !(me == 0 ? all_here(c) : c->whole))
        pthread_cond_wait(&c->changed, &c->lock);
    done = me == 0 ? atomic_load(&c->failed) == FR_OK : c->whole;
    if (me == 0 && done) {
        for (int r = 1; r < c->o.size; r++)
            tr_frame_add(&c->wires[r].out, TR_FRAME_WHOLE, all, bytes * size);
        wake_thread(c);
    }
    c->parts = NULL;
    pthread_mutex_unlock(&c->lock);
    return done ? FR_OK : tr_control_check(c, err);
}

enum fr_rc tr_control_agree(struct tr_control *c, struct fr_str call, struct fr_err *err)
{
    bool agreed;

    pthread_mutex_lock(&c->lock);
    c->agreed = false;
    if (c->o.rank == 0)
        announce_locked(c, 0, call);
    else
        tr_frame_add(&c->wires[0].out, TR_FRAME_ANNOUNCE, call.p, call.n);
    wake_thread(c);
    while (atomic_load(&c->failed) == FR_OK && !c->agreed)
        pthread_cond_wait(&c->changed, &c->lock);
    agreed = c->agreed;
    pthread_mutex_unlock(&c->lock);
    return agreed ? FR_OK : tr_control_check(c, err);
}

void tr_control_note(struct tr_control *c, int64_t seq, const char *what)
{
    pthread_mutex_lock(&c->lock);
    c->mine.seq = seq;
    size_t n = what != NULL ? strnlen(what, TR_CONTROL_WHAT - 1) : 0;
    memset(c->mine.what, 0, TR_CONTROL_WHAT);
    if (n > 0)
        memcpy(c->mine.what, what, n);
    pthread_mutex_unlock(&c->lock);
}

void tr_control_abort(struct tr_control *c, enum fr_rc rc, const char *why)
{
    pthread_mutex_lock(&c->lock);
    fail_locked(c, rc, why);
    pthread_mutex_unlock(&c->lock);
    wake_thread(c);
}

size_t tr_control_behind(struct tr_control *c, struct fr_buf *out)
{
    size_t n = 0;

    pthread_mutex_lock(&c->lock);
    for (int r = 0; r < c->o.size; r++)
        if (r != c->o.rank && c->wires[r].fd >= 0 && c->wires[r].beat.seq < c->mine.seq) {
            fr_buf_text(out, n++ > 0 ? ", " : "");
            name_rank(c, r, out);
        }
    pthread_mutex_unlock(&c->lock);
    return n;
}

enum fr_rc tr_control_check(struct tr_control *c, struct fr_err *err)
{
    if (atomic_load(&c->failed) == FR_OK)
        return FR_OK;
    pthread_mutex_lock(&c->lock);
    enum fr_rc rc = fr_fail(err, c->why.rc, "%s", c->why.msg);
    pthread_mutex_unlock(&c->lock);
    return rc;
}

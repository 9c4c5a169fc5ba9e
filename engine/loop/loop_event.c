/* The loop of a real process, on libevent (manual: https://libevent.org/libevent-book/). Creating a
 * watch or a timer allocates all memory that it needs and may fail; want, arm and post cannot fail.
 * So each timer is always registered with libevent: one that is not armed is due in ten years. Each
 * watch is registered once when it is made. Posted calls are a list of our own, which each turn
 * empties. */
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/loop/loop_work.h"

#include <assert.h>
#include <event2/event.h>
#include <signal.h>
#include <stddef.h>
#include <sys/time.h>

enum { NEVER_S = 10 * 365 * 86400 };

struct event_loop {
    struct event_base *base;
    struct fr_post *first, **last;
    struct fr_workers *workers; /* owns; made for the first computation */
    struct fr_watch *wake;
    struct fr_loop_slow slow;
    int64_t began_ms; /* the first call of this turn; -1: none yet */
};

struct fr_watch {
    struct event_loop *loop;
    struct event *ev;
    fr_ready_fn *fn;
    void *arg;
    int fd; /* or the signal's number */
    int want;
    bool is_signal;
};

struct fr_timer {
    struct event_loop *loop;
    struct event *ev;
    fr_due_fn *fn;
    void *arg;
    int64_t due_ms;
};

/* From here on the turn is measured. */
static void begin_turn(struct event_loop *loop)
{
    if (loop->began_ms < 0)
        loop->began_ms = fr_sys.mono_ms();
}

/* The caller of turn() has finished its work for the turn before, commits included. */
static void end_turn(struct event_loop *loop)
{
    int64_t took = loop->began_ms < 0 ? 0 : fr_sys.mono_ms() - loop->began_ms;

    loop->slow.turns++;
    loop->began_ms = -1;
    if (took > loop->slow.longest_ms)
        loop->slow.longest_ms = took;
    if (took <= FR_LOOP_SLOW_MS)
        return;
    loop->slow.slow++;
    fr_log(FR_LOG_DEBUG, "loop", "turn_ms=%lld slow=%llu of=%llu", (long long)took,
           (unsigned long long)loop->slow.slow, (unsigned long long)loop->slow.turns);
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
    struct fr_watch *w = arg;
    begin_turn(w->loop);
    int got = ((what & EV_READ) ? FR_LOOP_READ : 0) | ((what & EV_WRITE) ? FR_LOOP_WRITE : 0);

    w->fn(w->arg, w->is_signal ? (int)fd : got);
}

static struct fr_watch *new_watch(struct event_loop *loop, int fd, fr_ready_fn *fn, void *arg)
{
    struct fr_watch *w = fr_sys.alloc(sizeof(*w));

    if (w != NULL)
        *w = (struct fr_watch){.loop = loop, .fd = fd, .fn = fn, .arg = arg};
    return w;
}

static void drop_watch(struct fr_watch *w)
{
    if (w->ev != NULL)
        event_free(w->ev);
    fr_sys.free(w);
}

/* w with its event added; NULL, and w freed: no memory. */
static struct fr_watch *registered(struct fr_watch *w)
{
    if (w == NULL || (w->ev != NULL && event_add(w->ev, NULL) == 0))
        return w;
    drop_watch(w);
    return NULL;
}

static enum fr_rc event_watch(void *self, int fd, fr_ready_fn *fn, void *arg, struct fr_watch **out)
{
    struct event_loop *loop = self;
    struct fr_watch *w = new_watch(loop, fd, fn, arg);

    if (w != NULL)
        w->ev = event_new(loop->base, fd, EV_READ | EV_PERSIST, on_event, w);
    *out = registered(w);
    if (*out == NULL)
        return FR_NOMEM;
    event_del(w->ev);
    return FR_OK;
}

static enum fr_rc event_on_signal(void *self, int signo, fr_ready_fn *fn, void *arg,
                                  struct fr_watch **out)
{
    struct event_loop *loop = self;
    struct fr_watch *w = new_watch(loop, signo, fn, arg);

    if (w != NULL) {
        w->is_signal = true;
        w->ev = evsignal_new(loop->base, signo, on_event, w);
    }
    *out = registered(w);
    return *out != NULL ? FR_OK : FR_NOMEM;
}

static void event_want(void *self, struct fr_watch *w, int what)
{
    short flags = EV_PERSIST;

    (void)self;
    assert(!w->is_signal);
    if (what == w->want)
        return;
    w->want = what;
    event_del(w->ev);
    if (what == 0)
        return;
    if (what & FR_LOOP_READ)
        flags |= EV_READ;
    if (what & FR_LOOP_WRITE)
        flags |= EV_WRITE;
    event_assign(w->ev, w->loop->base, w->fd, flags, on_event, w);
    event_add(w->ev, NULL);
}

static void event_unwatch(void *self, struct fr_watch *w)
{
    (void)self;
    drop_watch(w);
}

static int set_due(struct fr_timer *t)
{
    struct timeval tv = {.tv_sec = NEVER_S};
    int64_t in_ms = t->due_ms - fr_sys.mono_ms();

    if (t->due_ms >= 0) {
        tv.tv_sec = in_ms < 0 ? 0 : (time_t)(in_ms / 1000);
        tv.tv_usec = in_ms <= 0 ? 1 : (suseconds_t)(in_ms % 1000 * 1000); /* 0 is no time at all */
    }
    return event_add(t->ev, &tv);
}

static void on_due(evutil_socket_t fd, short what, void *arg)
{
    struct fr_timer *t = arg;

    (void)fd;
    (void)what;
    begin_turn(t->loop);
    if (t->due_ms < 0 || fr_sys.mono_ms() < t->due_ms) {
        set_due(t); /* libevent's clock rounds; ours decides */
        return;
    }
    t->due_ms = -1;
    set_due(t);
    t->fn(t->arg);
}

static enum fr_rc event_timer(void *self, fr_due_fn *fn, void *arg, struct fr_timer **out)
{
    struct event_loop *loop = self;
    struct fr_timer *t = fr_sys.alloc(sizeof(*t));

    *out = NULL;
    if (t == NULL)
        return FR_NOMEM;
    *t = (struct fr_timer){.loop = loop, .fn = fn, .arg = arg, .due_ms = -1};
    if ((t->ev = event_new(loop->base, -1, EV_PERSIST, on_due, t)) == NULL || set_due(t) != 0) {
        if (t->ev != NULL)
            event_free(t->ev);
        fr_sys.free(t);
        return FR_NOMEM;
    }
    *out = t;
    return FR_OK;
}

static void event_arm(void *self, struct fr_timer *t, int64_t due_ms)
{
    (void)self;
    t->due_ms = due_ms;
    set_due(t);
}

static void event_untimer(void *self, struct fr_timer *t)
{
    (void)self;
    event_free(t->ev);
    fr_sys.free(t);
}

static void event_post(void *self, struct fr_post *p)
{
    struct event_loop *loop = self;

    if (p->waiting)
        return;
    p->waiting = true;
    p->next = NULL;
    *loop->last = p;
    loop->last = &p->next;
}

static void event_withdraw(void *self, struct fr_post *p)
{
    struct event_loop *loop = self;

    if (!p->waiting)
        return;
    p->waiting = false;
    for (struct fr_post **at = &loop->first; *at != NULL; at = &(*at)->next) {
        if (*at != p)
            continue;
        *at = p->next;
        if (loop->last == &p->next)
            loop->last = at;
        return;
    }
}

static enum fr_rc event_turn(void *self, bool wait, struct fr_err *err)
{
    struct event_loop *loop = self;
    struct fr_post end = {.waiting = true}; /* marks where this turn's posts end */
    int flags = EVLOOP_ONCE;

    end_turn(loop);
    if (!wait || loop->first != NULL)
        flags |= EVLOOP_NONBLOCK;
    if (event_base_loop(loop->base, flags) < 0)
        return fr_fail(err, FR_IO, "waiting for events failed");
    begin_turn(loop);
    *loop->last = &end;
    loop->last = &end.next;
    while (loop->first != &end) {
        struct fr_post *p = loop->first;

        loop->first = p->next;
        p->waiting = false;
        p->run(p->arg);
    }
    event_withdraw(loop, &end);
    return FR_OK;
}

static void on_wake(void *arg, int what)
{
    struct event_loop *loop = arg;

    (void)what;
    fr_workers_deliver(loop->workers);
}

static enum fr_rc event_work(void *self, struct fr_work *w)
{
    struct event_loop *loop = self;
    int fd = -1;

    if (loop->workers == NULL && (loop->workers = fr_workers_create(&fd)) == NULL)
        return FR_NOMEM;
    if (loop->wake == NULL) {
        if (event_watch(loop, fd, on_wake, loop, &loop->wake) != FR_OK) {
            fr_workers_destroy(loop->workers);
            loop->workers = NULL;
            return FR_NOMEM;
        }
        event_want(loop, loop->wake, FR_LOOP_READ);
    }
    return fr_workers_start(loop->workers, w);
}

static bool event_forget(void *self, struct fr_work *w)
{
    struct event_loop *loop = self;

    return fr_workers_forget(loop->workers, w);
}

static struct fr_loop_slow event_slow(void *self)
{
    struct event_loop *loop = self;
    struct fr_loop_slow out = loop->slow;

    out.now_ms = loop->began_ms < 0 ? 0 : fr_sys.mono_ms() - loop->began_ms;
    return out;
}

static void event_destroy(void *self)
{
    struct event_loop *loop = self;

    if (loop->wake != NULL)
        drop_watch(loop->wake);
    fr_workers_destroy(loop->workers);
    event_base_free(loop->base);
    fr_sys.free(loop);
}

static const struct fr_loop_ops event_ops = {
    .name = "libevent",
    .watch = event_watch,
    .signal = event_on_signal,
    .want = event_want,
    .unwatch = event_unwatch,
    .timer = event_timer,
    .arm = event_arm,
    .untimer = event_untimer,
    .post = event_post,
    .withdraw = event_withdraw,
    .turn = event_turn,
    .work = event_work,
    .forget = event_forget,
    .slow = event_slow,
    .destroy = event_destroy,
};

static void *event_alloc(size_t n)
{
    return fr_sys.alloc(n);
}

static void *event_realloc(void *p, size_t n)
{
    return fr_sys.realloc(p, n);
}

static void event_free_memory(void *p)
{
    fr_sys.free(p);
}

enum fr_rc fr_loop_event_create(struct fr_loop *out, struct fr_err *err)
{
    struct event_loop *loop = fr_sys.alloc(sizeof(*loop));

    *out = (struct fr_loop){0};
    if (loop == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the event loop");
    event_set_mem_functions(event_alloc, event_realloc, event_free_memory);
    *loop = (struct event_loop){.base = event_base_new(), .began_ms = -1};
    if (loop->base == NULL) {
        fr_sys.free(loop);
        return fr_fail(err, FR_IO, "libevent cannot make an event loop");
    }
    loop->last = &loop->first;
    signal(SIGPIPE, SIG_IGN);
    *out = (struct fr_loop){&event_ops, loop};
    return FR_OK;
}

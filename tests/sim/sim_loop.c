/* The loop that the engine waits in, on the simulated clock. */
#include "tests/sim/sim.h"

struct fr_watch {
    struct fr_watch *next;
    int fd, what; /* fd -1: of a signal */
    int signo;
    bool dead;
    fr_ready_fn *fn;
    void *arg;
};

struct fr_timer {
    struct fr_timer *next;
    int64_t due_ms;
    bool dead;
    fr_due_fn *fn;
    void *arg;
};

struct sim_loop {
    struct fr_watch *watches;
    struct fr_timer *timers;
    struct fr_post *posts, **posts_last;
};

static enum fr_rc loop_watch(void *self, int fd, fr_ready_fn *fn, void *arg, struct fr_watch **out)
{
    struct sim_loop *l = self;

    if ((*out = fr_sys.alloc(sizeof(**out))) == NULL)
        return FR_NOMEM;
    **out = (struct fr_watch){.next = l->watches, .fd = fd, .fn = fn, .arg = arg};
    l->watches = *out;
    return FR_OK;
}

static enum fr_rc loop_signal(void *self, int signo, fr_ready_fn *fn, void *arg,
                              struct fr_watch **out)
{
    enum fr_rc rc = loop_watch(self, -1, fn, arg, out);

    if (rc == FR_OK) {
        (*out)->signo = signo;
        sim->cur->handled |= 1u << signo;
    }
    return rc;
}

static void loop_want(void *self, struct fr_watch *w, int what)
{
    (void)self;
    w->what = what;
}

static void loop_unwatch(void *self, struct fr_watch *w)
{
    (void)self;
    if (w == NULL)
        return;
    w->dead = true;
    if (w->fd < 0)
        sim->cur->handled &= ~(1u << w->signo);
}

static enum fr_rc loop_timer(void *self, fr_due_fn *fn, void *arg, struct fr_timer **out)
{
    struct sim_loop *l = self;

    if ((*out = fr_sys.alloc(sizeof(**out))) == NULL)
        return FR_NOMEM;
    **out = (struct fr_timer){.next = l->timers, .due_ms = -1, .fn = fn, .arg = arg};
    l->timers = *out;
    return FR_OK;
}

static void loop_arm(void *self, struct fr_timer *t, int64_t due_ms)
{
    (void)self;
    t->due_ms = due_ms;
}

static void loop_untimer(void *self, struct fr_timer *t)
{
    (void)self;
    if (t != NULL)
        t->dead = true;
}

static void loop_post(void *self, struct fr_post *p)
{
    struct sim_loop *l = self;

    if (p->waiting)
        return;
    p->waiting = true;
    p->next = NULL;
    *l->posts_last = p;
    l->posts_last = &p->next;
}

static void loop_withdraw(void *self, struct fr_post *p)
{
    struct sim_loop *l = self;

    if (!p->waiting)
        return;
    struct fr_post **at = &l->posts;
    while (*at != p)
        at = &(*at)->next;
    if ((*at = p->next) == NULL)
        l->posts_last = at;
    p->waiting = false;
}

static int fd_events(const struct fr_watch *w)
{
    struct pollfd p = {.fd = w->fd,
                       .events = (short)((w->what & FR_LOOP_READ ? POLLIN : 0) |
                                         (w->what & FR_LOOP_WRITE ? POLLOUT : 0))};

    if (w->dead || w->what == 0 || fr_sys.poll(&p, 1, 0) <= 0)
        return 0;
    return (p.revents & ~POLLOUT ? FR_LOOP_READ : 0) | (p.revents & POLLOUT ? FR_LOOP_WRITE : 0);
}

static bool watch_ready(const struct fr_watch *w)
{
    const struct sim_file *f = w->fd >= 0 && w->fd < SIM_FDS ? sim->cur->fds[w->fd] : NULL;

    if (w->fd < 0)
        return !w->dead && (sim->cur->pending >> w->signo & 1);
    if (w->dead || w->what == 0 || f == NULL)
        return false;
    if (f->kind == SIM_LISTEN)
        return f->n_queue > 0;
    if ((w->what & FR_LOOP_READ) && f->rd != NULL && (f->rd->n > 0 || f->rd->writers == 0))
        return true;
    return (w->what & FR_LOOP_WRITE) && f->wr != NULL &&
           (f->wr->n < SIM_PIPE_BYTES || f->wr->readers == 0);
}

struct loop_wait {
    struct sim_loop *l;
    struct sim_proc *p;
};

static bool loop_ready(void *arg)
{
    const struct loop_wait *w = arg;
    struct sim_proc *before = sim->cur;
    bool yes = w->l->posts != NULL || sim_links_pending(sim, w->p);

    sim->cur = w->p;
    for (const struct fr_watch *v = w->l->watches; v != NULL && !yes; v = v->next)
        yes = watch_ready(v);
    for (const struct fr_timer *t = w->l->timers; t != NULL && !yes; t = t->next)
        yes = !t->dead && t->due_ms >= 0 && t->due_ms <= fr_sys.mono_ms();
    sim->cur = before;
    return yes;
}

/* Those posted meanwhile wait for the next turn. */
static void run_posts(struct sim_loop *l)
{
    size_t n = 0;

    for (const struct fr_post *p = l->posts; p != NULL; p = p->next)
        n++;
    while (n-- > 0 && l->posts != NULL) {
        struct fr_post *p = l->posts;
        loop_withdraw(l, p);
        p->run(p->arg);
    }
}

static void reap(struct sim_loop *l)
{
    for (struct fr_watch **at = &l->watches; *at != NULL;) {
        struct fr_watch *w = *at;
        if (w->dead) {
            *at = w->next;
            fr_sys.free(w);
        } else {
            at = &w->next;
        }
    }
    for (struct fr_timer **at = &l->timers; *at != NULL;) {
        struct fr_timer *t = *at;
        if (t->dead) {
            *at = t->next;
            fr_sys.free(t);
        } else {
            at = &t->next;
        }
    }
}

static int64_t next_due_us(const struct sim_loop *l)
{
    int64_t due = INT64_MAX;

    for (const struct fr_timer *t = l->timers; t != NULL; t = t->next)
        if (!t->dead && t->due_ms >= 0) {
            int64_t us = sim->now_us + (t->due_ms - fr_sys.mono_ms()) * 1000;
            us += 1000 - us % 1000; /* the clock's next millisecond is behind it */
            due = us < due ? us : due;
        }
    return due;
}

static enum fr_rc loop_turn(void *self, bool wait, struct fr_err *err)
{
    struct sim_loop *l = self;
    struct loop_wait w = {l, sim->cur};

    (void)err;
    sim_step();
    if (wait)
        sim_block(loop_ready, &w, next_due_us(l));
    run_posts(l);
    for (struct fr_timer *t = l->timers; t != NULL; t = t->next)
        if (!t->dead && t->due_ms >= 0 && t->due_ms <= fr_sys.mono_ms()) {
            t->due_ms = -1;
            t->fn(t->arg);
        }
    for (struct fr_watch *v = l->watches; v != NULL; v = v->next) {
        int what = v->fd >= 0 ? fd_events(v) : 0;
        if (v->fd < 0 && watch_ready(v)) {
            sim->cur->pending &= ~(1u << v->signo);
            v->fn(v->arg, v->signo);
        }
        if (what != 0)
            v->fn(v->arg, what);
    }
    sim_links_tell(sim);
    reap(l);
    return FR_OK;
}

static void loop_destroy(void *self)
{
    reap(self);
    fr_sys.free(self);
}

enum fr_rc sim_loop_create(struct fr_loop *loop, struct fr_err *err)
{
    static const struct fr_loop_ops ops = {.name = "sim",
                                           .watch = loop_watch,
                                           .signal = loop_signal,
                                           .want = loop_want,
                                           .unwatch = loop_unwatch,
                                           .timer = loop_timer,
                                           .arm = loop_arm,
                                           .untimer = loop_untimer,
                                           .post = loop_post,
                                           .withdraw = loop_withdraw,
                                           .turn = loop_turn,
                                           .destroy = loop_destroy};
    struct sim_loop *l = fr_sys.alloc(sizeof(*l));

    if (l == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the loop");
    *l = (struct sim_loop){0};
    l->posts_last = &l->posts;
    *loop = (struct fr_loop){&ops, l};
    return FR_OK;
}

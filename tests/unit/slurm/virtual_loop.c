#include "tests/unit/slurm/virtual_loop.h"

#include "engine/base/sys.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FDS = 16, LOOK_MS = 2, LOOK_US = 500 };

struct fr_watch {
    struct fr_watch *next;
    int fd, what;
    fr_ready_fn *fn;
    void *arg;
};

struct fr_timer {
    struct fr_timer *next;
    int64_t due_ms; /* -1: off */
    fr_due_fn *fn;
    void *arg;
};

static struct virtual_loop *only; /* hooks of fr_sys have no argument */

static int64_t virtual_mono(void)
{
    return only->now_ms;
}

static int64_t virtual_wall(void)
{
    return only->now_ms + only->wall_offset_ms;
}

static bool hangs(void)
{
    return access(only->hanging, F_OK) == 0;
}

/* Whoever asks without waiting asks after the child closed its output: it is about to end. */
static int virtual_wait(pid_t pid, struct fr_wait *w, int flags)
{
    for (;;) {
        int rc = fr_sys_real.wait(pid, w, flags);

        if (rc != 0 || w->pid != 0 || hangs())
            return rc;
        usleep(LOOK_US);
    }
}

static enum fr_rc v_watch(void *self, int fd, fr_ready_fn *fn, void *arg, struct fr_watch **out)
{
    struct virtual_loop *v = self;

    *out = malloc(sizeof(**out));
    assert(*out != NULL);
    **out = (struct fr_watch){v->watches, fd, 0, fn, arg};
    v->watches = *out;
    return FR_OK;
}

static void v_want(void *self, struct fr_watch *w, int what)
{
    (void)self;
    w->what = what;
}

static void v_unwatch(void *self, struct fr_watch *w)
{
    struct fr_watch **at = &((struct virtual_loop *)self)->watches;

    if (w == NULL)
        return;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    free(w);
}

static enum fr_rc v_timer(void *self, fr_due_fn *fn, void *arg, struct fr_timer **out)
{
    struct virtual_loop *v = self;

    *out = malloc(sizeof(**out));
    assert(*out != NULL);
    **out = (struct fr_timer){v->timers, -1, fn, arg};
    v->timers = *out;
    return FR_OK;
}

static void v_arm(void *self, struct fr_timer *t, int64_t due_ms)
{
    (void)self;
    t->due_ms = due_ms;
}

static void v_untimer(void *self, struct fr_timer *t)
{
    struct fr_timer **at = &((struct virtual_loop *)self)->timers;

    if (t == NULL)
        return;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    free(t);
}

static void v_post(void *self, struct fr_post *p)
{
    struct virtual_loop *v = self;

    if (p->waiting)
        return;
    p->waiting = true;
    p->next = NULL;
    *v->last = p;
    v->last = &p->next;
}

static void v_withdraw(void *self, struct fr_post *p)
{
    struct virtual_loop *v = self;
    struct fr_post **at = &v->first;

    if (!p->waiting)
        return;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    if (p->next == NULL)
        v->last = at;
    p->waiting = false;
}

static bool make_posts(struct virtual_loop *v)
{
    struct fr_post *p = v->first;

    if (p == NULL)
        return false;
    v_withdraw(v, p);
    p->run(p->arg);
    return true;
}

/* Waits for a child's descriptor, unless it hangs, and makes its call. */
static bool make_ready(struct virtual_loop *v)
{
    struct pollfd fds[FDS];
    struct fr_watch *of[FDS];
    nfds_t n = 0;
    int ready = 0;

    for (struct fr_watch *w = v->watches; w != NULL && n < FDS; w = w->next)
        if (w->what != 0) {
            of[n] = w;
            fds[n++] = (struct pollfd){
                .fd = w->fd, .events = (short)(w->what & FR_LOOP_READ ? POLLIN : POLLOUT)};
        }
    if (n == 0) {
        unlink(v->hanging);
        return false;
    }
    while ((ready = poll(fds, n, LOOK_MS)) == 0 || (ready < 0 && errno == EINTR))
        if (hangs())
            return false;
    for (nfds_t i = 0; i < n; i++)
        if (fds[i].revents != 0) {
            of[i]->fn(of[i]->arg, of[i]->what);
            return true;
        }
    return false;
}

static bool make_due(struct virtual_loop *v)
{
    for (struct fr_timer *t = v->timers; t != NULL; t = t->next)
        if (t->due_ms >= 0 && t->due_ms <= v->now_ms) {
            t->due_ms = -1;
            t->fn(t->arg);
            return true;
        }
    return false;
}

bool virtual_loop_work(struct virtual_loop *v)
{
    return make_posts(v) || make_due(v) || make_ready(v);
}

void virtual_loop_until(struct virtual_loop *v, int64_t ms)
{
    for (;;) {
        int64_t next = ms;

        while (virtual_loop_work(v))
            ;
        for (struct fr_timer *t = v->timers; t != NULL; t = t->next)
            if (t->due_ms >= 0 && t->due_ms < next)
                next = t->due_ms;
        if (v->now_ms >= ms)
            return;
        v->now_ms = next;
    }
}

static enum fr_rc v_turn(void *self, bool wait, struct fr_err *err)
{
    (void)wait;
    (void)err;
    virtual_loop_work(self);
    return FR_OK;
}

void virtual_loop_open(struct virtual_loop *v, const char *hanging)
{
    static const struct fr_loop_ops ops = {.name = "virtual",
                                           .watch = v_watch,
                                           .want = v_want,
                                           .unwatch = v_unwatch,
                                           .timer = v_timer,
                                           .arm = v_arm,
                                           .untimer = v_untimer,
                                           .post = v_post,
                                           .withdraw = v_withdraw,
                                           .turn = v_turn};

    *v = (struct virtual_loop){.now_ms = 1000000, .wall_offset_ms = 1700000000000};
    snprintf(v->hanging, sizeof(v->hanging), "%s", hanging);
    v->loop = (struct fr_loop){&ops, v};
    v->last = &v->first;
    only = v;
    fr_sys.mono_ms = virtual_mono;
    fr_sys.wall_ms = virtual_wall;
    fr_sys.wait = virtual_wait;
}

void virtual_loop_close(struct virtual_loop *v)
{
    assert(v->watches == NULL && v->timers == NULL && v->first == NULL);
    fr_sys = fr_sys_real;
    only = NULL;
}

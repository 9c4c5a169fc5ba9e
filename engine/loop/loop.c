#include "engine/loop/loop.h"

#include "engine/base/sys.h"

#include <stddef.h>

enum fr_rc fr_loop_watch(struct fr_loop *l, int fd, fr_ready_fn *fn, void *arg,
                         struct fr_watch **out)
{
    return l->ops->watch(l->self, fd, fn, arg, out);
}

enum fr_rc fr_loop_signal(struct fr_loop *l, int signo, fr_ready_fn *fn, void *arg,
                          struct fr_watch **out)
{
    return l->ops->signal(l->self, signo, fn, arg, out);
}

void fr_loop_want(struct fr_loop *l, struct fr_watch *w, int what)
{
    l->ops->want(l->self, w, what);
}

void fr_loop_unwatch(struct fr_loop *l, struct fr_watch **w)
{
    if (*w != NULL)
        l->ops->unwatch(l->self, *w);
    *w = NULL;
}

enum fr_rc fr_loop_timer(struct fr_loop *l, fr_due_fn *fn, void *arg, struct fr_timer **out)
{
    return l->ops->timer(l->self, fn, arg, out);
}

void fr_loop_arm(struct fr_loop *l, struct fr_timer *t, int64_t due_ms)
{
    l->ops->arm(l->self, t, due_ms);
}

void fr_loop_arm_in(struct fr_loop *l, struct fr_timer *t, int64_t delay_ms)
{
    l->ops->arm(l->self, t, fr_sys.mono_ms() + delay_ms);
}

void fr_loop_untimer(struct fr_loop *l, struct fr_timer **t)
{
    if (*t != NULL)
        l->ops->untimer(l->self, *t);
    *t = NULL;
}

void fr_loop_post(struct fr_loop *l, struct fr_post *p)
{
    l->ops->post(l->self, p);
}

void fr_loop_withdraw(struct fr_loop *l, struct fr_post *p)
{
    l->ops->withdraw(l->self, p);
}

static void work_over(void *work)
{
    struct fr_work *w = work;

    w->over(w->arg);
}

enum fr_rc fr_loop_work(struct fr_loop *l, struct fr_work *w)
{
    if (l->ops->work != NULL)
        return l->ops->work(l->self, w);
    w->post = (struct fr_post){.run = work_over, .arg = w};
    w->run(w->arg);
    fr_loop_post(l, &w->post);
    return FR_OK;
}

bool fr_loop_forget(struct fr_loop *l, struct fr_work *w)
{
    if (l->ops->forget != NULL)
        return l->ops->forget(l->self, w);
    fr_loop_withdraw(l, &w->post);
    return true;
}

struct closing {
    struct fr_work work;
    int fd;
};

static void close_it(void *arg)
{
    struct closing *c = arg;

    fr_sys.close(c->fd);
}

void fr_loop_close(struct fr_loop *l, int fd)
{
    struct closing *c = l->ops->work != NULL ? fr_sys.alloc(sizeof(*c)) : NULL;

    if (c != NULL) {
        *c = (struct closing){.fd = fd};
        c->work =
            (struct fr_work){.run = close_it, .over = fr_sys.free, .drop = fr_sys.free, .arg = c};
    }
    if (c != NULL && l->ops->work(l->self, &c->work) == FR_OK)
        return;
    fr_sys.free(c);
    fr_sys.close(fd);
}

struct fr_loop_slow fr_loop_slow(struct fr_loop *l)
{
    return l->ops->slow != NULL ? l->ops->slow(l->self) : (struct fr_loop_slow){0};
}

enum fr_rc fr_loop_turn(struct fr_loop *l, bool wait, struct fr_err *err)
{
    return l->ops->turn(l->self, wait, err);
}

void fr_loop_destroy(struct fr_loop *l)
{
    if (l == NULL || l->ops == NULL)
        return;
    l->ops->destroy(l->self);
    *l = (struct fr_loop){0};
}

/* A call that a dead file system may hold for ever, in a thread of its own that is left then. */
#include "engine/base/within.h"

#include "engine/base/sys.h"
#include "engine/base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

struct within {
    void (*run)(void *arg);
    void (*drop)(void *arg);
    void *arg;
    pthread_mutex_t lock; /* for the two below */
    bool over;            /* run has returned */
    bool left;            /* nobody waits: the thread frees all */
    int fds[2];           /* a byte when it is over */
};

static void free_it(struct within *w)
{
    pthread_mutex_destroy(&w->lock);
    fr_sys.free(w);
}

static void *in_thread(void *arg)
{
    struct within *w = arg;
    bool left;

    w->run(w->arg);
    pthread_mutex_lock(&w->lock);
    w->over = true;
    left = w->left;
    if (!left)
        (void)!write(w->fds[1], "", 1);
    pthread_mutex_unlock(&w->lock);
    if (left) {
        fr_threads_leave(-1);
        w->drop(w->arg);
        free_it(w);
    }
    return NULL;
}

static int start(struct within *w)
{
    pthread_attr_t attr;
    pthread_t thread;
    int rc;

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    rc = fr_thread_start(&thread, &attr, in_thread, w);
    pthread_attr_destroy(&attr);
    return rc;
}

/* Blocks all signals, whose mask was *before; *others: without those that ask to stop. */
static void block(sigset_t *before, sigset_t *others)
{
    static const int stops[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

    sigfillset(others);
    pthread_sigmask(SIG_SETMASK, others, before);
    for (size_t i = 0; i < sizeof(stops) / sizeof(stops[0]); i++)
        if (!sigismember(before, stops[i]))
            sigdelset(others, stops[i]);
}

static int fail(struct within *w, int why, void (*drop)(void *arg), void *arg)
{
    fr_sys.free(w);
    drop(arg);
    errno = why;
    return 0;
}

static void hang_up(const struct within *w)
{
    close(w->fds[0]);
    close(w->fds[1]);
}

int fr_within(int64_t ms, void (*run)(void *arg), void (*drop)(void *arg), void *arg)
{
    bool full = fr_threads_full();
    struct within *w = full ? NULL : fr_sys.alloc(sizeof(*w));
    int64_t until = fr_sys_real.mono_ms() + ms, left_ms = ms;
    sigset_t before, others;
    int rc, why;

    if (w == NULL || pipe2(w->fds, O_CLOEXEC) != 0)
        return fail(w, full ? EAGAIN : ENOMEM, drop, arg);
    w->run = run;
    w->drop = drop;
    w->arg = arg;
    w->over = w->left = false;
    pthread_mutex_init(&w->lock, NULL);
    block(&before, &others); /* a stop signal interrupts the wait, nothing before it */
    if (start(w) != 0) {
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        hang_up(w);
        pthread_mutex_destroy(&w->lock);
        return fail(w, ENOMEM, drop, arg);
    }
    do {
        struct pollfd p = {.fd = w->fds[0], .events = POLLIN};
        struct timespec left = {left_ms / 1000, left_ms % 1000 * 1000000};

        rc = ppoll(&p, 1, &left, &others);
        why = rc < 0 ? errno : ETIMEDOUT;
        left_ms = until - fr_sys_real.mono_ms();
    } while (rc == 0 && left_ms > 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_mutex_lock(&w->lock);
    rc = w->over;
    w->left = !w->over;
    if (w->left)
        fr_threads_leave(1);
    hang_up(w); /* who is left writes nothing */
    pthread_mutex_unlock(&w->lock);
    if (rc)
        free_it(w);
    errno = why;
    return rc;
}

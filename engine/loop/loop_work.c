#include "engine/loop/loop_work.h"

#include "engine/base/sys.h"
#include "engine/base/thread.h"

#include <pthread.h>
#include <unistd.h>

struct fr_workers {
    pthread_mutex_t lock; /* for all below */
    size_t users;         /* threads, and the loop */
    bool closed;          /* the loop is gone */
    int fd[2];
    struct fr_work *over; /* has ended, and was not delivered */
};

struct fr_workers *fr_workers_create(int *wake_fd)
{
    struct fr_workers *m = fr_sys.alloc(sizeof(*m));

    if (m == NULL)
        return NULL;
    *m = (struct fr_workers){.users = 1, .fd = {-1, -1}};
    pthread_mutex_init(&m->lock, NULL);
    if (fr_sys.pipe(m->fd) != 0) {
        fr_workers_destroy(m);
        return NULL;
    }
    fr_sys.set_nonblock(m->fd[0], true);
    fr_sys.set_nonblock(m->fd[1], true); /* one byte is as good as many */
    *wake_fd = m->fd[0];
    return m;
}

/* Unlocks; the last user frees. */
static void let_go(struct fr_workers *m)
{
    bool last = --m->users == 0;

    pthread_mutex_unlock(&m->lock);
    if (!last)
        return;
    for (int i = 0; i < 2; i++)
        if (m->fd[i] >= 0)
            fr_sys.close(m->fd[i]);
    pthread_mutex_destroy(&m->lock);
    fr_sys.free(m);
}

static void *in_thread(void *arg)
{
    struct fr_work *w = arg;
    struct fr_workers *m = w->in;
    bool closed;

    w->run(w->arg);
    pthread_mutex_lock(&m->lock);
    closed = m->closed;
    if (w->left)
        fr_threads_leave(-1);
    if (!closed) {
        w->next = m->over;
        m->over = w;
        (void)!write(m->fd[1], "", 1); /* a full pipe wakes as well */
    }
    let_go(m);
    if (closed)
        w->drop(w->arg);
    return NULL;
}

enum fr_rc fr_workers_start(struct fr_workers *m, struct fr_work *w)
{
    pthread_attr_t attr;
    pthread_t thread;
    int rc;

    if (fr_threads_full())
        return FR_NOMEM;
    w->in = m;
    w->left = false;
    pthread_mutex_lock(&m->lock);
    m->users++;
    pthread_mutex_unlock(&m->lock);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    rc = fr_thread_start(&thread, &attr, in_thread, w);
    pthread_attr_destroy(&attr);
    if (rc == 0)
        return FR_OK;
    pthread_mutex_lock(&m->lock);
    m->users--;
    pthread_mutex_unlock(&m->lock);
    return FR_NOMEM;
}

bool fr_workers_forget(struct fr_workers *m, struct fr_work *w)
{
    bool ended = false;

    pthread_mutex_lock(&m->lock);
    for (struct fr_work **at = &m->over; *at != NULL && !ended; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            ended = true;
            break;
        }
    if (!ended) {
        w->over = w->drop;
        if (!w->left) /* who waits for it forgets it again and again */
            fr_threads_leave(1);
        w->left = true;
    }
    pthread_mutex_unlock(&m->lock);
    return ended;
}

void fr_workers_deliver(struct fr_workers *m)
{
    char bytes[64];

    while (read(m->fd[0], bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes))
        ;
    for (;;) {
        struct fr_work *w;

        pthread_mutex_lock(&m->lock);
        if ((w = m->over) != NULL)
            m->over = w->next;
        pthread_mutex_unlock(&m->lock);
        if (w == NULL)
            return;
        w->over(w->arg);
    }
}

void fr_workers_destroy(struct fr_workers *m)
{
    struct fr_work *over;

    if (m == NULL)
        return;
    pthread_mutex_lock(&m->lock);
    m->closed = true;
    over = m->over;
    m->over = NULL;
    let_go(m);
    while (over != NULL) {
        struct fr_work *w = over;

        over = w->next;
        w->drop(w->arg);
    }
}

#include "engine/base/thread.h"

#include "engine/base/log.h"

#include <signal.h>
#include <stdatomic.h>

int fr_thread_start(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *arg), void *arg)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(out, attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static atomic_int left;

void fr_threads_leave(int change)
{
    if (atomic_fetch_add(&left, change) + change == FR_THREADS_LEFT && change > 0)
        fr_log(FR_LOG_WARN, "threads",
               "%d threads hang, or are at work that nobody waits for any more: no other one is "
               "begun for such work until one of them ends (does a file system not answer?)",
               FR_THREADS_LEFT);
}

bool fr_threads_full(void)
{
    return atomic_load(&left) >= FR_THREADS_LEFT;
}

#include "engine/base/thread.h"

#include <signal.h>

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

/*
 * Threads that take no signals: a signal goes to the thread that waits for it, and interrupts no
 * call of another one.
 */
#ifndef FR_BASE_THREAD_H
#define FR_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* pthread_create(3) with all signals blocked in the new thread: 0, or the number of an error. */
int fr_thread_start(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *arg), void *arg);

/* Counts abandoned threads, which a dead file system may hold for ever: +1 when one is abandoned,
 * -1 when it ends after all. At FR_THREADS_LEFT no further thread may be started that might be
 * abandoned. */
enum { FR_THREADS_LEFT = 100 };
void fr_threads_leave(int change);
bool fr_threads_full(void);

#endif

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

/* Threads that nobody waits for any more, which a dead file system may hold for ever: +1 when one
 * is left, -1 when it ends after all. With FR_THREADS_LEFT of them no other one is to be begun that
 * may have to be left, so that there are some for all else. */
enum { FR_THREADS_LEFT = 100 };
void fr_threads_leave(int change);
bool fr_threads_full(void);

#endif

/*
 * Threads that take no signals: a signal goes to the thread that waits for it, and interrupts no
 * call of another one.
 */
#ifndef FR_BASE_THREAD_H
#define FR_BASE_THREAD_H

#include <pthread.h>

/* pthread_create(3) with all signals blocked in the new thread: 0, or the number of an error. */
int fr_thread_start(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *arg), void *arg);

#endif

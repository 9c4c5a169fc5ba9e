/*
 * `flownode serve`: one connection of an engine. It speaks wire over two descriptors, starts
 * supervisors, talks to live ones and cleans up after dead ones. It ends when its input ends; the
 * supervisors go on.
 */
#ifndef FR_NODE_SERVE_H
#define FR_NODE_SERVE_H

#include "engine/base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct fr_serve_args {
    const char *home;           /* folder; made when it is not there */
    const char *self;           /* absolute path of this program, for FR_ARGV_FLOWNODE */
    const char *build;          /* its build id, for hello */
    const char *const *environ; /* NULL-terminated */
    int in, out;                /* set non-blocking; not closed */
    size_t descriptors;         /* limit of open ones: further attempts wait; 0: no limit */
    /* Names of further variables of environ that attempts get; ended by NULL. NULL: none. */
    const char *const *passed;
    const volatile bool *closing; /* once true, no attempt starts; NULL: never. Shared memory */
    volatile int64_t *heard_ms;   /* set to mono_ms() with each input; NULL. Shared memory */
    bool answers;                 /* srun brings the input: pieces are answered (wire.h) */
};

/* FR_OK when the input ended. FR_PROTO: the other side broke the protocol, or a newer connection
 * took over. */
enum fr_rc fr_serve(const struct fr_serve_args *a, struct fr_err *err);

#endif

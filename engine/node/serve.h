/*
 * `flownode serve`: one connection of an engine. It speaks wire over two descriptors, starts
 * supervisors, talks to those that live, clears up after those that died, and ends when its input
 * ends; supervisors go on.
 */
#ifndef FR_NODE_SERVE_H
#define FR_NODE_SERVE_H

#include "engine/base/err.h"

struct fr_serve_args {
    const char *home;           /* folder; made when it is not there */
    const char *self;           /* absolute path of this program, for FR_ARGV_FLOWNODE */
    const char *build;          /* its id of the linker, for hello */
    const char *const *environ; /* NULL-terminated */
    int in, out;                /* set non-blocking; not closed */
    size_t descriptors; /* that it may have open: attempts beyond that wait; 0: any number */
};

/* FR_OK when the input ended. FR_PROTO: the other side broke the protocol, or a newer connection
 * took over. */
enum fr_rc fr_serve(const struct fr_serve_args *a, struct fr_err *err);

#endif

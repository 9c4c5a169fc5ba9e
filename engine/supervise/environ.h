/* The environment of an attempt's command; request.h lists its variables. */
#ifndef FR_SUPERVISE_ENVIRON_H
#define FR_SUPERVISE_ENVIRON_H

#include "engine/base/arena.h"
#include "engine/wire/request.h"

/* *out: the variables of environ ("K=V", NULL-terminated) that every command gets, and those named
 * in passed (NULL-terminated; NULL: none). False without memory. */
bool fr_environ_base(const char *const *environ, const char *const *passed, struct fr_arena *arena,
                     struct fr_strs *out);
/* Adds to *to the variables of from that are named in passed. False without memory. */
bool fr_environ_pass(struct fr_strs *to, const struct fr_strs *from, const char *const *passed,
                     struct fr_arena *arena);

/* NULL-terminated vector of the lists in order, the last of a name winning; NULL without memory. */
const char **fr_environ_make(const struct fr_strs *const *lists, size_t n, struct fr_arena *arena);

/* The value of a variable in a vector of "K=V"; "": it is not there. */
const char *fr_environ_value(const char *const *v, const char *name);

/* Completes a vector of fr_environ_make: FLOWRUN_WORK becomes absolute, "~/" and a relative path
 * being below the user's home as base (fr_environ_base) has it; and the folders of all
 * FLOWRUN_PROGRAM_* come first in PATH. False without memory. */
bool fr_environ_finish(const char **v, const struct fr_strs *base, struct fr_arena *arena);
/* Makes only FLOWRUN_WORK of a list absolute: a shim has the home of its container. */
bool fr_environ_work(struct fr_strs *list, const struct fr_strs *base, struct fr_arena *arena);

/* Texts of a list as a NULL-terminated vector in arena; NULL without memory. */
const char **fr_vector(const struct fr_strs *list, struct fr_arena *arena);

#endif

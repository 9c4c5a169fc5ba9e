/* The environment of an attempt's command (request.h says what it holds). */
#ifndef FR_NODE_ENVIRON_H
#define FR_NODE_ENVIRON_H

#include "engine/base/arena.h"
#include "engine/wire/request.h"

/* Of environ ("K=V", NULL-terminated) what every command gets. */
bool fr_environ_base(const char *const *environ, struct fr_arena *arena, struct fr_strs *out);

/* NULL-terminated vector of the lists in order, the last of a name winning; NULL without memory. */
const char **fr_environ_make(const struct fr_strs *const *lists, size_t n, struct fr_arena *arena);

/* Last touches on what fr_environ_make gave: "~/" in FLOWRUN_WORK becomes the user's home, and the
 * folders of all FLOWRUN_PROGRAM_* stand in front of PATH. False without memory. */
bool fr_environ_finish(const char **v, struct fr_arena *arena);

/* Texts of a list as a NULL-terminated vector in arena; NULL without memory. */
const char **fr_vector(const struct fr_strs *list, struct fr_arena *arena);

#endif

/* Why a built-in task failed, in its own words: the "error" of the JSON line that it ends with
 * (tasks/job.h), else the last line of its output. */
#ifndef FR_SUPERVISE_REASON_H
#define FR_SUPERVISE_REASON_H

#include "engine/base/arena.h"
#include "engine/base/str.h"
#include "engine/wire/request.h"

#include <stdint.h>

/* A copy of an error's text in the arena. Never empty, also without memory: an empty text would
 * mean success. */
struct fr_str fr_reason_keep(const char *text, struct fr_arena *arena);

/* The reason in text, the last part of an output; whole: text is all of the output. Skips lines of
 * sidecars ("[NAME] …"; none with sidecars->n 0). In the arena; empty: there is no reason. */
struct fr_str fr_reason_of(struct fr_str text, bool whole, const struct fr_sidecars *sidecars,
                           struct fr_arena *arena);

/* The same of the file's first size bytes. A read error counts as no reason. */
struct fr_str fr_reason_read(int fd, uint64_t size, const struct fr_sidecars *sidecars,
                             struct fr_arena *arena);

#endif

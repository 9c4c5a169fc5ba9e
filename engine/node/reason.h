/* Why a built-in task failed, in its own words: the "error" of the JSON line that it ends with
 * (tasks/job.h), else the last line of its output. */
#ifndef FR_NODE_REASON_H
#define FR_NODE_REASON_H

#include "engine/base/arena.h"
#include "engine/base/str.h"

#include <stdint.h>

/* A copy of an error's text in the arena; without memory for it still some text: an end with one is
 * not taken for one that went well. */
struct fr_str fr_reason_keep(const char *text, struct fr_arena *arena);

/* text is the end of an output; whole: its beginning, too. Empty: it says nothing. In the arena. */
struct fr_str fr_reason_of(struct fr_str text, bool whole, struct fr_arena *arena);

/* The same of the file's first size bytes. */
struct fr_str fr_reason_read(int fd, uint64_t size, struct fr_arena *arena);

#endif

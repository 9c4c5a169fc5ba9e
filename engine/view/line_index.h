/*
 * Where lines of logs begin, so that one is found by its number without reading what is before it:
 * the offset of every 1,024th, 8 bytes each. A log's index grows with it. May be used by several
 * threads: one at a time reads or extends a log's index.
 */
#ifndef FR_VIEW_LINE_INDEX_H
#define FR_VIEW_LINE_INDEX_H

#include "engine/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct host_lines; /* of several logs: the newest asked for */

struct host_lines *host_lines_create(void);                  /* NULL: no memory */
struct host_lines *host_lines_use(struct host_lines *lines); /* one more user */
void host_lines_leave(struct host_lines *lines); /* the last one frees it; NULL is fine */

struct host_line_at {
    uint64_t lines;  /* how many there are; the last one may have no newline yet */
    uint64_t bytes;  /* of the log */
    uint64_t offset; /* of the line asked for; bytes: there is none of that number */
};

/* Extends the index of the log behind fd up to its end, and finds line no (from 1). key names the
 * log. Reads at most 1,024 lines behind what the index knows. */
enum fr_rc host_lines_find(struct host_lines *lines, const char *key, int fd, uint64_t no,
                           struct host_line_at *out, struct fr_err *err);

#endif

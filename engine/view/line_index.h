/*
 * Offsets of log lines, so that a line is found by its number: the offset of every 1,024th line, 8
 * bytes each. An index grows with its log. Thread-safe: one thread at a time reads or extends an
 * index.
 */
#ifndef FR_VIEW_LINE_INDEX_H
#define FR_VIEW_LINE_INDEX_H

#include "engine/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct line_index; /* of several logs: the newest asked for */

struct line_index *line_index_create(void);                  /* NULL: no memory */
struct line_index *line_index_use(struct line_index *lines); /* adds a reference */
void line_index_leave(struct line_index *lines); /* drops one; the last frees; NULL is fine */

struct host_line_at {
    uint64_t lines;  /* how many there are; the last one may have no newline yet */
    uint64_t bytes;  /* of the log */
    uint64_t offset; /* of the line asked for; bytes: there is none of that number */
};

/* Extends the index of the log behind fd up to its end, and finds line no (from 1). key names the
 * log. Reads at most 1,024 lines behind what the index knows. */
enum fr_rc line_index_find(struct line_index *lines, const char *key, int fd, uint64_t no,
                           struct host_line_at *out, struct fr_err *err);

#endif

/*
 * Offsets of log lines, so that a line is found by its number: the offset of every 1,024th line, 8
 * bytes each. An index grows with its log. Thread-safe: a lock inside admits one thread at a time.
 */
#ifndef FR_VIEW_LINE_INDEX_H
#define FR_VIEW_LINE_INDEX_H

#include "engine/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct line_index; /* indexes of the logs that were asked for last */

struct line_index *line_index_create(void);                  /* NULL: no memory */
struct line_index *line_index_use(struct line_index *lines); /* adds a reference */
void line_index_leave(struct line_index *lines); /* drops one; the last frees; NULL is fine */

struct host_line_at {
    uint64_t lines;  /* how many there are; the last one may have no newline yet */
    uint64_t bytes;  /* of the log */
    uint64_t offset; /* of the line asked for; bytes: there is none of that number */
};

/* Extends the index of the log fd to the end of the file, and finds line no (from 1) by reading at
 * most 1,024 lines from the nearest indexed one. key: any text that is unique to the log. */
enum fr_rc line_index_find(struct line_index *lines, const char *key, int fd, uint64_t no,
                           struct host_line_at *out, struct fr_err *err);

#endif

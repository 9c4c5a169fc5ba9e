/*
 * The index of a log: a file beside it with marks in ascending order, each the time at which the
 * bytes from an offset on were written: milliseconds since 1970 by the clock of the process that
 * writes the index. Marks are in the machine's byte order: an index never leaves its machine.
 */
#ifndef FR_BASE_MARK_H
#define FR_BASE_MARK_H

#include <stdint.h>

struct fr_log_mark {
    uint64_t offset;
    int64_t ms;
};

/* The newest mark at or before offset, zero if there is none. *next: the offset of the next mark;
 * UINT64_MAX: none. fd: the index file; -1, or one that cannot be read, counts as empty. */
struct fr_log_mark fr_log_mark_find(int fd, uint64_t offset, uint64_t *next);

#endif

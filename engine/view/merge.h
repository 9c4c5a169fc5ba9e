/*
 * The logs of many attempts as one text: line by line, the oldest first; the order inside one
 * attempt is never changed. However many logs there are, and however long their lines, few files
 * are open at a time and little memory is held. A line of more than FR_LINE_MAX bytes is shown in
 * pieces.
 */
#ifndef FR_VIEW_MERGE_H
#define FR_VIEW_MERGE_H

#include "engine/base/err.h"
#include "engine/base/str.h"

#include <stdbool.h>
#include <stddef.h>

enum { FR_LINE_MAX = 64 << 10 };

struct fr_merge;

/* The part of a line that a terminal shows in the end: the text behind the last carriage return,
 * as progress bars write it. */
struct fr_str fr_line_seen(const char *text, size_t n);

enum fr_merge_times { FR_MERGE_NO_TIMES, FR_MERGE_CLOCK, FR_MERGE_MS };

struct fr_merge_opts {
    bool (*put)(void *arg, struct fr_str lines); /* takes whole lines; false: no more is wanted */
    void *put_arg;
    enum fr_merge_times times; /* before each line: when it was written */
    size_t n_tail; /* of what is there at first show the last lines alone, so many; 0: all */
};

/* dir: where the logs lie, and beside each LOG.idx, the times as engine/run writes them. While a
 * full log has no end yet, its tail is read from LOG.tail (base/tail.h): behind the head comes a
 * line that says how many bytes are left out so far, then the newest ones. Once the log has its
 * tail, what was not shown of it is read from the log. */
enum fr_rc fr_merge_create(struct fr_merge **out, const char *dir, const struct fr_merge_opts *opts,
                           struct fr_err *err);
void fr_merge_destroy(struct fr_merge *m); /* NULL is fine */

/* The place of an attempt that was added; SIZE_MAX: it was not. O(1). */
size_t fr_merge_find(const struct fr_merge *m, struct fr_id attempt);
/* Adds an attempt at the place behind the last one. label stands before each line; name is the file
 * name of its log. Both are copied. */
enum fr_rc fr_merge_add(struct fr_merge *m, struct fr_id attempt, const char *label,
                        const char *name, struct fr_err *err);
/* What is known of it now. began_ms: of lines whose time nobody could write; ended: nothing is
 * written any more; whole: and all of it is here. */
void fr_merge_set(struct fr_merge *m, size_t place, int64_t began_ms, bool ended, bool whole);

/* Gives what is there and was not given to put. A line without a newline waits for it, unless its
 * log is whole, or ended and this is the last call. FR_IO …: a log that is there cannot be read. */
enum fr_rc fr_merge_print(struct fr_merge *m, bool last, struct fr_err *err);

#endif

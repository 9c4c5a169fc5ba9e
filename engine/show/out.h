/*
 * Output of a command that drives or follows a run. Printing never waits for a reader: an unread
 * pipe, or a terminal stopped by Ctrl-S, must not block the loop.
 *
 * Each output has a thread that only writes. The alternatives fail: O_NONBLOCK belongs to the open
 * file description, which other processes share; poll() before a blocking write() is wrong when
 * another process writes to the same pipe; opening /proc/self/fd/1 again needs a permission that
 * sudo and containers take away. A regular file has no reader: it is written directly.
 *
 * Text is kept up to a bound until the reader takes it. Lines beyond the bound are counted, and one
 * line in their place has the count.
 */
#ifndef FR_SHOW_OUT_H
#define FR_SHOW_OUT_H

#include "engine/base/str.h"
#include "engine/loop/loop.h"

struct cli_out;

enum cli_out_kind {
    CLI_OUT_OUTPUT, /* output of tasks: kept up to the small bound */
    CLI_OUT_EVENT,  /* all other lines: kept up to the large bound */
};

/* Until cli_out_destroy(), the text of fr_print() and fr_complain() goes here. json: the line about
 * dropped lines is a JSON object. Borrows loop. */
enum fr_rc cli_out_create(struct cli_out **out, struct fr_loop *loop, bool json,
                          struct fr_err *err);
/* Ends the threads; a thread that still waits for a reader ends with the process. NULL is fine. */
void cli_out_destroy(struct cli_out *out);

/* Sets the number of the run for the line about dropped lines. */
void cli_out_run(struct cli_out *out, int64_t no);
/* Adds one or more whole lines for stdout. */
void cli_out_add(struct cli_out *out, enum cli_out_kind kind, const char *text, size_t n);

/* Appends the frame for these lines to `to`; lines may be empty. */
typedef void cli_out_frame_fn(void *arg, struct fr_str lines, struct fr_buf *to);
/* From now on only cli_out_frame() writes stdout, with the text of fn. NULL: lines again. */
void cli_out_frames(struct cli_out *out, cli_out_frame_fn *fn, void *arg);
/* Writes one frame: now, or as soon as the reader has taken the last one. */
void cli_out_frame(struct cli_out *out);

/* Hands the gathered text to each output whose thread is idle. */
void cli_out_flush(struct cli_out *out);
/* Turns the loop until all text is written. Drops the text of an output whose reader takes nothing
 * for 10 s, or for 1 s once *leave is set. */
void cli_out_drain(struct cli_out *out, const bool *leave);

#endif

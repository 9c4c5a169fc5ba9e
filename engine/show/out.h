/*
 * What a command prints while it drives a run. Printing never waits for a reader: a pipe that
 * nobody reads, or a terminal stopped by Ctrl-S, must not hold the loop.
 *
 * A thread for each output does nothing but write. The alternatives do not hold: O_NONBLOCK belongs
 * to the open file description, which other processes share; poll() before a blocking write() fails
 * when another process writes to the same pipe; opening /proc/self/fd/1 again needs a permission
 * that sudo and containers take away. A regular file has no reader to wait for: it is written
 * directly.
 *
 * Text that the reader has not taken yet is kept up to a bound. Lines beyond the bound are counted,
 * and one line in their place says how many.
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

/* Takes stdout and stderr: until cli_out_destroy(), fr_print() and fr_complain() go here. json: the
 * line about lines that are not shown is an object on stdout. Borrows loop. */
enum fr_rc cli_out_create(struct cli_out **out, struct fr_loop *loop, bool json,
                          struct fr_err *err);
/* Ends the threads; one that still waits for its reader ends with the process. NULL is fine. */
void cli_out_destroy(struct cli_out *out);

/* The number of the run, for the line about lines that are not shown. */
void cli_out_run(struct cli_out *out, int64_t no);
/* One or more whole lines for stdout. */
void cli_out_add(struct cli_out *out, enum cli_out_kind kind, const char *text, size_t n);

/* Appends to to what is written for these lines; an empty lines is possible. */
typedef void cli_out_frame_fn(void *arg, struct fr_str lines, struct fr_buf *to);
/* From now on stdout is written by cli_out_frame() alone, and fn makes the text. */
void cli_out_frames(struct cli_out *out, cli_out_frame_fn *fn, void *arg);
/* Writes one frame: now, or as soon as the reader has taken the last one. */
void cli_out_frame(struct cli_out *out);

/* Hands over what was gathered, to those outputs that have taken what they got before. */
void cli_out_flush(struct cli_out *out);
/* Turns the loop until all is written. Gives an output up when its reader takes nothing for some
 * seconds, or for a second once *leave is set. */
void cli_out_drain(struct cli_out *out, const bool *leave);

#endif

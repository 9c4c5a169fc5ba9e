/*
 * A Chrome trace (JSON object format) of spans of the host and of each named queue: one process a
 * rank, one thread a row. Every begin and end is an event in its queue, so times are the device's
 * own; a flush reads them when the queues are empty. Spans of one row nest. Calls do nothing on a
 * backend without a trace. No call fails a run: an error of the file is logged once and ends the
 * trace.
 * Format: "Trace Event Format", the Chromium project.
 */
#ifndef TR_BACKEND_TRACE_H
#define TR_BACKEND_TRACE_H

#include "engine/base/err.h"
#include "trainer/backend/backend.h"

#include <stdint.h>

struct tr_trace;

struct tr_trace_opts {
    const char *path; /* rank k > 0 writes to PATH.rankK */
    int rank;
    int64_t steps; /* flushes after which the trace ends and the file is complete */
};

/* Starts the trace of be. Call tr_trace_close before be's queues are destroyed. FR_IO: the file
 * cannot be created. FR_UNSUPPORTED: a backend without clocks. */
enum fr_rc tr_trace_open(struct tr_backend *be, const struct tr_trace_opts *o, struct fr_err *err);

/* Marks that were not flushed are left out. */
void tr_trace_close(struct tr_backend *be);

/* Gives q a row; queues without a row are not recorded. name is borrowed. */
void tr_trace_queue(struct tr_backend *be, struct tr_queue *q, const char *name);

/* q NULL: the host's row; be NULL: nothing. The name may be cut at 55 characters. */
void tr_trace_begin(struct tr_backend *be, struct tr_queue *q, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void tr_trace_end(struct tr_backend *be, struct tr_queue *q);

/* Waits for all named queues and writes their spans. Call it at the end of a step. */
void tr_trace_flush(struct tr_backend *be);

/* backend.c, when a queue is destroyed. */
void tr_trace_forget(struct tr_backend *be, const struct tr_queue *q);

#endif

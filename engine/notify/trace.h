/*
 * A run as spans of OpenTelemetry, in the JSON of OTLP (opentelemetry.io/docs/specs/otlp): the run,
 * its tasks, generations of gangs and attempts that have ended. Ids derive from those of the run
 * and its attempts, so every call gives the same spans: the trace id is the run's id, the span id
 * of an attempt the first half of its id (and so what tasks see as TRACEPARENT).
 */
#ifndef FR_NOTIFY_TRACE_H
#define FR_NOTIFY_TRACE_H

#include "engine/store/store.h"

#include <jansson.h>

enum { FR_TRACE_BATCH = 512 }; /* spans */

/* *out: a list of ExportTraceServiceRequest, each of at most FR_TRACE_BATCH spans; at least one.
 * The caller's to drop. */
enum fr_rc fr_trace_run(struct fr_store *st, const struct fr_run_row *run, json_t **out,
                        struct fr_err *err);
/* The same without spans, to test a collector. NULL: no memory. */
json_t *fr_trace_none(void);

#endif

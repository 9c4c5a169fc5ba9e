/*
 * What the host counts and measures, for GET /metrics. Counters begin with the host's process. What
 * is true at the time of a look is set then (answer/gauges.c). Meters that are NULL, as there was
 * no memory for them, take nothing.
 */
#ifndef FR_METRICS_METERS_H
#define FR_METRICS_METERS_H

#include "engine/base/str.h"

#include <stddef.h>
#include <stdint.h>

struct fr_note;
struct fr_run;
struct fr_store;
struct host_meters;
struct host_counts; /* of a run: its instances by state and node */

struct host_meters *meters_create(void);        /* NULL: no memory */
void meters_destroy(struct host_meters *m);     /* NULL is fine */
void meters_forget(struct host_counts *counts); /* NULL is fine */

/* A host that stays is looked at: what it cannot have seen itself is read from the store, once. */
void meters_stay(struct host_meters *m, struct fr_store *st);

/* The run's counts, made with the first call. NULL: no memory, or no plan yet. */
struct host_counts *meters_counts(struct host_counts **counts, const struct fr_run *run);
uint32_t meters_live(const struct host_counts *counts, uint32_t node); /* attempts there */
void meters_note(struct host_meters *m, struct host_counts **counts, const struct fr_run *run,
                 const struct fr_note *note);
void meters_commit(struct host_meters *m, int64_t ms);
void meters_stall(struct host_meters *m, int64_t ms); /* a turn of the loop took so long */
void meters_fire(struct host_meters *m, const char *decision, int64_t late_ms);
/* route: its pattern, NULL where none fits. */
void meters_answer(struct host_meters *m, const char *route, int status, int64_t ms);
void meters_reset(struct host_meters *m); /* a stream's reader is told to look again */
/* A try of a message; kind: of its channel, result: sent, failed or dead. */
void meters_delivery(struct host_meters *m, const char *kind, const char *result);

#endif

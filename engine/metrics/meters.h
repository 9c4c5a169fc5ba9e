/*
 * Counters and histograms of the host, for GET /metrics. Counters begin with the host's process.
 * Gauges are set at each request (answer/gauges.c). They own the load of machines (machines.h).
 */
#ifndef FR_METRICS_METERS_H
#define FR_METRICS_METERS_H

#include "engine/schedule/decide.h"

#include <stddef.h>
#include <stdint.h>

struct fr_machines;
struct fr_note;
struct fr_run;
struct fr_store;
struct host_meters;
struct host_counts; /* of a run: its instances by state and node */

struct host_meters *meters_create(const char *home); /* NULL: no memory */
void meters_destroy(struct host_meters *m);          /* NULL is fine */
void meters_forget(struct host_counts *counts);      /* NULL is fine */

struct fr_machines *meters_machines(const struct host_meters *m);
/* Reads from the store, once, when pipelines last succeeded before this host began. */
void meters_stay(struct host_meters *m, struct fr_store *st);

/* The run's counts; the first call makes them. NULL: no memory, or no plan yet. */
struct host_counts *meters_counts(struct host_counts **counts, const struct fr_run *run);
uint32_t meters_live(const struct host_counts *counts,
                     uint32_t node); /* live attempts on the node */
void meters_note(struct host_meters *m, struct host_counts **counts, const struct fr_run *run,
                 const struct fr_note *note);
void meters_commit(struct host_meters *m, int64_t ms);
void meters_stall(struct host_meters *m, int64_t ms); /* duration of a turn of the loop */
void meters_occurrence(struct host_meters *m, enum fr_fate decision, int64_t late_ms);
/* route: the pattern; NULL: no route fits. */
void meters_answer(struct host_meters *m, const char *route, int status, int64_t ms);
void meters_reset(struct host_meters *m); /* a stream's reader got a reset */
/* A try to send a message. kind: of its channel; result: sent, failed or dead. */
void meters_delivery(struct host_meters *m, const char *kind, const char *result);

#endif

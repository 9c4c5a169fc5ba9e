/*
 * For tests of a host with schedules: on a wall clock of the test's own, with nodes that never come
 * up, so that a run which has begun is live until it is cancelled. What became of each instant is
 * read from the store.
 */
#ifndef TESTS_UNIT_SCHEDULES_BED_H
#define TESTS_UNIT_SCHEDULES_BED_H

#include "tests/unit/host/host_bed.h"

#include "engine/base/log.h"
#include "engine/timetable/pause.h"
#include "engine/timetable/schedules.h"
#include "engine/schedule/calendar.h"

/* Now it is that time. */
void set_clock(const char *text);

/* Of the shell of begin_host(): it has WHO alone. */
const char *shell_value(void *self, const char *name);
/* What the programs and nodes of before have said counts for nothing. */
void begin_host(struct host_bed *bed);
void write_pipeline(struct host_bed *bed, const char *name, const char *text);
void put_pipeline(struct host_bed *bed, const char *name, const char *schedule);
void drop_pipeline(struct host_bed *bed, const char *name);
/* The host turns until it is so. */
void until(struct host_bed *bed, bool (*is_so)(struct host_bed *bed, const char *arg),
           const char *arg);
bool is_ready(struct host_bed *bed, const char *arg);

/* ---- what is logged ---- */

bool has_logged(struct host_bed *bed, const char *text);
void begin_log(struct host_bed *bed);

/* ---- what the store says ---- */

/* The schedule of that pipeline with that name, or its only one; false: there is none. */
bool find_row(struct host_bed *bed, const char *of, struct fr_schedule_row *out);
bool is_gone(struct host_bed *bed, const char *of);
/* "missed 03-01T02:00-03-03T02:00 x3, ran 03-04T02:00 run 1" */
void show_fires(struct host_bed *bed, const char *of, struct fr_buf *out);
bool has_fires(struct host_bed *bed, const char *of);
void until_fires(struct host_bed *bed, const char *of, const char *want);
void check_fires(struct host_bed *bed, const char *of, const char *want);
bool is_known(struct host_bed *bed, const char *of);
/* "run 1 running schedule 03-01T02:00, …" of a pipeline, the oldest first. */
void check_runs(struct host_bed *bed, const char *of, const char *want);
/* A file is broken, and its error has that text; "": there are files, and none is broken. */
bool has_error(struct host_bed *bed, const char *text);
/* The rule of the schedule of p is so in words. */
bool has_rule(struct host_bed *bed, const char *words);
void reset(struct host_bed *bed);
int64_t count_runs(struct host_bed *bed);

#endif

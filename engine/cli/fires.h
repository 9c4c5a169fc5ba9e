/* Schedules of a pipeline as text, with their times. */
#ifndef FR_CLI_FIRES_H
#define FR_CLI_FIRES_H

#include "engine/spec/spec.h"

/* A time in its zone and in UTC: "2026-12-24 02:00 Europe/Berlin = 2026-12-24 01:00 UTC". */
enum { CLI_FIRE_TEXT = 2 * FR_TIME_TEXT + FR_ZONE_NAME + 8 };
void cli_fire_text(const struct fr_zone *zone, int64_t ms, char out[CLI_FIRE_TEXT]);
/* Prints each schedule's rule and the next times at which it fires. */
enum fr_rc cli_print_schedules(const struct fr_spec *spec, const struct fr_zones *zones,
                               struct fr_err *err);

#endif

/* Runs that a staying host starts by itself: schedules, backfills, reruns. */
#ifndef FR_TIMETABLE_TIMETABLE_H
#define FR_TIMETABLE_TIMETABLE_H

#include "engine/run/run.h"

struct fr_host;
struct host_part;

extern const struct host_part timetable_part;

/* Serves the schedules of the pipelines in these folders, absolute paths without links. Their runs
 * are made in this process's shell. Only for a host that
 * stays; before fr_host_recover(). Borrows shell's function. */
enum fr_rc fr_host_watch(struct fr_host *host, const char *const *folders, size_t n,
                         const struct fr_run_shell *shell, struct fr_err *err);
/* Whether the schedules that were due at the start are decided or being decided. */
bool fr_host_ready(const struct fr_host *host);

#endif

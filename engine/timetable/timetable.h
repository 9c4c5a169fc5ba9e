/* What a host that stays starts by itself: the runs of schedules. */
#ifndef FR_TIMETABLE_TIMETABLE_H
#define FR_TIMETABLE_TIMETABLE_H

#include "engine/run/run.h"

struct fr_host;
struct host_part;

extern const struct host_part timetable_part;

/* Runs of others go on, and those of schedules begin: of the pipelines in these folders, which are
 * absolute and without links. Their runs are made in this process's shell. Only for a host that
 * stays; before fr_host_recover(). Borrows shell's function. */
enum fr_rc fr_host_watch(struct fr_host *host, const char *const *folders, size_t n,
                         const struct fr_run_shell *shell, struct fr_err *err);
/* What was due when the host began is decided, or under way. */
bool fr_host_ready(const struct fr_host *host);

#endif

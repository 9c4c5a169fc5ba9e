/* Pauses schedules. The caller may write the store: the host, or a command while there is none. */
#ifndef FR_TIMETABLE_PAUSE_H
#define FR_TIMETABLE_PAUSE_H

#include "engine/store/occurrences.h"

struct fr_pause {
    bool pause;       /* else: resume */
    const char *note; /* pause: the reason; NULL: none */
    bool catchup;     /* resume: catchup: of the schedule decides about the paused time */
    bool queued;      /* pause: cancels its queued runs, if need be by the next host; also when the
                       * schedule is paused already */
    /* Whether a queued run still waits; NULL: it does. */
    bool (*waits)(void *arg, struct fr_id run);
    void *waits_arg;
};

/* Pauses or resumes in a commit of its own. Instants of a paused schedule are decided as `paused`;
 * after a resume its later instants count again.
 * FR_OK: row is as in the store; its texts are borrowed from how. FR_BUSY: already in that state.
 */
enum fr_rc fr_schedule_pause(struct fr_store *st, struct fr_schedule_row *row,
                             const struct fr_pause *how, struct fr_err *err);

/* Reduces rows to the schedules that text names: PIPELINE/NAME; a pipeline or a file, for all of
 * its schedules; or a schedule's name if it is unique. text NULL: all. Schedules whose file is gone
 * count only by PIPELINE/NAME or file. FR_NOTFOUND; FR_USAGE: the name is not unique. */
enum fr_rc fr_schedules_named(struct fr_schedule_rows *rows, const char *text, struct fr_err *err);

#endif

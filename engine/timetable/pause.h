/* Pausing schedules, by whoever may write the store: its host, or a command while there is none. */
#ifndef FR_TIMETABLE_PAUSE_H
#define FR_TIMETABLE_PAUSE_H

#include "engine/store/fires.h"

struct fr_pause {
    bool pause;       /* else: resume */
    const char *note; /* of a pause: why; NULL: nothing is said */
    bool catchup;     /* of a resume: what was paused is judged by the schedule's own catchup: */
    bool queued;      /* of a pause: its runs that wait are cancelled, by the next host if there is
                       * none; also where it is paused already */
    /* Whether a queued run does wait still; NULL: it does. */
    bool (*waits)(void *arg, struct fr_id run);
    void *waits_arg;
};

/* One commit of its own. While a schedule is paused its instants are decided as `paused`; they
 * begin to count anew when it is resumed. FR_OK: row is what the store has now, its texts borrowed
 * from how. FR_BUSY: it is so already. */
enum fr_rc fr_schedule_pause(struct fr_store *st, struct fr_schedule_row *row,
                             const struct fr_pause *how, struct fr_err *err);

/* The schedules that text names: PIPELINE/NAME, the name of a pipeline (all of its), a file (all of
 * its), or the name of a schedule that no other has. Those that are gone are left out unless they
 * are named by PIPELINE/NAME or file. NULL: all that are there. They move to the front of rows;
 * FR_NOTFOUND, FR_USAGE: several pipelines have one of that name. */
enum fr_rc fr_schedules_named(struct fr_schedule_rows *rows, const char *text, struct fr_err *err);

#endif

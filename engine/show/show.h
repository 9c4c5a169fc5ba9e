/* How a run is shown while it goes: as lines, as a table below them, or as JSON. */
#ifndef FR_SHOW_SHOW_H
#define FR_SHOW_SHOW_H

#include "engine/base/json.h"
#include "engine/run/run.h"
#include "engine/show/out.h"

struct cli_show;

struct cli_show_opts {
    bool json;
    bool quiet;         /* no task output; without json: only what failed, and the end */
    bool verbose;       /* also when a task starts, runs and is stopped */
    const char *curves; /* the home: curves of metrics in place of task output; NULL: none */
    struct fr_loop *loop;
    struct cli_out *out;
};

enum fr_rc cli_show_create(struct cli_show **out, const struct cli_show_opts *opts,
                           struct fr_err *err);
struct fr_view cli_show_view(struct cli_show *show);
/* Another host has the run from now on: what the one before said of a node is not said again. */
void cli_show_moved(struct cli_show *show);
/* Prints a line of flowrun itself, among the lines of tasks. */
void cli_show_say(struct cli_show *show, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The first lines, and the table at the end. Behind cli_show_begin_stored() it takes the run over:
 * the notes of run follow those that a follower gave. */
enum fr_rc cli_show_begin(struct cli_show *show, const struct fr_run *run, struct fr_err *err);
/* The same for a run of another process, before its first note. Borrows plan. */
enum fr_rc cli_show_begin_stored(struct cli_show *show, const struct fr_run_row *row,
                                 const struct fr_plan *plan, struct fr_err *err);
/* What happened before the user asked is known, not shown: the note is taken silently. */
void cli_show_learn(struct cli_show *show, const struct fr_note *note);
/* Shows what the note says; cli_show_view() calls it, a follower does. */
void cli_show_note(struct cli_show *show, const struct fr_note *note);
void cli_show_end(struct cli_show *show);
void cli_show_curves(struct cli_show *show); /* looks whether metrics have grown */
const struct cli_model *cli_show_model(const struct cli_show *show); /* borrowed */
void cli_show_destroy(struct cli_show *show);

/* Appends doc as a line, safe for a terminal, and drops doc. NULL appends nothing. */
void cli_add_json(struct fr_buf *out, json_t *doc);
/* Prints that line. */
void cli_put_json(json_t *doc);

/* ---- words ---- */

/* Date and time; duration up to now when ended is 0. "-": not begun. */
void cli_date(int64_t wall_ms, char out[32]);
void cli_took(int64_t started_wall, int64_t ended_wall, char out[24]);

#endif

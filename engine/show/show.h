/* The view of a run: lines, on a terminal with a table below them, or JSON objects. */
#ifndef FR_SHOW_SHOW_H
#define FR_SHOW_SHOW_H

#include "engine/base/json.h"
#include "engine/run/run.h"
#include "engine/show/out.h"

struct cli_show;

struct cli_show_opts {
    bool json;
    bool quiet;   /* no task output; without json: only what failed, and the end */
    bool verbose; /* also print when a task starts, runs and is stopped */
    const char
        *curves; /* path of the home: curves of metrics in place of task output; NULL: none */
    struct fr_loop *loop;
    struct cli_out *out;
};

enum fr_rc cli_show_create(struct cli_show **out, const struct cli_show_opts *opts,
                           struct fr_err *err);
struct fr_view cli_show_view(struct cli_show *show);
/* Another host drives the run from now on. Its first note about a node is not shown if it repeats
 * the last one of the host before. */
void cli_show_moved(struct cli_show *show);
/* Prints a line of flowrun itself among the lines of tasks; with JSON on stderr. */
void cli_show_say(struct cli_show *show, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Prints the first lines. After cli_show_begin_stored() it does nothing: the notes of run continue
 * those of a follower. */
enum fr_rc cli_show_begin(struct cli_show *show, const struct fr_run *run, struct fr_err *err);
/* The same for a run of another process, before the first note. Borrows plan. */
enum fr_rc cli_show_begin_stored(struct cli_show *show, const struct fr_run_row *row,
                                 const struct fr_plan *plan, struct fr_err *err);
/* Takes the note into the model and prints nothing. */
void cli_show_learn(struct cli_show *show, const struct fr_note *note);
/* Takes the note and shows it. A run calls it through cli_show_view(), a follower directly. */
void cli_show_note(struct cli_show *show, const struct fr_note *note);
void cli_show_end(struct cli_show *show);    /* prints the rest, and the table of all tasks */
void cli_show_curves(struct cli_show *show); /* reads new metrics */
const struct cli_model *cli_show_model(const struct cli_show *show); /* borrowed */
void cli_show_destroy(struct cli_show *show);

/* Prints doc as such a line, and drops doc. */
void cli_put_json(json_t *doc);

/* ---- words ---- */

/* Local date and time of milliseconds since 1970; "-" for 0. */
void cli_date(int64_t wall_ms, char out[32]);
/* Duration from start to end, or to now when ended is 0; "-" when started is 0. */
void cli_took(int64_t started_wall, int64_t ended_wall, char out[24]);

#endif

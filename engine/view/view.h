/* A view while a thread reads it, with its own connection to the store. */
#ifndef FR_VIEW_VIEW_H
#define FR_VIEW_VIEW_H

#include "engine/base/arena.h"
#include "engine/base/json.h"
#include "engine/base/sys.h"
#include "engine/run/run.h"
#include "engine/view/text.h"
#include "engine/store/occurrences.h"
#include "engine/store/lists.h"
#include "engine/store/types.h"

#include <string.h>

struct view {
    const char *home;
    struct fr_store *st;
    struct fr_arena arena;
    struct host_text *text;
    struct fr_run_row run; /* of views of a run */
    json_t *doc;           /* out; owns */
    struct fr_buf more;    /* members after those of doc, ",\"name\":value"; owns */
};

typedef enum fr_rc view_fn(struct view *v, struct fr_err *err);

/* rows.c */
/* The run's instances that fit the task, node and state in args. */
enum fr_rc view_instances(struct view *v, struct fr_inst_rows *out, struct fr_err *err);
/* view_columns.c */
view_fn view_columns;
/* view_plan.c */
/* Finds the file of the pipeline that args[0] names, and sets v->run. FR_NOTFOUND. */
enum fr_rc view_find_pipeline(struct view *v, const struct fr_schedule_rows *schedules,
                              struct fr_err *err);
view_fn view_graph, view_params, view_spec, view_pipeline, view_check;
/* view_runs.c */
view_fn view_runs, view_pipelines, view_history, view_queue, view_pools;
/* view_merged.c */
view_fn view_merged; /* fills text->json itself */
/* Calls fn for each attempt of a task, or of the instance with that key; name NULL: of the run. In
 * the plan's order. fn returns false to stop, with *rc FR_OK or an error. */
typedef bool view_attempt_fn(void *arg, const struct fr_attempt_row *row, const char *key,
                             enum fr_rc *rc, struct fr_err *err);
enum fr_rc view_each_attempt(struct view *v, const char *name, view_attempt_fn *fn, void *arg,
                             struct fr_err *err);
/* view_log.c */
view_fn view_lines, view_hits, view_found, view_times;

#endif

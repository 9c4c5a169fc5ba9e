/* A request while it is answered, for the files that answer. */
#ifndef FR_ANSWER_CALL_H
#define FR_ANSWER_CALL_H

#include "engine/answer/answers.h"
#include "engine/answer/view_job.h"
#include "engine/runs/job.h"
#include "engine/store/fires.h"
#include "engine/store/types.h"
#include "engine/view/rows.h"

/* One request, while it is answered. */
struct call {
    struct fr_host *host;
    const struct fr_api_request *req;
    struct fr_api_response *res;
    struct fr_arena arena;  /* of rows and texts */
    json_t *doc;            /* of the body; NULL: it has none */
    struct fr_run_row run;  /* that the path names */
    int64_t schedule;       /* likewise: its id */
    int64_t made;           /* number of the run that was answered last; 0: none */
    const char *rest;       /* of the path, behind what the route names */
    int status;             /* of an error; 0: as its code says */
    int64_t wait_ms;        /* of an error: asked again after that it may be none; 0: not known */
    struct fr_fence *fence; /* of the parameters in doc; NULL: they may name any file */
    bool has_secret;        /* its answer has one, which is not kept */
    struct fr_api_caller login; /* who logged in by it */
};

typedef enum fr_rc handler(struct call *c, struct fr_issues *issues, struct fr_err *err);

/* routes.c */
handler get_events;
/* Drops doc. */
enum fr_rc answer_json(struct call *c, int status, json_t *doc, struct fr_err *err);
/* {items}: n rows of that type. */
enum fr_rc answer_rows(struct call *c, const struct fr_row_type *type, const void *rows, size_t n,
                       struct fr_err *err);
/* The run's row; it lies at its own address. */
enum fr_rc answer_run(struct call *c, int status, struct fr_id id, struct fr_err *err);
/* It is answered when that is over. */
enum fr_rc answer_later(struct call *c, struct host_job *job, struct fr_err *err);
/* The job that the request asks for, over and well; the caller drops it. It is begun with the first
 * call. *rc FR_OK and NULL: the request is answered later. */
typedef struct host_job *job_begin_fn(struct fr_host *host, struct fr_id run);
struct host_job *ask_job(struct call *c, job_begin_fn *begin, enum fr_rc *rc, struct fr_err *err);

/* query.c */
/* Refuses a name that the handler does not know or that comes twice, and a word that its value
 * cannot be: either would change the answer without a message. */
enum fr_rc query_check(const struct call *c, handler *run, struct fr_err *err);
/* A value of the query; NULL: it has none of that name. */
const char *query_text(const struct call *c, const char *name);
/* A whole number of the query, from 0 on. */
enum fr_rc query_number(const struct call *c, const char *name, int64_t usual, int64_t *out,
                        struct fr_err *err);

/* body.c */
/* {id, pipeline, params: {name: value}, cwd, env, umask, secrets, agent, origin, priority, at,
 * not_before_wall}; of a run that repeats again (else NULL) without pipeline and at.
 * *shell is the caller's. Texts of out live in doc and arena. */
enum fr_rc body_submit(json_t *doc, const struct fr_again *again, struct fr_arena *arena,
                       struct fr_submit *out, json_t **shell, struct fr_err *err);
/* {secrets, agent} */
enum fr_rc body_give(json_t *doc, json_t **shell, struct fr_err *err);
/* {file, abandon: [node], retry, from, cwd, env, umask, secrets, agent} */
enum fr_rc body_resume(json_t *doc, struct fr_arena *arena, struct fr_resume_opts *out,
                       json_t **shell, struct fr_err *err);

/* gauges.c */
void gauges_text(struct fr_host *host, struct fr_buf *out);
/* schedules.c */
handler get_schedules, get_schedule, put_schedule, get_fires;
/* backfills.c: call.schedule is the number of a backfill */
handler get_backfills, post_backfills, post_backfill_pause, post_backfill_resume;
handler post_backfill_cancel;
/* deliveries.c: call.schedule is the number of a delivery */
handler get_channels, get_deliveries, get_delivery, post_deliveries, post_delivery_again;
/* views.c */
enum fr_rc answer_view(struct call *c, const struct host_text *want, struct fr_err *err);
handler get_run, get_instances, get_outputs, get_artifacts, get_graph, get_params, get_spec;
handler get_runs, get_pipelines, get_pipeline, post_validate, get_queue, get_pools;
/* log.c */
handler get_log, get_merged, get_found;
/* files.c */
/* The bytes of fd, which is the answer's from here on; fd -1: an empty file. growing: as of
 * fr_api_response. answer_file: or those that the Range names. */
void answer_whole(struct call *c, int fd, const char *type, const char *growing);
void answer_file(struct call *c, int fd, const char *type, const char *growing);
handler get_artifact;
/* runs.c */
handler post_runs, post_schedule_run, post_resume, post_retry, post_abandon, post_shell,
    post_cancel, post_pin, post_priority, post_sweep, delete_run;
/* metrics.c */
handler get_metrics, get_figures;
/* nodes.c */
handler get_nodes, get_node, post_node;
/* logins.c */
extern const char fr_host_openapi[]; /* schema/openapi.json, built in */
handler post_login, post_logout, get_me, get_health, get_ready, get_openapi;
handler get_tokens, post_tokens, delete_token, post_codes, get_audit, get_run_audit;
/* The row of call.schedule. */
enum fr_rc call_schedule_row(struct call *c, struct fr_schedule_row *out, struct fr_err *err);
enum fr_rc call_find_schedule(struct call *c, struct fr_str name, struct fr_err *err);

#endif

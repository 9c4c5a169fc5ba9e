/* A request in progress, for the files that handle requests. */
#ifndef FR_ANSWER_CALL_H
#define FR_ANSWER_CALL_H

#include "engine/answer/answers.h"
#include "engine/answer/view_job.h"
#include "engine/runs/job.h"
#include "engine/store/occurrences.h"
#include "engine/store/types.h"
#include "engine/view/rows.h"

struct call {
    struct fr_host *host;
    const struct fr_api_request *req;
    struct fr_api_response *res;
    struct fr_arena arena;   /* of rows and texts */
    json_t *doc;             /* the parsed body; NULL: the request has none */
    struct fr_run_row run;   /* the run that the path names */
    int64_t schedule;        /* number of the schedule, backfill or delivery that the path names */
    int64_t made;            /* number of the run in the response, for the audit; 0: none */
    const char *rest;        /* the path after the part that the route matches */
    int status;              /* HTTP status of an error; 0: the one of the code in err */
    struct fr_issues issues; /* of an error: what is wrong with a file; owns */
    int64_t wait_ms; /* of an error: the client may repeat the request after it; 0: unknown */
    struct fr_fence *fence;     /* which files the parameters in doc may name; NULL: any file */
    bool has_secret;            /* the response has a secret, so no repeat of the request gets it */
    struct fr_api_caller login; /* who logged in with this request */
};

typedef enum fr_rc handler(struct call *c, struct fr_err *err);

/* The handlers, one an operation of schema/openapi.json. */
#include "engine/answer/handlers.h"

/* reply.c */
/* Drops doc. */
enum fr_rc answer_json(struct call *c, int status, json_t *doc, struct fr_err *err);
/* Responds {items: [n rows of that type]}. */
enum fr_rc answer_rows(struct call *c, const struct fr_row_type *type, const void *rows, size_t n,
                       struct fr_err *err);
/* Responds with the run's row and its Location. */
enum fr_rc answer_run(struct call *c, int status, struct fr_id id, struct fr_err *err);
/* The request waits for the job and is repeated once the job is over. job NULL: FR_NOMEM. */
enum fr_rc answer_later(struct call *c, struct host_job *job, struct fr_err *err);
/* The request's job, once it has succeeded; the caller drops it. The first call begins the job.
 * NULL: see *rc; FR_OK means that the request waits for the job. */
typedef struct host_job *job_begin_fn(struct fr_host *host, struct fr_id run);
struct host_job *ask_job(struct call *c, job_begin_fn *begin, enum fr_rc *rc, struct fr_err *err);

/* query.c */
/* A value of the query; NULL: absent. */
const char *query_text(const struct call *c, const char *name);
/* A whole number of the query, 0 or more; `usual` where it is absent. FR_USAGE. */
enum fr_rc query_number(const struct call *c, const char *name, int64_t usual, int64_t *out,
                        struct fr_err *err);

/* As query_number; FR_USAGE outside least … most as well. */
struct query_range {
    int least, most, usual;
};
enum fr_rc query_range(const struct call *c, const char *name, struct query_range range,
                       int64_t *out, struct fr_err *err);

/* gauges.c: appends the values measured at the call, in the text format of Prometheus. */
void gauges_text(struct fr_host *host, struct fr_buf *out);
/* views.c: responds with a view that a thread makes; the request waits for that thread. */
enum fr_rc answer_view(struct call *c, const struct host_text *want, struct fr_err *err);
/* files.c */
/* Responds with the file fd and takes fd; -1: an empty file. growing: as in fr_api_response.
 * answer_whole: all of the file; answer_file: the part that the Range header names. */
void answer_whole(struct call *c, int fd, const char *type, const char *growing);
void answer_file(struct call *c, int fd, const char *type, const char *growing);
extern const char fr_host_openapi[]; /* schema/openapi.json, built in */
/* schedules.c: the row of the schedule c->schedule. FR_NOTFOUND. */
enum fr_rc call_schedule_row(struct call *c, struct fr_schedule_row *out, struct fr_err *err);
/* Sets c->schedule to the number in name. FR_NOTFOUND: name is no number. */
enum fr_rc call_find_schedule(struct call *c, struct fr_str name, struct fr_err *err);

#endif

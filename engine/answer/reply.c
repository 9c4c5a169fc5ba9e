/* Builds responses. */
#include "engine/answer/call.h"

enum fr_rc answer_json(struct call *c, int status, json_t *doc, struct fr_err *err)
{
    fr_json_add(&c->res->body, doc, JSON_COMPACT);
    json_decref(doc);
    if (c->res->body.bad)
        return fr_fail(err, FR_NOMEM, "no memory for an answer");
    c->res->status = status;
    c->res->type = "application/json";
    return FR_OK;
}

enum fr_rc answer_rows(struct call *c, const struct fr_row_type *type, const void *rows, size_t n,
                       struct fr_err *err)
{
    return answer_json(c, 200, json_pack("{s:o}", "items", fr_rows_json(type, rows, n)), err);
}

enum fr_rc answer_run(struct call *c, int status, struct fr_id id, struct fr_err *err)
{
    struct fr_run_row row;
    char text[FR_ID_TEXT];
    enum fr_rc rc;

    fr_id_text(id, text);
    rc = fr_store_run_find(c->host->env.store, text, &c->arena, &row, err);
    if (rc != FR_OK)
        return rc;
    c->made = row.no;
    fr_buf_fmt(&c->res->location, "/api/v1/runs/%s", text);
    return answer_json(c, status, json_of_run(c->host->env.epoch, &row), err);
}

enum fr_rc answer_later(struct call *c, struct host_job *job, struct fr_err *err)
{
    if (job == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a request");
    job_wait(job, c->req->waiter);
    c->res->status = FR_API_LATER;
    return FR_OK;
}

struct host_job *ask_job(struct call *c, job_begin_fn *begin, enum fr_rc *rc, struct fr_err *err)
{
    struct host_job *job = job_of(c->host, c->req->waiter);

    if (job == NULL || !job_over(job)) {
        *rc = answer_later(c, job != NULL ? job : begin(c->host, c->run.id), err);
        return NULL;
    }
    if ((*rc = job_result(job, &c->issues, err)) == FR_OK)
        return job;
    job_drop(job);
    return NULL;
}

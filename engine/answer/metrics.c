/* Requests for the metrics of tasks. */
#include "engine/answer/call.h"

#include <math.h>
#include <stdlib.h>

enum { WIDTH_LEAST = 10 };

static enum fr_rc query_real(const struct call *c, const char *name, double *out,
                             struct fr_err *err)
{
    const char *text = query_text(c, name);
    char *end;

    *out = NAN;
    if (text == NULL)
        return FR_OK;
    *out = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(*out))
        return fr_fail(err, FR_USAGE, "'%s' must be a number, not '%s'", name, text);
    return FR_OK;
}

static enum fr_rc read_ask(const struct call *c, struct host_curves *ask, struct fr_err *err)
{
    const char *x = query_text(c, "x");
    int64_t width;
    enum fr_rc rc = query_range(
        c, "width", (struct query_range){WIDTH_LEAST, FR_CURVES_WIDEST, FR_CURVES_WIDTH}, &width,
        err);

    *ask = (struct host_curves){
        .run = c->run.id, .task = query_text(c, "task"), .keys = query_text(c, "keys")};
    ask->width = (size_t)width;
    if (rc == FR_OK)
        rc = query_real(c, "from", &ask->from, err);
    if (rc == FR_OK)
        rc = query_real(c, "to", &ask->to, err);
    if (rc == FR_OK && ask->from > ask->to)
        rc = fr_fail(err, FR_USAGE, "'from' must not be larger than 'to'");
    if (rc == FR_OK && x != NULL)
        (void)fr_curve_x_parse(x, &ask->x); /* query.c has checked the word */
    return rc;
}

enum fr_rc get_runs_run_metrics(struct call *c, struct fr_err *err)
{
    struct host_job *job = job_of(c->host, c->req->waiter);
    struct host_curves ask;
    enum fr_rc rc;

    if (job != NULL && !job_over(job))
        return answer_later(c, job, err);
    if (job == NULL) {
        if ((rc = read_ask(c, &ask, err)) != FR_OK)
            return rc;
        return answer_later(c, curves_begin(c->host, &ask), err);
    }
    if ((rc = job_result(job, &c->issues, err)) == FR_OK) {
        c->res->status = 200;
        c->res->type = "application/json";
        c->res->body = curves_take(job);
    }
    job_drop(job);
    return rc;
}

enum fr_rc get_metrics(struct call *c, struct fr_err *err)
{
    gauges_text(c->host, &c->res->body);
    if (c->res->body.bad)
        return fr_fail(err, FR_NOMEM, "no memory for the host's figures");
    c->res->status = 200;
    c->res->type = "text/plain; version=0.0.4; charset=utf-8";
    return FR_OK;
}

#include "engine/api/problem.h"

#include "engine/base/json.h"
#include "engine/base/sys.h"

#include <string.h>

static int status_of(enum fr_rc rc)
{
    static const struct {
        enum fr_rc rc;
        int status;
    } table[] = {{FR_OK, 200},          {FR_USAGE, 400},       {FR_SHAPE, 400}, {FR_DTYPE, 400},
                 {FR_DENIED, 403},      {FR_NOTFOUND, 404},    {FR_BUSY, 409},  {FR_STOPPED, 409},
                 {FR_UNSUPPORTED, 501}, {FR_UNREACHABLE, 503}, {FR_NOMEM, 503}, {FR_TIMEOUT, 504},
                 {FR_FULL, 507}};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (table[i].rc == rc)
            return table[i].status;
    return 500;
}

const char *fr_status_phrase(int status)
{
    static const struct {
        int status;
        const char *phrase;
    } table[] = {{200, "OK"},
                 {201, "Created"},
                 {202, "Accepted"},
                 {204, "No Content"},
                 {206, "Partial Content"},
                 {304, "Not Modified"},
                 {400, "Bad Request"},
                 {401, "Unauthorized"},
                 {403, "Forbidden"},
                 {404, "Not Found"},
                 {405, "Method Not Allowed"},
                 {409, "Conflict"},
                 {411, "Length Required"},
                 {412, "Precondition Failed"},
                 {413, "Content Too Large"},
                 {414, "URI Too Long"},
                 {415, "Unsupported Media Type"},
                 {416, "Range Not Satisfiable"},
                 {417, "Expectation Failed"},
                 {421, "Misdirected Request"},
                 {422, "Unprocessable Content"},
                 {428, "Precondition Required"},
                 {429, "Too Many Requests"},
                 {431, "Request Header Fields Too Large"},
                 {500, "Internal Server Error"},
                 {501, "Not Implemented"},
                 {503, "Service Unavailable"},
                 {504, "Gateway Timeout"},
                 {505, "HTTP Version Not Supported"},
                 {507, "Insufficient Storage"}};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (table[i].status == status)
            return table[i].phrase;
    return "Error";
}

void fr_api_response_finish(struct fr_api_response *res)
{
    fr_buf_finish(&res->body);
    fr_buf_finish(&res->location);
    fr_buf_finish(&res->etag);
    fr_buf_finish(&res->allow);
    fr_buf_finish(&res->session);
    if (res->file && res->fd >= 0)
        fr_sys.close(res->fd);
    *res = (struct fr_api_response){.fd = -1};
}

/* ---- writing ---- */

static json_t *text_json(const char *p, size_t n)
{
    struct fr_buf b = {0};
    json_t *value;

    if (p == NULL)
        return NULL;
    fr_buf_visible(&b, p, n);
    value = b.bad ? NULL : json_stringn(b.p != NULL ? b.p : "", b.n);
    fr_buf_finish(&b);
    return value;
}

/* A number of 1 to 9 digits at p, followed by ':'; *end is after the ':'. 0: there is none. */
static int number_at(const char *p, const char **end)
{
    int n = 0, digits = 0;

    for (; *p >= '0' && *p <= '9' && digits < 9; p++, digits++)
        n = 10 * n + (*p - '0');
    *end = p + 1;
    return digits > 0 && *p == ':' ? n : 0;
}

/* "file:line:col: text"; without a place, the whole line is text. */
json_t *fr_problem_issue(const char *s)
{
    for (const char *at = strchr(s, ':'); at != NULL; at = strchr(at + 1, ':')) {
        const char *behind, *end;
        int line = number_at(at + 1, &behind), col = line > 0 ? number_at(behind, &end) : 0;

        if (col > 0 && *end == ' ')
            return json_pack("{s:o*,s:i,s:i,s:o*}", "file", text_json(s, (size_t)(at - s)), "line",
                             line, "col", col, "text", text_json(end + 1, strlen(end + 1)));
    }
    return json_pack("{s:o*}", "text", text_json(s, strlen(s)));
}

static int dump(const char *p, size_t n, void *buf)
{
    fr_buf_add(buf, p, n);
    return ((struct fr_buf *)buf)->bad ? -1 : 0;
}

static json_t *problem_json(int status, const char *instance, const struct fr_err *err,
                            const struct fr_issues *issues)
{
    char type[64] = "/problems/";
    const char *code = fr_rc_name(err->rc);
    json_t *list = issues != NULL && issues->n > 0 ? json_array() : NULL;

    memcpy(type + strlen(type), code, strlen(code) + 1);
    for (size_t i = 0; list != NULL && i < issues->n; i++)
        if (json_array_append_new(list, fr_problem_issue(issues->lines[i])) != 0)
            break;
    return json_pack(
        "{s:s,s:s,s:i,s:o*,s:o*,s:s,s:o*}", "type", type, "title", fr_status_phrase(status),
        "status", status, "detail", text_json(err->msg, strlen(err->msg)), "instance",
        text_json(instance, instance != NULL ? strlen(instance) : 0), "code", code, "issues", list);
}

void fr_problem(struct fr_api_response *out, int status, const char *instance,
                const struct fr_err *err, const struct fr_issues *issues)
{
    json_t *doc;

    fr_api_response_finish(out);
    out->status = status != 0 ? status : status_of(err->rc);
    out->type = "application/problem+json";
    doc = problem_json(out->status, instance, err, issues);
    if (doc == NULL || json_dump_callback(doc, dump, &out->body, JSON_COMPACT) != 0)
        fr_buf_finish(&out->body); /* out of memory: the response has only a status */
    json_decref(doc);
}

void fr_problem_retry(struct fr_api_response *out, int64_t after_ms)
{
    if (after_ms <= 0 || out->body.n == 0 || out->body.p[out->body.n - 1] != '}')
        return;
    out->body.n--;
    fr_buf_fmt(&out->body, ",\"retry_after_ms\":%lld}", (long long)after_ms);
    out->retry_after_s = (int)((after_ms + 999) / 1000);
}

/* ---- reading ---- */

static enum fr_rc rc_of(const char *code)
{
    for (int rc = FR_USAGE; code != NULL && rc <= FR_BUG; rc++)
        if (strcmp(code, fr_rc_name((enum fr_rc)rc)) == 0)
            return (enum fr_rc)rc;
    return FR_PROTO;
}

static const char *issue_line(struct fr_arena *arena, const json_t *issue)
{
    const char *file = json_string_value(json_object_get(issue, "file"));
    const char *text = json_string_value(json_object_get(issue, "text"));
    struct fr_buf b = {0};
    const char *line;

    if (file != NULL)
        fr_buf_fmt(&b, "%s:%d:%d: ", file, (int)json_integer_value(json_object_get(issue, "line")),
                   (int)json_integer_value(json_object_get(issue, "col")));
    fr_buf_text(&b, text != NULL ? text : "");
    line = b.bad ? NULL : fr_arena_text(arena, b.p != NULL ? b.p : "", b.n);
    fr_buf_finish(&b);
    return line;
}

static bool read_issues(const json_t *list, struct fr_issues *issues)
{
    size_t n = json_array_size(list);

    issues->lines = fr_arena_array(&issues->arena, n > 0 ? n : 1, sizeof(*issues->lines));
    if (issues->lines == NULL)
        return false;
    for (issues->n = 0; issues->n < n; issues->n++) {
        const char *line = issue_line(&issues->arena, json_array_get(list, issues->n));

        if (line == NULL)
            return false;
        issues->lines[issues->n] = line;
    }
    return true;
}

enum fr_rc fr_problem_read(int status, struct fr_str body, struct fr_issues *issues,
                           struct fr_err *err)
{
    json_t *doc = NULL;
    const char *detail;

    if (fr_json_parse(body, "answer", &doc, NULL) != FR_OK ||
        (detail = json_string_value(json_object_get(doc, "detail"))) == NULL || detail[0] == '\0') {
        json_decref(doc);
        return fr_fail(err, FR_PROTO, "the host answered %d (%s) and does not say why", status,
                       fr_status_phrase(status));
    }
    fr_fail(err, rc_of(json_string_value(json_object_get(doc, "code"))), "%s", detail);
    if (issues != NULL && !read_issues(json_object_get(doc, "issues"), issues))
        fr_fail(err, FR_NOMEM, "no memory for the mistakes of the pipeline");
    json_decref(doc);
    return err->rc;
}

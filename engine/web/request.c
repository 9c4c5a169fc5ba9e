#include "engine/web/private.h"

#include "engine/web/target.h"

#include <string.h>
#include <strings.h>

static bool is_method(const char *s)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "DELETE"};

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (strcmp(s, methods[i]) == 0)
            return true;
    return false;
}

/* Those that mean something here come once. */
static enum fr_rc check_once(const struct fr_http_head *h, struct fr_err *err)
{
    static const char *const once[] = {"Host",
                                       "Content-Length",
                                       "Transfer-Encoding",
                                       "Content-Type",
                                       "Range",
                                       "If-None-Match",
                                       "Last-Event-ID",
                                       "Authorization",
                                       "Cookie",
                                       "Sec-Fetch-Site",
                                       "Origin",
                                       "X-Forwarded-For",
                                       "X-Forwarded-Proto",
                                       "Idempotency-Key",
                                       "If-Match"};

    for (size_t k = 0; k < sizeof(once) / sizeof(once[0]); k++) {
        size_t n = 0;

        for (size_t i = 0; i < h->n_headers; i++)
            n += strcasecmp(h->headers[i].name, once[k]) == 0;
        if (n > 1)
            return fr_fail(err, FR_USAGE, "the header %s came twice", once[k]);
    }
    return FR_OK;
}

static int too_long(struct fr_err *err)
{
    fr_fail(err, FR_FULL, "the body is longer than %d bytes", WEB_BODY_BYTES);
    return 413;
}

/* Whoever is in front of us may take one of two lengths for the other, so only one may be said. */
static int check_coding(struct conn *c, const char *coding, struct fr_err *err)
{
    const char *last = strrchr(coding, ',');

    last = last != NULL ? last + 1 + strspn(last + 1, " \t") : coding;
    if (c->head.minor == 0)
        fr_fail(err, FR_USAGE, "HTTP/1.0 has no Transfer-Encoding");
    else if (fr_http_find(&c->head, "Content-Length") != NULL)
        fr_fail(err, FR_USAGE, "a body has Content-Length or Transfer-Encoding, not both");
    else if (strcasecmp(last, "chunked") != 0)
        fr_fail(err, FR_USAGE, "the last Transfer-Encoding of a request is chunked");
    else if (last != coding) {
        fr_fail(err, FR_UNSUPPORTED, "of Transfer-Encoding only \"chunked\" is known");
        return 501;
    } else {
        fr_http_body_chunked(&c->chunks);
        return 0;
    }
    return 400;
}

static int check_body(struct conn *c, struct fr_err *err)
{
    const char *coding = fr_http_find(&c->head, "Transfer-Encoding");
    const char *length = fr_http_find(&c->head, "Content-Length");
    const char *expect = fr_http_find(&c->head, "Expect");
    int64_t n = 0;

    if (length != NULL && (length[strspn(length, "0123456789")] != '\0' || length[0] == '\0')) {
        fr_fail(err, FR_USAGE, "Content-Length is not a number");
        return 400;
    }
    if (length != NULL &&
        (fr_parse_i64(fr_str_of(length), &n, NULL) != FR_OK || n > WEB_BODY_BYTES))
        return too_long(err);
    if (expect != NULL && strcasecmp(expect, "100-continue") != 0) {
        fr_fail(err, FR_UNSUPPORTED, "of Expect only \"100-continue\" is known");
        return 417;
    }
    c->body_bytes = (size_t)n;
    return coding != NULL ? check_coding(c, coding, err) : 0;
}

/* 0, or the status to refuse the request with. Its target is checked with its answer. */
static int check(struct conn *c, struct fr_err *err)
{
    const char *host = fr_http_find(&c->head, "Host");

    if (!is_method(c->head.method)) {
        fr_fail(err, FR_UNSUPPORTED, "methods are GET, HEAD, POST, PUT and DELETE");
        return 501;
    }
    if (check_once(&c->head, err) != FR_OK)
        return 400;
    if (host == NULL || !fr_target_host_valid(host)) {
        fr_fail(err, FR_USAGE, "the request needs one valid Host");
        return 400;
    }
    return check_body(c, err);
}

/* The head is copied, so that it stays where it is while the body comes. */
static int take_head(struct conn *c, size_t n, struct fr_err *err)
{
    enum fr_rc rc;

    fr_buf_add(&c->head_text, c->in.p, n);
    fr_buf_cut(&c->in, n);
    if (c->head_text.bad) {
        fr_fail(err, FR_NOMEM, "no memory for the request");
        return 503;
    }
    rc = fr_http_request(c->head_text.p, n, &c->head, err);
    if (rc != FR_OK)
        return rc == FR_UNSUPPORTED ? 505 : rc == FR_FULL ? 431 : 400;
    return check(c, err);
}

static bool closes(const struct fr_http_head *h)
{
    const char *connection = fr_http_find(h, "Connection");

    return h->minor == 0 || (connection != NULL && strcasestr(connection, "close") != NULL);
}

static bool is_chunked(const struct conn *c)
{
    return fr_http_find(&c->head, "Transfer-Encoding") != NULL;
}

static bool has_body(const struct conn *c)
{
    return is_chunked(c) ? c->chunks.over : c->in.n >= c->body_bytes;
}

bool request_head(struct conn *c)
{
    size_t n = fr_http_head_end((struct fr_str){c->in.p, c->in.n}, &c->looked);
    struct fr_err err;
    int status;

    if (n == 0 && c->in.n <= FR_HTTP_HEAD_MAX)
        return false;
    if (n == 0 || n > FR_HTTP_HEAD_MAX) {
        fr_fail(&err, FR_FULL, "the head is longer than %d bytes", FR_HTTP_HEAD_MAX);
        status = 431;
    } else {
        status = take_head(c, n, &err);
    }
    if (status != 0) {
        answer_refuse(c, status, &err);
        return true;
    }
    c->last = closes(&c->head);
    c->state = CONN_BODY;
    web_due(c, c->server->times.body);
    if (!has_body(c) && fr_http_find(&c->head, "Expect") != NULL) {
        conn_add(c, FR_STR("HTTP/1.1 100 Continue\r\n\r\n"));
        conn_flush(c);
    }
    return true;
}

/* Takes of what came what belongs to the chunks. false: the request is refused. */
static bool take_chunks(struct conn *c)
{
    uint64_t before = c->chunks.taken;
    struct fr_err err;
    enum fr_rc rc =
        fr_http_body_feed(&c->chunks, (struct fr_str){c->in.p, c->in.n}, &c->content, &err);

    fr_buf_cut(&c->in, (size_t)(c->chunks.taken - before));
    if (rc == FR_OK && c->content.n <= WEB_BODY_BYTES)
        return true;
    answer_refuse(c, rc == FR_OK ? too_long(&err) : rc == FR_NOMEM ? 503 : 400, &err);
    return false;
}

bool request_body(struct conn *c)
{
    if (is_chunked(c) && !c->chunks.over && c->in.n > 0 && !take_chunks(c))
        return true;
    if (!has_body(c))
        return false;
    c->state = CONN_ANSWER;
    c->due_ms = -1;
    request_answer(c);
    return true;
}

void request_answer(struct conn *c)
{
    size_t n = c->body_bytes;
    struct fr_str body = {n > 0 ? c->in.p : "", n};

    if (is_chunked(c) && c->content.n > 0)
        body = (struct fr_str){c->content.p, c->content.n};
    answer_request(c, body);
    if (!c->later)
        fr_buf_cut(&c->in, n);
}

/* What comes over the host's socket: requests, answers, streams of events. */
#include "tests/fuzz/fuzz.h"

#include "engine/api/problem.h"
#include "engine/api/range.h"
#include "engine/web/http.h"
#include "engine/web/sse.h"
#include "engine/web/target.h"

#include <string.h>

static bool clean(const char *s)
{
    for (; *s != '\0'; s++)
        if (((unsigned char)*s < 0x20 && *s != '\t') || *s == 0x7f)
            return false;
    return true;
}

static void check_target(const char *raw)
{
    struct fr_target t;
    struct fr_err err = {0};
    enum fr_rc rc = fr_target_parse(raw, &t, &err);
    const char *end = t.text + sizeof(t.text);

    fuzz_want_err(rc, &err);
    if (rc != FR_OK)
        return;
    fuzz_want(t.path[0] == '/' && clean(t.path) && fr_utf8_valid(t.path, strlen(t.path)),
              "a path is text that begins with /");
    fuzz_want(strstr(t.path, "//") == NULL && strstr(t.path, "/../") == NULL &&
                  strstr(t.path, "/./") == NULL,
              "a path means one place");
    fuzz_want(t.n_query <= FR_TARGET_PAIRS, "pairs have a limit");
    for (size_t i = 0; i < t.n_query; i++) {
        const struct fr_api_pair *p = &t.query[i];

        fuzz_want(p->name >= t.text && p->value > p->name && p->value < end, "a pair is inside");
        fuzz_want(clean(p->name) && clean(p->value), "a pair is text");
    }
}

static void check_range(const char *header, uint64_t total)
{
    uint64_t offset, bytes;
    enum fr_range is = fr_range_parse(header, total, &offset, &bytes);

    if (is == FR_RANGE_PART)
        fuzz_want(bytes > 0 && offset < total && bytes <= total - offset, "a part is inside");
    else
        fuzz_want(offset == 0 && bytes == total, "the rest is the whole");
}

static void check_head(const struct fr_http_head *h)
{
    fuzz_want(h->n_headers <= FR_HTTP_HEADERS, "headers have a limit");
    for (size_t i = 0; i < h->n_headers; i++) {
        const char *name = h->headers[i].name, *value = h->headers[i].value;

        fuzz_want(name[0] != '\0' && strpbrk(name, " \t:\r\n") == NULL, "a name is a token");
        fuzz_want(clean(value) && value[0] != ' ', "a value is text");
        fuzz_want(fr_http_find(h, name) != NULL, "a header is found");
        check_range(value, 1000);
        fr_target_host_valid(value);
    }
}

/* The end of a head does not depend on the pieces in which it came. */
static size_t head_end(struct fr_str in)
{
    size_t looked = 0, whole = fr_http_head_end(in, &looked), n = 0;

    looked = 0;
    for (size_t k = 0; k < in.n && n == 0; k += 7)
        n = fr_http_head_end((struct fr_str){in.p, k}, &looked);
    if (n == 0)
        n = fr_http_head_end(in, &looked);
    fuzz_want(n == whole && whole <= in.n, "a head ends at one place");
    return whole;
}

static enum fr_rc read_body(struct fr_http_body *body, struct fr_str in, size_t piece,
                            struct fr_buf *out)
{
    struct fr_err err = {0};
    enum fr_rc rc = FR_OK;

    for (size_t at = 0; at < in.n && rc == FR_OK; at += piece)
        rc = fr_http_body_feed(
            body, (struct fr_str){in.p + at, in.n - at < piece ? in.n - at : piece}, out, &err);
    fuzz_want_err(rc, &err);
    return rc;
}

/* What the body gives does not depend on the pieces in which it came; *whole gets it. */
static void check_body(struct fr_http_body body, struct fr_str rest, struct fr_buf *whole)
{
    struct fr_http_body again = body;
    struct fr_buf pieces = {0};
    enum fr_rc rc = read_body(&body, rest, rest.n + 1, whole);

    fuzz_want(read_body(&again, rest, 3, &pieces) == rc, "pieces end as the whole does");
    fuzz_want(whole->n == pieces.n && (whole->n == 0 || !memcmp(whole->p, pieces.p, whole->n)),
              "pieces give the whole");
    fuzz_want(whole->n <= rest.n, "a body is not longer than what came");
    fuzz_want(rc != FR_OK || (body.taken == again.taken && body.over == again.over),
              "pieces end where the whole does");
    fuzz_want(body.taken <= rest.n && (body.over || rc != FR_OK || body.taken == rest.n),
              "all of it belongs to a body that is not over");
    fr_buf_finish(&pieces);
}

void fuzz_request(struct fr_str in)
{
    size_t n = head_end(in);
    struct fr_http_head h;
    struct fr_http_body body;
    struct fr_buf copy = {0}, whole = {0};
    struct fr_err err = {0};
    enum fr_rc rc;

    if (n == 0)
        return;
    fr_buf_add(&copy, in.p, n);
    rc = fr_http_request(copy.p, n, &h, &err);
    fuzz_want_err(rc, &err);
    if (rc == FR_OK) {
        fuzz_want(clean(h.method) && clean(h.target) && h.target[0] != '\0', "a line is text");
        check_head(&h);
        check_target(h.target);
        fr_http_body_chunked(&body);
        check_body(body, (struct fr_str){in.p + n, in.n - n}, &whole);
    }
    fr_buf_finish(&whole);
    fr_buf_finish(&copy);
}

void fuzz_answer(struct fr_str in)
{
    size_t n = head_end(in);
    struct fr_http_head h;
    struct fr_http_body body;
    struct fr_buf copy = {0}, whole = {0};
    struct fr_issues issues = {0};
    struct fr_str rest = {in.p + n, in.n - n};
    struct fr_err err = {0};
    enum fr_rc rc;

    if (n == 0)
        return;
    fr_buf_add(&copy, in.p, n);
    rc = fr_http_response(copy.p, n, &h, &err);
    if (rc == FR_OK) {
        check_head(&h);
        rc = fr_http_body_begin(&body, &h, &err);
    }
    fuzz_want_err(rc, &err);
    if (rc == FR_OK) {
        fuzz_want(h.status >= 100 && h.status <= 599, "a status has three digits");
        check_body(body, rest, &whole);
        rc = fr_problem_read(h.status, (struct fr_str){whole.n > 0 ? whole.p : "", whole.n},
                             &issues, &err);
        fuzz_want(rc != FR_OK && err.msg[0] != '\0', "a problem is an error");
        fr_issues_finish(&issues);
    }
    fr_buf_finish(&copy);
    fr_buf_finish(&whole);
}

static void note_event(void *arg, const struct fr_sse_event *e)
{
    fuzz_want(e->data.p[e->data.n] == '\0' && e->event[0] != '\0', "an event is whole");
    fr_buf_fmt(arg, "[%s|%zu|%s]", e->event, e->data.n, e->id);
    fr_buf_add(arg, e->data.p, e->data.n);
}

static void read_events(struct fr_str in, size_t piece, struct fr_buf *out)
{
    struct fr_sse s = {0};
    struct fr_err err = {0};

    for (size_t at = 0; at < in.n; at += piece)
        fuzz_want(fr_sse_feed(&s, (struct fr_str){in.p + at, in.n - at < piece ? in.n - at : piece},
                              note_event, out, &err) == FR_OK,
                  "any bytes are a stream");
    fuzz_want(s.retry_ms >= 0, "a delay is not negative");
    fr_sse_finish(&s);
}

void fuzz_events(struct fr_str in)
{
    struct fr_buf whole = {0}, pieces = {0};

    if (in.n > FR_SSE_MAX)
        return;
    read_events(in, in.n + 1, &whole);
    read_events(in, 1, &pieces);
    fuzz_want(whole.n == pieces.n && (whole.n == 0 || !memcmp(whole.p, pieces.p, whole.n)),
              "pieces give the whole");
    fr_buf_finish(&whole);
    fr_buf_finish(&pieces);
}

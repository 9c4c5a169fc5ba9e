/* The parts of the host's interface that need no socket: targets, ranges, problems, streams. */
#include "engine/api/problem.h"
#include "engine/api/range.h"
#include "engine/web/http.h"
#include "engine/web/sse.h"
#include "engine/web/target.h"
#include "tests/unit/check.h"

#include <stdlib.h>

/* ---- targets ---- */

static void show_target(const struct fr_target *t, struct fr_buf *out)
{
    fr_buf_fmt(out, "%s", t->path);
    for (size_t i = 0; i < t->n_query; i++)
        fr_buf_fmt(out, " %s=%s", t->query[i].name, t->query[i].value);
}

static const struct {
    const char *raw, *want; /* a text that begins with '!': refused with it */
} target_rows[] = {
    {"/", "/"},
    {"/api/v1/runs", "/api/v1/runs"},
    {"/runs/", "/runs/"},
    {"/a%20b", "/a b"},
    {"/a+b", "/a+b"},
    {"/%C3%A4", "/\xc3\xa4"},
    {"/a%2Fb", "/a/b"},
    {"/.hidden/..x/x..", "/.hidden/..x/x.."},
    {"/r?x=1&y=a%26b+c", "/r x=1 y=a&b c"},
    {"/r?", "/r"},
    {"/r?&&x&", "/r x="},
    {"/r?x=a=b&=v", "/r x=a=b =v"},
    {"/r?p=/../x", "/r p=/../x"},
    {"/r?a?b=c", "/r a?b=c"},
    {"", "!not a path"},
    {"*", "!not a path"},
    {"runs", "!not a path"},
    {"http://h/x", "!not a path"},
    {"//x", "!\"//\""},
    {"/x//y", "!\"//\""},
    {"/..", "!\"/..\""},
    {"/../x", "!\"/..\""},
    {"/x/../y", "!\"/..\""},
    {"/x/.", "!\"/.\""},
    {"/%2e%2e/x", "!\"/..\""},
    {"/%2E./x", "!\"/..\""},
    {"/x%2f..%2fy", "!\"/..\""},
    {"/x%2f%2fy", "!\"//\""},
    {"/%00", "!control"},
    {"/x?y=%00", "!control"},
    {"/x%0d%0ay", "!control"},
    {"/x%7f", "!control"},
    {"/%", "!hex"},
    {"/%4", "!hex"},
    {"/%4g", "!hex"},
    {"/x?%", "!hex"},
    {"/x?a=%zz", "!hex"},
    {"/%ff", "!UTF-8"},
    {"/%C3", "!UTF-8"},
    {"/x?y=%C3&z=%A4", "!UTF-8"},
    {"/\xc3\xa4", "!encoded"},
    {"/a b", "!encoded"},
    {"/a#b", "!encoded"},
    {"/a?b#c", "!encoded"},
    {"/a\tb", "!encoded"},
};

static void targets(void)
{
    for (size_t i = 0; i < sizeof(target_rows) / sizeof(target_rows[0]); i++) {
        struct fr_target t;
        struct fr_err err = {0};
        struct fr_buf got = {0};
        enum fr_rc rc = fr_target_parse(target_rows[i].raw, &t, &err);

        check_row(target_rows[i].raw);
        if (rc == FR_OK)
            show_target(&t, &got);
        if (target_rows[i].want[0] == '!')
            CHECK(rc == FR_USAGE && strstr(err.msg, target_rows[i].want + 1) != NULL);
        else
            CHECK_TEXT(rc == FR_OK ? got.p : err.msg, target_rows[i].want);
        fr_buf_finish(&got);
    }
}

static void long_targets(void)
{
    struct fr_target t;
    struct fr_err err;
    char raw[FR_TARGET_MAX + 2];

    check_row("long targets");
    memset(raw, 'a', sizeof(raw));
    raw[0] = '/';
    raw[FR_TARGET_MAX] = '\0';
    CHECK(fr_target_parse(raw, &t, &err) == FR_OK && strlen(t.path) == FR_TARGET_MAX);
    raw[FR_TARGET_MAX] = 'a';
    raw[FR_TARGET_MAX + 1] = '\0';
    CHECK(fr_target_parse(raw, &t, &err) == FR_FULL);

    /* As many names as there may be, behind a path that takes all other bytes. */
    size_t at = FR_TARGET_MAX - 2 * FR_TARGET_PAIRS;
    raw[at] = '?';
    for (size_t i = 0; i < FR_TARGET_PAIRS; i++)
        memcpy(raw + at + 1 + 2 * i, "a&", 2);
    raw[FR_TARGET_MAX] = '\0';
    CHECK(fr_target_parse(raw, &t, &err) == FR_OK && t.n_query == FR_TARGET_PAIRS);
    CHECK(t.query[FR_TARGET_PAIRS - 1].value >= t.text &&
          t.query[FR_TARGET_PAIRS - 1].value < t.text + sizeof(t.text));
    raw[at - 2] = '?';
    raw[at - 1] = 'a';
    raw[at] = '&';
    CHECK(fr_target_parse(raw, &t, &err) == FR_FULL);
}

static void hosts(void)
{
    static const struct {
        const char *host;
        bool ok;
    } rows[] = {{"localhost", true}, {"flowrun", true},   {"a.b-c_d~e:80", true},
                {"127.0.0.1", true}, {"[::1]", true},     {"[::1]:65535", true},
                {"", false},         {":80", false},      {"a:", false},
                {"a:123456", false}, {"a:8a", false},     {"a b", false},
                {"a/b", false},      {"a,b", false},      {"u@h", false},
                {"[::1", false},     {"[::1]x", false},   {"[]", false},
                {"[g]", false},      {"\xc3\xa4", false}, {"a:1:2", false},
                {"<script>", false}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].host);
        CHECK_INT(fr_target_host_valid(rows[i].host), rows[i].ok);
    }
}

/* ---- messages ---- */

static const struct {
    const char *text;
    bool response;
    const char *want; /* NULL: refused */
} message_rows[] = {
    {"GET /x HTTP/1.1\r\nHost: a\r\n\r\n", false, "GET /x 1 [Host=a]"},
    {"GET /x HTTP/1.0\n\n", false, "GET /x 0 "},
    {"PUT * HTTP/1.1\nA:b\nC: \t d e \t\n\n", false, "PUT * 1 [A=b][C=d e]"},
    {"GET / HTTP/1.1\r\nX:\r\nY: :\r\n\r\n", false, "GET / 1 [X=][Y=:]"},
    {"GET / HTTP/1.1\r\nX: \xc3\xa4\r\n\r\n", false, "GET / 1 [X=\xc3\xa4]"},
    {"HTTP/1.1 200 OK\r\nA: b\r\n\r\n", true, "200 1 [A=b]"},
    {"HTTP/1.0 404\r\n\r\n", true, "404 0 "},
    {"HTTP/1.1 599 a b c\r\n\r\n", true, "599 1 "},
    {"\r\n\r\n", false, NULL},
    {"GET /x\r\n\r\n", false, NULL},
    {"GET  HTTP/1.1\r\n\r\n", false, NULL},
    {"GET /a b HTTP/1.1\r\n\r\n", false, NULL},
    {" GET / HTTP/1.1\r\n\r\n", false, NULL},
    {"G(T / HTTP/1.1\r\n\r\n", false, NULL},
    {"GET / HTTP/1.1 \r\n\r\n", false, NULL},
    {"GET / HTTP/2.0\r\n\r\n", false, NULL},
    {"GET / HTTP/1.2\r\n\r\n", false, NULL},
    {"GET / HTTP/1.10\r\n\r\n", false, NULL},
    {"GET / HTTP/11\r\n\r\n", false, NULL},
    {"GET / http/1.1\r\n\r\n", false, NULL},
    {"GET / HTTP/1.1\r\nHost\r\n\r\n", false, NULL},
    {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", false, NULL},
    {"GET / HTTP/1.1\r\n: a\r\n\r\n", false, NULL},
    {"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", false, NULL},
    {"GET / HTTP/1.1\r\nA: b\rc\r\n\r\n", false, NULL},
    {"GET / HTTP/1.1\r\nA: b\x01\r\n\r\n", false, NULL},
    {"GET / HTTP/1.1\r\nA\xc3\xa4: b\r\n\r\n", false, NULL},
    {"HTTP/1.1 20\r\n\r\n", true, NULL},
    {"HTTP/1.1 2000\r\n\r\n", true, NULL},
    {"HTTP/1.1 099 x\r\n\r\n", true, NULL},
    {"HTTP/1.1 600 x\r\n\r\n", true, NULL},
    {"HTTP/1.1 +20 x\r\n\r\n", true, NULL},
    {"HTTP/1.1\r\n\r\n", true, NULL},
};

static void show_head(const struct fr_http_head *h, struct fr_buf *out)
{
    if (h->method != NULL)
        fr_buf_fmt(out, "%s %s %d ", h->method, h->target, h->minor);
    else
        fr_buf_fmt(out, "%d %d ", h->status, h->minor);
    for (size_t i = 0; i < h->n_headers; i++)
        fr_buf_fmt(out, "[%s=%s]", h->headers[i].name, h->headers[i].value);
}

static void messages(void)
{
    for (size_t i = 0; i < sizeof(message_rows) / sizeof(message_rows[0]); i++) {
        const char *text = message_rows[i].text;
        char copy[256];
        struct fr_http_head h;
        struct fr_err err = {0};
        struct fr_buf got = {0};
        size_t n = strlen(text);
        enum fr_rc rc;

        check_row(text);
        memcpy(copy, text, n + 1);
        rc = message_rows[i].response ? fr_http_response(copy, n, &h, &err)
                                      : fr_http_request(copy, n, &h, &err);
        CHECK_INT(rc == FR_OK, message_rows[i].want != NULL);
        if (rc == FR_OK) {
            show_head(&h, &got);
            CHECK_TEXT(got.p, message_rows[i].want);
        } else {
            CHECK(err.msg[0] != '\0' && (rc == FR_USAGE || rc == FR_UNSUPPORTED));
        }
        fr_buf_finish(&got);
    }
    check_row("a NUL");
    char nul[] = "GET / HTTP/1.1\r\nA: b\0c\r\n\r\n";
    struct fr_http_head h;
    struct fr_err err;
    CHECK_INT(fr_http_request(nul, sizeof(nul) - 1, &h, &err), FR_USAGE);
    check_row("headers");
    struct fr_buf many = {0};
    fr_buf_text(&many, "GET / HTTP/1.1\r\n");
    for (int i = 0; i < FR_HTTP_HEADERS; i++)
        fr_buf_fmt(&many, "N%d: %d\r\n", i, i);
    size_t n = many.n;
    fr_buf_text(&many, "\r\n");
    CHECK_INT(fr_http_request(many.p, many.n, &h, &err), FR_OK);
    CHECK(h.n_headers == FR_HTTP_HEADERS && strcmp(fr_http_find(&h, "n99"), "99") == 0);
    CHECK(fr_http_find(&h, "n100") == NULL);
    many.n = n;
    fr_buf_text(&many, "N: 1\r\n\r\n");
    for (size_t i = 0; i < n; i++) /* what reading it has changed */
        many.p[i] = many.p[i] != '\0'      ? many.p[i]
                    : i < 10               ? ' '
                    : many.p[i + 1] == ' ' ? ':'
                                           : '\r';
    memcpy(many.p, "GET / HTTP/1.1\r\n", 16);
    CHECK_INT(fr_http_request(many.p, many.n, &h, &err), FR_FULL);
    fr_buf_finish(&many);
}

static void head_ends(void)
{
    static const struct {
        const char *text;
        size_t end;
    } rows[] = {{"GET / HTTP/1.1\r\nA: b\r\n\r\nbody\r\n\r\n", 24},
                {"GET / HTTP/1.1\nA: b\n\nbody", 21},
                {"\r\nGET", 2},
                {"\nGET", 1},
                {"a\r\r\n\n", 5},
                {"a\r\n\rb\r\n\r\n", 9},
                {"a\r\nb\r\n\r", 0},
                {"", 0}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t looked = 0, at = 0, n = strlen(rows[i].text);

        check_row(rows[i].text);
        CHECK_INT(fr_http_head_end((struct fr_str){rows[i].text, n}, &(size_t){0}), rows[i].end);
        for (size_t k = 0; k <= n && at == 0; k++) {
            at = fr_http_head_end((struct fr_str){rows[i].text, k}, &looked);
            CHECK(at == 0 || at == k);
        }
        CHECK_INT(at, rows[i].end);
    }
}

static const struct {
    const char *header, *text, *want; /* want NULL: refused */
    bool over;
} body_rows[] = {
    {"Content-Length: 3", "abcd", "abc", true},
    {"Content-Length: 3", "ab", "ab", false},
    {"Content-Length: 0", "x", "", true},
    {"Content-Length: -1", "", NULL, false},
    {"Content-Length: +1", "", NULL, false},
    {"Content-Length: 1 1", "", NULL, false},
    {"Content-Length: 99999999999999999999", "", NULL, false},
    {"X: y", "abc", "abc", false},
    {"Transfer-Encoding: gzip", "", NULL, false},
    {"Transfer-Encoding: Chunked", "3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\nmore",
     "abc0123456789", true},
    {"Transfer-Encoding: chunked", "3\nabc\n0\n\n", NULL, false},
    {"Transfer-Encoding: chunked", "3\n\nabc\r\n0\r\n\r\n", NULL, false},
    {"Transfer-Encoding: chunked", "3 ;x\r\nabc\r\n0\r\n\r\n", "abc", true},
    {"Transfer-Encoding: chunked", "3\t;x\r\nabc\r\n0\r\n\r\n", "abc", true},
    {"Transfer-Encoding: chunked", "3\r\nabc\n0\r\n\r\n", NULL, false},
    {"Transfer-Encoding: chunked", "0\r\n T: x\r\n\r\n", NULL, false},
    {"Transfer-Encoding: chunked", "0\r\n: x\r\n\r\n", NULL, false},
    {"Transfer-Encoding: chunked", "0\r\nT\r\n\r\n", NULL, false},
    {"Transfer-Encoding: chunked", "0\r\nT: \x01\r\n\r\n", NULL, false},
    {"Transfer-Encoding: chunked", "0;\x7f\r\n\r\n", NULL, false},
    {"Transfer-Encoding: chunked", "3\r\nabc\r\n0\r\n\r\r\n", NULL, false},
    {"Transfer-Encoding: chunked", "0\r\nT: x\r\n\r\n", "", true},
    {"Transfer-Encoding: chunked", "0\r\nT: x\r\n", "", false},
    {"Transfer-Encoding: chunked", "3\r\nab", "ab", false},
    {"Transfer-Encoding: chunked", "3\r\nabcd", NULL, false},
    {"Transfer-Encoding: chunked", "g\r\n", NULL, false},
    {"Transfer-Encoding: chunked", "\r\n", NULL, false},
    {"Transfer-Encoding: chunked", "-3\r\n", NULL, false},
    {"Transfer-Encoding: chunked", "3x\r\n", NULL, false},
    {"Transfer-Encoding: chunked", "1000000000000000\r\n", NULL, false},
    {"Transfer-Encoding: chunked", "fffffffffffffff\r\nabc", "abc", false},
};

static void bodies(void)
{
    for (size_t i = 0; i < sizeof(body_rows) / sizeof(body_rows[0]); i++)
        for (size_t piece = 1; piece < 30; piece++) {
            char head[200];
            struct fr_http_head h;
            struct fr_http_body b;
            struct fr_buf got = {0};
            struct fr_err err;
            size_t n = strlen(body_rows[i].text);
            enum fr_rc rc;

            check_row(body_rows[i].header);
            (void)snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\n%s\r\n\r\n",
                           body_rows[i].header);
            CHECK_INT(fr_http_response(head, strlen(head), &h, &err), FR_OK);
            rc = fr_http_body_begin(&b, &h, &err);
            fr_buf_text(&got, "");
            for (size_t at = 0; at < n && rc == FR_OK; at += piece)
                rc = fr_http_body_feed(
                    &b, (struct fr_str){body_rows[i].text + at, n - at < piece ? n - at : piece},
                    &got, &err);
            CHECK_INT(rc == FR_OK, body_rows[i].want != NULL);
            if (rc == FR_OK) {
                CHECK_TEXT(got.p, body_rows[i].want);
                CHECK_INT(b.over, body_rows[i].over);
            }
            fr_buf_finish(&got);
        }
}

/* ---- ranges ---- */

static void ranges(void)
{
    static const struct {
        const char *header;
        uint64_t total;
        enum fr_range is;
        uint64_t offset, bytes;
    } rows[] = {
        {"", 10, FR_RANGE_WHOLE, 0, 10},
        {"bytes=0-0", 10, FR_RANGE_PART, 0, 1},
        {"bytes=0-9", 10, FR_RANGE_PART, 0, 10},
        {"bytes=3-5", 10, FR_RANGE_PART, 3, 3},
        {"bytes=9-", 10, FR_RANGE_PART, 9, 1},
        {"bytes=3-99", 10, FR_RANGE_PART, 3, 7},
        {"Bytes=3-", 10, FR_RANGE_PART, 3, 7},
        {"bytes=-4", 10, FR_RANGE_PART, 6, 4},
        {"bytes=-10", 10, FR_RANGE_PART, 0, 10},
        {"bytes=-99", 10, FR_RANGE_PART, 0, 10},
        {"bytes=10-", 10, FR_RANGE_NONE, 0, 10},
        {"bytes=10-11", 10, FR_RANGE_NONE, 0, 10},
        {"bytes=-0", 10, FR_RANGE_NONE, 0, 10},
        {"bytes=0-", 0, FR_RANGE_NONE, 0, 0},
        {"bytes=-1", 0, FR_RANGE_NONE, 0, 0},
        {"bytes=5-3", 10, FR_RANGE_WHOLE, 0, 10},
        {"bytes=-", 10, FR_RANGE_WHOLE, 0, 10},
        {"bytes=", 10, FR_RANGE_WHOLE, 0, 10},
        {"bytes", 10, FR_RANGE_WHOLE, 0, 10},
        {"bytes=1", 10, FR_RANGE_WHOLE, 0, 10},
        {"bytes=1-2,4-5", 10, FR_RANGE_WHOLE, 0, 10},
        {"bytes=+1-2", 10, FR_RANGE_WHOLE, 0, 10},
        {"bytes= 1-2", 10, FR_RANGE_WHOLE, 0, 10},
        {"lines=1-2", 10, FR_RANGE_WHOLE, 0, 10},
        {"bytes=18446744073709551616-", 10, FR_RANGE_NONE, 0, 10},
        {"bytes=1-18446744073709551616", 10, FR_RANGE_PART, 1, 9},
        {"bytes=-18446744073709551616", 10, FR_RANGE_PART, 0, 10},
        {"bytes=0-18446744073709551615", UINT64_MAX, FR_RANGE_PART, 0, UINT64_MAX},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t offset = 77, bytes = 77;

        check_row(rows[i].header);
        CHECK_INT(fr_range_parse(rows[i].header, rows[i].total, &offset, &bytes), rows[i].is);
        CHECK(offset == rows[i].offset && bytes == rows[i].bytes);
    }
}

static void tags(void)
{
    static const struct {
        const char *header, *tag;
        bool known;
    } rows[] = {
        {"", "\"7\"", false},
        {"\"7\"", "\"7\"", true},
        {"\"8\"", "\"7\"", false},
        {"\"77\"", "\"7\"", false},
        {"\"\"", "\"7\"", false},
        {"W/\"7\"", "\"7\"", true},
        {"\"7\"", "W/\"7\"", true},
        {"\"a, b\", W/\"7\"", "\"7\"", true},
        {"\"a\",\"b\" , \"7\" ", "\"7\"", true},
        {"*", "\"7\"", true},
        {"7", "\"7\"", false},
        {"\"7", "\"7\"", false},
        {"\"a\" \"7\"", "\"7\"", true},
        {"x\"7\"", "\"7\"", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].header);
        CHECK(fr_etag_known(rows[i].header, rows[i].tag) == rows[i].known);
    }
}

/* ---- problems ---- */

static void problems(void)
{
    static const char *lines[] = {"a:b/p.yaml:7:12: task 'x' needs unknown task 'y'",
                                  "p.yaml:1:2: note: \"quoted\"", "a line without a place",
                                  "p.yaml:x:1: no place", "p.yaml:3: no column"};
    struct fr_issues in = {.lines = lines, .n = 5}, out = {0};
    struct fr_api_response res = {.fd = -1};
    struct fr_err err, back;

    check_row("problems");
    fr_fail(&err, FR_USAGE, "p.yaml has %d mistakes: \x01 \"a\" \xff", 5);
    fr_problem(&res, 422, "/api/v1/runs", &err, &in);
    CHECK_INT(res.status, 422);
    CHECK_TEXT(res.type, "application/problem+json");
    CHECK(strstr(res.body.p, "{\"type\":\"/problems/usage\",\"title\":\"Unprocessable Content\","
                             "\"status\":422,\"detail\":\"p.yaml has 5 mistakes: ") == res.body.p);
    CHECK(strstr(res.body.p,
                 "\"instance\":\"/api/v1/runs\",\"code\":\"usage\",\"issues\":[{\"file\":"
                 "\"a:b/p.yaml\",\"line\":7,\"col\":12,\"text\":\"task ") != NULL);
    CHECK_INT(fr_problem_read(422, (struct fr_str){res.body.p, res.body.n}, &out, &back), FR_USAGE);
    CHECK_TEXT(back.msg, err.msg);
    CHECK_INT(out.n, 5);
    for (size_t i = 0; i < out.n; i++)
        CHECK_TEXT(out.lines[i], lines[i]);
    fr_issues_finish(&out);

    for (int rc = FR_USAGE; rc <= FR_BUG; rc++) {
        check_row(fr_rc_name((enum fr_rc)rc));
        fr_fail(&err, (enum fr_rc)rc, "why");
        fr_problem(&res, 0, NULL, &err, NULL);
        CHECK(res.status >= 400 && res.status < 600);
        CHECK(strcmp(fr_status_phrase(res.status), "Error") != 0);
        CHECK(strstr(res.body.p, "instance") == NULL && strstr(res.body.p, "issues") == NULL);
        CHECK_INT(fr_problem_read(res.status, (struct fr_str){res.body.p, res.body.n}, NULL, &back),
                  rc);
        CHECK_TEXT(back.msg, "why");
    }
    fr_api_response_finish(&res);
}

/* What stands behind each number that the host answers with. */
static void phrases(void)
{
    static const char want[] =
        "200 OK\n201 Created\n202 Accepted\n204 No Content\n206 Partial Content\n"
        "304 Not Modified\n400 Bad Request\n401 Unauthorized\n403 Forbidden\n404 Not Found\n"
        "405 Method Not Allowed\n409 Conflict\n411 Length Required\n412 Precondition Failed\n"
        "413 Content Too Large\n414 URI Too Long\n415 Unsupported Media Type\n"
        "416 Range Not Satisfiable\n417 Expectation Failed\n421 Misdirected Request\n"
        "422 Unprocessable Content\n428 Precondition Required\n429 Too Many Requests\n"
        "431 Request Header Fields Too Large\n500 Internal Server Error\n501 Not Implemented\n"
        "503 Service Unavailable\n504 Gateway Timeout\n505 HTTP Version Not Supported\n"
        "507 Insufficient Storage\n";
    struct fr_buf got = {0};

    check_row("phrases");
    for (int status = 100; status < 600; status++)
        if (strcmp(fr_status_phrase(status), "Error") != 0)
            fr_buf_fmt(&got, "%d %s\n", status, fr_status_phrase(status));
    CHECK_TEXT(got.p, want);
    fr_buf_finish(&got);
}

/* The number that stands for each kind of error. */
static void statuses(void)
{
    struct fr_api_response res = {.fd = -1};
    struct fr_buf got = {0};
    struct fr_err err;

    check_row("statuses");
    for (int rc = FR_USAGE; rc <= FR_BUG; rc++) {
        fr_fail(&err, (enum fr_rc)rc, "why");
        fr_problem(&res, 0, NULL, &err, NULL);
        fr_buf_fmt(&got, "%s %d\n", fr_rc_name((enum fr_rc)rc), res.status);
    }
    CHECK_TEXT(got.p,
               "usage 400\nnot_found 404\nio 500\nfull 507\nno_memory 503\nbusy 409\ndenied 403\n"
               "unreachable 503\nprotocol 500\ncorrupt 500\nshape 400\ndtype 400\nunsupported 501\n"
               "timeout 504\npeer 500\nstopped 409\nbug 500\n");
    fr_buf_finish(&got);
    fr_api_response_finish(&res);
}

static void foreign_problems(void)
{
    static const char *const rows[] = {"",
                                       "<html>",
                                       "{}",
                                       "[]",
                                       "{\"detail\":7}",
                                       "{\"detail\":\"\",\"code\":\"usage\"}",
                                       "\"detail\"",
                                       "{\"detail\":\"x\",\"code\":\"nonsense\"}"};
    struct fr_issues out = {0};
    struct fr_err err;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i]);
        CHECK_INT(fr_problem_read(502, fr_str_of(rows[i]), &out, &err), FR_PROTO);
        CHECK(err.msg[0] != '\0' && out.n == 0);
        fr_issues_finish(&out);
    }
}

/* ---- streams ---- */

static void show_event(void *arg, const struct fr_sse_event *e)
{
    struct fr_buf *b = arg;

    fr_buf_fmt(b, "[%s|", e->event);
    fr_buf_add(b, e->data.p, e->data.n);
    fr_buf_fmt(b, "|%s]", e->id);
    CHECK(e->data.p[e->data.n] == '\0');
}

static void feed(const char *text, size_t piece, struct fr_buf *out, int64_t *retry_ms)
{
    struct fr_sse s = {0};
    size_t n = strlen(text);

    fr_buf_text(out, "");
    for (size_t at = 0; at < n; at += piece) {
        size_t k = n - at < piece ? n - at : piece;
        CHECK_INT(fr_sse_feed(&s, (struct fr_str){text + at, k}, show_event, out, NULL), FR_OK);
    }
    *retry_ms = s.retry_ms;
    fr_sse_finish(&s);
}

static void streams(void)
{
    static const struct {
        const char *text, *want;
        int64_t retry_ms;
    } rows[] = {
        {"data: x\n\n", "[message|x|]", 0},
        {"data:x\r\n\r\n", "[message|x|]", 0},
        {"data:  x\r\r", "[message| x|]", 0},
        {"event: log\nid: 1.7\ndata: {\"a\":1}\n\n", "[log|{\"a\":1}|1.7]", 0},
        {"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", "[message|a|1][message|b|1][message|c|]",
         0},
        {"data: a\ndata: b\ndata\n\n", "[message|a\nb\n|]", 0},
        {"data\n\n", "[message||]", 0},
        {"data:\n\n", "[message||]", 0},
        {"event: x\n\ndata: y\n\n", "[message|y|]", 0},
        {":comment\n\n:\n\ndata: x\n:y\n\n", "[message|x|]", 0},
        {"retry: 2000\n\n", "", 2000},
        {"retry: -1\nretry: 5x\nretry:\n\n", "", 0},
        {"data: cut\n", "", 0},
        {"data: whole\n\ndata: cut", "[message|whole|]", 0},
        {"\xef\xbb\xbf"
         "data: x\n\n",
         "[message|x|]", 0},
        {"data: x\n\n\xef\xbb\xbf"
         "data: y\n\n",
         "[message|x|]", 0},
        {"unknown: 1\nDATA: x\ndata : x\n\n", "", 0},
        {"\n\n\r\n\r\rdata: x\n\n", "[message|x|]", 0},
        {"data: a\r\ndata: b\r\n\r\n", "[message|a\nb|]", 0},
        {"data: x\r\n\ndata: y\n\r\n", "[message|x|][message|y|]", 0},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (size_t piece = 1; piece <= strlen(rows[i].text); piece++) {
            struct fr_buf got = {0};
            int64_t retry_ms;

            check_row(rows[i].text);
            feed(rows[i].text, piece, &got, &retry_ms);
            CHECK_TEXT(got.p, rows[i].want);
            CHECK_INT(retry_ms, rows[i].retry_ms);
            fr_buf_finish(&got);
        }
}

/* A NUL makes a name of an event or an id none; data may have one. */
static void nul_streams(void)
{
    struct fr_str text = FR_STR("event: a\nid: 1\ndata: x\n\nevent: b\0c\nid: 2\0\ndata: y\n\n");
    struct fr_sse s = {0};
    struct fr_buf out = {0};

    check_row("a NUL");
    CHECK_INT(fr_sse_feed(&s, text, show_event, &out, NULL), FR_OK);
    CHECK_TEXT(out.p, "[a|x|1][message|y|1]");
    fr_buf_finish(&out);
    fr_sse_finish(&s);
}

static void long_streams(void)
{
    struct fr_sse s = {0};
    struct fr_err err;
    struct fr_buf out = {0};
    char *line = malloc(FR_SSE_MAX);

    check_row("long events");
    if (!CHECK(line != NULL))
        return;
    memset(line, 'x', FR_SSE_MAX);
    memcpy(line, "data:", 5);
    CHECK_INT(fr_sse_feed(&s, (struct fr_str){line, FR_SSE_MAX - 1}, show_event, &out, &err),
              FR_OK);
    CHECK_INT(fr_sse_feed(&s, FR_STR("\n\n"), show_event, &out, &err), FR_OK);
    CHECK_INT(out.n, FR_SSE_MAX - 1 - 5 + 11);
    CHECK_INT(fr_sse_feed(&s, (struct fr_str){line, FR_SSE_MAX}, show_event, &out, &err), FR_OK);
    CHECK_INT(fr_sse_feed(&s, FR_STR("x"), show_event, &out, &err), FR_FULL);
    fr_sse_finish(&s);
    memset(line + 5, 'y', 1000);
    line[1000] = '\n'; /* many lines of data are one event too */
    enum fr_rc rc = FR_OK;
    for (size_t i = 0; i <= FR_SSE_MAX / 500 && rc == FR_OK; i++)
        rc = fr_sse_feed(&s, (struct fr_str){line, 1001}, show_event, &out, &err);
    CHECK_INT(rc, FR_FULL);
    fr_sse_finish(&s);
    fr_buf_finish(&out);
    free(line);
}

int main(void)
{
    targets();
    long_targets();
    hosts();
    messages();
    head_ends();
    bodies();
    ranges();
    tags();
    problems();
    phrases();
    statuses();
    foreign_problems();
    streams();
    nul_streams();
    long_streams();
    return check_done();
}

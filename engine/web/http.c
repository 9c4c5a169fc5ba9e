#include "engine/web/http.h"

#include "engine/base/sign.h"

#include <string.h>
#include <strings.h>

/* ---- heads ---- */

size_t fr_http_head_end(struct fr_str in, size_t *looked)
{
    for (size_t i = *looked; i < in.n; i++) {
        if (in.p[i] != '\n')
            continue;
        if (i == 0 || in.p[i - 1] == '\n' ||
            (in.p[i - 1] == '\r' && (i == 1 || in.p[i - 2] == '\n')))
            return i + 1;
    }
    *looked = in.n;
    return 0;
}

/* The next line of [*p, end), NUL-terminated; *p moves after it. NULL: none, or one with a control
 * character. */
static char *take_line(char **p, char *end)
{
    char *line = *p, *nl = memchr(line, '\n', (size_t)(end - line)), *stop = nl;

    if (nl == NULL)
        return NULL;
    if (stop > line && stop[-1] == '\r')
        stop--;
    for (char *c = line; c < stop; c++)
        if (((unsigned char)*c < 0x20 && *c != '\t') || *c == 0x7f)
            return NULL;
    *stop = '\0';
    *p = nl + 1;
    return line;
}

static bool is_token(const char *p, size_t n)
{
    static const char set[] = "!#$%&'*+-.^_`|~0123456789"
                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

    return n > 0 && strspn(p, set) >= n;
}

static enum fr_rc take_header(struct fr_http_head *out, char *line, struct fr_err *err)
{
    size_t n = strcspn(line, ":"), end = strlen(line);
    char *value;

    if (line[n] != ':' || !is_token(line, n))
        return fr_fail(err, FR_USAGE, "a header has a bad name, or no \":\"");
    if (out->n_headers == FR_HTTP_HEADERS)
        return fr_fail(err, FR_FULL, "there are more than %d headers", FR_HTTP_HEADERS);
    line[n] = '\0';
    value = line + n + 1;
    value += strspn(value, " \t");
    while (line + end > value && (line[end - 1] == ' ' || line[end - 1] == '\t'))
        line[--end] = '\0';
    out->headers[out->n_headers++] = (struct fr_http_header){line, value};
    return FR_OK;
}

static enum fr_rc take_headers(struct fr_http_head *out, char *p, char *end, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;
    char *line;

    while (rc == FR_OK && (line = take_line(&p, end)) != NULL && line[0] != '\0')
        rc = take_header(out, line, err);
    if (rc == FR_OK && line == NULL)
        rc = fr_fail(err, FR_USAGE, "a header has a control character");
    return rc;
}

/* "HTTP/1.1". */
static enum fr_rc take_version(const char *s, struct fr_http_head *out, struct fr_err *err)
{
    if (strncmp(s, "HTTP/", 5) != 0 || s[5] < '0' || s[5] > '9' || s[6] != '.' || s[7] < '0' ||
        s[7] > '9' || s[8] != '\0')
        return fr_fail(err, FR_USAGE, "this is not HTTP/1.1");
    if (s[5] != '1' || s[7] > '1')
        return fr_fail(err, FR_UNSUPPORTED, "the version of HTTP is 1.1, not %s", s + 5);
    out->minor = s[7] - '0';
    return FR_OK;
}

enum fr_rc fr_http_request(char *p, size_t n, struct fr_http_head *out, struct fr_err *err)
{
    char *end = p + n, *line = take_line(&p, end), *target, *version;
    enum fr_rc rc;

    *out = (struct fr_http_head){0};
    if (line == NULL || (target = strchr(line, ' ')) == NULL ||
        (version = strchr(target + 1, ' ')) == NULL)
        return fr_fail(err, FR_USAGE, "this is not HTTP/1.1");
    *target++ = '\0';
    *version++ = '\0';
    out->method = line;
    out->target = target;
    if ((rc = take_version(version, out, err)) != FR_OK)
        return rc;
    if (!is_token(line, strlen(line)) || target[0] == '\0')
        return fr_fail(err, FR_USAGE, "this is not HTTP/1.1");
    return take_headers(out, p, end, err);
}

enum fr_rc fr_http_response(char *p, size_t n, struct fr_http_head *out, struct fr_err *err)
{
    char *end = p + n, *line = take_line(&p, end), *status;
    int64_t number = 0;
    enum fr_rc rc;

    *out = (struct fr_http_head){0};
    if (line == NULL || (status = strchr(line, ' ')) == NULL)
        return fr_fail(err, FR_USAGE, "this is not HTTP/1.1");
    *status++ = '\0';
    status[strcspn(status, " ")] = '\0'; /* what follows is for people */
    if ((rc = take_version(line, out, err)) != FR_OK)
        return rc;
    if (strlen(status) != 3 || fr_parse_i64(fr_str_of(status), &number, NULL) != FR_OK ||
        number < 100 || number > 599)
        return fr_fail(err, FR_USAGE, "this is not HTTP/1.1");
    out->status = (int)number;
    return take_headers(out, p, end, err);
}

const char *fr_http_find(const struct fr_http_head *head, const char *name)
{
    for (size_t i = 0; i < head->n_headers; i++)
        if (strcasecmp(head->headers[i].name, name) == 0)
            return head->headers[i].value;
    return NULL;
}

/* ---- bodies ---- */

void fr_http_body_chunked(struct fr_http_body *b)
{
    *b = (struct fr_http_body){.kind = FR_BODY_CHUNKED};
}

enum fr_rc fr_http_body_begin(struct fr_http_body *b, const struct fr_http_head *response,
                              struct fr_err *err)
{
    const char *length = fr_http_find(response, "Content-Length");
    const char *coding = fr_http_find(response, "Transfer-Encoding");
    int64_t n = 0;

    *b = (struct fr_http_body){.kind = FR_BODY_TO_END};
    if (response->status < 200 || response->status == 204 || response->status == 304) {
        b->kind = FR_BODY_LENGTH;
        b->over = true;
    } else if (coding != NULL) {
        fr_http_body_chunked(b);
        if (strcasecmp(coding, "chunked") != 0)
            return fr_fail(err, FR_UNSUPPORTED, "the coding of the body is not known");
    } else if (length != NULL) {
        b->kind = FR_BODY_LENGTH;
        if (fr_parse_i64(fr_str_of(length), &n, NULL) != FR_OK || n < 0 || length[0] == '+')
            return fr_fail(err, FR_USAGE, "the length of the body is no number");
        b->left = (uint64_t)n;
        b->over = n == 0;
    }
    return FR_OK;
}

/* A line between the contents of chunks has ended. */
static void end_line(struct fr_http_body *b)
{
    switch (b->at) {
    case FR_CHUNK_SIZE:
    case FR_CHUNK_EXTENSION:
        b->at = b->left > 0 ? FR_CHUNK_DATA : FR_CHUNK_TRAILER;
        break;
    case FR_CHUNK_END:
        b->at = FR_CHUNK_SIZE;
        break;
    default:
        b->over = b->line == 0;
    }
    b->line = 0;
    b->cr = b->named = false;
}

/* Whether the line may end here: CR LF stand behind a size, or behind content, or a field. */
static bool may_end(const struct fr_http_body *b)
{
    return b->at == FR_CHUNK_SIZE      ? b->line > 0
           : b->at == FR_CHUNK_TRAILER ? b->line == 0 || b->named
                                       : true;
}

static bool take_size(struct fr_http_body *b, char c)
{
    if (fr_hex_digit(c) >= 0) {
        b->left = b->left << 4 | (uint64_t)fr_hex_digit(c);
        return ++b->line <= 15;
    }
    b->at = FR_CHUNK_EXTENSION;
    return b->line > 0 && (c == ';' || c == ' ' || c == '\t');
}

/* Fields of the trailer mean nothing here; they are "name: value" all the same. */
static bool take_trailer(struct fr_http_body *b, char c)
{
    const char byte[] = {c, '\0'};

    if (++b->framing > FR_HTTP_HEAD_MAX || (!b->named && c != ':' && !is_token(byte, 1)))
        return false;
    b->named |= c == ':';
    return ++b->line > 1 || c != ':';
}

/* One byte that is not of the content; false: it is wrong. Lines end with CR LF alone: what reads
 * them in front of us must see the same body. */
static bool take_framing(struct fr_http_body *b, char c)
{
    if (b->cr || c == '\r' || c == '\n') {
        if (b->cr ? c != '\n' : c != '\r' || !may_end(b))
            return false;
        if (b->cr)
            end_line(b);
        else
            b->cr = true;
        return true;
    }
    if (((unsigned char)c < 0x20 && c != '\t') || c == 0x7f)
        return false;
    switch (b->at) {
    case FR_CHUNK_SIZE:
        return take_size(b, c);
    case FR_CHUNK_EXTENSION:
        return ++b->framing <= FR_HTTP_HEAD_MAX;
    case FR_CHUNK_TRAILER:
        return take_trailer(b, c);
    default:
        return false;
    }
}

enum fr_rc fr_http_body_feed(struct fr_http_body *b, struct fr_str in, struct fr_buf *out,
                             struct fr_err *err)
{
    bool chunked = b->kind == FR_BODY_CHUNKED;

    while (in.n > 0 && !b->over) {
        size_t take = 1;

        if (chunked && b->at != FR_CHUNK_DATA) {
            if (!take_framing(b, in.p[0]))
                return fr_fail(err, FR_USAGE, "the chunks of the body are wrong");
        } else {
            take = b->kind == FR_BODY_TO_END || b->left > in.n ? in.n : (size_t)b->left;
            fr_buf_add(out, in.p, take);
            b->left -= b->kind == FR_BODY_TO_END ? 0 : take;
            b->over = b->kind == FR_BODY_LENGTH && b->left == 0;
            if (chunked && b->left == 0)
                b->at = FR_CHUNK_END;
        }
        b->taken += take;
        in = (struct fr_str){in.p + take, in.n - take};
    }
    return out->bad ? fr_fail(err, FR_NOMEM, "no memory for the body") : FR_OK;
}

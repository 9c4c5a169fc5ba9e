#include "engine/web/sse.h"

#include <string.h>

struct reader {
    struct fr_sse *s;
    void (*fn)(void *arg, const struct fr_sse_event *e);
    void *arg;
};

static void set(struct fr_buf *b, struct fr_str v)
{
    fr_buf_cut(b, b->n);
    fr_buf_add(b, v.p, v.n);
}

static const char *text(const struct fr_buf *b, const char *otherwise)
{
    return b->n > 0 ? b->p : otherwise;
}

/* An empty line ends an event; one without data is none. */
static void dispatch(struct reader *r)
{
    struct fr_sse *s = r->s;

    if (s->data.n > 0) {
        struct fr_sse_event e = {.event = text(&s->event, "message"),
                                 .data = {s->data.p, s->data.n - 1},
                                 .id = text(&s->id, "")};

        s->data.p[s->data.n - 1] = '\0';
        r->fn(r->arg, &e);
    }
    fr_buf_cut(&s->data, s->data.n);
    fr_buf_cut(&s->event, s->event.n);
}

static void take_field(struct fr_sse *s, struct fr_str name, struct fr_str value)
{
    bool has_nul = memchr(value.p, '\0', value.n) != NULL;
    int64_t ms;

    if (fr_str_is(name, "data")) {
        fr_buf_add(&s->data, value.p, value.n);
        fr_buf_add(&s->data, "\n", 1);
    } else if (fr_str_is(name, "event") && !has_nul) {
        set(&s->event, value);
    } else if (fr_str_is(name, "id") && !has_nul) {
        set(&s->id, value);
    } else if (fr_str_is(name, "retry") && value.n > 0 && value.p[0] >= '0' && value.p[0] <= '9' &&
               fr_parse_i64(value, &ms, NULL) == FR_OK) {
        s->retry_ms = ms;
    }
}

static void take_line(struct reader *r)
{
    struct fr_sse *s = r->s;
    struct fr_str line = {s->line.n > 0 ? s->line.p : "", s->line.n}, value = FR_STR("");
    const char *colon;

    if (!s->begun && line.n >= 3 && memcmp(line.p, "\xef\xbb\xbf", 3) == 0)
        line = (struct fr_str){line.p + 3, line.n - 3};
    s->begun = true;
    if (line.n == 0) {
        dispatch(r);
    } else if ((colon = memchr(line.p, ':', line.n)) != line.p) {
        size_t n = colon != NULL ? (size_t)(colon - line.p) : line.n;

        if (colon != NULL)
            value = (struct fr_str){colon + 1, line.n - n - 1};
        if (value.n > 0 && value.p[0] == ' ')
            value = (struct fr_str){value.p + 1, value.n - 1};
        take_field(s, (struct fr_str){line.p, n}, value);
    }
    fr_buf_cut(&s->line, s->line.n);
}

static size_t end_of_line(struct fr_str p)
{
    size_t n = 0;

    while (n < p.n && p.p[n] != '\n' && p.p[n] != '\r')
        n++;
    return n;
}

enum fr_rc fr_sse_feed(struct fr_sse *s, struct fr_str p,
                       void (*fn)(void *arg, const struct fr_sse_event *e), void *arg,
                       struct fr_err *err)
{
    struct reader r = {s, fn, arg};

    while (p.n > 0) {
        size_t n = end_of_line(p);

        if (n == 0 && s->after_cr && p.p[0] == '\n') { /* the second half of CR LF */
            s->after_cr = false;
            p = (struct fr_str){p.p + 1, p.n - 1};
            continue;
        }
        s->after_cr = false;
        fr_buf_add(&s->line, p.p, n);
        if (s->line.n + s->data.n > FR_SSE_MAX)
            return fr_fail(err, FR_FULL, "an event is longer than %d bytes", FR_SSE_MAX);
        if (n < p.n) {
            s->after_cr = p.p[n] == '\r';
            take_line(&r);
            n++;
        }
        p = (struct fr_str){p.p + n, p.n - n};
        if (s->line.bad || s->data.bad || s->event.bad || s->id.bad)
            return fr_fail(err, FR_NOMEM, "no memory for an event");
    }
    return FR_OK;
}

void fr_sse_finish(struct fr_sse *s)
{
    fr_buf_finish(&s->line);
    fr_buf_finish(&s->data);
    fr_buf_finish(&s->event);
    fr_buf_finish(&s->id);
    *s = (struct fr_sse){0};
}

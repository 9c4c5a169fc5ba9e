#include "trainer/backend/trace.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/str.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* MARKS: when so many are pending, the trace flushes in the middle of a step. */
enum { ROWS = 6, MARKS = 1 << 14, NAME = 56 };

struct row {
    struct tr_queue *q; /* borrows; NULL: the host, or a destroyed queue */
    const char *name;
};

struct mark {
    struct tr_event *event; /* owns */
    int row;
    bool end;
    double us; /* of the host's row, since the start */
    char name[NAME];
};

struct tr_trace {
    struct tr_trace_opts o;
    char path[PATH_MAX];
    int fd;
    int64_t began_ns;
    struct row rows[ROWS];   /* the first is the host's */
    size_t nrows, written;   /* written: rows whose names are in the file */
    struct tr_event *origin; /* owns: reached origin_us after the start */
    double origin_us;
    struct mark *marks; /* owns, MARKS */
    size_t n;
    struct fr_buf text;
    bool any; /* an event is in the file */
};

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static double since(const struct tr_trace *t)
{
    return (double)(now_ns() - t->began_ns) / 1000;
}

static void free_trace(struct tr_backend *be, struct tr_trace *t)
{
    for (size_t i = 0; t->marks != NULL && i < MARKS; i++)
        tr_event_destroy(be, t->marks[i].event);
    tr_event_destroy(be, t->origin);
    if (t->fd >= 0)
        close(t->fd);
    fr_sys.free(t->marks);
    fr_buf_finish(&t->text);
    fr_sys.free(t);
}

/* Writes the buffer to the file; an error ends the trace. */
static void put(struct tr_trace *t)
{
    if (t->fd >= 0 && (t->text.bad || !fr_write_full(t->fd, t->text.p, t->text.n))) {
        fr_log(FR_LOG_WARN, "trace", "%s cannot be written, the record ends: %s", t->path,
               t->text.bad ? "no memory" : strerror(errno));
        close(t->fd);
        t->fd = -1;
    }
    fr_buf_finish(&t->text);
}

static void event(struct tr_trace *t, const char *kind, int row)
{
    fr_buf_fmt(&t->text, "%s\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d", t->any ? "," : "", kind,
               t->o.rank, row);
    t->any = true;
}

static void quoted(struct tr_trace *t, const char *name)
{
    for (; *name != '\0'; name++) {
        char c = (unsigned char)*name < ' ' ? ' ' : *name;

        if (c == '"' || c == '\\')
            fr_buf_text(&t->text, "\\");
        fr_buf_add(&t->text, &c, 1);
    }
}

static void name_rows(struct tr_trace *t)
{
    for (; t->written < t->nrows; t->written++) {
        event(t, "M", (int)t->written);
        fr_buf_text(&t->text, ",\"name\":\"thread_name\",\"args\":{\"name\":\"");
        quoted(t, t->rows[t->written].name);
        fr_buf_text(&t->text, "\"}}");
        event(t, "M", (int)t->written);
        fr_buf_fmt(&t->text, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%d}}",
                   (int)t->written);
    }
}

static enum fr_rc take(struct tr_backend *be, struct tr_trace *t, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    if ((t->marks = fr_sys.alloc(MARKS * sizeof(*t->marks))) == NULL)
        return fr_fail(err, FR_NOMEM, "%d marks of a trace", MARKS);
    memset(t->marks, 0, MARKS * sizeof(*t->marks));
    for (size_t i = 0; i < MARKS && rc == FR_OK; i++)
        rc = tr_event_create_timed(be, &t->marks[i].event, err);
    return rc == FR_OK ? tr_event_create_timed(be, &t->origin, err) : rc;
}

enum fr_rc tr_trace_open(struct tr_backend *be, const struct tr_trace_opts *o, struct fr_err *err)
{
    struct tr_trace *t;
    enum fr_rc rc;

    if (be->queues->event_between == NULL)
        return fr_fail(err, FR_UNSUPPORTED, "backend %s keeps no times for a trace", be->ops->name);
    if ((t = fr_sys.alloc(sizeof(*t))) == NULL)
        return fr_fail(err, FR_NOMEM, "a trace");
    *t = (struct tr_trace){.o = *o, .began_ns = now_ns(), .rows = {{NULL, "steps"}}, .nrows = 1};
    if (o->rank > 0)
        (void)snprintf(t->path, sizeof(t->path), "%s.rank%d", o->path, o->rank);
    else
        (void)snprintf(t->path, sizeof(t->path), "%s", o->path);
    t->fd = open(t->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    rc = t->fd < 0 ? fr_fail(err, FR_IO, "--trace %s: %s", t->path, strerror(errno))
                   : take(be, t, err);
    if (rc != FR_OK) {
        free_trace(be, t);
        return rc;
    }
    fr_buf_text(&t->text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    event(t, "M", 0);
    fr_buf_fmt(&t->text, ",\"name\":\"process_name\",\"args\":{\"name\":\"rank %d\"}}", o->rank);
    be->trace = t;
    return FR_OK;
}

void tr_trace_close(struct tr_backend *be)
{
    struct tr_trace *t = be->trace;

    if (t == NULL)
        return;
    be->trace = NULL;
    fr_buf_text(&t->text, "\n]}\n");
    put(t);
    free_trace(be, t);
}

void tr_trace_queue(struct tr_backend *be, struct tr_queue *q, const char *name)
{
    struct tr_trace *t = be->trace;

    if (t == NULL || t->nrows == ROWS)
        return;
    t->rows[t->nrows++] = (struct row){q, name};
    if (t->nrows == 2 && tr_event_record(be, q, t->origin) == FR_OK &&
        tr_sync(be, q, NULL) == FR_OK)
        t->origin_us = since(t);
}

void tr_trace_forget(struct tr_backend *be, const struct tr_queue *q)
{
    for (size_t i = 1; be->trace != NULL && i < be->trace->nrows; i++)
        if (be->trace->rows[i].q == q)
            be->trace->rows[i].q = NULL;
}

static int row_of(const struct tr_trace *t, const struct tr_queue *q)
{
    if (q == NULL)
        return 0;
    for (size_t i = 1; i < t->nrows; i++)
        if (t->rows[i].q == q)
            return (int)i;
    return -1;
}

/* Reads the times of all marks; the queues are empty. */
static void write_marks(struct tr_backend *be, struct tr_trace *t)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct mark *m = &t->marks[i];
        double us = m->row == 0
                        ? m->us
                        : t->origin_us + be->queues->event_between(be->device, t->origin, m->event);

        event(t, m->end ? "E" : "B", m->row);
        fr_buf_fmt(&t->text, ",\"ts\":%.3f", us);
        if (!m->end) {
            fr_buf_text(&t->text, ",\"name\":\"");
            quoted(t, m->name);
            fr_buf_text(&t->text, "\"");
        }
        fr_buf_text(&t->text, "}");
    }
    t->n = 0;
}

/* The origin is a recent event: the clock's resolution is fine near it. */
static void move_origin(struct tr_backend *be, struct tr_trace *t)
{
    struct tr_event *last = t->marks[0].event;
    struct tr_queue *q = NULL;

    for (size_t i = 1; i < t->nrows && q == NULL; i++)
        q = t->rows[i].q;
    if (q == NULL || tr_event_record(be, q, last) != FR_OK || tr_sync(be, q, NULL) != FR_OK)
        return;
    t->origin_us += be->queues->event_between(be->device, t->origin, last);
    t->marks[0].event = t->origin;
    t->origin = last;
}

static void empty(struct tr_backend *be, struct tr_trace *t)
{
    bool good = true;

    for (size_t i = 1; i < t->nrows && good; i++)
        good = t->rows[i].q == NULL || tr_sync(be, t->rows[i].q, NULL) == FR_OK;
    if (!good) {
        t->n = 0; /* the run fails by the same error and reports it */
        return;
    }
    name_rows(t);
    write_marks(be, t);
    put(t);
    move_origin(be, t);
}

void tr_trace_flush(struct tr_backend *be)
{
    if (be->trace == NULL)
        return;
    empty(be, be->trace);
    if (--be->trace->o.steps <= 0)
        tr_trace_close(be);
}

static struct mark *next_mark(struct tr_backend *be, struct tr_queue *q)
{
    struct tr_trace *t = be->trace;
    int row = row_of(t, q);
    struct mark *m;

    if (row < 0 || t->fd < 0)
        return NULL;
    if (t->n == MARKS)
        empty(be, t);
    m = &t->marks[t->n];
    m->row = row;
    if (row == 0)
        m->us = since(t);
    else if (tr_event_record(be, q, m->event) != FR_OK)
        return NULL;
    t->n++;
    return m;
}

void tr_trace_begin(struct tr_backend *be, struct tr_queue *q, const char *fmt, ...)
{
    struct mark *m = be != NULL && be->trace != NULL ? next_mark(be, q) : NULL;
    va_list ap;

    if (m == NULL)
        return;
    m->end = false;
    va_start(ap, fmt);
    (void)vsnprintf(m->name, sizeof(m->name), fmt, ap);
    va_end(ap);
}

void tr_trace_end(struct tr_backend *be, struct tr_queue *q)
{
    struct mark *m = be != NULL && be->trace != NULL ? next_mark(be, q) : NULL;

    if (m != NULL)
        m->end = true;
}

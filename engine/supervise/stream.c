/* Input, output and metrics of the command and its sidecars. */
#include "engine/supervise/private.h"

#include <errno.h>
#include <string.h>

enum { READ_PIECE = 64 << 10, LINE_MAX_BYTES = 16 << 10, FEW_BYTES = 1024 };

void sup_stream_add(struct sup *s, int fd, struct fr_str name)
{
    struct sup_stream *st = &s->streams[s->n_streams++];

    *st = (struct sup_stream){.fd = fd, .name = name};
    fr_mask_init(&st->mask, &s->masked);
    fr_sys.set_nonblock(fd, true);
}

static uint64_t kept(const struct sup *s)
{
    return s->log.size + s->log.tail_head.end + s->metrics.size;
}

static void tell_grown(struct sup *s, uint64_t before)
{
    for (int i = 0; i < SUP_CONNS && kept(s) != before; i++)
        s->conns[i].grew = true;
}

static void log_add(struct sup *s, const char *p, size_t n)
{
    uint64_t before = kept(s);

    fr_logfile_add(&s->log, p, n);
    tell_grown(s, before);
}

/* Adds whole lines, each prefixed with the sidecar's name. */
static void add_lines(struct sup *s, struct sup_stream *st, bool last)
{
    size_t at = 0;

    while (at < st->line.n) {
        const char *p = st->line.p + at, *nl = memchr(p, '\n', st->line.n - at);
        size_t n = nl != NULL ? (size_t)(nl - p) : st->line.n - at;
        if (nl == NULL && !last && n < LINE_MAX_BYTES)
            break;
        struct fr_buf line = {0};
        fr_buf_fmt(&line, "[%.*s] ", (int)st->name.n, st->name.p);
        fr_buf_add(&line, p, n);
        fr_buf_text(&line, "\n");
        log_add(s, line.p, line.n);
        fr_buf_finish(&line);
        at += n + (nl != NULL);
    }
    fr_buf_cut(&st->line, at);
}

static void take(struct sup *s, struct sup_stream *st, struct fr_buf *clean, bool last)
{
    if (st->name.n == 0) {
        log_add(s, clean->p, clean->n);
    } else {
        fr_buf_add(&st->line, clean->p, clean->n);
        if (st->line.n > 0)
            add_lines(s, st, last);
    }
}

void sup_stream_read(struct sup *s, struct sup_stream *st)
{
    char few[FEW_BYTES], *piece = fr_sys.alloc(READ_PIECE);
    struct fr_buf clean = {0};
    ssize_t k = -1;

    do {
        k = fr_sys.read(st->fd, piece != NULL ? piece : few,
                        piece != NULL ? READ_PIECE : FEW_BYTES);
    } while (k < 0 && errno == EINTR);
    if (k > 0)
        fr_mask_feed(&st->mask, piece != NULL ? piece : few, (size_t)k, &clean);
    if (k > 0 && (clean.bad || st->mask.held.bad)) /* no memory to look for secrets in it */
        s->log.dropped += (uint64_t)k;
    bool ended = k == 0 || (k < 0 && errno != EAGAIN);
    if (clean.n > 0)
        take(s, st, &clean, false);
    fr_buf_finish(&clean);
    fr_sys.free(piece);
    if (ended)
        sup_stream_end(s, st);
}

void sup_stream_end(struct sup *s, struct sup_stream *st)
{
    struct fr_buf clean = {0};

    if (st->fd < 0)
        return;
    fr_sys.close(st->fd);
    st->fd = -1;
    fr_mask_end(&st->mask, &clean);
    take(s, st, &clean, true);
    fr_buf_finish(&clean);
    fr_buf_finish(&st->line);
    fr_mask_finish(&st->mask);
}

void sup_metrics_look(struct sup *s)
{
    uint64_t before = kept(s);
    bool more = fr_metrics_look(&s->metrics);

    tell_grown(s, before);
    s->metrics_ms = fr_sys.mono_ms() + (more ? 0 : FR_METRICS_MS);
}

void sup_input_write(struct sup *s)
{
    ssize_t k = fr_sys.write(s->input_fd, s->input.p + s->input_at, s->input.n - s->input_at);

    if (k < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    s->input_at += k > 0 ? (size_t)k : 0;
    if (k > 0 && s->input_at < s->input.n)
        return;
    fr_sys.close(s->input_fd); /* all of it is written, or nobody reads it */
    s->input_fd = -1;
}

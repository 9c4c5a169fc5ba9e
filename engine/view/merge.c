#include "engine/view/merge.h"

#include "engine/base/arena.h"
#include "engine/base/heap.h"
#include "engine/base/map.h"
#include "engine/base/mark.h"
#include "engine/base/sys.h"
#include "engine/view/live_tail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    WINDOWS = 64,
    FIRST_READ = 4 << 10,
    READ_BYTES = 64 << 10,
    PRINT_BYTES = 256 << 10, /* gathered before one write */
    TAIL_CUT = 1 << 20,      /* bytes of lines beyond the tail, after which they are dropped */
};

#define NOBODY SIZE_MAX

struct source { /* one attempt's log */
    struct fr_id id;
    const char *label, *name; /* in the arena; the label with what stands behind it */
    bool begun;               /* at is the first line to show */
    size_t window;            /* NOBODY: it is not open */
    uint64_t at;              /* offset of the next line to print */
    struct fr_log_mark mark;  /* of the index: the newest at or before at … */
    uint64_t mark_end;        /* … and where the next one begins; 0: unknown */
    int64_t line_ms;          /* when the next line was written; never goes back */
    bool ended, whole;
    struct live_tail newest;
    bool ready, drained; /* it is in the heap; all of it was printed */
};

struct clock {
    char text[24];
    size_t n;
};

struct window {   /* an open log */
    size_t owner; /* NOBODY: free */
    uint64_t used;
    int fd, idx_fd, tail_fd; /* -1: not there */
    struct fr_buf text;      /* owns: what was read, from the file's offset start on */
    uint64_t start;
    size_t cut; /* bytes of text that were printed */
};

struct fr_merge {
    struct fr_arena arena;
    const char *dir; /* in the arena */
    enum fr_merge_times times;
    bool (*put)(void *arg, struct fr_str lines);
    void *put_arg;
    struct source *v;
    size_t n, cap;
    struct fr_map places; /* by attempt */
    struct fr_heap heap;  /* places by the time of the next line */
    struct window windows[WINDOWS];
    uint64_t clock;
    struct fr_buf out; /* lines to be printed */
    size_t tail;       /* show only so many lines of what is there at first; SIZE_MAX: all */
    size_t *starts;    /* while those are gathered: a ring of where lines begin in out */
    size_t n_lines;    /* gathered, ever */
};

/* ---- which logs ---- */

enum fr_rc fr_merge_create(struct fr_merge **out, const char *dir, const struct fr_merge_opts *opts,
                           struct fr_err *err)
{
    struct fr_merge *m = fr_sys.alloc(sizeof(*m));

    *out = m;
    if (m == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for logs");
    *m = (struct fr_merge){
        .times = opts->times, .put = opts->put, .put_arg = opts->put_arg, .tail = SIZE_MAX};
    for (size_t i = 0; i < WINDOWS; i++)
        m->windows[i] = (struct window){.owner = NOBODY, .fd = -1, .idx_fd = -1, .tail_fd = -1};
    if (opts->n_tail > 0) {
        m->tail = opts->n_tail;
        m->starts = fr_sys.alloc(m->tail * sizeof(*m->starts));
    }
    m->dir = fr_arena_dup(&m->arena, dir);
    if (m->dir == NULL || (opts->n_tail > 0 && m->starts == NULL)) {
        fr_merge_destroy(m);
        *out = NULL;
        return fr_fail(err, FR_NOMEM, "no memory for logs");
    }
    return FR_OK;
}

static void close_window(struct fr_merge *m, struct window *w)
{
    if (w->owner != NOBODY)
        m->v[w->owner].window = NOBODY;
    if (w->fd >= 0)
        fr_sys.close(w->fd);
    if (w->idx_fd >= 0)
        fr_sys.close(w->idx_fd);
    if (w->tail_fd >= 0)
        fr_sys.close(w->tail_fd);
    w->owner = NOBODY;
    w->fd = w->idx_fd = w->tail_fd = -1;
    w->text.n = w->cut = 0;
}

void fr_merge_destroy(struct fr_merge *m)
{
    if (m == NULL)
        return;
    for (size_t i = 0; i < WINDOWS; i++) {
        close_window(m, &m->windows[i]);
        fr_buf_finish(&m->windows[i].text);
    }
    fr_sys.free(m->v);
    fr_map_finish(&m->places);
    fr_heap_finish(&m->heap);
    fr_sys.free(m->starts);
    fr_buf_finish(&m->out);
    fr_arena_finish(&m->arena);
    fr_sys.free(m);
}

size_t fr_merge_find(const struct fr_merge *m, struct fr_id attempt)
{
    const uint64_t *place;

    for (size_t at = 0; (place = fr_map_next(&m->places, fr_id_key(attempt), &at)) != NULL;)
        if (fr_id_eq(m->v[*place].id, attempt))
            return *place;
    return NOBODY;
}

enum fr_rc fr_merge_add(struct fr_merge *m, struct fr_id attempt, const char *label,
                        const char *name, struct fr_err *err)
{
    struct source s = {.id = attempt,
                       .label = fr_arena_fmt(&m->arena, "%s | ", label),
                       .begun = m->starts == NULL,
                       .name = fr_arena_dup(&m->arena, name),
                       .window = NOBODY};

    struct source *v = fr_grow(m->v, m->n + 1, &m->cap, sizeof(*v));

    if (v != NULL)
        m->v = v;
    if (v == NULL || s.label == NULL || s.name == NULL || !fr_heap_reserve(&m->heap, m->n + 1) ||
        !fr_map_add(&m->places, fr_id_key(attempt), m->n))
        return fr_fail(err, FR_NOMEM, "no memory for logs");
    m->v[m->n++] = s;
    return FR_OK;
}

void fr_merge_set(struct fr_merge *m, size_t place, int64_t began_ms, bool ended, bool whole)
{
    if (m->v[place].line_ms == 0)
        m->v[place].line_ms = began_ms;
    m->v[place].ended = ended;
    m->v[place].whole = whole;
}

/* ---- reading ---- */

/* Opens a file of the log at place; *fd is -1 if the file does not exist. At the limit of open
 * files the other windows are closed. */
static enum fr_rc open_file(struct fr_merge *m, size_t place, const char *suffix, int *fd,
                            struct fr_err *err)
{
    struct fr_buf path = {0};
    enum fr_rc rc = FR_OK;

    fr_buf_fmt(&path, "%s/%s%s", m->dir, m->v[place].name, suffix);
    if (path.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for a path");
    else if ((*fd = fr_sys.open(path.p, O_RDONLY | O_NOFOLLOW, 0)) < 0 && errno == EMFILE) {
        for (size_t i = 0; i < WINDOWS; i++)
            if (m->windows[i].owner != place)
                close_window(m, &m->windows[i]);
        *fd = fr_sys.open(path.p, O_RDONLY | O_NOFOLLOW, 0);
    }
    if (rc == FR_OK && *fd < 0 && errno != ENOENT)
        rc = fr_fail_errno(err, errno, "cannot read %s", path.p);
    fr_buf_finish(&path);
    return rc;
}

/* The window of a source. A source without one takes the window that was unused for longest. */
static enum fr_rc open_window(struct fr_merge *m, size_t place, struct window **out,
                              struct fr_err *err)
{
    struct source *s = &m->v[place];
    struct window *w = &m->windows[s->window != NOBODY ? s->window : 0];
    enum fr_rc rc = FR_OK;

    if (s->window == NOBODY) {
        for (size_t i = 1; i < WINDOWS && w->owner != NOBODY; i++)
            if (m->windows[i].owner == NOBODY || m->windows[i].used < w->used)
                w = &m->windows[i];
        close_window(m, w);
        w->owner = place;
        w->start = s->at;
        s->window = (size_t)(w - m->windows);
    }
    w->used = ++m->clock;
    if (w->fd < 0)
        rc = open_file(m, place, "", &w->fd, err);
    if (rc == FR_OK && w->idx_fd < 0)
        rc = open_file(m, place, ".idx", &w->idx_fd, err);
    if (rc == FR_OK && w->tail_fd < 0 && !s->whole && !s->newest.in_log)
        rc = open_file(m, place, ".tail", &w->tail_fd, err);
    *out = w;
    return rc;
}

/* Reads until a line is whole or FR_LINE_MAX long. *ready: there is a line to print. Stops where
 * bytes of the tail are left out. */
static enum fr_rc fill(struct source *s, struct window *w, bool last, bool *ready,
                       uint64_t *left_out, struct fr_err *err)
{
    char piece[READ_BYTES];

    *left_out = 0;
    if (live_tail_look(&s->newest, w->tail_fd, s->whole, &s->at)) {
        w->text.n = w->cut = 0;
        w->start = s->at;
    }
    for (size_t seen = 0;;) {
        size_t have = w->text.n - w->cut;
        size_t most = w->text.n == 0 ? FIRST_READ : READ_BYTES;
        ssize_t n;

        *ready = have >= FR_LINE_MAX ||
                 (have > seen && memchr(w->text.p + w->cut + seen, '\n', have - seen) != NULL);
        if (*ready || w->fd < 0)
            return FR_OK;
        n = live_tail_read(&s->newest,
                           (struct live_tail_from){w->fd, w->tail_fd, w->start + w->text.n}, piece,
                           most, left_out);
        if (n < 0)
            return fr_fail_errno(err, errno, "reading %s", s->name);
        if (*left_out > 0)
            return FR_OK;
        if (n == 0) {
            *ready = have > 0 && (s->whole || (last && s->ended));
            return FR_OK;
        }
        fr_buf_cut(&w->text, w->cut);
        w->start += w->cut;
        w->cut = 0;
        fr_buf_add(&w->text, piece, (size_t)n);
        if (w->text.bad)
            return fr_fail(err, FR_NOMEM, "no memory for logs");
        seen = have;
    }
}

/* When the newest byte of the tail came, if the next line lies in it; else 0. */
static int64_t tail_ms(const struct source *s)
{
    bool in_tail = s->newest.used && !s->newest.in_log && s->at >= s->newest.h.head;

    return in_tail ? s->newest.h.ms : 0;
}

/* Sets the time of the next line from the newest mark at or before its offset. */
static void stamp(struct source *s, const struct window *w)
{
    if (s->at >= s->mark_end && w->idx_fd >= 0) {
        s->mark = fr_log_mark_find(w->idx_fd, s->at, &s->mark_end);
        if (s->mark_end == UINT64_MAX)
            s->mark_end = 0; /* the newest one: another may come behind it */
    }
    if (s->mark.ms > s->line_ms)
        s->line_ms = s->mark.ms;
    if (tail_ms(s) > s->line_ms)
        s->line_ms = tail_ms(s);
}

/* ---- in order ---- */

static struct fr_heap_entry entry_of(const struct fr_merge *m, size_t place)
{
    return (struct fr_heap_entry){.key = (uint64_t)m->v[place].line_ms, .id = (uint32_t)place};
}

/* ---- printing ---- */

/* Whether all n bytes are printable ASCII. Eight bytes at a time: a byte has its top bit set in
 * bad when it is below 0x20, 0x7f, or above. */
static bool is_plain(const char *p, size_t n)
{
    const uint64_t ones = 0x0101010101010101u, tops = 0x80 * ones;
    uint64_t bad = 0, w;

    for (; n >= sizeof(w); p += sizeof(w), n -= sizeof(w)) {
        memcpy(&w, p, sizeof(w));
        bad |= w | (w - 0x20 * ones) | (w + ones);
    }
    for (; n > 0; p++, n--)
        bad |= (unsigned char)(*p - 0x20) > 0x7e - 0x20 ? tops : 0;
    return (bad & tops) == 0;
}

/* Gives away what was gathered; false: no more is wanted. */
static bool put_out(struct fr_merge *m)
{
    bool more = m->put(m->put_arg, (struct fr_str){m->out.n > 0 ? m->out.p : "", m->out.n});

    m->out.n = 0;
    return more;
}

/* Notes that a line begins in out. While a tail is gathered, older lines are dropped. */
static void begin_line(struct fr_merge *m)
{
    size_t *slot = &m->starts[m->n_lines % m->tail];

    if (m->n_lines >= m->tail && *slot > TAIL_CUT) {
        size_t cut = *slot;

        fr_buf_cut(&m->out, cut);
        for (size_t i = 0; i < m->tail; i++)
            m->starts[i] -= cut < m->starts[i] ? cut : m->starts[i];
    }
    *slot = m->out.n;
    m->n_lines++;
}

/* The tail is complete: prints it. From now on lines are printed as they come. */
static void end_tail(struct fr_merge *m)
{
    if (m->n_lines > m->tail)
        fr_buf_cut(&m->out, m->starts[m->n_lines % m->tail]);
    fr_sys.free(m->starts);
    m->starts = NULL;
}

/* When the next line was written, as it is shown; "" where it is not. */
static struct clock clock_of(const struct fr_merge *m, const struct source *s)
{
    time_t sec = (time_t)(s->line_ms / 1000);
    struct clock c = {0};
    struct tm tm;

    if (m->times == FR_MERGE_CLOCK && localtime_r(&sec, &tm) != NULL)
        c.n = strftime(c.text, sizeof(c.text), "%H:%M:%S ", &tm);
    if (m->times == FR_MERGE_MS)
        c.n = (size_t)snprintf(c.text, sizeof(c.text), "%lld ", (long long)s->line_ms);
    return c;
}

struct fr_str fr_line_seen(const char *text, size_t n)
{
    while (n > 0 && text[n - 1] == '\r')
        n--;
    for (size_t i = n; i > 0; i--)
        if (text[i - 1] == '\r')
            return (struct fr_str){text + i, n - i};
    return (struct fr_str){text, n};
}

static void add_line(struct fr_merge *m, const struct source *s, struct clock clock,
                     struct fr_str line)
{
    struct fr_str seen = line;

    if (m->starts != NULL)
        begin_line(m);
    fr_buf_add(&m->out, clock.text, clock.n);
    fr_buf_add(&m->out, s->label, strlen(s->label));
    if (is_plain(line.p, line.n)) {
        fr_buf_add(&m->out, line.p, line.n);
    } else {
        seen = fr_line_seen(line.p, line.n);
        fr_buf_visible(&m->out, seen.p, seen.n);
    }
    fr_buf_add(&m->out, "\n", 1);
}

/* What was read of a line so far, then how much behind it is gone. */
static void add_gap(struct fr_merge *m, struct source *s, struct window *w, uint64_t left_out)
{
    char note[80];
    int n = snprintf(note, sizeof(note), "[flowrun: %llu bytes left out so far]",
                     (unsigned long long)left_out);

    if (w->text.n > w->cut)
        add_line(m, s, clock_of(m, s), (struct fr_str){w->text.p + w->cut, w->text.n - w->cut});
    s->at = w->start + w->text.n + left_out;
    w->text.n = w->cut = 0;
    w->start = s->at;
    add_line(m, s, clock_of(m, s), (struct fr_str){note, (size_t)n});
}

/* Puts the source into the heap if it has a line. */
static enum fr_rc look(struct fr_merge *m, size_t place, bool last, struct fr_err *err)
{
    struct source *s = &m->v[place];
    struct window *w;
    bool ready = false;
    uint64_t left_out = 0;
    enum fr_rc rc = open_window(m, place, &w, err);

    do {
        if (rc == FR_OK)
            rc = fill(s, w, last, &ready, &left_out, err);
        if (rc == FR_OK && left_out > 0)
            add_gap(m, s, w, left_out);
    } while (rc == FR_OK && left_out > 0);
    if (rc != FR_OK)
        return rc;
    if (ready) {
        stamp(s, w);
        s->ready = fr_heap_push(&m->heap, entry_of(m, place)); /* fr_merge_add took the memory */
        return FR_OK;
    }
    s->drained = s->whole;
    if (s->drained)
        close_window(m, w);
    return FR_OK;
}

/* Prints the lines of the window that have the same time. The first line may lack its newline. The
 * index was read after the text, so it covers all of the text. */
static enum fr_rc print_lines(struct fr_merge *m, size_t place, struct fr_err *err)
{
    struct source *s = &m->v[place];
    struct window *w;
    bool ready = true;
    enum fr_rc rc = open_window(m, place, &w, err);
    uint64_t left_out;
    bool again = rc == FR_OK && w->text.n == w->cut; /* its window was used by another source */

    if (again)
        rc = fill(s, w, true, &ready, &left_out, err);
    if (rc != FR_OK || !ready)
        return rc;
    struct clock clock = clock_of(m, s);
    do {
        const char *p = w->text.p + w->cut;
        size_t have = w->text.n - w->cut, most = have < FR_LINE_MAX ? have : FR_LINE_MAX;
        const char *nl = memchr(p, '\n', most);

        if (nl == NULL && most < FR_LINE_MAX && !ready)
            break;
        add_line(m, s, clock, (struct fr_str){p, nl != NULL ? (size_t)(nl - p) : most});
        w->cut += nl != NULL ? (size_t)(nl - p) + 1 : most;
        s->at = w->start + w->cut;
        ready = false; /* further lines must be whole */
    } while (!again && w->cut < w->text.n && (s->mark_end == 0 || s->at < s->mark_end) &&
             tail_ms(s) <= s->line_ms &&
             (m->heap.n == 0 || fr_heap_before(entry_of(m, place), m->heap.v[0])));
    if (m->out.bad)
        return fr_fail(err, FR_NOMEM, "no memory for a line");
    return FR_OK;
}

/* Moves a source to its last m->tail lines; one more is possible. */
static enum fr_rc seek_tail(struct fr_merge *m, size_t place, struct fr_err *err)
{
    struct source *s = &m->v[place];
    char piece[READ_BYTES];
    struct window *w;
    struct stat st;
    uint64_t at;
    size_t seen = 0;
    enum fr_rc rc = open_window(m, place, &w, err);

    s->begun = true;
    if (rc != FR_OK || w->fd < 0)
        return rc;
    live_tail_look(&s->newest, w->tail_fd, s->whole, &s->at);
    if (live_tail_seek(&s->newest, w->tail_fd, m->tail, &s->at)) {
        w->start = s->at;
        return FR_OK;
    }
    if (fr_sys.fstat(w->fd, &st) != 0)
        return fr_fail_errno(err, errno, "reading %s", s->name);
    for (at = (uint64_t)st.st_size; at > 0 && seen <= m->tail;) {
        size_t n = at < sizeof(piece) ? (size_t)at : sizeof(piece);

        if (fr_sys.pread(w->fd, piece, n, (off_t)(at - n)) != (ssize_t)n)
            return fr_fail_errno(err, errno, "reading %s", s->name);
        for (; n > 0 && seen <= m->tail; n--, at--)
            if (piece[n - 1] == '\n' && ++seen > m->tail)
                break;
    }
    s->at = w->start = at;
    return FR_OK;
}

enum fr_rc fr_merge_print(struct fr_merge *m, bool last, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < m->n; i++) {
        if (!m->v[i].begun)
            rc = seek_tail(m, i, err);
        if (rc == FR_OK && !m->v[i].ready && !m->v[i].drained)
            rc = look(m, i, last, err);
    }
    while (rc == FR_OK && m->heap.n > 0) {
        size_t place = fr_heap_pop(&m->heap).id;

        m->v[place].ready = false;
        rc = print_lines(m, place, err);
        if (rc == FR_OK)
            rc = look(m, place, last, err);
        if (m->starts != NULL || m->out.n < PRINT_BYTES)
            continue;
        if (!put_out(m))
            return FR_OK;
    }
    if (m->starts != NULL)
        end_tail(m);
    (void)put_out(m);
    return rc;
}

#include "engine/cli/merge.h"

#include "engine/base/arena.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>

enum {
    WINDOWS = 64,
    FIRST_READ = 4 << 10,
    READ_BYTES = 64 << 10,
    CHECK_BYTES = 1 << 20, /* printed, after which somebody may have stopped to read */
};

#define NOBODY SIZE_MAX

struct pair { /* as engine/run writes it */
    uint64_t offset;
    int64_t wall_ms;
};

struct source { /* one attempt's log */
    struct fr_id id;
    const char *label, *name; /* in the arena */
    size_t window;            /* NOBODY: it is not open */
    uint64_t at;              /* bytes printed: the next line begins here */
    struct pair pair;         /* of the index, in force there … */
    uint64_t pair_end;        /* … up to here; 0: not looked for */
    int64_t line_ms;          /* when it was written, never before the one above it */
    bool ended, whole;
    bool ready, drained; /* stands in the heap; has no more */
};

struct window {   /* an open log */
    size_t owner; /* NOBODY: free */
    uint64_t used;
    int fd, idx_fd;     /* -1: not there */
    struct fr_buf text; /* owns: what was read, from the file's offset start on */
    uint64_t start;
    size_t cut; /* bytes of text that were printed */
};

struct cli_merge {
    struct fr_arena arena;
    const char *dir; /* in the arena */
    bool times;
    struct source *v;
    size_t n, cap;
    size_t *table; /* places by attempt, open addressing; NOBODY: free */
    size_t n_table;
    size_t *heap; /* places, oldest line first; as many as v holds */
    size_t n_heap;
    struct window windows[WINDOWS];
    uint64_t clock;
    struct fr_buf line;
    size_t printed; /* bytes since stdout was looked at */
};

/* ---- which logs ---- */

enum fr_rc cli_merge_create(struct cli_merge **out, const char *dir, bool times, struct fr_err *err)
{
    struct cli_merge *m = fr_sys.alloc(sizeof(*m));

    *out = m;
    if (m == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for logs");
    *m = (struct cli_merge){.times = times};
    for (size_t i = 0; i < WINDOWS; i++)
        m->windows[i] = (struct window){.owner = NOBODY, .fd = -1, .idx_fd = -1};
    if ((m->dir = fr_arena_dup(&m->arena, dir)) == NULL) {
        cli_merge_destroy(m);
        *out = NULL;
        return fr_fail(err, FR_NOMEM, "no memory for logs");
    }
    return FR_OK;
}

static void close_window(struct cli_merge *m, struct window *w)
{
    if (w->owner != NOBODY)
        m->v[w->owner].window = NOBODY;
    if (w->fd >= 0)
        fr_sys.close(w->fd);
    if (w->idx_fd >= 0)
        fr_sys.close(w->idx_fd);
    w->owner = NOBODY;
    w->fd = w->idx_fd = -1;
    w->text.n = w->cut = 0;
}

void cli_merge_destroy(struct cli_merge *m)
{
    if (m == NULL)
        return;
    for (size_t i = 0; i < WINDOWS; i++) {
        close_window(m, &m->windows[i]);
        fr_buf_finish(&m->windows[i].text);
    }
    fr_sys.free(m->v);
    fr_sys.free(m->table);
    fr_sys.free(m->heap);
    fr_buf_finish(&m->line);
    fr_arena_finish(&m->arena);
    fr_sys.free(m);
}

/* Where an attempt stands in the table, or would; ids are random. */
static size_t slot_of(const struct cli_merge *m, struct fr_id id)
{
    uint64_t key;
    size_t at;

    memcpy(&key, id.b, sizeof(key));
    at = (size_t)key & (m->n_table - 1);
    while (m->table[at] != NOBODY && !fr_id_eq(m->v[m->table[at]].id, id))
        at = (at + 1) & (m->n_table - 1);
    return at;
}

size_t cli_merge_find(const struct cli_merge *m, struct fr_id attempt)
{
    return m->n_table > 0 ? m->table[slot_of(m, attempt)] : NOBODY;
}

/* Room for one more: the table is at most half full. */
static bool make_room(struct cli_merge *m)
{
    size_t cap = m->cap > 0 ? 2 * m->cap : 64;
    struct source *v;
    size_t *heap, *table;

    if (m->n < m->cap)
        return true;
    if ((v = fr_sys.realloc(m->v, cap * sizeof(*v))) == NULL)
        return false;
    m->v = v;
    if ((heap = fr_sys.realloc(m->heap, cap * sizeof(*heap))) == NULL)
        return false;
    m->heap = heap;
    if ((table = fr_sys.realloc(m->table, 2 * cap * sizeof(*table))) == NULL)
        return false;
    m->table = table;
    m->cap = cap;
    m->n_table = 2 * cap;
    for (size_t i = 0; i < m->n_table; i++)
        m->table[i] = NOBODY;
    for (size_t i = 0; i < m->n; i++)
        m->table[slot_of(m, m->v[i].id)] = i;
    return true;
}

enum fr_rc cli_merge_add(struct cli_merge *m, struct fr_id attempt, const char *label,
                         const char *name, struct fr_err *err)
{
    struct source s = {.id = attempt,
                       .label = fr_arena_dup(&m->arena, label),
                       .name = fr_arena_dup(&m->arena, name),
                       .window = NOBODY};

    if (s.label == NULL || s.name == NULL || !make_room(m))
        return fr_fail(err, FR_NOMEM, "no memory for logs");
    m->table[slot_of(m, attempt)] = m->n;
    m->v[m->n++] = s;
    return FR_OK;
}

void cli_merge_set(struct cli_merge *m, size_t place, bool ended, bool whole)
{
    m->v[place].ended = ended;
    m->v[place].whole = whole;
}

/* ---- reading ---- */

/* A file of the log at place; -1: not there. When there may be no more open files, others are
 * closed. */
static enum fr_rc open_file(struct cli_merge *m, size_t place, const char *suffix, int *fd,
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

/* The window of a source: its own, else the one that was not used for longest. */
static enum fr_rc open_window(struct cli_merge *m, size_t place, struct window **out,
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
    *out = w;
    return rc;
}

/* Reads until a line is whole, or as long as one may be. *ready: there is something to print. */
static enum fr_rc fill(struct source *s, struct window *w, bool last, bool *ready,
                       struct fr_err *err)
{
    char piece[READ_BYTES];

    for (size_t seen = 0;;) {
        size_t have = w->text.n - w->cut;
        size_t most = w->text.n == 0 ? FIRST_READ : READ_BYTES;
        ssize_t n;

        *ready = have >= CLI_LINE_MAX ||
                 (have > seen && memchr(w->text.p + w->cut + seen, '\n', have - seen) != NULL);
        if (*ready || w->fd < 0)
            return FR_OK;
        n = fr_sys.pread(w->fd, piece, most, (off_t)(w->start + w->text.n));
        if (n < 0)
            return fr_fail_errno(err, errno, "reading %s", s->name);
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

/* Sets when the next line was written: by the newest pair at or before its offset. */
static void stamp(struct source *s, const struct window *w)
{
    uint64_t lo = 0, hi;
    struct pair p;
    struct stat st;

    if (s->at >= s->pair_end && w->idx_fd >= 0 && fr_sys.fstat(w->idx_fd, &st) == 0) {
        hi = (uint64_t)st.st_size / sizeof(p);
        s->pair_end = UINT64_MAX;
        while (lo < hi) {
            uint64_t mid = lo + (hi - lo) / 2;

            if (fr_sys.pread(w->idx_fd, &p, sizeof(p), (off_t)(mid * sizeof(p))) !=
                (ssize_t)sizeof(p))
                break;
            if (p.offset <= s->at) {
                s->pair = p;
                lo = mid + 1;
            } else {
                s->pair_end = p.offset;
                hi = mid;
            }
        }
        if (s->pair_end == UINT64_MAX)
            s->pair_end = 0; /* the newest one: another may come behind it */
    }
    if (s->pair.wall_ms > s->line_ms)
        s->line_ms = s->pair.wall_ms;
}

/* ---- in order ---- */

static bool is_before(const struct cli_merge *m, size_t a, size_t b)
{
    return m->v[a].line_ms != m->v[b].line_ms ? m->v[a].line_ms < m->v[b].line_ms : a < b;
}

static void push(struct cli_merge *m, size_t place)
{
    size_t at = m->n_heap++;

    for (; at > 0 && is_before(m, place, m->heap[(at - 1) / 2]); at = (at - 1) / 2)
        m->heap[at] = m->heap[(at - 1) / 2];
    m->heap[at] = place;
    m->v[place].ready = true;
}

static size_t pop(struct cli_merge *m)
{
    size_t top = m->heap[0], moved = m->heap[--m->n_heap], at = 0;

    for (size_t child; (child = 2 * at + 1) < m->n_heap; at = child) {
        if (child + 1 < m->n_heap && is_before(m, m->heap[child + 1], m->heap[child]))
            child++;
        if (!is_before(m, m->heap[child], moved))
            break;
        m->heap[at] = m->heap[child];
    }
    m->heap[at] = moved;
    m->v[top].ready = false;
    return top;
}

/* Puts the source into the heap when it has a line. */
static enum fr_rc look(struct cli_merge *m, size_t place, bool last, struct fr_err *err)
{
    struct source *s = &m->v[place];
    struct window *w;
    bool ready = false;
    enum fr_rc rc = open_window(m, place, &w, err);

    if (rc == FR_OK)
        rc = fill(s, w, last, &ready, err);
    if (rc != FR_OK)
        return rc;
    if (ready) {
        stamp(s, w);
        push(m, place);
        return FR_OK;
    }
    s->drained = s->whole;
    if (s->drained)
        close_window(m, w);
    return FR_OK;
}

static enum fr_rc print_line(struct cli_merge *m, size_t place, struct fr_err *err)
{
    struct source *s = &m->v[place];
    struct window *w;
    bool ready = true;
    enum fr_rc rc = open_window(m, place, &w, err);
    time_t sec = (time_t)(s->line_ms / 1000);
    struct tm tm;
    char clock[16];

    if (rc == FR_OK && w->text.n == w->cut) /* others used its window meanwhile */
        rc = fill(s, w, true, &ready, err);
    if (rc != FR_OK || !ready)
        return rc;
    const char *p = w->text.p + w->cut;
    size_t have = w->text.n - w->cut, most = have < CLI_LINE_MAX ? have : CLI_LINE_MAX;
    const char *nl = memchr(p, '\n', most);
    struct fr_str seen = cli_line_seen(p, nl != NULL ? (size_t)(nl - p) : most);

    m->line.n = 0;
    if (m->times && localtime_r(&sec, &tm) != NULL && strftime(clock, 16, "%H:%M:%S", &tm) > 0)
        fr_buf_fmt(&m->line, "%s ", clock);
    fr_buf_fmt(&m->line, "%s | ", s->label);
    fr_buf_visible(&m->line, seen.p, seen.n);
    if (m->line.bad)
        return fr_fail(err, FR_NOMEM, "no memory for a line");
    fr_print("%s\n", m->line.p);
    m->printed += m->line.n;
    w->cut += nl != NULL ? (size_t)(nl - p) + 1 : most;
    s->at = w->start + w->cut;
    return FR_OK;
}

enum fr_rc cli_merge_print(struct cli_merge *m, bool last, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && i < m->n; i++)
        if (!m->v[i].ready && !m->v[i].drained)
            rc = look(m, i, last, err);
    while (rc == FR_OK && m->n_heap > 0) {
        size_t place = pop(m);

        rc = print_line(m, place, err);
        if (rc == FR_OK)
            rc = look(m, place, last, err);
        if (m->printed < CHECK_BYTES)
            continue;
        m->printed = 0;
        if (!fr_print_ok())
            break; /* main says so */
    }
    return rc;
}

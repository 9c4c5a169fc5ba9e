/* Bulk bytes to the engine: logs and metrics that are followed, and files that are got, in turn,
 * against credit. */
#include "engine/supervise/logfile.h"
#include "engine/node/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* The index is made after the log, with its first bytes: it may not be there yet. */
static void open_file(struct srv *s, struct srv_live *l, enum fr_home_kind kind, int *fd)
{
    if (*fd < 0)
        *fd = fr_home_file(s->home.path, kind, l->a->id, O_RDONLY);
}

/* Puts out a message with n bulk bytes, which use credit. */
static bool put(struct srv *s, const struct fr_msg *m, size_t n)
{
    struct fr_err err;

    s->credit -= n;
    if (fr_msg_put(m, &s->out, &err) != FR_OK)
        srv_fail(s, &err);
    return true;
}

/* What credit allows in one message. */
static size_t most(const struct srv *s)
{
    return s->credit < FR_BULK_MAX ? (size_t)s->credit : FR_BULK_MAX;
}

static bool put_tail(struct srv *s, struct srv_live *l, const struct fr_tail_head *h,
                     struct fr_str bytes)
{
    struct fr_msg m = {.type = FR_MSG_TAIL};

    m.tail = (struct fr_tail_piece){.attempt = l->a->id,
                                    .head = h->head,
                                    .keep = h->keep,
                                    .at = l->tail_at,
                                    .joined = h->joined,
                                    .dropped = h->dropped,
                                    .mono_ms = h->ms,
                                    .bytes = bytes};
    l->tail_at += bytes.n;
    l->tail_sent += bytes.n;
    return put(s, &m, bytes.n);
}

/* True when a piece of the tail was put out. The link carries FR_TAIL_MAX bytes of it in
 * SRV_TAIL_MS at most, however much the task writes. */
static bool send_tail(struct srv *s, struct srv_live *l)
{
    int64_t now = fr_sys.mono_ms();
    struct fr_tail_head h;
    char piece[FR_BULK_MAX];
    size_t k;

    if (now >= l->tail_ms) {
        l->tail_ms = now + SRV_TAIL_MS;
        l->tail_sent = 0;
    }
    l->tail_waits = l->tail_sent >= FR_TAIL_MAX;
    if (l->tail_waits)
        return false;
    k = fr_tail_read(l->tail_fd, &l->tail_at, piece, most(s), &h);
    if (k == 0)
        l->more = false;
    h.joined = h.dropped = 0;
    return k > 0 && put_tail(s, l, &h, (struct fr_str){piece, k});
}

/* True when a piece of the log was put out. */
static bool send_log(struct srv *s, struct srv_live *l)
{
    char piece[FR_BULK_MAX];
    struct fr_msg m = {.type = FR_MSG_LOG};
    struct fr_tail_head h;
    size_t max = most(s);
    uint64_t next;

    if (!l->follow || !l->more)
        return false;
    open_file(s, l, FR_HOME_LOG, &l->log_fd);
    if (l->tail && !l->tail_ended)
        open_file(s, l, FR_HOME_TAIL, &l->tail_fd);
    if (l->tail && !l->tail_ended && l->tail_fd >= 0 && fr_tail_look(l->tail_fd, &h)) {
        if (l->offset >= h.head && h.joined == 0)
            return send_tail(s, l);
        if (l->offset >= h.head) { /* before the log's bytes after its head */
            l->tail_ended = true;
            l->tail_at = h.end;
            return put_tail(s, l, &h, (struct fr_str){0});
        }
        max = h.head - l->offset < max ? (size_t)(h.head - l->offset) : max;
    }
    ssize_t k = l->log_fd >= 0 ? fr_sys.pread(l->log_fd, piece, max, (off_t)l->offset) : 0;
    if (k <= 0) {
        l->more = false;
        return false;
    }
    open_file(s, l, FR_HOME_INDEX, &l->index_fd);
    struct fr_log_mark mark = fr_log_mark_find(l->index_fd, l->offset, &next);
    if (next - l->offset < (size_t)k)
        k = (ssize_t)(next - l->offset);
    m.log = (struct fr_log_piece){
        l->a->id, l->offset, mark.ms != 0 ? mark.ms : l->a->launched_ms, {piece, (size_t)k}};
    l->offset += (size_t)k;
    return put(s, &m, (size_t)k);
}

/* True when a piece of the metrics was put out. */
static bool send_metrics(struct srv *s, struct srv_live *l)
{
    char piece[FR_BULK_MAX];
    struct fr_msg m = {.type = FR_MSG_METRICS};

    if (!l->metrics || !l->metrics_more)
        return false;
    open_file(s, l, FR_HOME_METRICS, &l->metrics_fd);
    ssize_t k =
        l->metrics_fd >= 0 ? fr_sys.pread(l->metrics_fd, piece, most(s), (off_t)l->metrics_at) : 0;
    l->metrics_more = k > 0;
    if (k <= 0)
        return false;
    m.metrics = (struct fr_metrics_piece){l->a->id, l->metrics_at, {piece, (size_t)k}};
    l->metrics_at += (size_t)k;
    return put(s, &m, (size_t)k);
}

/* Log and metrics in turn. */
static bool send_live(struct srv *s, struct srv_live *l)
{
    l->metrics_turn = !l->metrics_turn;
    if (l->metrics_turn)
        return send_metrics(s, l) || send_log(s, l);
    return send_log(s, l) || send_metrics(s, l);
}

/* Something may be sent now. */
static bool is_ready(const struct srv_live *l, int64_t now)
{
    return l->follow &&
           ((l->more && !(l->tail_waits && now < l->tail_ms)) || (l->metrics && l->metrics_more));
}

void srv_bulk_rest(struct srv *s, struct srv_live *l, uint64_t end)
{
    enum { SHORT = 4096 };

    while (l->follow && l->offset < end && end - l->offset <= SHORT && s->credit > 0) {
        l->more = true;
        if (!send_log(s, l))
            break;
    }
    if (l->offset == end)
        l->more = false;
}

static void drop_get(struct srv *s, struct srv_get *g)
{
    struct srv_get **at = &s->gets;

    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    fr_sys.close(g->fd);
    fr_sys.free(g);
}

static void end_get(struct srv *s, struct srv_get *g)
{
    struct fr_msg m = {.type = FR_MSG_GET_END};

    m.get_end.ref = g->ref;
    m.get_end.size = g->size;
    m.get_end.mode = g->mode;
    srv_send(s, &m);
    drop_get(s, g);
}

static bool send_get(struct srv *s, struct srv_get *g)
{
    char piece[FR_BULK_MAX];
    struct fr_msg m = {.type = FR_MSG_GET_DATA};
    struct fr_err err;
    uint64_t until = g->until < g->end ? g->until : g->end;
    size_t max = until - g->at < most(s) ? (size_t)(until - g->at) : most(s);

    ssize_t k = max > 0 ? fr_sys.pread(g->fd, piece, max, (off_t)g->at) : 0;
    if (k < 0) {
        fr_fail_errno(&err, errno, "cannot read the file");
        srv_send_error(s, g->ref, &err);
        drop_get(s, g);
        return false;
    }
    if (k == 0) {
        end_get(s, g); /* to its end, or it became shorter */
        return false;
    }
    m.get_data = (struct fr_get_data){g->ref, g->at, {piece, (size_t)k}};
    g->at += (size_t)k;
    put(s, &m, (size_t)k);
    if (g->at == g->end)
        end_get(s, g);
    return true;
}

/* What sends next: a log or a file. */
struct choice {
    struct srv_live *log;
    struct srv_get *get;
    struct srv_pipe *pipe;
    uint64_t run_turn, turn;
};

/* The run that waits longest is first; in it a log before a file, then the longest wait. */
static bool is_before(uint64_t run_turn, bool log, uint64_t turn, const struct choice *c)
{
    if (run_turn != c->run_turn)
        return run_turn < c->run_turn;
    return log == (c->log != NULL) ? turn < c->turn : log;
}

static struct choice choose(const struct srv *s)
{
    struct choice c = {.run_turn = UINT64_MAX, .turn = UINT64_MAX};
    int64_t now = fr_sys.mono_ms();

    for (struct srv_live *l = s->lives; l != NULL; l = l->next) {
        uint64_t run_turn = l->run != NULL ? l->run->turn : l->turn;

        if (is_ready(l, now) && is_before(run_turn, true, l->turn, &c))
            c = (struct choice){.log = l, .run_turn = run_turn, .turn = l->turn};
    }
    for (struct srv_get *g = s->gets; g != NULL; g = g->next) {
        uint64_t run_turn = g->run != NULL ? g->run->turn : g->turn;

        if (g->at < g->until && is_before(run_turn, false, g->turn, &c))
            c = (struct choice){.get = g, .run_turn = run_turn, .turn = g->turn};
    }
    for (struct srv_pipe *p = s->pipes; p != NULL; p = p->next)
        if (p->ready && is_before(p->turn, false, p->turn, &c))
            c = (struct choice){.pipe = p, .run_turn = p->turn, .turn = p->turn};
    return c;
}

/* Runs send in turn, one message each, however much one of them has. */
void srv_bulk_next(struct srv *s)
{
    struct choice c;

    while ((c = choose(s)).log != NULL || c.get != NULL || c.pipe != NULL) {
        if (c.pipe != NULL) {
            c.pipe->turn = ++s->turns;
            if (srv_pipe_send(s, c.pipe))
                return;
            continue;
        }
        struct srv_run *run = c.log != NULL ? c.log->run : c.get->run;
        uint64_t *turn = c.log != NULL ? &c.log->turn : &c.get->turn;

        *turn = ++s->turns;
        if (!(c.log != NULL ? send_live(s, c.log) : send_get(s, c.get)))
            continue;
        if (run != NULL)
            run->turn = s->turns;
        return;
    }
}

/* UINT64_MAX where it is more. */
static uint64_t sum(uint64_t a, uint64_t b)
{
    return b < UINT64_MAX - a ? a + b : UINT64_MAX;
}

/* False: the path lies below the home and goes through a symlink, which a task may have planted.
 * Paths outside the home may go through links. */
static bool is_plain(const struct srv *s, const char *path)
{
    size_t n = strlen(s->home.path);

    return strncmp(path, s->home.path, n) != 0 || path[n] != '/' ||
           fr_home_plain(s->home.path, path);
}

void srv_get_begin(struct srv *s, const struct fr_get *m)
{
    char path[FR_NODE_PATH];
    struct srv_get *g = fr_sys.alloc(sizeof(*g));
    struct stat st;
    struct fr_err err;
    int n = snprintf(path, sizeof(path), "%s%s%.*s",
                     m->path.n > 0 && m->path.p[0] == '/' ? "" : s->home.path,
                     m->path.n > 0 && m->path.p[0] == '/' ? "" : "/", (int)m->path.n, m->path.p);
    bool plain = n < (int)sizeof(path) && is_plain(s, path);
    int fd = g != NULL && plain ? fr_sys.open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0) : -1;

    if (fd < 0) {
        fr_fail_errno(&err,
                      g == NULL                ? ENOMEM
                      : n >= (int)sizeof(path) ? ENAMETOOLONG
                      : !plain                 ? ELOOP
                                               : errno,
                      "cannot open %.*s", (int)m->path.n, m->path.p);
    } else if (fr_sys.fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        fr_fail(&err, FR_USAGE, "%.*s is not a regular file", (int)m->path.n, m->path.p);
    } else {
        uint64_t size = (uint64_t)st.st_size, left = m->offset < size ? size - m->offset : 0;

        *g = (struct srv_get){.next = s->gets,
                              .run = srv_run_find(s, m->run),
                              .ref = m->ref,
                              .at = m->offset,
                              .end = m->offset + left,
                              .size = size,
                              .until = m->window > 0 ? sum(m->offset, m->window) : UINT64_MAX,
                              .fd = fd,
                              .mode = st.st_mode & 07777};
        s->gets = g;
        if (g->at == g->end)
            end_get(s, g);
        return;
    }
    if (fd >= 0)
        fr_sys.close(fd);
    fr_sys.free(g);
    srv_send_error(s, m->ref, &err);
}

static struct srv_get *find_get(const struct srv *s, uint64_t ref)
{
    struct srv_get *g = s->gets;

    while (g != NULL && g->ref != ref)
        g = g->next;
    return g;
}

void srv_get_more(struct srv *s, const struct fr_get_more *m)
{
    struct srv_get *g = find_get(s, m->ref);

    if (g != NULL)
        g->until = sum(g->until, m->bytes);
}

void srv_bulk_leave(struct srv *s, const struct srv_run *run)
{
    for (struct srv_get *g = s->gets, *next; g != NULL; g = next) {
        next = g->next;
        if (g->run == run)
            drop_get(s, g);
    }
}

void srv_bulk_cancel(struct srv *s, uint64_t ref)
{
    struct srv_get *g = find_get(s, ref);

    if (g != NULL)
        drop_get(s, g);
}

void srv_bulk_finish(struct srv *s)
{
    while (s->gets != NULL)
        drop_get(s, s->gets);
}

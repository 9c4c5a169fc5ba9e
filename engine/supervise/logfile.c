#include "engine/supervise/logfile.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/supervise/home.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum fr_rc fr_logfile_open(struct fr_logfile *l, const char *home, struct fr_id attempt,
                           const struct fr_request *req, struct fr_err *err)
{
    char path[FR_NODE_PATH];
    struct stat st;
    uint64_t max = req->log_max_bytes > 0 ? (uint64_t)req->log_max_bytes : UINT64_MAX;

    *l = (struct fr_logfile){.fd = -1,
                             .index = -1,
                             .tail_fd = -1,
                             .home = home,
                             .attempt = attempt,
                             .head_max = max,
                             .marked_ms = INT64_MIN};
    if (max != UINT64_MAX && req->log_on_full == FR_LOG_DROP_MIDDLE) {
        l->tail_max = max / 2 < FR_LOG_TAIL ? (size_t)(max / 2) : FR_LOG_TAIL;
        l->head_max = max - l->tail_max;
    }
    fr_home_path(home, FR_HOME_LOG, attempt, path);
    l->fd = fr_sys.open(path, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW, 0600);
    if (l->fd < 0)
        return fr_fail_errno(err, errno, "cannot make the log %s", path);
    if (fr_sys.lock(l->fd) != 0) {
        fr_logfile_close(l);
        return fr_fail(err, FR_BUSY, "another supervisor holds the lock of %s", path);
    }
    if (fr_sys.fstat(l->fd, &st) == 0)
        l->size = (uint64_t)st.st_size;
    return FR_OK;
}

/* Times are best effort. The next mark overwrites one that a full disk cut short. */
static void mark_time(struct fr_logfile *l, int64_t now)
{
    struct fr_log_mark mark = {l->size, now};

    if (l->index < 0)
        l->index = fr_home_file(l->home, FR_HOME_INDEX, l->attempt, O_WRONLY | O_CREAT);
    if (l->index < 0 || fr_sys.pwrite(l->index, &mark, sizeof(mark),
                                      (off_t)(l->marks * sizeof(mark))) != (ssize_t)sizeof(mark))
        return;
    l->marks++;
    l->marked_ms = now;
}

/* Appends, and counts bytes that the disk does not take. */
static void append(struct fr_logfile *l, const char *p, size_t n)
{
    int64_t now = n > 0 ? fr_sys.mono_ms() : 0;
    size_t done = 0;

    if (n > 0 && now >= l->marked_ms + FR_LOG_INDEX_MS)
        mark_time(l, now);
    while (done < n) {
        ssize_t k = fr_sys.write(l->fd, p + done, n - done);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            break;
        done += (size_t)k;
    }
    l->size += done;
    l->dropped += n - done;
    l->unsaid += n - done;
}

/* The file is for readers while the task runs: without it the log is the same at its end. */
static void hide_tail(struct fr_logfile *l)
{
    if (l->tail_fd < 0)
        return;
    (void)!fr_sys.ftruncate(l->tail_fd, 0);
    fr_fd_close(&l->tail_fd);
    fr_home_unlink(l->home, FR_HOME_TAIL, l->attempt);
}

static void show_tail(struct fr_logfile *l, const char *p, size_t n)
{
    if (l->tail.n == 0 && l->tail_fd < 0) {
        l->tail_head = (struct fr_tail_head){.head = l->size, .keep = l->tail_max};
        l->tail_fd = fr_home_file(l->home, FR_HOME_TAIL, l->attempt, O_RDWR | O_CREAT | O_TRUNC);
    }
    l->tail_head.ms = fr_sys.mono_ms();
    if (l->tail_fd >= 0 && !fr_tail_put(l->tail_fd, &l->tail_head, p, n))
        hide_tail(l);
}

static void keep_tail(struct fr_logfile *l, const char *p, size_t n)
{
    if (n > l->tail_max) {
        l->dropped += n - l->tail_max;
        p += n - l->tail_max;
        n = l->tail_max;
    }
    size_t room = l->tail_max - l->tail.n, first = n < room ? n : room;
    fr_buf_add(&l->tail, p, first);
    if (l->tail.bad) {
        l->dropped += n;
        return;
    }
    l->dropped += n - first; /* as many of the oldest are overwritten */
    while (first < n) {
        size_t ahead = l->tail_max - l->tail_at, k = n - first;

        k = k < ahead ? k : ahead;
        memcpy(l->tail.p + l->tail_at, p + first, k);
        l->tail_at = (l->tail_at + k) % l->tail_max;
        first += k;
    }
}

void fr_logfile_add(struct fr_logfile *l, const char *p, size_t n)
{
    uint64_t room = l->head_max > l->size ? l->head_max - l->size : 0;
    size_t head = l->tail.n > 0 ? 0 : n < room ? n : (size_t)room;

    if (l->unsaid > 0 && head > 0) {
        char note[80];
        uint64_t lost = l->unsaid, before = l->dropped;
        int k = snprintf(note, sizeof(note), "\n[flowrun: %llu bytes lost: disk full]\n",
                         (unsigned long long)lost);
        l->unsaid = 0;
        append(l, note, (size_t)k);
        l->dropped = before;
        l->unsaid = l->unsaid > 0 ? lost : 0;
    }
    append(l, p, head);
    if (head == n)
        return;
    if (l->tail_max > 0) {
        show_tail(l, p + head, n - head);
        keep_tail(l, p + head, n - head);
    } else {
        l->dropped += n - head;
    }
}

/* The line between head and tail. */
static size_t say_dropped(uint64_t dropped, char note[80])
{
    return dropped == 0 ? 0
                        : (size_t)snprintf(note, 80, "\n[flowrun: %llu bytes dropped]\n",
                                           (unsigned long long)dropped);
}

void fr_logfile_end(struct fr_logfile *l)
{
    char note[80];
    size_t older = l->tail.n - l->tail_at;
    uint64_t dropped = l->dropped;

    if (l->tail.bad) {
        hide_tail(l);
        return;
    }
    size_t k = l->head_max != UINT64_MAX ? say_dropped(dropped, note) : 0;
    if (l->tail_fd >= 0 && !fr_tail_join(l->tail_fd, &l->tail_head, l->size + k, dropped))
        hide_tail(l);
    append(l, note, k);
    l->dropped = dropped;
    if (l->tail.n > 0) {
        append(l, l->tail.p + l->tail_at, older);
        append(l, l->tail.p, l->tail_at);
    }
    if (l->tail_fd >= 0)
        fr_tail_empty(l->tail_fd);
    fr_buf_finish(&l->tail);
}

void fr_logfile_close(struct fr_logfile *l)
{
    fr_fd_close(&l->index);
    fr_fd_close(&l->fd);
    fr_fd_close(&l->tail_fd);
    fr_buf_finish(&l->tail);
}

/* Appends the bytes that the log lacks after its first size bytes. */
static void append_rest(int log, int tail, const struct fr_tail_head *h, uint64_t size)
{
    char note[80], piece[4096];
    size_t k = say_dropped(h->dropped, note), n;
    uint64_t first = h->end - (h->end < h->keep ? h->end : h->keep);
    uint64_t at = first + (size > h->joined ? size - h->joined : 0);
    struct fr_tail_head now;
    bool fine = h->joined == h->head + k && size >= h->head;

    if (fine && size < h->joined)
        fine = fr_write_full(log, note + (size - h->head), (size_t)(h->joined - size));
    while (fine && (n = fr_tail_read(tail, &at, piece, sizeof(piece), &now)) > 0) {
        fine = fr_write_full(log, piece, n);
        at += n;
    }
}

void fr_logfile_recover(const char *home, struct fr_id attempt, bool whole, uint64_t *dropped)
{
    char note[80];
    struct fr_tail_head h;
    struct stat st;
    int tail = fr_home_file(home, FR_HOME_TAIL, attempt, O_RDWR), log;

    if (tail < 0)
        return;
    log = fr_home_file(home, FR_HOME_LOG, attempt, O_RDWR | O_APPEND);
    if (log >= 0 && fr_sys.lock(log) == 0 && fr_tail_look(tail, &h) &&
        fr_sys.fstat(log, &st) == 0) {
        uint64_t lost = h.end > h.keep ? h.end - h.keep : 0;
        *dropped = h.joined != 0 ? h.dropped : whole ? lost : h.end;
        if (whole &&
            (h.joined != 0 || fr_tail_join(tail, &h, h.head + say_dropped(lost, note), lost))) {
            append_rest(log, tail, &h, (uint64_t)st.st_size);
            fr_tail_empty(tail);
        } else {
            (void)!fr_sys.ftruncate(tail, 0);
        }
    }
    fr_fd_close(&log);
    fr_sys.close(tail);
}

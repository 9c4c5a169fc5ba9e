#include "engine/supervise/metrics.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/supervise/home.h"
#include "engine/supervise/mask.h"

#include <fcntl.h>
#include <string.h>

enum { LOOK_PIECES = 16, LAST_LOOKS = 512 };

/* A pipe in its place would wait for us; a link may lead anywhere. */
static int open_plain(const char *path, struct stat *st)
{
    int fd;

    if (fr_sys.lstat(path, st) != 0 || !S_ISREG(st->st_mode))
        return -1;
    fd = fr_sys.open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0);
    if (fd >= 0 && (fr_sys.fstat(fd, st) != 0 || !S_ISREG(st->st_mode))) {
        fr_sys.close(fd);
        fd = -1;
    }
    return fd;
}

static void remember(struct fr_metrics *m)
{
    uint64_t n = m->at < FR_METRICS_BEHIND ? m->at : FR_METRICS_BEHIND;
    ssize_t k = fr_sys.pread(m->from, m->behind, (size_t)n, (off_t)(m->at - n));

    m->n_behind = k == (ssize_t)n ? (size_t)n : 0;
}

void fr_metrics_begin(struct fr_metrics *m, const char *path, const struct fr_strs *secrets)
{
    struct stat st;

    m->path = path;
    m->secrets = secrets;
    m->from = open_plain(path, &st);
    m->at = m->from >= 0 ? (uint64_t)st.st_size : 0;
    if (m->from >= 0)
        remember(m);
}

/* ---- the copy ---- */

static bool open_copy(struct fr_metrics *m)
{
    struct stat st;

    if (m->fd >= 0)
        return true;
    m->fd = fr_home_file(m->home, FR_HOME_METRICS, m->attempt, O_RDWR | O_CREAT);
    if (m->fd >= 0 && fr_sys.fstat(m->fd, &st) == 0)
        m->size = (uint64_t)st.st_size;
    return m->fd >= 0;
}

/* All of it, or none: a disk that was full leaves bytes that the next try writes again. */
static bool append(struct fr_metrics *m, const char *p, size_t n)
{
    if (!open_copy(m) || !fr_pwrite_full(m->fd, p, n, m->size))
        return false;
    m->size += n;
    return true;
}

static bool append_lines(struct fr_metrics *m, const char *p, size_t n)
{
    struct fr_buf clean = {0};
    struct fr_mask mask;

    if (m->part && m->size > 0)
        fr_buf_text(&clean, FR_METRICS_PART);
    fr_mask_init(&mask, m->secrets);
    fr_mask_feed(&mask, p, n, &clean);
    fr_mask_end(&mask, &clean);
    bool ok = !clean.bad && !mask.held.bad && append(m, clean.p, clean.n);
    fr_mask_finish(&mask);
    fr_buf_finish(&clean);
    m->part = m->part && !ok;
    return ok;
}

/* Bytes of the lines that still fit into the part. */
static size_t fitting(struct fr_metrics *m, const char *p, size_t n)
{
    size_t at = 0;

    while (at < n && m->rows < FR_METRICS_ROWS) {
        const char *nl = memchr(p + at, '\n', n - at);

        at = nl != NULL ? (size_t)(nl - p) + 1 : n;
        m->rows++;
    }
    return at;
}

/* Whole lines. False: they cannot be written now. */
static bool take_lines(struct fr_metrics *m, const char *p, size_t n)
{
    uint64_t rows = m->rows;
    size_t fit = fitting(m, p, n);

    if (m->full || m->part_full)
        return true;
    if (m->size + fit > FR_METRICS_BYTES) {
        m->full = append(m, FR_METRICS_FULL, strlen(FR_METRICS_FULL));
        return m->full;
    }
    if (!append_lines(m, p, fit)) {
        m->rows = rows;
        return false;
    }
    if (fit < n)
        m->part_full = append(m, FR_METRICS_FULL, strlen(FR_METRICS_FULL));
    return true;
}

/* ---- the file ---- */

/* The next lines of it, by way of piece (FR_METRICS_LINE + 1 bytes). last: also one without its
 * end. False: there are none, or no space. */
static bool copy_piece(struct fr_metrics *m, char *piece, bool last)
{
    ssize_t k = fr_sys.pread(m->from, piece, FR_METRICS_LINE, (off_t)m->at);
    const char *end = k > 0 ? memrchr(piece, '\n', (size_t)k) : NULL;
    size_t n = end != NULL ? (size_t)(end - piece) + 1 : 0, lines = n, head = 0;

    if (k <= 0)
        return false;
    if (m->skip && end != NULL) {
        head = (size_t)((const char *)memchr(piece, '\n', n) - piece) + 1;
    } else if (n == 0 && (m->skip || k == FR_METRICS_LINE)) {
        m->skip = true;
        head = n = lines = (size_t)k;
    } else if (n == 0 && last) {
        n = (size_t)k;
        piece[k] = '\n';
        lines = n + 1;
    }
    m->stuck = lines > head && !take_lines(m, piece + head, lines - head);
    if (n == 0 || m->stuck)
        return false;
    m->skip = m->skip && end == NULL;
    m->at += n;
    remember(m);
    return true;
}

/* The file has other bytes than those that were read. */
static bool is_anew(const struct fr_metrics *m)
{
    char now[FR_METRICS_BEHIND];
    struct stat st;

    if (fr_sys.fstat(m->from, &st) != 0 || (uint64_t)st.st_size < m->at)
        return true;
    return m->n_behind > 0 && (fr_sys.pread(m->from, now, m->n_behind,
                                            (off_t)(m->at - m->n_behind)) != (ssize_t)m->n_behind ||
                               memcmp(now, m->behind, m->n_behind) != 0);
}

static void begin_part(struct fr_metrics *m)
{
    m->at = m->rows = 0;
    m->n_behind = 0;
    m->skip = m->part_full = false;
    m->part = true;
}

/* The file that the path names now, if it is another one. */
static bool change_file(struct fr_metrics *m)
{
    struct stat ours, now;
    int fd;

    if (m->stuck || fr_sys.lstat(m->path, &now) != 0 ||
        (m->from >= 0 && (fr_sys.fstat(m->from, &ours) != 0 ||
                          (ours.st_ino == now.st_ino && ours.st_dev == now.st_dev))))
        return false;
    if ((fd = open_plain(m->path, &now)) < 0)
        return false;
    fr_fd_close(&m->from);
    m->from = fd;
    begin_part(m);
    return true;
}

/* Copies at most `pieces` of what there is. True: there may be more. */
static bool copy(struct fr_metrics *m, int pieces, bool last)
{
    char *piece = m->from >= 0 ? fr_sys.alloc(FR_METRICS_LINE + 1) : NULL;
    bool more = piece != NULL;

    if (more && is_anew(m))
        begin_part(m);
    for (int i = 0; more && i < pieces; i++)
        more = copy_piece(m, piece, last);
    fr_sys.free(piece);
    return more;
}

bool fr_metrics_look(struct fr_metrics *m)
{
    bool more;

    if (m->path == NULL || m->full)
        return false;
    more = copy(m, LOOK_PIECES, false);
    return more || (change_file(m) && copy(m, LOOK_PIECES, false));
}

void fr_metrics_end(struct fr_metrics *m)
{
    if (m->path == NULL)
        return;
    for (int i = 0; i < LAST_LOOKS && !m->full; i++)
        if (!copy(m, LOOK_PIECES, true) && !change_file(m))
            break;
}

void fr_metrics_close(struct fr_metrics *m)
{
    fr_fd_close(&m->from);
    fr_fd_close(&m->fd);
}

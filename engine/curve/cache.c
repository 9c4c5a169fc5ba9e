#include "engine/curve/cache.h"

#include "engine/base/sys.h"

#include <errno.h>
#include <fcntl.h>

enum { PIECE = 256 << 10 };

struct entry {
    struct entry *next; /* the most recently used first */
    struct fr_id attempt;
    struct fr_curve curve;
};

struct fr_curves {
    struct entry *first;
    size_t max_bytes;
};

struct fr_curves *fr_curves_create(size_t max_bytes)
{
    struct fr_curves *c = fr_sys.alloc(sizeof(*c));

    if (c != NULL)
        *c = (struct fr_curves){.max_bytes = max_bytes};
    return c;
}

static void drop(struct entry **at)
{
    struct entry *e = *at;

    *at = e->next;
    fr_curve_finish(&e->curve);
    fr_sys.free(e);
}

void fr_curves_destroy(struct fr_curves *c)
{
    if (c == NULL)
        return;
    while (c->first != NULL)
        drop(&c->first);
    fr_sys.free(c);
}

/* Finds or adds the entry, as the newest one. NULL: no memory. */
static struct entry *find(struct fr_curves *c, struct fr_id attempt)
{
    struct entry **at = &c->first, *e;

    while (*at != NULL && !fr_id_eq((*at)->attempt, attempt))
        at = &(*at)->next;
    if ((e = *at) != NULL)
        *at = e->next;
    else if ((e = fr_sys.alloc(sizeof(*e))) != NULL)
        *e = (struct entry){.attempt = attempt};
    if (e == NULL)
        return NULL;
    e->next = c->first;
    c->first = e;
    return e;
}

enum fr_rc fr_curve_read(struct fr_curve *curve, int fd, const char *path, struct fr_err *err)
{
    char *piece = fr_sys.alloc(PIECE);
    enum fr_rc rc = piece != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for curves");
    ssize_t k = 1;

    while (rc == FR_OK && k > 0) {
        k = fr_sys.pread(fd, piece, PIECE, (off_t)curve->taken);
        if (k < 0)
            rc = fr_fail_errno(err, errno, "reading %s", path);
        else if (k > 0)
            rc = fr_curve_feed(curve, piece, (size_t)k, err);
    }
    fr_sys.free(piece);
    return rc;
}

enum fr_rc fr_curves_get(struct fr_curves *c, struct fr_id attempt, const char *path,
                         const struct fr_curve **out, struct fr_err *err)
{
    struct entry *e = find(c, attempt);
    struct stat st;
    enum fr_rc rc = FR_OK;
    int fd;

    if (e == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for curves");
    fd = fr_sys.open(path, O_RDONLY | O_NOFOLLOW, 0);
    if (fd < 0 && errno != ENOENT)
        rc = fr_fail_errno(err, errno, "opening %s", path);
    if (fd < 0 || fr_sys.fstat(fd, &st) != 0 || (uint64_t)st.st_size < e->curve.taken)
        fr_curve_finish(&e->curve); /* written anew, after a power cut */
    if (fd >= 0)
        rc = fr_curve_read(&e->curve, fd, path, err);
    if (fd >= 0 && fr_sys.fstat(fd, &st) == 0)
        e->curve.wall_ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
    if (fd >= 0)
        fr_sys.close(fd);
    if (rc != FR_OK)
        drop(&c->first);
    *out = rc == FR_OK ? &e->curve : NULL;
    return rc;
}

size_t fr_curves_trim(struct fr_curves *c)
{
    size_t sum = 0;

    for (struct entry **at = &c->first; *at != NULL;) {
        size_t bytes = sizeof(**at) + (*at)->curve.bytes;

        if (sum + bytes > c->max_bytes) {
            drop(at);
            continue;
        }
        sum += bytes;
        at = &(*at)->next;
    }
    return sum;
}

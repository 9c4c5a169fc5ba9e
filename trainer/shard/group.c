#include "trainer/shard/group.h"

#include "trainer/shard/private.h"
#include "trainer/shard/values.h"

#include <string.h>

enum {
    PUT = 1 << 18 /* bytes that are copied and then checked while in the CPU cache */
};

/* A position in a group. */
struct cursor {
    size_t part, done; /* elements of the part */
    size_t slot_at;    /* offset of the part in the slot */
};

int64_t part_at(const struct read_part *p)
{
    return p->d->offset + p->at * (int64_t)tr_dtype_bytes(p->disk);
}

size_t part_bytes(const struct read_part *p)
{
    return p->n * tr_dtype_bytes(p->t->dtype);
}

size_t part_disk_bytes(const struct read_part *p)
{
    return p->n * tr_dtype_bytes(p->disk);
}

static const struct read_part *part_of(const struct group *g, const struct cursor *c)
{
    return &g->parts[c->part];
}

/* Offset of the next element in its file, and its destination. */
static int64_t next_at(const struct group *g, const struct cursor *c)
{
    const struct read_part *p = part_of(g, c);

    return part_at(p) + (int64_t)(c->done * tr_dtype_bytes(p->disk));
}

static char *next_place(const struct group *g, const struct cursor *c)
{
    const struct read_part *p = part_of(g, c);

    return (p->host ? p->dst : g->slot + c->slot_at) + c->done * tr_dtype_bytes(p->t->dtype);
}

static void advance(const struct group *g, struct cursor *c, size_t n)
{
    const struct read_part *p = part_of(g, c);

    if ((c->done += n) < p->n)
        return;
    c->slot_at += p->host ? 0 : round_256(part_bytes(p));
    c->part++;
    c->done = 0;
}

/* Converts and checks n elements; raw and to may be the same. */
static enum fr_rc put(const struct read_part *p, char *to, const char *raw, size_t n,
                      struct fr_err *err)
{
    size_t disk = tr_dtype_bytes(p->disk), memory = tr_dtype_bytes(p->t->dtype), m;
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < n && rc == FR_OK; i += m) {
        char *out = to + i * memory;
        const char *in = raw + i * disk;

        m = n - i < PUT / disk ? n - i : PUT / disk;
        if (p->disk != p->t->dtype)
            values_put(out, p->t->dtype, in, p->disk, m);
        else if (out != in)
            memcpy(out, in, m * disk);
        if (p->host)
            rc = values_finite(p->t, out, m, err);
        if (rc == FR_OK)
            rc = values_positive(p->t, out, m, err);
    }
    return rc;
}

/* ---- by pieces ---- */

/* Drops the pages that the cache lacked, at once or, if other ranks read the part, after READ_LATE
 * more such pieces. */
static void drop(const struct group *g, const struct read_part *p, const struct tr_st_piece *lacked)
{
    struct tr_st_piece old = *lacked, *place;

    if (lacked->n == 0)
        return;
    if (p->shared) {
        pthread_mutex_lock(g->lock);
        place = &g->late->pieces[g->late->n % READ_LATE];
        old = *place;
        old.n = g->late->n++ < READ_LATE ? 0 : old.n;
        *place = *lacked;
        pthread_mutex_unlock(g->lock);
    }
    tr_st_drop(g->st, &old);
}

/* Reads the elements of the next part that begin before `end` in its file, at least one. */
static enum fr_rc read_piece(const struct group *g, struct cursor *c, int64_t end,
                             struct fr_err *err)
{
    const struct read_part *p = part_of(g, c);
    size_t disk = tr_dtype_bytes(p->disk), n = p->n - c->done;
    size_t most = (size_t)(end - next_at(g, c) + (int64_t)disk - 1) / disk;
    char *to = next_place(g, c), *raw = p->disk == p->t->dtype ? to : g->spare;
    struct tr_st_piece lacked;
    enum fr_rc rc;

    n = n < most ? n : most;
    n = n < GROUP_STEP / disk ? n : GROUP_STEP / disk;
    rc = tr_st_read_piece(
        g->st, &(struct tr_st_piece){p->d, (p->at + (int64_t)c->done) * (int64_t)disk, n * disk},
        raw, &lacked, err);
    drop(g, p, &lacked);
    if (rc == FR_OK)
        rc = put(p, to, raw, n, err);
    advance(g, c, n);
    return rc;
}

/* ---- by spans ---- */

/* The pages from the next element on, up to the first without bytes of the group; empty if other
 * ranks read the part. Parts may overlap: a tied head is the embedding. */
static struct tr_st_span next_span(const struct group *g, const struct cursor *c)
{
    int64_t at = next_at(g, c) / TR_ST_PAGE * TR_ST_PAGE, most = at + TR_ST_SPAN, end = at;
    int file = part_of(g, c)->d->file;

    for (size_t i = c->part; i < g->n && end < most; i++) {
        const struct read_part *p = &g->parts[i];
        int64_t from = i == c->part ? at : part_at(p);
        int64_t to = part_at(p) + (int64_t)part_disk_bytes(p) + TR_ST_PAGE - 1;

        if (p->shared || p->d->file != file || from / TR_ST_PAGE * TR_ST_PAGE > end)
            break;
        to = to < most ? to / TR_ST_PAGE * TR_ST_PAGE : most;
        end = to > end ? to : end;
    }
    return (struct tr_st_span){.file = file, .at = at, .n = (size_t)(end - at)};
}

/* Stores all elements of the span in `spare`, up to the first part that begins before the span. */
static enum fr_rc put_span(const struct group *g, struct cursor *c, const struct tr_st_span *s,
                           struct fr_err *err)
{
    int64_t end = s->at + (int64_t)s->n;
    enum fr_rc rc = FR_OK;

    while (rc == FR_OK && c->part < g->n && part_of(g, c)->d->file == s->file) {
        const struct read_part *p = part_of(g, c);
        int64_t at = next_at(g, c);
        size_t n = at < end ? (size_t)(end - at) / tr_dtype_bytes(p->disk) : 0;

        n = n < p->n - c->done ? n : p->n - c->done;
        if (n == 0 || at < s->at || p->shared)
            break;
        rc = put(p, next_place(g, c), g->spare + (at - s->at), n, err);
        advance(g, c, n);
    }
    return rc;
}

enum fr_rc group_read(const struct group *g, struct fr_err *err)
{
    struct cursor c = {0};
    enum fr_rc rc = FR_OK;

    while (c.part < g->n && rc == FR_OK) {
        struct tr_st_span s = next_span(g, &c);
        int64_t end = s.at + (int64_t)s.n;
        struct cursor was = c;

        if (s.n == 0)
            rc = read_piece(g, &c, INT64_MAX / 2, err);
        else if (tr_st_direct_cut(g->direct, &s) && tr_st_direct_read(g->direct, &s, g->spare))
            rc = put_span(g, &c, &s, err);
        else
            rc = read_piece(g, &c, s.at + (int64_t)s.n, err);
        if (rc == FR_OK && c.part == was.part && c.done == was.done)
            rc = read_piece(g, &c, end, err); /* an element across two pages that were cut apart */
    }
    return rc;
}

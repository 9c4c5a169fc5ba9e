#include "engine/view/live_tail.h"

#include "engine/base/sys.h"

#include <string.h>

bool live_tail_look(struct live_tail *t, int tail, bool whole, uint64_t *at)
{
    struct fr_tail_head *h = &t->h;
    uint64_t first;

    if (t->in_log || (tail < 0 && !whole))
        return false;
    if (tail < 0 || !fr_tail_look(tail, h))
        h->joined = 0;
    if (h->joined == 0 && !whole)
        return false;
    t->in_log = true;
    if (!t->used)
        return false;
    first = h->end - (h->end < h->keep ? h->end : h->keep);
    if (*at > h->head && h->joined > 0 && *at - h->head >= first)
        *at = h->joined + (*at - h->head - first);
    else if (*at > h->head)
        *at = h->head;
    return true;
}

ssize_t live_tail_read(struct live_tail *t, struct live_tail_from from, char *p, size_t n,
                       uint64_t *left_out)
{
    const struct fr_tail_head *h = &t->h;
    uint64_t want, at;
    size_t k;

    *left_out = 0;
    if (t->in_log || from.tail < 0 || h->keep == 0)
        return fr_sys.pread(from.log, p, n, (off_t)from.at);
    if (from.at < h->head)
        return fr_sys.pread(from.log, p, n < h->head - from.at ? n : (size_t)(h->head - from.at),
                            (off_t)from.at);
    at = want = from.at - h->head;
    k = fr_tail_read(from.tail, &at, p, n, &t->h);
    *left_out = k > 0 ? at - want : 0;
    t->used = t->used || k > 0;
    return (ssize_t)k;
}

/* All of the tail; *oldest is the number of its first byte. */
static size_t read_all(int tail, struct fr_tail_head *h, char *text, uint64_t *oldest)
{
    uint64_t at = *oldest = fr_tail_oldest(h), before;
    size_t n = 0, k;

    for (before = at; (k = fr_tail_read(tail, &at, text + n, FR_TAIL_MAX - n, h)) > 0;
         before = at) {
        if (at != before) { /* overwritten meanwhile */
            memmove(text, text + n, k);
            *oldest = at;
            n = 0;
        }
        n += k;
        at += k;
    }
    return n;
}

bool live_tail_seek(struct live_tail *t, int tail, size_t lines, uint64_t *at)
{
    char *text = t->in_log || tail < 0 || t->h.keep == 0 ? NULL : fr_sys.alloc(FR_TAIL_MAX);
    uint64_t oldest;
    size_t n, seen = 0;

    if (text == NULL)
        return false;
    n = read_all(tail, &t->h, text, &oldest);
    while (n > 0 && (text[n - 1] != '\n' || ++seen <= lines))
        n--;
    if (n > 0)
        *at = t->h.head + oldest + n;
    t->used = t->used || n > 0;
    fr_sys.free(text);
    return n > 0;
}

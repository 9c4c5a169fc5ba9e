/* Gathers into the two windows, in a recorded order, one ahead. */
#include "engine/base/sys.h"
#include "trainer/shard/state.h"

#include <stdio.h>

static bool same(struct span a, struct span b)
{
    return a.first == b.first && a.n == b.n;
}

static int64_t span_elements(const struct tr_shard *s, struct span p)
{
    int64_t sum = 0;

    for (int i = p.first; i < p.first + p.n; i++)
        sum += s->units[i].elements;
    return sum;
}

static bool all_whole(const struct tr_shard *s, struct span p)
{
    for (int i = p.first; i < p.first + p.n; i++)
        if (!s->units[i].whole)
            return false;
    return true;
}

enum fr_rc tr_shard_begin(struct tr_shard *s, int pass, struct fr_err *err)
{
    if (s->pass >= 0 || pass < 0 || pass >= PASSES)
        return fr_fail(err, FR_BUG, "pass %d of the shard begins inside pass %d", pass, s->pass);
    s->pass = pass;
    s->cursor = 0;
    return FR_OK;
}

enum fr_rc tr_shard_end(struct tr_shard *s, bool failed, struct fr_err *err)
{
    struct order *o = &s->orders[s->pass < 0 ? 0 : s->pass];
    int pass = s->pass;

    s->pass = -1;
    for (int i = 0; i < 2; i++)
        s->windows[i].held = false;
    if (failed) {
        if (!o->complete)
            o->n = 0;
        return FR_OK;
    }
    if (pass < 0 || (o->complete && s->cursor != o->n))
        return fr_fail(err, FR_BUG, "pass %d gathered %zu times, %zu recorded", pass, s->cursor,
                       o->n);
    o->complete = true;
    return FR_OK;
}

/* Records the span, or checks it against the record. */
static enum fr_rc follow(struct tr_shard *s, struct span p, struct fr_err *err)
{
    struct order *o = &s->orders[s->pass < 0 ? 0 : s->pass];

    if (s->pass < 0)
        return fr_fail(err, FR_BUG, "gathering %s outside a pass", s->units[p.first].what);
    if (o->complete) {
        if (s->cursor >= o->n || !same(o->spans[s->cursor], p))
            return fr_fail(err, FR_BUG, "gathering %s out of the recorded order",
                           s->units[p.first].what);
        s->cursor++;
        return FR_OK;
    }
    if (o->n == o->cap) {
        size_t cap = o->cap == 0 ? 64 : o->cap * 2;
        struct span *spans = fr_sys.realloc(o->spans, cap * sizeof(*spans));

        if (spans == NULL)
            return fr_fail(err, FR_NOMEM, "the order of %zu gathers", cap);
        o->spans = spans;
        o->cap = cap;
    }
    o->spans[o->n++] = p;
    s->cursor++;
    return FR_OK;
}

static void forget(struct tr_shard *s, int w)
{
    struct span p = s->windows[w].span;

    for (int i = p.first; i < p.first + p.n; i++)
        s->units[i].window = -1;
    s->windows[w].span.n = 0;
    s->windows[w].ahead = false;
}

/* Where this rank's slice of unit u lies in a window; it comes from the host, or from the base. */
static struct tr_gather_item item_of(const struct tr_shard *s, const struct window *win,
                                     const struct unit *u)
{
    size_t me = shard_ways(s) > 1 ? (size_t)s->o.comm->rank : 0;
    char *to = win->p + u->window_at;

    return (struct tr_gather_item){to, shard_staged(s) ? to + me * u->slice : s->base + u->base_at,
                                   u->slice};
}

/* This rank's slices from the host's memory to their places in the window. */
static enum fr_rc send_slices(struct tr_shard *s, struct window *win, struct span p)
{
    enum fr_rc rc = tr_event_wait(s->o.be, s->cq, win->idle);

    for (int i = 0; i < p.n && rc == FR_OK; i++) {
        const struct unit *u = &s->units[p.first + i];

        rc = tr_copy(s->o.be, s->cq, (void *)(uintptr_t)s->items[i].in, s->base + u->base_at,
                     u->slice);
    }
    if (rc == FR_OK)
        rc = tr_event_record(s->o.be, s->cq, win->sent);
    return rc == FR_OK ? tr_event_wait(s->o.be, s->gq, win->sent) : rc;
}

/* Units p into window w, behind whoever used it last: copies from the host where the base is there,
 * one grouped collective where other ranks have slices. */
static enum fr_rc fetch(struct tr_shard *s, int w, struct span p, struct fr_err *err)
{
    struct window *win = &s->windows[w];
    size_t at = 0;
    char what[96];
    struct tr_allgather g = {.items = s->items, .n = (size_t)p.n, .what = what};
    enum fr_rc rc;

    forget(s, w);
    for (int i = 0; i < p.n; i++) {
        struct unit *u = &s->units[p.first + i];

        u->window_at = at;
        s->items[i] = item_of(s, win, u);
        at += u->slice * shard_ways(s);
    }
    if (at > s->window_bytes || (size_t)p.n > s->span_max)
        return fr_fail(err, FR_BUG, "%s and %d more do not fit a window of %zu bytes",
                       s->units[p.first].what, p.n - 1, s->window_bytes);
    (void)snprintf(what, sizeof(what), p.n > 1 ? "%s and %d more" : "%s", s->units[p.first].what,
                   p.n - 1);
    rc = shard_staged(s) ? send_slices(s, win, p) : tr_event_wait(s->o.be, s->gq, win->idle);
    if (rc != FR_OK)
        return fr_fail(err, rc, "bringing %s", what);
    if ((shard_ways(s) > 1 && (rc = tr_comm_all_gather(s->o.comm, s->gq, &g, err)) != FR_OK) ||
        (rc = tr_event_record(s->o.be, s->gq, win->ready)) != FR_OK)
        return rc;
    win->span = p;
    for (int i = p.first; i < p.first + p.n; i++)
        s->units[i].window = w;
    s->stats.gathers++;
    s->stats.gathered_bytes += at;
    return FR_OK;
}

/* Issues the next recorded gather into the window that is not w, within DeepSpeed's limits. */
static enum fr_rc fetch_ahead(struct tr_shard *s, int w, struct fr_err *err)
{
    const struct order *o = &s->orders[s->pass];
    struct window *other = &s->windows[1 - w];
    struct span next;
    int64_t n;
    enum fr_rc rc;

    if (!o->complete || s->cursor >= o->n || other->held)
        return FR_OK;
    next = o->spans[s->cursor];
    n = span_elements(s, next);
    if (same(next, other->span) || same(next, s->windows[w].span) ||
        n > s->o.limits.prefetch_bucket ||
        n + span_elements(s, s->windows[w].span) > s->o.limits.max_live)
        return FR_OK;
    if ((rc = fetch(s, 1 - w, next, err)) == FR_OK) {
        other->ahead = true;
        s->stats.prefetched++;
    }
    return rc;
}

/* The window to overwrite: the one used longer ago, unless it was just filled ahead. What the other
 * keeps counts as live. */
static int free_window(struct tr_shard *s, struct span p)
{
    int w = s->windows[1 - s->last].ahead ? s->last : 1 - s->last;
    const struct window *other = &s->windows[1 - w];

    if (!other->ahead && span_elements(s, p) + span_elements(s, other->span) > s->o.limits.max_live)
        forget(s, 1 - w);
    return w;
}

enum fr_rc tr_shard_gather(struct tr_shard *s, struct tr_queue *q, int first, int n,
                           struct fr_err *err)
{
    struct span p = {first, n};
    int w;
    enum fr_rc rc;

    if (all_whole(s, p))
        return FR_OK;
    if (s->windows[0].held || s->windows[1].held)
        return fr_fail(err, FR_BUG, "gathering %s while another unit is held",
                       s->units[first].what);
    if ((rc = follow(s, p, err)) != FR_OK)
        return rc;
    for (w = 0; w < 2 && !same(s->windows[w].span, p); w++)
        ;
    if (w == 2) {
        w = free_window(s, p);
        if ((rc = fetch(s, w, p, err)) != FR_OK)
            return rc;
    } else if (!s->windows[w].ahead) {
        s->stats.reused++;
    }
    s->windows[w].ahead = false;
    s->windows[w].held = true;
    s->last = w;
    if ((rc = tr_event_wait(s->o.be, q, s->windows[w].ready)) != FR_OK)
        return fr_fail(err, rc, "waiting for %s", s->units[first].what);
    return fetch_ahead(s, w, err);
}

/* Whether the pass gathers p again within DeepSpeed's distance: the elements gathered in between. A
 * pass is repeated, so what ends one may begin the next. */
static bool soon_again(const struct tr_shard *s, struct span p)
{
    const struct order *o = &s->orders[s->pass];
    int64_t between = 0;

    for (size_t k = 0; o->complete && k < o->n && between <= s->o.limits.max_reuse; k++) {
        struct span next = o->spans[(s->cursor + k) % o->n];

        if (same(next, p))
            return true;
        between += span_elements(s, next);
    }
    return false;
}

enum fr_rc tr_shard_release(struct tr_shard *s, struct tr_queue *q, int first, int n,
                            struct fr_err *err)
{
    struct span p = {first, n};
    enum fr_rc rc;

    if (all_whole(s, p))
        return FR_OK;
    for (int w = 0; w < 2; w++) {
        if (!s->windows[w].held || !same(s->windows[w].span, p))
            continue;
        s->windows[w].held = false;
        if ((rc = tr_event_record(s->o.be, q, s->windows[w].idle)) != FR_OK)
            return fr_fail(err, rc, "releasing %s", s->units[first].what);
        if (!soon_again(s, p))
            forget(s, w);
        return FR_OK;
    }
    return fr_fail(err, FR_BUG, "%s is released but not held", s->units[first].what);
}

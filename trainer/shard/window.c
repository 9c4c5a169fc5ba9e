/*
 * Gathers, in a recorded order and ahead of it. The record of a pass is a list of steps; each knows
 * the step that gathers the same again. A gather first fetches its own missing units. Then
 * it fetches the missing units of the next steps, one whole step in one collective at a time, while
 * the elements ahead of use are fewer than the prefetch bucket and the live ones at most max_live.
 *
 * Release keeps a unit if the prefetcher has already passed its next use, or if that use is at most
 * max_reuse elements away. A kept unit is evicted when a unit that is needed earlier has no space.
 * A unit that the prefetcher has passed is never evicted: nothing is needed earlier.
 */
#include "engine/base/sys.h"
#include "trainer/shard/private.h"

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

/* ---- the record ---- */

enum fr_rc tr_shard_begin(struct tr_shard *s, int pass, struct fr_err *err)
{
    if (s->pass >= 0 || pass < 0 || pass >= PASSES)
        return fr_fail(err, FR_BUG, "pass %d of the shard begins inside pass %d", pass, s->pass);
    if (pass != s->last) /* the kept units belong to the other pass */
        pool_forget_all(s);
    else
        s->turn += (int64_t)s->orders[pass].n;
    s->pass = s->last = pass;
    s->cursor = s->reach = 0;
    return FR_OK;
}

/* Links each step to the next step with the same span; after the last step the record starts over.
 */
static void link_steps(struct tr_shard *s, struct order *o)
{
    o->elements = 0;
    for (size_t i = 0; i < o->n; i++) {
        o->steps[i].before = o->elements;
        o->elements += span_elements(s, o->steps[i].span);
        s->units[o->steps[i].span.first].next = -1;
    }
    for (size_t i = 2 * o->n; i-- > 0;) {
        struct step *t = &o->steps[i % o->n];
        int64_t *next = &s->units[t->span.first].next;

        if (i < o->n)
            t->next = same(o->steps[(size_t)*next % o->n].span, t->span) ? (size_t)*next : 2 * o->n;
        *next = (int64_t)i;
    }
    o->complete = true;
}

/* Ends a failed pass; the device may still read the held units. */
static void give_up(struct tr_shard *s)
{
    struct order *o = &s->orders[s->pass];

    if (s->held.n > 0 && pool_release(s, s->user, NULL) == FR_OK)
        for (int i = s->held.first; i < s->held.first + s->held.n; i++)
            s->units[i].used = s->releases;
    s->held.n = 0;
    pool_forget_all(s);
    if (!o->complete)
        o->n = 0;
}

enum fr_rc tr_shard_end(struct tr_shard *s, bool failed, struct fr_err *err)
{
    struct order *o = &s->orders[s->pass < 0 ? 0 : s->pass];
    int pass = s->pass;

    if (failed && pass >= 0)
        give_up(s);
    s->pass = -1;
    if (failed)
        return FR_OK;
    if (pass < 0 || s->held.n > 0 || (o->complete && s->cursor != o->n))
        return fr_fail(err, FR_BUG, "pass %d gathered %zu times, %zu recorded", pass, s->cursor,
                       o->n);
    if (!o->complete)
        link_steps(s, o);
    return FR_OK;
}

/* Records the span, or checks it against the record. */
static enum fr_rc follow(struct tr_shard *s, struct span p, struct fr_err *err)
{
    struct order *o = &s->orders[s->pass < 0 ? 0 : s->pass];

    if (s->pass < 0)
        return fr_fail(err, FR_BUG, "gathering %s outside a pass", s->units[p.first].what);
    if (o->complete) {
        if (s->cursor >= o->n || !same(o->steps[s->cursor].span, p))
            return fr_fail(err, FR_BUG, "gathering %s out of the recorded order",
                           s->units[p.first].what);
        s->cursor++;
        return FR_OK;
    }
    struct step *steps = fr_grow(o->steps, o->n + 1, &o->cap, sizeof(*steps));
    if (steps == NULL)
        return fr_fail(err, FR_NOMEM, "the order of %zu gathers", o->n + 1);
    o->steps = steps;
    o->steps[o->n++] = (struct step){.span = p};
    s->cursor++;
    return FR_OK;
}

/* ---- fetching ---- */

/* The gather item of unit u: this rank's slice comes from the host, or from the base. */
static struct tr_gather_item item_of(const struct tr_shard *s, const struct unit *u)
{
    size_t me = shard_ways(s) > 1 ? (size_t)s->o.comm->rank : 0;
    char *to = s->pool + u->pool_at;

    return (struct tr_gather_item){to, shard_staged(s) ? to + me * u->slice : s->base + u->base_at,
                                   u->slice};
}

/* Copies this rank's slices from the host to the pool. A dropped prefetch may still write to the
 * same places, so the copy waits for that prefetch. */
static enum fr_rc send_slices(struct tr_shard *s)
{
    enum fr_rc rc = FR_OK;

    if (s->dropped)
        rc = tr_event_wait(s->o.be, s->cq, s->ready[s->batches % EVENTS]);
    s->dropped = false;
    for (size_t i = 0; i < s->nlist && rc == FR_OK; i++) {
        const struct unit *u = &s->units[s->list[i]];

        rc = tr_copy(s->o.be, s->cq, (void *)(uintptr_t)s->items[i].in, s->base + u->base_at,
                     u->slice);
    }
    if (rc == FR_OK)
        rc = tr_event_record(s->o.be, s->cq, s->sent);
    return rc == FR_OK ? tr_event_wait(s->o.be, s->gq, s->sent) : rc;
}

/* Fetches the units of s->list, which have places: by copies if the base is in host memory, by one
 * grouped collective if other ranks have slices. */
static enum fr_rc fetch(struct tr_shard *s, struct fr_err *err)
{
    const char *first = s->units[s->list[0]].what;
    char what[96];
    struct tr_allgather g = {.items = s->items, .n = s->nlist, .what = what};
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < s->nlist; i++) {
        struct unit *u = &s->units[s->list[i]];

        s->items[i] = item_of(s, u);
        u->batch = s->batches + 1;
        s->stats.gathered_bytes += shard_whole(s, u);
    }
    (void)snprintf(what, sizeof(what), s->nlist > 1 ? "%s and %zu more" : "%s", first,
                   s->nlist - 1);
    if (shard_staged(s) && !s->rehearsed && (rc = send_slices(s)) != FR_OK)
        return fr_fail(err, rc, "fetching %s", what);
    if (shard_ways(s) > 1 && !s->rehearsed &&
        (rc = tr_comm_all_gather(s->o.comm, s->gq, &g, err)) != FR_OK)
        return rc;
    s->batches++;
    s->stats.gathers++;
    rc = tr_event_record(s->o.be, s->gq, s->ready[s->batches % EVENTS]);
    return rc == FR_OK ? rc : fr_fail(err, rc, "fetching %s", what);
}

/* The units that a gather may evict: outside `but`, with a next use later than `after`. */
struct room {
    struct span but;
    int64_t after;
};

/* Takes places for the units of s->list, part of a span of n units. Cuts the list at the first unit
 * without a place. */
static enum fr_rc put_list(struct tr_shard *s, int n, const struct room *r, struct fr_err *err)
{
    size_t done = 0;
    enum fr_rc rc;

    do
        rc = pool_put(s, done, n > 1, &done, err);
    while (rc == FR_OK && done < s->nlist && pool_evict(s, r->but, r->after));
    s->nlist = done;
    return rc;
}

/* Lists the missing units of p in s->list; returns their elements. */
static int64_t list_missing(struct tr_shard *s, struct span p)
{
    int64_t missing = 0;

    s->nlist = 0;
    for (int i = p.first; i < p.first + p.n; i++)
        if (!s->units[i].here) {
            s->list[s->nlist++] = i;
            missing += s->units[i].elements;
        }
    return missing;
}

/* Fetches the missing units of p, which is used now; evicts kept units. */
static enum fr_rc fetch_missing(struct tr_shard *s, struct span p, struct fr_err *err)
{
    const struct room r = {p, -1};
    int64_t missing = list_missing(s, p);
    size_t n = s->nlist;
    enum fr_rc rc = FR_OK;

    while (s->live + missing > s->o.limits.max_live && pool_evict(s, p, -1))
        ;
    if (n > 0)
        rc = put_list(s, p.n, &r, err);
    if (rc == FR_OK && s->nlist < n && (rc = pool_empty(s, err)) == FR_OK) {
        for (s->nlist = 0; s->nlist < (size_t)p.n;
             s->nlist++) /* no gap between the other places was large enough */
            s->list[s->nlist] = p.first + (int)s->nlist;
        n = s->nlist;
        rc = put_list(s, p.n, &r, err);
    }
    if (rc == FR_OK && s->nlist < n)
        return fr_fail(err, FR_BUG, "%s and %d more do not fit %zu bytes", s->units[p.first].what,
                       p.n - 1, s->pool_bytes);
    return rc == FR_OK && n > 0 ? fetch(s, err) : rc;
}

/* Whether a step with so many missing elements may be prefetched; evicts units of later use. The
 * bucket is compared before the step is added: with any bucket the next step always goes, and the
 * last step may exceed the bucket. */
static bool may_go(struct tr_shard *s, int64_t missing, const struct room *r)
{
    if (s->batches - s->seen >= EVENTS - 1 || s->ahead >= shard_bucket(s))
        return false;
    while (missing > s->o.limits.max_live - s->live)
        if (!pool_evict(s, r->but, r->after))
            return false;
    return true;
}

/* Takes places for all missing units of step k, or for none: a step is one collective. *all: no
 * unit of the step is missing. */
static enum fr_rc put_ahead(struct tr_shard *s, size_t k, bool *all, struct fr_err *err)
{
    struct span p = s->orders[s->pass].steps[k].span;
    const struct room r = {s->held, s->turn + (int64_t)k};
    int64_t missing = list_missing(s, p);
    size_t n = s->nlist;
    enum fr_rc rc = FR_OK;

    *all = n == 0 || may_go(s, missing, &r);
    if (n == 0 || !*all) {
        s->nlist = 0;
        return FR_OK;
    }
    for (size_t i = 0; i < n; i++)
        s->units[s->list[i]].next = r.after; /* so that the others do not evict it */
    rc = put_list(s, p.n, &r, err);
    if (s->nlist < n) {
        while (s->nlist > 0)
            pool_forget(s, s->list[--s->nlist]);
        *all = false;
        return rc;
    }
    for (size_t i = 0; i < n; i++)
        s->units[s->list[i]].ahead = true;
    s->ahead += missing;
    if (s->ahead > s->stats.ahead)
        s->stats.ahead = s->ahead;
    return rc;
}

static enum fr_rc fetch_ahead(struct tr_shard *s, struct fr_err *err)
{
    const struct order *o = &s->orders[s->pass];
    enum fr_rc rc = FR_OK;
    bool all = true;

    if (s->reach < s->cursor)
        s->reach = s->cursor;
    while (o->complete && s->reach < o->n && all && rc == FR_OK) {
        rc = put_ahead(s, s->reach, &all, err);
        if (rc == FR_OK && s->nlist > 0) {
            rc = fetch(s, err);
            s->stats.prefetched++;
        }
        s->reach += all;
    }
    return rc;
}

/* ---- use ---- */

/* Marks units p as used; returns the gather that fetched the last of them. *ahead: a unit was
 * prefetched. */
static int64_t take(struct tr_shard *s, struct span p, bool *ahead)
{
    int64_t batch = 0;

    *ahead = false;
    for (int i = p.first; i < p.first + p.n; i++) {
        struct unit *u = &s->units[i];

        *ahead = *ahead || u->ahead;
        s->ahead -= u->ahead ? u->elements : 0;
        u->ahead = false;
        batch = u->batch > batch ? u->batch : batch;
    }
    return batch;
}

enum fr_rc tr_shard_gather(struct tr_shard *s, struct tr_queue *q, int first, int n,
                           struct fr_err *err)
{
    struct span p = {first, n};
    int64_t batch, gathers = s->stats.gathers;
    bool ahead;
    enum fr_rc rc;

    if (all_whole(s, p))
        return FR_OK;
    if (s->held.n > 0)
        return fr_fail(err, FR_BUG, "gathering %s while another unit is held",
                       s->units[first].what);
    if ((size_t)n > s->span_max)
        return fr_fail(err, FR_BUG, "%s and %d more were not planned", s->units[first].what, n - 1);
    if ((rc = follow(s, p, err)) != FR_OK || (rc = fetch_missing(s, p, err)) != FR_OK)
        return rc;
    batch = take(s, p, &ahead);
    s->stats.reused += !ahead && s->stats.gathers == gathers;
    s->held = p;
    s->user = q;
    if (batch > s->seen && (rc = tr_event_wait(s->o.be, q, s->ready[batch % EVENTS])) != FR_OK)
        return fr_fail(err, rc, "waiting for %s", s->units[first].what);
    s->seen = batch > s->seen ? batch : s->seen;
    return fetch_ahead(s, err);
}

/* Whether the units of the last gather stay after their release, and until which gather. */
static bool stays(const struct tr_shard *s, int64_t *next)
{
    const struct order *o = &s->orders[s->pass];
    const struct step *t = &o->steps[s->cursor - 1];
    int64_t between;

    if (!o->complete || t->next >= 2 * o->n)
        return false;
    *next = s->turn + (int64_t)t->next;
    if (t->next < s->reach)
        return true;
    between = o->steps[t->next % o->n].before - t->before - span_elements(s, t->span) +
              (t->next < o->n ? 0 : o->elements);
    return between <= s->o.limits.max_reuse;
}

enum fr_rc tr_shard_release(struct tr_shard *s, struct tr_queue *q, int first, int n,
                            struct fr_err *err)
{
    struct span p = {first, n};
    int64_t next = 0;
    bool keep;
    enum fr_rc rc;

    if (all_whole(s, p))
        return FR_OK;
    if (s->held.n == 0 || !same(s->held, p))
        return fr_fail(err, FR_BUG, "%s is released but not held", s->units[first].what);
    s->held.n = 0;
    if ((rc = pool_release(s, q, err)) != FR_OK)
        return rc;
    keep = stays(s, &next);
    for (int i = first; i < first + n; i++) {
        s->units[i].used = s->releases;
        s->units[i].next = next;
        if (!keep)
            pool_forget(s, i);
    }
    return FR_OK;
}

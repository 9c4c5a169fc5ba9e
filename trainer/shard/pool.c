/*
 * The memory that units are gathered into: one piece, from which each unit takes a place of its
 * bytes. Units that are gathered together get places from the beginning, single units from the
 * end, so that windows of experts of one size leave no gaps between them.
 *
 * A place is free for others when the unit is forgotten, but the device may be far behind the host:
 * releases are counted, each is an event in the queue of use, and the queue that fills the pool
 * waits for the release of the units that lay there. It also waits until the elements here and
 * those that the device still reads are at most max_live: the limit holds on the device as on the
 * host.
 */
#include "engine/base/sys.h"
#include "trainer/shard/private.h"

#include <assert.h>
#include <string.h>

static bool gathered(const struct unit *u)
{
    return u->kind == TR_UNIT_SHARDED && !u->whole;
}

/* The size of the pool in elements, at most max_live: elements in use, elements ahead of use (the
 * bucket and the step that exceeds it), and kept elements. */
static int64_t most_elements(const struct tr_shard *s)
{
    const struct tr_shard_limits *l = &s->o.limits;
    int64_t most = s->span_elements, room = l->max_live - most;
    int64_t bucket = shard_bucket(s), ahead = bucket > 0 ? s->span_elements : 0;

    if (room <= 0)
        return most;
    ahead += bucket < room ? bucket : room;
    most += ahead < room ? ahead : room;
    room = l->max_live - most;
    return most + (l->max_reuse < room ? l->max_reuse : room);
}

/* The bytes of the longest run of neighbours, which a pass may use together. */
size_t pool_bytes(const struct tr_shard *s)
{
    size_t bytes = 0, most = s->span_bytes, first = 0;
    int64_t elements = 0, limit = most_elements(s);

    for (size_t i = 0; i < s->nunits; i++) {
        if (!gathered(&s->units[i]))
            continue;
        bytes += shard_whole(s, &s->units[i]);
        elements += s->units[i].elements;
        for (; elements > limit; first++)
            if (gathered(&s->units[first])) {
                bytes -= shard_whole(s, &s->units[first]);
                elements -= s->units[first].elements;
            }
        most = bytes > most ? bytes : most;
    }
    return most;
}

enum fr_rc pool_alloc(struct tr_shard *s, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    if (s->pool_bytes == 0)
        return FR_OK;
    s->places = fr_sys.alloc((s->nunits + EVENTS * s->span_max) * sizeof(*s->places));
    s->list = fr_sys.alloc(s->span_max * sizeof(*s->list));
    s->items = fr_sys.alloc(s->span_max * sizeof(*s->items));
    if (s->places == NULL || s->list == NULL || s->items == NULL)
        return fr_fail(err, FR_NOMEM, "a gather of %zu units", s->span_max);
    if ((rc = tr_event_create(s->o.be, &s->sent, err)) != FR_OK)
        return rc;
    for (int i = 0; i < EVENTS && rc == FR_OK; i++)
        if ((rc = tr_event_create(s->o.be, &s->free[i], err)) == FR_OK)
            rc = tr_event_create(s->o.be, &s->ready[i], err);
    return rc;
}

void pool_free(struct tr_shard *s)
{
    for (int i = 0; i < EVENTS; i++) {
        tr_event_destroy(s->o.be, s->free[i]);
        tr_event_destroy(s->o.be, s->ready[i]);
    }
    tr_event_destroy(s->o.be, s->sent);
    tr_mem_free(s->o.be, TR_MEM_DEVICE, s->pool);
    fr_sys.free(s->places);
    fr_sys.free(s->list);
    fr_sys.free(s->items);
}

static void drop_place(struct tr_shard *s, size_t i)
{
    s->nplaces--;
    memmove(&s->places[i], &s->places[i + 1], (s->nplaces - i) * sizeof(*s->places));
}

/* Removes the ghosts of all releases that the gather queue has waited for. */
static bool places_sound(const struct tr_shard *s)
{
    for (size_t i = 0; i < s->nplaces; i++)
        if (s->places[i].freed <= s->waited)
            return false;
    return true;
}

/* Makes the filling queue wait for a release; removes the ghosts up to that release. */
static enum fr_rc wait_for(struct tr_shard *s, int64_t release)
{
    struct tr_queue *q = shard_staged(s) ? s->cq : s->gq;
    enum fr_rc rc = FR_OK;

    if (release > s->waited)
        rc = tr_event_wait(s->o.be, q, s->free[release % EVENTS]);
    if (rc != FR_OK || release <= s->waited)
        return rc;
    s->waited = release;
    for (size_t i = s->nplaces; i-- > 0;)
        if (s->places[i].freed <= release)
            drop_place(s, i);
    assert(places_sound(s));
    return FR_OK;
}

/* Finds a gap of n bytes between the places in use after that release. */
static bool find_gap(const struct tr_shard *s, size_t n, bool low, int64_t release, size_t *at)
{
    size_t from = 0, to = s->pool_bytes;

    for (size_t k = 0; k < s->nplaces; k++) {
        const struct place *p = &s->places[low ? k : s->nplaces - 1 - k];

        if (p->freed <= release)
            continue;
        if (low && p->at - from >= n)
            break;
        if (!low && to - (p->at + p->bytes) >= n) {
            from = p->at + p->bytes;
            break;
        }
        if (low)
            from = p->at + p->bytes;
        else
            to = p->at;
    }
    *at = low ? from : to - n;
    return low ? s->pool_bytes - from >= n : to >= n;
}

/* Elements of evicted units that the device may still read after that release. */
static int64_t ghosts(const struct tr_shard *s, int64_t release)
{
    int64_t sum = 0;

    for (size_t i = 0; i < s->nplaces; i++)
        if (s->places[i].freed != LIVE && s->places[i].freed > release)
            sum += s->units[s->places[i].unit].elements;
    return sum;
}

static void insert(struct tr_shard *s, int unit, size_t at)
{
    size_t i = 0;

    while (i < s->nplaces && s->places[i].at < at)
        i++;
    memmove(&s->places[i + 1], &s->places[i], (s->nplaces - i) * sizeof(*s->places));
    s->places[i] = (struct place){at, shard_whole(s, &s->units[unit]), unit, LIVE};
    s->units[unit].pool_at = at;
    s->nplaces++;
}

static size_t live_place(const struct tr_shard *s, int unit)
{
    size_t i = 0;

    while (s->places[i].unit != unit || s->places[i].freed != LIVE)
        i++;
    return i;
}

/* The number of units of the list that fit after that release. */
static size_t fit(struct tr_shard *s, size_t from, bool low, int64_t release)
{
    size_t at;

    for (size_t i = from; i < s->nlist; i++) {
        if (!find_gap(s, shard_whole(s, &s->units[s->list[i]]), low, release, &at))
            return i;
        insert(s, s->list[i], at);
    }
    return s->nlist;
}

enum fr_rc pool_put(struct tr_shard *s, size_t from, bool low, size_t *done, struct fr_err *err)
{
    int64_t release = s->waited, elements = s->live;
    enum fr_rc rc;

    for (size_t i = from; i < s->nlist; i++)
        elements += s->units[s->list[i]].elements;
    while (release < s->releases && elements + ghosts(s, release) > s->o.limits.max_live)
        release++;
    while ((*done = fit(s, from, low, release)) < s->nlist && release < s->releases) {
        for (size_t i = from; i < *done; i++)
            drop_place(s, live_place(s, s->list[i]));
        release++;
    }
    for (size_t i = from; i < *done; i++) {
        s->units[s->list[i]].here = true;
        s->live += s->units[s->list[i]].elements;
    }
    if (s->live > s->stats.live)
        s->stats.live = s->live;
    rc = wait_for(s, release);
    return rc == FR_OK ? rc : fr_fail(err, rc, "waiting for memory of weights");
}

void pool_forget(struct tr_shard *s, int unit)
{
    struct unit *u = &s->units[unit];
    size_t i = live_place(s, unit);

    s->places[i].freed = u->used;
    if (u->used <= s->waited)
        drop_place(s, i);
    s->live -= u->elements;
    if (u->ahead) {
        s->ahead -= u->elements;
        s->dropped = true;
    }
    u->here = u->ahead = false;
}

void pool_forget_all(struct tr_shard *s)
{
    for (size_t i = s->nplaces; i-- > 0;)
        if (s->places[i].freed == LIVE)
            pool_forget(s, s->places[i].unit);
}

enum fr_rc pool_empty(struct tr_shard *s, struct fr_err *err)
{
    enum fr_rc rc;

    pool_forget_all(s);
    rc = wait_for(s, s->releases);
    return rc == FR_OK ? rc : fr_fail(err, rc, "waiting for the gather windows");
}

/* Whether to evict a before b: the device may still use the unit of the last release. */
static bool goes_first(const struct tr_shard *s, const struct unit *a, const struct unit *b)
{
    bool late = a->used == s->releases;

    if (late != (b->used == s->releases))
        return !late;
    return a->next > b->next;
}

bool pool_evict(struct tr_shard *s, struct span but, int64_t after)
{
    int first = -1;

    for (size_t i = 0; i < s->nplaces; i++) {
        int k = s->places[i].unit;

        if (s->places[i].freed == LIVE && (k < but.first || k >= but.first + but.n) &&
            s->units[k].next > after &&
            (first < 0 || goes_first(s, &s->units[k], &s->units[first])))
            first = k;
    }
    if (first >= 0)
        pool_forget(s, first);
    return first >= 0;
}

enum fr_rc pool_release(struct tr_shard *s, struct tr_queue *q, struct fr_err *err)
{
    int64_t release = s->releases + 1;
    enum fr_rc rc = wait_for(s, release - EVENTS); /* its event is reused */

    if (rc == FR_OK && (rc = tr_event_record(s->o.be, q, s->free[release % EVENTS])) == FR_OK)
        s->releases = release;
    return rc == FR_OK ? rc : fr_fail(err, rc, "releasing weights");
}

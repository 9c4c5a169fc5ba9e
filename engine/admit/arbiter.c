#include "engine/admit/arbiter.h"

/* Slots that the gang of a run asks for, or its other tasks. */
struct request {
    uint32_t claim, slots; /* slots 0: there is none */
    bool gang;
    int64_t since_ms;
};

static bool comes_before(const struct fr_claim *claims, struct request a, struct request b)
{
    const struct fr_claim *x = &claims[a.claim], *y = &claims[b.claim];

    if (x->priority != y->priority)
        return x->priority > y->priority;
    if (a.since_ms != b.since_ms)
        return a.since_ms < b.since_ms;
    if (x->no != y->no)
        return x->no < y->no;
    return a.gang && !b.gang;
}

/* The request that follows last in the order of service, or the first of all. A gang that comes
 * first in its run is served before the tasks of that run: they get nothing that it lacks. */
static struct request next_request(const struct fr_claim *claims, size_t n, struct request last)
{
    struct request best = {0};

    for (uint32_t i = 0; i < n; i++) {
        const struct fr_demand *d = &claims[i].demand;
        bool behind = d->gang > 0 && d->gang_first && d->gang_ms > d->single_ms;
        struct request both[] = {{i, d->gang, true, d->gang_ms},
                                 {i, d->single, false, behind ? d->gang_ms : d->single_ms}};

        for (int k = 0; k < 2; k++) {
            if (both[k].slots == 0 || (last.slots > 0 && !comes_before(claims, last, both[k])))
                continue;
            if (best.slots == 0 || comes_before(claims, both[k], best))
                best = both[k];
        }
    }
    return best;
}

/* The request of a claim is not met: the other runs give back each slot that gets free. */
static void contend(struct fr_claim *claims, size_t n, uint32_t waiting)
{
    for (size_t i = 0; i < n; i++)
        claims[i].contended = claims[i].contended || i != waiting;
}

void fr_arbiter_share(struct fr_claim *claims, size_t n)
{
    uint32_t capacity = UINT32_MAX, used = 0, left;
    struct request request = {0};
    size_t first = 0, unmet = n;
    bool all_contended = false;

    for (size_t i = 0; i < n; i++) {
        capacity = claims[i].slots < capacity ? claims[i].slots : capacity;
        claims[i].lent = claims[i].demand.used;
        used += claims[i].demand.used;
        if (claims[i].priority > claims[first].priority ||
            (claims[i].priority == claims[first].priority && claims[i].no < claims[first].no))
            first = i;
    }
    left = used < capacity ? capacity - used : 0;
    for (size_t i = 0; i < n; i++)
        claims[i].contended = claims[i].over = used > capacity;
    while ((left > 0 || !all_contended) && (request = next_request(claims, n, request)).slots > 0) {
        uint32_t take = request.slots < left ? request.slots : left;

        claims[request.claim].lent += take;
        left -= take;
        if (take == request.slots)
            continue;
        contend(claims, n, request.claim);
        all_contended = all_contended || (unmet < n && unmet != request.claim);
        unmet = request.claim;
    }
    if (n > 0)
        claims[first].lent += left;
}

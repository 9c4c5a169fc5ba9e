#include "engine/base/sys.h"
#include "engine/sched/internal.h"

bool heap_push(struct heap *h, struct entry e)
{
    struct entry *v = fr_grow(h->v, h->n + 1, &h->cap, sizeof(*v));
    size_t at = h->n;

    if (v == NULL)
        return false;
    h->v = v;
    h->n++;
    while (at > 0 && h->v[(at - 1) / 2].key > e.key) {
        h->v[at] = h->v[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    h->v[at] = e;
    return true;
}

void heap_pop(struct heap *h)
{
    struct entry last = h->v[--h->n];
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= h->n)
            break;
        if (child + 1 < h->n && h->v[child + 1].key < h->v[child].key)
            child++;
        if (h->v[child].key >= last.key)
            break;
        h->v[at] = h->v[child];
        at = child;
    }
    if (h->n > 0)
        h->v[at] = last;
}

void heap_finish(struct heap *h)
{
    fr_sys.free(h->v);
    *h = (struct heap){0};
}

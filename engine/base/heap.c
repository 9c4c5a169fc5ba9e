#include "engine/base/heap.h"

#include "engine/base/arena.h"
#include "engine/base/sys.h"

bool fr_heap_before(struct fr_heap_entry a, struct fr_heap_entry b)
{
    return a.key != b.key ? a.key < b.key : a.id < b.id;
}

bool fr_heap_reserve(struct fr_heap *h, size_t n)
{
    struct fr_heap_entry *v = fr_grow(h->v, n, &h->cap, sizeof(*v));

    if (v != NULL)
        h->v = v;
    return v != NULL;
}

bool fr_heap_push(struct fr_heap *h, struct fr_heap_entry e)
{
    size_t at = h->n;

    if (!fr_heap_reserve(h, h->n + 1))
        return false;
    h->n++;
    for (; at > 0 && fr_heap_before(e, h->v[(at - 1) / 2]); at = (at - 1) / 2)
        h->v[at] = h->v[(at - 1) / 2];
    h->v[at] = e;
    return true;
}

struct fr_heap_entry fr_heap_pop(struct fr_heap *h)
{
    struct fr_heap_entry top = h->v[0], last = h->v[--h->n];
    size_t at = 0;

    for (size_t child; (child = 2 * at + 1) < h->n; at = child) {
        if (child + 1 < h->n && fr_heap_before(h->v[child + 1], h->v[child]))
            child++;
        if (!fr_heap_before(h->v[child], last))
            break;
        h->v[at] = h->v[child];
    }
    h->v[at] = last;
    return top;
}

void fr_heap_finish(struct fr_heap *h)
{
    fr_sys.free(h->v);
    *h = (struct fr_heap){0};
}

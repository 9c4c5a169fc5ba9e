/*
 * A binary heap, smallest key first; of equal keys the smaller id first. Entries are never removed
 * from the middle: an owner whose entry is out of date compares its stamp when the entry comes up.
 */
#ifndef FR_BASE_HEAP_H
#define FR_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fr_heap_entry {
    uint64_t key;
    uint32_t id, stamp;
};

struct fr_heap {             /* zero it to start */
    struct fr_heap_entry *v; /* owns; v[0] is the smallest */
    size_t n, cap;
};

/* Room for n entries: pushes up to there take no memory. */
bool fr_heap_reserve(struct fr_heap *h, size_t n);
bool fr_heap_push(struct fr_heap *h, struct fr_heap_entry e); /* false: no memory */
struct fr_heap_entry fr_heap_pop(struct fr_heap *h);          /* h is not empty */
bool fr_heap_before(struct fr_heap_entry a, struct fr_heap_entry b);
void fr_heap_finish(struct fr_heap *h);

#endif

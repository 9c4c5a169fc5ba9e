/*
 * A hash table from 64-bit keys to 64-bit values, with open addressing. It keeps every pair that is
 * added, also with equal keys: an owner whose real key is longer (a text, an id) adds a hash of it
 * and compares what each value stands for:
 *
 *     for (size_t at = 0; (value = fr_map_next(m, key, &at)) != NULL;)
 *         if (is_it(*value)) …
 *
 * A value is an index, or anything but UINT64_MAX, which marks a free slot.
 */
#ifndef FR_BASE_MAP_H
#define FR_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fr_map_slot {
    uint64_t key, value;
};

struct fr_map {                /* zero it to start */
    struct fr_map_slot *slots; /* owns; cap is a power of two, at most half of them are used */
    size_t cap, n;
};

/* Room for n pairs: additions up to there take no memory. */
bool fr_map_reserve(struct fr_map *m, size_t n);
bool fr_map_add(struct fr_map *m, uint64_t key, uint64_t value); /* false: no memory */
void fr_map_clear(struct fr_map *m);                             /* keeps the memory */
void fr_map_finish(struct fr_map *m);

/* The slot that is probed at-th for key. The factor is 2^64 divided by the golden ratio. */
static inline struct fr_map_slot *fr_map_slot(const struct fr_map *m, uint64_t key, size_t at)
{
    return &m->slots[((size_t)(key * 0x9e3779b97f4a7c15u >> 32) + at) & (m->cap - 1)];
}

/* Another value of key, in no order; NULL when there is no other. *at is 0 at first. The value may
 * be changed in place. */
static inline uint64_t *fr_map_next(const struct fr_map *m, uint64_t key, size_t *at)
{
    struct fr_map_slot *s;

    if (m->cap == 0)
        return NULL;
    while ((s = fr_map_slot(m, key, (*at)++))->value != UINT64_MAX)
        if (s->key == key)
            return &s->value;
    return NULL;
}

#endif

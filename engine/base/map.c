#include "engine/base/map.h"

#include "engine/base/arena.h"
#include "engine/base/sys.h"

#include <assert.h>
#include <string.h>

static void put(struct fr_map *m, struct fr_map_slot pair)
{
    struct fr_map_slot *s;
    size_t at = 0;

    while ((s = fr_map_slot(m, pair.key, at++))->value != UINT64_MAX)
        ;
    *s = pair;
    m->n++;
}

bool fr_map_reserve(struct fr_map *m, size_t n)
{
    struct fr_map more = {.cap = m->cap == 0 ? 16 : m->cap};
    size_t bytes;

    if (n <= m->cap / 2)
        return true;
    while (more.cap / 2 < n)
        if (!fr_mul_size(more.cap, 2, &more.cap))
            return false;
    if (!fr_mul_size(more.cap, sizeof(*more.slots), &bytes) ||
        (more.slots = fr_sys.alloc(bytes)) == NULL)
        return false;
    fr_map_clear(&more);
    for (size_t i = 0; i < m->cap; i++)
        if (m->slots[i].value != UINT64_MAX)
            put(&more, m->slots[i]);
    fr_sys.free(m->slots);
    *m = more;
    return true;
}

bool fr_map_add(struct fr_map *m, uint64_t key, uint64_t value)
{
    assert(value != UINT64_MAX);
    if (!fr_map_reserve(m, m->n + 1))
        return false;
    put(m, (struct fr_map_slot){key, value});
    return true;
}

void fr_map_clear(struct fr_map *m)
{
    if (m->cap > 0)
        memset(m->slots, 0xff, m->cap * sizeof(*m->slots));
    m->n = 0;
}

void fr_map_finish(struct fr_map *m)
{
    fr_sys.free(m->slots);
    *m = (struct fr_map){0};
}

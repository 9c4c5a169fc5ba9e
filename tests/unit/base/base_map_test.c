/*
 * The heap and the hash table of engine/base, beside plain lists of the same entries.
 */
#include "engine/base/heap.h"
#include "engine/base/map.h"
#include "engine/base/sys.h"
#include "tests/unit/check.h"

enum { MANY = 3000 };

static uint64_t state = 1;

static uint64_t draw(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

static void *no_alloc(size_t n)
{
    (void)n;
    return NULL;
}

static void *no_realloc(void *p, size_t n)
{
    (void)p;
    (void)n;
    return NULL;
}

static int by_order(const void *a, const void *b)
{
    return fr_heap_before(*(const struct fr_heap_entry *)a, *(const struct fr_heap_entry *)b) ? -1
                                                                                              : 1;
}

/* Half of the entries come up before the rest is pushed. */
static void heap_in_order(uint64_t keys)
{
    static struct fr_heap_entry list[MANY];
    struct fr_heap h = {0};
    size_t n = 0;
    int wrong = 0;

    for (uint32_t i = 0; i < MANY; i++) {
        list[n] = (struct fr_heap_entry){draw(keys), (uint32_t)draw(2) * MANY + i, ~i};
        CHECK(fr_heap_push(&h, list[n++]));
        if (i % 3 != 2)
            continue;
        qsort(list, n, sizeof(list[0]), by_order);
        struct fr_heap_entry e = fr_heap_pop(&h);
        wrong += e.key != list[0].key || e.id != list[0].id || e.stamp != list[0].stamp;
        memmove(list, list + 1, --n * sizeof(list[0]));
    }
    qsort(list, n, sizeof(list[0]), by_order);
    CHECK_INT(h.n, n);
    for (size_t i = 0; i < n; i++) {
        struct fr_heap_entry e = fr_heap_pop(&h);
        wrong += e.key != list[i].key || e.id != list[i].id || e.stamp != list[i].stamp;
    }
    CHECK_INT(wrong, 0);
    CHECK_INT(h.n, 0);
    fr_heap_finish(&h);
}

static void heap_without_memory(void)
{
    struct fr_heap h = {0};

    CHECK(fr_heap_reserve(&h, 40));
    fr_sys.realloc = no_realloc;
    for (uint32_t i = 0; i < 40; i++)
        CHECK(fr_heap_push(&h, (struct fr_heap_entry){40 - i, i, 0}));
    CHECK(!fr_heap_push(&h, (struct fr_heap_entry){0, 41, 0}));
    fr_sys.realloc = fr_sys_real.realloc;
    CHECK_INT(h.n, 40);
    CHECK_INT(fr_heap_pop(&h).id, 39);
    fr_heap_finish(&h);
}

/* Each value of a key is found once, and none of another. */
static void map_finds(uint64_t keys, uint64_t step)
{
    static uint64_t key_of[MANY], seen_for[MANY]; /* seen_for: with whose key it was found last */
    struct fr_map m = {0};
    const uint64_t *v;
    size_t at = 0;
    int wrong = 0;

    memset(seen_for, 0, sizeof(seen_for));
    CHECK(fr_map_next(&m, 0, &at) == NULL);
    for (uint64_t i = 0; i < MANY; i++) {
        key_of[i] = draw(keys) * step;
        CHECK(fr_map_add(&m, key_of[i], i));
        CHECK(m.n == i + 1 && 2 * m.n <= m.cap && (m.cap & (m.cap - 1)) == 0);
    }
    for (uint64_t i = 0; i < MANY; i++) {
        size_t found = 0;

        for (at = 0; (v = fr_map_next(&m, key_of[i], &at)) != NULL; found++) {
            wrong += key_of[*v] != key_of[i] || seen_for[*v] == i + 1;
            seen_for[*v] = i + 1;
        }
        for (uint64_t k = 0; k < MANY; k++)
            found -= key_of[k] == key_of[i];
        wrong += found != 0;
    }
    at = 0;
    CHECK(fr_map_next(&m, keys * step, &at) == NULL);
    CHECK_INT(wrong, 0);
    fr_map_clear(&m);
    at = 0;
    CHECK(m.n == 0 && m.cap > 0 && fr_map_next(&m, key_of[0], &at) == NULL);
    fr_map_finish(&m);
    CHECK(m.slots == NULL && m.cap == 0);
}

static void map_without_memory(void)
{
    struct fr_map m = {0};
    size_t at = 0;

    CHECK(fr_map_reserve(&m, 40));
    CHECK(!fr_map_reserve(&m, SIZE_MAX / 2) && !fr_map_reserve(&m, SIZE_MAX / 20));
    fr_sys.alloc = no_alloc;
    while (m.n < 64 && fr_map_add(&m, 7, m.n))
        ;
    fr_sys.alloc = fr_sys_real.alloc;
    CHECK_INT(m.n, 64); /* half of the slots of 40, rounded up to a power of two */
    fr_sys.alloc = no_alloc;
    CHECK(!fr_map_add(&m, 7, 64));
    fr_sys.alloc = fr_sys_real.alloc;
    for (size_t found = 0; found <= 64; found++)
        CHECK((fr_map_next(&m, 7, &at) == NULL) == (found == 64));
    fr_map_finish(&m);
}

int main(void)
{
    static const struct {
        const char *name;
        uint64_t keys, step;
    } rows[] = {
        {"keys that differ", UINT32_MAX, 1},
        {"keys that repeat", 500, 1},
        {"one key", 1, 1},
        {"keys with equal lower bits", 700, (uint64_t)1 << 40},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_counts.row = rows[i].name;
        heap_in_order(rows[i].keys);
        map_finds(rows[i].keys, rows[i].step);
    }
    check_counts.row = "without memory";
    heap_without_memory();
    map_without_memory();
    return check_done();
}

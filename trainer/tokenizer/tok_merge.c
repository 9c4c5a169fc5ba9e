#include "trainer/tokenizer/tok.h"

#include "engine/base/sys.h"

#include <string.h>

enum { SHORT_WORD = 40 }; /* up to here a scan of all ranks is faster than a heap */

/* rank<<32 | id of what a and b merge to; UINT64_MAX: they do not. */
static uint64_t merge_of(const struct tr_tokenizer *t, int32_t a, int32_t b)
{
    size_t at = 0;
    const uint64_t *m = fr_map_next(&t->merges, (uint64_t)(uint32_t)a << 32 | (uint32_t)b, &at);

    return m != NULL ? *m : UINT64_MAX;
}

bool tr_tok_work_reserve(struct tr_tok_work *w, size_t n)
{
    if (n <= w->cap)
        return true;
    size_t cap = n * 2 + 256;
    int32_t *ids = fr_sys.alloc(4 * cap * sizeof(*ids));
    /* a heap holds at most one entry a symbol at the start and two a merge */
    if (ids == NULL || !fr_heap_reserve(&w->heap, 3 * cap)) {
        fr_sys.free(ids);
        return false;
    }
    fr_sys.free(w->ids);
    w->ids = ids;
    w->ranks = w->ids + cap;
    w->next = w->ranks + cap;
    w->prev = w->next + cap;
    w->cap = cap;
    return true;
}

void tr_tok_work_finish(struct tr_tok_work *w)
{
    fr_sys.free(w->ids);
    fr_heap_finish(&w->heap);
    *w = (struct tr_tok_work){.cap = 0};
}

static int32_t rank_of(const struct tr_tokenizer *t, int32_t a, int32_t b)
{
    uint64_t m = merge_of(t, a, b);

    return m == UINT64_MAX ? INT32_MAX : (int32_t)(m >> 32);
}

/* ranks[i] is that of the pair (i, i+1); the smallest, leftmost first, is merged until none is
 * left. */
static size_t merge_short(const struct tr_tokenizer *t, struct tr_tok_work *w, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        w->ranks[i] = rank_of(t, w->ids[i], w->ids[i + 1]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (w->ranks[i] < w->ranks[best])
                best = i;
        if (w->ranks[best] == INT32_MAX)
            break;
        w->ids[best] = (int32_t)merge_of(t, w->ids[best], w->ids[best + 1]);
        n--;
        memmove(w->ids + best + 1, w->ids + best + 2, (n - best - 1) * sizeof(w->ids[0]));
        if (best + 1 < n) {
            memmove(w->ranks + best + 1, w->ranks + best + 2, (n - best - 2) * sizeof(w->ranks[0]));
            w->ranks[best] = rank_of(t, w->ids[best], w->ids[best + 1]);
        }
        if (best > 0)
            w->ranks[best - 1] = rank_of(t, w->ids[best - 1], w->ids[best]);
    }
    return n;
}

static void push_pair(const struct tr_tokenizer *t, struct tr_tok_work *w, int32_t left)
{
    if (left < 0 || w->next[left] < 0)
        return;
    int32_t rank = rank_of(t, w->ids[left], w->ids[w->next[left]]);
    if (rank != INT32_MAX)
        (void)fr_heap_push(&w->heap, (struct fr_heap_entry){(uint32_t)rank, (uint32_t)left, 0});
}

static size_t merge_long(const struct tr_tokenizer *t, struct tr_tok_work *w, size_t n)
{
    size_t out = 0;

    for (size_t i = 0; i < n; i++) {
        w->prev[i] = (int32_t)i - 1;
        w->next[i] = i + 1 < n ? (int32_t)i + 1 : -1;
    }
    for (size_t i = 0; i + 1 < n; i++)
        push_pair(t, w, (int32_t)i);
    while (w->heap.n > 0) {
        struct fr_heap_entry top = fr_heap_pop(&w->heap);
        int32_t left = (int32_t)top.id, right;
        if (w->ids[left] < 0 || (right = w->next[left]) < 0)
            continue;
        uint64_t m = merge_of(t, w->ids[left], w->ids[right]);
        if (m >> 32 != top.key)
            continue; /* its neighbours changed since it was pushed */
        w->ids[left] = (int32_t)m;
        w->ids[right] = -1;
        w->next[left] = w->next[right];
        if (w->next[right] >= 0)
            w->prev[w->next[right]] = left;
        push_pair(t, w, w->prev[left]);
        push_pair(t, w, left);
    }
    for (size_t i = 0; i < n; i++)
        if (w->ids[i] >= 0)
            w->ids[out++] = w->ids[i];
    return out;
}

size_t tr_tok_merge_word(const struct tr_tokenizer *t, struct tr_tok_work *w, size_t n)
{
    return n <= SHORT_WORD ? merge_short(t, w, n) : merge_long(t, w, n);
}

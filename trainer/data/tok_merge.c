#include "trainer/data/tok.h"

#include "engine/base/sys.h"

#include <string.h>

enum { SHORT_WORD = 40 }; /* up to here a scan of all ranks is faster than a heap */

const struct tr_tok_merge *tr_tok_find_merge(const struct tr_tokenizer *t, int32_t a, int32_t b)
{
    uint64_t pair = (uint64_t)(uint32_t)a << 32 | (uint32_t)b;
    uint64_t h = pair * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(h >> 32) & (t->nmerges - 1);

    for (; t->merges[i].pair != UINT64_MAX; i = (i + 1) & (t->nmerges - 1))
        if (t->merges[i].pair == pair)
            return &t->merges[i];
    return NULL;
}

bool tr_tok_work_reserve(struct tr_tok_work *w, size_t n)
{
    if (n <= w->cap)
        return true;
    size_t cap = n * 2 + 256;
    /* a heap holds at most one entry a symbol at the start and two a merge */
    size_t bytes = cap * (4 * sizeof(int32_t) + 3 * sizeof(uint64_t));
    char *p = fr_sys.alloc(bytes);
    if (p == NULL)
        return false;
    fr_sys.free(w->heap);
    w->heap = (uint64_t *)(void *)p;
    w->ids = (int32_t *)(void *)(w->heap + 3 * cap);
    w->ranks = w->ids + cap;
    w->next = w->ranks + cap;
    w->prev = w->next + cap;
    w->cap = cap;
    return true;
}

void tr_tok_work_finish(struct tr_tok_work *w)
{
    fr_sys.free(w->heap);
    *w = (struct tr_tok_work){.cap = 0};
}

static int32_t rank_of(const struct tr_tokenizer *t, int32_t a, int32_t b)
{
    const struct tr_tok_merge *m = tr_tok_find_merge(t, a, b);

    return m == NULL ? INT32_MAX : m->rank;
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
        w->ids[best] = tr_tok_find_merge(t, w->ids[best], w->ids[best + 1])->id;
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

/* A heap of rank<<32 | position. */
static void push(uint64_t *heap, size_t *n, uint64_t x)
{
    size_t i = (*n)++;

    while (i > 0 && heap[(i - 1) / 2] > x) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = x;
}

static uint64_t pop(uint64_t *heap, size_t *n)
{
    uint64_t top = heap[0], x = heap[--*n];
    size_t i = 0;

    for (size_t c; (c = 2 * i + 1) < *n; i = c) {
        if (c + 1 < *n && heap[c + 1] < heap[c])
            c++;
        if (heap[c] >= x)
            break;
        heap[i] = heap[c];
    }
    heap[i] = x;
    return top;
}

static void push_pair(const struct tr_tokenizer *t, struct tr_tok_work *w, size_t *heap,
                      int32_t left)
{
    if (left < 0 || w->next[left] < 0)
        return;
    int32_t rank = rank_of(t, w->ids[left], w->ids[w->next[left]]);
    if (rank != INT32_MAX)
        push(w->heap, heap, (uint64_t)(uint32_t)rank << 32 | (uint32_t)left);
}

static size_t merge_long(const struct tr_tokenizer *t, struct tr_tok_work *w, size_t n)
{
    size_t heap = 0, out = 0;

    for (size_t i = 0; i < n; i++) {
        w->prev[i] = (int32_t)i - 1;
        w->next[i] = i + 1 < n ? (int32_t)i + 1 : -1;
    }
    for (size_t i = 0; i + 1 < n; i++)
        push_pair(t, w, &heap, (int32_t)i);
    while (heap > 0) {
        uint64_t top = pop(w->heap, &heap);
        int32_t left = (int32_t)(top & 0xffffffff), right;
        if (w->ids[left] < 0 || (right = w->next[left]) < 0)
            continue;
        const struct tr_tok_merge *m = tr_tok_find_merge(t, w->ids[left], w->ids[right]);
        if (m == NULL || m->rank != (int32_t)(top >> 32))
            continue; /* its neighbours changed since it was pushed */
        w->ids[left] = m->id;
        w->ids[right] = -1;
        w->next[left] = w->next[right];
        if (w->next[right] >= 0)
            w->prev[w->next[right]] = left;
        push_pair(t, w, &heap, w->prev[left]);
        push_pair(t, w, &heap, left);
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

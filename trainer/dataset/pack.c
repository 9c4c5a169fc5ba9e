#include "trainer/dataset/pack.h"

#include "engine/base/sys.h"

#include <string.h>

/* An example of the batch. Examples have numbers from 1, the shortest first. `left` is the number
 * of an example at or below this one; all between them are in a row. */
struct item {
    int64_t length, index;
    int64_t left;
};

enum { DIGIT = 11 }; /* bits of a length that are sorted by at once */

/* Shortest first, of equal ones in their order; spare: room for n. */
static void sort(struct item *items, int64_t n, int64_t longest, struct item *spare)
{
    struct item *from = items, *to = spare, *other;

    for (int shift = 0; longest >> shift > 0; shift += DIGIT) {
        int64_t starts[(1 << DIGIT) + 1] = {0};

        for (int64_t i = 0; i < n; i++)
            starts[(from[i].length >> shift & ((1 << DIGIT) - 1)) + 1]++;
        for (int k = 0; k < 1 << DIGIT; k++)
            starts[k + 1] += starts[k];
        for (int64_t i = 0; i < n; i++)
            to[starts[from[i].length >> shift & ((1 << DIGIT) - 1)]++] = from[i];
        other = from;
        from = to;
        to = other;
    }
    if (from != items)
        memcpy(items, from, (size_t)n * sizeof(*items));
}

/* How many of items[0..n), shortest first, are no longer than room. */
static int64_t fitting(const struct item *items, int64_t n, int64_t room)
{
    int64_t low = 0, high = n;

    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (items[mid].length <= room)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The last of items[0..k) that is in no row yet, as a number from 1; 0: none. Links that were
 * followed become shorter. */
static int64_t last_left(struct item *items, int64_t k)
{
    while (k > 0 && items[k - 1].left < k) {
        int64_t below = items[k - 1].left;

        if (below > 0)
            items[k - 1].left = items[below - 1].left;
        k = below;
    }
    return k;
}

/* Rows of the n items of a batch, after those of out. */
static void pack_batch(struct item *items, int64_t n, int64_t capacity, struct tr_packs *out)
{
    int64_t at = out->rows[out->n], end = at + n;

    for (int64_t i = 0; i < n; i++)
        items[i].left = i + 1;
    while (at < end) {
        int64_t room = capacity, k = n;
        while ((k = last_left(items, fitting(items, k, room))) > 0) {
            room -= items[k - 1].length;
            out->order[at++] = items[k - 1].index;
            items[k - 1].left = k - 1;
        }
        out->rows[++out->n] = at;
    }
}

void tr_packs_finish(struct tr_packs *p)
{
    fr_sys.free(p->order);
    fr_sys.free(p->rows);
    *p = (struct tr_packs){.n = 0};
}

enum fr_rc tr_pack(const int64_t *lengths, int64_t n, const struct tr_pack_opts *o,
                   struct tr_packs *out, struct fr_err *err)
{
    struct item *items = fr_sys.alloc(2 * ((size_t)n + 1) * sizeof(*items));
    int64_t shards = o->shards < 1 ? 1 : o->shards > n ? n : o->shards;

    *out = (struct tr_packs){.order = fr_sys.alloc(((size_t)n + 1) * sizeof(int64_t)),
                             .rows = fr_sys.alloc(((size_t)n + 1) * sizeof(int64_t))};
    if (items == NULL || out->order == NULL || out->rows == NULL) {
        fr_sys.free(items);
        tr_packs_finish(out);
        return fr_fail(err, FR_NOMEM, "no memory to pack %lld records", (long long)n);
    }
    out->rows[0] = 0;
    for (int64_t s = 0, begin = 0; s < shards; s++) {
        int64_t end = begin + n / shards + (s < n % shards ? 1 : 0);
        for (int64_t i = begin; i < end; i += o->batch) {
            int64_t count = 0;
            for (int64_t k = i; k < end && k < i + o->batch; k++)
                if (lengths[k] > 0)
                    items[count++] = (struct item){lengths[k], k, 0};
            sort(items, count, o->capacity, items + n + 1);
            pack_batch(items, count, o->capacity, out);
        }
        begin = end;
    }
    fr_sys.free(items);
    return FR_OK;
}

#include "trainer/data/pack.h"

#include "engine/base/sys.h"

#include <stdlib.h>
#include <string.h>

struct item {
    int64_t length, index;
};

static int by_length(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return x->index < y->index ? -1 : 1;
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

/* Rows of the n items of a batch, behind those of out. */
static void pack_batch(struct item *items, int64_t n, int64_t capacity, struct tr_packs *out)
{
    int64_t at = out->rows[out->n];

    qsort(items, (size_t)n, sizeof(*items), by_length);
    while (n > 0) {
        int64_t room = capacity, k;
        while ((k = fitting(items, n, room)) > 0) {
            room -= items[k - 1].length;
            out->order[at++] = items[k - 1].index;
            memmove(&items[k - 1], &items[k], (size_t)(n - k) * sizeof(*items));
            n--;
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
    struct item *items = fr_sys.alloc(((size_t)n + 1) * sizeof(*items));
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
                    items[count++] = (struct item){lengths[k], k};
            pack_batch(items, count, o->capacity, out);
        }
        begin = end;
    }
    fr_sys.free(items);
    return FR_OK;
}

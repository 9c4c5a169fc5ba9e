/* Rows of a matrix that is sharded by rows: only those that are used travel. */
#include "engine/base/sys.h"
#include "trainer/shard/state.h"

#include <stdlib.h>
#include <string.h>

/* The one TR_UNIT_ROWS kind that travels, NULL when there is none. */
static const struct unit *travelling(const struct tr_shard *s)
{
    const struct unit *widest = NULL;

    for (size_t i = 0; i < s->nunits; i++)
        if (s->units[i].kind == TR_UNIT_ROWS && !s->units[i].whole &&
            (widest == NULL || s->units[i].tensors->shape[1] > widest->tensors->shape[1]))
            widest = &s->units[i];
    return widest;
}

int64_t rows_per_rank(const struct tr_shard *s, const struct unit *u)
{
    return (u->tensors->shape[0] + s->o.comm->size - 1) / s->o.comm->size;
}

static size_t row_bytes(const struct unit *u)
{
    return (size_t)u->tensors->shape[1] * tr_dtype_bytes(u->tensors->dtype);
}

/* Rows that one peer may send another in a round. */
static size_t round_rows(const struct tr_shard *s)
{
    size_t W = (size_t)s->o.comm->size, T = (size_t)s->o.tokens_max;

    return T == 0 ? 1 : (T + W - 1) / W;
}

/* Bytes of the six buffers of rows_buf, in their order. */
static void buffer_bytes(const struct tr_shard *s, const struct unit *u, size_t out[7])
{
    size_t W = (size_t)s->o.comm->size, T = (size_t)s->o.tokens_max;
    size_t pick = W * round_rows(s);

    out[0] = T * sizeof(int32_t);
    out[1] = out[2] = W * T * sizeof(int32_t);
    out[3] = out[4] = pick * sizeof(int32_t);
    out[5] = pick * row_bytes(u);
    out[6] = T * row_bytes(u);
}

size_t rows_bytes(const struct tr_shard *s)
{
    const struct unit *u = travelling(s);
    size_t n[7], sum = 0;

    if (u == NULL)
        return 0;
    buffer_bytes(s, u, n);
    for (int i = 0; i < 7; i++)
        sum += n[i];
    return sum;
}

enum fr_rc rows_alloc(struct tr_shard *s, struct fr_err *err)
{
    const struct unit *u = travelling(s);
    struct rows_buf *b = &s->rows;
    void **to[7] = {(void **)&b->mine,      (void **)&b->all,  (void **)&b->host, (void **)&b->pick,
                    (void **)&b->host_pick, (void **)&b->send, (void **)&b->table};
    size_t n[7];
    enum fr_rc rc = FR_OK;

    if (u == NULL)
        return FR_OK;
    buffer_bytes(s, u, n);
    for (int i = 0; i < 7 && rc == FR_OK; i++) {
        enum tr_mem kind = i == 2 || i == 4 ? TR_MEM_PINNED : TR_MEM_DEVICE;

        if ((rc = tr_mem_alloc(s->o.be, kind, n[i], to[i], err)) == FR_OK)
            rc = kind == TR_MEM_PINNED ? (memset(*to[i], 0, n[i]), FR_OK)
                                       : tr_zero(s->o.be, s->gq, *to[i], n[i]);
    }
    b->counts = fr_sys.alloc(6 * (size_t)s->o.comm->size * sizeof(size_t));
    if (rc == FR_OK && b->counts == NULL)
        rc = fr_fail(err, FR_NOMEM, "counts of %d ranks", s->o.comm->size);
    return rc == FR_OK ? rc : fr_while(err, "embedding rows");
}

void rows_free(struct tr_shard *s)
{
    struct rows_buf *b = &s->rows;

    tr_mem_free(s->o.be, TR_MEM_DEVICE, b->mine);
    tr_mem_free(s->o.be, TR_MEM_DEVICE, b->all);
    tr_mem_free(s->o.be, TR_MEM_PINNED, b->host);
    tr_mem_free(s->o.be, TR_MEM_DEVICE, b->pick);
    tr_mem_free(s->o.be, TR_MEM_PINNED, b->host_pick);
    tr_mem_free(s->o.be, TR_MEM_DEVICE, b->send);
    tr_mem_free(s->o.be, TR_MEM_DEVICE, b->table);
    fr_sys.free(b->counts);
}

static int by_value(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

/* First place in the n ascending ids that is >= x. */
static size_t lower(const int32_t *ids, size_t n, int64_t x)
{
    size_t lo = 0;

    while (n > 0) {
        size_t half = n / 2;

        if (ids[lo + half] < x) {
            lo += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return lo;
}

/* Ids of rank k: sorted, unique, -1 behind them. */
struct want {
    const int32_t *ids;
    size_t n;
};

static struct want want_of(const struct tr_shard *s, int k)
{
    size_t T = (size_t)s->o.tokens_max;
    struct want w = {.ids = s->rows.host + (size_t)k * T};

    while (w.n < T && w.ids[w.n] >= 0)
        w.n++;
    return w;
}

/* Shares the sorted unique ids of all ranks: rows.host is filled on every rank. */
static enum fr_rc share_ids(struct tr_shard *s, const struct tr_fetch_rows *f, struct fr_err *err)
{
    struct rows_buf *b = &s->rows;
    size_t T = (size_t)s->o.tokens_max, n = 0, bytes = T * sizeof(int32_t);
    struct tr_gather_item item = {b->all, b->mine, bytes};
    struct tr_allgather g = {.items = &item, .n = 1, .what = "embedding ids"};
    enum fr_rc rc;

    memcpy(b->host, f->ids, (size_t)f->tokens * sizeof(int32_t));
    qsort(b->host, (size_t)f->tokens, sizeof(int32_t), by_value);
    for (size_t i = 0; i < (size_t)f->tokens; i++)
        if (n == 0 || b->host[i] != b->host[n - 1])
            b->host[n++] = b->host[i];
    for (size_t i = 0; i < (size_t)f->tokens; i++)
        f->out_index[i] = (int32_t)lower(b->host, n, f->ids[i]);
    for (size_t i = n; i < T; i++)
        b->host[i] = -1;
    if ((rc = tr_copy(s->o.be, s->gq, b->mine, b->host, bytes)) != FR_OK ||
        (rc = tr_comm_all_gather(s->o.comm, s->gq, &g, err)) != FR_OK ||
        (rc = tr_copy(s->o.be, s->gq, b->host, b->all, bytes * (size_t)s->o.comm->size)) != FR_OK)
        return rc;
    return tr_sync(s->o.be, s->gq, err);
}

/* Where in rank k's ids those of owner begin and how many they are. */
static size_t owned(const struct want *w, int64_t per, int owner, size_t *n)
{
    size_t first = lower(w->ids, w->n, per * owner);

    *n = lower(w->ids, w->n, per * (owner + 1)) - first;
    return first;
}

static size_t rounds(const struct tr_shard *s, int64_t per)
{
    size_t most = 1, C = round_rows(s);

    for (int k = 0; k < s->o.comm->size; k++) {
        struct want w = want_of(s, k);

        for (int o = 0; o < s->o.comm->size; o++) {
            size_t n;

            (void)owned(&w, per, o, &n);
            if ((n + C - 1) / C > most)
                most = (n + C - 1) / C;
        }
    }
    return most;
}

/* Part r of n things, C a round: where it begins, and its size in *m. */
static size_t part(size_t n, size_t C, size_t r, size_t *m)
{
    size_t at = r * C < n ? r * C : n;

    *m = n - at < C ? n - at : C;
    return at;
}

/* One round: every peer gets at most C of its rows from me. */
static enum fr_rc one_round(struct tr_shard *s, struct tr_queue *q, const struct unit *u, size_t r,
                            struct fr_err *err)
{
    struct rows_buf *b = &s->rows;
    size_t W = (size_t)s->o.comm->size, C = round_rows(s), row = row_bytes(u), sent = 0, n, m;
    int64_t per = rows_per_rank(s, u), shape[2] = {per, u->tensors->shape[1]};
    size_t *c = b->counts;
    struct tr_alltoallv x = {.out = b->table,
                             .in = b->send,
                             .out_at = c,
                             .out_bytes = c + W,
                             .in_at = c + 2 * W,
                             .in_bytes = c + 3 * W,
                             .what = "embedding rows"};
    struct want mine = want_of(s, s->o.comm->rank);
    struct tr_embed e = {.row0 = per * s->o.comm->rank};
    enum fr_rc rc;

    for (size_t k = 0; k < W; k++) {
        struct want w = want_of(s, (int)k);
        size_t at = owned(&w, per, s->o.comm->rank, &n);

        at += part(n, C, r, &m);
        memcpy(b->host_pick + sent, w.ids + at, m * sizeof(int32_t));
        c[2 * W + k] = sent * row;
        c[3 * W + k] = m * row;
        sent += m;
        at = owned(&mine, per, (int)k, &n);
        at += part(n, C, r, &m);
        c[k] = at * row;
        c[W + k] = m * row;
    }
    e.ids = tr_view1(b->pick, TR_I32, (int64_t)sent);
    e.table = tr_view_of(s->base + u->base_at, u->tensors->dtype, 2, shape);
    e.y = tr_view2(b->send, u->tensors->dtype, (int64_t)sent, shape[1]);
    if ((rc = tr_copy(s->o.be, q, b->pick, b->host_pick, sent * sizeof(int32_t))) != FR_OK ||
        (rc = tr_embed_fwd(s->o.be, q, &e, err)) != FR_OK)
        return rc;
    rc = tr_comm_all_to_allv(s->o.comm, q, &x, err);
    return rc == FR_OK ? tr_sync(s->o.be, q, err) : rc; /* the pick buffer is used again */
}

enum fr_rc tr_shard_fetch_rows(struct tr_shard *s, struct tr_queue *q, struct tr_fetch_rows *f,
                               struct fr_err *err)
{
    const struct unit *u = &s->units[f->unit];
    int64_t rows = u->tensors->shape[0];
    enum fr_rc rc;
    size_t n;

    for (int64_t t = 0; t < f->tokens; t++)
        if (f->ids[t] < 0 || f->ids[t] >= rows)
            return fr_fail(err, FR_USAGE, "token id %d is not below the vocabulary's %lld",
                           f->ids[t], (long long)rows);
    if (f->tokens > s->o.tokens_max)
        return fr_fail(err, FR_SHAPE, "%lld tokens, buffers hold %lld", (long long)f->tokens,
                       (long long)s->o.tokens_max);
    if (u->whole) {
        memcpy(f->out_index, f->ids, (size_t)f->tokens * sizeof(int32_t));
        f->table = tr_shard_view(s, f->unit, 0);
        return FR_OK;
    }
    if ((rc = share_ids(s, f, err)) != FR_OK)
        return rc;
    n = rounds(s, rows_per_rank(s, u));
    for (size_t r = 0; r < n && rc == FR_OK; r++)
        rc = one_round(s, s->gq, u, r, err);
    if (rc != FR_OK)
        return rc;
    f->table = tr_view2(s->rows.table, u->tensors->dtype, s->o.tokens_max, u->tensors->shape[1]);
    if ((rc = tr_event_record(s->o.be, s->gq, s->rows_done)) == FR_OK)
        rc = tr_event_wait(s->o.be, q, s->rows_done);
    return rc;
}

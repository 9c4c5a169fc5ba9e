/* Rows of a matrix that is sharded by rows: only the rows in use are sent. */
#include "engine/base/sys.h"
#include "trainer/shard/private.h"

#include <stdlib.h>
#include <string.h>

bool rows_has(const struct unit *u)
{
    return u->kind == TR_UNIT_ROWS || u->by_rows > 0;
}

static bool trains_rows(const struct tr_shard *s)
{
    for (size_t i = 0; i < s->nunits; i++)
        if (rows_has(&s->units[i]) && s->units[i].trained)
            return true;
    return false;
}

/* The widest partitioned unit whose rows are fetched; NULL: none. */
static const struct unit *travelling(const struct tr_shard *s)
{
    const struct unit *widest = NULL;

    for (size_t i = 0; i < s->nunits; i++)
        if (rows_has(&s->units[i]) && !s->units[i].whole &&
            (widest == NULL || s->units[i].tensors->shape[1] > widest->tensors->shape[1]))
            widest = &s->units[i];
    return widest;
}

size_t row_bytes(const struct unit *u)
{
    return (size_t)u->tensors->shape[1] * tr_dtype_bytes(u->tensors->dtype);
}

/* Of a chunk as many that they are a multiple of 256 bytes. */
int64_t rows_per_rank(const struct tr_shard *s, const struct unit *u)
{
    int64_t rows = u->by_rows > 0 ? u->by_rows : u->tensors->shape[0];
    int64_t per = (rows + s->o.comm->size - 1) / s->o.comm->size;

    while (u->by_rows > 0 && (size_t)per * row_bytes(u) % 256 != 0)
        per++;
    return per;
}

struct row_table rows_table(const struct tr_shard *s, int unit, int units)
{
    const struct unit *u = &s->units[unit];

    return (struct row_table){u, units > 0 ? units : 1,
                              u->by_rows > 0 ? u->by_rows : u->tensors->shape[0],
                              rows_per_rank(s, u)};
}

/* The row number of an id in the order of owners, and the row where a whole matrix has it. */
static int64_t owned_row(const struct row_table *t, int64_t id)
{
    int64_t row = id % t->rows;

    return (row / t->per * t->n + id / t->rows) * t->per + row % t->per;
}

static int64_t whole_row(const struct row_table *t, int64_t id)
{
    int64_t stride = (int64_t)(t->unit->reserved / row_bytes(t->unit));

    return id / t->rows * stride + id % t->rows;
}

/* The most rows that one peer sends another in a round. */
static size_t round_rows(const struct tr_shard *s)
{
    size_t W = (size_t)s->o.comm->size, T = (size_t)s->o.tokens_max;

    return T == 0 ? 1 : (T + W - 1) / W;
}

enum { PICK, HOST_PICK, SEND, TABLE, BUFFERS };

/* Bytes of the backend's buffers of rows_buf. */
static void buffer_bytes(const struct tr_shard *s, const struct unit *u, size_t out[BUFFERS])
{
    size_t W = (size_t)s->o.comm->size, pick = W * round_rows(s);

    out[PICK] = pick * sizeof(int32_t);
    out[HOST_PICK] = 2 * W * out[PICK];
    out[SEND] = pick * row_bytes(u);
    out[TABLE] = (size_t)s->o.tokens_max * row_bytes(u);
}

size_t rows_bytes(const struct tr_shard *s)
{
    const struct unit *u = travelling(s);
    size_t n[BUFFERS], sum = 0;

    if (u == NULL)
        return 0;
    buffer_bytes(s, u, n);
    for (int i = 0; i < BUFFERS; i++)
        sum += n[i];
    return sum;
}

/* Whether groups of the world may differ in size: some ranks may have whole units that others have
 * sharded. All ranks share ids then. */
static bool of_groups(const struct tr_shard *s)
{
    return s->o.partition && s->o.comm->world != NULL;
}

/* The buffers in the host's memory, and the events. */
static enum fr_rc rows_alloc_host(struct tr_shard *s, struct fr_err *err)
{
    struct rows_buf *b = &s->rows;
    struct tr_event **const events[] = {&b->picked[0], &b->picked[1], &b->used};
    size_t W = (size_t)s->o.comm->size, ids = (size_t)s->o.tokens_max * sizeof(int32_t);
    enum fr_rc rc = FR_OK;

    b->ids = fr_sys.alloc((size_t)tr_comm_world(s->o.comm)->size * ids + 1);
    b->mine = fr_sys.alloc(ids + 1);
    b->counts = fr_sys.alloc(6 * W * sizeof(size_t));
    if (b->ids == NULL || b->mine == NULL || b->counts == NULL)
        return fr_fail(err, FR_NOMEM, "ids of %zu ranks", W);
    for (int i = 0; i < 3 && rc == FR_OK; i++)
        rc = tr_event_create(s->o.be, events[i], err);
    return rc;
}

enum fr_rc rows_alloc(struct tr_shard *s, struct fr_err *err)
{
    const struct unit *u = travelling(s);
    struct rows_buf *b = &s->rows;
    void **to[BUFFERS] = {(void **)&b->pick, (void **)&b->host_pick, (void **)&b->send,
                          (void **)&b->table};
    size_t n[BUFFERS];
    enum fr_rc rc = FR_OK;

    if (u == NULL)
        return of_groups(s) || trains_rows(s) ? rows_alloc_host(s, err) : FR_OK;
    buffer_bytes(s, u, n);
    for (int i = 0; i < BUFFERS && rc == FR_OK; i++) {
        enum tr_mem kind = i == HOST_PICK ? TR_MEM_PINNED : TR_MEM_DEVICE;

        if ((rc = tr_mem_alloc(s->o.be, kind, n[i], to[i], err)) == FR_OK)
            rc = kind == TR_MEM_PINNED ? (memset(*to[i], 0, n[i]), FR_OK)
                                       : tr_zero(s->o.be, s->gq, *to[i], n[i]);
    }
    if (rc == FR_OK)
        rc = rows_alloc_host(s, err);
    return rc == FR_OK ? rc : fr_while(err, "embedding rows");
}

void rows_free(struct tr_shard *s)
{
    struct rows_buf *b = &s->rows;

    tr_mem_free(s->o.be, TR_MEM_DEVICE, b->pick);
    tr_mem_free(s->o.be, TR_MEM_PINNED, b->host_pick);
    tr_mem_free(s->o.be, TR_MEM_DEVICE, b->send);
    tr_mem_free(s->o.be, TR_MEM_DEVICE, b->table);
    tr_event_destroy(s->o.be, b->picked[0]);
    tr_event_destroy(s->o.be, b->picked[1]);
    tr_event_destroy(s->o.be, b->used);
    fr_sys.free(b->ids);
    fr_sys.free(b->mine);
    fr_sys.free(b->counts);
}

static int by_value(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

size_t rows_lower(const int32_t *ids, size_t n, int64_t x)
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

struct tr_id_list tr_shard_ids(const struct tr_shard *s, int k)
{
    size_t T = (size_t)s->o.tokens_max;
    size_t at = (size_t)(s->o.comm->ranks != NULL ? s->o.comm->ranks[k] : k);
    struct tr_id_list w = {.ids = s->rows.ids + at * T};

    while (w.n < T && w.ids[w.n] >= 0)
        w.n++;
    return w;
}

/* Gathers the sorted unique ids of all ranks of the world into rows.ids. */
static enum fr_rc share_ids(struct tr_shard *s, const struct tr_fetch_rows *f,
                            const struct row_table *t, struct fr_err *err)
{
    struct rows_buf *b = &s->rows;
    size_t T = (size_t)s->o.tokens_max, n = 0;

    for (int64_t i = 0; i < f->tokens; i++)
        b->mine[i] = (int32_t)owned_row(t, f->ids[i]);
    qsort(b->mine, (size_t)f->tokens, sizeof(int32_t), by_value);
    for (size_t i = 0; i < (size_t)f->tokens; i++)
        if (n == 0 || b->mine[i] != b->mine[n - 1])
            b->mine[n++] = b->mine[i];
    for (size_t i = 0; i < (size_t)f->tokens; i++)
        f->out_index[i] = (int32_t)rows_lower(b->mine, n, owned_row(t, f->ids[i]));
    if (f->compact != NULL && f->tokens > 0)
        memcpy(f->compact, f->out_index, (size_t)f->tokens * sizeof(int32_t));
    for (size_t i = n; i < T; i++)
        b->mine[i] = -1;
    return tr_comm_host_all_gather(tr_comm_world(s->o.comm), b->ids, b->mine, T * sizeof(int32_t),
                                   err);
}

/* The index of the first id of w that `owner` owns; *n: their number. */
static size_t owned(const struct tr_id_list *w, int64_t per, int owner, size_t *n)
{
    size_t first = rows_lower(w->ids, w->n, per * owner);

    *n = rows_lower(w->ids, w->n, per * (owner + 1)) - first;
    return first;
}

static size_t rounds(const struct tr_shard *s, int64_t per)
{
    size_t most = 1, C = round_rows(s);

    for (int k = 0; k < s->o.comm->size; k++) {
        struct tr_id_list w = tr_shard_ids(s, k);

        for (int o = 0; o < s->o.comm->size; o++) {
            size_t n;

            (void)owned(&w, per, o, &n);
            if ((n + C - 1) / C > most)
                most = (n + C - 1) / C;
        }
    }
    return most;
}

/* Part r of n things, C a part: its first index; *m: its size. */
static size_t part(size_t n, size_t C, size_t r, size_t *m)
{
    size_t at = r * C < n ? r * C : n;

    *m = n - at < C ? n - at : C;
    return at;
}

/* One round: each rank sends every peer at most C rows. */
static enum fr_rc one_round(struct tr_shard *s, struct tr_queue *q, const struct row_table *t,
                            size_t r, struct fr_err *err)
{
    const struct unit *u = t->unit;
    struct rows_buf *b = &s->rows;
    size_t W = (size_t)s->o.comm->size, C = round_rows(s), row = row_bytes(u), sent = 0, n, m;
    int64_t per = t->n * t->per, shape[2] = {per, u->tensors->shape[1]};
    size_t *c = b->counts;
    struct tr_alltoallv x = {.out = b->table,
                             .in = b->send,
                             .out_at = c,
                             .out_bytes = c + W,
                             .in_at = c + 2 * W,
                             .in_bytes = c + 3 * W,
                             .what = "embedding rows"};
    struct tr_id_list mine = tr_shard_ids(s, s->o.comm->rank);
    int32_t *pick = b->host_pick + (b->fetches % 2 * W + r) * W * C;
    struct tr_embed e = {.row0 = per * s->o.comm->rank};
    enum fr_rc rc;

    for (size_t k = 0; k < W; k++) {
        struct tr_id_list w = tr_shard_ids(s, (int)k);
        size_t at = owned(&w, per, s->o.comm->rank, &n);

        at += part(n, C, r, &m);
        memcpy(pick + sent, w.ids + at, m * sizeof(int32_t));
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
    if ((rc = tr_copy(s->o.be, q, b->pick, pick, sent * sizeof(int32_t))) != FR_OK ||
        (rc = tr_embed_fwd(s->o.be, q, &e, err)) != FR_OK)
        return rc;
    return tr_comm_all_to_allv(s->o.comm, q, &x, err);
}

enum fr_rc tr_shard_fetch_rows(struct tr_shard *s, struct tr_queue *q, struct tr_fetch_rows *f,
                               struct fr_err *err)
{
    struct row_table t = rows_table(s, f->unit, f->units);
    const struct unit *u = t.unit;
    struct rows_buf *b = &s->rows;
    int64_t rows = (t.n - 1) * t.rows + u[t.n - 1].tensors->shape[0];
    enum fr_rc rc;
    size_t n;

    for (int64_t i = 0; i < f->tokens; i++)
        if (f->ids[i] < 0 || f->ids[i] >= rows)
            return fr_fail(err, FR_USAGE, "token id %d is not below the vocabulary's %lld",
                           f->ids[i], (long long)rows);
    if (f->tokens > s->o.tokens_max)
        return fr_fail(err, FR_SHAPE, "%lld tokens, buffers hold %lld", (long long)f->tokens,
                       (long long)s->o.tokens_max);
    if ((!u->whole || u->trained || of_groups(s)) && (rc = share_ids(s, f, &t, err)) != FR_OK)
        return rc;
    if (u->whole) {
        for (int64_t i = 0; i < f->tokens; i++)
            f->out_index[i] = (int32_t)whole_row(&t, f->ids[i]);
        f->table = tr_view2(s->base + u->base_at, u->tensors->dtype, whole_row(&t, rows - 1) + 1,
                            u->tensors->shape[1]);
        return FR_OK;
    }
    if ((rc = tr_event_wait(s->o.be, NULL, b->picked[b->fetches % 2])) != FR_OK ||
        (rc = tr_event_wait(s->o.be, s->gq, b->used)) != FR_OK)
        return rc;
    n = rounds(s, t.n * t.per);
    for (int c = 0; c < TR_LINK_CLASSES; c++)
        s->stats.rows_bytes[c] -= s->o.comm->class_bytes[c];
    for (size_t r = 0; r < n && rc == FR_OK; r++)
        rc = one_round(s, s->gq, &t, r, err);
    for (int c = 0; c < TR_LINK_CLASSES; c++)
        s->stats.rows_bytes[c] += s->o.comm->class_bytes[c];
    if (rc != FR_OK || (rc = tr_event_record(s->o.be, s->gq, b->picked[b->fetches++ % 2])) != FR_OK)
        return rc;
    f->table = tr_view2(s->rows.table, u->tensors->dtype, s->o.tokens_max, u->tensors->shape[1]);
    if ((rc = tr_event_record(s->o.be, s->gq, s->rows_done)) == FR_OK)
        rc = tr_event_wait(s->o.be, q, s->rows_done);
    return rc;
}

enum fr_rc tr_shard_rows_used(struct tr_shard *s, struct tr_queue *q, struct fr_err *err)
{
    enum fr_rc rc = s->rows.used != NULL ? tr_event_record(s->o.be, q, s->rows.used) : FR_OK;

    return rc == FR_OK ? rc : fr_fail(err, rc, "releasing embedding rows");
}

#include "trainer/save/model_files.h"

#include "engine/base/arena.h"

#include <string.h>

enum { PIECE = 512 };

enum fr_rc tr_model_files_finite(struct tr_view v, const char *name, struct fr_err *err)
{
    return tr_view_finite(v)
               ? FR_OK
               : fr_fail(err, FR_CORRUPT, "%s holds a value that is not finite; nothing was saved",
                         name);
}

struct base {
    const struct tr_st *st;
};

static enum fr_rc fill_frozen(void *arg, const struct tr_st_item *item, int64_t at, void *dst,
                              size_t n, struct fr_err *err)
{
    const struct tr_st *st = ((const struct base *)arg)->st;
    const struct tr_st_tensor *t = tr_st_find(st, item->name);
    enum tr_dtype to, from;
    char raw[PIECE * sizeof(double)];
    enum fr_rc rc = FR_OK;

    if (item->type == t->type)
        return tr_st_read(st, t, at, dst, n, err);
    (void)tr_st_dtype(item->type, &to, NULL);
    (void)tr_st_dtype(t->type, &from, NULL);
    int64_t size = (int64_t)tr_dtype_bytes(to), old = (int64_t)tr_dtype_bytes(from);
    for (int64_t i = 0, left = (int64_t)n / size; left > 0 && rc == FR_OK; i += PIECE) {
        int64_t m = left < PIECE ? left : PIECE;

        rc = tr_st_read(st, t, (at / size + i) * old, raw, (size_t)(m * old), err);
        if (rc == FR_OK)
            tr_view_copy(tr_view1((char *)dst + i * size, to, m), tr_view1(raw, from, m));
        left -= m;
    }
    return rc;
}

/* Whether a frozen tensor has the run's type too: a float that is no buffer and no scale. */
static bool takes_type(const struct tr_st_tensor *t)
{
    return (t->type == TR_ST_F32 || t->type == TR_ST_BF16 || t->type == TR_ST_F16) &&
           strstr(t->name, "e_score_correction_bias") == NULL &&
           strstr(t->name, "_scale_inv") == NULL;
}

/* A copy of the embedding would no longer be one; save_pretrained() leaves it out, too. */
static bool is_copy(const struct tr_model_files *m, const struct tr_st_tensor *t)
{
    return m->tied && strcmp(t->name, "lm_head.weight") == 0;
}

enum fr_rc tr_model_files_write(const char *dir, const struct tr_model_files *m, struct fr_err *err)
{
    size_t n = tr_st_count(m->st), count = 0;
    struct base base = {m->st};
    struct fr_arena arena = {0};
    struct tr_st_item *items = fr_arena_array(&arena, n + 1, sizeof(*items));
    enum fr_rc rc;

    if (items == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu tensors", n);
    for (size_t i = 0; i < n; i++) {
        const struct tr_st_tensor *t = tr_st_at(m->st, i);
        struct tr_st_item *item = &items[count];

        if (is_copy(m, t))
            continue;
        *item = (struct tr_st_item){
            .name = t->name, .type = t->type, .ndim = t->ndim, .fill = fill_frozen, .arg = &base};
        memcpy(item->shape, t->shape, sizeof(t->shape));
        if (m->trained(m->self, item) || takes_type(t))
            item->type = tr_st_type_of(m->type);
        count++;
    }
    rc = tr_st_write_model(dir, items, count, m->shard_bytes, err);
    fr_arena_finish(&arena);
    return rc;
}

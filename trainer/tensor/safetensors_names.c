#include "trainer/tensor/safetensors_open.h"

#include "engine/base/str.h"
#include "engine/base/sys.h"

#include <stdio.h>
#include <string.h>

enum { PIECE_ELEMENTS = 1 << 16, NAME_ROOM = 4200 };

/* Whether the name is that of the root or below it, but lacks the first component. */
static bool is_bare(const char *name, const char *root)
{
    const char *bare = strchr(root, '.');
    size_t n = bare != NULL ? strlen(++bare) : 0;

    return bare != NULL && strncmp(name, bare, n) == 0 && (name[n] == '.' || name[n] == '\0');
}

/* The new name of t, in the arena; *name stays NULL if t keeps its name. */
static enum fr_rc name_whole(struct tr_st *st, const struct tr_st_tensor *t, const char *root,
                             const char **name, struct tr_twice *twice, struct fr_err *err)
{
    char whole[NAME_ROOM];

    if (!is_bare(t->name, root))
        return FR_OK;
    (void)snprintf(whole, sizeof(whole), "%.*s.%s", (int)strcspn(root, "."), root, t->name);
    if (tr_st_find(st, whole) != NULL) {
        tr_twice_add(twice,
                     &(struct tr_twice_row){.what = "a tensor", .from = whole, .over = t->name});
        return FR_OK;
    }
    *name = fr_arena_dup(&st->arena, whole);
    return *name != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for the names of tensors");
}

enum fr_rc tr_st_whole_names(struct tr_st *st, const char *const *roots, size_t n,
                             struct tr_twice *twice, struct fr_err *err)
{
    const char **names = fr_arena_array(&st->arena, st->ntensors + 1, sizeof(*names));
    enum fr_rc rc = FR_OK;

    if (names == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the names of tensors");
    memset(names, 0, st->ntensors * sizeof(*names));
    for (size_t i = 0; i < st->ntensors * n && rc == FR_OK; i++)
        rc = name_whole(st, &st->tensors[i / n], roots[i % n], &names[i / n], twice, err);
    for (size_t i = 0; i < st->ntensors && rc == FR_OK; i++)
        if (names[i] != NULL)
            st->tensors[i].name = names[i];
    st_sort(st);
    return rc;
}

enum fr_rc tr_st_rename(struct tr_st *st, const struct tr_st_tensor *t, const char *name,
                        struct fr_err *err)
{
    const char *own = fr_arena_dup(&st->arena, name);

    if (own == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the name %s", name);
    st->tensors[t - st->tensors].name = own;
    st_sort(st);
    return FR_OK;
}

static double rounded(double x, enum tr_dtype dtype)
{
    if (dtype == TR_BF16)
        return tr_bf16_to(tr_bf16_of((float)x));
    return dtype == TR_F16 ? tr_f16_to(tr_f16_of((float)x)) : (double)(float)x;
}

struct side {
    const struct tr_st_tensor *t;
    enum tr_dtype type;
    void *bytes; /* owns: PIECE_ELEMENTS of them */
    size_t width;
};

static bool equal(const struct side *s, int64_t n, enum tr_dtype dtype)
{
    struct tr_view a = tr_view1(s[0].bytes, s[0].type, n);
    struct tr_view b = tr_view1(s[1].bytes, s[1].type, n);

    if (s[0].type == s[1].type && memcmp(s[0].bytes, s[1].bytes, (size_t)n * s[0].width) == 0)
        return true;
    for (int64_t i = 0; i < n; i++)
        if (rounded(tr_get(a, i), dtype) != rounded(tr_get(b, i), dtype))
            return false;
    return true;
}

static enum fr_rc compare(const struct tr_st *st, const struct side *s, enum tr_dtype dtype,
                          bool *same, struct fr_err *err)
{
    int64_t left;
    enum fr_rc rc = FR_OK;

    for (int64_t at = 0; *same && at < s[0].t->elements && rc == FR_OK; at += PIECE_ELEMENTS) {
        left = s[0].t->elements - at;
        if (left > PIECE_ELEMENTS)
            left = PIECE_ELEMENTS;
        for (int k = 0; k < 2 && rc == FR_OK; k++)
            rc = tr_st_read(st, s[k].t, at * (int64_t)s[k].width, s[k].bytes,
                            (size_t)left * s[k].width, err);
        *same = rc == FR_OK && equal(s, left, dtype);
    }
    return rc;
}

enum fr_rc tr_st_same(const struct tr_st *st, const struct tr_st_tensor *const pair[2],
                      enum tr_dtype dtype, bool *same, struct fr_err *err)
{
    struct side s[2] = {{.t = pair[0]}, {.t = pair[1]}};
    enum fr_rc rc = FR_OK;

    *same = pair[0]->elements == pair[1]->elements;
    for (int k = 0; k < 2 && rc == FR_OK && *same; k++) {
        if ((rc = tr_st_dtype(s[k].t->type, &s[k].type, err)) != FR_OK)
            break;
        s[k].width = tr_dtype_bytes(s[k].type);
        if ((s[k].bytes = fr_sys.alloc(PIECE_ELEMENTS * s[k].width)) == NULL)
            rc = fr_fail(err, FR_NOMEM, "no memory to compare two tensors");
    }
    if (rc == FR_OK && *same)
        rc = compare(st, s, dtype, same, err);
    fr_sys.free(s[0].bytes);
    fr_sys.free(s[1].bytes);
    return rc;
}

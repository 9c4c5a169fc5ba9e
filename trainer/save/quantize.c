#include "trainer/save/quantize.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "trainer/tensor/tensor.h"
#include "trainer/text/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { COMPANION_MAX = 64 << 20, PIECE = 1 << 16 /* elements that a thread widens at once */ };

static const float f8_max = 448;

/* ---- FP8 ---- */

struct block {
    int64_t row, rows, col, cols; /* [row, rows) x [col, cols) */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static struct block block_at(const struct tr_blocks *b, int64_t i)
{
    int64_t r = i / tr_blocks_across(b) * b->block_rows;
    int64_t c = i % tr_blocks_across(b) * b->block_cols;

    return (struct block){r, least(r + b->block_rows, b->rows), c,
                          least(c + b->block_cols, b->cols)};
}

/* The largest magnitude of the block is the largest code. */
static float scale_of(const struct tr_blocks *b, const struct block *k, const float *w)
{
    float most = 0;

    for (int64_t i = k->row; i < k->rows; i++)
        for (int64_t j = k->col; j < k->cols; j++)
            most = fmaxf(most, fabsf(w[i * b->cols + j]));
    return most > 0 ? most / f8_max : 1;
}

void tr_fp8_scales(const struct tr_blocks *b, const float *w, float *scales)
{
#pragma omp parallel for
    for (int64_t i = 0; i < tr_blocks_down(b) * tr_blocks_across(b); i++) {
        struct block k = block_at(b, i);

        scales[i] = scale_of(b, &k, w);
    }
}

void tr_fp8_codes(const struct tr_blocks *b, const float *w, uint8_t *codes)
{
    struct tr_view f8 = tr_view1(codes, TR_F8_E4M3, b->rows * b->cols);

#pragma omp parallel for
    for (int64_t n = 0; n < tr_blocks_down(b) * tr_blocks_across(b); n++) {
        struct block k = block_at(b, n);
        float scale = scale_of(b, &k, w);

        for (int64_t i = k.row; i < k.rows; i++)
            for (int64_t j = k.col; j < k.cols; j++)
                tr_set(f8, i * b->cols + j, (double)(w[i * b->cols + j] / scale));
    }
}

/* ---- reading ---- */

static enum fr_rc read_all(const struct tr_st *st, const struct tr_st_tensor *t, void **out,
                           struct fr_err *err)
{
    *out = fr_sys.alloc((size_t)t->bytes + 1);
    if (*out == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %s", t->name);
    return tr_st_read(st, t, 0, *out, (size_t)t->bytes, err);
}

static void multiply(const struct tr_weight_source *s, const float *scales, float *w)
{
    struct tr_blocks b = {s->weight->shape[0], s->weight->shape[1], s->block_rows, s->block_cols};

#pragma omp parallel for
    for (int64_t n = 0; n < s->scale->elements; n++) {
        struct block k = block_at(&b, n);

        for (int64_t i = k.row; i < k.rows; i++)
            for (int64_t j = k.col; j < k.cols; j++)
                w[i * b.cols + j] *= scales[n];
    }
}

static enum fr_rc check_scale(const struct tr_weight_source *s, struct fr_err *err)
{
    struct tr_blocks b = {s->weight->shape[0], s->weight->shape[1], s->block_rows, s->block_cols};

    if (s->scale->type != TR_ST_F32)
        return fr_fail(err, FR_CORRUPT, "%s is not in f32", s->scale->name);
    return tr_st_want_shape(s->scale, 2, (int64_t[]){tr_blocks_down(&b), tr_blocks_across(&b)},
                            err);
}

enum fr_rc tr_weight_read(const struct tr_weight_source *s, float *w, struct fr_err *err)
{
    const struct tr_st_tensor *t = s->weight;
    enum tr_dtype type;
    void *raw = NULL, *scales = NULL;
    enum fr_rc rc = tr_st_dtype(t->type, &type, err);

    if (rc == FR_OK && s->scale != NULL)
        rc = check_scale(s, err);
    if (rc == FR_OK)
        rc = read_all(s->st, t, &raw, err);
    if (rc == FR_OK && s->scale != NULL)
        rc = read_all(s->st, s->scale, &scales, err);
    if (rc == FR_OK) {
        int64_t size = (int64_t)tr_dtype_bytes(type);

#pragma omp parallel for
        for (int64_t i = 0; i < t->elements; i += PIECE) {
            int64_t n = t->elements - i < PIECE ? t->elements - i : PIECE;

            tr_view_copy(tr_view1(w + i, TR_F32, n), tr_view1((char *)raw + i * size, type, n));
        }
        if (scales != NULL)
            multiply(s, scales, w);
    }
    fr_sys.free(raw);
    fr_sys.free(scales);
    return rc;
}

/* ---- companions ---- */

enum fr_rc tr_copy_file(const char *from_dir, const char *to_dir, const char *name, bool optional,
                        struct fr_err *err)
{
    char from[PATH_MAX], to[PATH_MAX];
    struct fr_buf text = {0};
    enum fr_rc rc;

    if ((rc = tr_path(from, from_dir, name, err)) != FR_OK ||
        (rc = tr_path(to, to_dir, name, err)) != FR_OK)
        return rc;
    rc = fr_file_read(from, COMPANION_MAX, &text, err);
    if (rc == FR_OK)
        rc = fr_file_write(to, text.p != NULL ? text.p : "", text.n, 0644, err);
    else if (rc == FR_NOTFOUND && optional)
        rc = FR_OK;
    fr_buf_finish(&text);
    return rc;
}

bool tr_is_companion(const char *name)
{
    static const char *const ends[] = {".json", ".jinja", ".txt", ".model", ".py", ".md"};
    size_t len = strlen(name), k = 0;

    while (k < 6 && (len < strlen(ends[k]) || strcmp(name + len - strlen(ends[k]), ends[k]) != 0))
        k++;
    return k < 6 && strcmp(name, "model.safetensors.index.json") != 0;
}

enum fr_rc tr_copy_companions(const char *model_dir, const char *out_dir, struct fr_err *err)
{
    char **names = NULL;
    size_t n = 0;
    enum fr_rc rc = FR_OK;

    if (fr_sys.list(model_dir, &names, &n) != 0)
        return fr_fail(err, FR_IO, "cannot read the folder %s", model_dir);
    for (size_t i = 0; i < n && rc == FR_OK; i++)
        if (tr_is_companion(names[i]))
            rc = tr_copy_file(model_dir, out_dir, names[i], false, err);
    fr_sys_names_free(names, n);
    return rc;
}

/* --resize_vocab: rows of embedding and head for tokens that the model has none for. A new row is
 * the mean of the old ones with noise of variance 1/H, as LLaMA-Factory makes it. Each node writes
 * the larger tensors into its output folder; all its ranks read them from there instead of the
 * base. */
#include "trainer/train/resize.h"

#include "engine/base/sys.h"
#include "trainer/config/arch.h"
#include "trainer/config/lora_saves.h"
#include "trainer/save/export.h"
#include "trainer/template/template.h"
#include "trainer/tensor/draw.h"
#include "trainer/train/setup.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MULTIPLE = 64, TENSORS = 2 };

int64_t tr_resize_vocab(const struct tr_args *a, const struct tr_tokenizer *t,
                        struct tr_model_config *m)
{
    int64_t tokens = tr_tokenizer_size(t), rows = m->vocab_size;

    if (!a->resize_vocab || tokens <= rows)
        return 0;
    m->vocab_size = (tokens + MULTIPLE - 1) / MULTIPLE * MULTIPLE;
    return rows;
}

enum fr_rc tr_resize_planned(const struct tr_args *a, struct tr_model_config *m, int64_t *before,
                             struct fr_err *err)
{
    const struct tr_template *templ = NULL;
    struct tr_tokenizer *t = NULL;
    enum fr_rc rc;

    *before = 0;
    if (!a->resize_vocab)
        return FR_OK;
    rc = tr_tokenizer_load(a->model_name_or_path, &t, err);
    if (rc == FR_OK)
        rc = tr_template_choose(a->template_name, a->model_name_or_path, &templ, err);
    if (rc == FR_OK)
        rc = tr_template_fix(templ, t, err);
    if (rc == FR_OK)
        *before = tr_resize_vocab(a, t, m);
    tr_tokenizer_destroy(t);
    return rc == FR_OK ? rc : fr_while(err, "--resize_vocab");
}

enum fr_rc tr_resize_held(const struct tr_lora_config *c, const struct tr_model_config *m,
                          struct fr_err *err)
{
    const struct tr_tensor_names *names = tr_names_of(m);

    if (tr_lora_saves_tensor(c, names->embed) && tr_lora_saves_tensor(c, names->head))
        return FR_OK;
    return fr_fail(err, FR_USAGE,
                   "--resize_vocab adds rows to embedding and head, which an adapter has to hold: "
                   "name both in --additional_target (embed_tokens,lm_head), or leave that out");
}

void tr_run_resize_vocab(struct tr_run *r)
{
    r->rows_before = tr_resize_vocab(r->args, r->tokenizer, &r->config);
    if (r->rows_before > 0 && r->env.comm->rank == 0)
        tr_say("Resizing embeddings: %lld -> %lld rows", (long long)r->rows_before,
               (long long)r->config.vocab_size);
}

/* A tensor with more rows. */
struct grown {
    const struct tr_st *st;
    const struct tr_st_tensor *old;
    enum tr_dtype type;
    double *mean; /* (H), owns */
    struct tr_draw draw;
};

static enum fr_rc fill(void *arg, const struct tr_st_item *item, int64_t at, void *dst, size_t n,
                       struct fr_err *err)
{
    const struct grown *g = arg;
    int64_t size = (int64_t)tr_dtype_bytes(g->type), H = g->old->shape[1];
    int64_t left = g->old->bytes - at, old = left < 0 ? 0 : left < (int64_t)n ? left : (int64_t)n;
    struct tr_view v = tr_view1((char *)dst + old, g->type, ((int64_t)n - old) / size);
    float sd = 1 / sqrtf((float)H);

    (void)item;
    for (int64_t i = 0, first = (at + old) / size; i < tr_view_count(v); i++)
        tr_set(v, i,
               g->mean[(first + i) % H] +
                   (double)(sd * tr_draw_normal(g->draw, (uint64_t)(first + i))));
    return old > 0 ? tr_st_read(g->st, g->old, at, dst, (size_t)old, err) : FR_OK;
}

static enum fr_rc take_mean(struct grown *g, struct fr_err *err)
{
    int64_t rows = g->old->shape[0], H = g->old->shape[1];
    size_t bytes = (size_t)H * tr_dtype_bytes(g->type);
    char *row = fr_sys.alloc(bytes + 1);
    enum fr_rc rc = FR_OK;

    g->mean = fr_sys.alloc((size_t)H * sizeof(*g->mean) + 1);
    if (row == NULL || g->mean == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a row of %s", g->old->name);
    if (rc == FR_OK)
        memset(g->mean, 0, (size_t)H * sizeof(*g->mean));
    for (int64_t k = 0; k < rows && rc == FR_OK; k++) {
        rc = tr_st_read(g->st, g->old, k * (int64_t)bytes, row, bytes, err);
        for (int64_t j = 0; j < H && rc == FR_OK; j++)
            g->mean[j] += tr_get(tr_view1(row, g->type, H), j) / (double)rows;
    }
    fr_sys.free(row);
    return rc;
}

/* Describes a tensor of the base with more rows. */
static enum fr_rc grow(const struct tr_run *r, const char *name, struct grown *g,
                       struct tr_st_item *item, struct fr_err *err)
{
    const struct tr_st_tensor *t = tr_st_find(r->st, name);
    enum fr_rc rc;

    if (t == NULL || t->absent)
        return fr_fail(err, FR_NOTFOUND, "--resize_vocab: %s is not here: every node needs it",
                       name);
    *g = (struct grown){.st = r->st, .old = t, .draw = tr_draw_of((uint64_t)r->args->seed, name)};
    rc = tr_st_want_shape(t, 2, (int64_t[]){r->rows_before, r->config.hidden_size}, err);
    if (rc == FR_OK)
        rc = tr_st_dtype(t->type, &g->type, err);
    if (rc == FR_OK)
        rc = take_mean(g, err);
    *item = (struct tr_st_item){.name = t->name,
                                .type = t->type,
                                .ndim = 2,
                                .shape = {r->config.vocab_size, r->config.hidden_size},
                                .fill = fill,
                                .arg = g};
    return rc;
}

static enum fr_rc write_rows(const struct tr_run *r, const char *path, const char *const *names,
                             size_t n, struct fr_err *err)
{
    struct tr_st_item items[TENSORS];
    struct grown grown[TENSORS] = {{.mean = NULL}};
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < n && rc == FR_OK; i++)
        rc = grow(r, names[i], &grown[i], &items[i], err);
    if (rc == FR_OK)
        rc = tr_st_write(path, items, n, NULL, 0, err);
    for (size_t i = 0; i < n; i++)
        fr_sys.free(grown[i].mean);
    return rc;
}

static enum fr_rc read_rows(struct tr_run *r, const char *path, const char *const *names, size_t n,
                            struct fr_err *err)
{
    struct tr_st *from = NULL;
    enum fr_rc rc = tr_st_open(path, &from, err);

    for (size_t i = 0; i < n && rc == FR_OK; i++)
        rc = tr_st_lay_over(r->st, from, tr_st_find(from, names[i]), names[i], err);
    tr_st_close(from);
    return rc;
}

/* One rank's error is that of all. */
static enum fr_rc agree(const struct tr_run *r, const struct fr_err *mine, struct fr_err *err)
{
    struct fr_err first;
    enum fr_rc rc = tr_comm_host_first_error(r->env.comm, mine, &first, err);

    return rc != FR_OK || first.rc == FR_OK ? rc : fr_fail(err, first.rc, "%s", first.msg);
}

enum fr_rc tr_run_add_rows(struct tr_run *r, struct fr_err *err)
{
    const struct tr_tensor_names *of = tr_names_of(&r->config);
    const char *const names[TENSORS] = {of->embed, of->head};
    size_t n = r->config.tie_word_embeddings ? 1 : 2;
    struct fr_err mine = {0};
    char path[PATH_MAX];
    enum fr_rc rc;

    if (r->rows_before == 0)
        return FR_OK;
    snprintf(path, sizeof(path), "%.4000s/" TR_EXPORT_TMP "rows-%d.safetensors",
             r->args->output_dir, r->env.comm->node);
    if (r->env.comm->local_rank == 0)
        mine.rc = write_rows(r, path, names, n, &mine);
    rc = agree(r, &mine, err);
    if (rc == FR_OK)
        mine.rc = read_rows(r, path, names, n, &mine);
    if (rc == FR_OK)
        rc = agree(r, &mine, err);
    if (r->env.comm->local_rank == 0) /* who has opened it reads on */
        (void)fr_sys.unlink(path);
    return rc;
}

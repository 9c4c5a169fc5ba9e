#include "trainer/save/export.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/config/lora_saves.h"
#include "trainer/save/quantize.h"
#include "trainer/tensor/safetensors.h"
#include "trainer/text/text.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum fr_rc tr_adapter_items(const struct tr_params *p, const float *flat, const char *prefix,
                            struct fr_arena *arena, struct tr_st_item *out, struct fr_err *err)
{
    for (size_t i = 0; i < 2 * p->n; i++) {
        const struct tr_adapter *a = &p->adapters[i / 2];
        bool b = i % 2 == 1;

        out[i] = (struct tr_st_item){
            .name = fr_arena_fmt(arena, "%s.%s.lora_%c.weight", prefix, a->module, b ? 'B' : 'A'),
            .type = TR_ST_F32,
            .ndim = 2,
            .shape = {b ? a->out : a->r, b ? a->r : a->in},
            .data = flat + (b ? a->b_at : a->a_at)};
        if (out[i].name == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for %zu adapters", p->n);
    }
    return FR_OK;
}

/* Under PEFT's names, in the arena: adapters, then what is whole. */
static enum fr_rc items_of(const struct tr_adapter_out *o, struct fr_arena *arena,
                           struct tr_st_item **out, struct fr_err *err)
{
    size_t n = o->params->n * 2;
    enum fr_rc rc;

    if ((*out = fr_arena_array(arena, n + o->nwhole, sizeof(**out))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu adapters", o->params->n);
    rc = tr_adapter_items(o->params, o->flat, "base_model.model", arena, *out, err);
    for (size_t i = 0; i < o->nwhole && rc == FR_OK; i++) {
        (*out)[n + i] = o->whole[i];
        (*out)[n + i].name = fr_arena_fmt(arena, TR_PEFT_PREFIX "%s", o->whole[i].name);
        if ((*out)[n + i].name == NULL)
            rc = fr_fail(err, FR_NOMEM, "no memory for %zu tensors", o->nwhole);
    }
    return rc;
}

static enum fr_rc check_finite(const struct tr_st_item *items, size_t n, struct fr_err *err)
{
    if (n == 0)
        return fr_fail(err, FR_CORRUPT, "the adapter would be empty: no module is adapted");
    for (size_t i = 0; i < n; i++) {
        const float *x = items[i].data;
        int64_t count = items[i].shape[0] * items[i].shape[1];
        if (count == 0)
            return fr_fail(err, FR_CORRUPT, "%s would be empty", items[i].name);
        for (int64_t k = 0; k < count; k++)
            if (!isfinite(x[k]))
                return fr_fail(err, FR_CORRUPT,
                               "%s holds a value that is not finite (element %lld); "
                               "nothing was saved",
                               items[i].name, (long long)k);
    }
    return FR_OK;
}

enum fr_rc tr_export_args(const char *dir, const struct tr_args *a, struct fr_err *err)
{
    char path[PATH_MAX];
    struct fr_buf t = {0};
    enum fr_rc rc = tr_args_json(a, &t, err);

    fr_buf_text(&t, "\n");
    snprintf(path, sizeof(path), "%s/training_args.json", dir);
    if (rc == FR_OK)
        rc = t.bad ? fr_fail(err, FR_NOMEM, "no memory for %s", path)
                   : fr_file_write(path, t.p, t.n, 0644, err);
    fr_buf_finish(&t);
    return rc;
}

enum fr_rc tr_export_adapter(const char *dir, const struct tr_adapter_out *o, struct fr_err *err)
{
    static const char *const companions[] = {"tokenizer.json", "tokenizer_config.json",
                                             "special_tokens_map.json", "chat_template.jinja"};
    static const struct tr_st_pair meta = {"format", "pt"};
    struct fr_arena arena = {0};
    struct tr_st_item *items;
    size_t n = o->params->n * 2;
    char path[PATH_MAX];
    enum fr_rc rc = items_of(o, &arena, &items, err);

    snprintf(path, sizeof(path), "%s/adapter_model.safetensors", dir);
    if (rc == FR_OK)
        rc = check_finite(items, n, err);
    if (rc == FR_OK)
        rc = fr_mkdirs(dir, 0755, err);
    if (rc == FR_OK)
        rc = tr_st_write(path, items, n + o->nwhole, &meta, 1, err);
    if (rc == FR_OK)
        rc = tr_lora_write(dir, o->lora, err);
    for (size_t i = 0; i < sizeof(companions) / sizeof(companions[0]) && rc == FR_OK; i++)
        rc = tr_copy_file(o->args->model_name_or_path, dir, companions[i], true, err);
    if (rc == FR_OK)
        rc = tr_export_args(dir, o->args, err);
    fr_arena_finish(&arena);
    return rc == FR_OK ? rc : fr_while(err, "saving the adapter to %s", dir);
}

/* Rank 0 writes a folder. */
struct writing {
    const char *dir;
    const struct tr_adapter_out *o;
    const struct tr_st *st;
};

static enum fr_rc write_beside(void *arg, struct tr_trained_set *set, struct fr_err *err)
{
    const struct writing *w = arg;
    struct tr_adapter_out o = *w->o;
    struct fr_arena arena = {0};
    struct tr_st_item *items;
    enum fr_rc rc = FR_OK;
    size_t n = 0;

    while (tr_trained_name(set, n) != NULL)
        n++;
    if ((items = fr_arena_array(&arena, n + 1, sizeof(*items))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu tensors", n);
    for (size_t i = 0; i < n && rc == FR_OK; i++) {
        const struct tr_st_tensor *t = tr_st_find(w->st, tr_trained_name(set, i));

        if (t == NULL) {
            rc = fr_fail(err, FR_BUG, "%s is not in the base", tr_trained_name(set, i));
            break;
        }
        items[i] = (struct tr_st_item){
            .name = tr_trained_name(set, i), .type = TR_ST_F32, .ndim = t->ndim};
        memcpy(items[i].shape, t->shape, sizeof(t->shape));
        (void)tr_trained_fill(set, &items[i]);
    }
    o.whole = items;
    o.nwhole = n;
    if (rc == FR_OK)
        rc = tr_export_adapter(w->dir, &o, err);
    fr_arena_finish(&arena);
    return rc;
}

enum fr_rc tr_export_adapter_beside(const char *dir, const struct tr_adapter_out *o,
                                    const struct tr_trained_out *beside, const struct tr_st *st,
                                    struct fr_err *err)
{
    struct writing w = {dir, o, st};

    return tr_trained_out(beside, write_beside, &w, err);
}

/* Reads one tensor of any float type into f32. */
static enum fr_rc read_f32(const struct tr_st *st, const struct tr_st_tensor *t, float *out,
                           struct fr_err *err)
{
    enum fr_rc rc = tr_weight_read(&(struct tr_weight_source){.st = st, .weight = t}, out, err);

    for (int64_t i = 0; i < t->elements && rc == FR_OK; i++)
        if (!isfinite(out[i]))
            rc = fr_fail(err, FR_CORRUPT, "%s holds a value that is not finite", t->name);
    return rc;
}

/* Whether a tensor is of a module that is whole. */
static bool is_whole(const struct tr_lora_config *lora, const char *name)
{
    return fr_has_prefix(name, TR_PEFT_PREFIX) &&
           tr_lora_saves_tensor(lora, name + sizeof(TR_PEFT_PREFIX) - 1);
}

/* The tensors that an adapter file has to have. */
struct wanted {
    const struct tr_st_item *items;
    size_t n;
    const struct tr_lora_config *lora;
};

/* Refuses what is none of them: the model lacks a part that the adapter is for. */
static enum fr_rc check_names(const struct tr_st *st, const struct wanted *w,
                              struct fr_arena *arena, struct fr_err *err)
{
    size_t n = w->n;

    const char **names = fr_arena_array(arena, n + 1, sizeof(*names));

    if (names == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu names", n);
    for (size_t i = 0; i < n; i++)
        names[i] = w->items[i].name;
    qsort(names, n, sizeof(*names), fr_by_text);
    for (size_t i = 0; i < tr_st_count(st); i++) {
        const char *name = tr_st_at(st, i)->name;

        if (bsearch(&name, names, n, sizeof(*names), fr_by_text) == NULL &&
            !is_whole(w->lora, name))
            return fr_fail(err, FR_USAGE, "it holds %s, which is no adapter of this model", name);
    }
    return FR_OK;
}

enum fr_rc tr_import_adapter(const char *dir, const struct tr_params *p,
                             const struct tr_lora_config *lora, float *flat, struct fr_err *err)
{
    const struct tr_adapter_out all = {.params = p, .flat = flat};

    struct fr_arena arena = {0};
    struct tr_st_item *items;
    struct tr_st *st = NULL;
    char path[PATH_MAX];
    enum fr_rc rc = items_of(&all, &arena, &items, err);

    snprintf(path, sizeof(path), "%s/adapter_model.safetensors", dir);
    if (rc == FR_OK)
        rc = tr_lora_weights(dir, &st, err);
    if (rc == FR_OK)
        rc = check_names(st, &(struct wanted){items, p->n * 2, lora}, &arena, err);
    for (size_t i = 0; i < p->n * 2 && rc == FR_OK; i++) {
        const struct tr_st_tensor *t = tr_st_find(st, items[i].name);
        if (t == NULL)
            rc = fr_fail(err, FR_USAGE, "it lacks %s", items[i].name);
        else if ((rc = tr_st_want_shape(t, 2, items[i].shape, err)) == FR_OK)
            rc = read_f32(st, t, (float *)items[i].data, err);
    }
    tr_st_close(st);
    fr_arena_finish(&arena);
    return rc != FR_OK ? fr_while(err, "adapter %s", path) : rc;
}

void tr_export_sweep(const char *output_dir)
{
    char **names = NULL, path[PATH_MAX];
    size_t n = 0;

    if (fr_sys.list(output_dir, &names, &n) != 0)
        return;
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "%s/%s", output_dir, names[i]);
        if (fr_has_prefix(names[i], TR_EXPORT_TMP) && fr_remove_tree(path, NULL) != FR_OK)
            fr_log(FR_LOG_WARN, "export", "cannot remove %s: %s", path, strerror(errno));
    }
    fr_sys_names_free(names, n);
}

static const char prefix[] = "checkpoint-";

/* The step of a checkpoint-N folder; -1: it is another name. */
static int64_t step_of(const char *name)
{
    int64_t step;

    return fr_has_prefix(name, prefix) &&
                   fr_parse_i64(fr_str_of(name + sizeof(prefix) - 1), &step, NULL) == FR_OK
               ? step
               : -1;
}

size_t tr_export_steps(const char *output_dir, int64_t *steps, size_t cap)
{
    char **names = NULL;
    size_t n = 0, count = 0;

    if (fr_sys.list(output_dir, &names, &n) != 0)
        return 0;
    for (size_t i = 0; i < n && count < cap; i++)
        if (step_of(names[i]) >= 0)
            steps[count++] = step_of(names[i]);
    fr_sys_names_free(names, n);
    return count;
}

void tr_export_rotate(const char *output_dir, int64_t keep, int64_t best)
{
    char **names = NULL, path[PATH_MAX];
    size_t n = 0;
    int64_t count = 0;

    if (keep <= 0 || fr_sys.list(output_dir, &names, &n) != 0)
        return;
    for (size_t i = 0; i < n; i++)
        count += step_of(names[i]) >= 0;
    while (count-- > keep) {
        size_t oldest = n;

        for (size_t i = 0; i < n; i++)
            if (step_of(names[i]) >= 0 && step_of(names[i]) != best &&
                (oldest == n || step_of(names[i]) < step_of(names[oldest])))
                oldest = i;
        if (oldest == n)
            break;
        snprintf(path, sizeof(path), "%s/%s", output_dir, names[oldest]);
        if (fr_remove_tree(path, NULL) != FR_OK)
            fr_log(FR_LOG_WARN, "export", "cannot remove %s: %s", path, strerror(errno));
        names[oldest][0] = '\0';
    }
    fr_sys_names_free(names, n);
}

#include "trainer/save/identity.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/sys.h"
#include "trainer/config/args_table.h"
#include "trainer/save/files.h"
#include "trainer/text/text.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLED = 256, SHOWN = 200 };

static void put_text(struct fr_buf *t, const char *name, const char *value)
{
    char sha[FR_SHA256_TEXT];
    size_t n = value != NULL ? strlen(value) : 0;

    if (n > SHOWN || (value != NULL && strchr(value, '\n') != NULL)) {
        fr_sha256(value, n, sha);
        value = sha;
    }
    fr_buf_fmt(t, "%s=%s\n", name, value != NULL && *value != '\0' ? value : "none");
}

/* Names whose order decides nothing, behind what list holds. */
static void put_sorted(struct fr_buf *list, const char *const *names, size_t n)
{
    const char **sorted = fr_sys.alloc((n + 1) * sizeof(*sorted));

    for (size_t i = 0; sorted != NULL && i < n; i++)
        sorted[i] = names[i];
    if (sorted != NULL && n > 0)
        qsort(sorted, n, sizeof(*sorted), fr_by_text);
    for (size_t i = 0; sorted != NULL && i < n; i++)
        fr_buf_fmt(list, "%s%s", i > 0 ? "," : "", sorted[i]);
    list->bad = list->bad || sorted == NULL;
    fr_sys.free(sorted);
}

/* The adapted modules, in any order. */
static void put_targets(struct fr_buf *t, const struct tr_lora_config *l)
{
    struct fr_buf list = {0};

    fr_buf_text(&list, l->all_linear ? "all" : l->target_regex != NULL ? l->target_regex : "");
    put_sorted(&list, l->targets, l->ntargets);
    t->bad = t->bad || list.bad;
    put_text(t, "--lora_target", list.p);
    fr_buf_finish(&list);
    if (l->nsaves == 0)
        return;
    list = (struct fr_buf){0};
    put_sorted(&list, l->saves, l->nsaves);
    t->bad = t->bad || list.bad;
    put_text(t, "--additional_target", list.p);
    fr_buf_finish(&list);
}

/* In their order: the first that matches counts. */
static void put_patterns(struct fr_buf *t, const char *name, const struct tr_lora_pattern *p,
                         size_t n)
{
    struct fr_buf list = {0};

    for (size_t i = 0; i < n; i++)
        fr_buf_fmt(&list, "%s%s: %.12g", i > 0 ? ", " : "", p[i].key, p[i].value);
    t->bad = t->bad || list.bad;
    put_text(t, name, list.p);
    fr_buf_finish(&list);
}

static void put_lora(struct fr_buf *t, const struct tr_lora_config *l)
{
    put_targets(t, l);
    fr_buf_fmt(t, "--lora_rank=%lld\n--lora_alpha=%.12g\n--lora_dropout=%.12g\n--use_rslora=%d\n",
               (long long)l->r, l->alpha, l->dropout, (int)l->rslora);
    put_patterns(t, "rank_pattern", l->rank_pattern, l->nrank);
    put_patterns(t, "alpha_pattern", l->alpha_pattern, l->nalpha);
}

/* The object with sorted keys: their order decides nothing. */
static void put_kwargs(struct fr_buf *t, const char *text)
{
    json_t *root = NULL;
    char *sorted = NULL;

    if (text != NULL && fr_json_parse(fr_str_of(text), "", &root, NULL) == FR_OK)
        sorted = json_dumps(root, JSON_SORT_KEYS | JSON_COMPACT);
    put_text(t, "--lr_scheduler_kwargs", sorted != NULL ? sorted : text);
    free(sorted);
    json_decref(root);
}

static void put_schedule(struct fr_buf *t, const struct tr_args *a, const struct tr_ds_config *d)
{
    const char *flag = "lr_scheduler_type";
    const struct tr_arg *type = tr_arg_find(flag, strlen(flag));
    bool ratio = a->warmup_ratio != TR_RATIO_ABSENT; /* the steps do not matter then */

    fr_buf_fmt(t, "--%s=%s\nDeepSpeed scheduler=%s\n", flag, type->choices[a->lr_scheduler_type],
               tr_ds_lr_name(d->scheduler));
    put_kwargs(t, a->lr_scheduler_kwargs);
    fr_buf_fmt(t, "--warmup_steps=%.12g\n--warmup_ratio=%.12g\n", ratio ? 0 : a->warmup_steps,
               ratio ? a->warmup_ratio : 0);
    if (d->scheduler != TR_DS_LR_NONE)
        fr_buf_fmt(t,
                   "warmup_min_lr=%.12g\nwarmup_max_lr=%.12g\nwarmup_type=%s\n"
                   "warmup_min_ratio=%.12g\ncos_min_ratio=%.12g\n",
                   d->warmup_min_lr, d->warmup_max_lr, d->warmup_linear ? "linear" : "log",
                   d->warmup_min_ratio, d->cos_min_ratio);
}

static void put_precision(struct fr_buf *t, const struct tr_ds_config *d)
{
    fr_buf_fmt(t, "precision=%s\n",
               d->precision == TR_PRECISION_BF16   ? "bf16"
               : d->precision == TR_PRECISION_FP16 ? "fp16"
                                                   : "f32");
    if (d->precision == TR_PRECISION_FP16)
        fr_buf_fmt(t,
                   "loss_scale=%.12g\nloss_scale_window=%lld\nhysteresis=%lld%s\n"
                   "min_loss_scale=%.12g\n",
                   d->loss_scale, (long long)d->loss_scale_window, (long long)d->hysteresis,
                   d->consecutive_hysteresis ? " consecutive" : "", d->min_loss_scale);
}

/* Values that determine the order of a stream, besides its records. */
static void put_stream(struct fr_buf *t, const struct tr_args *a)
{
    if (!a->streaming)
        return;
    fr_buf_fmt(t, "--buffer_size=%lld\n", (long long)a->buffer_size);
    if (a->val_size > 0)
        fr_buf_fmt(t, "--val_size=%.12g\n", a->val_size);
    if (a->mix_strategy != TR_MIX_CONCAT)
        fr_buf_fmt(t, "--mix_strategy=%d\n--interleave_probs=%s\n", (int)a->mix_strategy,
                   a->interleave_probs != NULL ? a->interleave_probs : "");
    if (a->packing)
        fr_buf_fmt(t, "--preprocessing_batch_size=%lld\n", (long long)a->preprocessing_batch_size);
}

static void put_muon(struct fr_buf *t, const struct tr_ds_config *d)
{
    if (d->muon == TR_MUON_FLAGS)
        fr_buf_text(t, "--use_muon=1\n");
    if (d->muon == TR_MUON_BLOCK)
        fr_buf_fmt(t,
                   "Muon of the optimizer block=%s\nmomentum=%.12g\nmuon_lr=%.12g\n"
                   "adam_lr=%.12g\nbetas=%.12g %.12g\neps=%.12g\nweight_decay=%.12g\n",
                   d->muon_plain ? "standard" : "gram", d->muon_momentum, d->muon_lr, d->adam_lr,
                   d->beta1, d->beta2, d->eps, d->weight_decay);
}

enum fr_rc tr_identity_config(const struct tr_identity *id, char out[TR_IDENTITY_TEXT],
                              struct fr_err *err)
{
    const struct tr_args *a = id->args;
    const struct tr_ds_config *d = id->ds;
    struct fr_buf t = {0};

    fr_buf_fmt(&t, "samples of a step=%lld\n--seed=%lld\n--data_seed=%lld\n--cutoff_len=%lld\n",
               (long long)id->derived->total_batch, (long long)a->seed, (long long)a->data_seed,
               (long long)a->cutoff_len);
    fr_buf_text(&t, a->packing ? "--packing=1\n" : "");
    put_stream(&t, a);
    if (strcmp(a->finetuning_type, "lora") == 0)
        put_lora(&t, id->lora);
    else
        fr_buf_fmt(&t, "--finetuning_type=%s\n", a->finetuning_type);
    if (a->resize_vocab)
        fr_buf_text(&t, "--resize_vocab=1\n");
    fr_buf_text(&t, tr_args_coded(a) ? "bits of moments=8\n" : "");
    put_muon(&t, d);
    if (strcmp(a->finetuning_type, "freeze") == 0) {
        fr_buf_fmt(&t, "--freeze_trainable_layers=%lld\n", (long long)a->freeze_trainable_layers);
        put_text(&t, "--freeze_trainable_modules", a->freeze_trainable_modules);
        put_text(&t, "--freeze_extra_modules", a->freeze_extra_modules);
    }
    fr_buf_fmt(&t,
               "--learning_rate=%.12g\n--adam_beta1=%.12g\n--adam_beta2=%.12g\n"
               "--adam_epsilon=%.12g\n--weight_decay=%.12g\ngradient clipping=%.12g\n",
               a->learning_rate, a->adam_beta1, a->adam_beta2, a->adam_epsilon, a->weight_decay,
               d->gradient_clipping);
    put_precision(&t, d);
    if (d->communication != TR_PRECISION_FP32 && id->weights)
        fr_buf_fmt(&t, "wire of gradients=%s\n",
                   d->communication == TR_PRECISION_BF16 ? "bf16" : "fp16");
    fr_buf_fmt(&t, "--disable_shuffling=%d\n--dataloader_drop_last=%d\n", (int)a->disable_shuffling,
               (int)a->dataloader_drop_last);
    put_schedule(&t, a, d);
    if (a->loraplus_lr_ratio != TR_RATIO_ABSENT)
        fr_buf_fmt(&t, "--loraplus_lr_ratio=%.12g\n", a->loraplus_lr_ratio);
    bool fits = !t.bad && t.n < TR_IDENTITY_TEXT;
    if (fits)
        memcpy(out, t.p, t.n + 1);
    fr_buf_finish(&t);
    return fits ? FR_OK : fr_fail(err, FR_NOMEM, "no room for the text of the configuration");
}

/* The line of text that has the name of this one; NULL: none has. */
static const char *line_named(const char *text, const char *line)
{
    size_t n = strcspn(line, "=\n");

    for (; *text != '\0'; text += strcspn(text, "\n"), text += *text == '\n')
        if (strcspn(text, "=\n") == n && strncmp(text, line, n) == 0)
            return text;
    return NULL;
}

void tr_identity_difference(const char *there, const char *here, struct fr_buf *out)
{
    const char *texts[] = {there, here};

    for (int side = 2; side-- > 0 && out->n == 0;)
        for (const char *at = texts[side]; *at != '\0' && out->n == 0;) {
            const char *other = line_named(texts[1 - side], at);
            size_t n = strcspn(at, "\n"), name = strcspn(at, "=\n");
            size_t m = other != NULL ? strcspn(other, "\n") : 0;
            if (other == NULL)
                fr_buf_fmt(out, "%.*s is only %s", (int)n, at, side == 0 ? "there" : "here");
            else if (side == 1 && (m != n || strncmp(at, other, n) != 0))
                fr_buf_fmt(out, "%.*s is %.*s there, %.*s here", (int)name, at, (int)(m - name - 1),
                           other + name + 1, (int)(n - name - 1), at + name + 1);
            at += n + (at[n] == '\n');
        }
    if (out->n == 0 && strcmp(there, here) != 0)
        fr_buf_text(out, "the order of its values differs");
}

/* Marks the tensors of the checkpoint that the model reads; others are optional. */
struct needed {
    const struct tr_model_config *config;
    const struct tr_st *st;
    bool *tensors; /* owns: of each in the checkpoint */
    size_t n;      /* how many are */
};

static void need(struct needed *d, const char *name)
{
    const struct tr_st_tensor *t = tr_st_find(d->st, name);
    size_t i = t != NULL ? (size_t)(t - tr_st_at(d->st, 0)) : 0;

    if (t == NULL || d->tensors[i])
        return;
    d->tensors[i] = true;
    d->n++;
}

static enum fr_rc need_tensor(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    struct needed *d = arg;
    struct fr_buf scales = {0};
    enum fr_rc rc = FR_OK;

    need(d, t->name);
    if (!d->config->fp8)
        return FR_OK;
    fr_buf_fmt(&scales, "%s_scale_inv", t->name);
    if (scales.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for a tensor's name");
    else
        need(d, scales.p);
    fr_buf_finish(&scales);
    return rc;
}

/* Of how many tensors that are needed the first bytes of one count. */
static size_t stride_of(const struct needed *d)
{
    return d->n / SAMPLED + 1;
}

/* Of what is here. */
static enum fr_rc make_records(const struct needed *d, struct tr_file_record *records,
                               struct fr_err *err)
{
    size_t n = tr_st_count(d->st), k = 0;
    enum fr_rc rc = FR_OK;

    memset(records, 0, n * sizeof(*records));
    for (size_t i = 0; i < n && rc == FR_OK; i++) {
        const struct tr_st_tensor *t = tr_st_at(d->st, i);
        struct tr_file_record *r = &records[i];
        size_t bytes = t->bytes < (int64_t)sizeof(r->sample) ? (size_t)t->bytes : sizeof(r->sample);
        bool sampled = d->tensors[i] && k++ % stride_of(d) == 0;

        if (t->absent)
            continue;
        r->type = (int32_t)t->type;
        r->ndim = t->ndim;
        r->bytes = t->bytes;
        memcpy(r->shape, t->shape, (size_t)t->ndim * sizeof(*r->shape));
        if (sampled)
            rc = tr_st_read(d->st, t, 0, r->sample, bytes, err);
    }
    return rc;
}

static void put_records(struct fr_buf *text, const struct needed *d,
                        const struct tr_file_record *records)
{
    size_t n = tr_st_count(d->st), k = 0;

    for (size_t i = 0; i < n; i++) {
        const struct tr_file_record *r = &records[i];
        size_t bytes = r->bytes < (int64_t)sizeof(r->sample) ? (size_t)r->bytes : sizeof(r->sample);

        if (!d->tensors[i])
            continue;
        fr_buf_fmt(text, "%s %d %lld\n", tr_st_at(d->st, i)->name, (int)r->type,
                   (long long)r->bytes);
        tr_st_shape_text(text, r->ndim, r->shape);
        if (k++ % stride_of(d) == 0)
            fr_buf_add(text, r->sample, bytes);
    }
}

enum fr_rc tr_identity_model(struct tr_comm *world, const struct tr_model_config *c,
                             const struct tr_st *st, char out[TR_IDENTITY_DIGEST],
                             struct fr_err *err)
{
    size_t n = tr_st_count(st);
    struct tr_file_record *records = fr_sys.alloc(n * sizeof(*records) + 1);
    struct needed d = {.config = c, .st = st, .tensors = fr_sys.alloc(n + 1)};
    struct fr_buf text = {0};
    enum fr_rc rc;

    if (records == NULL || d.tensors == NULL)
        rc = fr_fail(err, FR_NOMEM, "what %zu tensors are", n);
    else {
        memset(d.tensors, 0, n + 1);
        rc = tr_model_tensors(c, need_tensor, &d, err);
    }
    if (rc == FR_OK)
        rc = make_records(&d, records, err);
    if (rc == FR_OK)
        rc = tr_files_share(world, st, records, err);
    if (rc == FR_OK)
        put_records(&text, &d, records);
    fr_buf_add(&text, c, sizeof(*c));
    if (rc == FR_OK && text.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for the names of %zu tensors", n);
    if (rc == FR_OK)
        fr_sha256(text.p, text.n, out);
    fr_buf_finish(&text);
    fr_sys.free(records);
    fr_sys.free(d.tensors);
    return rc;
}

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "trainer/dataset/stream.h"
#include "trainer/report/progress_log.h"
#include "trainer/text/text.h"
#include "trainer/train/setup.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* The names of "a, b", or all of them as one. */
static enum fr_rc name_sets(struct tr_run *r, struct fr_err *err)
{
    const char *p = r->args->eval_dataset;
    struct fr_str name;
    size_t most = 1;

    for (const char *c = p; c != NULL && *c != '\0'; c++)
        most += *c == ',';
    r->evals = fr_sys.alloc(most * sizeof(*r->evals));
    if (r->evals == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu data sets", most);
    memset(r->evals, 0, most * sizeof(*r->evals));
    if (!r->args->eval_on_each_dataset) {
        r->nevals = 1;
        return FR_OK;
    }
    while (tr_next_name(&p, &name))
        if ((r->evals[r->nevals++].name = fr_arena_text(&r->arena, name.p, name.n)) == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for the name of a data set");
    return r->nevals > 0 ? FR_OK : fr_fail(err, FR_USAGE, "--eval_dataset names no data set");
}

struct data_progress {
    const struct tr_run *run;
    struct tr_progress_log log;
};

static bool so_far(void *arg, int64_t records)
{
    struct data_progress *p = arg;

    if (p->run->env.comm->rank == 0)
        (void)tr_progress_log_at(&p->log, records);
    return !tr_run_stop_asked(p->run);
}

/* Loads one data set: the first rank of each node tokenises it, the others read its cache. */
static enum fr_rc load_one(struct tr_run *r, struct tr_dataset_opts *o, struct tr_dataset **out,
                           struct fr_err *err)
{
    bool first = r->env.comm->local_rank == 0;
    struct data_progress p = {r, tr_progress_log_begin("Tokenizing", "records", 0)};
    struct fr_buf warnings = {0};
    enum fr_rc rc = FR_OK;

    o->tell = (struct tr_data_tell){so_far, &p};
    o->overwrite_cache = r->args->overwrite_cache && first;
    if (first)
        rc = tr_dataset_load(o, r->tokenizer, out, &warnings, err);
    if (rc == FR_OK)
        rc = tr_comm_host_barrier(r->env.comm, err);
    if (rc == FR_OK && !first)
        rc = tr_dataset_load(o, r->tokenizer, out, NULL, err);
    o->tell = (struct tr_data_tell){NULL, NULL};
    if (rc == FR_OK)
        tr_run_notes(r, &warnings);
    fr_buf_finish(&warnings);
    return rc;
}

/* Records for evaluation in the order of the stream's first epoch: the first of them, or all. */
static enum fr_rc take_stream(const struct tr_run *r, const struct tr_dataset *from, int64_t most,
                              struct tr_dataset **out, struct fr_err *err)
{
    const struct tr_args *a = r->args;
    double probs[TR_MIX_SETS];
    struct tr_stream s = {.buffer = a->buffer_size, .seed = a->seed, .mix = a->mix_strategy};
    int64_t *order = NULL, n = 0;
    enum fr_rc rc = FR_OK;

    s.n = tr_dataset_sets(from, &s.lengths);
    if (a->interleave_probs != NULL && s.n > 1) {
        rc = tr_mix_probs(a->interleave_probs, s.n, probs, err);
        s.probs = probs;
    }
    if (rc == FR_OK)
        rc = tr_stream_order(&s, 0, &order, &n, err);
    if (rc == FR_OK && most > 0 && most >= n)
        rc = fr_fail(err, FR_USAGE, "--val_size %lld leaves none of %lld records to train on",
                     (long long)most, (long long)n);
    if (rc == FR_OK)
        rc = tr_dataset_pick(from, &(struct tr_picked){order, most > 0 ? most : n, a->packing}, out,
                             err);
    fr_sys.free(order);
    if (rc == FR_OK && tr_dataset_valid(*out) == 0)
        rc = fr_fail(err, FR_USAGE, "all records that are for evaluation are invalid");
    return rc;
}

/* Of a stream evaluation begins with its buffer, too, but for figures of each set. */
static enum fr_rc shuffle_eval(const struct tr_run *r, struct tr_dataset **data, struct fr_err *err)
{
    struct tr_dataset *whole = *data;
    enum fr_rc rc;

    if (!r->args->streaming || r->args->eval_on_each_dataset)
        return FR_OK;
    *data = NULL;
    rc = take_stream(r, whole, 0, data, err);
    tr_dataset_destroy(whole);
    return rc;
}

static enum fr_rc split(struct tr_run *r, struct fr_err *err)
{
    const struct tr_args *a = r->args;

    if (a->streaming)
        return take_stream(r, r->data, (int64_t)a->val_size, &r->evals[0].data, err);
    return tr_dataset_split(&r->data, &(struct tr_split_opts){a->val_size, a->seed, a->packing},
                            &r->evals[0].data, err);
}

/* --val_size, or --eval_dataset. */
static enum fr_rc load_evals(struct tr_run *r, struct tr_dataset_opts *o, struct fr_err *err)
{
    const struct tr_args *a = r->args;
    struct fr_buf digests = {0};
    enum fr_rc rc = name_sets(r, err);

    if (rc == FR_OK && a->val_size > 0)
        rc = split(r, err);
    for (size_t i = 0; rc == FR_OK && a->eval_dataset != NULL && i < r->nevals; i++) {
        o->dataset = r->evals[i].name != NULL ? r->evals[i].name : a->eval_dataset;
        o->keep_dropped = a->packing || (a->streaming && !a->eval_on_each_dataset);
        if ((rc = load_one(r, o, &r->evals[i].data, err)) == FR_OK)
            rc = shuffle_eval(r, &r->evals[i].data, err);
        if (rc != FR_OK)
            fr_while(err, "--eval_dataset");
    }
    for (size_t i = 0; rc == FR_OK && i < r->nevals; i++)
        fr_buf_text(&digests, tr_dataset_digest(r->evals[i].data));
    if (rc == FR_OK && digests.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for the digests of %zu data sets", r->nevals);
    if (rc == FR_OK)
        fr_sha256(digests.p, digests.n, r->evals_digest);
    fr_buf_finish(&digests);
    return rc;
}

/* Rows of examples, or texts laid end to end, to train on and for evaluation. */
static enum fr_rc pack(struct tr_run *r, struct fr_err *err)
{
    const struct tr_args *a = r->args;
    struct tr_pack_opts o = {.capacity = a->sample_tokens,
                             .batch = a->preprocessing_batch_size,
                             .shards = a->streaming ? 1 : a->preprocessing_num_workers};
    enum fr_rc (*make)(struct tr_dataset **, const struct tr_pack_opts *, struct fr_err *) =
        a->pretrain ? tr_dataset_chunk : tr_dataset_pack;
    enum fr_rc rc = a->streaming ? FR_OK : make(&r->data, &o, err); /* a stream's: by epoch */

    for (size_t i = 0; rc == FR_OK && i < r->nevals; i++)
        if ((rc = make(&r->evals[i].data, &o, err)) != FR_OK)
            fr_while(err, "the data for evaluation");
    return rc;
}

/* The first token of an example that the model has no row for; -1: none. */
static int32_t unknown_token(const struct tr_run *r, const struct tr_sample *s)
{
    for (int64_t t = 0; t < s->n; t++)
        if (s->ids[t] >= r->config.vocab_size)
            return s->ids[t];
    return -1;
}

/* A tokenizer may know more tokens than the model has rows for. */
static enum fr_rc check_vocabulary(const struct tr_run *r, const struct tr_dataset *data,
                                   struct fr_err *err)
{
    if (tr_tokenizer_size(r->tokenizer) <= r->config.vocab_size)
        return FR_OK;
    for (int64_t i = 0; i < tr_dataset_size(data); i++) {
        struct tr_sample s = tr_dataset_at(data, i);
        for (int64_t k = 0; k < s.parts; k++) {
            struct tr_sample one = tr_sample_part(&s, k);
            int32_t id = unknown_token(r, &one);

            if (id >= 0)
                return fr_fail(err, FR_USAGE,
                               "%s: sample %lld has token id %d, the model's vocab_size is %lld: "
                               "tokenizer and model do not belong together",
                               r->args->model_name_or_path, (long long)i, (int)id,
                               (long long)r->config.vocab_size);
        }
    }
    return FR_OK;
}

static bool trains_embedding(const struct tr_args *a)
{
    return strcmp(a->finetuning_type, "full") == 0 ||
           (strcmp(a->finetuning_type, "freeze") == 0 && a->freeze_extra_modules != NULL &&
            strstr(a->freeze_extra_modules, "embed_tokens") != NULL) ||
           (strcmp(a->finetuning_type, "lora") == 0 && a->additional_target != NULL &&
            strstr(a->additional_target, "embed_tokens") != NULL) ||
           a->resize_vocab;
}

/* With the stop words of the template. */
static enum fr_rc fix_tokenizer(struct tr_run *r, const struct tr_template *templ,
                                struct fr_err *err)
{
    int32_t before = tr_tokenizer_size(r->tokenizer), after;
    enum fr_rc rc = tr_template_fix(templ, r->tokenizer, err);

    after = tr_tokenizer_size(r->tokenizer);
    if (rc == FR_OK && after > before && r->env.comm->rank == 0)
        tr_say(
            "note: template '%s': the tokenizer lacks stop words, which are tokens %d to %d now%s",
            tr_template_name(templ), before, after - 1,
            trains_embedding(r->args) ? "" : "; their embeddings are not trained");
    return rc;
}

static enum fr_rc make_sampler(struct tr_run *r, struct fr_err *err)
{
    const struct tr_args *a = r->args;
    struct tr_sampler_opts o = {.batch = a->per_device_train_batch_size,
                                .rank = r->env.comm->rank,
                                .world = r->env.comm->size,
                                .seed = a->data_seed >= 0 && !a->streaming ? a->data_seed : a->seed,
                                .shuffle = !a->disable_shuffling,
                                .drop_last = a->dataloader_drop_last};

    if (a->streaming)
        o.stream = (struct tr_sampler_stream){
            .buffer = a->buffer_size,
            .mix = a->mix_strategy,
            .mix_probs = a->interleave_probs,
            .skip = (int64_t)a->val_size,
            .rows = {a->packing ? a->sample_tokens : 0, a->preprocessing_batch_size, 1},
            .texts = a->pretrain,
        };
    return tr_sampler_create(r->data, &o, &r->sampler, err);
}

static enum fr_rc load_tokenizer(struct tr_run *r, struct fr_err *err)
{
    struct fr_buf notes = {0};
    enum fr_rc rc = tr_tokenizer_load(r->args->model_name_or_path, &r->tokenizer, err);

    if (rc != FR_OK)
        return rc;
    tr_tokenizer_notes(r->tokenizer, &notes);
    tr_run_notes(r, &notes);
    return FR_OK;
}

enum fr_rc tr_run_load_data(struct tr_run *r, struct fr_err *err)
{
    const struct tr_args *a = r->args;
    const struct tr_template *templ = NULL;
    enum tr_tool_format tools = TR_TOOLS_DEFAULT;
    char cache[PATH_MAX];
    enum fr_rc rc = load_tokenizer(r, err);

    if (rc == FR_OK)
        rc = tr_template_choose(a->template_name, a->model_name_or_path, &templ, err);
    if (rc == FR_OK && strcmp(a->template_name, tr_template_name(templ)) != 0 &&
        r->env.comm->rank == 0)
        tr_say("--template %s: %s", a->template_name, tr_template_name(templ));
    if (rc == FR_OK)
        rc = fix_tokenizer(r, templ, err);
    if (rc == FR_OK)
        tr_run_resize_vocab(r);
    r->templ = templ;
    if (rc == FR_OK)
        rc = tr_template_chat(templ, r->tokenizer, a->model_name_or_path, &r->chat, err);
    if (rc == FR_OK && r->env.comm->rank == 0)
        rc = tr_template_files_make(templ, r->tokenizer, a->model_name_or_path, &r->files, err);
    if (rc == FR_OK && a->tool_format != NULL)
        rc = tr_tools_find(a->tool_format, &tools, err);
    if (rc == FR_OK && a->split_special_tokens)
        tr_tokenizer_split_special(r->tokenizer);
    snprintf(cache, sizeof(cache), "%s/cache",
             a->tokenized_path != NULL ? a->tokenized_path : a->output_dir);
    struct tr_dataset_opts o = {
        .dataset = a->dataset,
        .dataset_dir = a->dataset_dir,
        .templ = templ,
        .pretrain = a->pretrain,
        .text = {.cutoff_len = a->pretrain && a->packing ? 0 : a->sample_tokens,
                 .mask_history = a->mask_history,
                 .train_on_prompt = a->train_on_prompt,
                 .default_system = a->default_system,
                 .tools = a->tool_format != NULL ? &tools : NULL,
                 .no_thinking = !a->enable_thinking,
                 .preserve_thinking = a->preserve_thinking},
        .mix = a->mix_strategy,
        .mix_probs = a->interleave_probs,
        .max_samples = a->max_samples,
        .seed = a->seed,
        .keep_dropped = a->val_size > 0 || a->packing || a->streaming,
        .stream = a->streaming,
        .cache_dir = cache,
        .workers = a->preprocessing_num_workers > 0 ? (int)a->preprocessing_num_workers : 0,
    };
    if (rc == FR_OK)
        rc = load_one(r, &o, &r->data, err);
    if (rc == FR_OK && (a->val_size > 0 || a->eval_dataset != NULL))
        rc = load_evals(r, &o, err);
    if (rc == FR_OK && a->packing)
        rc = pack(r, err);
    if (rc == FR_OK)
        rc = check_vocabulary(r, r->data, err);
    for (size_t i = 0; i < r->nevals && rc == FR_OK; i++)
        rc = check_vocabulary(r, r->evals[i].data, err);
    return rc == FR_OK ? make_sampler(r, err) : rc;
}

/*
 * flowtrain merge: a checkpoint with an adapter folded in, in the types of the base; or without an
 * adapter, in other shards.
 */
#include "trainer/cli/merge.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/config/folder.h"
#include "trainer/config/lora_saves.h"
#include "trainer/template/template_files.h"
#include "trainer/save/export.h"
#include "trainer/save/merge.h"
#include "trainer/text/text.h"

#include <limits.h>
#include <string.h>

struct merge {
    const struct tr_merge_words *w;
    struct tr_backend *be;
    struct tr_comm *comm;
    struct tr_model_config config;
    struct tr_lora_config lora;
    struct tr_st *st;
    struct tr_model *model; /* never loaded: it lists the adapted weights */
    float *flat;
    struct tr_params params;
    bool untied;
    int64_t rows; /* of the embedding, where the adapter has more; 0: as many */
};

static enum fr_rc open_all(struct merge *m, struct fr_err *err)
{
    struct tr_model_opts o = {.config = &m->config,
                              .lora = &m->lora,
                              .compute = TR_F32,
                              .limits = {.max_live = 1000000000},
                              .tokens_max = 1,
                              .samples_max = 1};
    const struct tr_folder f = {m->w->model_dir, m->w->adapter_dir, false};
    enum fr_rc rc;

    if ((rc = tr_folder_load(&f, &m->config, &m->st, err)) != FR_OK || m->w->adapter_dir == NULL)
        return rc;
    m->untied = m->config.tie_word_embeddings;
    m->rows = m->config.vocab_size;
    if ((rc = tr_lora_read(m->w->adapter_dir, &m->lora, err)) != FR_OK ||
        (rc = tr_lora_resolve(&m->lora, &m->config, err)) != FR_OK ||
        (rc = tr_lora_settle(&m->lora, &m->config, m->st, err)) != FR_OK ||
        (rc = tr_cpu_create(&m->be, err)) != FR_OK ||
        (rc = tr_comm_single(m->be, &m->comm, err)) != FR_OK)
        return rc;
    m->untied = m->untied && !m->config.tie_word_embeddings;
    m->rows = m->config.vocab_size > m->rows ? m->config.vocab_size : 0;
    o.be = m->be;
    o.comm = m->comm;
    if ((rc = tr_model_create(&o, &m->model, NULL, err)) != FR_OK)
        return rc;
    tr_model_params(m->model, &m->params);
    if ((m->flat = fr_sys.alloc((size_t)m->params.padded * sizeof(float) + 1)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the adapter");
    return tr_import_adapter(m->w->adapter_dir, &m->params, &m->lora, m->flat, err);
}

static void close_all(struct merge *m)
{
    fr_sys.free(m->flat);
    tr_model_destroy(m->model);
    tr_st_close(m->st);
    tr_lora_finish(&m->lora);
    tr_comm_destroy(m->comm);
    tr_backend_destroy(m->be);
}

/* A loader that finds both in a folder would apply the adapter to the merged weights again. */
static enum fr_rc refuse_same(const struct merge *m, struct fr_err *err)
{
    char path[PATH_MAX];
    struct stat st;
    enum fr_rc rc;

    if (tr_folder_same(m->w->output, m->w->model_dir))
        return fr_fail(err, FR_USAGE, "--output %s is the base itself: give another folder",
                       m->w->output);
    if ((rc = tr_path(path, m->w->output, "adapter_config.json", err)) != FR_OK)
        return rc;
    if (fr_sys.lstat(path, &st) == 0)
        return fr_fail(err, FR_USAGE,
                       "--output %s holds an adapter, which would be taken for one of the merged "
                       "model: give another folder",
                       m->w->output);
    return FR_OK;
}

enum fr_rc tr_merge_template(const char *name, const char *model_dir, const char *out_dir,
                             struct fr_err *err)
{
    const struct tr_template *templ = NULL;
    struct tr_tokenizer *tok = NULL;
    struct tr_template_files files = {.config = {0}};
    struct fr_buf chat = {0};
    char path[PATH_MAX];
    enum fr_rc rc = tr_template_choose(name, model_dir, &templ, err);

    if (rc == FR_OK && (rc = tr_tokenizer_load(model_dir, &tok, err)) == FR_OK &&
        (rc = tr_template_fix(templ, tok, err)) == FR_OK)
        rc = tr_template_chat(templ, tok, model_dir, &chat, err);
    if (rc == FR_OK)
        rc = tr_path(path, out_dir, "chat_template.jinja", err);
    if (rc == FR_OK && chat.n > 0)
        rc = fr_file_write(path, chat.p, chat.n, 0644, err);
    if (rc == FR_OK)
        rc = tr_template_files_make(templ, tok, model_dir, &files, err);
    if (rc == FR_OK)
        rc = tr_template_files_write(&files, out_dir, err);
    tr_template_files_finish(&files);
    fr_buf_finish(&chat);
    tr_tokenizer_destroy(tok);
    return rc;
}

static enum fr_rc run(struct merge *m, struct fr_err *err)
{
    struct tr_merge_opts o = {.config = &m->config,
                              .st = m->st,
                              .params = m->w->adapter_dir != NULL ? &m->params : NULL,
                              .flat = m->flat,
                              .model_dir = m->w->model_dir,
                              .out_dir = m->w->output,
                              .shard_bytes = m->w->shard_bytes,
                              .rows = m->rows,
                              .untied = m->untied};
    int64_t merged;
    enum fr_rc rc = tr_merge(&o, &merged, err);

    if (rc == FR_OK && m->w->template_name != NULL)
        rc = tr_merge_template(m->w->template_name, m->w->model_dir, m->w->output, err);
    if (rc == FR_OK && o.params == NULL)
        fr_print("copied %lld tensors into %s\n", (long long)merged, m->w->output);
    else if (rc == FR_OK)
        fr_print("merged %lld weights of %zu tensors into %s%s\n", (long long)merged,
                 tr_st_count(m->st), m->w->output,
                 m->lora.nsaves > 0 ? "; those that were trained whole took their places" : "");
    return rc;
}

/* A template that exists, and a folder of its own. */
static enum fr_rc check_flags(const struct merge *m, struct fr_err *err)
{
    const struct tr_template *templ;
    enum fr_rc rc;

    if (m->w->template_name != NULL &&
        (rc = tr_template_choose(m->w->template_name, m->w->model_dir, &templ, err)) != FR_OK)
        return rc;
    return refuse_same(m, err);
}

/* clang-format off */
#define NONE "no answers are made"
#define BITS "it belongs to --export_quantization_bit"
const struct tr_arg_rule tr_merge_rules[] = {
    {"export_dir", TR_ARG_GIVES, "output", NULL},
    {"export_size", TR_ARG_GIVES, "max_shard_size", "GB"},
    {"export_device", TR_ARG_TOLD, "the CPU merges, a weight at a time", NULL},
    {"export_legacy_format", TR_ARG_TOLD, "files are always safetensors", NULL},
    {"export_quantization_bit", TR_ARG_BARRED, "the merged model has the types of the base; "
     "`flowtrain convert` codes it in FP8, other programs quantise it", NULL},
    {"export_quantization_dataset", TR_ARG_TOLD, BITS, NULL},
    {"export_quantization_nsamples", TR_ARG_TOLD, BITS, NULL},
    {"export_quantization_maxlen", TR_ARG_TOLD, BITS, NULL},
    {"export_hub_model_id", TR_ARG_BARRED, "nothing is uploaded", NULL},
    {"infer_dtype", TR_ARG_BARRED, "the merged model has the types of the base; "
     "`flowtrain convert` writes it in bf16", NULL},
    {"infer_backend", TR_ARG_TOLD, NONE, NULL}, {"use_kv_cache", TR_ARG_TOLD, NONE, NULL},
    {"do_sample", TR_ARG_TOLD, NONE, NULL}, {"temperature", TR_ARG_TOLD, NONE, NULL},
    {"top_p", TR_ARG_TOLD, NONE, NULL}, {"top_k", TR_ARG_TOLD, NONE, NULL},
    {"num_beams", TR_ARG_TOLD, NONE, NULL}, {"max_length", TR_ARG_TOLD, NONE, NULL},
    {"max_new_tokens", TR_ARG_TOLD, NONE, NULL}, {"repetition_penalty", TR_ARG_TOLD, NONE, NULL},
    {"length_penalty", TR_ARG_TOLD, NONE, NULL}, {"skip_special_tokens", TR_ARG_TOLD, NONE, NULL},
};
/* clang-format on */

enum fr_rc tr_merge_run(struct tr_call *call, const struct tr_merge_words *w, struct fr_err *err)
{
    struct merge m = {.w = w};
    enum fr_rc rc = check_flags(&m, err);

    if (rc == FR_OK)
        tr_arg_map_tell(call);
    if (rc == FR_OK && (rc = open_all(&m, err)) == FR_OK)
        rc = run(&m, err);
    close_all(&m);
    return rc;
}

static enum fr_rc merge(struct tr_call *call, struct fr_err *err)
{
    return tr_merge_run(call, call->options, err);
}

#define AT(member) offsetof(struct tr_merge_words, member)

static const struct tr_flag flags[] = {
    TR_FLAG("model_name_or_path", TR_TEXT, AT(model_dir), "the base: a checkpoint folder"),
    TR_FLAG("adapter_name_or_path", TR_TEXT, AT(adapter_dir),
            "adapter folder in PEFT's format; without it the model is copied"),
    TR_FLAG("output", TR_TEXT, AT(output),
            "folder to write: a checkpoint in the types of the base"),
    TR_FLAG("max_shard_size", TR_SIZE, AT(shard_bytes), "bytes of a file, at most [5GB]"),
    TR_FLAG("template", TR_TEXT, AT(template_name), "chat template, where the base has none"),
};

const struct tr_command tr_cmd_merge = {
    .name = "merge",
    .summary = "fold an adapter into its base",
    .usage = "flowtrain merge [FILE.yaml]: an adapter folded into its base, or a model in other "
             "shards; LLaMA-Factory's files of arguments for export are read\n\n",
    TR_FLAGS(flags, struct tr_merge_words),
    TR_RULES(tr_merge_rules),
    .initial = &(const struct tr_merge_words){.shard_bytes = TR_SHARD_BYTES},
    .needs = "model_name_or_path output",
    .run = merge,
};

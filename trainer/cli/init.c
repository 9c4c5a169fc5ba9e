/*
 * flowtrain init: a model folder from a config.json and a seed, or a whole small example.
 */
#include "trainer/cli/cli.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/cli/example.h"
#include "trainer/cli/shape.h"
#include "trainer/cli/weights.h"
#include "trainer/config/model_config.h"
#include "trainer/save/quantize.h"
#include "trainer/text/text.h"
#include "trainer/tokenizer/tokenizer.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { COPY_MAX_BYTES = 64 << 20 };

struct init {
    struct tr_shape shape;
    const char *layers, *config, *output, *seed, *tokenizer, *shard_bytes, *example, *model,
        *records;
    int64_t seed_number, shard_number, record_number;
    bool overwrite;
};

static bool exists(const char *path)
{
    struct stat st;

    return fr_sys.lstat(path, &st) == 0;
}

static enum fr_rc copy(const char *from, const char *to, struct fr_err *err)
{
    struct fr_buf text = {0};
    enum fr_rc rc = fr_file_read(from, COPY_MAX_BYTES, &text, err);

    if (rc == FR_OK)
        rc = fr_file_write(to, text.p != NULL ? text.p : "", text.n, 0644, err);
    fr_buf_finish(&text);
    return rc;
}

/* Copies tokenizer.json and the files that belong to it; path is the file or its folder. */
static enum fr_rc copy_tokenizer(const char *path, const char *dir, const struct tr_model_config *c,
                                 struct fr_err *err)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
                                        "special_tokens_map.json", "generation_config.json"};
    char folder[PATH_MAX];
    struct tr_tokenizer *t = NULL;
    const char *slash = strrchr(path, '/');
    enum fr_rc rc = tr_tokenizer_load(path, &t, err);

    if (rc != FR_OK)
        return rc;
    if (tr_tokenizer_size(t) > c->vocab_size)
        rc = fr_fail(err, FR_USAGE, "tokenizer %s has ids up to %d, the model's vocab_size is %lld",
                     path, tr_tokenizer_size(t) - 1, (long long)c->vocab_size);
    tr_tokenizer_destroy(t);
    if (tr_ends(path, ".json"))
        (void)snprintf(folder, sizeof(folder), "%.*s", slash != NULL ? (int)(slash - path) : 1,
                       slash != NULL ? path : ".");
    else
        (void)snprintf(folder, sizeof(folder), "%s", path);
    for (size_t i = 0; rc == FR_OK && i < sizeof(names) / sizeof(names[0]); i++)
        rc = tr_copy_file(folder, dir, names[i], true, err);
    return rc;
}

/* Prints the size of the weights and checks that the disk has room for them. */
static enum fr_rc check_room(const struct init *in, const struct tr_model_config *c,
                             struct fr_err *err)
{
    int64_t left = fr_sys.disk_free(in->output);
    struct tr_model_config written = *c;
    struct tr_model_counts n;
    char needs[24], has[24] = "?";

    written.num_nextn_predict_layers = 0;
    tr_model_count(&written, &n);
    fr_show_size(n.disk_bytes, needs);
    if (left >= 0)
        fr_show_size(left, has);
    fr_print("%s: %lld layers, %lld of them with experts, %lld parameters in %s: %s (%s free)\n",
             in->output, (long long)c->num_hidden_layers, (long long)tr_model_moe_count(c),
             (long long)n.total,
             c->fp8                           ? "FP8"
             : c->torch_dtype == TR_TORCH_F32 ? "f32"
                                              : "16 bits",
             needs, has);
    if (left >= 0 && n.disk_bytes > left)
        return fr_fail(err, FR_USAGE,
                       "%s has %s free, the weights take %s: take fewer --layers, or "
                       "another --output",
                       in->output, has, needs);
    return FR_OK;
}

/* Makes the folder and the weights of the model that path describes. */
static enum fr_rc make_weights(const struct init *in, const char *path, struct fr_err *err)
{
    struct tr_model_config c;
    enum fr_rc rc = tr_model_config_load(path, &c, err);

    if (rc != FR_OK)
        return fr_while(err, "%s", in->config != NULL ? in->config : in->shape.of);
    rc = check_room(in, &c, err);
    if (rc == FR_OK && in->tokenizer != NULL)
        rc = copy_tokenizer(in->tokenizer, in->output, &c, err);
    return rc == FR_OK
               ? tr_weights_write(in->output, &c, (uint64_t)in->seed_number, in->shard_number, err)
               : rc;
}

/* The configuration of --config or --shape-of, beside its place. */
static enum fr_rc put_config(const struct init *in, const char *path, struct fr_err *err)
{
    char source[PATH_MAX];
    json_t *config = NULL;
    int64_t layers;
    enum fr_rc rc;

    if (in->config == NULL) {
        rc = tr_shape_make(&in->shape, &config, &layers, err);
        if (rc == FR_OK)
            rc = fr_json_save(config, path, JSON_INDENT(2), 0644, err);
        json_decref(config);
        return rc;
    }
    if (tr_ends(in->config, ".json"))
        (void)snprintf(source, sizeof(source), "%s", in->config);
    else if ((rc = tr_path(source, in->config, "config.json", err)) != FR_OK)
        return rc;
    return copy(source, path, err);
}

static enum fr_rc make_model(const struct init *in, struct fr_err *err)
{
    char path[PATH_MAX], beside[PATH_MAX];
    struct tr_model_config c;
    enum fr_rc rc;

    if (in->config != NULL && (rc = tr_model_config_load(in->config, &c, err)) != FR_OK)
        return rc; /* by the name that the user gave it */
    if ((rc = tr_path(path, in->output, "config.json", err)) != FR_OK ||
        (rc = tr_path(beside, in->output, "config.unfinished.json", err)) != FR_OK)
        return rc;
    if (exists(path) && !in->overwrite)
        return fr_fail(err, FR_USAGE, "%s exists already (--overwrite replaces it)", path);
    if ((rc = fr_mkdirs(in->output, 0755, err)) != FR_OK ||
        (rc = put_config(in, beside, err)) != FR_OK)
        return rc;
    rc = make_weights(in, beside, err);
    /* last: a folder with a config.json is a whole one */
    if (rc == FR_OK && fr_sys.rename(beside, path) != 0)
        rc = fr_fail_errno(err, errno, "cannot rename %s", beside);
    if (rc != FR_OK)
        (void)fr_sys.unlink(beside);
    else
        fr_print("wrote %s, seed %lld\n", in->output, (long long)in->seed_number);
    return rc;
}

static enum fr_rc read_numbers(struct init *in, struct fr_err *err)
{
    enum fr_rc rc;

    if (fr_parse_i64(fr_str_of(in->seed), &in->seed_number, NULL) != FR_OK || in->seed_number < 0)
        return fr_fail(err, FR_USAGE, "--seed %s: expected a whole number", in->seed);
    if (fr_parse_i64(fr_str_of(in->records), &in->record_number, NULL) != FR_OK ||
        in->record_number < 1 || in->record_number > 1000000)
        return fr_fail(err, FR_USAGE, "--records %s: expected 1 to 1000000", in->records);
    if (in->layers != NULL &&
        (fr_parse_i64(fr_str_of(in->layers), &in->shape.layers, NULL) != FR_OK ||
         in->shape.layers < 1))
        return fr_fail(err, FR_USAGE, "--layers %s: expected 1 or more", in->layers);
    rc = fr_parse_size(fr_str_of(in->shard_bytes), &in->shard_number, err);
    return rc == FR_OK ? rc : fr_while(err, "--shard_bytes");
}

static enum fr_rc make(struct init *in, struct fr_err *err)
{
    const struct tr_example_kind *kind;
    enum fr_rc rc = read_numbers(in, err);

    if (rc != FR_OK)
        return rc;
    if (in->example != NULL) {
        rc = tr_example_find(in->model, &kind, err);
        return rc == FR_OK ? tr_example_write(in->example, kind, (uint64_t)in->seed_number,
                                              in->record_number, in->overwrite, err)
                           : rc;
    }
    if ((in->config == NULL) == (in->shape.of == NULL) || in->output == NULL)
        return fr_fail(err, FR_USAGE,
                       "--output and one of --config and --shape-of are needed, or --example");
    if (in->shape.of == NULL && (in->layers != NULL || in->shape.weights != NULL))
        return fr_fail(err, FR_USAGE, "--layers and --weights are of --shape-of");
    return make_model(in, err);
}

static enum fr_rc init(struct tr_call *call, struct fr_err *err)
{
    return make(call->options, err);
}

#define AT(member) offsetof(struct init, member)

static const struct tr_flag flags[] = {
    TR_FLAG("config", TR_TEXT, AT(config), "config.json of the model, or its folder"),
    TR_FLAG("shape_of", TR_TEXT, AT(shape.of),
            "a slice of this model for trials: deepseek-v3, a config.json or its folder"),
    TR_FLAG("layers", TR_TEXT, AT(layers),
            "of the slice, the first ones of the model; dense ones leave one with experts [all]"),
    TR_FLAG("weights", TR_TEXT, AT(shape.weights),
            "of the slice: bf16 or fp8 [as the model's are]"),
    TR_FLAG("output", TR_TEXT, AT(output), "folder to write"),
    TR_FLAG("seed", TR_TEXT, AT(seed), "of all weights, or of the example [42]"),
    TR_FLAG("tokenizer", TR_TEXT, AT(tokenizer), "tokenizer.json to copy, or its folder"),
    TR_FLAG("shard_bytes", TR_TEXT, AT(shard_bytes), "largest weight file [4GiB]"),
    TR_FLAG("example", TR_TEXT, AT(example),
            "write a tiny model and a data set into this folder instead"),
    TR_FLAG("model", TR_TEXT, AT(model), "of the example: deepseek or llama [deepseek]"),
    TR_FLAG("records", TR_TEXT, AT(records), "records of the example's data set [1200]"),
    TR_FLAG("overwrite", TR_SWITCH, AT(overwrite), "replace what is there"),
};

const struct tr_command tr_cmd_init = {
    .name = "init",
    .summary = "make a model folder from a config.json and a seed, or a small example",
    .usage = "flowtrain init --config FILE --output DIR [--seed N] [--tokenizer FILE]\n"
             "flowtrain init --shape-of deepseek-v3 --layers N --output DIR [--weights bf16]\n"
             "flowtrain init --example DIR [--model llama] [--seed N]\n\n\n",
    TR_FLAGS(flags, struct init),
    .initial =
        &(const struct init){
            .seed = "42", .shard_bytes = "4GiB", .model = "deepseek", .records = "1200"},
    .run = init,
};

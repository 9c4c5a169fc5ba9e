/*
 * flowtrain init: a model folder from a config.json and a seed, or a whole small example.
 */
#include "trainer/cli/cli.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/cli/example.h"
#include "trainer/cli/weights.h"
#include "trainer/config/model_config.h"
#include "trainer/data/tokenizer.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { COPY_MAX_BYTES = 64 << 20 };

struct init {
    const char *config, *output, *seed, *tokenizer, *shard_bytes, *example, *model, *records;
    int overwrite, help;
};

static enum fr_rc join(char out[PATH_MAX], const char *dir, const char *name, struct fr_err *err)
{
    if (snprintf(out, PATH_MAX, "%s/%s", dir, name) >= PATH_MAX)
        return fr_fail(err, FR_USAGE, "folder name too long: %s", dir);
    return FR_OK;
}

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
static enum fr_rc copy_tokenizer(const char *path, const char *dir,
                                 const struct tr_model_config *c, struct fr_err *err)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
                                        "special_tokens_map.json", "generation_config.json"};
    char from[PATH_MAX], to[PATH_MAX], folder[PATH_MAX];
    struct tr_tokenizer *t = NULL;
    const char *slash = strrchr(path, '/');
    size_t n = strlen(path);
    enum fr_rc rc = tr_tokenizer_load(path, &t, err);

    if (rc != FR_OK)
        return rc;
    if (tr_tokenizer_size(t) > c->vocab_size)
        rc = fr_fail(err, FR_USAGE, "tokenizer %s has ids up to %d, the model's vocab_size is %lld",
                     path, tr_tokenizer_size(t) - 1, (long long)c->vocab_size);
    tr_tokenizer_destroy(t);
    if (n > 5 && strcmp(path + n - 5, ".json") == 0)
        (void)snprintf(folder, sizeof(folder), "%.*s", slash != NULL ? (int)(slash - path) : 1,
                       slash != NULL ? path : ".");
    else
        (void)snprintf(folder, sizeof(folder), "%s", path);
    for (size_t i = 0; rc == FR_OK && i < sizeof(names) / sizeof(names[0]); i++) {
        if ((rc = join(from, folder, names[i], err)) != FR_OK ||
            (rc = join(to, dir, names[i], err)) != FR_OK || !exists(from))
            continue;
        rc = copy(from, to, err);
    }
    return rc;
}

static enum fr_rc make_model(const struct init *in, int64_t seed, int64_t shard_bytes,
                             struct fr_err *err)
{
    char path[PATH_MAX], source[PATH_MAX];
    struct tr_model_config c;
    struct tr_model_counts counts;
    size_t n = strlen(in->config);
    enum fr_rc rc;

    if ((rc = tr_model_config_load(in->config, &c, err)) != FR_OK ||
        (rc = join(path, in->output, "config.json", err)) != FR_OK)
        return rc;
    if (n > 5 && strcmp(in->config + n - 5, ".json") == 0)
        (void)snprintf(source, sizeof(source), "%s", in->config);
    else if ((rc = join(source, in->config, "config.json", err)) != FR_OK)
        return rc;
    if (exists(path) && !in->overwrite)
        return fr_fail(err, FR_USAGE, "%s exists already (--overwrite replaces it)", path);
    if ((rc = fr_mkdirs(in->output, 0755, err)) != FR_OK)
        return rc;
    if (in->tokenizer != NULL && (rc = copy_tokenizer(in->tokenizer, in->output, &c, err)) != FR_OK)
        return rc;
    if ((rc = tr_weights_write(in->output, &c, (uint64_t)seed, shard_bytes, err)) != FR_OK)
        return rc;
    tr_model_count(&c, &counts);
    /* last: a folder with a config.json is a whole one */
    if (strcmp(source, path) != 0 && (rc = copy(source, path, err)) != FR_OK)
        return rc;
    fr_print("wrote %s: %lld parameters, seed %lld\n", in->output, (long long)counts.total,
             (long long)seed);
    return FR_OK;
}

enum fr_rc tr_cmd_init(int argc, const char *const *argv, struct fr_err *err)
{
    struct init in = {.seed = "42", .shard_bytes = "4GiB", .model = "deepseek", .records = "1200"};
    const struct tr_flag flags[] = {
        {"config", &in.config, NULL, "config.json of the model, or its folder"},
        {"output", &in.output, NULL, "folder to write"},
        {"seed", &in.seed, NULL, "of all weights, or of the example [42]"},
        {"tokenizer", &in.tokenizer, NULL, "tokenizer.json to copy, or its folder"},
        {"shard_bytes", &in.shard_bytes, NULL, "largest weight file [4GiB]"},
        {"example", &in.example, NULL, "write a tiny model and a data set into this folder "
                                       "instead"},
        {"model", &in.model, NULL, "of the example: deepseek or llama [deepseek]"},
        {"records", &in.records, NULL, "records of the example's data set [1200]"},
        {"overwrite", NULL, &in.overwrite, "replace what is there"},
        {"help", NULL, &in.help, "this text"},
    };
    struct tr_flags f = {.flags = flags, .n = sizeof(flags) / sizeof(flags[0])};
    int64_t seed, shard_bytes, records;
    enum fr_rc rc = tr_flags_read(&f, argc, argv, err);

    if (rc != FR_OK)
        return rc;
    if (in.help) {
        struct fr_buf text = {0};
        tr_flags_help(&f, &text);
        fr_print("flowtrain init --config FILE --output DIR [--seed N] [--tokenizer FILE]\n"
                 "flowtrain init --example DIR [--model llama] [--seed N]\n\n%s", text.p);
        fr_buf_finish(&text);
        return FR_OK;
    }
    if (fr_parse_i64(fr_str_of(in.seed), &seed, NULL) != FR_OK || seed < 0)
        return fr_fail(err, FR_USAGE, "--seed %s: expected a whole number", in.seed);
    if (fr_parse_i64(fr_str_of(in.records), &records, NULL) != FR_OK || records < 1 ||
        records > 1000000)
        return fr_fail(err, FR_USAGE, "--records %s: expected 1 to 1000000", in.records);
    if ((rc = fr_parse_size(fr_str_of(in.shard_bytes), &shard_bytes, err)) != FR_OK)
        return fr_while(err, "--shard_bytes");
    if (in.example != NULL) {
        const struct tr_example_kind *kind;

        rc = tr_example_find(in.model, &kind, err);
        return rc == FR_OK ? tr_example_write(in.example, kind, (uint64_t)seed, records,
                                              in.overwrite != 0, err)
                           : rc;
    }
    if (in.config == NULL || in.output == NULL)
        return fr_fail(err, FR_USAGE, "--config and --output are needed, or --example");
    return make_model(&in, seed, shard_bytes, err);
}

/* The files that the trainer reads: checkpoints, tokenizers, configurations, data. */
#include "tests/fuzz/fuzz.h"

#include "engine/base/file.h"
#include "trainer/config/args.h"
#include "trainer/config/ds_config.h"
#include "trainer/config/lora_config.h"
#include "trainer/config/model_config.h"
#include "trainer/dataset/dataset.h"
#include "trainer/dataset/token_cache.h"
#include "trainer/tensor/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fuzz_safetensors(struct fr_str in)
{
    struct tr_st *st = NULL;
    struct fr_err err = {0};
    enum fr_rc rc = tr_st_open(fuzz_path(in), &st, &err);
    char byte;

    fuzz_want_err(rc, &err);
    for (size_t i = 0; rc == FR_OK && i < tr_st_count(st); i++) {
        const struct tr_st_tensor *e = tr_st_at(st, i);
        if (e->bytes > 0)
            fuzz_want(tr_st_read(st, e, e->bytes - 1, &byte, 1, &err) == FR_OK,
                      "the last byte of a tensor can be read");
    }
    tr_st_close(st);
}

void fuzz_model_config(struct fr_str in)
{
    struct tr_model_config c;
    struct tr_model_counts n;
    struct fr_err err = {0};
    enum fr_rc rc = tr_model_config_load(fuzz_path(in), &c, &err);

    fuzz_want_err(rc, &err);
    if (rc == FR_OK && c.num_hidden_layers < 64 && c.hidden_size < 65536 && c.vocab_size < 65536 &&
        c.n_routed_experts < 1024 && c.num_attention_heads < 1024)
        tr_model_count(&c, &n);
}

void fuzz_ds_config(struct fr_str in)
{
    struct tr_ds_config c;
    struct tr_args a;
    struct fr_err err = {0};

    tr_args_init(&a);
    fuzz_want_err(
        tr_ds_load(fuzz_path(in), &(struct tr_ds_flags){&a, NULL, 2, 64, false}, &c, NULL, &err),
        &err);
    tr_args_finish(&a);
}

void fuzz_lora_config(struct fr_str in)
{
    struct tr_lora_config c;
    struct tr_lora_hit hit;
    struct fr_err err = {0};
    enum fr_rc rc;

    fuzz_put_file("adapter_config.json", in);
    rc = tr_lora_read(fuzz_dir(), &c, &err);
    fuzz_want_err(rc, &err);
    if (rc != FR_OK)
        return;
    fuzz_want_err(tr_lora_match(&c, "model.layers.3.mlp.up_proj", &hit, &err), &err);
    tr_lora_finish(&c);
}

void fuzz_train_args(struct fr_str in)
{
    char path[256];
    const char *argv[] = {path};
    struct tr_args a;
    struct fr_err err = {0};

    (void)snprintf(path, sizeof(path), "%s/a.yaml", fuzz_dir()); /* the ending says what it is */
    fuzz_put_file("a.yaml", in);
    enum fr_rc rc = tr_args_read(&a, 1, argv, NULL, &err);
    fuzz_want_err(rc, &err);
    if (rc == FR_OK)
        tr_args_finish(&a);
}

void fuzz_tokenizer(struct fr_str in)
{
    struct tr_tokenizer *t = NULL;
    struct tr_encoder *e = NULL;
    struct tr_ids ids = {0};
    struct fr_err err = {0};
    enum fr_rc rc = tr_tokenizer_load(fuzz_path(in), &t, &err);

    if (rc == FR_OK && (rc = tr_encoder_create(t, &e, &err)) == FR_OK)
        rc =
            tr_encode(e, FR_STR("the river counts 2024 boats <s> \xc3\xa9t\xc3\xa9\n"), &ids, &err);
    fuzz_want_err(rc, &err);
    tr_ids_finish(&ids);
    tr_encoder_destroy(e);
    tr_tokenizer_destroy(t);
}

static struct tr_tokenizer *shared;

static void drop_tokenizer(void)
{
    tr_tokenizer_destroy(shared);
}

static void load_set(const char *sets)
{
    struct tr_dataset_opts o = {
        .dataset = sets, .dataset_dir = fuzz_dir(), .max_samples = -1, .text = {.cutoff_len = 100}};
    struct tr_dataset *d = NULL;
    struct fr_buf warnings = {0};
    struct fr_err err = {0};
    enum fr_rc rc;

    if (shared == NULL) {
        fuzz_want(tr_tokenizer_load(SOURCE_ROOT "/tests/golden/tokenizer/qwen.json", &shared,
                                    &err) == FR_OK,
                  "the tokenizer loads");
        (void)atexit(drop_tokenizer);
    }
    if ((rc = tr_template_find("default", &o.templ, &err)) == FR_OK)
        rc = tr_dataset_load(&o, shared, &d, &warnings, &err);
    fuzz_want_err(rc, &err);
    for (int64_t i = 0; rc == FR_OK && i < tr_dataset_size(d); i++) {
        struct tr_sample s = tr_dataset_at(d, i);
        fuzz_want(s.n >= 1 && s.n <= 100, "a sample is within its limit");
    }
    fr_buf_finish(&warnings);
    tr_dataset_destroy(d);
}

static const char sharegpt[] =
    "{\"x\":{\"file_name\":\"a.json\",\"formatting\":\"sharegpt\",\"columns\":{\"messages\":"
    "\"conversations\",\"tools\":\"tools\"}}}";
static const char alpaca[] = "{\"x\":{\"file_name\":\"a.json\"}}";
static const char two[] =
    "[{\"conversations\":[{\"from\":\"human\",\"value\":\"a\"},{\"from\":\"gpt\",\"value\":"
    "\"b\"}],\"instruction\":\"a\",\"input\":\"\",\"output\":\"b\"}]";

void fuzz_records(struct fr_str in)
{
    fuzz_put_file("a.json", in);
    fuzz_put_file("dataset_info.json", FR_STR(sharegpt));
    load_set("x");
    fuzz_put_file("dataset_info.json", FR_STR(alpaca));
    load_set("x");
}

void fuzz_dataset_info(struct fr_str in)
{
    fuzz_put_file("a.json", FR_STR(two));
    fuzz_put_file("dataset_info.json", in);
    load_set("x");
}

static const char cache_key[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

void fuzz_token_cache(struct fr_str in)
{
    struct tr_tokens t = {0};
    struct fr_err err = {0};
    struct tr_checksum_cache checksums;
    struct tr_token_cache cache = {fuzz_path(in), cache_key, &checksums};
    bool found = false;
    enum fr_rc rc;

    tr_checksum_cache_open(&checksums, NULL);
    rc = tr_token_cache_read(&cache, &t, &found, &err);
    tr_checksum_cache_close(&checksums);

    fuzz_want_err(rc, &err);
    for (int64_t i = 0; rc == FR_OK && found && i < t.n; i++)
        fuzz_want(t.offsets[i] <= t.offsets[i + 1], "samples follow each other");
    if (rc == FR_OK && found)
        tr_tokens_finish(&t);
}

static void put_file(void (*put)(void *arg, const char *name, struct fr_str bytes), void *arg,
                     const char *path)
{
    struct fr_buf b = {0};
    struct fr_err err;

    fuzz_want(fr_file_read(path, 1 << 20, &b, &err) == FR_OK, "the seed can be read");
    put(arg, "whole", (struct fr_str){b.p, b.n});
    fr_buf_finish(&b);
}

void fuzz_safetensors_seeds(void (*put)(void *arg, const char *name, struct fr_str bytes),
                            void *arg)
{
    static const uint16_t half[6] = {1, 2, 3, 4, 5, 6};
    const struct tr_st_item items[2] = {
        {.name = "a", .type = TR_ST_BF16, .ndim = 2, .shape = {2, 3}, .data = half},
        {.name = "b", .type = TR_ST_U8, .ndim = 1, .shape = {5}, .data = half}};
    char path[256];
    struct fr_err err;

    (void)snprintf(path, sizeof(path), "%s/seed", fuzz_dir());
    fuzz_want(tr_st_write(path, items, 2, &(struct tr_st_pair){"format", "pt"}, 1, &err) == FR_OK,
              "the seed can be written");
    put_file(put, arg, path);
}

void fuzz_token_cache_seeds(void (*put)(void *arg, const char *name, struct fr_str bytes),
                            void *arg)
{
    int64_t offsets[3] = {0, 2, 3};
    int32_t ids[3] = {5, 6, 7}, labels[3] = {-100, 6, 7};
    struct tr_tokens t = {.offsets = offsets,
                          .n = 2,
                          .nsets = 1,
                          .sets = {2},
                          .ids = {.v = ids, .n = 3},
                          .labels = {.v = labels, .n = 3}};
    char path[256];
    struct tr_checksum_cache checksums;
    struct tr_token_cache cache = {path, cache_key, &checksums};
    struct fr_err err;

    (void)snprintf(path, sizeof(path), "%s/seed", fuzz_dir());
    tr_checksum_cache_open(&checksums, NULL);
    fuzz_want(tr_token_cache_write(&cache, &t, &err) == FR_OK, "the seed can be written");
    tr_checksum_cache_close(&checksums);
    put_file(put, arg, path);
}

/*
 * Damaged input to every parser of the trainer: bytes flipped, cut, doubled or replaced by words
 * that parsers look for. Nothing may crash (the suite runs under ASan and UBSan), and what is
 * refused must come with a text. FLOWRUN_FUZZ=N tries N inputs a parser instead of 300.
 */
#include "tests/unit/check.h"
#include "trainer/config/args.h"
#include "trainer/config/ds_config.h"
#include "trainer/config/lora_config.h"
#include "trainer/config/model_config.h"
#include "trainer/data/dataset.h"
#include "trainer/tensor/draw.h"
#include "trainer/tensor/safetensors.h"

#include "engine/base/file.h"

#include <unistd.h>

static char dir[] = "/tmp/flowrun-fuzz-XXXXXX";
static char path[256];
static uint64_t step;

static uint64_t pick(uint64_t n)
{
    return tr_draw_bits(tr_draw_of(1, "fuzz"), step++) % n;
}

static void mutate(struct fr_buf *b)
{
    static const char *const words[] = {"null", "-1", "1e999", "18446744073709551616", "\"\"", "[]",
                                        "{}", "\\u0000", "\xff", "true", "0", "9223372036854775807",
                                        "\"auto\"", ",", "}", "[[[[[[[["};
    char copy[64];
    size_t n;

    for (uint64_t k = 1 + pick(4); k > 0 && b->n > 0; k--) {
        size_t at = pick(b->n);
        const char *w = words[pick(sizeof(words) / sizeof(words[0]))];
        switch (pick(4)) {
        case 0:
            b->p[at] = (char)pick(256);
            break;
        case 1:
            b->n = at;
            break;
        case 2:
            if (at + strlen(w) <= b->n)
                memcpy(b->p + at, w, strlen(w));
            break;
        default:
            n = at < sizeof(copy) ? at : sizeof(copy);
            memcpy(copy, b->p, n);
            fr_buf_add(b, copy, n);
            break;
        }
    }
}

typedef enum fr_rc parse(struct fr_err *err);

static enum fr_rc parse_safetensors(struct fr_err *err)
{
    struct tr_st *st = NULL;
    enum fr_rc rc = tr_st_open(path, &st, err);
    char byte;

    for (size_t i = 0; rc == FR_OK && i < tr_st_count(st); i++)
        if (tr_st_at(st, i)->bytes > 0)
            CHECK_INT(tr_st_read(st, tr_st_at(st, i), tr_st_at(st, i)->bytes - 1, &byte, 1, err),
                      FR_OK);
    tr_st_close(st);
    return rc;
}

static enum fr_rc parse_model(struct fr_err *err)
{
    struct tr_model_config c;
    struct tr_model_counts n;
    enum fr_rc rc = tr_model_config_load(path, &c, err);

    if (rc == FR_OK && c.num_hidden_layers < 64 && c.hidden_size < 65536 && c.vocab_size < 65536 &&
        c.n_routed_experts < 1024 && c.num_attention_heads < 1024)
        tr_model_count(&c, &n);
    return rc;
}

static enum fr_rc parse_ds(struct fr_err *err)
{
    struct tr_ds_config c;
    struct tr_args a;
    enum fr_rc rc;

    tr_args_init(&a);
    rc = tr_ds_load(path, &(struct tr_ds_flags){&a, NULL, 2, 64}, &c, NULL, err);
    tr_args_finish(&a);
    return rc;
}

static enum fr_rc parse_lora(struct fr_err *err)
{
    struct tr_lora_config c;
    struct tr_lora_hit hit;
    enum fr_rc rc;

    rc = tr_lora_read(dir, &c, err); /* adapter_config.json, which path names */
    if (rc != FR_OK)
        return rc;
    rc = tr_lora_match(&c, "model.layers.3.mlp.up_proj", &hit, err);
    tr_lora_finish(&c);
    return rc;
}

static enum fr_rc parse_args(struct fr_err *err)
{
    const char *argv[] = {path};
    struct tr_args a;
    enum fr_rc rc = tr_args_read(&a, 1, argv, NULL, err);

    if (rc == FR_OK)
        tr_args_finish(&a);
    return rc;
}

static enum fr_rc parse_tokenizer(struct fr_err *err)
{
    struct tr_tokenizer *t = NULL;
    struct tr_encoder *e = NULL;
    struct tr_ids ids = {0};
    enum fr_rc rc = tr_tokenizer_load(path, &t, err);

    if (rc == FR_OK && (rc = tr_encoder_create(t, &e, err)) == FR_OK)
        rc = tr_encode(e, FR_STR("the river counts 2024 boats <s> \xc3\xa9t\xc3\xa9\n"), &ids, err);
    tr_ids_finish(&ids);
    tr_encoder_destroy(e);
    tr_tokenizer_destroy(t);
    return rc;
}

static struct tr_tokenizer *tok;

static enum fr_rc parse_set(struct fr_err *err)
{
    struct tr_dataset_opts o = {.dataset = "x", .dataset_dir = dir, .max_samples = -1,
                                .text = {.cutoff_len = 100}};
    struct tr_dataset *d = NULL;
    enum fr_rc rc;

    if ((rc = tr_template_find("default", &o.templ, err)) == FR_OK)
        rc = tr_dataset_load(&o, tok, &d, NULL, err);
    tr_dataset_destroy(d);
    return rc;
}

static void fuzz(const char *name, const char *file, struct fr_str seed, parse *body)
{
    const char *env = getenv("FLOWRUN_FUZZ");
    long tries = env != NULL ? strtol(env, NULL, 10) : 300, accepted = 0;
    struct fr_buf b = {0};

    check_row(name);
    (void)snprintf(path, sizeof(path), "%s/%s", dir, file);
    for (long i = 0; i < tries; i++) {
        struct fr_err err = {.rc = FR_OK};
        b.n = 0;
        fr_buf_add(&b, seed.p, seed.n);
        if (i > 0)
            mutate(&b);
        FILE *f = fopen(path, "w");
        if (!CHECK(f != NULL && fwrite(b.p, 1, b.n, f) == b.n && fclose(f) == 0))
            break;
        enum fr_rc rc = body(&err);
        accepted += rc == FR_OK;
        if (i == 0 && !CHECK_INT(rc, FR_OK))
            printf("   the seed itself: %s\n", err.msg);
        if (rc != FR_OK && (err.rc != rc || err.msg[0] == '\0'))
            CHECK(!"an error without a text");
    }
    CHECK(accepted > 0 && accepted < tries);
    fr_buf_finish(&b);
}

static const char model[] =
    "{\"model_type\":\"deepseek_v3\",\"vocab_size\":512,\"hidden_size\":64,\"num_hidden_layers\":4,"
    "\"num_attention_heads\":4,\"kv_lora_rank\":32,\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":8,"
    "\"v_head_dim\":16,\"intermediate_size\":128,\"moe_intermediate_size\":32,"
    "\"n_routed_experts\":8,"
    "\"first_k_dense_replace\":1,\"num_experts_per_tok\":2,\"rope_scaling\":{\"type\":\"yarn\","
    "\"factor\":4,\"original_max_position_embeddings\":64},"
    "\"quantization_config\":{\"quant_method\":"
    "\"fp8\",\"weight_block_size\":[128,128]}}";
static const char ds[] =
    "{\"train_batch_size\":\"auto\",\"gradient_clipping\":\"auto\",\"bf16\":{\"enabled\":\"auto\"},"
    "\"fp16\":{\"enabled\":false,\"loss_scale\":0},\"optimizer\":{\"type\":\"AdamW\",\"params\":{"
    "\"lr\":\"auto\",\"betas\":[0.9,0.999]}},\"scheduler\":{\"type\":\"WarmupLR\",\"params\":{"
    "\"warmup_num_steps\":10}},\"zero_optimization\":{\"stage\":3,\"reduce_bucket_size\":\"auto\","
    "\"offload_param\":{\"device\":\"cpu\"},\"stage3_max_live_parameters\":1e9}}";
static const char lora[] =
    "{\"peft_type\":\"LORA\",\"r\":8,\"lora_alpha\":16,\"target_modules\":[\"up_proj\"],"
    "\"rank_pattern\":{\"layers.3.*\":4},\"layers_to_transform\":[1,3],\"exclude_modules\":null}";
static const char args[] =
    "do_train: true\nmodel_name_or_path: m\ndataset: [a, b]\ntemplate: empty\noutput_dir: o\n"
    "max_steps: 3\nlearning_rate: 1.0e-4\nbf16: true\nsave_strategy: epoch\n";
static const char records[] =
    "[{\"conversations\":[{\"from\":\"system\",\"value\":\"s\"},{\"from\":\"human\","
    "\"value\":\"a\"},"
    "{\"from\":\"function_call\",\"value\":\"{\\\"name\\\":\\\"f\\\","
    "\\\"arguments\\\":{\\\"x\\\":1}}\"},"
    "{\"from\":\"observation\",\"value\":\"o\"},{\"from\":\"gpt\",\"value\":\"b\"}],\"tools\":"
    "\"[{\\\"name\\\":\\\"f\\\"}]\"},{\"conversations\":[{\"from\":\"human\",\"value\":\"a\"},"
    "{\"from\":\"gpt\",\"value\":\"b\"}]}]";
static const char info[] =
    "{\"x\":{\"file_name\":\"a.json\",\"formatting\":\"sharegpt\",\"columns\":{\"messages\":"
    "\"conversations\",\"tools\":\"tools\"}}}";

int main(void)
{
    static const uint16_t half[6] = {1, 2, 3, 4, 5, 6};
    static const char tokenizer[] = SOURCE_ROOT "/tests/golden/tokenizer/qwen.json";
    const struct tr_st_item items[2] = {
        {.name = "a", .type = TR_ST_BF16, .ndim = 2, .shape = {2, 3}, .data = half},
        {.name = "b", .type = TR_ST_U8, .ndim = 1, .shape = {5}, .data = half}};
    struct fr_buf st = {0}, json = {0};
    struct fr_err err;

    if (mkdtemp(dir) == NULL || tr_tokenizer_load(tokenizer, &tok, &err) != FR_OK)
        return EXIT_FAILURE;
    (void)snprintf(path, sizeof(path), "%s/seed", dir);
    CHECK_INT(tr_st_write(path, items, 2, &(struct tr_st_pair){"format", "pt"}, 1, &err), FR_OK);
    CHECK_INT(fr_file_read(path, 4096, &st, &err), FR_OK);
    CHECK_INT(fr_file_read(tokenizer, 1 << 20, &json, &err), FR_OK);
    fuzz("safetensors", "x.safetensors", (struct fr_str){st.p, st.n}, parse_safetensors);
    fuzz("config.json", "config.json", FR_STR(model), parse_model);
    fuzz("DeepSpeed JSON", "ds.json", FR_STR(ds), parse_ds);
    fuzz("adapter_config.json", "adapter_config.json", FR_STR(lora), parse_lora);
    fuzz("arguments", "a.yaml", FR_STR(args), parse_args);
    fuzz("tokenizer.json", "tokenizer.json", (struct fr_str){json.p, json.n}, parse_tokenizer);
    (void)snprintf(path, sizeof(path), "%s/dataset_info.json", dir);
    CHECK_INT(fr_file_write(path, info, sizeof(info) - 1, 0644, &err), FR_OK);
    fuzz("records", "a.json", FR_STR(records), parse_set);
    (void)snprintf(path, sizeof(path), "%s/a.json", dir);
    CHECK_INT(fr_file_write(path, records, sizeof(records) - 1, 0644, &err), FR_OK);
    fuzz("dataset_info.json", "dataset_info.json", FR_STR(info), parse_set);
    fr_buf_finish(&st);
    fr_buf_finish(&json);
    tr_tokenizer_destroy(tok);
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
    return check_done();
}

/* Modules that are trained whole beside adapters: which, and whose tensors take whose places. */
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "tests/unit/check.h"
#include "trainer/config/lora_saves.h"

#include <stdlib.h>
#include <string.h>

enum { V = 6, H = 4 };

static char dir[] = "/tmp/flowtrain-saves-XXXXXX";
static char path[256];

static const char *in_dir(const char *name)
{
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static struct tr_model_config model(bool tied, bool experts)
{
    const char *text =
        experts ? "{\"model_type\":\"qwen3_moe\",\"vocab_size\":6,\"hidden_size\":4,"
                  "\"num_hidden_layers\":1,\"num_attention_heads\":1,\"num_key_value_heads\":1,"
                  "\"head_dim\":4,\"intermediate_size\":4,\"moe_intermediate_size\":4,"
                  "\"num_experts\":2,\"num_experts_per_tok\":1,\"decoder_sparse_step\":1,"
                  "\"mlp_only_layers\":[],\"norm_topk_prob\":true,\"hidden_act\":\"silu\","
                  "\"rms_norm_eps\":1e-6,\"max_position_embeddings\":8,\"rope_theta\":10000}"
                : "{\"model_type\":\"llama\",\"vocab_size\":6,\"hidden_size\":4,"
                  "\"num_hidden_layers\":1,\"num_attention_heads\":1,\"num_key_value_heads\":1,"
                  "\"head_dim\":4,\"intermediate_size\":4,\"hidden_act\":\"silu\","
                  "\"attention_bias\":true,\"rms_norm_eps\":1e-6,\"max_position_embeddings\":8,"
                  "\"rope_theta\":10000}";
    struct tr_model_config c;
    struct fr_err err;

    CHECK_INT(fr_file_write(in_dir("config.json"), text, strlen(text), 0644, NULL), FR_OK);
    if (!CHECK_INT(tr_model_config_load(dir, &c, &err), FR_OK))
        printf("   %s\n", err.msg);
    c.tie_word_embeddings = tied;
    return c;
}

static const struct {
    const char *name, *tensor;
    bool saves;
} matches[] = {
    {"norm", "model.norm.weight", true},
    {"norm", "model.layers.0.input_layernorm.weight", true},
    {"norm", "model.layers.0.self_attn.q_proj.weight", false},
    {"model.norm", "model.norm.weight", true},
    {"model.norm", "model.layers.0.input_layernorm.weight", false},
    {"q_proj", "model.layers.0.self_attn.q_proj.bias", true},
    {"q_proj", "model.layers.0.self_attn.q_proj.weight_scale_inv", false},
    {"0.self_attn.q_proj", "model.layers.10.self_attn.q_proj.weight", true},
    {"q_proj.weight", "model.layers.0.self_attn.q_proj.weight", false},
};

static void test_match(void)
{
    for (size_t i = 0; i < sizeof(matches) / sizeof(matches[0]); i++) {
        const struct tr_lora_config c = {.saves = &matches[i].name, .nsaves = 1};
        const char *dot = strrchr(matches[i].tensor, '.');
        char module[TR_NAME_MAX];

        check_row(matches[i].tensor);
        CHECK_INT(tr_lora_saves_tensor(&c, matches[i].tensor), matches[i].saves);
        (void)snprintf(module, sizeof(module), "%.*s", (int)(dot - matches[i].tensor),
                       matches[i].tensor);
        if (strcmp(dot, ".weight") == 0)
            CHECK_INT(tr_lora_saves(&c, module), matches[i].saves);
    }
}

/* A module that is saved is no target. */
static void test_no_adapter(void)
{
    const char *q = "q_proj", *both[] = {"q_proj", "k_proj"};
    const struct tr_lora_config c = {
        .r = 2, .alpha = 2, .targets = both, .ntargets = 2, .saves = &q, .nsaves = 1};
    struct tr_lora_hit hit;

    check_row("no adapter");
    CHECK_INT(tr_lora_match(&c, "model.layers.0.self_attn.q_proj", &hit, NULL), FR_OK);
    CHECK(!hit.adapted);
    CHECK_INT(tr_lora_match(&c, "model.layers.0.self_attn.k_proj", &hit, NULL), FR_OK);
    CHECK(hit.adapted);
}

static const struct {
    const char *name, *want; /* NULL: it may be saved */
    enum fr_rc rc;
    bool experts;
} checks[] = {
    {"norm", NULL, FR_OK, true},
    {"lm_head", NULL, FR_OK, false},
    {"x_proj", "x_proj is the name of no module", FR_USAGE, false},
    {"self_attn", "model.layers.0.self_attn is a module with parts", FR_UNSUPPORTED, false},
    {"layers.0", "model.layers.0 is a module with parts", FR_UNSUPPORTED, false},
    {"mlp.gate", "mlp.gate.weight is of a router", FR_UNSUPPORTED, true},
    {"up_proj", "experts.0.up_proj.weight is of a routed expert", FR_UNSUPPORTED, true},
};

static void test_check(void)
{
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        const struct tr_lora_config c = {.saves = &checks[i].name, .nsaves = 1};
        struct tr_model_config m = model(false, checks[i].experts);
        struct fr_err err = {0};

        check_row(checks[i].name);
        CHECK_INT(tr_lora_check_saves(&c, &m, &err), checks[i].rc);
        CHECK(checks[i].want == NULL || strstr(err.msg, checks[i].want) != NULL);
    }
}

static const float base[V * H] = {1, 2, 3}, trained[V * H] = {5, 6, 7};

static void put_adapter(const char *name, const char *tensor)
{
    struct tr_st_item item = {
        .name = tensor, .type = TR_ST_F32, .ndim = 2, .shape = {V, H}, .data = trained};

    CHECK_INT(fr_mkdirs(in_dir(name), 0755, NULL), FR_OK);
    (void)snprintf(path, sizeof(path), "%s/%s/adapter_model.safetensors", dir, name);
    CHECK_INT(tr_st_write(path, &item, 1, NULL, 0, NULL), FR_OK);
}

/* The first number of a tensor; 0: there is none. */
static float first(const struct tr_st *st, const char *name)
{
    const struct tr_st_tensor *t = tr_st_find(st, name);
    uint16_t half = 0;
    float x = 0;

    if (t == NULL)
        return 0;
    if (t->type == TR_ST_F32)
        CHECK_INT(tr_st_read(st, t, 0, &x, sizeof(x), NULL), FR_OK);
    else
        CHECK_INT(tr_st_read(st, t, 0, &half, sizeof(half), NULL), FR_OK);
    return t->type == TR_ST_F32 ? x : tr_bf16_to(half);
}

static void put_base(enum tr_st_type type)
{
    uint16_t half[V * H];
    struct tr_st_item item = {.name = "model.embed_tokens.weight",
                              .type = type,
                              .ndim = 2,
                              .shape = {V, H},
                              .data = type == TR_ST_F32 ? (const void *)base : half};

    for (size_t i = 0; i < V * H; i++)
        half[i] = tr_bf16_of(base[i]);
    CHECK_INT(tr_st_write(in_dir("base.safetensors"), &item, 1, NULL, 0, NULL), FR_OK);
}

/* One tensor becomes two, and only the saved one is the adapter's. */
static void test_settle(void)
{
    static const struct {
        const char *name, *adapter; /* NULL: the names are of flags */
        float embed, head;
        bool tied; /* after it */
    } rows[] = {
        {"lm_head", "head", 1, 5, false},
        {"embed_tokens", "embed", 5, 1, false},
        {"lm_head", NULL, 1, 1, false},
        {"q_proj", NULL, 1, 0, true},
    };
    const char *embed = "model.embed_tokens.weight", *head = "lm_head.weight";

    put_adapter("head", "base_model.model.lm_head.weight");
    put_adapter("embed", "base_model.model.model.embed_tokens.weight");
    put_base(TR_ST_BF16);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_lora_config c = {.saves = &rows[i].name, .nsaves = 1};
        struct tr_model_config m = model(true, false);
        struct tr_st *st = NULL;
        char adapter[256];

        check_row(rows[i].name);
        CHECK_INT(tr_st_open(in_dir("base.safetensors"), &st, NULL), FR_OK);
        (void)snprintf(adapter, sizeof(adapter), "%s/%s", dir,
                       rows[i].adapter != NULL ? rows[i].adapter : "");
        c.dir = rows[i].adapter != NULL ? adapter : NULL;
        CHECK_INT(tr_lora_settle(&c, &m, st, NULL), FR_OK);
        CHECK_INT(m.tie_word_embeddings, rows[i].tied);
        CHECK(first(st, embed) == rows[i].embed && first(st, head) == rows[i].head);
        CHECK_INT(tr_st_unchanged(st, NULL), FR_OK);
        if (rows[i].adapter != NULL) {
            const struct tr_st_tensor *t = tr_st_find(st, rows[i].embed == 5 ? embed : head);

            CHECK(t->over && t->under == TR_ST_BF16 && t->type == TR_ST_F32);
            CHECK_INT(tr_st_files(st), 2);
        }
        tr_st_close(st);
    }
}

static void test_settle_refused(void)
{
    const char *name = "embed_tokens";
    struct tr_lora_config c = {.saves = &name, .nsaves = 1};
    struct tr_model_config m = model(false, false);
    struct tr_st *st = NULL;
    struct fr_err err = {0};
    char adapter[256];

    check_row("the adapter lacks it");
    (void)snprintf(adapter, sizeof(adapter), "%s/head", dir);
    c.dir = adapter;
    CHECK_INT(tr_st_open(in_dir("base.safetensors"), &st, NULL), FR_OK);
    CHECK_INT(tr_lora_settle(&c, &m, st, &err), FR_USAGE);
    CHECK(strstr(err.msg, "it lacks base_model.model.model.embed_tokens.weight") != NULL);
    CHECK(first(st, "model.embed_tokens.weight") == 1);
    tr_st_close(st);
}

int main(void)
{
    if (mkdtemp(dir) == NULL)
        return 1;
    test_match();
    test_no_adapter();
    test_check();
    test_settle();
    test_settle_refused();
    (void)fr_remove_tree(dir, NULL);
    return check_done();
}

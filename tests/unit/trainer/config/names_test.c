/* Names of tensors by role, with those of an architecture that nobody has. */
#include "tests/unit/check.h"
#include "trainer/config/arch.h"
#include "trainer/tensor/safetensors.h"

#include <string.h>
#include <unistd.h>

static const struct tr_tensor_names other = {
    .embed = "trunk.words.weight",
    .layers = "trunk.h",
    .experts = "moe.one",
    .head = "out.weight",
    .router = "moe.choice.weight",
    .router_bias = "moe.choice_bias",
    .norm = {[TR_NORM_ATTENTION] = "n1",
             [TR_NORM_KV] = "att.latent_norm",
             [TR_NORM_FFN] = "n2",
             [TR_NORM_FINAL] = "trunk.n"},
    .linear = {[TR_LIN_Q] = "att.query",
               [TR_LIN_KV_A] = "att.down",
               "att.up",
               "att.out",
               [TR_LIN_GATE] = "ff.a",
               "ff.b",
               "ff.c",
               [TR_LIN_GATE + TR_OF_SHARED] = "moe.all.a",
               "moe.all.b",
               "moe.all.c",
               [TR_LIN_GATE + TR_OF_EXPERT] = "w_a",
               "w_b",
               "w_c"},
};

/* A dense layer, and one with an expert and a shared one. */
static const struct {
    const char *name;
    enum tr_tensor_role role;
    int of; /* the kind of a linear or a norm */
} tensors[] = {
    {"trunk.words.weight", TR_ROLE_EMBED, 0},
    {"trunk.h.0.n1.weight", TR_ROLE_NORM, TR_NORM_ATTENTION},
    {"trunk.h.0.att.query.weight", TR_ROLE_LINEAR, TR_LIN_Q},
    {"trunk.h.0.att.down.weight", TR_ROLE_LINEAR, TR_LIN_KV_A},
    {"trunk.h.0.att.down.bias", TR_ROLE_BIAS, TR_LIN_KV_A},
    {"trunk.h.0.att.latent_norm.weight", TR_ROLE_NORM, TR_NORM_KV},
    {"trunk.h.0.att.up.weight", TR_ROLE_LINEAR, TR_LIN_KV_B},
    {"trunk.h.0.att.out.weight", TR_ROLE_LINEAR, TR_LIN_O},
    {"trunk.h.0.att.out.bias", TR_ROLE_BIAS, TR_LIN_O},
    {"trunk.h.0.n2.weight", TR_ROLE_NORM, TR_NORM_FFN},
    {"trunk.h.0.ff.a.weight", TR_ROLE_LINEAR, TR_LIN_GATE},
    {"trunk.h.0.ff.b.weight", TR_ROLE_LINEAR, TR_LIN_UP},
    {"trunk.h.0.ff.c.weight", TR_ROLE_LINEAR, TR_LIN_DOWN},
    {"trunk.h.1.n1.weight", TR_ROLE_NORM, TR_NORM_ATTENTION},
    {"trunk.h.1.att.query.weight", TR_ROLE_LINEAR, TR_LIN_Q},
    {"trunk.h.1.att.down.weight", TR_ROLE_LINEAR, TR_LIN_KV_A},
    {"trunk.h.1.att.down.bias", TR_ROLE_BIAS, TR_LIN_KV_A},
    {"trunk.h.1.att.latent_norm.weight", TR_ROLE_NORM, TR_NORM_KV},
    {"trunk.h.1.att.up.weight", TR_ROLE_LINEAR, TR_LIN_KV_B},
    {"trunk.h.1.att.out.weight", TR_ROLE_LINEAR, TR_LIN_O},
    {"trunk.h.1.att.out.bias", TR_ROLE_BIAS, TR_LIN_O},
    {"trunk.h.1.n2.weight", TR_ROLE_NORM, TR_NORM_FFN},
    {"trunk.h.1.moe.choice.weight", TR_ROLE_ROUTER, 0},
    {"trunk.h.1.moe.choice_bias", TR_ROLE_ROUTER_BIAS, 0},
    {"trunk.h.1.moe.one.0.w_a.weight", TR_ROLE_LINEAR, TR_LIN_GATE},
    {"trunk.h.1.moe.one.0.w_b.weight", TR_ROLE_LINEAR, TR_LIN_UP},
    {"trunk.h.1.moe.one.0.w_c.weight", TR_ROLE_LINEAR, TR_LIN_DOWN},
    {"trunk.h.1.moe.all.a.weight", TR_ROLE_LINEAR, TR_LIN_GATE},
    {"trunk.h.1.moe.all.b.weight", TR_ROLE_LINEAR, TR_LIN_UP},
    {"trunk.h.1.moe.all.c.weight", TR_ROLE_LINEAR, TR_LIN_DOWN},
    {"trunk.n.weight", TR_ROLE_NORM, TR_NORM_FINAL},
    {"out.weight", TR_ROLE_HEAD, 0},
};
enum { TENSORS = sizeof(tensors) / sizeof(tensors[0]) };

static enum fr_rc compare(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    size_t *n = arg;

    (void)err;
    if (CHECK(*n < TENSORS)) {
        check_row(tensors[*n].name);
        CHECK_TEXT(t->name, tensors[*n].name);
        CHECK_INT(t->role, tensors[*n].role);
        if (t->role == TR_ROLE_NORM)
            CHECK_INT((int)t->norm, tensors[*n].of);
        if (t->role == TR_ROLE_LINEAR || t->role == TR_ROLE_BIAS)
            CHECK_INT((int)t->kind, tensors[*n].of);
    }
    (*n)++;
    return FR_OK;
}

static void test_tensors(void)
{
    const struct tr_model_config c = {.arch = TR_ARCH_deepseek,
                                      .vocab_size = 9,
                                      .hidden_size = 8,
                                      .num_hidden_layers = 2,
                                      .num_attention_heads = 1,
                                      .n_routed_experts = 1,
                                      .n_shared_experts = 1,
                                      .first_k_dense_replace = 1,
                                      .attention_bias = true};
    size_t n = 0;

    CHECK_INT(tr_names_tensors(&other, &c, compare, &n, NULL), FR_OK);
    CHECK_INT((long)n, TENSORS);
}

static void test_linear(void)
{
    const struct tr_tensor_names *deepseek = tr_arch_deepseek()->names;
    const struct {
        const struct tr_tensor_names *names;
        const char *module;
        int is;
    } rows[] = {
        {&other, "trunk.h.70.att.query", TR_LIN_Q},
        {&other, "trunk.h.0.ff.b", TR_LIN_UP},
        {&other, "trunk.h.0.moe.all.b", TR_LIN_UP + TR_OF_SHARED},
        {&other, "trunk.h.0.moe.one.12.w_b", TR_LIN_UP + TR_OF_EXPERT},
        {&other, "trunk.h.0.moe.choice", -1},
        {&other, "trunk.h.0.self_attn.q_proj", -1},
        {&other, "out", -1},
        {deepseek, "model.layers.61.mlp.experts.255.up_proj", TR_LIN_UP + TR_OF_EXPERT},
        {deepseek, "model.layers.61.mlp.shared_experts.up_proj", TR_LIN_UP + TR_OF_SHARED},
        {deepseek, "model.layers.61.eh_proj", -1}, /* published in bf16 beside FP8 weights */
        {deepseek, "model.layers.61.mlp.gate", -1},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].module);
        CHECK_INT(tr_names_linear(rows[i].names, rows[i].module), rows[i].is);
    }
}

/* Names without the trunk's become whole, all others stay. */
static void test_whole(void)
{
    static const char *const names[][2] = {{"h.0.ff.a.weight", "trunk.h.0.ff.a.weight"},
                                           {"hx.0.weight", "hx.0.weight"},
                                           {"layers.0.weight", "layers.0.weight"},
                                           {"n.weight", "trunk.n.weight"},
                                           {"out.weight", "out.weight"},
                                           {"words.weight", "trunk.words.weight"}};
    const char *const roots[] = {other.embed, other.layers, other.norm[TR_NORM_FINAL]};
    enum { NAMES = sizeof(names) / sizeof(names[0]) };
    char path[] = "/tmp/flowrun-names-XXXXXX.safetensors";
    struct tr_st_item items[NAMES];
    struct tr_st *st = NULL;
    struct fr_err err = {0};
    float one = 1;
    int fd = mkstemps(path, 12);

    CHECK(fd >= 0 && close(fd) == 0);
    for (int i = 0; i < NAMES; i++)
        items[i] = (struct tr_st_item){
            .name = names[i][0], .type = TR_ST_F32, .ndim = 1, .shape = {1}, .data = &one};
    CHECK_INT(tr_st_write(path, items, NAMES, NULL, 0, &err), FR_OK);
    CHECK_INT(tr_st_open(path, &st, &err), FR_OK);
    CHECK_INT(tr_st_whole_names(st, roots, 3, NULL, &err), FR_OK);
    for (int i = 0; i < NAMES; i++) {
        check_row(names[i][0]);
        CHECK(tr_st_find(st, names[i][1]) != NULL);
    }
    tr_st_close(st);
    CHECK_INT(unlink(path), 0);
}

int main(void)
{
    test_tensors();
    test_linear();
    test_whole();
    return check_done();
}

/*
 * Small models against the reference stack (tests/golden/deepseek_v3.py, dense.py, experts.py):
 * logits, loss, every adapter gradient, ten AdamW steps. Error of a tensor = |g - g*| / |g*|
 * (2-norm). f32: at most 1e-4, logits of dense models 1e-5. bf16, with the golden's experts
 * injected: our distance to the f32 golden is at most 1.5 times that of the reference's own bf16
 * run; gradients of dense.py and experts.py, whose tensors of 150 numbers have luck, may be off by
 * twice the mean of the reference's gradients. A golden with limits of its own (rounding.py) has
 * them instead, and one of all gradients together.
 */
#include "tests/op/prove.h"
#include "tests/unit/check.h"
#include "trainer/save/export.h"
#include "trainer/optim/optim.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TOKENS = 192, LAYERS = 4, STEPS = 10 };

static const char *const configs[] = {
    "deepseek_v3/yarn",        "deepseek_v3/plain",         "deepseek_v3/no_q_lora",
    "deepseek_v3/one_group",   "deepseek_v3/two_shared",    "deepseek_v3/negative_bias",
    "dense/llama_biases",      "dense/mistral_window",      "dense/qwen2_plain",
    "dense/qwen3_yarn",        "experts/qwen3_moe_no_norm", "experts/mixtral_plain",
    "dense/llama_plain",       "dense/llama_one_kv",        "dense/llama_llama3",
    "dense/llama_linear",      "dense/llama_yarn",          "dense/mistral_plain",
    "dense/mistral_one_kv",    "dense/mistral_each_kv",     "dense/mistral_llama3",
    "dense/mistral_yarn",      "dense/mistral_dynamic",     "dense/qwen2_window",
    "dense/qwen2_one_kv",      "dense/qwen2_each_kv",       "dense/qwen2_linear",
    "dense/qwen2_yarn",        "dense/qwen2_dynamic",       "dense/qwen3_window",
    "dense/qwen3_plain",       "dense/qwen3_one_kv",        "dense/qwen3_biases",
    "dense/qwen3_llama3",      "dense/qwen3_linear",        "experts/qwen3_moe_plain",
    "experts/qwen3_moe_mixed", "experts/mixtral_window",
};
enum { CONFIGS = sizeof(configs) / sizeof(*configs), PROVEN = 12 }; /* the first have all ops */

struct parity {
    struct tr_backend *be;
    struct tr_comm *comm;
    struct tr_model_config config;
    struct tr_lora_config lora;
    struct tr_st *weights, *golden;
    struct tr_model *model;
    struct tr_optim optim;
    struct tr_params p;
    float *flat, *logits;
    int32_t ids[TOKENS], pos[TOKENS], targets[TOKENS];
    int32_t experts[LAYERS][TOKENS * 8];
    const int32_t *forced[LAYERS];
    int64_t offsets[3];
    struct tr_micro mb;
    int64_t count;  /* targets */
    double squares; /* of the gradients' distances, their sum */
    char dir[256];
};

static int64_t read_i64(const struct parity *p, const char *name, int64_t *out, size_t n)
{
    const struct tr_st_tensor *t = tr_st_find(p->golden, name);
    struct fr_err err = {0};

    if (t == NULL || t->elements > (int64_t)n)
        return 0;
    return tr_st_read(p->golden, t, 0, out, (size_t)t->bytes, &err) == FR_OK ? t->elements : 0;
}

/* A golden f32 tensor; the caller frees it. */
static float *read_f32(const struct parity *p, const char *name, int64_t *n)
{
    const struct tr_st_tensor *t = tr_st_find(p->golden, name);
    struct fr_err err = {0};
    float *out;

    if (!CHECK(t != NULL)) {
        printf("no golden %s\n", name);
        *n = 0;
        return NULL;
    }
    out = malloc((size_t)t->bytes);
    *n = t->elements;
    CHECK_INT(tr_st_read(p->golden, t, 0, out, (size_t)t->bytes, &err), FR_OK);
    return out;
}

static void read_batch(struct parity *p)
{
    int64_t ids[2 * TOKENS], labels[2 * TOKENS], lengths[2] = {0}, width, T = 0;
    char name[32];
    struct fr_err err = {0};

    width = read_i64(p, "input_ids", ids, 2 * TOKENS) / 2;
    CHECK_INT(read_i64(p, "labels", labels, 2 * TOKENS), 2 * width);
    CHECK_INT(read_i64(p, "lengths", lengths, 2), 2);
    for (int64_t b = 0; b < 2; b++) {
        for (int64_t i = 0; i < lengths[b]; i++, T++) {
            int64_t next = i + 1 < lengths[b] ? labels[b * width + i + 1] : -100;

            p->ids[T] = (int32_t)ids[b * width + i];
            p->pos[T] = (int32_t)i;
            p->targets[T] = next >= 0 ? (int32_t)next : -1;
            p->count += next >= 0;
        }
        p->offsets[b + 1] = T;
    }
    for (int i = 0; i < LAYERS; i++) {
        const struct tr_st_tensor *t;

        (void)snprintf(name, sizeof(name), "experts.%d", i);
        p->forced[i] = p->experts[i];
        if ((t = tr_st_find(p->golden, name)) != NULL)
            CHECK_INT(tr_st_read(p->golden, t, 0, p->experts[i], (size_t)t->bytes, &err), FR_OK);
    }
    p->mb = (struct tr_micro){.T = T,
                              .B = 2,
                              .ids = p->ids,
                              .pos = p->pos,
                              .targets = p->targets,
                              .offsets = p->offsets,
                              .loss_scale = 1.0 / (double)p->count};
}

/* keep: bytes of activations that wait for the backward. */
static enum fr_rc load(struct parity *p, enum tr_dtype compute, size_t keep, struct fr_err *err)
{
    struct tr_model_opts o = {.be = p->be,
                              .comm = p->comm,
                              .config = &p->config,
                              .lora = &p->lora,
                              .compute = compute,
                              .samples_max = 2,
                              .train = true,
                              .logits = true};
    char golden[300];
    enum fr_rc rc;

    (void)snprintf(golden, sizeof(golden), "%s/golden.safetensors", p->dir);
    o.limits.max_live = 1000000;
    if ((rc = tr_model_config_load(p->dir, &p->config, err)) != FR_OK ||
        (rc = tr_lora_read(p->dir, &p->lora, err)) != FR_OK ||
        (rc = tr_st_open_folder(p->dir, false, NULL, &p->weights, err)) != FR_OK ||
        (rc = tr_st_open(golden, &p->golden, err)) != FR_OK)
        return rc;
    read_batch(p);
    o.tokens_max = p->mb.T;
    if ((rc = tr_model_create(&o, &p->model, NULL, err)) != FR_OK)
        return rc;
    tr_model_keep(p->model, keep);
    if ((rc = tr_model_load(p->model, p->weights, NULL, err)) != FR_OK ||
        (rc = tr_optim_create(&p->optim, p->model, p->comm, p->be, err)) != FR_OK)
        return rc;
    tr_model_params(p->model, &p->p);
    p->flat = calloc((size_t)p->p.padded, sizeof(float));
    if ((rc = tr_import_adapter(p->dir, &p->p, &p->lora, p->flat, err)) != FR_OK ||
        (rc = tr_optim_set(&p->optim, p->flat, err)) != FR_OK)
        return rc;
    p->logits = calloc((size_t)(p->mb.T * p->config.vocab_size), sizeof(float));
    return FR_OK;
}

static void unload(struct parity *p)
{
    tr_optim_finish(&p->optim);
    tr_model_destroy(p->model);
    tr_st_close(p->weights);
    tr_st_close(p->golden);
    tr_lora_finish(&p->lora);
    free(p->flat);
    free(p->logits);
}

static double distance(const float *x, const float *want, int64_t n)
{
    double diff = 0, norm = 0;

    for (int64_t i = 0; i < n; i++) {
        double d = (double)x[i] - (double)want[i];

        diff += d * d;
        norm += (double)want[i] * (double)want[i];
    }
    return norm > 0 ? sqrt(diff / norm) : INFINITY;
}

/* Golden PREFIX.NAME of one number; 0 without. */
static double number(const struct parity *p, const char *prefix, const char *name)
{
    char full[220];
    const struct tr_st_tensor *t;
    struct fr_err err = {0};
    float x = 0;

    (void)snprintf(full, sizeof(full), "%s.%s", prefix, name);
    if ((t = tr_st_find(p->golden, full)) != NULL)
        CHECK_INT(tr_st_read(p->golden, t, 0, &x, sizeof(x), &err), FR_OK);
    return (double)x;
}

/* How far NAME may be from its golden in bf16. */
static double bf16_limit(const struct parity *p, const char *name)
{
    double own = number(p, "limit", name);
    bool grad = strncmp(name, "grad.", 5) == 0;

    if (own > 0)
        return own;
    return fmax(1.5 * number(p, "bf16", name), grad ? 2 * number(p, "bf16", "grad") : 0);
}

static void check_distance(const char *name, bool bf16, double got, double limit)
{
    if (!CHECK(got <= limit) || getenv("PARITY_SHOW") != NULL)
        printf("  %s %s: %.3g, limit %.3g\n", bf16 ? "bf16" : "f32", name, got, limit);
}

/* Golden NAME against x; the distance. */
static double compare(const struct parity *p, const char *name, const float *x, bool bf16)
{
    bool dense = p->config.n_routed_experts == 0;
    double got, limit = dense && strcmp(name, "logits") == 0 ? 1e-5 : 1e-4;
    int64_t n;
    float *want = read_f32(p, name, &n);

    if (want == NULL)
        return INFINITY;
    got = distance(x, want, n);
    check_distance(name, bf16, got, bf16 ? bf16_limit(p, name) : limit);
    free(want);
    return got;
}

static enum fr_rc keep_logits(void *arg, const float *chunk, int64_t col0, int64_t ncols,
                              struct fr_err *err)
{
    struct parity *p = arg;

    (void)err;
    for (int64_t t = 0; t < p->mb.T; t++)
        memcpy(p->logits + t * p->config.vocab_size + col0, chunk + t * ncols,
               (size_t)ncols * sizeof(float));
    return FR_OK;
}

static float mean_loss(struct parity *p)
{
    struct fr_err err = {0};
    double sum = NAN;

    CHECK_INT(tr_model_take_loss(p->model, &sum, &err), FR_OK);
    return (float)(sum / (double)p->count);
}

static void check_forward(struct parity *p, bool bf16)
{
    struct tr_logits emit = {.chunk = keep_logits, .arg = p};
    int32_t chosen[TOKENS * 8];
    struct fr_err err = {0};
    float loss;

    if (!CHECK(tr_model_forward(p->model, &p->mb, &emit, &err) == FR_OK))
        printf("%s\n", err.msg);
    loss = mean_loss(p);
    compare(p, "logits", p->logits, bf16);
    if (!bf16)
        compare(p, "loss", &loss, false);
    for (int64_t i = 0; i < tr_model_moe_layers(p->model); i++) {
        CHECK_INT(tr_model_routing(p->model, i, 0, chosen, &err), FR_OK);
        CHECK(memcmp(chosen, p->experts[i],
                     (size_t)(p->mb.T * p->config.num_experts_per_tok) * sizeof(int32_t)) == 0);
    }
}

/* Adapter tensor k (A even, B odd) in PEFT's name with a prefix, and its place. */
static int64_t tensor(const struct parity *p, size_t k, const char *prefix, char name[200])
{
    const struct tr_adapter *a = &p->p.adapters[k / 2];

    (void)snprintf(name, 200, "%s.base_model.model.%s.lora_%c.weight", prefix, a->module,
                   k % 2 == 0 ? 'A' : 'B');
    return k % 2 == 0 ? a->a_at : a->b_at;
}

static void check_backward(struct parity *p, bool bf16)
{
    struct fr_err err = {0};
    char name[200];

    CHECK_INT(tr_optim_zero_grad(&p->optim, &err), FR_OK);
    if (!CHECK(tr_model_forward_backward(p->model, &p->mb, &err) == FR_OK))
        printf("%s\n", err.msg);
    (void)mean_loss(p);
    p->squares = 0;
    for (size_t k = 0; k < 2 * p->p.n; k++) {
        int64_t at = tensor(p, k, "grad", name);

        p->squares += pow(compare(p, name, (const float *)p->p.grad.p + at, bf16), 2);
    }
    if (bf16 && number(p, "limit", "grad") > 0)
        check_distance("all gradients", bf16, sqrt(p->squares), number(p, "limit", "grad"));
}

static double norm_of_gradients(const struct parity *p)
{
    const float *g = p->p.grad.p;
    double sum = 0;

    for (int64_t i = 0; i < p->p.padded; i++)
        sum += (double)g[i] * (double)g[i];
    return sqrt(sum);
}

/* Constants of ADAMW in the script. */
static void check_steps(struct parity *p)
{
    struct tr_optim_result result;
    struct fr_err err = {0};
    char name[200];
    float losses[STEPS];
    double lr = 3e-5, moved = 0, norm;
    float *want, *start;
    int64_t n;

    p->optim.beta1 = 0.9;
    p->optim.beta2 = 0.95;
    p->optim.eps = 1e-8;
    p->optim.weight_decay = 0.1;
    for (int i = 0; i < STEPS; i++) {
        CHECK_INT(tr_optim_zero_grad(&p->optim, &err), FR_OK);
        CHECK_INT(tr_model_forward_backward(p->model, &p->mb, &err), FR_OK);
        losses[i] = mean_loss(p);
        norm = norm_of_gradients(p);
        CHECK_INT(tr_optim_step(&p->optim, lr, 1, &result, &err), FR_OK);
        CHECK(!result.skipped && norm > 0 && fabs(result.grad_norm - norm) <= 1e-12 * norm);
    }
    compare(p, "steps.loss", losses, false);
    want = read_f32(p, "steps.loss", &n);
    CHECK(fabs((double)(losses[STEPS - 1] - losses[0] - want[STEPS - 1] + want[0])) <=
          1e-3 * fabs((double)(want[STEPS - 1] - want[0])));
    free(want);
    start = malloc((size_t)p->p.padded * sizeof(float));
    memcpy(start, p->flat, (size_t)p->p.padded * sizeof(float));
    CHECK_INT(tr_optim_whole(&p->optim, TR_OPTIM_MASTER, p->flat, &err), FR_OK);
    for (size_t k = 0; k < 2 * p->p.n; k++) {
        int64_t at = tensor(p, k, "final", name);

        compare(p, name, p->flat + at, false);
        want = read_f32(p, name, &n);
        for (int64_t i = 0; i < n; i++) { /* what the ten steps moved */
            p->flat[at + i] -= start[at + i];
            want[i] -= start[at + i];
        }
        moved = fmax(moved, distance(p->flat + at, want, n));
        free(want);
    }
    free(start);
    if (!CHECK(moved <= 5e-3))
        printf("  ten steps' movement: off by %.3g\n", moved);
}

/* The gradients of p are those of a model that keeps activations, all of them or some, to the bit;
 * twice, for what is kept is used up. How many bytes it keeps is returned. */
static size_t check_kept(const struct parity *p, enum tr_dtype compute, size_t keep)
{
    struct parity *k = calloc(1, sizeof(*k));
    struct fr_err err = {0};
    size_t bytes = 0;

    k->be = p->be;
    k->comm = p->comm;
    memcpy(k->dir, p->dir, sizeof(k->dir));
    if (CHECK(load(k, compute, keep, &err) == FR_OK)) {
        bytes = tr_model_kept(k->model);
        CHECK((bytes > 0 || p->config.num_hidden_layers == 1) && bytes <= keep);
        k->mb.forced = p->mb.forced;
        for (int i = 0; i < 2; i++) {
            CHECK_INT(tr_optim_zero_grad(&k->optim, &err), FR_OK);
            CHECK_INT(tr_model_forward_backward(k->model, &k->mb, &err), FR_OK);
            (void)mean_loss(k);
            CHECK(memcmp(k->p.grad.p, p->p.grad.p, tr_view_bytes(p->p.grad)) == 0);
        }
    } else
        printf("%s\n", err.msg);
    unload(k);
    free(k);
    return bytes;
}

/* One row of the table: a model in a compute type. */
struct row {
    char name[64];
    const char *config;
    bool bf16;
};

/* all: what comes behind a failed check is looked at too. */
static void try_row(const struct row *row, struct tr_backend *be, struct tr_comm *comm, bool all)
{
    struct parity *p = calloc(1, sizeof(*p));
    enum tr_dtype compute = row->bf16 ? TR_BF16 : TR_F32;
    struct fr_err err = {0};

    check_row(row->name);
    p->be = be;
    p->comm = comm;
    if (row->config[0] == '/')
        (void)snprintf(p->dir, sizeof(p->dir), "%s", row->config);
    else
        (void)snprintf(p->dir, sizeof(p->dir), "%s/tests/golden/%s", SOURCE_ROOT, row->config);
    if (!CHECK(load(p, compute, 0, &err) == FR_OK)) {
        printf("%s: %s\n", row->name, err.msg);
    } else {
        if (row->bf16)
            p->mb.forced = p->forced;
        check_forward(p, row->bf16);
        if (check_counts.failed == 0 || all)
            check_backward(p, row->bf16);
        if (all) {
            size_t most = check_kept(p, compute, SIZE_MAX);

            CHECK(check_kept(p, compute, most - 1) < most);
        }
        if ((check_counts.failed == 0 || all) && !row->bf16)
            check_steps(p);
    }
    unload(p);
    free(p);
}

/* Runs a row on the CPU backend with a fault; whether a check failed. */
static bool run_row(const void *arg, const struct mutant *what)
{
    struct tr_backend *cpu = NULL, *be = NULL;
    struct tr_comm *comm = NULL;
    struct fr_err err = {0};

    if (CHECK(tr_cpu_create(&cpu, &err) == FR_OK && mutant_create(cpu, what, &be, &err) == FR_OK &&
              tr_comm_single(be, &comm, &err) == FR_OK))
        try_row(arg, be, comm, what->mutation == MUTATIONS);
    tr_comm_destroy(comm);
    tr_backend_destroy(be);
    tr_backend_destroy(cpu);
    return check_counts.failed > 0;
}

/* ---- LoRA+ (tests/golden/loraplus.py) ---- */

/* Losses within 2.5e-7 of LLaMA-Factory's (f32 at a loss of 5 has steps of 1e-7), and how far each
 * tensor moved within 1e-4. */
static void check_loraplus(struct parity *p, const json_t *row)
{
    struct tr_optim_result result;
    struct fr_err err = {0};
    float *start = malloc((size_t)p->p.padded * sizeof(float));
    double worst = 0;

    p->optim.beta1 = 0.9;
    p->optim.beta2 = 0.95;
    p->optim.eps = 1e-8;
    p->optim.weight_decay = 0.1;
    p->optim.b_ratio = json_number_value(json_object_get(row, "ratio"));
    memcpy(start, p->flat, (size_t)p->p.padded * sizeof(float));
    for (size_t i = 0; i < STEPS; i++) {
        double want = json_number_value(json_array_get(json_object_get(row, "losses"), i));

        CHECK_INT(tr_optim_zero_grad(&p->optim, &err), FR_OK);
        CHECK_INT(tr_model_forward_backward(p->model, &p->mb, &err), FR_OK);
        worst = fmax(worst, fabs((double)mean_loss(p) / want - 1));
        CHECK_INT(tr_optim_step(&p->optim, 3e-5, 1, &result, &err), FR_OK);
    }
    if (!CHECK(worst < 2.5e-7) || getenv("PARITY_SHOW") != NULL)
        printf("   losses are off by %.3g\n", worst);
    CHECK_INT(tr_optim_whole(&p->optim, TR_OPTIM_MASTER, p->flat, &err), FR_OK);
    CHECK_INT(json_object_size(json_object_get(row, "moved")), 2 * p->p.n);
    for (size_t k = 0; k < 2 * p->p.n; k++) {
        const struct tr_adapter *a = &p->p.adapters[k / 2];
        int64_t n = k % 2 == 0 ? a->r * a->in : a->r * a->out;
        char name[200];
        double norm = 0;
        int64_t at = tensor(p, k, "", name);
        double want = json_number_value(json_object_get(json_object_get(row, "moved"), name + 1));

        for (int64_t i = 0; i < n; i++)
            norm += pow((double)p->flat[at + i] - (double)start[at + i], 2);
        if (!CHECK(fabs(sqrt(norm) / want - 1) < 1e-4))
            printf("   %s moved %.9g, there %.9g\n", name + 1, sqrt(norm), want);
    }
    free(start);
}

static void test_loraplus(void)
{
    json_t *rows = json_load_file(SOURCE_ROOT "/tests/golden/loraplus.json", 0, NULL);
    struct parity *p = calloc(1, sizeof(*p));
    struct tr_comm *comm = NULL;
    struct tr_backend *be = NULL;
    struct fr_err err = {0};

    CHECK_INT(json_array_size(rows), 3);
    CHECK(tr_cpu_create(&be, &err) == FR_OK && tr_comm_single(be, &comm, &err) == FR_OK);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *model = json_string_value(json_object_get(row, "model"));

        check_row(model);
        *p = (struct parity){.be = be, .comm = comm};
        (void)snprintf(p->dir, sizeof(p->dir), "%s/tests/golden/%s", SOURCE_ROOT, model);
        if (CHECK(load(p, TR_F32, 0, &err) == FR_OK))
            check_loraplus(p, row);
        unload(p);
    }
    tr_comm_destroy(comm);
    tr_backend_destroy(be);
    json_decref(rows);
    free(p);
}

/* Every model folder of a list, in both types. */
static void run_folders(char **folders, int n)
{
    const struct mutant sound = {.mutation = MUTATIONS, .op = TR_OP_COUNT};

    for (int i = 0; i < 2 * n; i++) {
        struct row row = {.config = folders[i / 2], .bf16 = i % 2 == 1};

        (void)snprintf(row.name, sizeof(row.name), "%.58s %s", row.config,
                       row.bf16 ? "bf16" : "f32");
        run_row(&row, &sound);
    }
}

/* parity_test [mutations [all] | folders FOLDER …]: every row; or every fault in every op (prove.h)
 * of the first models, or of all, which takes a quarter of an hour; or these models alone. */
int main(int argc, char **argv)
{
    const struct mutant sound = {.mutation = MUTATIONS, .op = TR_OP_COUNT};
    bool prove = argc > 1 && strcmp(argv[1], "mutations") == 0;
    struct prove *p = NULL;

    if (argc > 2 && strcmp(argv[1], "folders") == 0) {
        run_folders(argv + 2, argc - 2);
        return check_done();
    }
    if (prove && prove_create(&p) != FR_OK)
        return EXIT_FAILURE;
    for (size_t i = 0; i < 2 * (prove && argc == 2 ? PROVEN : CONFIGS); i++) {
        struct row row = {.config = configs[i / 2], .bf16 = i % 2 == 1};

        (void)snprintf(row.name, sizeof(row.name), "%s %s", row.config, row.bf16 ? "bf16" : "f32");
        if (prove)
            prove_runs(p, row.name, run_row, &row);
        else
            run_row(&row, &sound);
    }
    if (prove)
        prove_print(p);
    else
        test_loraplus();
    return check_done();
}

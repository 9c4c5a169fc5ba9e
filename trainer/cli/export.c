/*
 * flowtrain export: a model folder of a resume state, or of a model, with an adapter or without.
 *
 * flowtrain export --check: whether a merged checkpoint gives the logits of
 * base and adapter, and which stacks load the adapter as it is. Both models
 * compute in f32 with the experts that base and adapter choose, so that what
 * differs is the rounding of the merged weights alone.
 */
#include "trainer/cli/merge.h"

#include "engine/base/arena.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/save/from_resume.h"
#include "trainer/tensor/draw.h"
#include "trainer/train/infer.h"

#include <math.h>
#include <string.h>

enum { TOKENS = 64, SERVED_RANK = 16 /* vLLM's default max_lora_rank */ };

struct check {
    const char *base, *adapter, *merged, *bound;
    const char *from, *output, *template_name;
    int64_t shard_bytes;
    int save; /* SAVE_… */
    bool check;
    struct fr_arena arena;
    struct tr_backend *be;
    struct tr_comm *comm;
    int32_t ids[TOKENS], pos[TOKENS];
    const int32_t **experts;        /* of base and adapter, for each MoE layer; NULL: not
                                       known yet */
    int64_t V, tokens;              /* of base and adapter; of the base */
    struct tr_model_config of_base; /* with the adapter; unset: not known yet */
};

/* ---- logits ---- */

struct keep {
    float *logits;
    int64_t V;
};

static enum fr_rc keep_chunk(void *arg, const float *chunk, int64_t col0, int64_t ncols,
                             struct fr_err *err)
{
    const struct keep *k = arg;

    (void)err;
    for (int64_t t = 0; t < TOKENS; t++)
        memcpy(k->logits + t * k->V + col0, chunk + t * ncols, (size_t)ncols * sizeof(float));
    return FR_OK;
}

static enum fr_rc keep_experts(struct check *c, const struct tr_infer *x, struct fr_err *err)
{
    int64_t layers = tr_model_moe_layers(x->model), K = x->config.num_experts_per_tok;
    enum fr_rc rc = FR_OK;

    c->experts = fr_arena_array(&c->arena, (size_t)layers + 1, sizeof(*c->experts));
    for (int64_t i = 0; c->experts != NULL && i < layers && rc == FR_OK; i++) {
        int32_t *ids = fr_arena_array(&c->arena, (size_t)(TOKENS * K), sizeof(*ids));

        if (ids == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for the chosen experts");
        rc = tr_model_routing(x->model, i, 0, ids, err);
        c->experts[i] = ids;
    }
    return c->experts != NULL ? rc : fr_fail(err, FR_NOMEM, "no memory for the chosen experts");
}

/* A merged checkpoint has the sizes of its base; the experts chosen there would fit no other. */
static enum fr_rc same_sizes(const struct check *c, const char *model,
                             const struct tr_model_config *got, struct fr_err *err)
{
    const struct tr_model_config *want = &c->of_base;
    bool alone = model == c->base; /* whose adapter may have more rows of the embedding */
    const struct {
        const char *what;
        int64_t got, want;
    } sizes[] = {
        {"vocab_size", alone ? want->vocab_size : got->vocab_size, want->vocab_size},
        {"hidden_size", got->hidden_size, want->hidden_size},
        {"num_hidden_layers", got->num_hidden_layers, want->num_hidden_layers},
        {"first_k_dense_replace", got->first_k_dense_replace, want->first_k_dense_replace},
        {"number of routed experts", got->n_routed_experts, want->n_routed_experts},
        {"num_experts_per_tok", got->num_experts_per_tok, want->num_experts_per_tok},
    };

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (sizes[i].got != sizes[i].want)
            return fr_fail(err, FR_USAGE,
                           "--merged %s is no merge of %s: its %s is %lld, that of the base %lld",
                           model, c->base, sizes[i].what, (long long)sizes[i].got,
                           (long long)sizes[i].want);
    return FR_OK;
}

/* Logits (TOKENS, V) of a model, in the arena. */
static enum fr_rc logits_of(struct check *c, const char *model, const char *adapter, float **out,
                            struct fr_err *err)
{
    static const int64_t offsets[] = {0, TOKENS};
    struct tr_infer_opts o = {.be = c->be,
                              .comm = c->comm,
                              .model_dir = model,
                              .adapter_dir = adapter,
                              .compute = TR_F32,
                              .tokens_max = TOKENS,
                              .samples_max = 1,
                              .logits = true};
    struct tr_micro mb = {.T = TOKENS,
                          .B = 1,
                          .ids = c->ids,
                          .pos = c->pos,
                          .offsets = offsets,
                          .forced = c->experts};
    struct tr_infer x = {.model = NULL};
    struct keep k;
    struct tr_logits emit = {keep_chunk, &k};
    enum fr_rc rc = tr_infer_open(&x, &o, err);

    if (rc == FR_OK && c->V != 0)
        rc = same_sizes(c, model, &x.config, err);
    if (rc == FR_OK && c->V == 0)
        c->of_base = x.config;
    c->V = k.V = c->of_base.vocab_size;
    for (uint64_t t = 0; t < TOKENS && rc == FR_OK; t++)
        c->ids[t] = (int32_t)(tr_draw_bits((struct tr_draw){1}, t) % (uint64_t)c->tokens);
    if (rc == FR_OK) {
        k.logits = *out = fr_arena_array(&c->arena, (size_t)(TOKENS * c->V), sizeof(float));
        if (*out != NULL) /* a base with fewer rows leaves the others */
            memset(*out, 0, (size_t)(TOKENS * c->V) * sizeof(float));
        rc = *out == NULL ? fr_fail(err, FR_NOMEM, "no memory for %d rows of logits", TOKENS)
                          : tr_model_forward(x.model, &mb, &emit, err);
    }
    if (rc == FR_OK && c->experts == NULL)
        rc = keep_experts(c, &x, err);
    tr_infer_finish(&x);
    return rc;
}

/* |x - y| / |y|, 2-norms over all logits. */
static double distance(const struct check *c, const float *x, const float *y)
{
    double off = 0, all = 0;

    for (int64_t i = 0; i < TOKENS * c->V; i++) {
        off += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        all += (double)y[i] * (double)y[i];
    }
    return sqrt(off / all);
}

static enum fr_rc compare(struct check *c, struct fr_err *err)
{
    float *both, *base, *merged;
    struct tr_model_config config;
    double bound, off, moved;
    enum fr_rc rc;

    if (fr_parse_f64(fr_str_of(c->bound), &bound, NULL) != FR_OK || !(bound > 0))
        return fr_fail(err, FR_USAGE, "--bound is '%s', expected a number above 0", c->bound);
    if ((rc = tr_model_config_load(c->base, &config, err)) != FR_OK)
        return rc;
    c->tokens = config.vocab_size;
    if ((rc = logits_of(c, c->base, c->adapter, &both, err)) != FR_OK ||
        (rc = logits_of(c, c->base, NULL, &base, err)) != FR_OK ||
        (rc = logits_of(c, c->merged, NULL, &merged, err)) != FR_OK)
        return rc;
    off = distance(c, merged, both);
    moved = distance(c, base, both);
    fr_print("logits of %d tokens, relative to those of base and adapter: %s is off by %.3g, the "
             "base alone by %.3g\n",
             TOKENS, c->merged, off, moved);
    if (off <= bound * moved)
        return FR_OK;
    return fr_fail(err, FR_CORRUPT,
                   "%s has lost %.3g of what the adapter changes, more than --bound %g: rounding "
                   "its weights takes too much, or it is of another adapter",
                   c->merged, off / moved, bound);
}

/* ---- stacks ---- */

/* Support of each serving stack for adapters on linears of these names. Source: their documentation
 * of LoRA; vLLM 0.25 and SGLang of May 2026 as read there. PEFT takes the names of FFNs for fused
 * experts where the model has experts, and loads all of a dense model. */
static const struct {
    const char *name, *peft, *vllm, *sglang;
} stacks[] = {
    {"q_proj", "yes", "yes", "yes"},
    {"k_proj", "yes", "yes", "yes"},
    {"v_proj", "yes", "yes", "yes"},
    {"q_a_proj", "yes", "yes", "yes"},
    {"q_b_proj", "yes", "yes", "yes"},
    {"kv_a_proj_with_mqa", "yes", "yes", "yes"},
    {"kv_b_proj", "yes", "loaded, not applied: merge", "since May 2026"},
    {"o_proj", "yes", "yes", "yes"},
    {"gate_proj", "up to 0.18", "yes", "yes"},
    {"up_proj", "up to 0.18", "yes", "yes"},
    {"down_proj", "up to 0.18", "yes", "yes"},
};

enum { NSTACKS = sizeof(stacks) / sizeof(stacks[0]) };

struct tally {
    const struct tr_lora_config *lora;
    int64_t count[NSTACKS], rank; /* rank: the largest */
};

static enum fr_rc count_one(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    struct tally *k = arg;
    struct tr_lora_hit hit;
    char module[TR_NAME_MAX];
    enum fr_rc rc = tr_lora_match_tensor(k->lora, t, module, &hit, err);

    if (rc != FR_OK || !hit.adapted)
        return rc;
    k->rank = hit.r > k->rank ? hit.r : k->rank;
    for (size_t i = 0; i < NSTACKS; i++)
        k->count[i] += strcmp(strrchr(module, '.') + 1, stacks[i].name) == 0;
    return FR_OK;
}

static enum fr_rc show_stacks(const struct check *c, struct fr_err *err)
{
    struct tr_model_config config;
    struct tr_lora_config lora = {.r = 0};
    struct tally k = {.lora = &lora};
    enum fr_rc rc = tr_model_config_load(c->base, &config, err);

    if (rc == FR_OK && (rc = tr_lora_read(c->adapter, &lora, err)) == FR_OK &&
        (rc = tr_lora_resolve(&lora, &config, err)) == FR_OK)
        rc = tr_model_tensors(&config, count_one, &k, err);
    if (rc == FR_OK) {
        fr_print("%-20s %8s  %-12s %-28s %s\n", "target", "modules", "PEFT", "vLLM", "SGLang");
        for (size_t i = 0; i < NSTACKS; i++)
            if (k.count[i] > 0)
                fr_print("%-20s %8lld  %-12s %-28s %s\n", stacks[i].name, (long long)k.count[i],
                         config.n_routed_experts > 0 ? stacks[i].peft : "yes", stacks[i].vllm,
                         stacks[i].sglang);
        if (lora.nsaves > 0)
            fr_print("modules trained whole (modules_to_save): PEFT loads them, vLLM does not: "
                     "merge\n");
        if (k.rank > SERVED_RANK)
            fr_print("rank %lld: vLLM has to be started with --max-lora-rank %lld or "
                     "more\n",
                     (long long)k.rank, (long long)k.rank);
    }
    tr_lora_finish(&lora);
    return rc;
}

/* ---- a model folder ---- */

enum { SAVE_AS_TRAINED = -1, SAVE_AUTO, SAVE_FLOAT32 };

static enum fr_rc from_resume(struct check *c, struct fr_err *err)
{
    struct tr_from_resume o = {.from = c->from,
                               .out_dir = c->output,
                               .model_dir = c->base,
                               .save_dtype = c->save == SAVE_FLOAT32 ? "float32"
                                             : c->save == SAVE_AUTO  ? "auto"
                                                                     : NULL,
                               .shard_bytes = c->shard_bytes};
    struct tr_from_resume_done done = {.model_dir = ""};
    struct fr_buf said = {0};
    enum fr_rc rc = FR_OK;

    if (c->adapter != NULL)
        return fr_fail(err, FR_USAGE, "--adapter_name_or_path goes without --from");
    if ((rc = tr_cpu_create(&c->be, err)) == FR_OK)
        rc = tr_comm_single(c->be, &c->comm, err);
    o.self = c->comm;
    if (rc == FR_OK)
        rc = tr_from_resume(&o, &done, &said, err);
    if (rc == FR_OK && c->template_name != NULL)
        rc = tr_merge_template(c->template_name, done.model_dir, done.out_dir, err);
    else if (rc == FR_OK && done.template_name[0] != '\0')
        rc = tr_merge_template(done.template_name, done.model_dir, done.out_dir, err);
    if (rc == FR_OK)
        fr_print("%s", said.p != NULL ? said.p : "");
    fr_buf_finish(&said);
    return rc;
}

/* As LLaMA-Factory's export. */
static enum fr_rc from_model(struct tr_call *call, const struct check *c, struct fr_err *err)
{
    struct tr_merge_words w = {c->base, c->output, c->adapter, c->template_name,
                               c->shard_bytes > 0 ? c->shard_bytes : TR_SHARD_BYTES};

    if (c->base == NULL || c->output == NULL)
        return fr_fail(err, FR_USAGE,
                       "--model_name_or_path and --output write a model, --from OUT/resume that of "
                       "a training, --check compares a merged one: one of these is needed");
    if (c->save != SAVE_AS_TRAINED)
        return fr_fail(err, FR_USAGE, "--save_dtype belongs to --from");
    return tr_merge_run(call, &w, err);
}

static enum fr_rc run_check(struct check *c, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    if (c->base == NULL || c->adapter == NULL)
        rc = fr_fail(err, FR_USAGE, "--model_name_or_path and --adapter_name_or_path are needed");
    for (int32_t t = 0; t < TOKENS; t++)
        c->pos[t] = t;
    if (rc == FR_OK)
        rc = show_stacks(c, err);
    if (rc == FR_OK && c->merged != NULL && (rc = tr_cpu_create(&c->be, err)) == FR_OK &&
        (rc = tr_comm_single(c->be, &c->comm, err)) == FR_OK)
        rc = compare(c, err);
    return rc;
}

static enum fr_rc run_export(struct tr_call *call, struct fr_err *err)
{
    struct check *c = call->options;
    enum fr_rc rc;

    if (c->check && c->from != NULL)
        return fr_fail(err, FR_USAGE, "--check and --from exclude each other");
    rc = c->check          ? run_check(c, err)
         : c->from != NULL ? from_resume(c, err)
                           : from_model(call, c, err);
    tr_comm_destroy(c->comm);
    tr_backend_destroy(c->be);
    fr_arena_finish(&c->arena);
    return rc;
}

#define AT(member) offsetof(struct check, member)

static const struct tr_flag flags[] = {
    TR_FLAG("check", TR_SWITCH, AT(check), "compare and show"),
    TR_FLAG("model_name_or_path", TR_TEXT, AT(base), "the base: a checkpoint folder"),
    TR_FLAG("adapter_name_or_path", TR_TEXT, AT(adapter), "adapter folder in PEFT's format"),
    TR_FLAG("merged", TR_TEXT, AT(merged),
            "what flowtrain merge wrote; without it the table alone"),
    TR_FLAG("from", TR_TEXT, AT(from),
            "OUTPUT_DIR/resume of a training of weights, or a step-N in it"),
    TR_FLAG("output", TR_TEXT, AT(output), "folder to write; with --from [OUTPUT_DIR]"),
    TR_FLAG("save_dtype", TR_CHOICE, AT(save),
            "with --from: auto, the type of the run, or float32, the masters [of the training]",
            .choices = "auto float32"),
    TR_FLAG("max_shard_size", TR_SIZE, AT(shard_bytes),
            "bytes of a file, at most [of the training, or 5GB]"),
    TR_FLAG("template", TR_TEXT, AT(template_name), "chat template, where the base has none"),
    TR_FLAG("bound", TR_TEXT, AT(bound), "share of the adapter's effect that may be lost [0.25]"),
};

const struct tr_command tr_cmd_export = {
    .name = "export",
    .summary = "write the model of a resume state, or check a merged checkpoint",
    .usage = "flowtrain export --from OUT/resume: the model of a training of weights\n"
             "flowtrain export [FILE.yaml]: as flowtrain merge\n"
             "flowtrain export --check: does a merged checkpoint do what base and "
             "adapter do, and which stacks load the adapter\n\n",
    TR_FLAGS(flags, struct check),
    TR_RULES(tr_merge_rules),
    .initial = &(const struct check){.bound = "0.25", .save = SAVE_AS_TRAINED},
    .run = run_export,
};

/*
 * flowtrain forward: one batch through a model, for comparing with others. Writes safetensors:
 * logits (tokens, V) f32, tokens of all rows laid end to end; experts.L (tokens, K) i32 for MoE
 * layer L of the model; with labels loss (1) f32, the mean over the scored positions; with --grads
 * the gradient of every adapter tensor as grad.NAME, NAME as PEFT writes it.
 */
#include "trainer/cli/cli.h"

#include "engine/base/arena.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/backend/device.h"
#include "trainer/config/folder.h"
#include "trainer/config/lora_saves.h"
#include "trainer/save/export.h"
#include "trainer/optim/optim.h"

#include <string.h>

enum { JSON_MAX = 256 << 20, IGNORE = -100 };

struct forward {
    const char *model_dir, *adapter_dir, *ids_path, *labels_path, *routing_path, *output;
    bool grads, bf16, fp16;
    enum tr_device device;
    struct fr_arena arena;
    struct tr_backend *be;
    struct tr_comm *comm;
    struct tr_model_config config;
    struct tr_lora_config lora;
    struct tr_st *st;
    struct tr_model *model;
    struct tr_optim optim;
    struct tr_micro mb;
    int64_t count; /* scored positions */
    float *logits; /* (T, V) */
    struct tr_st_item *items;
    size_t nitems;
};

static void *take(struct forward *f, size_t n, size_t size, struct fr_err *err)
{
    void *p = fr_arena_array(&f->arena, n + 1, size);

    if (p == NULL)
        (void)fr_fail(err, FR_NOMEM, "%zu values of %zu bytes", n, size);
    return p;
}

/* ---- input ---- */

/* All numbers below value, in order, into *out (n grows); lists may be nested. */
static enum fr_rc flatten(const json_t *value, int64_t *out, size_t *n, size_t max,
                          struct fr_err *err)
{
    size_t i;
    const json_t *item;
    enum fr_rc rc = FR_OK;

    if (json_is_integer(value)) {
        if (*n == max)
            return fr_fail(err, FR_USAGE, "more than %zu numbers", max);
        out[(*n)++] = json_integer_value(value);
        return FR_OK;
    }
    if (!json_is_array(value))
        return fr_fail(err, FR_USAGE, "expected lists of integers");
    json_array_foreach(value, i, item)
    {
        if ((rc = flatten(item, out, n, max, err)) != FR_OK)
            break;
    }
    return rc;
}

static enum fr_rc load_rows(const char *path, json_t **out, struct fr_err *err)
{
    enum fr_rc rc = fr_json_load_any(path, JSON_MAX, out, err);

    if (rc == FR_OK && !json_is_array(*out))
        rc = fr_fail(err, FR_USAGE, "%s: expected a list of lists of ids", path);
    return rc;
}

static enum fr_rc read_ids(struct forward *f, struct fr_err *err)
{
    json_t *rows = NULL;
    int64_t *offsets, *flat, T = 0;
    int32_t *ids, *pos;
    size_t n = 0;
    enum fr_rc rc = load_rows(f->ids_path, &rows, err);

    if (rc != FR_OK)
        goto out;
    f->mb.B = (int64_t)json_array_size(rows);
    rc = FR_NOMEM;
    if ((offsets = take(f, (size_t)f->mb.B + 1, sizeof(*offsets), err)) == NULL)
        goto out;
    for (int64_t b = 0; b < f->mb.B; b++)
        offsets[b + 1] = T += (int64_t)json_array_size(json_array_get(rows, (size_t)b));
    flat = take(f, (size_t)T, sizeof(*flat), err);
    ids = take(f, (size_t)T, sizeof(*ids), err);
    pos = take(f, (size_t)T, sizeof(*pos), err);
    if (flat == NULL || ids == NULL || pos == NULL)
        goto out;
    if ((rc = flatten(rows, flat, &n, (size_t)T, err)) == FR_OK && (int64_t)n != T)
        rc = fr_fail(err, FR_USAGE, "expected a list of lists of ids");
    for (int64_t b = 0; b < f->mb.B; b++)
        for (int64_t t = offsets[b]; t < offsets[b + 1]; t++) {
            ids[t] = (int32_t)flat[t];
            pos[t] = (int32_t)(t - offsets[b]);
            if (flat[t] < 0 || flat[t] >= f->config.vocab_size)
                rc = fr_fail(err, FR_USAGE, "id %lld is not below the vocabulary's %lld",
                             (long long)flat[t], (long long)f->config.vocab_size);
        }
    if (rc == FR_OK && T == 0)
        rc = fr_fail(err, FR_USAGE, "holds no ids");
    f->mb.T = T;
    f->mb.ids = ids;
    f->mb.pos = pos;
    f->mb.offsets = offsets;
out:
    json_decref(rows);
    return rc == FR_OK ? rc : fr_while(err, "%s", f->ids_path);
}

/* Labels lie as the ids do, not shifted: position t is scored with the label of t+1. */
static enum fr_rc read_labels(struct forward *f, struct fr_err *err)
{
    json_t *rows = NULL;
    size_t n = 0;
    int64_t *labels = take(f, (size_t)f->mb.T, sizeof(*labels), err);
    int32_t *targets = take(f, (size_t)f->mb.T, sizeof(*targets), err);
    enum fr_rc rc = FR_NOMEM;

    if (labels == NULL || targets == NULL)
        return rc;
    if ((rc = load_rows(f->labels_path, &rows, err)) == FR_OK &&
        (rc = flatten(rows, labels, &n, (size_t)f->mb.T, err)) == FR_OK && (int64_t)n != f->mb.T)
        rc = fr_fail(err, FR_USAGE, "%zu labels for %lld ids", n, (long long)f->mb.T);
    json_decref(rows);
    for (int64_t b = 0; b < f->mb.B && rc == FR_OK; b++)
        for (int64_t t = f->mb.offsets[b]; t < f->mb.offsets[b + 1]; t++) {
            int64_t next = t + 1 < f->mb.offsets[b + 1] ? labels[t + 1] : IGNORE;

            if (next != IGNORE && (next < 0 || next >= f->config.vocab_size))
                rc = fr_fail(err, FR_USAGE, "label %lld is neither -100 nor in the vocabulary",
                             (long long)next);
            targets[t] = next == IGNORE ? -1 : (int32_t)next;
            f->count += next != IGNORE;
        }
    f->mb.targets = targets;
    return rc == FR_OK ? rc : fr_while(err, "%s", f->labels_path);
}

/* One list for each MoE layer: K experts a token, ascending or not, tokens end to end. */
static enum fr_rc read_routing(struct forward *f, struct fr_err *err)
{
    int64_t layers = tr_model_moe_layers(f->model), K = f->config.num_experts_per_tok;
    size_t want = (size_t)(f->mb.T * K);
    int64_t *flat = take(f, want, sizeof(*flat), err);
    const int32_t **forced = take(f, (size_t)layers, sizeof(*forced), err);
    json_t *lists = NULL;
    enum fr_rc rc = FR_NOMEM;

    if (flat == NULL || forced == NULL)
        return rc;
    if ((rc = load_rows(f->routing_path, &lists, err)) == FR_OK &&
        (int64_t)json_array_size(lists) != layers)
        rc = fr_fail(err, FR_USAGE, "%zu lists for %lld MoE layers", json_array_size(lists),
                     (long long)layers);
    for (int64_t l = 0; l < layers && rc == FR_OK; l++) {
        int32_t *ids = take(f, want, sizeof(*ids), err);
        size_t n = 0;

        rc = flatten(json_array_get(lists, (size_t)l), flat, &n, want, err);
        if (ids == NULL || (rc == FR_OK && n != want))
            rc = fr_fail(err, FR_USAGE, "list %lld holds %zu experts, %zu are needed", (long long)l,
                         n, want);
        for (size_t i = 0; i < want && rc == FR_OK; i++) {
            if (flat[i] < 0 || flat[i] >= f->config.n_routed_experts)
                rc = fr_fail(err, FR_USAGE, "no expert %lld", (long long)flat[i]);
            ids[i] = (int32_t)flat[i];
        }
        forced[l] = ids;
    }
    json_decref(lists);
    f->mb.forced = forced;
    return rc == FR_OK ? rc : fr_while(err, "%s", f->routing_path);
}

/* ---- model ---- */

static enum fr_rc open_model(struct forward *f, struct fr_err *err)
{
    struct tr_model_opts o = {.be = f->be,
                              .comm = f->comm,
                              .config = &f->config,
                              .lora = f->adapter_dir != NULL ? &f->lora : NULL,
                              .compute = f->bf16   ? TR_BF16
                                         : f->fp16 ? TR_F16
                                                   : TR_F32,
                              .limits = {.max_live = 1000000000},
                              .tokens_max = f->mb.T,
                              .samples_max = f->mb.B,
                              .train = f->grads,
                              .logits = true};
    struct tr_params p;
    float *flat;
    enum fr_rc rc;

    f->lora.dropout = 0; /* gradients are those of the loss that is handed out */
    if ((rc = tr_model_create(&o, &f->model, NULL, err)) != FR_OK ||
        (rc = tr_model_load(f->model, f->st, NULL, err)) != FR_OK || f->adapter_dir == NULL)
        return rc;
    tr_model_params(f->model, &p);
    if ((flat = take(f, (size_t)p.padded, sizeof(*flat), err)) == NULL)
        return FR_NOMEM;
    if ((rc = tr_import_adapter(f->adapter_dir, &p, &f->lora, flat, err)) != FR_OK ||
        (rc = tr_optim_create(&f->optim, f->model, f->comm, f->be, err)) != FR_OK)
        return rc;
    return tr_optim_set(&f->optim, flat, err);
}

static enum fr_rc keep_logits(void *arg, const float *chunk, int64_t col0, int64_t ncols,
                              struct fr_err *err)
{
    struct forward *f = arg;

    (void)err;
    for (int64_t t = 0; t < f->mb.T; t++)
        memcpy(f->logits + t * f->config.vocab_size + col0, chunk + t * ncols,
               (size_t)ncols * sizeof(float));
    return FR_OK;
}

/* ---- output ---- */

static enum fr_rc put(struct forward *f, const char *name, struct tr_view v, struct fr_err *err)
{
    struct tr_st_item *it = &f->items[f->nitems++];

    if (name == NULL)
        return fr_fail(err, FR_NOMEM, "a name");
    *it = (struct tr_st_item){
        .name = name, .type = tr_st_type_of(v.dtype), .ndim = v.rank, .data = v.p};
    memcpy(it->shape, v.shape, sizeof(v.shape));
    return FR_OK;
}

static enum fr_rc put_experts(struct forward *f, struct fr_err *err)
{
    int64_t K = f->config.num_experts_per_tok;
    enum fr_rc rc = FR_OK;

    for (int64_t i = 0; i < tr_model_moe_layers(f->model) && rc == FR_OK; i++) {
        int32_t *ids = take(f, (size_t)(f->mb.T * K), sizeof(*ids), err);

        if (ids == NULL)
            return FR_NOMEM;
        if ((rc = tr_model_routing(f->model, i, 0, ids, err)) == FR_OK)
            rc = put(f, fr_arena_fmt(&f->arena, "experts.%lld", (long long)i),
                     tr_view2(ids, TR_I32, f->mb.T, K), err);
    }
    return rc;
}

static enum fr_rc put_grads(struct forward *f, const struct tr_params *p, struct fr_err *err)
{
    float *flat = take(f, (size_t)p->padded, sizeof(*flat), err);
    enum fr_rc rc;

    if (flat == NULL)
        return FR_NOMEM;
    if ((rc = tr_copy(f->be, tr_model_queue(f->model), flat, p->grad.p,
                      (size_t)p->padded * sizeof(*flat))) != FR_OK ||
        (rc = tr_sync(f->be, tr_model_queue(f->model), err)) != FR_OK)
        return rc;
    rc = tr_adapter_items(p, flat, "grad.base_model.model", &f->arena, f->items + f->nitems, err);
    f->nitems += 2 * p->n;
    return rc;
}

static enum fr_rc run(struct forward *f, struct fr_err *err)
{
    struct tr_logits emit = {.chunk = keep_logits, .arg = f};
    struct tr_params p;
    size_t T = (size_t)f->mb.T, V = (size_t)f->config.vocab_size;
    float *loss = take(f, 1, sizeof(*loss), err);
    double sum;
    enum fr_rc rc;

    tr_model_params(f->model, &p);
    f->items = take(f, 2 * p.n + (size_t)f->config.num_hidden_layers + 2, sizeof(*f->items), err);
    f->logits = take(f, T * V, sizeof(float), err);
    if (loss == NULL || f->items == NULL || f->logits == NULL)
        return FR_NOMEM;
    f->mb.loss_scale = f->count > 0 ? 1.0 / (double)f->count : 0;
    if ((rc = tr_model_forward(f->model, &f->mb, &emit, err)) != FR_OK ||
        (rc = tr_model_take_loss(f->model, &sum, err)) != FR_OK ||
        (rc = put(f, "logits", tr_view2(f->logits, TR_F32, f->mb.T, (int64_t)V), err)) != FR_OK ||
        (rc = put_experts(f, err)) != FR_OK)
        return rc;
    *loss = f->count > 0 ? (float)(sum / (double)f->count) : 0;
    if (f->mb.targets != NULL)
        rc = put(f, "loss", tr_view1(loss, TR_F32, 1), err);
    if (rc == FR_OK && f->grads && (rc = tr_optim_zero_grad(&f->optim, err)) == FR_OK &&
        (rc = tr_model_forward_backward(f->model, &f->mb, err)) == FR_OK)
        rc = put_grads(f, &p, err);
    if (rc == FR_OK)
        rc = tr_st_write(f->output, f->items, f->nitems, NULL, 0, err);
    return rc;
}

static enum fr_rc all(struct forward *f, struct fr_err *err)
{
    const struct tr_folder folder = {f->model_dir, f->adapter_dir, false};
    enum fr_rc rc;

    if ((rc = tr_folder_load(&folder, &f->config, &f->st, err)) != FR_OK ||
        (f->adapter_dir != NULL && (rc = tr_lora_read(f->adapter_dir, &f->lora, err)) != FR_OK) ||
        (rc = tr_lora_resolve(&f->lora, &f->config, err)) != FR_OK ||
        (rc = tr_lora_settle(&f->lora, &f->config, f->st, err)) != FR_OK ||
        (rc = read_ids(f, err)) != FR_OK ||
        (f->labels_path != NULL && (rc = read_labels(f, err)) != FR_OK) ||
        (rc = tr_device_create(f->device, 0, &f->be, err)) != FR_OK ||
        (rc = tr_comm_single(f->be, &f->comm, err)) != FR_OK || (rc = open_model(f, err)) != FR_OK)
        return rc;
    if (f->routing_path != NULL && (rc = read_routing(f, err)) != FR_OK)
        return rc;
    return run(f, err);
}

static void finish(struct forward *f)
{
    tr_optim_finish(&f->optim);
    tr_model_destroy(f->model);
    tr_st_close(f->st);
    tr_lora_finish(&f->lora);
    tr_comm_destroy(f->comm);
    tr_backend_destroy(f->be);
    fr_arena_finish(&f->arena);
}

static enum fr_rc forward(struct tr_call *call, struct fr_err *err)
{
    struct forward *f = call->options;
    enum fr_rc rc;

    if (f->bf16 && f->fp16)
        return fr_fail(err, FR_USAGE, "--bf16 and --fp16 exclude each other");
    if (f->grads && (f->labels_path == NULL || f->adapter_dir == NULL))
        return fr_fail(err, FR_USAGE, "--grads needs --labels and --adapter_name_or_path");
    rc = all(f, err);
    finish(f);
    return rc;
}

#define AT(member) offsetof(struct forward, member)

static const struct tr_flag flags[] = {
    TR_FLAG("model_name_or_path", TR_TEXT, AT(model_dir), "checkpoint folder"),
    TR_FLAG("adapter_name_or_path", TR_TEXT, AT(adapter_dir), "adapter folder in PEFT's format"),
    TR_FLAG("input_ids", TR_TEXT, AT(ids_path), "JSON file: a list of lists of ids"),
    TR_FLAG("labels", TR_TEXT, AT(labels_path),
            "JSON file: labels as the ids lie, -100 not scored"),
    TR_FLAG("routing", TR_TEXT, AT(routing_path),
            "JSON file: for each MoE layer the experts to use"),
    TR_FLAG("output", TR_TEXT, AT(output), "safetensors file to write"),
    TR_FLAG("grads", TR_SWITCH, AT(grads), "adapter gradients of the mean loss as well"),
    TR_FLAG("bf16", TR_SWITCH, AT(bf16), "compute in bf16 instead of f32"),
    TR_FLAG("fp16", TR_SWITCH, AT(fp16), "compute in f16 instead of f32"),
    TR_FLAG("device", TR_CHOICE, AT(device), "auto, cpu or cuda", TR_DEVICES),
    TR_FLAG_HELP,
};

const struct tr_command tr_cmd_forward = {
    .name = "forward",
    .summary = "logits, loss and gradients of one batch",
    .usage = "flowtrain forward: logits, loss and gradients of one batch\n",
    TR_FLAGS(flags, struct forward),
    .needs = "model_name_or_path input_ids output",
    .run = forward,
};

/*
 * Training steps of a model's layers as config.json describes them, with weights made on the
 * device: tokens/s, model FLOP utilisation, the step's roofline, and each op against its own.
 *
 * usage: layers CONFIG TOKENS SEQUENCE [steps=N] [layers=N] [type=bf16|f32] [device=auto|cpu|cuda]
 *               [whole=LAYERS:DENSE] [recompute=all|none] [rate=TFLOPS] [supervised=SHARE]
 *
 * One micro-batch of TOKENS tokens in sequences of SEQUENCE, of which the last SHARE [1] are
 * supervised; LoRA r = 16 on the projections of attention. Weights, adapters and tokens are drawn
 * from seed 1 by name and index (tensor/draw.h), as peer.py draws them, so both print the same
 * losses.
 *
 * MFU = (4 A + 3 causal core + 4 V H of tokens with a target + 8 LoRA FLOP)/s over the matrix rate
 * that the same run measured on random numbers (zeros draw less power and run faster), and over the
 * rate of the device's data sheet where it is known; the rate that counts recompute stands beside
 * it. rate= is a matrix rate to compare with instead of the one measured here: rate.c's, on the
 * CPU. A slice of a model has more head than the whole: whole=61:3 prints the MFU of 61 layers, 3
 * of them dense, whose layers and whose head each run at the rate that they have here. Goals stand
 * beside figures.
 *
 * Exit status: 0; 3: no room in memory, fewer layers may have; 1: anything else.
 */
#include "engine/base/log.h"
#include "engine/base/str.h"
#include "engine/base/sys.h"
#include "tests/bench/meter.h"
#include "trainer/backend/device.h"
#include "trainer/config/untrained.h"
#include "trainer/model/model.h"
#include "trainer/optim/optim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SEED = 1, RANK = 16, STEPS_MAX = 1000, MFU_GOAL_TOKENS = 16384 };
enum { EXIT_NO_ROOM = 3 };

static const double MEASURE_S = 0.3; /* the best round of so long */

static const char *const TARGETS[] = {"q_a_proj",           "q_proj",    "q_b_proj",
                                      "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"};

struct named {
    char name[TR_NAME_MAX];
    struct tr_untrained how;
};

struct bench {
    int64_t tokens, sequence, steps, layers;
    int64_t whole, whole_dense; /* layers of the whole model; 0: not said */
    enum tr_dtype type;
    enum tr_device device;
    bool keep; /* activations, instead of computing them again */
    struct tr_model_config config;
    struct tr_lora_config lora;
    struct named *names; /* ascending by name */
    size_t n_names;
    struct tr_backend *be;
    struct meter meter;
    struct tr_comm *comm;
    struct tr_model *model;
    struct tr_optim optim;
    struct tr_micro mb;
    double supervised;       /* share of a sequence's tokens */
    int64_t targets;         /* of the micro-batch */
    double rate, bandwidth;  /* FLOP/s and bytes/s that this machine gave; rate may be given */
    double sheet;            /* FLOP/s of the data sheet; 0: unknown */
    double step_seconds;     /* of the median step */
    int64_t table;           /* bytes that the model says it takes */
    int64_t at_start, least; /* free bytes of the device: before the model, the fewest since; -1:
                              * not a device with memory of its own */
};

/* ---- memory ---- */

/* As the backend describes itself; -1: it has no memory of its own. */
static int64_t free_bytes(struct bench *b)
{
    static const char mark[] = " free=";
    char line[256];
    const char *at;

    tr_backend_describe(b->be, line);
    at = strstr(line, mark);
    return at != NULL ? strtoll(at + sizeof(mark) - 1, NULL, 10) : -1;
}

static void look_at_memory(struct bench *b)
{
    int64_t now = free_bytes(b);

    b->least = now < b->least ? now : b->least;
}

/* The kernel's peak of this process's resident memory begins anew. */
static void forget_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");

    if (f != NULL) {
        (void)fputs("5", f);
        (void)fclose(f);
    }
}

static void print_resident(const struct bench *b)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256], most[24], table[24];
    long long kib = -1;

    while (f != NULL && kib < 0 && fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, "VmHWM: %lld", &kib) != 1)
            kib = -1;
    if (f != NULL)
        (void)fclose(f);
    fr_show_size(kib * 1024, most);
    fr_show_size(b->table, table);
    fr_print("memory: peak %s resident, the table %s\n", most, table);
}

static void print_memory(const struct bench *b)
{
    char most[24], table[24], device[24];
    int64_t taken = b->at_start - b->least;

    if (b->at_start < 0) {
        print_resident(b);
        return;
    }
    fr_show_size(taken, most);
    fr_show_size(b->table, table);
    fr_show_size(b->at_start, device);
    fr_print("device memory: peak %s, the table %s (%+.2f %%); %s were free before the model\n",
             most, table, 100 * ((double)taken / (double)b->table - 1), device);
}

/* ---- weights ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static enum fr_rc add_name(void *arg, const struct tr_model_tensor *t, struct fr_err *err)
{
    struct bench *b = arg;

    if ((b->n_names & (b->n_names - 1)) == 0) {
        void *p = fr_sys.realloc(b->names, (2 * b->n_names + 1) * sizeof(*b->names));
        if (p == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for the names of tensors");
        b->names = p;
    }
    memcpy(b->names[b->n_names].name, t->name, sizeof(t->name));
    b->names[b->n_names++].how = tr_untrained_of(&b->config, t, SEED);
    return FR_OK;
}

/* Elements of a tensor, drawn where they stay. */
static enum fr_rc draw(void *arg, const struct tr_unit_tensor *t, const struct tr_fill_range *r,
                       struct fr_err *err)
{
    struct bench *b = arg;
    size_t size = tr_dtype_bytes(t->dtype);
    int64_t cols = t->rank == 2 ? t->shape[1] : 1;
    struct tr_view y = tr_view1(r->dst, t->dtype, (int64_t)(r->n / size));
    struct named key, *found;

    (void)snprintf(key.name, sizeof(key.name), "%s", t->name);
    found = bsearch(&key, b->names, b->n_names, sizeof(key), by_name);
    if (found == NULL)
        return fr_fail(err, FR_BUG, "%s: no such tensor in the model", t->name);
    if (found->how.how == TR_UNTRAINED_CONSTANT)
        return tr_fill(b->be, r->q, &(struct tr_fill){.y = y, .value = found->how.scale}, err);
    return tr_noise(b->be, r->q,
                    &(struct tr_noise){.y = y,
                                       .key = found->how.draw.key,
                                       .first = t->row0 * cols + (int64_t)(r->at / size),
                                       .scale = found->how.scale,
                                       .uniform = found->how.how == TR_UNTRAINED_UNIFORM},
                    err);
}

/* A is uniform in ±1/sqrt(in), drawn by module; B is zero. */
static enum fr_rc start_adapters(struct bench *b, struct fr_err *err)
{
    struct tr_params p;
    enum fr_rc rc = tr_optim_create(&b->optim, b->model, b->comm, b->be, err);
    float *flat;

    if (rc != FR_OK)
        return rc;
    b->optim.beta1 = 0.9;
    b->optim.beta2 = 0.999;
    b->optim.eps = 1e-8;
    b->optim.clip = 1;
    tr_model_params(b->model, &p);
    if ((flat = calloc((size_t)p.padded, sizeof(*flat))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the adapters");
    for (size_t i = 0; i < p.n; i++) {
        const struct tr_adapter *a = &p.adapters[i];
        struct tr_untrained u = {.how = TR_UNTRAINED_UNIFORM,
                                 .draw = tr_draw_of(SEED, a->module),
                                 .scale = 1 / sqrtf((float)a->in)};
        for (int64_t k = 0; k < a->r * a->in; k++)
            flat[a->a_at + k] = tr_untrained_at(&u, k);
    }
    rc = tr_optim_set(&b->optim, flat, err);
    free(flat);
    return rc;
}

static enum fr_rc make_model(struct bench *b, struct fr_err *err)
{
    struct tr_model_opts o = {.be = &b->meter.backend,
                              .comm = b->comm,
                              .config = &b->config,
                              .lora = &b->lora,
                              .compute = b->type,
                              .limits = {.max_live = 1000000000},
                              .tokens_max = b->tokens,
                              .samples_max = b->tokens / b->sequence,
                              .train = true,
                              .seed = SEED};
    struct tr_shard_source src = {.on_device = true, .fill = draw, .arg = b};
    struct tr_memory_row rows[TR_MEMORY_ROWS + 1];
    struct tr_optim_bytes own;
    char size[24];
    size_t n;
    enum fr_rc rc = tr_model_tensors(&b->config, add_name, b, err);

    if (rc != FR_OK || (rc = tr_model_create(&o, &b->model, NULL, err)) != FR_OK)
        return rc;
    if (b->keep)
        tr_model_keep(b->model, SIZE_MAX);
    (void)tr_model_prepack(b->model, SIZE_MAX);
    qsort(b->names, b->n_names, sizeof(*b->names), by_name);
    n = tr_model_memory(b->model, rows) - 1; /* without the model's sum */
    tr_optim_bytes(b->model, 1, &own);
    rows[n++] = (struct tr_memory_row){.name = "optimizer", .bytes = own.device};
    for (size_t i = 0; i < n; i++)
        b->table += rows[i].host ? 0 : (int64_t)rows[i].bytes;
    rows[n++] = (struct tr_memory_row){.name = "total", .bytes = (size_t)b->table};
    for (size_t i = 0; i < n; i++) {
        fr_show_size((int64_t)rows[i].bytes, size);
        fr_print("  %-20s %12s\n", rows[i].name, size);
    }
    rc = tr_model_fill(b->model, &src, err);
    return rc == FR_OK ? start_adapters(b, err) : rc;
}

/* Tokens drawn by index; each is to tell the next of its sequence. */
static enum fr_rc make_tokens(struct bench *b, struct fr_err *err)
{
    int64_t T = b->tokens, S = b->sequence;
    int64_t prompt = S - (int64_t)(b->supervised * (double)S); /* tokens that are no targets */
    struct tr_draw d = tr_draw_of(SEED, "tokens");
    int32_t *ids = calloc((size_t)T * 3, sizeof(*ids)), *pos = ids + T, *targets = ids + 2 * T;
    int64_t *offsets = calloc((size_t)(T / S) + 1, sizeof(*offsets));

    if (ids == NULL || offsets == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the tokens");
    for (int64_t t = 0; t < T; t++) {
        ids[t] = (int32_t)(tr_draw_bits(d, (uint64_t)t) % (uint64_t)b->config.vocab_size);
        pos[t] = (int32_t)(t % S);
    }
    for (int64_t t = 0; t < T; t++) {
        targets[t] = (t + 1) % S == 0 || (t + 1) % S < prompt ? -1 : ids[t + 1];
        b->targets += targets[t] >= 0;
    }
    for (int64_t i = 0; i <= T / S; i++)
        offsets[i] = i * S;
    b->mb = (struct tr_micro){.T = T,
                              .B = T / S,
                              .ids = ids,
                              .pos = pos,
                              .targets = targets,
                              .offsets = offsets,
                              .loss_scale = 1.0 / (double)b->targets};
    return b->targets > 0
               ? FR_OK
               : fr_fail(err, FR_USAGE, "supervised: not one token of %lld", (long long)S);
}

/* ---- what the machine gives ---- */

static enum fr_rc best_of(struct bench *b, struct tr_queue *q, const struct tr_gemm *g,
                          const struct tr_sum *c, double *best, struct fr_err *err)
{
    enum fr_rc rc = tr_sync(b->be, q, err);

    *best = INFINITY;
    for (double begun = meter_now(); rc == FR_OK && meter_now() - begun < MEASURE_S;) {
        double t = meter_now();

        rc = g != NULL ? tr_gemm(b->be, q, g, err) : tr_sum(b->be, q, c, err);
        if (rc == FR_OK)
            rc = tr_sync(b->be, q, err);
        *best = fmin(*best, meter_now() - t);
    }
    return rc;
}

/* A square product of the hidden size, and a copy of four such squares of f32. */
static enum fr_rc rates(struct bench *b, struct tr_queue *q, void *const p[2], struct fr_err *err)
{
    int64_t h = b->config.hidden_size, n = 4 * h * h;
    struct tr_sum c = {
        .y = tr_view1(p[0], TR_F32, n), .x = {tr_view1(p[1], TR_F32, n)}, .alpha = {1}, .n = 1};
    struct tr_gemm g = {.c = tr_view2(p[0], b->type, h, h),
                        .a = tr_view2(p[1], b->type, h, h),
                        .b.w =
                            tr_view2((char *)p[1] + (size_t)n * sizeof(float) / 2, b->type, h, h),
                        .trans_b = true,
                        .alpha = 1};
    double seconds = 0;
    enum fr_rc rc = FR_OK;

    for (int i = 0; i < 2 && rc == FR_OK; i++)
        rc = tr_noise(b->be, q,
                      &(struct tr_noise){.y = tr_view1(p[i], TR_F32, n), .key = SEED, .scale = 1},
                      err);
    if (rc == FR_OK && (rc = best_of(b, q, NULL, &c, &seconds, err)) == FR_OK)
        b->bandwidth = 2 * (double)n * sizeof(float) / seconds;
    if (rc == FR_OK)
        rc = tr_noise(
            b->be, q,
            &(struct tr_noise){.y = tr_view1(g.a.p, b->type, h * h), .key = SEED + 1, .scale = 1},
            err);
    if (rc == FR_OK)
        rc = tr_noise(
            b->be, q,
            &(struct tr_noise){.y = tr_view1(g.b.w.p, b->type, h * h), .key = SEED + 2, .scale = 1},
            err);
    if (b->rate > 0)
        return rc;
    if (rc == FR_OK && (rc = best_of(b, q, &g, NULL, &seconds, err)) == FR_OK)
        b->rate = 2 * pow((double)h, 3) / seconds;
    return rc;
}

/* Dense TFLOP/s, bf16 on tensor cores and f32 on the plain units. Source: NVIDIA's data sheets of
 * the A100, H100 and H200 Tensor Core GPUs. Longer names stand before those they contain. */
static double sheet_rate(struct bench *b)
{
    static const struct {
        const char *name;
        double bf16, f32;
    } devices[] = {
        {"H200 NVL", 835.5, 60}, {"H200", 989.5, 67}, {"H100 NVL", 835.5, 60},
        {"H100 PCIe", 756, 51},  {"H100", 989.5, 67}, {"H800", 989.5, 67},
        {"A100", 312, 19.5},     {"A800", 312, 19.5},
    };
    char line[256];

    tr_backend_describe(b->be, line);
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
        if (strstr(line, devices[i].name) != NULL)
            return 1e12 * (b->type == TR_BF16 ? devices[i].bf16 : devices[i].f32);
    return 0;
}

/* Before the model, which may leave no room. */
static enum fr_rc measure_machine(struct bench *b, struct fr_err *err)
{
    size_t bytes = (size_t)(b->config.hidden_size * b->config.hidden_size) * 4 * sizeof(float);
    struct tr_queue *q = NULL;
    void *p[2] = {NULL, NULL};
    enum fr_rc rc = tr_queue_create(b->be, 0, &q, err);

    for (int i = 0; i < 2 && rc == FR_OK; i++)
        rc = tr_mem_alloc(b->be, TR_MEM_DEVICE, bytes, &p[i], err);
    if (rc == FR_OK)
        rc = rates(b, q, p, err);
    for (int i = 0; i < 2; i++)
        tr_mem_free(b->be, TR_MEM_DEVICE, p[i]);
    tr_queue_destroy(b->be, q);
    b->sheet = sheet_rate(b);
    if (rc == FR_OK)
        fr_print("matrix rate %.4g TFLOP/s on random numbers, bandwidth %.4g GB/s\n",
                 b->rate * 1e-12, b->bandwidth * 1e-9);
    if (rc == FR_OK && b->sheet > 0)
        fr_print("data sheet: %.4g TFLOP/s, of which the matrix rate is %.1f %%\n",
                 b->sheet * 1e-12, 100 * b->rate / b->sheet);
    return rc;
}

/* ---- steps ---- */

static enum fr_rc step(struct bench *b, double *loss, struct fr_err *err)
{
    struct tr_optim_result result;
    enum fr_rc rc = tr_optim_zero_grad(&b->optim, err);

    if (rc == FR_OK)
        rc = tr_model_forward_backward(b->model, &b->mb, err);
    if (rc == FR_OK)
        rc = tr_model_take_loss(b->model, loss, err);
    if (rc == FR_OK)
        rc = tr_optim_step(&b->optim, 1e-3, 1, &result, err);
    if (rc == FR_OK)
        rc = tr_sync(b->be, tr_model_queue(b->model), err);
    look_at_memory(b);
    *loss *= b->mb.loss_scale;
    return rc;
}

/* FLOP of a step. */
struct flop {
    double plain, recomputed; /* recompute: once more every block, not the head */
    double head;              /* of plain */
};

/* Of `layers` layers, `dense` of them without experts, each with the adapters of this model's. */
static struct flop step_flop(const struct bench *b, double layers, double dense)
{
    const struct tr_model_config *c = &b->config;
    double T = (double)b->tokens, lora = 0;
    struct tr_model_counts n;

    tr_model_count(c, &n);
    for (size_t i = 0; i < b->optim.params.n; i++) {
        const struct tr_adapter *a = &b->optim.params.adapters[i];
        lora += (double)(a->r * (a->in + a->out));
    }
    lora *= layers / (double)c->num_hidden_layers;
    double A = layers * (double)n.attention_layer + dense * (double)n.dense_ffn +
               (layers - dense) * ((double)c->num_experts_per_tok * (double)n.expert +
                                   (double)n.shared_expert + (double)n.router);
    int64_t widths = tr_model_head(c).qk + tr_model_head(c).v;
    double core = layers * (double)b->sequence * (double)(c->num_attention_heads * widths);
    double head = 4 * (double)b->targets * (double)c->vocab_size * (double)c->hidden_size;
    double plain = T * (4 * A + 3 * core + 8 * lora) + head;

    return (struct flop){
        .plain = plain, .recomputed = plain + T * (2 * A + core + 2 * lora), .head = head};
}

static struct flop slice_flop(const struct bench *b)
{
    const struct tr_model_config *c = &b->config;
    int64_t L = c->num_hidden_layers, dense = c->first_k_dense_replace;

    return step_flop(b, (double)L, (double)(dense < L ? dense : L));
}

static void print_share(const struct bench *b, double rate)
{
    if (b->sheet > 0)
        fr_print(", of the data sheet %.1f %%", 100 * rate / b->sheet);
}

/* The whole model's step: head as here, layers by their FLOP. share: of the time, that of the head;
 * the rows of the meter must be timed. */
static void print_whole(const struct bench *b)
{
    struct flop here = slice_flop(b), all;
    double head = 0, sum = 0, share, t, rate;

    if (b->whole == 0)
        return;
    all = step_flop(b, (double)b->whole, (double)b->whole_dense);
    for (size_t i = 0; i < b->meter.n; i++) {
        const struct meter_row *r = &b->meter.rows[i];

        sum += r->seconds;
        head += r->op == TR_OP_xent_chunk || r->op == TR_OP_xent_finish ? r->seconds : 0;
    }
    share = head / sum;
    t = b->step_seconds * (share + (1 - share) * (all.plain - all.head) / (here.plain - here.head));
    rate = all.plain / t;
    fr_print("the whole model of %lld layers, head %.1f %% of the FLOP (here %.1f %%): "
             "%.1f tokens/s, %.4g TFLOP/s, MFU %.1f %%",
             (long long)b->whole, 100 * all.head / all.plain, 100 * here.head / here.plain,
             (double)b->tokens / t, rate * 1e-12, 100 * rate / b->rate);
    print_share(b, rate);
    fr_print("\n");
}

static int by_seconds(const void *a, const void *b)
{
    double x = ((const struct meter_row *)a)->seconds, y = ((const struct meter_row *)b)->seconds;

    return (x < y) - (x > y);
}

/* One more step, op by op. */
static enum fr_rc print_ops(struct bench *b, struct fr_err *err)
{
    struct meter *m = &b->meter;
    double loss = 0, sum = 0;
    enum fr_rc rc;

    meter_reset(m, true);
    if ((rc = step(b, &loss, err)) != FR_OK)
        return rc;
    qsort(m->rows, m->n, sizeof(*m->rows), by_seconds);
    for (size_t i = 0; i < m->n; i++)
        sum += m->rows[i].seconds;
    fr_print("\n%-18s %24s %6s %10s %6s %10s %9s %11s %5s\n", "op", "shape", "calls", "ms", "share",
             "TFLOP/s", "GB/s", "of its roof", "goal");
    for (size_t i = 0; i < m->n; i++) {
        const struct meter_row *r = &m->rows[i];
        double calls = (double)r->calls, wanted = meter_goal(r, b->rate, b->bandwidth);
        char shape[72], goal[16] = "";

        (void)snprintf(shape, sizeof(shape), "%lld x %lld x %lld", (long long)r->cost.shape[0],
                       (long long)r->cost.shape[1], (long long)r->cost.shape[2]);
        if (wanted > 0)
            (void)snprintf(goal, sizeof(goal), "%.0f%%", 100 * wanted);
        fr_print("%-18s %24s %6lld %10.3f %5.1f%% %10.4g %9.4g %10.0f%% %5s\n", tr_op_name(r->op),
                 shape, (long long)r->calls, r->seconds * 1e3, 100 * r->seconds / sum,
                 calls * r->cost.flop / r->seconds * 1e-12,
                 calls * r->cost.bytes / r->seconds * 1e-9,
                 100 * meter_least(r, b->rate, b->bandwidth) / r->seconds, goal);
    }
    print_whole(b);
    return m->lost == 0 ? rc : fr_fail(err, FR_BUG, "more than %d shapes", METER_ROWS);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of all threads: on a busy machine they say more than the time that passed. */
static double processor_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static enum fr_rc run_steps(struct bench *b, struct fr_err *err)
{
    static const char *const warm = " (not counted)";
    double seconds[STEPS_MAX], loss, least = 0, t;
    struct flop f = slice_flop(b);
    enum fr_rc rc = FR_OK;

    forget_peak();
    for (int64_t i = 0; i <= b->steps && rc == FR_OK; i++) {
        double worked = processor_seconds();

        meter_reset(&b->meter, false);
        t = meter_now();
        rc = step(b, &loss, err);
        t = meter_now() - t;
        if (rc == FR_OK)
            fr_print("step %lld: loss %.6f, %.3f s, of processors %.3f s%s\n", (long long)i + 1,
                     loss, t, processor_seconds() - worked, i == 0 ? warm : "");
        if (i > 0)
            seconds[i - 1] = t;
    }
    if (rc != FR_OK)
        return rc;
    qsort(seconds, (size_t)b->steps, sizeof(*seconds), ascending);
    b->step_seconds = t = seconds[b->steps / 2];
    for (size_t i = 0; i < b->meter.n; i++)
        least += meter_least(&b->meter.rows[i], b->rate, b->bandwidth);
    fr_print("%lld tokens of %lld: %.1f tokens/s, %.4g TFLOP/s, MFU %.1f %%%s, with recompute %.1f "
             "%%, of the step's roofline %.1f %% (goal 70 %%)",
             (long long)b->tokens, (long long)b->sequence, (double)b->tokens / t,
             f.plain / t * 1e-12, 100 * f.plain / t / b->rate,
             b->tokens >= MFU_GOAL_TOKENS ? " (goal 45 %)" : "",
             100 * (b->keep ? f.plain : f.recomputed) / t / b->rate, 100 * least / t);
    print_share(b, f.plain / t);
    fr_print("\n");
    print_memory(b);
    return print_ops(b, err);
}

/* ---- the whole ---- */

/* LAYERS:DENSE */
static enum fr_rc read_whole(struct bench *b, const char *text, struct fr_err *err)
{
    struct fr_str all = fr_str_of(text), first = all;
    enum fr_rc rc;

    while (first.n > 0 && first.p[first.n - 1] != ':')
        first.n--;
    if (first.n < 2)
        return fr_fail(err, FR_USAGE, "whole=%s: expected LAYERS:DENSE, as whole=61:3", text);
    rc = fr_parse_i64((struct fr_str){first.p + first.n, all.n - first.n}, &b->whole_dense, err);
    first.n--;
    if (rc == FR_OK)
        rc = fr_parse_i64(first, &b->whole, err);
    if (rc == FR_OK && (b->whole < 1 || b->whole_dense < 0 || b->whole_dense > b->whole))
        rc = fr_fail(err, FR_USAGE, "whole=%s: no such layers", text);
    return rc;
}

static enum fr_rc read_device(struct bench *b, const char *name, struct fr_err *err)
{
    bool cpu = strcmp(name, "cpu") == 0, cuda = strcmp(name, "cuda") == 0;

    b->device = cpu ? TR_DEVICE_CPU : cuda ? TR_DEVICE_CUDA : TR_DEVICE_AUTO;
    return cpu || cuda || strcmp(name, "auto") == 0 ? FR_OK : fr_fail(err, FR_USAGE, "%s", name);
}

static enum fr_rc read_option(struct bench *b, const char *arg, struct fr_err *err)
{
    const char *value = strchr(arg, '=');
    size_t n = value != NULL ? (size_t)(value - arg) : 0;

    if (n == 5 && strncmp(arg, "steps", n) == 0)
        return fr_parse_i64(fr_str_of(value + 1), &b->steps, err);
    if (n == 6 && strncmp(arg, "layers", n) == 0)
        return fr_parse_i64(fr_str_of(value + 1), &b->layers, err);
    if (n == 6 && strncmp(arg, "device", n) == 0)
        return read_device(b, value + 1, err);
    if (n == 4 && strncmp(arg, "rate", n) == 0 && (b->rate = 1e12 * strtod(value + 1, NULL)) > 0)
        return FR_OK;
    if (n == 10 && strncmp(arg, "supervised", n) == 0 &&
        (b->supervised = strtod(value + 1, NULL)) > 0 && b->supervised <= 1)
        return FR_OK;
    if (n == 5 && strncmp(arg, "whole", n) == 0)
        return read_whole(b, value + 1, err);
    if (strcmp(arg, "recompute=all") == 0 || strcmp(arg, "recompute=none") == 0) {
        b->keep = strcmp(value + 1, "none") == 0;
        return FR_OK;
    }
    if (strcmp(arg, "type=bf16") == 0 || strcmp(arg, "type=f32") == 0) {
        b->type = strcmp(value + 1, "bf16") == 0 ? TR_BF16 : TR_F32;
        return FR_OK;
    }
    return fr_fail(err, FR_USAGE,
                   "%s: expected steps=N, layers=N, whole=N:N, type=bf16|f32, recompute=all|none, "
                   "rate=TFLOPS, supervised=SHARE or device=…",
                   arg);
}

static enum fr_rc read_args(struct bench *b, int argc, char **argv, struct fr_err *err)
{
    enum fr_rc rc;

    if (argc < 4)
        return fr_fail(err, FR_USAGE, "expected CONFIG TOKENS SEQUENCE [NAME=VALUE …]");
    if ((rc = tr_model_config_load(argv[1], &b->config, err)) != FR_OK ||
        (rc = fr_parse_i64(fr_str_of(argv[2]), &b->tokens, err)) != FR_OK ||
        (rc = fr_parse_i64(fr_str_of(argv[3]), &b->sequence, err)) != FR_OK)
        return rc;
    for (int i = 4; i < argc && rc == FR_OK; i++)
        rc = read_option(b, argv[i], err);
    if (rc == FR_OK && (b->tokens < 2 || b->sequence < 2 || b->tokens % b->sequence != 0 ||
                        b->steps < 1 || b->steps > STEPS_MAX || b->layers < 0))
        rc = fr_fail(err, FR_USAGE, "whole sequences of 2 tokens or more, and 1 to %d steps",
                     STEPS_MAX);
    if (b->layers > 0)
        b->config.num_hidden_layers = b->layers;
    return rc;
}

static enum fr_rc bench(struct bench *b, int argc, char **argv, struct fr_err *err)
{
    enum fr_rc rc = read_args(b, argc, argv, err);

    b->lora = (struct tr_lora_config){.r = RANK,
                                      .alpha = 2 * RANK,
                                      .targets = TARGETS,
                                      .ntargets = sizeof(TARGETS) / sizeof(TARGETS[0])};
    if (rc == FR_OK)
        rc = tr_device_create(b->device, 0, &b->be, err);
    if (rc != FR_OK)
        return rc;
    meter_start(&b->meter, b->be);
    if ((rc = measure_machine(b, err)) != FR_OK)
        return rc;
    b->at_start = b->least = free_bytes(b);
    if ((rc = tr_comm_single(b->be, &b->comm, err)) == FR_OK &&
        (rc = make_tokens(b, err)) == FR_OK && (rc = make_model(b, err)) == FR_OK)
        rc = run_steps(b, err);
    return rc;
}

int main(int argc, char **argv)
{
    struct bench b = {.steps = 3, .supervised = 1, .type = TR_BF16, .device = TR_DEVICE_AUTO};
    struct fr_err err = {0};
    enum fr_rc rc = bench(&b, argc, argv, &err);

    if (rc != FR_OK)
        fr_complain("layers: %s\n", err.msg);
    tr_optim_finish(&b.optim);
    tr_model_destroy(b.model);
    tr_comm_destroy(b.comm);
    tr_backend_destroy(b.be);
    free(b.names);
    free((void *)(uintptr_t)b.mb.ids);
    free((void *)(uintptr_t)b.mb.offsets);
    return rc == FR_OK ? EXIT_SUCCESS : rc == FR_NOMEM ? EXIT_NO_ROOM : EXIT_FAILURE;
}

#include "tests/unit/check.h"
#include "trainer/config/ds_config.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>

/* Flags that most configurations of the field agree with. */
static void flags_of(struct tr_args *a, int64_t batch, bool bf16, bool fp16)
{
    tr_args_init(a);
    a->per_device_train_batch_size = batch;
    a->bf16 = bf16;
    a->fp16 = fp16;
    a->learning_rate = 1e-4;
    a->max_grad_norm = 0.5;
}

static enum fr_rc load(const char *source, const struct tr_args *a, int64_t world,
                       struct tr_ds_config *c, struct fr_buf *notes, struct fr_err *err)
{
    static const struct tr_derived d = {.total_steps = 100, .warmup_steps = 10};
    struct tr_ds_flags flags = {.args = a, .derived = &d, .world = world, .hidden_size = 64};

    err->msg[0] = '\0';
    return tr_ds_load(source, &flags, c, notes, err);
}

#define Z "\"zero_optimization\":{\"stage\":3}"

static const struct {
    const char *name, *json, *want; /* NULL: accepted */
    enum fr_rc rc;
} rows[] = {
    {"least", "{" Z "}", NULL, FR_OK},
    {"unknown top", "{" Z ",\"_comment\":1,\"whatever\":{}}", NULL, FR_OK},
    {"typo at the top", "{" Z ",\"gradient_cliping\":0.5}",
     "unknown key 'gradient_cliping': did you mean 'gradient_clipping'?", FR_USAGE},
    {"typo of an idle key", "{" Z ",\"tensorbord\":{}}", "did you mean 'tensorboard'", FR_USAGE},
    {"elastic", "{" Z ",\"elasticity\":{\"enabled\":true}}", "elasticity: batch sizes",
     FR_UNSUPPORTED},
    {"not elastic", "{" Z ",\"elasticity\":{\"enabled\":false}}", NULL, FR_OK},
    {"old boolean", "{\"zero_optimization\":true}", NULL, FR_OK},
    {"floats", "{\"zero_optimization\":{\"stage\":3,\"sub_group_size\":1e9}}", NULL, FR_OK},
    {"old offload", "{\"zero_optimization\":{\"stage\":2,\"cpu_offload\":true}}", NULL, FR_OK},
    {"tensor parallel", "{" Z ",\"tensor_parallel\":{\"tp\":{\"tp_size\":2}}}",
     "tensor parallelism is not done", FR_UNSUPPORTED},
    {"compression",
     "{" Z ",\"compression_training\":{\"weight_quantization\":"
     "{\"shared_parameters\":{\"enabled\":true}}}}",
     "weights are not compressed", FR_UNSUPPORTED},
    {"routing switched off",
     "{" Z ",\"data_efficiency\":{\"enabled\":false,\"data_routing\":"
     "{\"enabled\":true}}}",
     NULL, FR_OK},
    {"sum", "{" Z ",\"gradient_allreduce_op\":\"sum\"}", "mean over all tokens", FR_UNSUPPORTED},
    {"mean", "{" Z ",\"gradient_allreduce_op\":\"mean\",\"gradient_predivide_factor\":1.0}", NULL,
     FR_OK},
    {"unknown activation key", "{" Z ",\"activation_checkpointing\":{\"cpu_checkpoint\":true}}",
     "did you mean 'cpu_checkpointing'", FR_USAGE},
    {"experts stay", "{" Z ",\"moe\":{\"enabled\":true,\"expert_parallel_size\":2}}", NULL, FR_OK},
    {"experts of a node", "{" Z ",\"moe\":{\"enabled\":true,\"expert_group\":\"node\"}}", NULL,
     FR_OK},
    {"experts of what", "{" Z ",\"moe\":{\"enabled\":true,\"expert_group\":\"rack\"}}",
     "moe: expert_group is \"rack\", expected \"node\", \"world\" or \"auto\"", FR_USAGE},
    {"a typo of experts", "{" Z ",\"moe\":{\"enabled\":true,\"expert_parallel_sise\":2}}",
     "did you mean 'expert_parallel_size'?", FR_USAGE},
    {"copies of experts", "{" Z ",\"moe\":{\"enabled\":true,\"expert_replicas\":2}}",
     "expert_replicas: an expert has one owner", FR_UNSUPPORTED},
    {"a capacity", "{" Z ",\"moe\":{\"enabled\":true,\"capacity_factor\":1.25}}",
     "no token is dropped", FR_UNSUPPORTED},
    {"DeepSpeed's words",
     "{" Z ",\"expert_parallel\":{\"enabled\":true,\"autoep_size\":4,"
     "\"preset_model\":\"mixtral\",\"expert_tensor_parallel_size\":1}}",
     NULL, FR_OK},
    {"experts in slices",
     "{" Z ",\"expert_parallel\":{\"enabled\":true,"
     "\"expert_tensor_parallel_size\":2}}",
     "an expert is whole", FR_UNSUPPORTED},
    {"no ranks", "{" Z ",\"expert_parallel\":{\"enabled\":true,\"autoep_size\":0}}",
     "autoep_size is 0, expected a number of ranks from 1", FR_USAGE},
    {"less than none", "{" Z ",\"moe\":{\"expert_parallel_size\":-1}}",
     "expert_parallel_size is -1, expected a number of ranks", FR_USAGE},
    {"two sizes",
     "{" Z ",\"moe\":{\"enabled\":true,\"expert_parallel_size\":2},"
     "\"expert_parallel\":{\"enabled\":true,\"autoep_size\":4}}",
     "expert_parallel and moe say different things", FR_USAGE},
    {"no zero", "{}", "Please specify the ZeRO optimization config", FR_USAGE},
    {"no object", "{\"zero_optimization\":3}", "expected an object", FR_USAGE},
    {"stage 4", "{\"zero_optimization\":{\"stage\":4}}", "stage is 4", FR_USAGE},
    {"fraction", "{\"zero_optimization\":{\"stage\":3,\"sub_group_size\":1.5}}",
     "sub_group_size is 1.5, expected an integer", FR_USAGE},
    {"typo", "{\"zero_optimization\":{\"stage\":3,\"overlap_com\":true}}",
     "did you mean 'overlap_comm'", FR_USAGE},
    {"text", "{\"zero_optimization\":{\"stage\":3,\"overlap_comm\":\"yes\"}}", "true or false",
     FR_USAGE},
    {"param offload at 2",
     "{\"zero_optimization\":{\"stage\":2,\"offload_param\":{\"device\":\"cpu\"}}}",
     "needs stage 3", FR_USAGE},
    {"nvme", "{\"zero_optimization\":{\"stage\":3,\"offload_param\":{\"device\":\"nvme\"}}}",
     "nvme needs nvme_path", FR_USAGE},
    {"buffers", "{\"zero_optimization\":{\"stage\":3,\"offload_optimizer\":{\"buffer_count\":0}}}",
     "buffer_count", FR_USAGE},
    {"aio", "{" Z ",\"aio\":{\"thread_count\":\"x\"}}", "thread_count", FR_USAGE},
    {"aio key", "{" Z ",\"aio\":{\"threads\":1}}", "unknown key 'threads'", FR_USAGE},
    {"offload key", "{\"zero_optimization\":{\"stage\":3,\"offload_param\":{\"devices\":1}}}",
     "unknown key 'devices'", FR_USAGE},
    {"old and new offload",
     "{\"zero_optimization\":{\"stage\":2,\"cpu_offload\":true,\"offload_optimizer\":{}}}",
     "both cpu_offload and offload_optimizer", FR_USAGE},
    {"mics", "{\"zero_optimization\":{\"stage\":3,\"mics_shard_size\":4}}", "MiCS", FR_UNSUPPORTED},
    {"batch", "{" Z ",\"train_batch_size\":7}",
     "ds train_batch_size=7 vs hf train_batch_size (calculated)=8", FR_USAGE},
    {"micro", "{" Z ",\"train_micro_batch_size_per_gpu\":3}",
     "ds train_micro_batch_size_per_gpu=3 vs hf per_device_train_batch_size=2", FR_USAGE},
    {"a number in quotes", "{" Z ",\"gradient_accumulation_steps\":\"2\"}",
     "ds gradient_accumulation_steps=\"2\", which is no number, vs hf", FR_USAGE},
    {"two mismatches", "{" Z ",\"gradient_clipping\":1.0,\"gradient_accumulation_steps\":4}",
     "ds gradient_clipping=1 vs hf max_grad_norm=0.5 - ds gradient_accumulation_steps=4 vs hf "
     "gradient_accumulation_steps=1",
     FR_USAGE},
    {"both types", "{" Z ",\"fp16\":{\"enabled\":true}}", "fp16 and bf16 are both enabled",
     FR_USAGE},
    {"bf16 off", "{" Z ",\"bf16\":{\"enabled\":false}}", "ds bf16.enabled=false vs hf bf16=true",
     FR_USAGE},
    {"fp16 key", "{" Z ",\"fp16\":{\"enable\":false}}", "unknown key 'enable'", FR_USAGE},
    {"window", "{" Z ",\"fp16\":{\"enabled\":false,\"loss_scale_window\":0}}",
     "loss_scale_window is 0", FR_USAGE},
    {"amp", "{" Z ",\"amp\":{\"enabled\":true}}", "apex", FR_UNSUPPORTED},
    {"optimizer", "{" Z ",\"optimizer\":{\"type\":\"Lion\"}}", "type 'Lion'", FR_UNSUPPORTED},
    {"no bias correction",
     "{" Z ",\"optimizer\":{\"type\":\"Adam\",\"params\":{\"bias_correction\":false}}}",
     "bias_correction", FR_UNSUPPORTED},
    {"optimizer block", "{" Z ",\"optimizer\":{\"type\":\"AdamW\",\"param\":{}}}",
     "unknown key 'param': did you mean 'params'?", FR_USAGE},
    {"scheduler block", "{" Z ",\"scheduler\":{\"type\":\"WarmupLR\",\"warmup_min_lr\":0}}",
     "scheduler: unknown key 'warmup_min_lr'", FR_USAGE},
    {"optimizer norm",
     "{" Z ",\"optimizer\":{\"type\":\"AdamW\",\"params\":"
     "{\"max_grad_norm\":1}}}",
     "use gradient_clipping", FR_USAGE},
    {"optimizer key", "{" Z ",\"optimizer\":{\"type\":\"AdamW\",\"params\":{\"lrr\":1}}}",
     "unknown key 'lrr'", FR_USAGE},
    {"lr", "{" Z ",\"optimizer\":{\"type\":\"AdamW\",\"params\":{\"lr\":1}}}",
     "ds lr=1 vs hf learning_rate=0.0001", FR_USAGE},
    {"no total", "{" Z ",\"scheduler\":{\"type\":\"WarmupDecayLR\",\"params\":{}}}",
     "needs total_num_steps", FR_USAGE},
    {"scheduler", "{" Z ",\"scheduler\":{\"type\":\"OneCycle\",\"params\":{}}}", "type 'OneCycle'",
     FR_UNSUPPORTED},
    {"steps",
     "{" Z ",\"scheduler\":{\"type\":\"WarmupDecayLR\",\"params\":"
     "{\"total_num_steps\":5}}}",
     "ds scheduler.params.total_num_steps=5 vs hf num_training_steps (calculated)=100", FR_USAGE},
    {"wire", "{" Z ",\"communication_data_type\":\"int8\"}", "fp32, bf16 or fp16", FR_USAGE},
    {"sequence", "{" Z ",\"sequence_parallel_size\":2}", "sequence parallelism", FR_UNSUPPORTED},
    {"prescale", "{" Z ",\"prescale_gradients\":true}", "never scaled before", FR_UNSUPPORTED},
    {"predivide", "{" Z ",\"gradient_predivide_factor\":2}", "never scaled before", FR_UNSUPPORTED},
    {"repeated key", "{" Z ",\"a\":1,\"a\":2}", "uplicate", FR_USAGE},
    {"broken", "{" Z, "--deepspeed:1:", FR_USAGE},
};

static void test_rows(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_ds_config c;
        struct tr_args a;
        struct fr_err err;
        check_row(rows[i].name);
        flags_of(&a, 2, true, false);
        CHECK_INT(load(rows[i].json, &a, 4, &c, NULL, &err), rows[i].rc);
        if (rows[i].want != NULL && !CHECK(strstr(err.msg, rows[i].want) != NULL))
            printf("   message: %s\n", err.msg);
        if (rows[i].want == NULL && !CHECK_TEXT(err.msg, ""))
            printf("   message: %s\n", err.msg);
        tr_args_finish(&a);
    }
}

/* Whether experts stay, on how many ranks, and what is said. */
static const struct {
    const char *json, *note; /* NULL: nothing is said */
    bool stay;
    int64_t ranks;
    enum tr_expert_group group;
} experts[] = {
    {"\"moe\":{\"enabled\":true,\"expert_group\":\"node\"}", NULL, true, 0, TR_EXPERTS_NODE},
    {"\"moe\":{\"enabled\":true,\"expert_parallel_size\":4}", NULL, true, 4, TR_EXPERTS_ANY},
    {"\"moe\":{\"enabled\":true,\"expert_parallel_size\":\"auto\"}", NULL, true, 0, TR_EXPERTS_ANY},
    {"\"moe\":{\"enabled\":false}", NULL, false, 0, TR_EXPERTS_ANY},
    {"\"moe\":{\"enabled\":true,\"ep_size\":1,\"num_experts\":256}", "moe changes nothing", false,
     0, TR_EXPERTS_ANY},
    {"\"moe\":{\"enabled\":true,\"ep_size\":8}", "moe: ep_size is ignored: expert_parallel_size",
     false, 0, TR_EXPERTS_ANY},
    {"\"moe\":{\"expert_group\":\"world\"}", "moe changes nothing", false, 0, TR_EXPERTS_WORLD},
    {"\"expert_parallel\":{\"enabled\":true,\"autoep_size\":4}", NULL, true, 4, TR_EXPERTS_ANY},
    {"\"expert_parallel\":{\"enabled\":true,\"autoep_size\":4,\"route_scale\":1.5}",
     "expert_parallel: route_scale is ignored: experts and routing", true, 4, TR_EXPERTS_ANY},
    {"\"expert_parallel\":{\"enabled\":true}", "autoep_size 1: experts are sharded", false, 0,
     TR_EXPERTS_ANY},
};

static void test_experts(void)
{
    for (size_t i = 0; i < sizeof(experts) / sizeof(*experts); i++) {
        char json[256];
        struct tr_ds_config c;
        struct tr_args a;
        struct fr_err err;
        struct fr_buf notes = {0};

        check_row(experts[i].json);
        flags_of(&a, 2, true, false);
        a.max_grad_norm = 1;
        (void)snprintf(json, sizeof(json), "{" Z ",%s}", experts[i].json);
        CHECK_INT(load(json, &a, 4, &c, &notes, &err), FR_OK);
        CHECK(c.experts_stay == experts[i].stay);
        CHECK(!experts[i].stay || c.expert_ranks == experts[i].ranks);
        CHECK_INT(c.expert_group, experts[i].group);
        if (experts[i].note == NULL ? !CHECK_INT((long long)notes.n, 0)
                                    : !CHECK(notes.n > 0 && strstr(notes.p, experts[i].note)))
            printf("   notes: %s\n", notes.n > 0 ? notes.p : "none");
        fr_buf_finish(&notes);
        tr_args_finish(&a);
    }
}

static void test_auto(void)
{
    struct tr_ds_config c;
    struct tr_args a;
    struct fr_err err;
    struct fr_buf notes = {0};

    check_row("auto");
    flags_of(&a, 2, false, true);
    CHECK_INT(load("{\"train_batch_size\":\"auto\",\"train_micro_batch_size_per_gpu\":\"auto\","
                   "\"gradient_accumulation_steps\":\"auto\",\"gradient_clipping\":\"auto\","
                   "\"fp16\":{\"enabled\":\"auto\",\"loss_scale\":0,\"initial_scale_power\":12},"
                   "\"bf16\":{\"enabled\":\"auto\"},\"moe\":{\"enabled\":true},"
                   "\"optimizer\":{\"type\":\"AdamW\",\"params\":{\"lr\":\"auto\","
                   "\"betas\":\"auto\","
                   "\"eps\":\"auto\",\"weight_decay\":\"auto\"}},\"scheduler\":{\"type\":"
                   "\"WarmupDecayLR\",\"params\":{\"total_num_steps\":\"auto\",\"warmup_min_lr\":"
                   "\"auto\",\"warmup_max_lr\":\"auto\",\"warmup_num_steps\":\"auto\"}},"
                   "\"zero_optimization\":{\"stage\":3,\"reduce_bucket_size\":\"auto\","
                   "\"stage3_prefetch_bucket_size\":\"auto\",\"offload_param\":{\"device\":\"cpu\","
                   "\"pin_memory\":true},\"stage3_param_persistence_threshold\":\"auto\","
                   "\"max_live_parameters\":7,\"stage3_max_reuse_distance\":\"auto\"}}",
                   &a, 4, &c, &notes, &err),
              FR_OK);
    CHECK_TEXT(err.msg, "");
    CHECK_INT(c.train_batch_size, 8);
    CHECK_INT(c.micro_batch, 2);
    CHECK(c.gradient_clipping == 0.5);
    CHECK_INT(c.precision, TR_PRECISION_FP16);
    CHECK_INT(c.initial_scale_power, 12);
    CHECK_INT(c.reduce_bucket_size, 64 * 64);
    CHECK_INT(c.prefetch_bucket_size, (int64_t)(0.9 * 64 * 64));
    CHECK(c.prefetch_auto);
    CHECK_INT(c.persistence_threshold, 640);
    CHECK_INT(c.max_live_parameters, 7);
    CHECK_INT(c.max_reuse_distance, 1000000000);
    CHECK(c.overlap_comm && c.optimizer && c.lr == 1e-4 && c.beta2 == 0.999 && c.eps == 1e-8);
    CHECK_INT(c.scheduler, TR_DS_LR_WARMUP_DECAY);
    CHECK_INT(c.total_num_steps, 100);
    CHECK_INT(c.warmup_num_steps, 10);
    CHECK(c.warmup_max_lr == 1e-4 && c.warmup_min_lr == 0 && !c.warmup_linear);
    CHECK(c.offload_param == TR_OFFLOAD_CPU && c.offload_param_pin);
    CHECK(c.offload_optimizer == TR_OFFLOAD_NONE);
    CHECK(!c.experts_stay && strstr(notes.p, "moe changes nothing, experts are sharded") != NULL);
    fr_buf_finish(&notes);

    check_row("keys without effect");
    CHECK_INT(load("{" Z ",\"_comment\":1,\"whatever\":{},\"nebula\":{\"enabled\":true},"
                   "\"autotuning\":false}",
                   &a, 1, &c, &notes, &err),
              FR_OK);
    CHECK(strstr(notes.p, "whatever is ignored: neither DeepSpeed nor this program") != NULL);
    CHECK(strstr(notes.p, "nebula is ignored: checkpoints are plain folders") != NULL);
    CHECK(strstr(notes.p, "_comment") == NULL && strstr(notes.p, "autotuning") == NULL);
    fr_buf_finish(&notes);

    check_row("absent keys");
    CHECK_INT(load("{" Z "}", &a, 1, &c, &notes, &err), FR_OK);
    CHECK(c.gradient_clipping == 1.0 && c.precision == TR_PRECISION_FP16 && c.accumulation == 1);
    CHECK(strstr(notes.p, "gradient_clipping is absent") != NULL);
    fr_buf_finish(&notes);
    tr_args_finish(&a);
}

/* What is accepted and does nothing, or something else, is said. NULL: nothing is. */
static const struct {
    const char *json, *want;
} notes_of[] = {
    {"{\"stage\":0}", "stage 0: weights are whole on each rank; the optimizer's state is"},
    {"{\"stage\":1}", NULL},
    {"{\"stage\":2}", "stage 2: as stage 1, adapters' gradients stay whole on each rank"},
    {"{\"stage\":3}", NULL},
    {"false", "stage 0: weights"},
    {"{\"stage\":3,\"reduce_bucket_size\":\"auto\"}", NULL},
    {"{\"stage\":3,\"overlap_comm\":true,\"sub_group_size\":1e9,\"reduce_bucket_size\":1}",
     "no effect of reduce_bucket_size: adapters' gradients are summed once a step, those"},
    {"{\"stage\":3,\"overlap_comm\":true,\"reduce_bucket_size\":\"auto\"}",
     "no effect of overlap_comm: adapters' gradients are summed once a step"},
    {"{\"stage\":3,\"sub_group_size\":1e9}", "no effect of sub_group_size: each rank steps"},
    {"{\"stage\":3,\"stage3_param_persistence_threshold\":5}",
     "no effect of stage3_param_persistence_threshold: norms and routers stay gathered"},
    {"{\"stage\":3,\"stage3_gather_16bit_weights_on_model_save\":true}", NULL},
    {"{\"stage\":3,\"stage3_gather_16bit_weights_on_model_save\":false}",
     "no effect of stage3_gather_16bit_weights_on_model_save: adapters"},
    {"{\"stage\":2,\"offload_optimizer\":{\"device\":\"cpu\"}}", "offload_optimizer has no effect"},
    {"{\"stage\":3,\"offload_optimizer\":{\"device\":\"none\"}}", NULL},
    {"{\"stage\":3,\"offload_optimizer\":{\"device\":\"nvme\",\"nvme_path\":\"/x\"}}",
     "offload_optimizer has no effect: the optimizer's state of adapters"},
    {"{\"stage\":3,\"offload_param\":{\"device\":\"auto\"}}",
     "offload_param: device auto is none, as accelerate has it"},
    {"{\"stage\":3,\"offload_param\":{\"device\":\"cpu\"}}",
     "weights on the host are pinned whatever pin_memory says"},
    {"{\"stage\":3,\"offload_param\":{\"device\":\"cpu\",\"pin_memory\":true}}", NULL},
    {"{\"stage\":3,\"offload_param\":{\"device\":\"nvme\",\"nvme_path\":\"/x\"}}",
     "offload_param to nvme: base weights stay in host memory"},
    {"{\"stage\":3},\"data_types\":{\"grad_accum_dtype\":\"bf16\"}",
     "grad_accum_dtype bf16: gradients of adapters are summed in f32"},
    {"{\"stage\":3},\"data_types\":{\"grad_accum_dtype\":\"fp32\"}", NULL},
    {"{\"stage\":3},\"communication_data_type\":\"bf16\"",
     "communication_data_type bf16: gradients of adapters travel as fp32"},
    {"{\"stage\":3},\"steps_per_print\":5,\"wall_clock_breakdown\":false",
     "steps_per_print is ignored: --logging_steps decides"},
    {"{\"stage\":3},\"wall_clock_breakdown\":false", NULL},
    {"{\"stage\":3},\"tensorboard\":{\"enabled\":false}", NULL},
    {"{\"stage\":3},\"tensorboard\":{\"enabled\":true}", "use --report_to tensorboard"},
    {"{\"stage\":3},\"zero_allow_untested_optimizer\":true",
     "zero_allow_untested_optimizer is ignored: optimizers are this program's own"},
    {"{\"stage\":3},\"tensor_parallel\":{\"autotp_size\":1}", NULL},
    {"{\"stage\":3},\"bf16\":{\"enabled\":true,\"immediate_grad_update\":true}",
     "bf16: immediate_grad_update is ignored: gradients are accumulated in f32"},
    {"{\"stage\":3},\"optimizer\":{\"type\":\"AdamW\",\"legacy_fusion\":true}",
     "optimizer: legacy_fusion is ignored: AdamW is this program's own"},
    {"{\"stage\":3,\"offload_param\":{\"device\":\"cpu\",\"pin_memory\":true,"
     "\"buffer_count\":4}}",
     "offload_param: buffer_count is ignored"},
    {"{\"stage\":3},\"activation_checkpointing\":{\"partition_activations\":true}",
     "activation_checkpointing: partition_activations is ignored"},
    {"{\"stage\":3,\"compute_grad_norm\":true,\"parameter_alignment\":true}",
     "no effect of compute_grad_norm, parameter_alignment"},
};

#define DISK "\"device\":\"nvme\",\"nvme_path\":\"/x\",\"pin_memory\":true"

/* Where weights train. */
static const struct {
    const char *type, *json, *want;
} notes_of_weights[] = {
    {"full", "{\"stage\":3,\"offload_optimizer\":{\"device\":\"cpu\",\"pin_memory\":true}}", NULL},
    {"freeze", "{\"stage\":3,\"cpu_offload\":true}", "states on the host are pinned"},
    {"full",
     "{\"stage\":3,\"offload_optimizer\":{\"device\":\"cpu\",\"pin_memory\":true},"
     "\"sub_group_size\":1e9}",
     NULL},
    {"full", "{\"stage\":3,\"overlap_comm\":true}", NULL},
    {"full", "{\"stage\":3,\"sub_group_size\":1e9}", "no effect of sub_group_size: each rank"},
    {"full", "{\"stage\":3,\"offload_optimizer\":{\"device\":\"nvme\",\"nvme_path\":\"/x\"}}",
     "offload_optimizer: states on the host are pinned whatever pin_memory says"},
    {"full", "{\"stage\":3,\"offload_optimizer\":{" DISK ",\"pipeline_read\":true}}", NULL},
    {"full", "{\"stage\":1,\"offload_optimizer\":{" DISK ",\"pipeline_write\":false}}",
     "offload_optimizer: tiles are read and written beside the step, whatever pipeline_read and "
     "pipeline_write say"},
    {"full", "{\"stage\":3,\"offload_optimizer\":{" DISK ",\"buffer_count\":4,\"fast_init\":true}}",
     NULL},
    {"freeze", "{\"stage\":3,\"offload_optimizer\":{" DISK ",\"buffer_count\":2}}",
     "offload_optimizer: buffer_count 2: 3 tiles are in memory at once"},
    {"full",
     "{\"stage\":3,\"offload_optimizer\":{" DISK
     "}},\"aio\":{\"thread_count\":8,\"block_size\":1e6}",
     NULL},
    {"full", "{\"stage\":3,\"offload_optimizer\":{" DISK "}},\"aio\":{\"thread_count\":1}",
     "aio: thread_count 1: 4 threads read and write tiles"},
    {"full", "{\"stage\":3,\"offload_optimizer\":{" DISK "}},\"aio\":{\"block_size\":1e8}",
     "aio: block_size 100000000: 8388608 bytes are read or written at once"},
    {"full", "{\"stage\":3,\"offload_optimizer\":{" DISK "}},\"aio\":{\"queue_depth\":32}",
     "aio: queue_depth is ignored: each thread reads or writes one block at a time"},
    {"full",
     "{\"stage\":3,\"offload_optimizer\":{\"device\":\"cpu\",\"pin_memory\":true,"
     "\"pipeline_read\":true}}",
     "buffer_count, pipeline_read, pipeline_write and fast_init have effect with nvme alone"},
    {"full", "{\"stage\":3},\"aio\":{\"thread_count\":8}",
     "aio has effect with offload_optimizer to nvme alone"},
};

static void try_notes(const char *type, const char *zero, const char *want)
{
    struct tr_ds_config c;
    struct tr_args a;
    struct fr_err err;
    struct fr_buf notes = {0};
    char json[512];

    check_row(zero);
    flags_of(&a, 2, true, false);
    a.max_grad_norm = 1;
    a.finetuning_type = type;
    (void)snprintf(json, sizeof(json), "{\"zero_optimization\":%s}", zero);
    CHECK_INT(load(json, &a, 4, &c, &notes, &err), FR_OK);
    if (want == NULL ? !CHECK_INT((long long)notes.n, 0)
                     : !CHECK(notes.n > 0 && strstr(notes.p, want)))
        printf("   notes: %s\n", notes.n > 0 ? notes.p : "none");
    fr_buf_finish(&notes);
    tr_args_finish(&a);
}

static void test_notes(void)
{
    for (size_t i = 0; i < sizeof(notes_of) / sizeof(notes_of[0]); i++)
        try_notes("lora", notes_of[i].json, notes_of[i].want);
    for (size_t i = 0; i < sizeof(notes_of_weights) / sizeof(notes_of_weights[0]); i++)
        try_notes(notes_of_weights[i].type, notes_of_weights[i].json, notes_of_weights[i].want);
}

/* Every key of DeepSpeed (tests/golden/deepspeed_keys.py) is known; docs/arguments.md has it. */
static void test_keys(void)
{
    static const char file[] = SOURCE_ROOT "/tests/golden/deepspeed_keys.json";
    json_t *list, *blocks = json_load_file(file, 0, NULL);
    struct fr_buf doc = {0};
    const char *block;
    size_t n = 0;

    tr_ds_markdown(&doc);
    json_object_foreach(blocks, block, list) for (size_t i = 0; i < json_array_size(list); i++, n++)
    {
        char json[512];
        const char *key = json_string_value(json_array_get(list, i));
        struct tr_ds_config c;
        struct tr_args a;
        struct fr_err err;
        check_row(key);
        flags_of(&a, 2, true, false);
        if (block[0] == '\0')
            (void)snprintf(json, sizeof(json), "{" Z ",\"%s\":null}", key);
        else if (strcmp(block, "zero_optimization") == 0)
            (void)snprintf(json, sizeof(json), "{\"%s\":{\"%s\":\"auto\"}}", block, key);
        else
            (void)snprintf(json, sizeof(json),
                           block[0] == 'o' ? "{\"zero_optimization\":{\"%s\":{\"%s\":null}}}"
                                           : "{" Z ",\"%s\":{\"%s\":null}}",
                           block, key);
        load(json, &a, 1, &c, NULL, &err);
        if (!CHECK(strstr(err.msg, "unknown key") == NULL))
            printf("   message: %s\n", err.msg);
        (void)snprintf(json, sizeof(json), "`%s`", key);
        CHECK(doc.p != NULL && strstr(doc.p, json) != NULL);
        tr_args_finish(&a);
    }
    CHECK_INT(n, 136);
    fr_buf_finish(&doc);
    json_decref(blocks);
}

/* Files of the field that are not accepted with flags made to fit, and why. */
static const struct {
    const char *file, *want;
} refused[] = {
    {"deepspeedai__DeepSpeedExamples__autosp_config.json", "sequence parallelism is not done"},
    {"deepspeedai__DeepSpeedExamples__ds_config.json", "tensor parallelism is not done"},
    {"deepspeedai__DeepSpeedExamples__ds_config_cifar_random_ltd.json", "never scaled before"},
    {"deepspeedai__DeepSpeedExamples__zf_config.json", "zenflow"},
    {"hiyouga__LLaMA-Factory__ds_z2_autotp_config.json", "tensor parallelism is not done"},
};

/* The value that a mismatch names behind "ds KEY=", so that the flag can be made to fit; NAN:
 * none. */
static double named(const char *msg, const char *key)
{
    char text[128];
    const char *at;

    (void)snprintf(text, sizeof(text), "- ds %s=", key);
    at = strstr(msg, text);
    return at == NULL ? NAN : strtod(at + strlen(text), NULL);
}

/* Loads file, then once more with the flags that it asked for. */
static enum fr_rc load_fitting(const char *path, struct fr_err *err)
{
    struct tr_ds_config c;
    struct tr_args a;
    double x;

    flags_of(&a, 1, true, false);
    enum fr_rc rc = load(path, &a, 1, &c, NULL, err);
    if (strstr(err->msg, "both enabled") != NULL || strstr(err->msg, "fp16.enabled=true") != NULL ||
        strstr(err->msg, "bf16.enabled=false") != NULL) {
        a.bf16 = false;
        a.fp16 = true;
        rc = load(path, &a, 1, &c, NULL, err);
    }
    if (rc != FR_OK) {
        if (!isnan(x = named(err->msg, "train_batch_size")) ||
            !isnan(x = named(err->msg, "train_micro_batch_size_per_gpu")))
            a.per_device_train_batch_size = (int64_t)x;
        if (!isnan(x = named(err->msg, "gradient_clipping")))
            a.max_grad_norm = x;
        if (!isnan(x = named(err->msg, "lr")))
            a.learning_rate = x;
        if (!isnan(x = named(err->msg, "weight_decay")))
            a.weight_decay = x;
        if (strstr(err->msg, "betas=[0.8,") != NULL)
            a.adam_beta1 = 0.8;
        a.seed = 42;
        struct tr_derived d = {.total_steps = 100, .warmup_steps = 1000};
        rc = tr_ds_load(path, &(struct tr_ds_flags){&a, &d, 1, 64, false}, &c, NULL, err);
    }
    tr_args_finish(&a);
    return rc;
}

static void test_field(const char *data)
{
    char dir[512], path[1024];
    struct dirent *e;
    struct fr_err err;
    int files = 0;

    (void)snprintf(dir, sizeof(dir), "%s/ds_configs", data);
    DIR *d = opendir(dir);
    while (d != NULL && (e = readdir(d)) != NULL) {
        const char *want = NULL;
        if (strstr(e->d_name, ".json") == NULL)
            continue;
        files++;
        for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
            if (strcmp(refused[i].file, e->d_name) == 0)
                want = refused[i].want;
        (void)snprintf(path, sizeof(path), "%.500s/%.500s", dir, e->d_name);
        check_row(e->d_name);
        err.msg[0] = '\0';
        enum fr_rc rc = load_fitting(path, &err);
        if (want == NULL ? !CHECK_INT(rc, FR_OK)
                         : !CHECK(rc == FR_UNSUPPORTED && strstr(err.msg, want) != NULL))
            printf("   message: %s\n", err.msg);
    }
    if (d != NULL)
        closedir(d);
    check_row("files");
    CHECK_INT(files, 37);
}

int main(void)
{
    const char *data = getenv("FLOWRUN_DATA");

    test_rows();
    test_auto();
    test_experts();
    test_notes();
    test_keys();
    if (data != NULL)
        test_field(data);
    else
        printf("skipped: the files of the field, FLOWRUN_DATA is not set\n");
    return check_done();
}

#include "trainer/config/ds_read.h"

#include <string.h>

/* clang-format off */
#define TOP ""
#define OFF "offload_optimizer"
#define MOE "moe"
#define AUTOEP "expert_parallel"
#define MODEL "experts and routing are those of the model's config.json"
#define OWN "products and the exchange of tokens are this program's own"
#define WORKS(block, key, what) {block, key, TR_ARG_WORKS, what}
#define IDLE(block, key, why) {block, key, TR_ARG_IDLE, why}
#define NOT(block, key, why) {block, key, TR_ARG_REFUSED, why}
/* clang-format on */

/* Every key outside zero_optimization. */
static const struct ds_key {
    const char *block, *key;
    enum tr_arg_use use;
    const char *what; /* its effect, or the reason why it has none or is refused */
} keys[] = {
    WORKS(TOP, "train_batch_size", "must be the product of micro-batch, accumulation and ranks"),
    WORKS(TOP, "train_micro_batch_size_per_gpu", "must be --per_device_train_batch_size"),
    WORKS(TOP, "gradient_accumulation_steps", "must be --gradient_accumulation_steps"),
    WORKS(TOP, "gradient_clipping", "must be --max_grad_norm; absent: 1.0"),
    WORKS(TOP, "communication_data_type",
          "fp32, bf16 or fp16: gradients of weights between ranks; absent: fp32; those of adapters "
          "stay fp32"),
    WORKS(TOP, "optimizer", "AdamW, Adam or Muon, with params"),
    WORKS(TOP, "scheduler", "WarmupLR, WarmupDecayLR or WarmupCosineLR, with params"),
    WORKS(TOP, "fp16", "must be --fp16; loss scaling"),
    WORKS(TOP, "bf16", "must be --bf16"),
    WORKS(TOP, "bfloat16", "an older name of bf16"),
    WORKS(TOP, "zero_optimization", "stages 0 to 3, offload, limits of what is gathered"),
    WORKS(TOP, "activation_checkpointing", "cpu_checkpointing"),
    WORKS(TOP, "moe", "experts that stay on their ranks while tokens move; this program's own"),
    WORKS(TOP, "expert_parallel", "the same in DeepSpeed's words"),
    NOT(TOP, "amp", "apex is not done, use bf16 or fp16"),
    NOT(TOP, "tensor_parallel", "tensor parallelism is not done, use ZeRO stage 3"),
    NOT(TOP, "sequence_parallel_size", "sequence parallelism is not done"),
    NOT(TOP, "data_efficiency", "data routing and sampling are not done"),
    NOT(TOP, "curriculum_learning", "curriculum learning is not done"),
    NOT(TOP, "progressive_layer_drop", "layers are never dropped"),
    NOT(TOP, "sparse_attention", "attention is dense"),
    NOT(TOP, "elasticity", "batch sizes are those of the flags"),
    NOT(TOP, "quantize_training", "weights are not quantised while training"),
    NOT(TOP, "compression_training", "weights are not compressed"),
    NOT(TOP, "prescale_gradients", "gradients are summed, never scaled before"),
    NOT(TOP, "gradient_predivide_factor", "gradients are summed, never scaled before"),
    NOT(TOP, "gradient_allreduce_op", "the step's loss is the mean over all tokens"),
    IDLE(TOP, "managed_gradient_accumulation", "the trainer decides when a step ends"),
    IDLE(TOP, "zero_allow_untested_optimizer", "optimizers are this program's own"),
    IDLE(TOP, "zero_force_ds_cpu_optimizer", "optimizers are this program's own"),
    WORKS(TOP, "aio", "with offload_optimizer to nvme: how its tiles are read and written"),
    IDLE(TOP, "compile", "there is nothing to compile"),
    IDLE(TOP, "graph_harvesting", "there is nothing to compile"),
    IDLE(TOP, "disable_python_gc", "there is no Python"),
    IDLE(TOP, "flops_profiler", "use the trainer's own counters"),
    IDLE(TOP, "tensorboard", "use --report_to tensorboard"),
    IDLE(TOP, "csv_monitor", "use --report_to tensorboard"),
    IDLE(TOP, "wandb", "use --report_to tensorboard"),
    IDLE(TOP, "comet", "use --report_to tensorboard"),
    IDLE(TOP, "monitor_config", "use --report_to tensorboard"),
    IDLE(TOP, "comms_logger", "collectives are counted in the log"),
    IDLE(TOP, "use_data_before_expert_parallelism", "a group of ranks is as near as nodes allow"),
    WORKS(TOP, "data_types", "below"),
    IDLE(TOP, "torch_autocast", "types are chosen by bf16 and fp16"),
    IDLE(TOP, "checkpoint", "resume state has a format of its own"),
    IDLE(TOP, "datastates_ckpt", "resume state has a format of its own"),
    IDLE(TOP, "nebula", "checkpoints are plain folders"),
    IDLE(TOP, "use_node_local_storage", "resume states are on every node"),
    IDLE(TOP, "steps_per_print", "--logging_steps decides"),
    IDLE(TOP, "log_level", "lines are always the same"),
    IDLE(TOP, "wall_clock_breakdown", "phases are not timed apart"),
    IDLE(TOP, "timers", "phases are not timed apart"),
    IDLE(TOP, "memory_breakdown", "the table at the start has the memory"),
    IDLE(TOP, "dump_state", "training_args.json has the arguments"),
    IDLE(TOP, "autotuning", "nothing is tuned, values are taken as they are"),
    IDLE(TOP, "weight_quantization", "weights are not quantised"),
    IDLE(TOP, "eigenvalue", "no eigenvalues are computed"),
    IDLE(TOP, "pipeline", "there are no pipeline stages"),
    IDLE(TOP, "hybrid_engine", "nothing is generated"),
    IDLE(TOP, "sparse_gradients", "gradients of adapters are dense"),
    IDLE(TOP, "disable_allgather", "collectives are this program's own"),
    IDLE(TOP, "fp32_allreduce", "gradients are summed in f32"),
    IDLE(TOP, "seq_parallel_communication_data_type", "sequences are not split"),
    IDLE(TOP, "vocabulary_size", "config.json has it"),
    IDLE(TOP, "dataloader_drop_last", "--dataloader_drop_last decides"),

    WORKS("fp16", "enabled", "must be --fp16"),
    WORKS("fp16", "loss_scale", "0: dynamic"),
    WORKS("fp16", "initial_scale_power", "the scale begins at 2 to this power"),
    WORKS("fp16", "loss_scale_window", "steps without overflow before the scale doubles"),
    WORKS("fp16", "hysteresis", "overflows before the scale halves"),
    WORKS("fp16", "consecutive_hysteresis", "a step without overflow restores the hysteresis"),
    WORKS("fp16", "min_loss_scale", "the smallest scale"),
    IDLE("fp16", "auto_cast", "the model's types are fixed at the start"),
    IDLE("fp16", "fp16_master_weights_and_grads", "adapters keep f32 masters"),
    WORKS("data_types", "grad_accum_dtype",
          "fp32; bf16 and fp16 are refused where weights train, and without effect for adapters"),
    WORKS("bf16", "enabled", "must be --bf16"),
    WORKS("bf16", "check_grad_overflow", "a step with inf or nan is skipped"),
    IDLE("bf16", "immediate_grad_update", "gradients are accumulated in f32 at once"),
    IDLE("bf16", "bf16_master_weights_and_grads", "adapters keep f32 masters"),
    IDLE("bf16", "bf16_optimizer_states", "the optimizer's states are f32"),
    WORKS("offload_param", "device", "none, cpu or nvme; with nvme weights stay in host memory"),
    WORKS("offload_param", "nvme_path", "needed with nvme"),
    WORKS("offload_param", "pin_memory", "false is said to be without effect: always pinned"),
    IDLE("offload_param", "buffer_count", "the prefetcher's limits say how much is in flight"),
    IDLE("offload_param", "buffer_size", "the prefetcher's limits say how much is in flight"),
    IDLE("offload_param", "max_in_cpu", "all weights are in host memory"),
    WORKS(OFF, "device", "none, cpu or nvme, where weights train"),
    WORKS(OFF, "nvme_path", "needed with nvme: a folder of a local disk, made if it is absent"),
    WORKS(OFF, "pin_memory", "false is said to be without effect: always pinned"),
    WORKS(OFF, "buffer_count", "with nvme: tiles that are in memory at once, 3 to 16; absent: 4"),
    WORKS(OFF, "pipeline_read", "with nvme: always true, false is said to be without effect"),
    WORKS(OFF, "pipeline_write", "with nvme: always true, false is said to be without effect"),
    IDLE(OFF, "pipeline", "pipeline_read and pipeline_write are always true"),
    WORKS(OFF, "fast_init", "with nvme: always true"),
    IDLE(OFF, "ratio", "all states are offloaded"),
    IDLE(OFF, "super_offload", "the device waits for the host's step"),
    IDLE(OFF, "cpuadam_cores_perc", "OMP_NUM_THREADS says how many threads step"),
    WORKS("aio", "thread_count", "threads of a rank that read and write, 4 to 16"),
    WORKS("aio", "block_size", "bytes of a read or write, up to 8 MiB; absent: 1 MiB"),
    IDLE("aio", "queue_depth", "each thread reads or writes one block at a time"),
    IDLE("aio", "intra_op_parallelism", "thread_count says how many threads there are"),
    IDLE("aio", "single_submit", "blocks are read by pread and written by pwrite"),
    IDLE("aio", "overlap_events", "blocks are read by pread and written by pwrite"),
    IDLE("aio", "use_gds", "tiles go through the host's memory"),
    WORKS("activation_checkpointing", "cpu_checkpointing", "inputs of layers go to the host"),
    IDLE("activation_checkpointing", "partition_activations", "each rank has its own samples"),
    IDLE("activation_checkpointing", "contiguous_memory_optimization", "memory is laid out once"),
    IDLE("activation_checkpointing", "number_checkpoints", "every block keeps one input"),
    IDLE("activation_checkpointing", "synchronize_checkpoint_boundary", "queues order all work"),
    IDLE("activation_checkpointing", "profile", "use --trace"),
    WORKS(MOE, "enabled", "with a group or a size experts are owned by ranks, not sharded"),
    WORKS(MOE, "expert_parallel_size", "ranks that own the experts among them"),
    WORKS(MOE, "expert_group", "node or world: they are the ranks of a node, or all"),
    IDLE(MOE, "ep_size", "expert_parallel_size keeps experts on their ranks"),
    IDLE(MOE, "num_experts", MODEL),
    IDLE(MOE, "moe_experts", MODEL),
    IDLE(MOE, "type", MODEL),
    NOT(MOE, "expert_replicas", "an expert has one owner in a group of ranks"),
    WORKS(MOE, "expert_placement",
          "expert_counts.json, or what `flowtrain plan --placement` makes of it"),
    NOT(MOE, "expert_wire", "rows travel in the type of the computation"),
    NOT(MOE, "capacity_factor", "no token is dropped, rounds bound the memory"),
    NOT(MOE, "drop_tokens", "no token is dropped, rounds bound the memory"),
    NOT(MOE, "noisy_gate_policy", "experts are chosen as the model does"),
    WORKS(AUTOEP, "enabled", "as moe.enabled"),
    WORKS(AUTOEP, "autoep_size", "as moe.expert_parallel_size; absent, 1: sharded"),
    NOT(AUTOEP, "expert_tensor_parallel_size", "an expert is whole on its rank"),
    NOT(AUTOEP, "load_balance_coeff", "routers are frozen"),
    IDLE(AUTOEP, "preset_model", MODEL),
    IDLE(AUTOEP, "moe_layer_pattern", MODEL),
    IDLE(AUTOEP, "expert_pattern", MODEL),
    IDLE(AUTOEP, "router_pattern", MODEL),
    IDLE(AUTOEP, "expert_w1", MODEL),
    IDLE(AUTOEP, "expert_w2", MODEL),
    IDLE(AUTOEP, "expert_w3", MODEL),
    IDLE(AUTOEP, "num_experts_attr", MODEL),
    IDLE(AUTOEP, "top_k_attr", MODEL),
    IDLE(AUTOEP, "top_k", MODEL),
    IDLE(AUTOEP, "has_shared_experts", MODEL),
    IDLE(AUTOEP, "shared_experts_pattern", MODEL),
    IDLE(AUTOEP, "shared_experts_gate_pattern", MODEL),
    IDLE(AUTOEP, "expert_activation", MODEL),
    IDLE(AUTOEP, "route_norm", MODEL),
    IDLE(AUTOEP, "route_scale", MODEL),
    IDLE(AUTOEP, "routed_scaling_factor", MODEL),
    IDLE(AUTOEP, "score_func", MODEL),
    IDLE(AUTOEP, "score_apply", MODEL),
    IDLE(AUTOEP, "num_expert_groups", MODEL),
    IDLE(AUTOEP, "num_limited_groups", MODEL),
    IDLE(AUTOEP, "use_grouped_mm", OWN),
    IDLE(AUTOEP, "disable_triton_grouped_mm", OWN),
    IDLE(AUTOEP, "combine_impl", OWN),
    IDLE(AUTOEP, "row_weighting_impl", OWN),
    IDLE(AUTOEP, "gate_up_impl", OWN),
    IDLE(AUTOEP, "comm_backend", OWN),
    IDLE(AUTOEP, "comm_num_sm", OWN),
    IDLE(AUTOEP, "comm_qp_margin", OWN),
    IDLE(AUTOEP, "comm_max_tokens_per_rank", OWN),
    IDLE(AUTOEP, "async_split_plan", OWN),
    IDLE(AUTOEP, "validate_folding_routing", OWN),
    WORKS("optimizer", "type", "AdamW or Adam; Muon where weights train"),
    WORKS("optimizer", "params", "below"),
    IDLE("optimizer", "legacy_fusion", "AdamW is this program's own"),
    WORKS("optimizer.params", "lr", "must be --learning_rate"),
    WORKS("optimizer.params", "betas", "must be --adam_beta1 and --adam_beta2"),
    WORKS("optimizer.params", "eps", "must be --adam_epsilon"),
    WORKS("optimizer.params", "weight_decay", "must be --weight_decay"),
    WORKS("optimizer.params", "adam_w_mode", "true; false only without weight decay"),
    WORKS("optimizer.params", "bias_correction", "only true"),
    WORKS("optimizer.params", "amsgrad", "only false"),
    WORKS("optimizer.params", "muon_lr", "Muon: rate of matrices; absent: lr, else 0.02"),
    WORKS("optimizer.params", "adam_lr", "Muon: rate of the others; absent: lr, else 0.0003"),
    WORKS("optimizer.params", "momentum", "Muon: 0.95"),
    WORKS("optimizer.params", "ns_method", "Muon: gram or standard"),
    WORKS("optimizer.params", "per_head_muon", "only false"),
    WORKS("optimizer.params", "ns_steps", "only 5"),
    WORKS("optimizer.params", "nesterov", "only true"),
    IDLE("optimizer.params", "torch_adam", "AdamW is this program's own"),
    IDLE("optimizer.params", "fused", "AdamW is this program's own"),
    IDLE("optimizer.params", "fp32_optimizer_states", "the optimizer's states are f32"),
    WORKS("scheduler", "type", "WarmupLR, WarmupDecayLR or WarmupCosineLR"),
    WORKS("scheduler", "params", "below"),
    WORKS("scheduler.params", "warmup_min_lr", "where the warm-up begins"),
    WORKS("scheduler.params", "warmup_max_lr", "must be --learning_rate"),
    WORKS("scheduler.params", "warmup_num_steps", "must be the steps of warm-up"),
    WORKS("scheduler.params", "warmup_type", "log or linear"),
    WORKS("scheduler.params", "total_num_steps", "must be the number of steps"),
    WORKS("scheduler.params", "warmup_min_ratio", "of WarmupCosineLR"),
    WORKS("scheduler.params", "cos_min_ratio", "of WarmupCosineLR"),
    IDLE("scheduler.params", "last_batch_iteration", "a resume knows its step"),
};
enum { NKEYS = sizeof(keys) / sizeof(keys[0]) };

static const struct ds_key *find(const char *block, const char *key)
{
    for (size_t i = 0; i < NKEYS; i++)
        if (strcmp(keys[i].block, block) == 0 && strcmp(keys[i].key, key) == 0)
            return &keys[i];
    return NULL;
}

/* Whether the value turns a feature on: true, a name, or a size other than the default of one. In
 * an object that is not disabled, one of these must stand under a name that turns the feature on.
 */
static bool is_on(const char *key, const json_t *v)
{
    const char *name;
    json_t *m;

    if (json_is_object(v)) {
        if (json_is_false(json_object_get(v, "enabled")))
            return false;
        json_object_foreach((json_t *)v, name,
                            m) if ((json_is_object(m) || strcmp(name, "enabled") == 0 ||
                                    strcmp(name, "mode") == 0 || strcmp(name, "autotp_size") == 0 ||
                                    strcmp(name, "tp_size") == 0) &&
                                   is_on(name, m)) return true;
        return false;
    }
    if (strcmp(key, "gradient_allreduce_op") == 0 && json_is_string(v))
        return strcmp(json_string_value(v), "mean") != 0;
    return json_is_true(v) || (json_is_number(v) && json_number_value(v) != 1) ||
           (json_is_string(v) && !tr_ds_auto(v));
}

/* Whether the key is off or left open. */
static bool is_off(const json_t *v)
{
    return json_is_null(v) || json_is_false(v) || tr_ds_auto(v) ||
           (json_is_object(v) &&
            (json_object_size(v) == 0 || json_is_false(json_object_get(v, "enabled"))));
}

enum fr_rc tr_ds_unknown(const struct tr_fields *f, const char *key, const char *near,
                         struct fr_err *err)
{
    return fr_fail(err, FR_USAGE, "%s: unknown key '%s'%s%s%s", f->where, key,
                   near != NULL ? ": did you mean '" : "", near != NULL ? near : "",
                   near != NULL ? "'?" : "");
}

static enum fr_rc unknown(const struct tr_ds_read *r, const struct tr_fields *f, const char *block,
                          const char *key, struct fr_err *err)
{
    const char *names[NKEYS], *near;
    size_t n = 0;

    for (size_t i = 0; i < NKEYS; i++)
        if (strcmp(keys[i].block, block) == 0)
            names[n++] = keys[i].key;
    near = fr_suggest(key, names, n);
    if (near != NULL || block[0] != '\0')
        return tr_ds_unknown(f, key, near, err);
    tr_ds_note(r, "%s is ignored: neither DeepSpeed nor this program knows it", key);
    return FR_OK;
}

enum fr_rc tr_ds_keys(const struct tr_ds_read *r, const struct tr_fields *f, const char *block,
                      struct fr_err *err)
{
    const char *dot = block[0] != '\0' ? ": " : "", *key;
    enum fr_rc rc = FR_OK;
    json_t *v;

    json_object_foreach((json_t *)f->object, key, v)
    {
        const struct ds_key *row = find(block, key);
        if (row == NULL && key[0] == '_')
            continue; /* a comment */
        if (row == NULL)
            rc = unknown(r, f, block, key, err);
        else if (row->use == TR_ARG_REFUSED && is_on(key, v))
            rc = fr_fail(err, FR_UNSUPPORTED, "%s: %s: %s", f->where, key, row->what);
        else if (row->use == TR_ARG_IDLE && !is_off(v))
            tr_ds_note(r, "%s%s%s is ignored: %s", block, dot, key, row->what);
        if (rc != FR_OK)
            return rc;
    }
    return FR_OK;
}

static const char *use_name(enum tr_arg_use use)
{
    static const char *const names[] = {"works", "no effect", "refused"};

    return names[use];
}

void tr_ds_markdown(struct fr_buf *out)
{
    const char *block = NULL;

    fr_buf_text(out, "\n# Keys of a DeepSpeed file\n\nA line says so when a key without effect "
                     "asks for something. Names with `_` in front are comments.\n");
    for (size_t i = 0; i < NKEYS; i++) {
        if (block == NULL || strcmp(block, keys[i].block) != 0) {
            block = keys[i].block;
            if (block[0] != '\0')
                fr_buf_fmt(out, "\n## %s\n", block);
            else
                fr_buf_text(out, "\n## At the top\n");
            fr_buf_text(out, "\n| key | | |\n|---|---|---|\n");
        }
        fr_buf_fmt(out, "| `%s` | %s | %s |\n", keys[i].key, use_name(keys[i].use), keys[i].what);
    }
    tr_ds_zero_markdown(out);
}

#include "trainer/train/setup.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/config/folder.h"
#include "trainer/config/lora_saves.h"
#include "trainer/save/export.h"
#include "trainer/save/files.h"
#include "trainer/save/foreign.h"
#include "trainer/train/loading.h"
#include "trainer/train/output.h"
#include "trainer/train/resize.h"

#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATES = 3 };

void tr_run_notes(const struct tr_run *r, struct fr_buf *notes)
{
    if (r->env.comm->rank == 0 && notes->n > 0)
        for (const char *p = notes->p; *p != '\0';) {
            size_t n = strcspn(p, "\n");
            tr_say("note: %.*s", (int)n, p);
            p += n + (p[n] == '\n');
        }
    fr_buf_finish(notes);
}

/* FNV-1a of what experts are placed by. */
static uint64_t placement_hash(const struct tr_run *r)
{
    uint64_t h = UINT64_C(14695981039346656037);
    size_t n = 0;

    if (r->places.numbers != NULL)
        n = (size_t)(tr_model_moe_count(&r->config) * r->config.n_routed_experts) *
            sizeof(*r->places.numbers);
    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const unsigned char *)r->places.numbers)[i]) * UINT64_C(1099511628211);
    return h;
}

/* All ranks must train on the same data with the same model. */
static enum fr_rc same_everywhere(struct tr_run *r, struct fr_err *err)
{
    struct {
        char data[65], evals[65], model[65], tokenizer[65], config[TR_IDENTITY_TEXT + 192];
    } * mine, *all;
    size_t size = (size_t)r->env.comm->size;
    enum fr_rc rc;

    all = fr_sys.alloc((size + 1) * sizeof(*all));
    if (all == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to compare ranks");
    mine = &all[size];
    memset(mine, 0, sizeof(*mine));
    snprintf(mine->data, sizeof(mine->data), "%s", tr_dataset_digest(r->data));
    snprintf(mine->evals, sizeof(mine->evals), "%s", r->evals_digest);
    snprintf(mine->model, sizeof(mine->model), "%s", r->model_digest);
    snprintf(mine->tokenizer, sizeof(mine->tokenizer), "%s", tr_tokenizer_digest(r->tokenizer));
    snprintf(mine->config, sizeof(mine->config),
             "%s batch %lld accumulation %lld steps %lld save %lld eval %lld of %lld experts %d "
             "%lld %d placed %016llx copies %lld",
             r->resume.digests.config, (long long)r->args->per_device_train_batch_size,
             (long long)r->args->gradient_accumulation_steps, (long long)r->derived.total_steps,
             (long long)r->derived.save_every, (long long)r->derived.eval_every,
             (long long)r->args->per_device_eval_batch_size, (int)r->ds.experts_stay,
             (long long)r->ds.expert_ranks, (int)r->ds.expert_group,
             (unsigned long long)placement_hash(r), (long long)r->args->resume_copies);
    rc = tr_comm_host_all_gather(r->env.comm, all, mine, sizeof(*mine), err);
    for (size_t k = 0; k < size && rc == FR_OK; k++) {
        const char *what = strcmp(all[k].data, all[0].data) != 0     ? "the data set"
                           : strcmp(all[k].evals, all[0].evals) != 0 ? "the data for evaluation"
                           : strcmp(all[k].model, all[0].model) != 0 ? "the model"
                           : strcmp(all[k].tokenizer, all[0].tokenizer) != 0 ? "the tokenizer"
                           : strcmp(all[k].config, all[0].config) != 0       ? "the flags"
                                                                             : NULL;
        if (what != NULL)
            rc = fr_fail(err, FR_USAGE,
                         "rank %zu and rank 0 differ in %s: all nodes must have the "
                         "same files and flags",
                         k, what);
    }
    fr_sys.free(all);
    return rc;
}

bool tr_run_saves_model(const struct tr_run *r)
{
    return !r->trained.all || r->ds.stage < 3 || r->ds.gather_16bit_on_save;
}

/* What is trained is saved in some form, and the best model as such. Rows of --resize_vocab are in
 * states where all weights train. */
static enum fr_rc check_saved(const struct tr_run *r, struct fr_err *err)
{
    const char *flag = r->args->no_resume_state          ? "no_resume_state"
                       : r->args->load_best_model_at_end ? "load_best_model_at_end"
                                                         : "resize_vocab";

    bool rows = r->rows_before > 0 && r->trained.freeze;

    if (tr_run_saves_model(r) ||
        (!r->args->no_resume_state && !r->args->load_best_model_at_end && !rows))
        return FR_OK;
    return fr_fail(
        err, FR_USAGE,
        "--%s: stage3_gather_16bit_weights_on_model_save is false, so that resume states "
        "are all that is saved: leave out one of the two",
        flag);
}

/* Adapters: of the flags, or those to go on with, and what trains whole beside them. */
static enum fr_rc read_adapter(struct tr_run *r, struct fr_err *err)
{
    const struct tr_args *a = r->args;
    enum fr_rc rc;

    if (strcmp(a->finetuning_type, "lora") != 0)
        return FR_OK;
    rc = a->adapter_name_or_path != NULL ? tr_lora_read(a->adapter_name_or_path, &r->lora, err)
                                         : tr_lora_from_args(a, &r->lora, err);
    if (rc == FR_OK)
        rc = tr_lora_resolve(&r->lora, &r->config, err);
    if (rc == FR_OK)
        rc = tr_lora_settle(&r->lora, &r->config, r->st, err);
    return rc == FR_OK && r->rows_before > 0 ? tr_resize_held(&r->lora, &r->config, err) : rc;
}

static enum fr_rc read_configs(struct tr_run *r, struct fr_err *err)
{
    const struct tr_args *a = r->args;
    struct tr_ds_flags flags = {.args = a,
                                .derived = &r->derived,
                                .world = r->env.comm->size,
                                .hidden_size = r->config.hidden_size};
    struct fr_buf notes = {0};
    int64_t samples = 0;
    enum fr_rc rc = tr_trained_read(a, &r->config, &r->trained, &notes, err);

    if (rc == FR_OK)
        rc = read_adapter(r, err);
    tr_trained_beside(&r->trained, &r->lora);
    flags.weights = tr_trained_any(&r->trained);
    if (rc == FR_OK)
        rc = tr_sampler_micros(r->sampler, 0, &r->micros, &samples, err);

    if (rc == FR_OK)
        rc = tr_args_derive(a, samples, r->env.comm->size, &r->derived, err);

    if (rc == FR_OK && a->deepspeed != NULL)
        rc = tr_ds_load(a->deepspeed, &flags, &r->ds, &notes, err);
    else if (rc == FR_OK)
        tr_ds_default(&flags, &r->ds);
    if (rc == FR_OK)
        rc = check_saved(r, err);
    if (rc == FR_OK)
        rc = tr_schedule_make(a, &r->ds, &r->derived, &r->schedule, err);
    if (rc == FR_OK)
        rc = tr_run_check_metric(r, err);
    if (rc == FR_OK)
        rc = tr_identity_config(
            &(struct tr_identity){a, &r->derived, &r->ds, &r->lora, flags.weights},
            r->resume.digests.config, err);
    tr_run_notes(r, &notes);
    return rc;
}

enum tr_dtype tr_run_compute_type(const struct tr_run *r)
{
    return tr_precision_type(r->ds.precision);
}

int64_t tr_run_trainable(const struct tr_run *r)
{
    const struct tr_grads *g = tr_model_grads(r->model);

    return (g != NULL ? tr_grads_elements(g) : 0) + r->optim.params.elements;
}

/* Rows are made of a stream as it goes. */
static bool packs_stream(const struct tr_run *r)
{
    return r->args->streaming && r->args->packing;
}

/* A micro-batch of the longest samples. A batch in evaluation is computed in pieces of that size,
 * so it needs no more unless one sample alone does. */
static int64_t tokens_of(const struct tr_run *r)
{
    int64_t longest = packs_stream(r) ? r->args->sample_tokens : tr_dataset_longest(r->data);
    int64_t most = r->args->per_device_train_batch_size * longest;

    for (size_t i = 0; i < r->nevals; i++)
        if (tr_dataset_longest(r->evals[i].data) > most)
            most = tr_dataset_longest(r->evals[i].data);
    return most;
}

/* Examples of a row at most: as many as the shortest of them would be. */
static int64_t examples_of_row(const struct tr_run *r)
{
    int64_t shortest = r->args->sample_tokens;

    if (!packs_stream(r) || r->args->pretrain)
        return tr_dataset_most(r->data);
    for (int64_t i = 0; i < tr_dataset_size(r->data); i++) {
        int64_t n = tr_dataset_at(r->data, i).n;

        shortest = n > 0 && n < shortest ? n : shortest;
    }
    return r->args->sample_tokens / shortest;
}

/* The same in examples, of which a packed sample has several. */
static int64_t samples_of(const struct tr_run *r)
{
    int64_t most = r->args->per_device_train_batch_size * examples_of_row(r);

    for (size_t i = 0; i < r->nevals; i++)
        if (tr_dataset_most(r->evals[i].data) > most)
            most = tr_dataset_most(r->evals[i].data);
    return most;
}

/* The backend that steps in the host's memory, where the optimizer of weights is there. */
static enum fr_rc open_host(struct tr_run *r, struct fr_err *err)
{
    enum fr_rc rc;

    if (!tr_trained_any(&r->trained) || r->ds.offload_optimizer == TR_OFFLOAD_NONE)
        return FR_OK;
    if ((rc = tr_run_make_states(r, err)) != FR_OK)
        return rc;
    r->host = r->env.be;
    return r->env.be->memory->is_host ? FR_OK : tr_cpu_create(&r->host, err);
}

/* The communicator of gradients that are summed beside the backward. apart: the device runs several
 * queues at once. */
static enum fr_rc open_beside(struct tr_run *r, bool apart, struct fr_err *err)
{
    if (!apart || !r->ds.overlap_comm || r->env.comm->size == 1 || !tr_trained_any(&r->trained))
        return FR_OK;
    return tr_comm_split(r->env.comm, 0, &r->beside, err);
}

/* What the DeepSpeed file asks for, and has no effect where the backend's memory is the host's. */
static void note_idle(const struct tr_run *r, struct fr_buf *notes)
{
    if (!r->env.be->memory->is_host)
        return;
    if (r->ds.offload_param != TR_OFFLOAD_NONE || r->ds.cpu_checkpointing)
        fr_buf_text(notes, "offload_param and cpu_checkpointing have no effect on backend cpu: all "
                           "of its memory is the host's\n");
    if (r->ds.overlap_asked && r->env.comm->size > 1 && tr_trained_any(&r->trained))
        fr_buf_text(notes, "overlap_comm has no effect on backend cpu: it does one thing after "
                           "another\n");
}

static enum fr_rc make_model(struct tr_run *r, struct fr_err *err)
{
    const struct tr_args *a = r->args;
    bool apart = !r->env.be->memory->is_host;
    struct fr_buf notes = {0};
    int32_t *ranks = NULL;
    struct tr_model_opts o = {
        .be = r->env.be,
        .comm = r->env.comm,
        .config = &r->config,
        .lora = r->trained.all ? NULL : &r->lora,
        .trained = tr_trained_any(&r->trained) ? &r->trained : NULL,
        .compute = tr_run_compute_type(r),
        .wire = tr_precision_type(r->ds.communication),
        .once = a->gradient_accumulation_steps == 1,
        .partition = r->ds.stage == 3,
        .place = apart && r->ds.offload_param != TR_OFFLOAD_NONE ? TR_PLACE_HOST : TR_PLACE_DEVICE,
        .offload = apart && r->ds.cpu_checkpointing,
        .limits = {.prefetch_bucket = r->ds.prefetch_bucket_size,
                   .prefetch_auto = r->ds.prefetch_auto,
                   .max_live = r->ds.max_live_parameters,
                   .max_reuse = r->ds.max_reuse_distance},
        .tokens_max = r->tokens_max = tokens_of(r),
        .samples_max = r->samples_max = samples_of(r),
        .train = true,
        .score = r->nevals > 0,
        .state_block = tr_args_coded(a) ? TR_CODED_BLOCK : 0,
        .muon = r->ds.muon != TR_MUON_NONE,
        .seed = (uint64_t)a->seed,
    };
    enum fr_rc rc = tr_comm_split(r->env.comm, 0, &r->steps, err);

    if (rc == FR_OK)
        rc = open_beside(r, apart, err);
    if (rc == FR_OK)
        rc = open_host(r, err);
    o.host = (struct tr_grads_host){.be = r->host, .tile = r->ds.sub_group_size, .disk = r->states};
    if (rc == FR_OK)
        rc = tr_run_layout(r, o.place == TR_PLACE_HOST, err);
    o.reduce = r->steps;
    o.beside = r->beside;
    o.experts = r->experts;
    if (rc == FR_OK)
        rc = tr_run_place_experts(r, &ranks, err);
    o.expert_ranks = ranks;
    o.rest = r->rest;
    if (rc == FR_OK)
        rc = tr_model_create(&o, &r->model, &notes, err);
    if (rc == FR_OK)
        rc = tr_files_check(r->env.comm, r->model, r->st, err);
    if (rc == FR_OK)
        rc = tr_run_check_room(r, &notes, err);
    fr_sys.free(ranks);
    note_idle(r, &notes);
    tr_run_notes(r, &notes);
    if (rc != FR_OK)
        return rc;
    tr_run_say_layout(r);
    r->resume.flat_states =
        r->env.comm->local_rank == 0 && !tr_trained_any(&r->trained) ? STATES : 1;
    rc = tr_run_take_memory(r, err);
    return rc == FR_OK ? tr_run_open_states(r, err) : rc;
}

bool tr_run_stop_asked(const struct tr_run *r)
{
    struct pollfd p = {.fd = r->env.stop_fd, .events = POLLIN};

    return p.fd >= 0 && fr_sys.poll(&p, 1, 0) > 0;
}

/* Fills the memory of the table: model, optimizer, host copies of the adapters. */
static enum fr_rc fill(struct tr_run *r, struct tr_loading *l, struct fr_err *err)
{
    struct tr_params p;
    size_t bytes;
    enum fr_rc rc = tr_model_load(r->model, r->st, &l->tell, err);

    if (rc == FR_OK)
        rc = tr_optim_create(&r->optim, r->model, r->steps, r->env.be, err);
    if (rc != FR_OK)
        return rc;
    tr_model_params(r->model, &p);
    bytes = (size_t)p.padded * r->resume.flat_states * sizeof(float);
    if ((r->flat = fr_sys.alloc(bytes + 1)) == NULL)
        return fr_fail(err, FR_NOMEM, "state staging: %zu bytes", bytes);
    r->resume.flat = r->flat;
    return FR_OK;
}

/* Muon as LLaMA-Factory has it, or as DeepSpeed has it, which at stages 1 to 3 clips updates. */
static struct tr_muon muon_of(const struct tr_run *r)
{
    const struct tr_ds_config *d = &r->ds;
    double rate = r->args->learning_rate;
    bool own = d->scheduler == TR_DS_LR_NONE && rate > 0;

    if (d->muon != TR_MUON_BLOCK)
        return (struct tr_muon){
            .by_width = true,
            .eps_raw = true,
            .momentum = 0.95,
            .fresh = 1,
            .lr = 1,
            .adam_lr = 1,
        };
    return (struct tr_muon){.gram = !d->muon_plain,
                            .norm_after = d->stage > 0,
                            .momentum = d->muon_momentum,
                            .fresh = 1 - d->muon_momentum,
                            .lr = own ? d->muon_lr / rate : 1,
                            .adam_lr = own ? d->adam_lr / rate : 1};
}

static enum fr_rc load_model(struct tr_run *r, struct fr_err *err)
{
    bool first = r->env.comm->rank == 0;
    struct tr_loading loading;
    struct fr_err why = {0};

    tr_loading_begin(&loading);
    loading.quiet = !first;
    loading.run = r;
    r->rss_before = tr_peak_rss();
    if (fill(r, &loading, &why) != FR_OK) /* the device's part was there */
        return why.rc == FR_NOMEM ? tr_run_host_lacks(r, &why, err)
                                  : fr_fail(err, why.rc, "%s", why.msg);
    r->optim.beta1 = r->ds.optimizer ? r->ds.beta1 : r->args->adam_beta1;
    r->optim.beta2 = r->ds.optimizer ? r->ds.beta2 : r->args->adam_beta2;
    r->optim.eps = r->ds.optimizer ? r->ds.eps : r->args->adam_epsilon;
    r->optim.weight_decay = r->ds.optimizer ? r->ds.weight_decay : r->args->weight_decay;
    r->optim.clip = r->ds.gradient_clipping;
    r->optim.muon = muon_of(r);
    if (r->args->loraplus_lr_ratio != TR_RATIO_ABSENT)
        r->optim.b_ratio = r->args->loraplus_lr_ratio;
    if (first)
        tr_loading_end(&loading);
    return FR_OK;
}

static const char *resumes_from(const struct tr_run *r)
{
    return r->own ? "last" : r->args->resume_from_checkpoint;
}

/* From a resume state of this program, or a checkpoint of another. */
static enum fr_rc resume(struct tr_run *r, struct fr_err *err)
{
    const char *from = resumes_from(r);
    struct tr_foreign foreign;
    enum fr_rc rc = tr_foreign_find(from, r->args->output_dir, r->env.comm, &foreign, err);

    if (rc != FR_OK)
        return rc;
    rc = foreign.kind != TR_FOREIGN_NONE
             ? tr_run_go_on(r, &foreign, err)
             : tr_resume_load(&r->resume, from != NULL ? from : "last", &r->optim, &r->progress,
                              &r->resumed, err);
    if (rc == FR_OK && r->resumed)
        rc = tr_run_check_best(r, err);
    if (rc == FR_OK && !r->resumed && r->env.comm->rank == 0 && from != NULL)
        tr_say("No resume state in %s: starting from the beginning", r->args->output_dir);
    return rc;
}

/* Drawn, or read from an adapter; then, if there is a state to go on from, that. */
static enum fr_rc start_values(struct tr_run *r, struct fr_err *err)
{
    const struct tr_args *a = r->args;
    bool writes = tr_resume_writes(&r->resume, r->env.comm);
    enum fr_rc rc = FR_OK;

    if ((rc = tr_optim_begin(&r->optim, err)) != FR_OK)
        return rc;
    tr_optim_draw(&r->optim.params, (uint64_t)a->seed, r->flat);
    if (a->adapter_name_or_path != NULL)
        rc = tr_import_adapter(a->adapter_name_or_path, &r->optim.params, &r->lora, r->flat, err);
    if (rc == FR_OK)
        rc = tr_optim_set(&r->optim, r->flat, err);
    if (rc != FR_OK)
        return rc;
    if (resumes_from(r) != NULL || !a->overwrite_output_dir)
        rc = resume(r, err);
    else if (writes)
        rc = tr_resume_clear(a->output_dir, err);
    if (rc == FR_OK && writes && a->resume_run != NULL)
        rc = tr_output_sign(a->output_dir, a->resume_run, err);
    return rc;
}

static enum fr_rc open_model(struct tr_run *r, struct fr_err *err)
{
    const struct tr_args *a = r->args;
    const struct tr_folder f = {a->model_name_or_path, a->adapter_name_or_path, true};
    struct fr_buf notes = {0};
    enum fr_rc rc = tr_folder_open(&f, &r->config, &r->st, &notes, err);

    tr_run_notes(r, &notes);
    return rc;
}

/* Which nodes share the output folder, and whether this run has begun there. */
static enum fr_rc look_at_folders(struct tr_run *r, struct fr_err *err)
{
    size_t nodes = r->env.comm->nodes > 1 ? (size_t)r->env.comm->nodes : 1;
    int *folders = fr_arena_array(&r->arena, nodes, sizeof(*folders));
    double own;
    enum fr_rc rc;

    if (folders == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %zu nodes", nodes);
    r->resume.output_dir = r->args->output_dir;
    r->resume.folders = folders;
    if ((rc = tr_output_folders(r->args->output_dir, r->env.comm, folders, err)) != FR_OK)
        return rc;
    own = tr_resume_writes(&r->resume, r->env.comm) &&
          tr_output_is_of(r->args->output_dir, r->args->resume_run);
    rc = tr_comm_host_sum(r->env.comm, &own, 1, err);
    r->own = own > 0;
    return rc;
}

enum fr_rc tr_run_setup(struct tr_run *r, const struct tr_args *a, const struct tr_train_env *env,
                        struct fr_err *err)
{
    enum fr_rc rc;

    *r = (struct tr_run){
        .args = a, .env = *env, .output_lock = -1, .metrics = {.events = {.fd = -1}}};
    r->progress.history = json_array();
    r->batches = fr_sys.alloc((size_t)a->gradient_accumulation_steps * sizeof(*r->batches));
    if (r->batches == NULL || r->progress.history == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %lld micro-batches",
                       (long long)a->gradient_accumulation_steps);
    memset(r->batches, 0, (size_t)a->gradient_accumulation_steps * sizeof(*r->batches));
    rc = tr_output_open(a, env->comm->rank == 0, &r->output_lock, err);
    if (rc == FR_OK)
        rc = look_at_folders(r, err);
    if (rc == FR_OK)
        rc = open_model(r, err);
    if (rc == FR_OK)
        rc = tr_identity_model(r->env.comm, &r->config, r->st, r->model_digest, err);
    if (rc == FR_OK)
        rc = tr_run_load_data(r, err);
    if (rc == FR_OK)
        rc = tr_run_add_rows(r, err);
    if (rc == FR_OK)
        rc = read_configs(r, err);
    if (rc == FR_OK)
        rc = tr_run_read_placement(r, err);
    if (rc != FR_OK)
        return rc;
    tr_scaler_init(&r->progress.scaler, &r->ds, r->ds.precision == TR_PRECISION_FP16);
    r->progress.scaler.quiet = env->comm->rank != 0;
    r->resume.digests.model = r->model_digest;
    r->resume.digests.data = tr_dataset_digest(r->data);
    r->resume.digests.tokenizer = tr_tokenizer_digest(r->tokenizer);
    r->resume.copies = (int)a->resume_copies;
    r->resume.accumulation = a->gradient_accumulation_steps;
    r->resume.micro_per_epoch = a->streaming ? INT64_MAX : r->derived.micro_per_rank;
    rc = same_everywhere(r, err);
    if (rc == FR_OK)
        rc = make_model(r, err);
    if (rc == FR_OK)
        rc = load_model(r, err);
    return rc == FR_OK ? start_values(r, err) : rc;
}

void tr_run_finish(struct tr_run *r)
{
    for (int64_t i = 0; r->batches != NULL && i < r->args->gradient_accumulation_steps; i++)
        tr_batch_finish(&r->batches[i]);
    fr_sys.free(r->batches);
    fr_sys.free(r->flat);
    fr_sys.free(r->places.numbers);
    tr_metrics_finish(&r->metrics);
    tr_output_close(r->args, &r->output_lock);
    tr_optim_finish(&r->optim);
    tr_disk_destroy(r->states);
    tr_model_destroy(r->model);
    if (r->host != r->env.be)
        tr_backend_destroy(r->host);
    tr_comm_destroy(r->beside);
    tr_comm_destroy(r->steps);
    tr_comm_destroy(r->experts);
    tr_comm_destroy(r->rest);
    tr_sampler_destroy(r->sampler);
    for (size_t i = 0; i < r->nevals; i++)
        tr_dataset_destroy(r->evals[i].data);
    fr_sys.free(r->evals);
    tr_dataset_destroy(r->data);
    fr_arena_finish(&r->arena);
    tr_tokenizer_destroy(r->tokenizer);
    fr_buf_finish(&r->chat);
    tr_template_files_finish(&r->files);
    tr_st_close(r->st);
    tr_lora_finish(&r->lora);
    json_decref(r->progress.history);
}

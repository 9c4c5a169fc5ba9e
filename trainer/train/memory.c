/*
 * The memory of a rank: the table of what it will hold, and how much of what is free it uses.
 */
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/train/setup.h"

#include <stdlib.h>
#include <string.h>

enum {
    PIECES = 64,            /* more than the allocations of a run */
    DEVICE_SPARE = 1 << 30, /* bytes of a device at most that nothing is kept in */
    HOST_SPARE_PART = 8,    /* of what is free in a host, one part or HOST_SPARE is left free */
};

#define HOST_SPARE 4000000000u /* bytes */

#define NCCL_OWN "NCCL, its own"

int64_t tr_peak_rss(void)
{
    struct fr_buf text = {0};
    const char *line;
    int64_t kb = 0;

    if (fr_file_read("/proc/self/status", 65536, &text, NULL) == FR_OK &&
        (line = strstr(text.p, "VmHWM:")) != NULL)
        kb = strtoll(line + 6, NULL, 10);
    fr_buf_finish(&text);
    return kb * 1024;
}

/* The table of a rank's memory: rows of the model and of the run. */
struct table {
    struct tr_memory_row rows[TR_MEMORY_ROWS + 6];
    size_t n, sum, device, own; /* own: of device, taken by libraries already */
    size_t disk;                /* not of sum */
};

/* Of all communicators. */
static size_t transport_bytes(const struct tr_run *r)
{
    struct tr_comm *const all[] = {r->env.comm, r->steps, r->beside, r->experts, r->rest};
    size_t sum = 0;

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        sum += all[i] != NULL ? all[i]->ops->bytes(all[i]->self) : 0;
    return sum;
}

static void make_table(const struct tr_run *r, struct table *t)
{
    struct tr_optim_bytes o;
    struct tr_params p;

    tr_model_params(r->model, &p);
    *t = (struct table){0};
    t->n = tr_model_memory(r->model, t->rows) - 1; /* without the model's sum */
    tr_optim_bytes(r->model, r->env.comm->size, &o);
    t->rows[t->n++] = (struct tr_memory_row){.name = "optimizer", .bytes = o.device};
    if (o.matrices > 0)
        t->rows[t->n++] =
            (struct tr_memory_row){.name = TR_MUON_ROW, .bytes = o.matrices + o.scratch};
    t->disk = o.disk;
    if (o.host > 0)
        t->rows[t->n++] =
            (struct tr_memory_row){.name = "optimizer states", .bytes = o.host, .host = true};
    t->rows[t->n++] =
        (struct tr_memory_row){.name = "state staging",
                               .bytes = (size_t)p.padded * r->resume.flat_states * sizeof(float),
                               .host = true};
    t->rows[t->n++] =
        (struct tr_memory_row){.name = "transport", .bytes = transport_bytes(r), .host = true};
    if (r->env.comm->own_bytes > 0)
        t->rows[t->n++] =
            (struct tr_memory_row){.name = NCCL_OWN, .bytes = r->env.comm->own_bytes, .own = true};
    for (size_t i = 0; i < t->n; i++) {
        t->sum += t->rows[i].bytes;
        t->device += t->rows[i].host ? 0 : t->rows[i].bytes;
        t->own += t->rows[i].own ? t->rows[i].bytes : 0;
    }
}

static void print_table(const struct tr_run *r, const struct table *t)
{
    bool apart = !r->env.be->memory->is_host;
    char size[24];

    tr_say("Memory of rank %d of %d:", r->env.comm->rank, r->env.comm->size);
    for (size_t i = 0; i < t->n; i++) {
        fr_show_size((int64_t)t->rows[i].bytes, size);
        tr_say("  %-20s %12s%s", t->rows[i].name, size,
               apart && t->rows[i].host ? "  host"
               : t->rows[i].own         ? "  estimated"
                                        : "");
    }
    fr_show_size((int64_t)t->sum, size);
    tr_say("  %-20s %12s", "total", size);
    fr_show_size((int64_t)t->device, size);
    if (apart)
        tr_say("  %-20s %12s", "on the device", size);
    fr_show_size((int64_t)t->disk, size);
    if (t->disk > 0)
        tr_say("  %-20s %12s  %s", "on the disk", size, tr_disk_path(r->states));
}

/* A hint how to shrink the largest row of a memory. */
static const char *cure(const struct tr_run *r, const struct tr_memory_row *row)
{
    if (strcmp(row->name, "base shard") == 0)
        return row->host ? "take more ranks with ZeRO stage 3, or leave out offload_param"
                         : "take more ranks with ZeRO stage 3, or offload_param to the CPU";
    if (strcmp(row->name, "waiting activations") == 0)
        return "lower --per_device_train_batch_size or --cutoff_len, or leave out "
               "activation_checkpointing.cpu_checkpointing";
    if (strcmp(row->name, "experts") == 0)
        return "take a larger moe.expert_parallel_size and more ranks, or set moe.enabled to false";
    if (strcmp(row->name, "gather windows") == 0)
        return "lower stage3_max_live_parameters";
    if (strcmp(row->name, NCCL_OWN) == 0)
        return "lower NCCL_BUFFSIZE or NCCL_MAX_NCHANNELS";
    if ((r->trained.all && strcmp(row->name, "optimizer") == 0) ||
        strcmp(row->name, "gradients") == 0 || strcmp(row->name, "optimizer states") == 0)
        return r->host != NULL ? "take more nodes"
                               : "take more ranks, or zero_optimization.offload_optimizer";
    if (strcmp(row->name, "adapters") == 0 || strcmp(row->name, "optimizer") == 0 ||
        strcmp(row->name, "state staging") == 0)
        return "lower --lora_rank, or take more ranks";
    if (strcmp(row->name, TR_MUON_ROW) == 0)
        return "train with AdamW, not Muon";
    if (strcmp(row->name, "kept activations") == 0)
        return "set --recompute all";
    if (strcmp(row->name, "activations") == 0)
        return "lower --per_device_train_batch_size or --cutoff_len, or set "
               "activation_checkpointing.cpu_checkpointing";
    return "lower --per_device_train_batch_size or --cutoff_len";
}

/* The device's part at once: nothing is allocated on it afterwards. Pieces are rounded up. */
static enum fr_rc reserve(const struct tr_run *r, const struct table *t, struct fr_err *err)
{
    const struct tr_memory_row *most = NULL;
    struct fr_err why = {0};
    char size[24], all[24];

    if (tr_mem_reserve(r->env.be, t->device - t->own + PIECES * 256, &why) == FR_OK)
        return FR_OK;
    for (size_t i = 0; i < t->n; i++)
        if (!t->rows[i].host && (most == NULL || t->rows[i].bytes > most->bytes))
            most = &t->rows[i];
    if (r->env.comm->rank != 0) /* whose table is printed already */
        print_table(r, t);
    fr_show_size((int64_t)most->bytes, size);
    fr_show_size((int64_t)t->device, all);
    return fr_fail(err, why.rc,
                   "rank %d needs %s on its device, the largest part is %s with %s: "
                   "%s; %s",
                   r->env.comm->rank, all, most->name, size, why.msg, cure(r, most));
}

enum fr_rc tr_run_host_lacks(const struct tr_run *r, const struct fr_err *why, struct fr_err *err)
{
    bool apart = !r->env.be->memory->is_host;
    const struct tr_memory_row *row = NULL;
    struct table t;
    char all[24];

    make_table(r, &t);
    for (size_t i = 0; i < t.n; i++)
        if (strncmp(why->msg, t.rows[i].name, strlen(t.rows[i].name)) == 0)
            row = &t.rows[i];
    if (r->env.comm->rank != 0)
        print_table(r, &t);
    fr_show_size((int64_t)(apart ? t.sum - t.device : t.sum), all);
    return fr_fail(err, why->rc, "rank %d needs %s of its host's memory: %s; %s", r->env.comm->rank,
                   all, why->msg, row != NULL ? cure(r, row) : "take fewer ranks on this machine");
}

/* The part of this much device memory that the table leaves free. */
static size_t left_over(const struct tr_run *r, size_t room)
{
    struct table t;
    size_t need;

    make_table(r, &t);
    need = r->env.be->memory->is_host ? t.sum : t.device - t.own + PIECES * 256;
    return room > need ? room - need : 0;
}

/* Of the host's memory half of a rank's share; of a device all but what its libraries may come to
 * take, and nothing where other ranks have the same one. */
static size_t room_of(const struct tr_run *r)
{
    size_t all = tr_mem_room(r->env.be), most = DEVICE_SPARE, spare = all / 16;

    if (r->env.be->memory->is_host)
        return all / (size_t)r->env.comm->local_size / 2;
    return r->env.comm->shares ? 0 : all - (spare < most ? spare : most);
}

/* First activations that wait for the backward, then packed forms of weights. */
static void use_room(struct tr_run *r)
{
    size_t room = room_of(r);

    if (r->args->recompute == TR_RECOMPUTE_NONE)
        tr_model_keep(r->model, SIZE_MAX);
    else if (r->args->recompute == TR_RECOMPUTE_AUTO)
        tr_model_keep(r->model, left_over(r, room));
    if (r->env.be->memory->is_host)
        r->packed_bytes = tr_model_prepack(r->model, left_over(r, room));
}

/* What a rank needs of its host's memory, and has there. */
struct host_room {
    size_t need, room;
};

/* With the optimizer in the host's memory: refuses on all ranks what a node cannot hold. What is
 * free is read before any rank takes a part. */
static enum fr_rc check_host(const struct tr_run *r, const struct table *t, struct fr_err *err)
{
    const struct tr_comm *c = r->env.comm;
    struct host_room mine = {0}, *all;
    enum fr_rc rc;

    if (r->host == NULL)
        return FR_OK;
    mine.need = r->env.be->memory->is_host ? t->sum : t->sum - t->device;
    mine.room = tr_mem_room(r->host);
    mine.room -=
        mine.room / HOST_SPARE_PART < HOST_SPARE ? mine.room / HOST_SPARE_PART : HOST_SPARE;
    if ((all = fr_sys.alloc((size_t)c->size * sizeof(*all))) == NULL)
        return fr_fail(err, FR_NOMEM, "memory of %d ranks", c->size);
    rc = tr_comm_host_all_gather(r->env.comm, all, &mine, sizeof(mine), err);
    for (int k = 0; k < c->size && rc == FR_OK; k++) {
        size_t need = 0;

        for (int i = 0; i < c->size; i++)
            need += c->node_of == NULL || c->node_of[i] == c->node_of[k] ? all[i].need : 0;
        if (need > all[k].room)
            rc = fr_fail(err, FR_NOMEM,
                         "offload_optimizer: %.1f GB of host memory a node, %.1f available: take "
                         "more nodes, or %s",
                         (double)need * 1e-9, (double)all[k].room * 1e-9,
                         r->trained.all ? "--finetuning_type freeze or lora"
                                        : "fewer modules of --additional_target");
    }
    fr_sys.free(all);
    return rc;
}

static enum fr_rc take(struct tr_run *r, struct fr_err *err)
{
    struct table t;
    enum fr_rc rc;

    make_table(r, &t);
    r->planned_bytes = t.sum;
    if (r->env.comm->rank == 0)
        print_table(r, &t);
    if ((rc = check_host(r, &t, err)) != FR_OK)
        return rc;
    return reserve(r, &t, err);
}

enum fr_rc tr_run_take_memory(struct tr_run *r, struct fr_err *err)
{
    char size[24];
    enum fr_rc rc;

    use_room(r);
    rc = take(r, err);
    if (rc == FR_NOMEM && r->args->recompute == TR_RECOMPUTE_AUTO && tr_model_kept(r->model) > 0) {
        fr_log(FR_LOG_WARN, "memory",
               "rank %d: the device gives less at once than it says is free: all activations are "
               "computed again in the backward",
               r->env.comm->rank);
        tr_model_keep(r->model, 0);
        rc = take(r, err);
    }
    fr_show_size((int64_t)tr_mem_room(r->env.be), size);
    if (rc == FR_OK && r->env.comm->rank == 0 && !r->env.be->memory->is_host)
        tr_say("  %-20s %12s", "left free", size);
    return rc;
}

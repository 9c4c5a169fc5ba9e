/* The memory table and the gathers of a hypothetical rank: the model is made for communicators that
 * have a size only. */
#include "engine/base/sys.h"
#include "trainer/plan/plan.h"
#include "trainer/optim/disk.h"
#include "trainer/optim/optim.h"

#include <string.h>

/* Bytes of a GPU that NCCL, cuBLAS and the driver's context occupy at the start. */
#define LIBRARIES_BYTES 3000000000u

enum { STATES = 3 };

static size_t no_bytes(void *self)
{
    (void)self;
    return 0;
}

/* A communicator with sizes only; nothing is sent. */
static const struct tr_comm_ops sizes_only = {.name = "planned", .bytes = no_bytes};

/* Ranks of whole nodes, or of one. */
static struct tr_comm group(const int *node_of, int64_t nodes, int64_t gpus)
{
    return (struct tr_comm){.ops = &sizes_only,
                            .size = (int)(nodes * gpus),
                            .local_size = (int)gpus,
                            .nodes = (int)nodes,
                            .node_of = node_of};
}

static void add(struct tr_plan_layout *l, struct tr_memory_row row, int64_t gpus)
{
    if (row.bytes == 0)
        return;
    l->rows[l->n_rows++] = row;
    if (row.host)
        l->host += (double)row.bytes * (double)gpus;
    else
        l->memory += (double)row.bytes;
}

/* Backend scratch is of this machine's CPU backend, so for GPUs the row "libraries" replaces it.
 * A part to be saved is pageable, of one rank. The first rank of a node stages all states of the
 * optimizer, the others one. */
static void take_rows(struct tr_plan_layout *l, const struct tr_model *m,
                      const struct tr_cluster *c)
{
    bool cpu = tr_gpu_is_cpu(&c->gpu);
    struct tr_memory_row rows[TR_MEMORY_ROWS];
    size_t n = tr_model_memory(m, rows) - 1; /* without the sum */
    struct tr_optim_bytes o;
    struct tr_params p;

    tr_model_params(m, &p);
    l->flat = (double)p.padded;
    if (tr_model_grads(m) != NULL) {
        l->sums = (double)tr_grads_flat(tr_model_grads(m));
        tr_grads_shares(tr_model_grads(m), &l->shares);
        for (int later = 0; later < 2; later++)
            tr_grads_way(tr_model_grads(m), later, &l->ways[later]);
    }
    for (size_t i = 0; i < n; i++) {
        rows[i].host = rows[i].host && !cpu; /* all of a rank's memory is */
        if (cpu || (strcmp(rows[i].name, "backend scratch") != 0 &&
                    strcmp(rows[i].name, "part to be saved") != 0))
            add(l, rows[i], c->gpus);
    }
    tr_optim_bytes(m, (int)(c->nodes * c->gpus), &o);
    l->disk = (double)o.disk * (double)c->gpus;
    add(l, (struct tr_memory_row){.name = "optimizer", .bytes = o.device}, c->gpus);
    add(l, (struct tr_memory_row){.name = TR_MUON_ROW, .bytes = o.matrices + (cpu ? o.scratch : 0)},
        c->gpus);
    add(l, (struct tr_memory_row){.name = "optimizer states", .bytes = o.host, .host = !cpu},
        c->gpus);
    if (cpu)
        add(l,
            (struct tr_memory_row){.name = "state staging",
                                   .bytes = (size_t)p.padded * (l->sums > 0 ? 1 : STATES) *
                                            sizeof(float)},
            c->gpus);
    else
        add(l, (struct tr_memory_row){.name = "libraries", .bytes = LIBRARIES_BYTES}, c->gpus);
}

static enum fr_rc measure(const struct tr_plan_job *job, const struct tr_cluster *c,
                          struct tr_model_opts *o, struct tr_plan_layout *l, struct fr_err *err)
{
    struct tr_disk_opts tiles = {.tile = job->tile, .sets = (int)job->tiles};
    struct tr_disk *disk = NULL; /* makes no file */
    struct tr_model *m = NULL;
    struct tr_rehearsal r = {.gathered = l->fetched, .n = TR_PLAN_LATER + 1};
    enum fr_rc rc = tr_cpu_create(&o->be, err);

    o->config = job->config;
    o->lora = job->lora;
    o->trained = job->trained;
    if (rc == FR_OK && job->trained != NULL && l->way.disk)
        rc = tr_disk_create(&tiles, &disk, err);
    if (job->trained != NULL && l->way.states)
        o->host = (struct tr_grads_host){.be = o->be, .tile = job->tile, .disk = disk};
    o->compute = job->compute;
    o->wire = job->wire;
    o->once = job->accumulation == 1;
    o->state_block = job->coded ? TR_CODED_BLOCK : 0;
    o->muon = job->muon;
    o->limits = job->limits;
    o->tokens_max = job->batch * job->cutoff;
    o->samples_max = job->batch;
    o->in_flight = 1;
    o->train = true;
    if (rc == FR_OK)
        rc = tr_model_create(o, &m, NULL, err);
    if (rc == FR_OK) {
        tr_model_keep(m, job->keep_bytes);
        (void)tr_model_prepack(m, job->pack_bytes);
        take_rows(l, m, c);
        if (job->muon && tr_model_grads(m) != NULL)
            rc = tr_muon_moves(tr_model_grads(m), o->comm, job->muon_gram, &l->matrices, err);
        if (job->trained != NULL) {
            r.step = job->accumulation < r.n ? (int)job->accumulation : r.n;
            r.n = TR_PLAN_STEPS * r.step;
        }
        if (rc == FR_OK && l->kind != TR_PLAN_ZERO3_THREE) /* DeepSpeed's gathers are not ours */
            rc = tr_model_rehearse(m, &r, err);
        l->rows_work = r.rows;
    }
    tr_model_destroy(m);
    tr_disk_destroy(disk);
    tr_backend_destroy(o->be);
    return rc;
}

enum fr_rc tr_plan_memory(const struct tr_plan_job *job, const struct tr_cluster *c,
                          struct tr_plan_layout *l, struct fr_err *err)
{
    int64_t ranks = c->nodes * c->gpus;
    int *node_of = fr_sys.alloc((size_t)ranks * sizeof(*node_of));
    struct tr_comm world, reduce, node, owners;
    struct tr_model_opts o = {.comm = &world, .reduce = &reduce, .apart = !tr_gpu_is_cpu(&c->gpu)};
    enum fr_rc rc;

    if (node_of == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %lld ranks", (long long)ranks);
    for (int64_t k = 0; k < ranks; k++)
        node_of[k] = (int)(k / c->gpus);
    world = reduce = group(node_of, c->nodes, c->gpus);
    node = group(node_of, 1, c->gpus);
    owners = l->way.experts > c->gpus ? group(node_of, l->way.experts / c->gpus, c->gpus)
                                      : group(node_of, 1, l->way.experts);
    o.place = l->way.host ? TR_PLACE_HOST : TR_PLACE_DEVICE;
    o.partition = !l->way.whole;
    if (o.apart && (job->beside_sharded ? o.partition : job->beside))
        o.beside = &reduce;
    if (l->way.experts > 0) {
        o.experts = &owners;
        o.rest = c->nodes > 1 && !l->way.whole ? &node : NULL;
    }
    l->memory = l->host = 0;
    l->n_rows = 0;
    rc = measure(job, c, &o, l, err);
    fr_sys.free(node_of);
    return rc;
}

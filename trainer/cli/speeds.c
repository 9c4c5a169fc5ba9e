#include "trainer/cli/speeds.h"

#include "engine/base/sys.h"

#include <math.h>

/* An exchange grows until it takes long enough or hands out MOST_BYTES. */
enum { LEAST_BYTES = 1 << 20, MOST_BYTES = 64 << 20, TIMES = 4 };

/* Seconds of measuring, each: a part of what the run took, and no more than this. */
#define PART 0.05
#define PRODUCTS_S 3.0
#define LINKS_S 1.0

/* An exchange among the ranks of a communicator. */
struct exchange {
    const struct tr_train_env *env;
    struct tr_comm *comm; /* the world, or a group of it that all ranks are in at once */
    struct tr_queue *q;
    char *buffer;    /* 2 * MOST_BYTES */
    double enough_s; /* no longer exchange is needed */
};

/* So many bytes of each rank, its own part included: seconds until all have all, the same on all
 * ranks. */
static enum fr_rc time_once(const struct exchange *x, size_t bytes, double *seconds,
                            struct fr_err *err)
{
    size_t size = (size_t)x->comm->size;
    struct tr_alltoall a = {.out = x->buffer + MOST_BYTES,
                            .in = x->buffer,
                            .bytes = bytes / size / 256 * 256,
                            .what = "speed of links"};
    enum fr_rc rc = tr_zero(x->env->be, x->q, x->buffer, bytes);
    int64_t began;

    if (rc == FR_OK)
        rc = tr_comm_host_barrier(x->env->comm, err);
    began = fr_sys.mono_ms();
    if (rc == FR_OK)
        rc = tr_comm_all_to_all(x->comm, x->q, &a, err);
    if (rc == FR_OK)
        rc = tr_comm_host_barrier(x->env->comm, err);
    *seconds = (double)(fr_sys.mono_ms() - began) / 1e3 / x->env->comm->size;
    return rc == FR_OK ? tr_comm_host_sum(x->env->comm, seconds, 1, err) : rc;
}

/* Bytes of a rank and second, its own part included: by what a longer exchange takes more than a
 * shorter one. What a link lets through at first (a full bucket, an empty buffer) and the time of a
 * call are the same in both. */
static enum fr_rc time_links(const struct exchange *x, double *rate, struct fr_err *err)
{
    double before = 0, seconds = 0;
    size_t bytes = LEAST_BYTES;
    enum fr_rc rc = time_once(x, bytes, &before, err);

    while (rc == FR_OK && bytes < MOST_BYTES && seconds < x->enough_s) {
        before = seconds > 0 ? seconds : before;
        bytes *= TIMES;
        rc = time_once(x, bytes, &seconds, err);
    }
    if (rc == FR_OK && seconds > before)
        *rate = (double)(bytes - bytes / TIMES) / (seconds - before);
    return rc;
}

static enum fr_rc with_buffers(struct exchange *x, double *rate, struct fr_err *err)
{
    void *p = NULL;
    enum fr_rc rc = tr_queue_create(x->env->be, 0, &x->q, err);

    if (rc == FR_OK)
        rc = tr_mem_alloc(x->env->be, TR_MEM_DEVICE, 2 * (size_t)MOST_BYTES, &p, err);
    x->buffer = p;
    if (rc == FR_OK)
        rc = time_links(x, rate, err);
    tr_comm_leave(x->comm, x->q);
    tr_mem_free(x->env->be, TR_MEM_DEVICE, p);
    tr_queue_destroy(x->env->be, x->q);
    return rc;
}

static enum fr_rc measure_network(const struct tr_train_env *env, double enough_s, double *out,
                                  struct fr_err *err)
{
    struct exchange x = {.env = env, .comm = env->comm, .enough_s = enough_s};
    double rate = 0, size = env->comm->size, local = env->comm->local_size;
    enum fr_rc rc = with_buffers(&x, &rate, err);

    if (rc == FR_OK && rate > 0)
        *out = rate * local * (size - local) / size;
    return rc;
}

static enum fr_rc measure_node(const struct tr_train_env *env, double enough_s, double *out,
                               struct fr_err *err)
{
    struct exchange x = {.env = env, .enough_s = enough_s};
    double rate = 0, local = env->comm->local_size;
    enum fr_rc rc = tr_comm_split(env->comm, env->comm->node, &x.comm, err);

    if (rc == FR_OK)
        rc = with_buffers(&x, &rate, err);
    if (rc == FR_OK && rate > 0)
        *out = rate * (local - 1) / local;
    tr_comm_destroy(x.comm);
    return rc;
}

enum fr_rc tr_speeds_measure(const struct tr_plan_job *job, const struct tr_train_env *env,
                             struct tr_cluster *out, struct fr_err *err)
{
    double part = PART * env->counts->seconds / env->comm->size, sums[3];
    struct fr_err mine = {0};
    enum fr_rc rc = tr_comm_host_sum(env->comm, &part, 1, err);

    if (rc != FR_OK)
        return rc;
    (void)tr_plan_cpu_rate(job, fmin(part, PRODUCTS_S), &out->gpu, &mine); /* 0: all meet below */
    sums[0] = out->gpu.flops;
    sums[1] = out->gpu.rows;
    sums[2] = out->gpu.draws;
    rc = tr_comm_host_sum(env->comm, sums, 3, err);
    out->gpu.flops = sums[0] / env->comm->size;
    out->gpu.rows = sums[1] / env->comm->size;
    out->gpu.draws = sums[2] / env->comm->size;
    part = fmin(part, LINKS_S);
    if (rc == FR_OK && out->nodes > 1)
        rc = measure_network(env, part, &out->network, err);
    if (rc == FR_OK && out->gpus > 1)
        rc = measure_node(env, part, &out->gpu.swap, err);
    out->gpu.link = out->gpu.swap;
    return rc;
}

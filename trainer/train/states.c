/* The optimizer's state of trained weights in files: whether it has room, and when it is there. */
#include "engine/base/sys.h"
#include "trainer/train/setup.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum fr_rc tr_run_make_states(struct tr_run *r, struct fr_err *err)
{
    const struct tr_ds_config *c = &r->ds;
    struct tr_disk_opts o = {.path = c->offload_optimizer_path,
                             .tile = c->sub_group_size,
                             .block = c->aio_block,
                             .threads = (int)(c->aio_threads < 1 << 20 ? c->aio_threads : 1 << 20),
                             .sets =
                                 (int)(c->offload_tiles < 1 << 20 ? c->offload_tiles : 1 << 20)};

    return c->offload_optimizer == TR_OFFLOAD_NVME ? tr_disk_create(&o, &r->states, err) : FR_OK;
}

/* What a rank needs of its node's disk, what is free there, and what a step writes. */
struct disk_room {
    int64_t need, room, writes;
    char host[64];
};

static bool same_node(const struct tr_comm *c, int a, int b)
{
    return c->node_of == NULL || c->node_of[a] == c->node_of[b];
}

/* *sum: bytes that all ranks write in a step. */
static enum fr_rc check_room(const struct tr_run *r, const struct tr_optim_bytes *o, int64_t *sum,
                             struct fr_err *err)
{
    const struct tr_comm *c = r->env.comm;
    const char *path = tr_disk_path(r->states);
    struct disk_room mine = {.need = (int64_t)o->disk,
                             .room = fr_sys.disk_free(path),
                             .writes = (int64_t)(o->disk + o->again)};
    struct disk_room *all;
    enum fr_rc rc;

    (void)gethostname(mine.host, sizeof(mine.host) - 1);
    if ((all = fr_sys.alloc((size_t)c->size * sizeof(*all))) == NULL)
        return fr_fail(err, FR_NOMEM, "disks of %d ranks", c->size);
    rc = tr_comm_host_all_gather(r->env.comm, all, &mine, sizeof(mine), err);
    *sum = 0;
    for (int k = 0; k < c->size && rc == FR_OK; k++) {
        int64_t need = 0;

        *sum += all[k].writes;
        for (int i = 0; i < c->size; i++)
            need += same_node(c, i, k) ? all[i].need : 0;
        if (need > all[k].room && all[k].room >= 0)
            rc = fr_fail(err, FR_FULL,
                         "offload_optimizer: %s%s%s has %.1f GB free, %.1f are needed: make room, "
                         "give another nvme_path, or take more nodes",
                         c->nodes > 1 ? all[k].host : "", c->nodes > 1 ? ":" : "", path,
                         (double)all[k].room * 1e-9, (double)need * 1e-9);
    }
    fr_sys.free(all);
    return rc;
}

/* An error of any rank, on all. */
static enum fr_rc agree(const struct tr_run *r, struct fr_err *mine, struct fr_err *err)
{
    struct tr_comm *c = r->env.comm;
    struct fr_err first;
    char host[64] = "";
    enum fr_rc rc;

    (void)gethostname(host, sizeof(host) - 1);
    if (mine->rc != FR_OK && c->nodes > 1)
        (void)fr_while(mine, "%s", host);
    rc = tr_comm_host_first_error(c, mine, &first, err);
    return rc != FR_OK || first.rc == FR_OK
               ? rc
               : fr_fail(err, first.rc, "offload_optimizer: %s", first.msg);
}

static enum fr_rc name_job(const struct tr_run *r, char job[TR_DISK_JOB], struct fr_err *err)
{
    uint64_t number = 0;
    enum fr_rc rc;

    if (fr_sys.random(&number, sizeof(number)) != 0)
        return fr_fail_errno(err, errno, "no random number");
    rc = tr_comm_host_broadcast(r->env.comm, &number, sizeof(number), 0, err);
    (void)snprintf(job, TR_DISK_JOB, "%016llx", (unsigned long long)number);
    return rc;
}

enum fr_rc tr_run_open_states(struct tr_run *r, struct fr_err *err)
{
    char job[TR_DISK_JOB];
    struct tr_disk_file file = {.job = job, .rank = r->env.comm->rank};
    struct tr_optim_bytes o;
    struct fr_err mine = {0};
    int64_t sum = 0;
    enum fr_rc rc;

    if (r->states == NULL)
        return FR_OK;
    tr_optim_disk_shape(tr_model_grads(r->model), &file.shape);
    tr_optim_bytes(r->model, r->env.comm->size, &o);
    if ((rc = name_job(r, job, err)) != FR_OK)
        return rc;
    if (r->env.comm->local_rank == 0)
        mine.rc = tr_disk_clear(tr_disk_path(r->states), &mine);
    if ((rc = agree(r, &mine, err)) != FR_OK || (rc = check_room(r, &o, &sum, err)) != FR_OK)
        return rc;
    mine.rc = tr_disk_open(r->states, &file, &mine);
    if ((rc = agree(r, &mine, err)) == FR_OK && r->env.comm->rank == 0)
        tr_say("offload_optimizer: every step writes %.3f GB to nvme_path %s and reads as much; "
               "flash memory wears by writes",
               (double)sum * 1e-9, tr_disk_path(r->states));
    return rc;
}

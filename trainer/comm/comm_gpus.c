/* Selection of the transport of GPU ranks: after a rendezvous on the host the ranks gather their
 * device ids. */
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "trainer/comm/comm_cpu.h"

#include <string.h>

/* Two ranks with the same GPU. */
struct pair {
    int first, second; /* equal: none */
    struct tr_device_id id;
};

static enum fr_rc find_shared(struct tr_backend *be, struct tr_comm *host, struct pair *out,
                              struct fr_err *err)
{
    struct tr_device_id mine = {0}, *all = fr_sys.alloc((size_t)host->size * sizeof(*all));
    enum fr_rc rc;

    *out = (struct pair){0};
    if (all == NULL)
        return fr_fail(err, FR_NOMEM, "the devices of %d ranks", host->size);
    if (be->ops->identity != NULL)
        be->ops->identity(be->self, &mine);
    rc = tr_comm_host_all_gather(host, all, &mine, sizeof(mine), err);
    for (int i = 0; i < host->size && rc == FR_OK; i++)
        for (int k = 0; k < i && out->first == out->second; k++)
            if (all[i].uuid[0] != '\0' && strcmp(all[i].uuid, all[k].uuid) == 0)
                *out = (struct pair){k, i, all[i]};
    fr_sys.free(all);
    return rc;
}

enum choice { NCCL, HOST, EITHER };

static enum fr_rc choose(struct tr_backend *be, const struct tr_comm_opts *o, enum choice choice,
                         struct tr_comm *host, struct tr_comm **out, struct fr_err *err)
{
    struct pair two;
    enum fr_rc rc = find_shared(be, host, &two, err);
    bool shared = two.first != two.second;

    if (rc != FR_OK)
        return rc;
    if (choice == NCCL && shared) /* NCCL would hang, or fail with a vaguer message */
        return fr_fail(err, FR_USAGE,
                       "ranks %d and %d have the same GPU, %s: each needs its own; look at "
                       "--nproc_per_node and CUDA_VISIBLE_DEVICES, or share it by "
                       "--transport host",
                       two.first, two.second, two.id.uuid);
    if (choice == EITHER && shared && host->rank == 0)
        fr_log(FR_LOG_WARN, "comm",
               "ranks %d and %d have the same GPU, %s: all data go through the host's memory, not "
               "by NCCL; a GPU a rank is faster",
               two.first, two.second, two.id.uuid);
    rc = choice == HOST || shared ? tr_comm_host_over(be, host, out, err)
                                  : tr_comm_nccl_over(be, o, host, out, err);
    if (rc == FR_OK)
        (*out)->shares = shared;
    return rc;
}

static enum fr_rc meet(struct tr_backend *be, const struct tr_comm_opts *o, enum choice choice,
                       struct tr_comm **out, struct fr_err *err)
{
    struct tr_comm *host = NULL;
    enum fr_rc rc = FR_OK;

    *out = NULL;
    if (choice != HOST && (be->queues->stream == NULL || be->queues->event_done == NULL))
        rc = fr_fail(err, FR_UNSUPPORTED, "NCCL cannot work on backend %s", be->ops->name);
    if (rc == FR_OK)
        rc = tr_comm_cpu(NULL, o, &host, err);
    if (rc == FR_OK && (rc = choose(be, o, choice, host, out, err)) != FR_OK) {
        if (err != NULL)
            tr_comm_abort(host, err->msg);
        tr_comm_destroy(host);
    }
    return rc;
}

enum fr_rc tr_comm_nccl(struct tr_backend *be, const struct tr_comm_opts *o, struct tr_comm **out,
                        struct fr_err *err)
{
    return meet(be, o, NCCL, out, err);
}

enum fr_rc tr_comm_host(struct tr_backend *be, const struct tr_comm_opts *o, struct tr_comm **out,
                        struct fr_err *err)
{
    return meet(be, o, HOST, out, err);
}

enum fr_rc tr_comm_gpus(struct tr_backend *be, const struct tr_comm_opts *o, struct tr_comm **out,
                        struct fr_err *err)
{
    return meet(be, o, EITHER, out, err);
}

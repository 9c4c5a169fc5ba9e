#include "trainer/cli/ranks.h"

#include "trainer/backend/device.h"

enum fr_rc tr_ranks_join(struct tr_ranks *r, const struct tr_comm_opts *o, struct fr_err *err)
{
    enum fr_rc rc = r->transport == TR_TRANSPORT_HOST
                        ? tr_device_share(r->device, o->local_rank, &r->be, err)
                        : tr_device_create(r->device, o->local_rank, &r->be, err);

    if (rc != FR_OK)
        return rc;
    if (r->be->ops->host_memory && r->transport == TR_TRANSPORT_NCCL)
        return fr_fail(err, FR_USAGE,
                       "--transport nccl: NCCL works between GPUs, this is backend %s",
                       r->be->ops->name);
    if (o->size == 1)
        return tr_comm_single(r->be, &r->comm, err);
    if (r->be->ops->host_memory)
        return tr_comm_cpu(r->be, o, &r->comm, err);
    return r->transport == TR_TRANSPORT_HOST ? tr_comm_host(r->be, o, &r->comm, err)
                                             : tr_comm_nccl(r->be, o, &r->comm, err);
}

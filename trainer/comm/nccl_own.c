#include "trainer/comm/nccl_own.h"

enum { SLICE = 4096 };

/* p: 2 * size slices. */
static enum fr_rc call_each(struct tr_comm *comm, struct tr_queue *q, char *p, struct fr_err *err)
{
    struct tr_gather_item item = {p, p + (size_t)comm->rank * SLICE, SLICE};
    struct tr_allgather g = {.items = &item, .n = 1, .what = "first call"};
    struct tr_alltoall a = {p + (size_t)comm->size * SLICE, p, SLICE, "first call"};
    enum fr_rc rc = tr_comm_all_gather(comm, q, &g, err);

    if (rc == FR_OK)
        rc = tr_comm_all_to_all(comm, q, &a, err);
    return rc == FR_OK ? tr_sync(comm->be, q, err) : rc;
}

enum fr_rc tr_nccl_own(struct tr_comm *comm, size_t room, struct fr_err *err)
{
    size_t bytes = 2 * (size_t)comm->size * SLICE, left;
    struct tr_queue *q = NULL;
    void *p = NULL;
    enum fr_rc rc = tr_queue_create(comm->be, 0, &q, err);

    if (rc == FR_OK)
        rc = tr_mem_alloc(comm->be, TR_MEM_DEVICE, bytes, &p, err);
    if (rc == FR_OK && (rc = tr_zero(comm->be, q, p, bytes)) == FR_OK)
        rc = call_each(comm, q, p, err);
    tr_comm_leave(comm, q);
    tr_queue_destroy(comm->be, q); /* queued work may still write to p */
    tr_mem_free(comm->be, TR_MEM_DEVICE, p);
    left = tr_mem_room(comm->be);
    comm->own_bytes = left < room ? room - left : 0;
    return rc == FR_OK ? rc : fr_while(err, "the first collectives");
}

#include "trainer/comm/nccl_turn.h"

#include "engine/base/log.h"

#include <stdlib.h>
#include <string.h>

static const char VARIABLE[] = "NCCL_LAUNCH_ORDER_IMPLICIT";

enum fr_rc tr_nccl_turn_init(struct tr_nccl_turn *t, const struct tr_nccl_api *api,
                             struct tr_backend *be, struct fr_err *err)
{
    const char *given = getenv(VARIABLE);
    int version = 0;

    (void)api->get_version(&version);
    *t = (struct tr_nccl_turn){
        .be = be, .kept = version < TR_NCCL_ORDERS || (given != NULL && strcmp(given, "0") == 0)};
    if (!t->kept && setenv(VARIABLE, "1", 1) != 0)
        return fr_fail(err, FR_NOMEM, "%s", VARIABLE);
    fr_log(FR_LOG_INFO, "comm", "nccl order=%s",
           t->kept ? "events (no communicator runs beside another)" : "host");
    return tr_event_create(be, &t->done, err);
}

void tr_nccl_turn_finish(struct tr_nccl_turn *t)
{
    if (t->done != NULL)
        tr_event_destroy(t->be, t->done);
}

enum fr_rc tr_nccl_wait_turn(struct tr_nccl_turn *t, struct tr_queue *q, struct fr_err *err)
{
    enum fr_rc rc = t->kept && t->q != NULL && t->q != q ? tr_event_wait(t->be, q, t->done) : FR_OK;

    return rc == FR_OK ? rc : fr_fail(err, rc, "ordering collectives");
}

enum fr_rc tr_nccl_end_turn(struct tr_nccl_turn *t, struct tr_queue *q, struct fr_err *err)
{
    enum fr_rc rc = t->kept ? tr_event_record(t->be, q, t->done) : FR_OK;

    t->q = q;
    return rc == FR_OK ? rc : fr_fail(err, rc, "ordering collectives");
}

/* Messages and journal records, for all of serve. */
#include "engine/node/private.h"

#include "engine/base/log.h"

#include <string.h>

void srv_fail(struct srv *s, const struct fr_err *err)
{
    if (s->over)
        return;
    s->err = *err;
    s->over = true;
}

void srv_send(struct srv *s, const struct fr_msg *m)
{
    struct fr_err err;

    if (fr_msg_put(m, &s->ctl, &err) != FR_OK)
        srv_fail(s, &err);
}

void srv_send_error(struct srv *s, uint64_t ref, const struct fr_err *err)
{
    struct fr_msg m = {.type = FR_MSG_ERROR};

    m.error.ref = ref;
    m.error.rc = err->rc;
    m.error.text = fr_str_of(err->msg);
    srv_send(s, &m);
}

void srv_granted(struct srv *s, size_t bytes)
{
    struct fr_msg credit = {.type = FR_MSG_CREDIT};

    s->owed += bytes;
    if (s->owed < FR_CREDIT_MAX / 4)
        return;
    credit.credit.bytes = s->owed;
    s->owed = 0;
    srv_send(s, &credit);
}

void srv_end(struct srv *s, const struct fr_err *err)
{
    srv_send_error(s, 0, err);
    srv_fail(s, err);
}

enum fr_rc srv_journal(struct srv *s, const struct fr_rec *rec, struct fr_err *err)
{
    enum fr_rc rc = fr_journal_append(s->home.journal, rec, err);

    if (rc == FR_OK && s->sync_ms == INT64_MAX)
        s->sync_ms = fr_sys.mono_ms() + SRV_SYNC_MS;
    return rc == FR_OK ? fr_table_read(&s->table, s->home.journal, err) : rc;
}

uint64_t srv_epoch_of(const struct srv *s, struct fr_id id)
{
    const struct fr_fence *f = fr_table_fence(&s->table, id);

    return f != NULL ? f->epoch : 0;
}

bool srv_superseded(const struct srv *s)
{
    return s->epoch >> 32 < srv_epoch_of(s, s->store) >> 32 ||
           s->epoch < srv_epoch_of(s, s->channel);
}

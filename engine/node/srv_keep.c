/* What of the past stays in the home: a shorter journal, and what is kept of attempts and store. */
#include "engine/base/log.h"
#include "engine/node/compact.h"
#include "engine/node/prune.h"
#include "engine/node/srv.h"

/* A supervisor of an earlier version holds no lock on the home, only on its log. */
static bool has_living(const struct srv *s)
{
    for (size_t i = 0; i < s->table.cap; i++) {
        const struct fr_attempt *a = fr_table_slot(&s->table, i);
        if (a != NULL && !a->acked && fr_home_alive(s->home.path, a->id))
            return true;
    }
    return false;
}

static void prune(struct srv *s, bool alone)
{
    struct fr_prune p = {.home = s->home.path,
                         .table = &s->table,
                         .days = (int)s->keep_days,
                         .bytes = s->keep_bytes,
                         .alone = alone};
    struct fr_err err;

    if (fr_prune(&p, &s->kept_bytes, &err) != FR_OK)
        fr_log(FR_LOG_WARN, "node", "%s", err.msg);
}

void srv_keep_begin(struct srv *s, const struct fr_hello *h)
{
    bool broken = false, alone = fr_home_alone(&s->home);
    struct fr_err err;

    s->keep_days = h->keep_days < FR_KEEP_DAYS_MAX ? h->keep_days : FR_KEEP_DAYS_MAX;
    s->keep_bytes = h->keep_bytes;
    /* what another wrote before it left is read first */
    if (alone && fr_table_read(&s->table, s->home.journal, &err) != FR_OK) {
        srv_fail(s, &err);
        return;
    }
    alone = alone && !has_living(s);
    prune(s, alone);
    if (alone && fr_journal_compact(&s->home, &s->table, &broken, &err) != FR_OK) {
        if (broken)
            srv_fail(s, &err);
        else
            fr_log(FR_LOG_WARN, "node", "%s", err.msg);
    }
    fr_home_share(&s->home);
}

void srv_keep_acked(struct srv *s, struct fr_id attempt)
{
    struct fr_err err;

    if (s->keep_days == 0) {
        if (fr_prune_attempt(s->home.path, attempt, &err) != FR_OK)
            fr_log(FR_LOG_WARN, "node", "not removed: %s", err.msg);
        return;
    }
    if (s->keep_bytes == 0)
        return;
    s->kept_bytes += fr_prune_size(s->home.path, attempt);
    if (s->kept_bytes > s->keep_bytes)
        prune(s, false);
}

#include "engine/store/lead.h"

#include "engine/store/sql.h"

enum fr_rc fr_store_epoch(struct fr_store *st, uint32_t *epoch, struct fr_err *err)
{
    int64_t found;
    enum fr_rc rc = fr_sql_number(st, SQL_HOST_GET, &found, err, "");

    *epoch = (uint32_t)found;
    return rc;
}

enum fr_rc fr_store_lead(struct fr_store *st, uint32_t *epoch, struct fr_err *err)
{
    bool writes;
    enum fr_rc rc;

    st->lead = (struct fr_lead){0};
    writes = fr_store_begin(st, NULL) == FR_OK;
    rc = fr_store_epoch(st, epoch, err);
    if (rc == FR_OK)
        st->lead.epoch = *epoch += 1;
    st->raises = writes && rc == FR_OK &&
                 fr_sql_run(st, SQL_HOST_SET, NULL, "i", (int64_t)st->lead.epoch) == FR_OK;
    if (st->raises)
        (void)fr_store_commit(st, NULL);
    else if (writes)
        fr_store_rollback(st);
    return rc;
}

struct fr_lead fr_store_get_lead(const struct fr_store *st)
{
    return st->lead;
}

void fr_store_set_lead(struct fr_store *st, struct fr_lead lead)
{
    st->lead = lead;
}

/* While the home's epoch is that. */
static bool leads_at(const struct fr_store *st, uint32_t epoch)
{
    return epoch < st->lead.epoch || (epoch == st->lead.epoch && st->lead.raised);
}

bool fr_store_leads(struct fr_store *st)
{
    uint32_t epoch;

    return fr_store_epoch(st, &epoch, NULL) == FR_OK && leads_at(st, epoch);
}

static enum fr_rc say_followed(const struct fr_store *st, uint32_t epoch, struct fr_err *err)
{
    return fr_fail(err, FR_DENIED,
                   "another flowrun became the host of %s (epoch %u, ours is %u): this one writes "
                   "no more",
                   st->home, epoch, st->lead.epoch);
}

bool fr_store_followed(struct fr_store *st, struct fr_err *err)
{
    uint32_t epoch;

    if (fr_store_epoch(st, &epoch, NULL) != FR_OK || leads_at(st, epoch))
        return false;
    (void)say_followed(st, epoch, err);
    return true;
}

/* Where the epoch is as high already before the first commit, another one took the same number when
 * this one did, and was the host. */
enum fr_rc fr_store_check_lead(struct fr_store *st, struct fr_err *err)
{
    uint32_t epoch = 0;
    enum fr_rc rc = fr_store_epoch(st, &epoch, err);

    if (rc != FR_OK || (epoch == st->lead.epoch && st->lead.raised))
        return rc;
    st->raises = epoch < st->lead.epoch;
    if (st->raises)
        return fr_sql_run(st, SQL_HOST_SET, err, "i", (int64_t)st->lead.epoch);
    return say_followed(st, epoch, err);
}

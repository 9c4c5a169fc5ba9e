#include "engine/store/outbox.h"

#include "engine/base/sys.h"
#include "engine/store/sql.h"

static const int64_t KEPT_MS = 30LL * 86400000;

enum fr_rc fr_store_notifies(struct fr_store *st, bool yes, struct fr_err *err)
{
    int64_t now;
    enum fr_rc rc = fr_sql_number(st, SQL_NOTIFIES, &now, err, "");

    if (rc != FR_OK || (now != 0) == yes || (rc = fr_store_begin(st, err)) != FR_OK)
        return rc;
    return fr_store_end(st, fr_sql_run(st, SQL_NOTIFIES_SET, err, "i", (int64_t)yes), err);
}

uint64_t fr_store_changes(const struct fr_store *st)
{
    return (uint64_t)sqlite3_total_changes(st->db);
}

enum fr_rc fr_store_notices(struct fr_store *st, size_t limit, struct fr_arena *arena,
                            struct fr_notice_rows *out, struct fr_err *err)
{
    return fr_sql_list(st, SQL_NOTICE_LIST, FR_SQL_INTO(notice, arena, out), err, "i",
                       (int64_t)limit);
}

enum fr_rc fr_store_notice_add(struct fr_store *st, const struct fr_notice_row *row,
                               struct fr_err *err)
{
    return fr_sql_run(st, SQL_NOTICE_ADD, err, "titt", row->kind, row->wall, row->subject,
                      row->text);
}

enum fr_rc fr_store_notice_drop(struct fr_store *st, int64_t id, struct fr_err *err)
{
    return fr_sql_run(st, SQL_NOTICE_DROP, err, "i", id);
}

enum fr_rc fr_store_delivery_add(struct fr_store *st, const struct fr_delivery_row *row,
                                 struct fr_err *err)
{
    enum fr_rc rc = fr_sql_put(st, SQL_DELIVERY_ADD, &fr_delivery_type, row, NULL, err);

    return rc == FR_OK ? fr_sql_run(st, SQL_DELIVERY_PRUNE, err, "i", fr_sys.wall_ms() - KEPT_MS)
                       : rc;
}

FR_SQL_PUT(fr_store_delivery_set, delivery, SQL_DELIVERY_SET)

enum fr_rc fr_store_deliveries_quiet(struct fr_store *st, int64_t *due_wall, struct fr_err *err)
{
    return fr_sql_number(st, SQL_DELIVERY_QUIET, due_wall, err, "");
}

enum fr_rc fr_store_deliveries_wake(struct fr_store *st, int64_t now_wall, struct fr_err *err)
{
    return fr_sql_run(st, SQL_DELIVERY_WAKE, err, "i", now_wall);
}

FR_SQL_LIST(fr_store_deliveries_next, delivery, SQL_DELIVERY_NEXT)

enum fr_rc fr_store_deliveries(struct fr_store *st, const struct fr_delivery_filter *f,
                               struct fr_arena *arena, struct fr_delivery_rows *out,
                               struct fr_err *err)
{
    return fr_sql_list(st, SQL_DELIVERY_LIST, FR_SQL_INTO(delivery, arena, out), err, "iitti",
                       f->before, f->run, f->channel, f->state, (int64_t)f->limit);
}

enum fr_rc fr_store_delivery(struct fr_store *st, int64_t id, struct fr_arena *arena,
                             struct fr_delivery_row *out, struct fr_err *err)
{
    struct fr_delivery_rows rows;
    enum fr_rc rc =
        fr_sql_list(st, SQL_DELIVERY_GET, FR_SQL_INTO(delivery, arena, &rows), err, "i", id);

    if (rc == FR_OK && rows.n == 0)
        rc = fr_fail(err, FR_NOTFOUND,
                     "there is no delivery %lld; those that are over go after 30 "
                     "days",
                     (long long)id);
    if (rc == FR_OK)
        *out = rows.rows[0];
    return rc;
}

enum fr_rc fr_store_deliveries_waiting(struct fr_store *st, const char *channel, int64_t *n,
                                       struct fr_err *err)
{
    return fr_sql_number(st, SQL_DELIVERY_WAITING, n, err, "t", channel);
}

enum fr_rc fr_store_deliveries_dead(struct fr_store *st, const char *channel, int64_t *n,
                                    struct fr_err *err)
{
    return fr_sql_number(st, SQL_DELIVERY_DEAD, n, err, "t", channel);
}

enum fr_rc fr_store_throttle(struct fr_store *st, const struct fr_delivery_row *row,
                             struct fr_throttle *out, struct fr_err *err)
{
    enum fr_rc rc =
        fr_sql_query(st, SQL_THROTTLE, err, "tttt", row->rule, row->name, row->kind, row->channel);

    *out = (struct fr_throttle){0};
    if (rc == FR_OK && fr_sql_next(st, SQL_THROTTLE, &rc, err)) {
        out->made_wall = fr_sql_int(st, SQL_THROTTLE, 0);
        out->held = fr_sql_int(st, SQL_THROTTLE, 1);
    }
    fr_sql_end(st, SQL_THROTTLE);
    return rc;
}

enum fr_rc fr_store_outcome_before(struct fr_store *st, const char *name, int64_t no,
                                   struct fr_arena *arena, const char **outcome, struct fr_err *err)
{
    *outcome = "";
    return fr_sql_first_text(st, SQL_OUTCOME_BEFORE,
                             fr_sql_query(st, SQL_OUTCOME_BEFORE, err, "ti", name, no), arena,
                             outcome, err);
}

enum fr_rc fr_store_channel_off(struct fr_store *st, const char *name, const char *note,
                                struct fr_err *err)
{
    enum fr_rc rc = fr_sql_run(st, SQL_CHANNEL_ON, err, "t", name);

    if (rc == FR_OK && note != NULL)
        rc = fr_sql_run(st, SQL_CHANNEL_OFF, err, "tit", name, fr_sys.wall_ms(), note);
    if (rc == FR_OK && note != NULL)
        rc = fr_sql_run(st, SQL_CHANNEL_GIVE_UP, err, "tt", note, name);
    return rc;
}

enum fr_rc fr_store_channel_note(struct fr_store *st, const char *name, struct fr_arena *arena,
                                 const char **note, struct fr_err *err)
{
    *note = NULL;
    return fr_sql_first_text(st, SQL_CHANNEL_NOTE,
                             fr_sql_query(st, SQL_CHANNEL_NOTE, err, "t", name), arena, note, err);
}

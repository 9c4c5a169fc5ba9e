#include "engine/store/access.h"

#include "engine/base/sys.h"
#include "engine/store/sql.h"

static const int64_t KEPT_MS = 86400000; /* answers */

enum fr_rc fr_store_token_add(struct fr_store *st, struct fr_token_row *row, struct fr_err *err)
{
    enum fr_rc rc = fr_store_begin(st, err);

    if (rc != FR_OK)
        return rc;
    rc = fr_sql_put(st, SQL_TOKEN_ADD, &fr_token_type, row, NULL, err);
    if (rc == FR_OK && sqlite3_changes(st->db) == 0)
        rc =
            fr_fail(err, FR_BUSY, "there is a token '%s' already: 'flowrun token rm %s' removes it",
                    row->name, row->name);
    row->id = sqlite3_last_insert_rowid(st->db);
    return fr_store_end(st, rc, err);
}

FR_SQL_LIST(fr_store_tokens, token, SQL_TOKEN_LIST)

enum fr_rc fr_store_token_used(struct fr_store *st, int64_t id, int64_t wall_ms, struct fr_err *err)
{
    enum fr_rc rc = fr_store_begin_soft(st, err);

    return rc == FR_OK
               ? fr_store_end(st, fr_sql_run(st, SQL_TOKEN_USED, err, "ii", wall_ms, id), err)
               : rc;
}

enum fr_rc fr_store_token_drop(struct fr_store *st, const char *name, struct fr_err *err)
{
    enum fr_rc rc = fr_store_begin(st, err);

    if (rc != FR_OK)
        return rc;
    rc = fr_sql_run(st, SQL_SESSION_DROP_OF, err, "t", name);
    if (rc == FR_OK)
        rc = fr_sql_run(st, SQL_TOKEN_DROP, err, "t", name);
    if (rc == FR_OK && sqlite3_changes(st->db) == 0)
        rc = fr_fail(err, FR_NOTFOUND,
                     "there is no token '%s'; 'flowrun token list' shows all there are", name);
    return fr_store_end(st, rc, err);
}

enum fr_rc fr_store_session_put(struct fr_store *st, const struct fr_session_row *row,
                                struct fr_err *err)
{
    enum fr_rc rc = fr_store_begin_soft(st, err);

    return rc == FR_OK
               ? fr_store_end(st, fr_sql_put(st, SQL_SESSION_PUT, &fr_session_type, row, NULL, err),
                              err)
               : rc;
}

FR_SQL_LIST(fr_store_sessions, session, SQL_SESSION_LIST)

enum fr_rc fr_store_session_drop(struct fr_store *st, const char *hash, struct fr_err *err)
{
    enum fr_rc rc = fr_store_begin(st, err);

    return rc == FR_OK ? fr_store_end(st, fr_sql_run(st, SQL_SESSION_DROP, err, "t", hash), err)
                       : rc;
}

enum fr_rc fr_store_asked_add(struct fr_store *st, const struct fr_audit_row *row,
                              struct fr_err *err)
{
    enum fr_rc rc = fr_store_begin_soft(st, err);

    if (rc != FR_OK)
        return rc;
    rc = fr_sql_put(st, SQL_ASKED_ADD, &fr_audit_type, row, NULL, err);
    if (rc == FR_OK)
        rc = fr_store_audit_prune(st, err);
    return fr_store_end(st, rc, err);
}

enum fr_rc fr_store_audit(struct fr_store *st, int64_t before, size_t limit, struct fr_arena *arena,
                          struct fr_audit_rows *out, struct fr_err *err)
{
    return fr_sql_list(st, SQL_AUDIT_LIST, FR_SQL_INTO(audit, arena, out), err, "ii", before,
                       (int64_t)limit);
}

enum fr_rc fr_store_asked_of(struct fr_store *st, int64_t run, size_t limit, struct fr_arena *arena,
                             struct fr_audit_rows *out, struct fr_err *err)
{
    return fr_sql_list(st, SQL_AUDIT_ASKED, FR_SQL_INTO(audit, arena, out), err, "ii", run,
                       (int64_t)limit);
}

enum fr_rc fr_store_kept(struct fr_store *st, const char *who, const char *key,
                         struct fr_arena *arena, struct fr_kept_row *out, struct fr_err *err)
{
    struct fr_kept_rows rows;
    enum fr_rc rc = fr_sql_list(st, SQL_KEPT_GET, FR_SQL_INTO(kept, arena, &rows), err, "tti", who,
                                key, fr_sys.wall_ms() - KEPT_MS);

    if (rc == FR_OK && rows.n == 0)
        return fr_fail(err, FR_NOTFOUND, "no answer is kept for '%s'", key);
    if (rc == FR_OK)
        *out = rows.rows[0];
    return rc;
}

enum fr_rc fr_store_keep(struct fr_store *st, const char *who, const char *key,
                         const struct fr_kept_row *row, struct fr_err *err)
{
    int64_t now = fr_sys.wall_ms();
    enum fr_rc rc = fr_store_begin_soft(st, err);

    if (rc != FR_OK)
        return rc;
    rc = fr_sql_run(st, SQL_KEPT_PUT, err, "ttititt", who, key, now, row->request, row->status,
                    row->location, row->body);
    if (rc == FR_OK)
        rc = fr_sql_run(st, SQL_KEPT_PRUNE, err, "i", now - KEPT_MS);
    return fr_store_end(st, rc, err);
}

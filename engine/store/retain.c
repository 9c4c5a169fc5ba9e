#include "engine/store/retain.h"

#include "engine/base/sys.h"
#include "engine/store/blob.h"
#include "engine/store/sql.h"

static const int64_t AUDIT_DAYS = 400, DAY_MS = 86400000;

enum { DROP_ROWS = 500, DROP_FILES = 50 }; /* a commit */
enum { SHRINK_PAGES = 4 << 10 };           /* fewer free ones are kept for new rows */

FR_SQL_LIST(fr_store_runs_over, over, SQL_RUN_OVER)

enum fr_rc fr_store_run_pin(struct fr_store *st, struct fr_id run, bool pin, struct fr_err *err)
{
    enum fr_rc rc = fr_sql_run(st, SQL_RUN_PIN, err, "id", (int64_t)pin, run);

    if (rc == FR_OK && sqlite3_changes(st->db) == 0)
        return fr_fail(err, FR_NOTFOUND, "the run is not there any more");
    return rc;
}

enum fr_rc fr_store_run_known(struct fr_store *st, struct fr_id run, bool *yes, struct fr_err *err)
{
    return fr_sql_yes(st, SQL_RUN_NO, yes, err, "d", run);
}

enum fr_rc fr_store_run_remove(struct fr_store *st, struct fr_id run, struct fr_err *err)
{
    enum fr_rc rc = fr_sql_run(st, SQL_RUN_REMOVE, err, "d", run);

    if (rc == FR_OK && sqlite3_changes(st->db) == 0)
        return fr_fail(err, FR_BUSY, "the run goes on, is pinned, or is removed already");
    return rc;
}

enum fr_rc fr_store_runs_remove(struct fr_store *st, const struct fr_over_row *rows, size_t n,
                                struct fr_err *err)
{
    enum fr_rc rc = fr_store_begin(st, err);

    if (rc != FR_OK)
        return rc;
    for (size_t i = 0; rc == FR_OK && i < n; i++)
        rc = fr_sql_run(st, SQL_RUN_REMOVE_OLD, err, "di", rows[i].id, rows[i].ended_wall);
    return fr_store_end(st, rc, err);
}

enum fr_rc fr_store_removed(struct fr_store *st, struct fr_id *run, struct fr_err *err)
{
    enum fr_rc rc = fr_sql_query(st, SQL_RUN_REMOVED, err, "d", *run);

    return fr_sql_first_id(st, SQL_RUN_REMOVED, rc, run, err);
}

/* Some of its files, each with its blob. *left: rows that this commit may still take. */
static enum fr_rc drop_files(struct fr_store *st, struct fr_id run, int64_t *left,
                             struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_file_rows files;
    enum fr_rc rc = fr_sql_list(st, SQL_FILE_NEXT, FR_SQL_INTO(file, &arena, &files), err, "di",
                                run, (int64_t)DROP_FILES);

    for (size_t i = 0; rc == FR_OK && i < files.n; i++)
        if ((rc = fr_blob_drop(st, files.rows[i].hash, err)) == FR_OK)
            rc = fr_sql_run(st, SQL_FILE_FORGET, err, "dt", run, files.rows[i].path);
    *left = files.n == DROP_FILES ? 0 : *left - (int64_t)files.n;
    fr_arena_finish(&arena);
    return rc;
}

enum fr_rc fr_store_audit_prune(struct fr_store *st, struct fr_err *err)
{
    return fr_sql_run(st, SQL_AUDIT_PRUNE, err, "i", fr_sys.wall_ms() - AUDIT_DAYS * DAY_MS);
}

/* Its last row, and the blobs that this row names. */
static enum fr_rc drop_run(struct fr_store *st, struct fr_id run, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_run_rows row;
    enum fr_rc rc = fr_sql_list(st, SQL_RUN_GET, FR_SQL_INTO(run, &arena, &row), err, "d", run);

    if (rc == FR_OK && row.n > 0 && (rc = fr_blob_drop(st, row.rows->spec_hash, err)) == FR_OK)
        rc = fr_blob_drop(st, row.rows->inventory_hash, err);
    if (rc == FR_OK)
        rc = fr_sql_run(st, SQL_LAST_NO, err, "d", run);
    if (rc == FR_OK)
        rc = fr_sql_run(st, SQL_AUDIT_ADD, err, "id", fr_sys.wall_ms(), run);
    if (rc == FR_OK)
        rc = fr_store_audit_prune(st, err);
    if (rc == FR_OK)
        rc = fr_sql_run(st, SQL_RUN_FORGET, err, "d", run);
    fr_arena_finish(&arena);
    return rc;
}

/* *left: rows that this commit may still take; 0: some of this run stay. */
static enum fr_rc drop_some(struct fr_store *st, struct fr_id run, int64_t *left,
                            struct fr_err *err)
{
    static const enum fr_sql cuts[] = {SQL_CUT_EVENTS, SQL_CUT_ATTEMPTS, SQL_CUT_INSTS,
                                       SQL_CUT_OUTPUTS, SQL_CUT_NODES};
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; rc == FR_OK && *left > 0 && i < sizeof(cuts) / sizeof(cuts[0]); i++)
        if ((rc = fr_sql_run(st, cuts[i], err, "di", run, *left)) == FR_OK)
            *left -= sqlite3_changes(st->db);
    if (rc == FR_OK && *left > 0)
        rc = drop_files(st, run, left, err);
    return rc == FR_OK && *left > 0 ? drop_run(st, run, err) : rc;
}

/* Some of the free pages go back to the file system. */
static enum fr_rc trim(struct fr_store *st, struct fr_err *err)
{
    int64_t unused;
    enum fr_rc rc = fr_sql_number(st, SQL_PAGES_FREE, &unused, err, "");

    if (rc != FR_OK || unused < SHRINK_PAGES)
        return rc;
    rc = fr_sql_query(st, SQL_TRIM, err, "");
    while (rc == FR_OK && fr_sql_next(st, SQL_TRIM, &rc, err))
        ; /* a page each */
    fr_sql_end(st, SQL_TRIM);
    return rc;
}

enum fr_rc fr_store_runs_drop(struct fr_store *st, const struct fr_id *runs, size_t n,
                              struct fr_err *err)
{
    int64_t left = DROP_ROWS;
    enum fr_rc rc = fr_store_begin_soft(st, err);

    if (rc != FR_OK)
        return rc;
    for (size_t i = 0; rc == FR_OK && left > 0 && i < n; i++)
        rc = drop_some(st, runs[i], &left, err);
    return fr_store_end(st, rc == FR_OK ? trim(st, err) : rc, err);
}

enum fr_rc fr_store_shrink(struct fr_store *st, struct fr_err *err)
{
    int64_t all, unused;
    enum fr_rc rc = fr_sql_number(st, SQL_PAGES, &all, err, "");

    if (rc == FR_OK)
        rc = fr_sql_number(st, SQL_PAGES_FREE, &unused, err, "");
    if (rc != FR_OK || unused < SHRINK_PAGES || unused < all / 2)
        return rc;
    rc = fr_sql_number(st, SQL_TRIMMED, &all, err, ""); /* from now on, in an older home */
    if (rc == FR_OK)
        rc = fr_sql_run(st, SQL_VACUUM, err, "");
    /* the log holds all of it now: what cannot be copied yet is copied by a later commit */
    return rc == FR_OK ? fr_sql_number(st, SQL_CHECKPOINT, &all, err, "") : rc;
}

#include "engine/store/occurrences.h"

#include "engine/store/sql.h"

/* ---- schedules ---- */

FR_SQL_ADD(fr_store_schedule_add, schedule, SQL_SCHEDULE_ADD)
FR_SQL_PUT(fr_store_schedule_set, schedule, SQL_SCHEDULE_SET)

enum fr_rc fr_store_schedule_seen(struct fr_store *st, int64_t schedule, int64_t seen_ms,
                                  struct fr_err *err)
{
    return fr_sql_run(st, SQL_SCHEDULE_SEEN, err, "ii", seen_ms, schedule);
}

FR_SQL_LIST(fr_store_schedules, schedule, SQL_SCHEDULE_LIST)

enum fr_rc fr_store_schedule_drop(struct fr_store *st, int64_t schedule, struct fr_err *err)
{
    return fr_sql_run(st, SQL_SCHEDULE_DROP, err, "i", schedule);
}

/* ---- instants ---- */

enum fr_rc fr_store_occurrence_add(struct fr_store *st, const struct fr_occurrence_row *row,
                                   struct fr_err *err)
{
    enum fr_rc rc = fr_sql_put(st, SQL_OCCURRENCE_ADD, &fr_occurrence_type, row, NULL, err);

    if (rc != FR_OK && sqlite3_extended_errcode(st->db) == SQLITE_CONSTRAINT_PRIMARYKEY)
        return fr_fail(err, FR_BUSY, "instant %lld of schedule %lld is decided already",
                       (long long)row->at_ms, (long long)row->schedule);
    return rc;
}

FR_SQL_PUT(fr_store_occurrence_set, occurrence, SQL_OCCURRENCE_SET)

enum fr_rc fr_store_occurrence_drop(struct fr_store *st, int64_t schedule, int64_t at_ms,
                                    struct fr_err *err)
{
    return fr_sql_run(st, SQL_OCCURRENCE_DROP, err, "ii", schedule, at_ms);
}

enum fr_rc fr_store_occurrences_after(struct fr_store *st, int64_t schedule, int64_t after_ms,
                                      struct fr_arena *arena, struct fr_occurrence_rows *out,
                                      struct fr_err *err)
{
    return fr_sql_list(st, SQL_OCCURRENCES_AFTER, FR_SQL_INTO(occurrence, arena, out), err, "ii",
                       schedule, after_ms);
}

static enum fr_rc read_page(struct fr_store *st, enum fr_sql q,
                            const struct fr_occurrence_page *page, struct fr_arena *arena,
                            struct fr_occurrence_rows *out, struct fr_err *err)
{
    return fr_sql_list(st, q, FR_SQL_INTO(occurrence, arena, out), err, "iii", page->schedule,
                       page->before_ms, (int64_t)page->limit);
}

enum fr_rc fr_store_occurrences_before(struct fr_store *st, const struct fr_occurrence_page *page,
                                       struct fr_arena *arena, struct fr_occurrence_rows *out,
                                       struct fr_err *err)
{
    return read_page(st, SQL_OCCURRENCES_BEFORE, page, arena, out, err);
}

enum fr_rc fr_store_occurrences_ended(struct fr_store *st, const struct fr_occurrence_page *page,
                                      struct fr_arena *arena, struct fr_occurrence_rows *out,
                                      struct fr_err *err)
{
    return read_page(st, SQL_OCCURRENCES_ENDED, page, arena, out, err);
}

enum fr_rc fr_store_occurrence_succeeded(struct fr_store *st, int64_t schedule, int64_t before_ms,
                                         int64_t *at_ms, struct fr_err *err)
{
    return fr_sql_number(st, SQL_OCCURRENCE_SUCCEEDED, at_ms, err, "ii", schedule, before_ms);
}

enum fr_rc fr_store_occurrence_newer(struct fr_store *st, int64_t schedule, int64_t after_ms,
                                     int64_t *run, struct fr_err *err)
{
    return fr_sql_number(st, SQL_OCCURRENCE_NEWER, run, err, "ii", schedule, after_ms);
}

enum fr_rc fr_store_occurrences_prune(struct fr_store *st, const struct fr_occurrence_page *page,
                                      int64_t *n, struct fr_err *err)
{
    enum fr_rc rc = fr_sql_run(st, SQL_OCCURRENCES_PRUNE, err, "iii", page->schedule,
                               page->before_ms, (int64_t)page->limit);

    *n = rc == FR_OK ? sqlite3_changes(st->db) : 0;
    return rc;
}

/* ---- files ---- */

FR_SQL_PUT(fr_store_schedule_file_put, schedule_file, SQL_SCHEDULE_FILE_PUT)
FR_SQL_LIST(fr_store_schedule_files, schedule_file, SQL_SCHEDULE_FILES)

enum fr_rc fr_store_schedule_file_drop(struct fr_store *st, const char *path, struct fr_err *err)
{
    return fr_sql_run(st, SQL_SCHEDULE_FILE_DROP, err, "t", path);
}

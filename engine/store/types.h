/*
 * The types of rows. For each the table in types.c names its columns in the database, the members
 * that hold them, and the names under which the API and --json show them: a new field of a row is a
 * member of its struct, a line of that table and a column in schema/state.sql.
 */
#ifndef FR_STORE_TYPES_H
#define FR_STORE_TYPES_H

#include <jansson.h>
#include <stddef.h>

enum fr_column_kind {
    FR_COLUMN_INT,   /* int64_t */
    FR_COLUMN_BOOL,  /* int64_t; shown as true or false */
    FR_COLUMN_ORDER, /* int64_t; shown as "newest" or "oldest", which comes first */
    FR_COLUMN_TEXT,  /* const char *; NULL is written as "" */
    FR_COLUMN_ID,    /* struct fr_id; zero is SQL's NULL, shown as "" */
};

struct fr_column {
    const char *name;  /* in the database, or in the result of a query */
    const char *shown; /* in JSON; NULL: it is not shown */
    enum fr_column_kind kind;
    size_t at; /* offset in the struct */
};

struct fr_row_type {
    const char *name; /* of its table, if it has one of its own */
    const struct fr_column *columns;
    size_t n;
    size_t bytes; /* of the struct */
};

extern const struct fr_row_type fr_run_type, fr_inst_type, fr_attempt_type, fr_event_type,
    fr_output_type, fr_node_type, fr_file_type, fr_shipped_type, fr_schedule_type, fr_fire_type,
    fr_schedule_file_type, fr_backfill_type, fr_delivery_type, fr_notice_type, fr_token_type,
    fr_session_type, fr_audit_type, fr_answer_type, fr_drained_type;

/* The shown columns of a row, in the order of their table. NULL: no memory. */
json_t *fr_row_json(const struct fr_row_type *type, const void *row);
/* Of n rows that follow each other: an array. */
json_t *fr_rows_json(const struct fr_row_type *type, const void *rows, size_t n);

#endif

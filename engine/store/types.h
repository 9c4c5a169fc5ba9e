/* The types of rows as tables, and as JSON. */
#ifndef FR_STORE_TYPES_H
#define FR_STORE_TYPES_H

#include "engine/store/row.h"

#include <jansson.h>

/* X(type, its table in the database, its struct, its columns). The first type of a table is the one
 * that statements name; the others, and those of the table "", are results of queries. */
#define FR_ROW_TYPES(X)                                                                            \
    X(run, "run", fr_run_row, FR_RUN_COLUMNS)                                                      \
    X(inst, "instance", fr_inst_row, FR_INST_COLUMNS)                                              \
    X(attempt, "attempt", fr_attempt_row, FR_ATTEMPT_COLUMNS)                                      \
    X(event, "event", fr_event_row, FR_EVENT_COLUMNS)                                              \
    X(output, "output", fr_output_row, FR_OUTPUT_COLUMNS)                                          \
    X(node, "node", fr_node_row, FR_NODE_COLUMNS)                                                  \
    X(file, "file", fr_file_row, FR_FILE_COLUMNS)                                                  \
    X(shipped, "shipped", fr_shipped_row, FR_SHIPPED_COLUMNS)                                      \
    X(item_list, "item_list", fr_item_list_row, FR_ITEM_LIST_COLUMNS)                              \
    X(schedule, "schedule", fr_schedule_row, FR_SCHEDULE_COLUMNS)                                  \
    X(occurrence, "fire", fr_occurrence_row, FR_OCCURRENCE_COLUMNS)                                \
    X(schedule_file, "schedule_file", fr_schedule_file_row, FR_SCHEDULE_FILE_COLUMNS)              \
    X(backfill, "backfill", fr_backfill_row, FR_BACKFILL_COLUMNS)                                  \
    X(delivery, "delivery", fr_delivery_row, FR_DELIVERY_COLUMNS)                                  \
    X(notice, "notice", fr_notice_row, FR_NOTICE_COLUMNS)                                          \
    X(token, "token", fr_token_row, FR_TOKEN_COLUMNS)                                              \
    X(session, "session", fr_session_row, FR_SESSION_COLUMNS)                                      \
    X(audit, "audit", fr_audit_row, FR_AUDIT_COLUMNS)                                              \
    X(kept, "answer", fr_kept_row, FR_KEPT_COLUMNS)                                                \
    X(drained, "drained", fr_drained_row, FR_DRAINED_COLUMNS)                                      \
    X(allocation, "allocation", fr_allocation_row, FR_ALLOCATION_COLUMNS)                          \
    X(held, "instance", fr_held_row, FR_HELD_COLUMNS)                                              \
    X(task, "", fr_task_row, FR_TASK_COLUMNS)                                                      \
    X(known, "", fr_known_row, FR_KNOWN_COLUMNS)                                                   \
    X(over, "run", fr_over_row, FR_OVER_COLUMNS)                                                   \
    X(success, "", fr_success_row, FR_SUCCESS_COLUMNS)                                             \
    X(unfetched, "", fr_unfetched_row, FR_UNFETCHED_COLUMNS)                                       \
    X(instant, "run", fr_instant, FR_INSTANT_COLUMNS)

enum fr_column_kind {
    FR_COLUMN_INT,
    FR_COLUMN_BOOL,
    FR_COLUMN_ORDER,
    FR_COLUMN_TEXT,
    FR_COLUMN_ID,
#define FR_COLUMN_KIND(kind, words) FR_COLUMN_##kind,
    FR_WORD_KINDS(FR_COLUMN_KIND)
#undef FR_COLUMN_KIND
};

/* Of a kind of FR_WORD_KINDS; NULL: of another. */
const struct fr_words *fr_column_words(enum fr_column_kind kind);

struct fr_column {
    const char *name;  /* in the database, or in the result of a query */
    const char *shown; /* in JSON; NULL: it is not shown */
    enum fr_column_kind kind;
    bool set;  /* an UPDATE writes it */
    size_t at; /* offset in the struct */
};

struct fr_row_type {
    const char *table;
    const struct fr_column *columns;
    size_t n;
    size_t bytes; /* of the struct */
};

#define FR_ROW_TYPE(type, table, row, columns) extern const struct fr_row_type fr_##type##_type;
FR_ROW_TYPES(FR_ROW_TYPE)
#undef FR_ROW_TYPE

/* The shown columns of a row, in the order of their table. NULL: no memory. */
json_t *fr_row_json(const struct fr_row_type *type, const void *row);
/* Of n rows that follow each other: an array. */
json_t *fr_rows_json(const struct fr_row_type *type, const void *rows, size_t n);
/* Appends the text of a statement (statements.h), its $ replaced by columns. */
void fr_row_statement(struct fr_buf *out, const char *text);

#endif

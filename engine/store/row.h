/*
 * Types of rows, each written once. FR_…_COLUMNS lists the columns of a type: C(R, kind, name,
 * shown) is one column, S(R, …) one that the UPDATE of the type writes too. `shown` is the name
 * under which the API and --json show the column; NULL: they do not. The struct (here), the text of
 * statements and what they bind and read (sql.h), and JSON (types.h) all follow from the list: a
 * new column is a line of it and a column in schema/state.sql; schema/rows.py writes a shown one
 * into schema/openapi.json, described by the comment of its line.
 *
 * Kinds: INT int64_t; BOOL int64_t, shown as true or false; ORDER int64_t, shown as "newest" or
 * "oldest", which comes first; TEXT const char *, where NULL is written as ""; ID struct fr_id,
 * where zero is SQL's NULL, shown as ""; those of FR_WORD_KINDS an enum, stored and shown as its
 * word. A stored word that the enum lacks is an error of whoever reads the row.
 */
#ifndef FR_STORE_ROW_H
#define FR_STORE_ROW_H

#include "engine/base/file.h"
#include "engine/schedule/decide.h"
#include "engine/words/causes.h"
#include "engine/words/states.h"

#define FR_MEMBER_INT int64_t
#define FR_MEMBER_BOOL int64_t
#define FR_MEMBER_ORDER int64_t
#define FR_MEMBER_TEXT const char *
#define FR_MEMBER_ID struct fr_id
#define FR_MEMBER_RUN_STATE enum fr_run_state
#define FR_MEMBER_OUTCOME enum fr_outcome
#define FR_MEMBER_STATE enum fr_state_of
#define FR_MEMBER_STATE_OR_NONE enum fr_state_of
#define FR_MEMBER_CAUSE enum fr_cause
#define FR_MEMBER_OUTCOME_OR_LIVE enum fr_outcome
#define FR_MEMBER_SCHEDULE_STATE enum fr_schedule_state
#define FR_MEMBER_BACKFILL_STATE enum fr_backfill_state
#define FR_MEMBER_EXISTING enum fr_existing
#define FR_MEMBER_DELIVERY_STATE enum fr_delivery_state
#define FR_MEMBER_FATE enum fr_fate
#define FR_MEMBER_ORIGIN enum fr_origin
#define FR_MEMBER_ALLOCATION_STATE enum fr_allocation_state
#define FR_MEMBER_ACCOUNTING enum fr_accounting

/* X(kind, its words). */
#define FR_WORD_KINDS(X)                                                                           \
    X(RUN_STATE, fr_run_state_words)                                                               \
    X(OUTCOME, fr_outcome_words)                                                                   \
    X(STATE, fr_state_words)                                                                       \
    X(STATE_OR_NONE, fr_state_or_none_words)                                                       \
    X(CAUSE, fr_cause_words)                                                                       \
    X(OUTCOME_OR_LIVE, fr_outcome_or_live_words)                                                   \
    X(SCHEDULE_STATE, fr_schedule_state_words)                                                     \
    X(BACKFILL_STATE, fr_backfill_state_words)                                                     \
    X(EXISTING, fr_existing_words)                                                                 \
    X(DELIVERY_STATE, fr_delivery_state_words)                                                     \
    X(FATE, fr_fate_words)                                                                         \
    X(ORIGIN, fr_origin_words)                                                                     \
    X(ALLOCATION_STATE, fr_allocation_state_words)                                                 \
    X(ACCOUNTING, fr_accounting_words)

#define FR_MEMBER(R, kind, name, shown) FR_MEMBER_##kind name;

/* The struct of one row. */
#define FR_ROW(row, columns)                                                                       \
    struct row {                                                                                   \
        columns(FR_MEMBER, FR_MEMBER, row)                                                         \
    }
/* The struct of one row, name_row, and of n of them, name_rows: {rows, n}. */
#define FR_ROWS(name, columns)                                                                     \
    FR_ROW(name##_row, columns);                                                                   \
    struct name##_rows {                                                                           \
        struct name##_row *rows;                                                                   \
        size_t n;                                                                                  \
    }

#endif

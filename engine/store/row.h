/*
 * Types of rows, each written once. FR_…_COLUMNS lists the columns of a type: C(R, kind, name,
 * shown) is one column, S(R, …) one that the UPDATE of the type writes too. `shown` is the name
 * under which the API and --json show the column; NULL: they do not. The struct (here), the text of
 * statements and what they bind and read (sql.h), and JSON (types.h) all follow from the list: a
 * new column is a line of it and a column in schema/state.sql.
 *
 * Kinds: INT int64_t; BOOL int64_t, shown as true or false; ORDER int64_t, shown as "newest" or
 * "oldest", which comes first; TEXT const char *, where NULL is written as ""; ID struct fr_id,
 * where zero is SQL's NULL, shown as "".
 */
#ifndef FR_STORE_ROW_H
#define FR_STORE_ROW_H

#include "engine/base/file.h"

#define FR_MEMBER_INT int64_t
#define FR_MEMBER_BOOL int64_t
#define FR_MEMBER_ORDER int64_t
#define FR_MEMBER_TEXT const char *
#define FR_MEMBER_ID struct fr_id

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

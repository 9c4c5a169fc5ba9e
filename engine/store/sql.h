/*
 * Inside the store: the open database and its prepared statements. Values are bound either from a
 * row, by the names of its columns, or by a format string, one letter a parameter: i int64_t;
 * t const char * (NULL is ""); d struct fr_id (zero is SQL NULL).
 */
#ifndef FR_STORE_SQL_H
#define FR_STORE_SQL_H

#include "engine/store/claims.h"
#include "engine/store/lead.h"
#include "engine/store/types.h"

#include <sqlite3.h>

enum fr_sql {
#define SQL(name, text) SQL_##name,
#include "engine/store/statements.h"
#undef SQL
    SQL_COUNT
};

enum { STORE_BUSY_MS = 5000, SQL_COLUMNS = 40 };

struct fr_sql_stmt {
    sqlite3_stmt *stmt;          /* owns; prepared on first use */
    uint8_t places[SQL_COLUMNS]; /* of its parameters, or of what it returns, among the columns of
                                  * the row type: 1, 2, …; 0: not looked up yet */
};

struct fr_store {
    sqlite3 *db;
    struct fr_sql_stmt stmts[SQL_COUNT];
    struct fr_id home_id;
    struct fr_lead lead; /* of the host that writes; epoch 0: none */
    bool raises;         /* the transaction raises the home's epoch to its */
    bool in_tx;
    bool soft;                /* commits are not synced: fr_store_begin_soft */
    struct fr_claims *claims; /* owns a use */
    char home[4096];
};

/* In a transaction of the host: its first one raises the home's epoch. FR_DENIED: another one is
 * the host. */
enum fr_rc fr_store_check_lead(struct fr_store *st, struct fr_err *err);

/* The migrations, embedded from schema/state.sql. */
extern const char fr_store_schema[];

/* The last failure of the database as an error, prefixed with what. */
enum fr_rc fr_sql_fail(struct fr_store *st, const char *what, struct fr_err *err);

/* Runs a statement that returns no rows. */
enum fr_rc fr_sql_run(struct fr_store *st, enum fr_sql which, struct fr_err *err, const char *fmt,
                      ...);

/* The same with columns of row as parameters, and run for a parameter :run that is no column. */
enum fr_rc fr_sql_put(struct fr_store *st, enum fr_sql which, const struct fr_row_type *type,
                      const void *row, const struct fr_id *run, struct fr_err *err);

/* Where the rows of a query go. Its columns are those of the type, in any order. */
struct fr_sql_rows {
    const struct fr_row_type *type;
    struct fr_arena *arena; /* rows and their texts live there */
    void *rows;             /* address of a pointer to structs of the type: out */
    size_t *n;              /* out */
};

/* Rows of a type go to *out, a struct {rows, n}. */
#define FR_SQL_INTO(type, arena, out)                                                              \
    (&(const struct fr_sql_rows){&fr_##type##_type, arena, &(out)->rows, &(out)->n})

/* All rows of a query. After a failure there are none. */
enum fr_rc fr_sql_list(struct fr_store *st, enum fr_sql which, const struct fr_sql_rows *out,
                       struct fr_err *err, const char *fmt, ...);
/* The same of a query that fr_sql_query has bound, or failed to as `bound` says. */
enum fr_rc fr_sql_rows(struct fr_store *st, enum fr_sql which, enum fr_rc bound,
                       const struct fr_sql_rows *out, struct fr_err *err);
/* The functions that only run a statement: all rows of it, those of one run (its parameter), and
 * one row that is put. */
#define FR_SQL_LIST(function, type, which)                                                         \
    enum fr_rc function(struct fr_store *st, struct fr_arena *arena, struct fr_##type##_rows *out, \
                        struct fr_err *err)                                                        \
    {                                                                                              \
        return fr_sql_list(st, which, FR_SQL_INTO(type, arena, out), err, "");                     \
    }
#define FR_SQL_LIST_OF_RUN(function, type, which)                                                  \
    enum fr_rc function(struct fr_store *st, struct fr_id run, struct fr_arena *arena,             \
                        struct fr_##type##_rows *out, struct fr_err *err)                          \
    {                                                                                              \
        return fr_sql_list(st, which, FR_SQL_INTO(type, arena, out), err, "d", run);               \
    }
#define FR_SQL_PUT(function, type, which)                                                          \
    enum fr_rc function(struct fr_store *st, const struct fr_##type##_row *row,                    \
                        struct fr_err *err)                                                        \
    {                                                                                              \
        return fr_sql_put(st, which, &fr_##type##_type, row, NULL, err);                           \
    }
#define FR_SQL_ADD(function, type, which) /* the row's id is set */                                \
    enum fr_rc function(struct fr_store *st, struct fr_##type##_row *row, struct fr_err *err)      \
    {                                                                                              \
        enum fr_rc rc = fr_sql_put(st, which, &fr_##type##_type, row, NULL, err);                  \
                                                                                                   \
        if (rc == FR_OK)                                                                           \
            row->id = sqlite3_last_insert_rowid(st->db);                                           \
        return rc;                                                                                 \
    }
#define FR_SQL_PUT_OF_RUN(function, type, which)                                                   \
    enum fr_rc function(struct fr_store *st, struct fr_id run, const struct fr_##type##_row *row,  \
                        struct fr_err *err)                                                        \
    {                                                                                              \
        return fr_sql_put(st, which, &fr_##type##_type, row, &run, err);                           \
    }

/* The first number of a query; 0: it has no row. */
enum fr_rc fr_sql_number(struct fr_store *st, enum fr_sql which, int64_t *out, struct fr_err *err,
                         const char *fmt, ...);

/* Whether the first number of a query is another one than 0. */
enum fr_rc fr_sql_yes(struct fr_store *st, enum fr_sql which, bool *out, struct fr_err *err,
                      const char *fmt, ...);
/* The first id of a query that was bound as rc says; zero: it has no row. */
enum fr_rc fr_sql_first_id(struct fr_store *st, enum fr_sql which, enum fr_rc rc, struct fr_id *out,
                           struct fr_err *err);
/* The first text likewise, in arena; *out stays if there is no row. */
enum fr_rc fr_sql_first_text(struct fr_store *st, enum fr_sql which, enum fr_rc rc,
                             struct fr_arena *arena, const char **out, struct fr_err *err);

/* Binds a query; then call fr_sql_next until false: *rc is FR_OK at the end, else the error. */
enum fr_rc fr_sql_query(struct fr_store *st, enum fr_sql which, struct fr_err *err, const char *fmt,
                        ...);
bool fr_sql_next(struct fr_store *st, enum fr_sql which, enum fr_rc *rc, struct fr_err *err);
/* Ends a query early. */
void fr_sql_end(struct fr_store *st, enum fr_sql which);

/* Inside a transaction: deletes some of the oldest audit rows if they are old enough. */
enum fr_rc fr_store_audit_prune(struct fr_store *st, struct fr_err *err);

/* Columns of the current row. Text is copied into arena (NULL after no memory). */
int64_t fr_sql_int(struct fr_store *st, enum fr_sql which, int col);
const char *fr_sql_text(struct fr_store *st, enum fr_sql which, int col, struct fr_arena *arena);
/* Not copied: good until the next row. */
const char *fr_sql_here(struct fr_store *st, enum fr_sql which, int col);
/* A word of the column of that name in the type. FR_UNSUPPORTED: it is none. */
enum fr_rc fr_sql_word(struct fr_store *st, enum fr_sql which, int col,
                       const struct fr_row_type *type, int *out, struct fr_err *err);

#endif

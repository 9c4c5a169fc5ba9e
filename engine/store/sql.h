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

/* Every statement of the store. */
enum fr_sql {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_HOME_GET,
    SQL_HOME_PUT,
    SQL_HOST_GET,
    SQL_HOST_SET,
    SQL_RUN_ADD,
    SQL_RUN_NO,
    SQL_RUN_SET,
    SQL_RUN_HOST,
    SQL_RUN_LIST,
    SQL_RUN_OPEN,
    SQL_RUN_OVER,
    SQL_RUN_UNFETCHED,
    SQL_RUN_LIVE,
    SQL_RERUNS,
    SQL_RERUN_DROP,
    SQL_RUN_PIN,
    SQL_RUN_PRIORITY,
    SQL_RUN_REMOVE,
    SQL_RUN_REMOVED,
    SQL_RUN_HASHES,
    SQL_RUN_FORGET,
    SQL_RUN_REMOVE_OLD,
    SQL_AUDIT_ADD,
    SQL_AUDIT_PRUNE,
    SQL_AUDIT_OF,
    SQL_LAST_NO,
    SQL_CUT_EVENTS,
    SQL_CUT_ATTEMPTS,
    SQL_CUT_INSTS,
    SQL_CUT_OUTPUTS,
    SQL_CUT_NODES,
    SQL_RUN_BY_NO,
    SQL_RUN_BY_ID,
    SQL_INST_PUT,
    SQL_INST_LIST,
    SQL_INST_FAILED,
    SQL_INST_READY,
    SQL_INST_ANY_READY,
    SQL_INST_CLEAR,
    SQL_OUTPUT_CLEAR_ALL,
    SQL_ATTEMPT_PUT,
    SQL_ATTEMPT_HELD,
    SQL_ATTEMPT_DONE,
    SQL_LACKS_OUTPUT,
    SQL_ATTEMPT_CLEAR,
    SQL_ATTEMPT_LIST,
    SQL_OUTPUT_PUT,
    SQL_OUTPUT_CLEAR,
    SQL_OUTPUT_LIST,
    SQL_NODE_PUT,
    SQL_NODE_LIST,
    SQL_NODE_HOME,
    SQL_NODE_KNOWN,
    SQL_DRAINED,
    SQL_DRAIN,
    SQL_UNDRAIN,
    SQL_EVENT_ADD,
    SQL_EVENT_MOVE,
    SQL_EVENT_TOLD,
    SQL_EVENT_LIST,
    SQL_ROUND_BEGAN,
    SQL_EVENT_LAST,
    SQL_OUTPUT_OF,
    SQL_RUN_SPEC,
    SQL_FILE_PUT,
    SQL_FILE_LIST,
    SQL_SHIPPED_PUT,
    SQL_SHIPPED_LIST,
    SQL_FILE_NEXT,
    SQL_FILE_FORGET,
    SQL_HASH_LIST,
    SQL_BLOB_NAMED,
    SQL_SCHEDULE_ADD,
    SQL_SCHEDULE_SET,
    SQL_SCHEDULE_SEEN,
    SQL_SCHEDULE_LIST,
    SQL_SCHEDULE_DROP,
    SQL_FIRE_ADD,
    SQL_FIRE_SET,
    SQL_FIRE_DROP,
    SQL_FIRE_SUCCEEDED,
    SQL_FIRE_NEWER,
    SQL_FIRES_AFTER,
    SQL_FIRES_BEFORE,
    SQL_FIRES_ENDED,
    SQL_FIRES_PRUNE,
    SQL_SCHEDULE_FILE_PUT,
    SQL_SCHEDULE_FILE_DROP,
    SQL_SCHEDULE_FILES,
    SQL_BACKFILL_ADD,
    SQL_BACKFILL_SET,
    SQL_BACKFILL_LIST,
    SQL_BACKFILL_OPEN,
    SQL_BACKFILL_GET,
    SQL_BACKFILL_LIVE,
    SQL_INSTANT_RUN,
    SQL_INSTANT_FIRE,
    SQL_FIRE_FILL,
    SQL_TOKEN_ADD,
    SQL_TOKEN_LIST,
    SQL_TOKEN_USED,
    SQL_TOKEN_DROP,
    SQL_SESSION_PUT,
    SQL_SESSION_LIST,
    SQL_SESSION_DROP,
    SQL_SESSION_DROP_OF,
    SQL_ASKED_ADD,
    SQL_AUDIT_LIST,
    SQL_AUDIT_ASKED,
    SQL_KEPT_GET,
    SQL_KEPT_PUT,
    SQL_KEPT_PRUNE,
    SQL_RUN_WHERE, /* by each of the four indexes; so are the counts */
    SQL_RUN_WHERE_WORD,
    SQL_RUN_WHERE_LIVE,
    SQL_RUN_WHERE_NAME,
    SQL_RUN_SORTED,
    SQL_RUN_COUNT,
    SQL_RUN_COUNT_WORD,
    SQL_RUN_COUNT_LIVE,
    SQL_RUN_COUNT_NAME,
    SQL_RUN_NEWEST,
    SQL_RUN_SUCCESSES,
    SQL_RUN_MEDIAN,
    SQL_INST_STATES,
    SQL_NOTIFIES,
    SQL_NOTIFIES_SET,
    SQL_NOTICE_LIST,
    SQL_NOTICE_DROP,
    SQL_DELIVERY_ADD,
    SQL_DELIVERY_PRUNE,
    SQL_DELIVERY_SET,
    SQL_NOTICE_ADD,
    SQL_DELIVERY_QUIET,
    SQL_DELIVERY_WAKE,
    SQL_DELIVERY_NEXT,
    SQL_DELIVERY_LIST,
    SQL_DELIVERY_GET,
    SQL_DELIVERY_WAITING,
    SQL_DELIVERY_DEAD,
    SQL_THROTTLE,
    SQL_OUTCOME_BEFORE,
    SQL_CHANNEL_ON,
    SQL_CHANNEL_OFF,
    SQL_CHANNEL_GIVE_UP,
    SQL_CHANNEL_NOTE,
    SQL_PAGES,
    SQL_PAGES_FREE,
    SQL_TRIM,
    SQL_TRIMMED,
    SQL_VACUUM,
    SQL_CHECKPOINT,
    SQL_COUNT
};

/* In the text of a statement $run stands for the columns of the table run, :$run for a parameter of
 * the name of each; $run-no for all but no. */
extern const char *const store_statements[SQL_COUNT]; /* statements.c */

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

/* The last failure of the database as an error: what stands in front. */
enum fr_rc fr_sql_fail(struct fr_store *st, const char *what, struct fr_err *err);

/* Runs a statement that returns no rows. */
enum fr_rc fr_sql_run(struct fr_store *st, enum fr_sql which, struct fr_err *err, const char *fmt,
                      ...);

/* The same; its parameters are columns of row, and run where it has a parameter :run that is not.
 */
enum fr_rc fr_sql_put(struct fr_store *st, enum fr_sql which, const struct fr_row_type *type,
                      const void *row, const struct fr_id *run, struct fr_err *err);

struct fr_sql_rows {
    const struct fr_row_type *type; /* whose columns are those of the query, in any order */
    struct fr_arena *arena;         /* rows and their texts live there */
    void *v;                        /* out: n structs */
    size_t n;
};

/* A line of a type that only a query has. */
#define FR_SQL_COLUMN(kind, row, member)                                                           \
    {                                                                                              \
#member, NULL, FR_COLUMN_##kind, offsetof(struct row, member)                              \
    }
#define FR_SQL_TYPE(columns, row)                                                                  \
    {                                                                                              \
        NULL, columns, sizeof(columns) / sizeof((columns)[0]), sizeof(struct row)                  \
    }

/* All rows of a query. After a failure there are none. */
enum fr_rc fr_sql_list(struct fr_store *st, enum fr_sql which, struct fr_sql_rows *out,
                       struct fr_err *err, const char *fmt, ...);
/* The same of a query that fr_sql_query has bound, or failed to as `bound` says. */
enum fr_rc fr_sql_rows(struct fr_store *st, enum fr_sql which, enum fr_rc bound,
                       struct fr_sql_rows *out, struct fr_err *err);
/* The first number of a query; 0: it has no row. */
enum fr_rc fr_sql_number(struct fr_store *st, enum fr_sql which, int64_t *out, struct fr_err *err,
                         const char *fmt, ...);

/* Binds a query; then fr_sql_next until it gives false: *rc is FR_OK at the end, else an error. */
enum fr_rc fr_sql_query(struct fr_store *st, enum fr_sql which, struct fr_err *err, const char *fmt,
                        ...);
bool fr_sql_next(struct fr_store *st, enum fr_sql which, enum fr_rc *rc, struct fr_err *err);
/* Ends a query before its last row. */
void fr_sql_end(struct fr_store *st, enum fr_sql which);

/* Inside a transaction: removes some of the oldest rows of the audit, if their time has come. */
enum fr_rc fr_store_audit_prune(struct fr_store *st, struct fr_err *err);

/* Columns of the current row. Text is copied into arena (NULL after no memory). */
int64_t fr_sql_int(struct fr_store *st, enum fr_sql which, int col);
const char *fr_sql_text(struct fr_store *st, enum fr_sql which, int col, struct fr_arena *arena);
/* Not copied: good until the next row. */
const char *fr_sql_here(struct fr_store *st, enum fr_sql which, int col);
struct fr_id fr_sql_id(struct fr_store *st, enum fr_sql which, int col);

#endif

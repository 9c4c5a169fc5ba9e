#include "engine/store/sql.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static enum fr_rc sql_rc(int code, int sys_errno)
{
    switch (code & 0xff) {
    case SQLITE_FULL:
        return FR_FULL;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return FR_BUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return FR_CORRUPT;
    case SQLITE_NOMEM:
        return FR_NOMEM;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return FR_DENIED;
    default:
        if (sys_errno == EROFS || sys_errno == EPERM || sys_errno == EACCES)
            return FR_DENIED;
        return sys_errno == ENOSPC || sys_errno == EDQUOT ? FR_FULL : FR_IO;
    }
}

/* What the system answered to the call that failed. A commit that fails leaves it with the file. */
static int sys_errno_of(struct fr_store *st, int code)
{
    sqlite3_file *wal = NULL;
    int e = sqlite3_system_errno(st->db);

    if ((code & 0xff) == SQLITE_IOERR && e == 0 &&
        sqlite3_file_control(st->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal) == SQLITE_OK &&
        wal != NULL && wal->pMethods != NULL)
        wal->pMethods->xFileControl(wal, SQLITE_FCNTL_LAST_ERRNO, &e);
    return e;
}

enum fr_rc fr_sql_fail(struct fr_store *st, const char *what, struct fr_err *err)
{
    int code = sqlite3_extended_errcode(st->db), sys = sys_errno_of(st, code);
    bool by_system = (code & 0xff) == SQLITE_IOERR && sys != 0;
    enum fr_rc rc = sql_rc(code, sys);

    return fr_fail(err, rc, "%s/state.db: %s: %s%s%s%s", st->home, what, sqlite3_errmsg(st->db),
                   by_system ? ": " : "", by_system ? strerror(sys) : "",
                   rc == FR_DENIED
                       ? "; somebody must make it writable again (its file system, its mode)"
                       : "");
}

static size_t field_bytes(char kind)
{
    return kind == 'd' ? sizeof(struct fr_id) : kind == 'i' ? sizeof(int64_t) : sizeof(char *);
}

/* value points at what kind says. */
static int bind_one(sqlite3_stmt *stmt, int col, char kind, const void *value)
{
    const char *text;

    if (kind == 'i')
        return sqlite3_bind_int64(stmt, col, *(const int64_t *)value);
    if (kind == 't') {
        text = *(const char *const *)value;
        return sqlite3_bind_text(stmt, col, text != NULL ? text : "", -1, SQLITE_TRANSIENT);
    }
    if (fr_id_zero(*(const struct fr_id *)value))
        return sqlite3_bind_null(stmt, col);
    return sqlite3_bind_blob(stmt, col, value, sizeof(struct fr_id), SQLITE_TRANSIENT);
}

static int bind_all(sqlite3_stmt *stmt, const char *fmt, va_list ap)
{
    int col = 1, code = SQLITE_OK;

    for (const char *f = fmt; *f != '\0' && code == SQLITE_OK; f++, col++) {
        int64_t number = *f == 'i' ? va_arg(ap, int64_t) : 0;
        const char *text = *f == 't' ? va_arg(ap, const char *) : NULL;
        struct fr_id id = *f == 'd' ? va_arg(ap, struct fr_id) : (struct fr_id){{0}};

        code = bind_one(stmt, col, *f,
                        *f == 'i'   ? (const void *)&number
                        : *f == 't' ? (const void *)&text
                                    : (const void *)&id);
    }
    assert(code != SQLITE_OK || col - 1 == sqlite3_bind_parameter_count(stmt));
    return code;
}

static enum fr_rc prepare(struct fr_store *st, enum fr_sql which, struct fr_err *err)
{
    if (st->stmts[which] == NULL &&
        sqlite3_prepare_v3(st->db, store_statements[which], -1, SQLITE_PREPARE_PERSISTENT,
                           &st->stmts[which], NULL) != SQLITE_OK)
        return fr_sql_fail(st, "preparing a statement", err);
    sqlite3_reset(st->stmts[which]);
    return FR_OK;
}

static enum fr_rc ready(struct fr_store *st, enum fr_sql which, struct fr_err *err, const char *fmt,
                        va_list ap)
{
    enum fr_rc rc = prepare(st, which, err);

    if (rc == FR_OK && bind_all(st->stmts[which], fmt, ap) != SQLITE_OK)
        rc = fr_sql_fail(st, "binding a value", err);
    return rc;
}

static enum fr_rc write_now(struct fr_store *st, enum fr_sql which, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    if (sqlite3_step(st->stmts[which]) != SQLITE_DONE)
        rc = fr_sql_fail(st, "writing", err);
    sqlite3_reset(st->stmts[which]);
    return rc;
}

enum fr_rc fr_sql_run(struct fr_store *st, enum fr_sql which, struct fr_err *err, const char *fmt,
                      ...)
{
    va_list ap;
    enum fr_rc rc;

    va_start(ap, fmt);
    rc = ready(st, which, err, fmt, ap);
    va_end(ap);
    return rc == FR_OK ? write_now(st, which, err) : rc;
}

enum fr_rc fr_sql_put(struct fr_store *st, const struct fr_sql_row *type, struct fr_id run,
                      const void *row, struct fr_err *err)
{
    enum fr_rc rc = prepare(st, type->put, err);
    sqlite3_stmt *stmt = st->stmts[type->put];
    const char *at = row;
    int code;

    if (rc != FR_OK)
        return rc;
    code = bind_one(stmt, 1, 'd', &run);
    for (size_t c = 0; c < type->puts && code == SQLITE_OK; at += field_bytes(type->fmt[c++]))
        code = bind_one(stmt, (int)c + 2, type->fmt[c], at);
    assert((int)type->puts + 1 == sqlite3_bind_parameter_count(stmt));
    return code == SQLITE_OK ? write_now(st, type->put, err)
                             : fr_sql_fail(st, "binding a value", err);
}

enum fr_rc fr_sql_query(struct fr_store *st, enum fr_sql which, struct fr_err *err, const char *fmt,
                        ...)
{
    va_list ap;
    enum fr_rc rc;

    va_start(ap, fmt);
    rc = ready(st, which, err, fmt, ap);
    va_end(ap);
    return rc;
}

bool fr_sql_next(struct fr_store *st, enum fr_sql which, enum fr_rc *rc, struct fr_err *err)
{
    int code;

    if (*rc != FR_OK) {
        fr_sql_end(st, which);
        return false;
    }
    code = sqlite3_step(st->stmts[which]);
    if (code == SQLITE_ROW)
        return true;
    if (code != SQLITE_DONE)
        *rc = fr_sql_fail(st, "reading", err);
    fr_sql_end(st, which);
    return false;
}

void fr_sql_end(struct fr_store *st, enum fr_sql which)
{
    if (st->stmts[which] != NULL)
        sqlite3_reset(st->stmts[which]);
}

int64_t fr_sql_int(struct fr_store *st, enum fr_sql which, int col)
{
    return sqlite3_column_int64(st->stmts[which], col);
}

const char *fr_sql_here(struct fr_store *st, enum fr_sql which, int col)
{
    const unsigned char *text = sqlite3_column_text(st->stmts[which], col);

    return text != NULL ? (const char *)text : "";
}

const char *fr_sql_text(struct fr_store *st, enum fr_sql which, int col, struct fr_arena *arena)
{
    const char *text = fr_sql_here(st, which, col);

    return fr_arena_text(arena, text, (size_t)sqlite3_column_bytes(st->stmts[which], col));
}

struct fr_id fr_sql_id(struct fr_store *st, enum fr_sql which, int col)
{
    struct fr_id id = {{0}};
    const void *p = sqlite3_column_blob(st->stmts[which], col);

    if (p != NULL && sqlite3_column_bytes(st->stmts[which], col) == (int)sizeof(id.b))
        memcpy(id.b, p, sizeof(id.b));
    return id;
}

/* A text that is the one of the row before is not copied: most states and nodes are. */
static const char *read_text(struct fr_store *st, enum fr_sql which, int col, const char *before,
                             struct fr_arena *arena)
{
    if (before != NULL && strcmp(before, fr_sql_here(st, which, col)) == 0)
        return before;
    return fr_sql_text(st, which, col, arena);
}

/* before: the row before; NULL: it is the first. false: no memory. */
static bool read_row(struct fr_store *st, enum fr_sql which, const struct fr_sql_rows *to,
                     char *row, const char *before)
{
    char *at = row;

    for (int c = 0; to->type->fmt[c] != '\0'; at += field_bytes(to->type->fmt[c++])) {
        if (to->type->fmt[c] == 'i')
            *(int64_t *)(void *)at = fr_sql_int(st, which, c);
        else if (to->type->fmt[c] == 'd')
            *(struct fr_id *)(void *)at = fr_sql_id(st, which, c);
        else if ((*(const char **)(void *)at = read_text(
                      st, which, c,
                      before != NULL ? *(const char *const *)(const void *)(before + (at - row))
                                     : NULL,
                      to->arena)) == NULL)
            return false;
    }
    assert((size_t)(at - row) == to->type->bytes);
    return true;
}

/* Adds the row that the query is at; false: no memory. */
static bool add_row(struct fr_store *st, enum fr_sql which, struct fr_sql_rows *to)
{
    size_t bytes = to->type->bytes;
    char *row;

    to->v = fr_arena_grow(to->arena, to->v, to->n, bytes);
    if (to->v == NULL)
        return false;
    row = (char *)to->v + to->n * bytes;
    if (!read_row(st, which, to, row, to->n > 0 ? row - bytes : NULL))
        return false;
    to->n++;
    return true;
}

enum fr_rc fr_sql_rows(struct fr_store *st, enum fr_sql which, struct fr_sql_rows *out,
                       struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    out->v = NULL;
    out->n = 0;
    while (fr_sql_next(st, which, &rc, err))
        if (!add_row(st, which, out)) {
            fr_sql_end(st, which);
            rc = fr_fail(err, FR_NOMEM, "no memory for rows of the store");
            break;
        }
    if (rc != FR_OK)
        out->n = 0;
    return rc;
}

void fr_store_patience(struct fr_store *st, int ms)
{
    sqlite3_busy_timeout(st->db, ms > 0 ? ms : STORE_BUSY_MS);
}

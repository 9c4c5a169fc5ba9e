#include "engine/store/sql.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static const char *const statements[SQL_COUNT] = {
#define SQL(name, text) text,
#include "engine/store/statements.h"
#undef SQL
};

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

/* value points at what kind says. */
static int bind_one(sqlite3_stmt *stmt, int at, enum fr_column_kind kind, const void *value)
{
    const struct fr_words *words = fr_column_words(kind);
    const char *text;

    if (words != NULL)
        return sqlite3_bind_text(stmt, at, fr_word(words, *(const int *)value), -1, SQLITE_STATIC);
    if (kind == FR_COLUMN_TEXT) {
        text = *(const char *const *)value;
        return sqlite3_bind_text(stmt, at, text != NULL ? text : "", -1, SQLITE_TRANSIENT);
    }
    if (kind != FR_COLUMN_ID)
        return sqlite3_bind_int64(stmt, at, *(const int64_t *)value);
    if (fr_id_zero(*(const struct fr_id *)value))
        return sqlite3_bind_null(stmt, at);
    return sqlite3_bind_blob(stmt, at, value, sizeof(struct fr_id), SQLITE_TRANSIENT);
}

static int bind_all(sqlite3_stmt *stmt, const char *fmt, va_list ap)
{
    int at = 1, code = SQLITE_OK;

    for (const char *f = fmt; *f != '\0' && code == SQLITE_OK; f++, at++) {
        int64_t number = *f == 'i' ? va_arg(ap, int64_t) : 0;
        const char *text = *f == 't' ? va_arg(ap, const char *) : NULL;
        struct fr_id id = *f == 'd' ? va_arg(ap, struct fr_id) : (struct fr_id){{0}};

        if (*f == 'i')
            code = bind_one(stmt, at, FR_COLUMN_INT, &number);
        else if (*f == 't')
            code = bind_one(stmt, at, FR_COLUMN_TEXT, &text);
        else
            code = bind_one(stmt, at, FR_COLUMN_ID, &id);
    }
    assert(code != SQLITE_OK || at - 1 == sqlite3_bind_parameter_count(stmt));
    return code;
}

static enum fr_rc prepare(struct fr_store *st, enum fr_sql which, struct fr_err *err)
{
    struct fr_sql_stmt *s = &st->stmts[which];
    struct fr_buf text = {0};
    enum fr_rc rc = FR_OK;

    if (s->stmt != NULL) {
        sqlite3_reset(s->stmt);
        return FR_OK;
    }
    fr_row_statement(&text, statements[which]);
    if (text.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for a statement of the store");
    else if (sqlite3_prepare_v3(st->db, text.p, -1, SQLITE_PREPARE_PERSISTENT, &s->stmt, NULL) !=
             SQLITE_OK)
        rc = fr_sql_fail(st, "preparing a statement", err);
    fr_buf_finish(&text);
    assert(sqlite3_bind_parameter_count(s->stmt) <= SQL_COLUMNS &&
           sqlite3_column_count(s->stmt) <= SQL_COLUMNS);
    return rc;
}

static enum fr_rc ready(struct fr_store *st, enum fr_sql which, struct fr_err *err, const char *fmt,
                        va_list ap)
{
    enum fr_rc rc = prepare(st, which, err);

    if (rc == FR_OK && bind_all(st->stmts[which].stmt, fmt, ap) != SQLITE_OK)
        rc = fr_sql_fail(st, "binding a value", err);
    return rc;
}

static enum fr_rc write_now(struct fr_store *st, enum fr_sql which, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    if (sqlite3_step(st->stmts[which].stmt) != SQLITE_DONE)
        rc = fr_sql_fail(st, "writing", err);
    sqlite3_reset(st->stmts[which].stmt);
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

static uint8_t place_of(const struct fr_row_type *type, const char *name)
{
    size_t i = 0;

    while (i < type->n && strcmp(type->columns[i].name, name) != 0)
        i++;
    return (uint8_t)(i + 1); /* past the last: no column */
}

enum fr_rc fr_sql_put(struct fr_store *st, enum fr_sql which, const struct fr_row_type *type,
                      const void *row, const struct fr_id *run, struct fr_err *err)
{
    enum fr_rc rc = prepare(st, which, err);
    struct fr_sql_stmt *s = &st->stmts[which];
    int code = SQLITE_OK;

    if (rc != FR_OK)
        return rc;
    for (int i = 0; code == SQLITE_OK && i < sqlite3_bind_parameter_count(s->stmt); i++) {
        const struct fr_column *c;

        if (s->places[i] == 0) /* its name follows a colon */
            s->places[i] = place_of(type, sqlite3_bind_parameter_name(s->stmt, i + 1) + 1);
        c = &type->columns[s->places[i] - 1];
        assert(s->places[i] <= type->n || run != NULL);
        code = s->places[i] > type->n
                   ? bind_one(s->stmt, i + 1, FR_COLUMN_ID, run)
                   : bind_one(s->stmt, i + 1, c->kind, (const char *)row + c->at);
    }
    return code == SQLITE_OK ? write_now(st, which, err) : fr_sql_fail(st, "binding a value", err);
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
    code = sqlite3_step(st->stmts[which].stmt);
    if (code == SQLITE_ROW)
        return true;
    if (code != SQLITE_DONE)
        *rc = fr_sql_fail(st, "reading", err);
    fr_sql_end(st, which);
    return false;
}

void fr_sql_end(struct fr_store *st, enum fr_sql which)
{
    if (st->stmts[which].stmt != NULL)
        sqlite3_reset(st->stmts[which].stmt);
}

int64_t fr_sql_int(struct fr_store *st, enum fr_sql which, int col)
{
    return sqlite3_column_int64(st->stmts[which].stmt, col);
}

const char *fr_sql_here(struct fr_store *st, enum fr_sql which, int col)
{
    const unsigned char *text = sqlite3_column_text(st->stmts[which].stmt, col);

    return text != NULL ? (const char *)text : "";
}

const char *fr_sql_text(struct fr_store *st, enum fr_sql which, int col, struct fr_arena *arena)
{
    const char *text = fr_sql_here(st, which, col);

    return fr_arena_text(arena, text, (size_t)sqlite3_column_bytes(st->stmts[which].stmt, col));
}

static struct fr_id read_id(struct fr_store *st, enum fr_sql which, int col)
{
    struct fr_id id = {{0}};
    const void *p = sqlite3_column_blob(st->stmts[which].stmt, col);

    if (p != NULL && sqlite3_column_bytes(st->stmts[which].stmt, col) == (int)sizeof(id.b))
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

static const struct fr_column *column_at(struct fr_store *st, enum fr_sql which,
                                         const struct fr_row_type *type, int col)
{
    struct fr_sql_stmt *s = &st->stmts[which];

    if (s->places[col] == 0)
        s->places[col] = place_of(type, sqlite3_column_name(s->stmt, col));
    assert(s->places[col] <= type->n);
    return &type->columns[s->places[col] - 1];
}

enum fr_rc fr_sql_word(struct fr_store *st, enum fr_sql which, int col,
                       const struct fr_row_type *type, int *out, struct fr_err *err)
{
    const struct fr_column *c = column_at(st, which, type, col);
    const char *word = fr_sql_here(st, which, col);

    *out = fr_word_find(fr_column_words(c->kind), fr_str_of(word));
    if (*out >= 0)
        return FR_OK;
    return fr_fail(err, FR_UNSUPPORTED,
                   "%s/state.db: table %s, column %s: this flowrun does not know the word '%s'; a "
                   "newer one may have written it",
                   st->home, type->table, c->name, word);
}

/* before: the row before; NULL: it is the first. */
static enum fr_rc read_row(struct fr_store *st, enum fr_sql which, const struct fr_sql_rows *to,
                           char *row, const char *before, struct fr_err *err)
{
    int n = sqlite3_column_count(st->stmts[which].stmt);
    enum fr_rc rc = FR_OK;

    assert((size_t)n == to->type->n);
    for (int i = 0; i < n && rc == FR_OK; i++) {
        const struct fr_column *c = column_at(st, which, to->type, i);
        void *at = row + c->at;

        if (fr_column_words(c->kind) != NULL)
            rc = fr_sql_word(st, which, i, to->type, at, err);
        else if (c->kind == FR_COLUMN_ID)
            *(struct fr_id *)at = read_id(st, which, i);
        else if (c->kind != FR_COLUMN_TEXT)
            *(int64_t *)at = fr_sql_int(st, which, i);
        else if ((*(const char **)at = read_text(
                      st, which, i,
                      before != NULL ? *(const char *const *)(const void *)(before + c->at) : NULL,
                      to->arena)) == NULL)
            rc = fr_fail(err, FR_NOMEM, "no memory for rows of the store");
    }
    return rc;
}

enum fr_rc fr_sql_rows(struct fr_store *st, enum fr_sql which, enum fr_rc bound,
                       const struct fr_sql_rows *out, struct fr_err *err)
{
    size_t bytes = out->type->bytes, n = 0;
    char *rows = NULL;
    enum fr_rc rc = bound;

    while (fr_sql_next(st, which, &rc, err)) {
        char *row;

        if ((rows = fr_arena_grow(out->arena, rows, n, bytes)) == NULL) {
            rc = fr_fail(err, FR_NOMEM, "no memory for rows of the store");
            break;
        }
        row = rows + n * bytes;
        if ((rc = read_row(st, which, out, row, n > 0 ? row - bytes : NULL, err)) != FR_OK)
            break;
        n++;
    }
    fr_sql_end(st, which);
    memcpy(out->rows, &rows, sizeof(rows));
    *out->n = rc == FR_OK ? n : 0;
    return rc;
}

enum fr_rc fr_sql_list(struct fr_store *st, enum fr_sql which, const struct fr_sql_rows *out,
                       struct fr_err *err, const char *fmt, ...)
{
    va_list ap;
    enum fr_rc rc;

    va_start(ap, fmt);
    rc = ready(st, which, err, fmt, ap);
    va_end(ap);
    return fr_sql_rows(st, which, rc, out, err);
}

static enum fr_rc first_number(struct fr_store *st, enum fr_sql which, enum fr_rc rc, int64_t *out,
                               struct fr_err *err)
{
    *out = 0;
    if (fr_sql_next(st, which, &rc, err))
        *out = fr_sql_int(st, which, 0);
    fr_sql_end(st, which);
    return rc;
}

enum fr_rc fr_sql_number(struct fr_store *st, enum fr_sql which, int64_t *out, struct fr_err *err,
                         const char *fmt, ...)
{
    va_list ap;
    enum fr_rc rc;

    va_start(ap, fmt);
    rc = ready(st, which, err, fmt, ap);
    va_end(ap);
    return first_number(st, which, rc, out, err);
}

enum fr_rc fr_sql_yes(struct fr_store *st, enum fr_sql which, bool *out, struct fr_err *err,
                      const char *fmt, ...)
{
    int64_t n;
    va_list ap;
    enum fr_rc rc;

    va_start(ap, fmt);
    rc = ready(st, which, err, fmt, ap);
    va_end(ap);
    rc = first_number(st, which, rc, &n, err);
    *out = n != 0;
    return rc;
}

enum fr_rc fr_sql_first_id(struct fr_store *st, enum fr_sql which, enum fr_rc rc, struct fr_id *out,
                           struct fr_err *err)
{
    *out = (struct fr_id){{0}};
    if (fr_sql_next(st, which, &rc, err))
        *out = read_id(st, which, 0);
    fr_sql_end(st, which);
    return rc;
}

enum fr_rc fr_sql_first_text(struct fr_store *st, enum fr_sql which, enum fr_rc rc,
                             struct fr_arena *arena, const char **out, struct fr_err *err)
{
    if (fr_sql_next(st, which, &rc, err) && (*out = fr_sql_text(st, which, 0, arena)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a text of the store");
    fr_sql_end(st, which);
    return rc;
}

void fr_store_patience(struct fr_store *st, int ms)
{
    sqlite3_busy_timeout(st->db, ms > 0 ? ms : STORE_BUSY_MS);
}

#include "engine/store/store.h"

#include "engine/base/sys.h"
#include "engine/store/home.h"
#include "engine/store/sql.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum {
    HOSTS = 3, /* the first schema of homes with a host */
    LOG_RETRY_MS = 10,
    LOG_PAGES = 1000, /* of the write-ahead log, before its pages are copied into the database */
    LOG_PAGES_FIRST = 200, /* at a process's first commit: the next one to open it reads them all */
};

static enum fr_rc exec_text(struct fr_store *st, const char *sql, const char *what,
                            struct fr_err *err)
{
    if (sqlite3_exec(st->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        return fr_sql_fail(st, what, err);
    return FR_OK;
}

static enum fr_rc read_number(struct fr_store *st, const char *sql, int *out, struct fr_err *err)
{
    sqlite3_stmt *stmt = NULL;
    enum fr_rc rc = FR_OK;

    if (sqlite3_prepare_v2(st->db, sql, -1, &stmt, NULL) != SQLITE_OK ||
        sqlite3_step(stmt) != SQLITE_ROW)
        rc = fr_sql_fail(st, sql, err);
    else
        *out = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    return rc;
}

static enum fr_rc user_version(struct fr_store *st, int *version, struct fr_err *err)
{
    return read_number(st, "PRAGMA user_version", version, err);
}

/* The start of section `version` of the schema, NULL when there is none. */
static const char *section(int version)
{
    char mark[32];
    const char *p;

    snprintf(mark, sizeof(mark), "\n-- @version %d\n", version);
    p = strstr(fr_store_schema, mark);
    return p != NULL ? p + strlen(mark) : NULL;
}

static enum fr_rc apply_section(struct fr_store *st, int version, struct fr_err *err)
{
    const char *p = section(version);
    const char *end = section(version + 1);
    struct fr_buf sql = {0};
    enum fr_rc rc;

    fr_buf_add(&sql, p, end != NULL ? (size_t)(end - p) : strlen(p));
    fr_buf_fmt(&sql, "\nPRAGMA user_version = %d;", version);
    if (sql.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for the schema");
    else
        rc = exec_text(st, sql.p, "making the schema", err);
    fr_buf_finish(&sql);
    return rc;
}

int fr_store_newest(void)
{
    int version = 0;

    while (section(version + 1) != NULL)
        version++;
    return version;
}

/* A flowrun of before schema HOSTS owned runs one by one; it must be gone, and none may come while
 * its home becomes one with a host. */
static enum fr_rc lock_old_runs(struct fr_store *st, struct fr_buf *fds, struct fr_err *err)
{
    sqlite3_stmt *stmt = NULL;
    enum fr_rc rc = FR_OK;
    int code;

    if (sqlite3_prepare_v2(st->db, "SELECT id FROM run WHERE state <> 'over'", -1, &stmt, NULL) !=
        SQLITE_OK)
        return fr_sql_fail(st, "reading the runs", err);
    while (rc == FR_OK && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct fr_id id = {{0}};
        int fd = -1;

        if (sqlite3_column_bytes(stmt, 0) == (int)sizeof(id.b))
            memcpy(id.b, sqlite3_column_blob(stmt, 0), sizeof(id.b));
        rc = fr_home_old_owner(st->home, id, &fd, err);
        if (fd >= 0)
            fr_buf_add(fds, (const char *)&fd, sizeof(fd));
    }
    if (rc == FR_OK && code != SQLITE_DONE)
        rc = fr_sql_fail(st, "reading the runs", err);
    sqlite3_finalize(stmt);
    return rc == FR_OK && fds->bad ? fr_fail(err, FR_NOMEM, "no memory for locks") : rc;
}

static void unlock_old_runs(struct fr_buf *fds)
{
    for (size_t at = 0; at + sizeof(int) <= fds->n; at += sizeof(int)) {
        int fd;

        memcpy(&fd, fds->p + at, sizeof(fd));
        fr_sys.close(fd);
    }
    fr_buf_finish(fds);
}

static enum fr_rc home_id(struct fr_store *st, bool make, struct fr_err *err)
{
    enum fr_rc rc;

    if (make) {
        if ((rc = fr_id_new(&st->home_id, err)) != FR_OK)
            return rc;
        return fr_sql_run(st, SQL_HOME_PUT, err, "di", st->home_id, fr_sys.wall_ms());
    }
    rc = fr_sql_query(st, SQL_HOME_GET, err, "");
    rc = fr_sql_first_id(st, SQL_HOME_GET, rc, &st->home_id, err);
    if (rc == FR_OK && fr_id_zero(st->home_id))
        return fr_fail(err, FR_CORRUPT, "%s/state.db has no home id", st->home);
    return rc;
}

static enum fr_rc check_version(const struct fr_store *st, int have, int newest, struct fr_err *err)
{
    if (have <= newest)
        return FR_OK;
    return fr_fail(err, FR_UNSUPPORTED,
                   "%s/state.db has schema %d; this flowrun knows up to %d: use a newer one",
                   st->home, have, newest);
}

/* Brings the schema to the newest version. Another process may do so at the same time, also a newer
 * flowrun: the version is read and checked again under the write lock. */
static enum fr_rc migrate(struct fr_store *st, struct fr_err *err)
{
    int have = 0, newest = fr_store_newest();
    struct fr_buf locks = {0};
    enum fr_rc rc = user_version(st, &have, err);

    if (rc != FR_OK || (rc = check_version(st, have, newest, err)) != FR_OK)
        return rc;
    if (have == newest)
        return home_id(st, false, err);
    if ((rc = fr_store_begin(st, err)) != FR_OK)
        return rc;
    if ((rc = user_version(st, &have, err)) == FR_OK &&
        (rc = check_version(st, have, newest, err)) == FR_OK) {
        bool fresh = have == 0;

        if (!fresh && have < HOSTS)
            rc = lock_old_runs(st, &locks, err);
        while (rc == FR_OK && have < newest)
            rc = apply_section(st, ++have, err);
        if (rc == FR_OK)
            rc = home_id(st, fresh, err);
    }
    if (rc == FR_OK)
        rc = fr_store_commit(st, err);
    else
        fr_store_rollback(st);
    unlock_old_runs(&locks);
    return rc;
}

/* SQLite makes files that everybody may read, and gives its others the mode of the first. */
static void make_private(const char *path)
{
    int fd = fr_sys.open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);

    if (fd >= 0)
        fr_sys.close(fd); /* new: nobody in this process can have a lock on it */
}

/* Only on a new file can auto_vacuum be set without VACUUM (fr_store_runs_drop needs it). */
static int use_log_now(struct fr_store *st)
{
    int pages = 0;

    if (read_number(st, "PRAGMA page_count", &pages, NULL) == FR_OK && pages == 0 &&
        sqlite3_exec(st->db, "PRAGMA auto_vacuum = INCREMENTAL", NULL, NULL, NULL) != SQLITE_OK)
        return sqlite3_errcode(st->db);
    return sqlite3_exec(st->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
}

/* Where another process turns a new file into one with a write-ahead log at the same time, SQLite
 * does not always wait by itself. */
static enum fr_rc use_log(struct fr_store *st, struct fr_err *err)
{
    for (int waited = 0; waited < STORE_BUSY_MS; waited += LOG_RETRY_MS) {
        if ((use_log_now(st) & 0xff) != SQLITE_BUSY)
            break;
        sqlite3_sleep(LOG_RETRY_MS);
    }
    if (sqlite3_errcode(st->db) != SQLITE_OK)
        return fr_sql_fail(st, "setting up the log", err);
    return FR_OK;
}

static enum fr_rc set_up(struct fr_store *st, struct fr_err *err)
{
    enum fr_rc rc;

    sqlite3_extended_result_codes(st->db, 1);
    /* The log stays and is written over: a commit that makes it longer, or makes it, costs the file
     * system a commit of its own. */
    sqlite3_db_config(st->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    if ((rc = exec_text(st, "PRAGMA page_size = 1024", "setting up", err)) != FR_OK ||
        (rc = use_log(st, err)) != FR_OK)
        return rc;
    sqlite3_busy_timeout(st->db, STORE_BUSY_MS);
    sqlite3_wal_autocheckpoint(st->db, LOG_PAGES_FIRST);
    return exec_text(st, "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;", "setting up", err);
}

/* how: SQLITE_OPEN_READONLY, or READWRITE and CREATE. Unless there is no memory for it, *out is to
 * be closed also after an error. */
static enum fr_rc open_file(const char *home, int how, struct fr_store **out, struct fr_err *err)
{
    struct fr_store *st = *out = fr_sys.alloc(sizeof(*st));
    struct fr_buf path = {0};
    enum fr_rc rc = FR_OK;

    if (st == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the store");
    memset(st, 0, sizeof(*st));
    if ((rc = fr_claims_create(&st->claims, err)) != FR_OK)
        return rc;
    if ((size_t)snprintf(st->home, sizeof(st->home), "%s", home) >= sizeof(st->home))
        return fr_fail(err, FR_USAGE, "the path of the home is too long: %s", home);
    fr_buf_fmt(&path, "%s/state.db", home);
    if (!path.bad && (how & SQLITE_OPEN_CREATE) != 0)
        make_private(path.p);
    if (path.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for the store");
    else if (sqlite3_open_v2(path.p, &st->db, how | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_NOMUTEX,
                             NULL) != SQLITE_OK) /* one thread */
        rc = st->db != NULL ? fr_sql_fail(st, "opening", err)
                            : fr_fail(err, FR_NOMEM, "no memory for the store");
    fr_buf_finish(&path);
    return rc;
}

enum fr_rc fr_store_open(const char *home, struct fr_store **out, struct fr_err *err)
{
    struct fr_store *st = NULL;
    enum fr_rc rc = open_file(home, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &st, err);

    *out = NULL;
    if (rc == FR_OK && (rc = set_up(st, err)) == FR_OK)
        rc = migrate(st, err);
    if (rc == FR_OK)
        *out = st;
    else
        fr_store_close(st);
    return rc;
}

enum fr_rc fr_store_open_read(const char *home, struct fr_store **out, struct fr_err *err)
{
    struct fr_store *st = NULL;
    int have = 0, newest = fr_store_newest();
    enum fr_rc rc = open_file(home, SQLITE_OPEN_READONLY, &st, err);

    *out = NULL;
    if (rc == FR_OK) {
        sqlite3_extended_result_codes(st->db, 1);
        sqlite3_busy_timeout(st->db, STORE_BUSY_MS);
        rc = user_version(st, &have, err);
    }
    if (rc != FR_OK || have < newest) { /* there is none yet, or an older one */
        fr_store_close(st);
        return fr_store_open(home, out, err);
    }
    if ((rc = check_version(st, have, newest, err)) == FR_OK)
        rc = home_id(st, false, err);
    if (rc == FR_OK)
        *out = st;
    else
        fr_store_close(st);
    return rc;
}

void fr_store_close(struct fr_store *st)
{
    if (st == NULL)
        return;
    for (size_t i = 0; i < SQL_COUNT; i++)
        sqlite3_finalize(st->stmts[i].stmt);
    sqlite3_close(st->db);
    fr_claims_leave(st->claims);
    fr_sys.free(st);
}

void fr_store_rest(struct fr_store *st)
{
    for (size_t i = 0; i < SQL_COUNT; i++)
        sqlite3_reset(st->stmts[i].stmt);
    (void)sqlite3_db_release_memory(st->db);
}

const char *fr_store_home(const struct fr_store *st)
{
    return st->home;
}

struct fr_id fr_store_home_id(const struct fr_store *st)
{
    return st->home_id;
}

static enum fr_rc set_soft(struct fr_store *st, bool soft, struct fr_err *err)
{
    enum fr_rc rc;

    if (soft == st->soft)
        return FR_OK;
    rc = exec_text(st, soft ? "PRAGMA synchronous = NORMAL" : "PRAGMA synchronous = FULL",
                   "setting up", err);
    st->soft = rc == FR_OK ? soft : st->soft;
    return rc;
}

/* Calls outside begin and commit are synced, too. If this fails, the next begin tries it again. */
static void end_soft(struct fr_store *st)
{
    (void)set_soft(st, false, NULL);
}

static enum fr_rc begin(struct fr_store *st, bool soft, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    if (sqlite3_get_autocommit(st->db) == 0) /* the last rollback had no memory */
        rc = fr_sql_run(st, SQL_ROLLBACK, err, "");
    if (rc == FR_OK)
        rc = set_soft(st, soft, err);
    if (rc == FR_OK)
        rc = fr_sql_run(st, SQL_BEGIN, err, "");
    st->in_tx = rc == FR_OK;
    if (rc == FR_OK && st->lead.epoch != 0 && (rc = fr_store_check_lead(st, err)) != FR_OK)
        fr_store_rollback(st);
    return rc;
}

enum fr_rc fr_store_begin(struct fr_store *st, struct fr_err *err)
{
    return begin(st, false, err);
}

enum fr_rc fr_store_begin_soft(struct fr_store *st, struct fr_err *err)
{
    return begin(st, true, err);
}

enum fr_rc fr_store_commit(struct fr_store *st, struct fr_err *err)
{
    enum fr_rc rc = fr_sql_run(st, SQL_COMMIT, err, "");

    if (rc == FR_OK) {
        st->lead.raised = st->lead.raised || st->raises;
        sqlite3_wal_autocheckpoint(st->db, LOG_PAGES);
    } else {
        fr_store_rollback(st);
    }
    st->in_tx = false;
    end_soft(st);
    return rc;
}

void fr_store_rollback(struct fr_store *st)
{
    if (st->in_tx && sqlite3_get_autocommit(st->db) == 0)
        (void)fr_sql_run(st, SQL_ROLLBACK, NULL, "");
    st->in_tx = false;
    end_soft(st);
}

enum fr_rc fr_store_end(struct fr_store *st, enum fr_rc rc, struct fr_err *err)
{
    if (rc == FR_OK)
        return fr_store_commit(st, err);
    fr_store_rollback(st);
    return rc;
}

#include "tests/unit/store/store_bed.h"

#include "engine/base/file.h"

void make_home(char home[BED_HOME])
{
    const char *tmp = getenv("TMPDIR");

    snprintf(home, BED_HOME, "%s/flowrun-store-XXXXXX", tmp != NULL ? tmp : "/tmp");
    CHECK(mkdtemp(home) != NULL);
    CHECK_INT(fr_home_make(home, NULL), FR_OK);
}

struct fr_store *open_store(const char *home)
{
    struct fr_store *st = NULL;
    struct fr_err err = {0};

    if (fr_store_open(home, &st, &err) != FR_OK)
        printf("%s\n", err.msg);
    CHECK(st != NULL);
    return st;
}

void check_sound(const char *home)
{
    static const char *const sql[] = {
        "SELECT 1 FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
        "SELECT 1 FROM pragma_foreign_key_check"};
    char path[300];
    sqlite3 *db = NULL;

    snprintf(path, sizeof(path), "%s/state.db", home);
    CHECK_INT(sqlite3_open(path, &db), SQLITE_OK);
    for (int i = 0; i < 2; i++) {
        sqlite3_stmt *stmt = NULL;

        CHECK_INT(sqlite3_prepare_v2(db, sql[i], -1, &stmt, NULL), SQLITE_OK);
        CHECK_INT(sqlite3_step(stmt), SQLITE_DONE);
        sqlite3_finalize(stmt);
    }
    sqlite3_close(db);
}

void remove_store(const char *home)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char path[300];

    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/state.db%s", home, ends[i]);
        unlink(path);
    }
}

void remove_home(const char *home)
{
    while (fr_remove_tree(home, NULL) != FR_OK)
        ;
}

void put_file(const char *home, const char *name, const char *text)
{
    char path[400];

    snprintf(path, sizeof(path), "%s/%s", home, name);
    CHECK_INT(fr_file_write(path, text, strlen(text), 0600, NULL), FR_OK);
}

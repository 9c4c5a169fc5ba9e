/* For tests of the store: a home in a temporary folder, one a program. */
#ifndef TESTS_UNIT_STORE_BED_H
#define TESTS_UNIT_STORE_BED_H

#include "engine/store/home.h"
#include "engine/store/store.h"
#include "tests/unit/check.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char home[256];

static inline void make_home(void)
{
    struct fr_err err;
    const char *tmp = getenv("TMPDIR");

    snprintf(home, sizeof(home), "%s/flowrun-store-XXXXXX", tmp != NULL ? tmp : "/tmp");
    CHECK(mkdtemp(home) != NULL);
    CHECK_INT(fr_home_make(home, &err), FR_OK);
}

static inline struct fr_store *open_store(void)
{
    struct fr_store *st = NULL;
    struct fr_err err = {0};

    if (fr_store_open(home, &st, &err) != FR_OK)
        printf("%s\n", err.msg);
    CHECK(st != NULL);
    return st;
}

/* The database is whole, and no row names one that is not there. */
static inline void check_sound(void)
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

static inline void remove_store(void)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char path[300];

    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/state.db%s", home, ends[i]);
        unlink(path);
    }
}

/* A thread that a host has left may make a file there once more. */
static inline void remove_home(void)
{
    while (fr_remove_tree(home, NULL) != FR_OK)
        ;
}

#endif

/*
 * Data files of columns. What a child that stands for Python says becomes records or an error,
 * anywhere; with a Python that has pyarrow ($FLOWTRAIN_PYTHON or python3) the records of
 * tests/golden/columns are those that datasets gave. Without one that part is skipped.
 */
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/sys.h"
#include "tests/unit/check.h"
#include "trainer/dataset/answers.h"
#include "trainer/dataset/columns.h"
#include "trainer/dataset/records.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define GOLDEN SOURCE_ROOT "/tests/golden/columns"

static char dir[] = "/tmp/fr.columns.XXXXXX", python[64];

/* A program in Python's place. */
static void stand_in(const char *body)
{
    char text[512];

    (void)snprintf(python, sizeof(python), "%s/python", dir);
    (void)snprintf(text, sizeof(text), "#!/bin/sh\n%s\n", body);
    CHECK_INT(fr_file_write(python, text, strlen(text), 0755, NULL), FR_OK);
    CHECK_INT(setenv("FLOWTRAIN_PYTHON", python, 1), 0);
}

static void test_plumbing(void)
{
    static const struct {
        const char *body, *want; /* what the records are, or the error */
        enum fr_rc rc;
    } rows[] = {
        {"printf '{\"a\": 1}\\n{\"a\": \"!\"}\\n'", "{\"a\": 1}\n{\"a\": \"!\"}\n", FR_OK},
        {"echo \"{\\\"file\\\": \\\"$3\\\", \\\"n\\\": $#}\"",
         "{\"file\": \"a b.parquet\", \"n\": 3}\n", FR_OK},
        {"echo '{}'; echo '!ArrowInvalid: no'",
         "a b.parquet: pyarrow cannot read it: ArrowInvalid: no", FR_USAGE},
        {"echo '!?x has no pyarrow (why)'",
         ".parquet files, but x has no pyarrow (why). Install it", FR_UNSUPPORTED},
        {"echo '!?x has no pyarrow'", "load_dataset(\"parquet\", data_files=\"a b.parquet\"",
         FR_UNSUPPORTED},
        {"echo '{}'; exit 3", "exited with status 3", FR_IO},
        {"printf '{\"cut'; kill -9 $$", "was killed by signal 9", FR_IO},
        {"head -c 100000 /dev/zero", "its records are more than 5000 bytes of JSON", FR_USAGE},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_buf out = {0};
        struct fr_err err = {0};

        check_row(rows[i].body);
        stand_in(rows[i].body);
        CHECK_INT(tr_columns_read("a b.parquet", 5000, &out, &err), rows[i].rc);
        if (rows[i].rc == FR_OK)
            CHECK_TEXT(out.p, rows[i].want);
        else if (!CHECK(strstr(err.msg, rows[i].want) != NULL))
            printf("   %s\n", err.msg);
        fr_buf_finish(&out);
    }
    check_row("no such program");
    struct fr_buf out = {0};
    struct fr_err err = {0};
    CHECK_INT(setenv("FLOWTRAIN_PYTHON", "/nowhere/python3", 1), 0);
    CHECK_INT(tr_columns_read("x.arrow", 5000, &out, &err), FR_UNSUPPORTED);
    CHECK(strstr(err.msg, "/nowhere/python3 cannot be started: No such file") != NULL);
    CHECK(strstr(err.msg, "load_dataset(\"arrow\"") != NULL);
    fr_buf_finish(&out);
}

static enum fr_rc keep(void *arg, const json_t *record, const char *where, struct fr_err *err)
{
    (void)where;
    (void)err;
    return json_array_append(arg, (json_t *)record) == 0 ? FR_OK : FR_NOMEM;
}

/* All records of the data set whose file_name is this. */
static json_t *records(const char *file, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct tr_data_entry e;
    struct fr_buf bytes = {0};
    char path[256], text[512];
    json_t *all = json_array();

    (void)snprintf(path, sizeof(path), "%s/dataset_info.json", dir);
    (void)snprintf(text, sizeof(text), "{\"x\": {\"file_name\": \"%s/%s\"}}", GOLDEN, file);
    CHECK_INT(fr_file_write(path, text, strlen(text), 0644, NULL), FR_OK);
    struct tr_record_sink sink = {.each = keep, .arg = all, .bytes = &bytes};
    enum fr_rc rc = tr_entry_read(dir, "x", &arena, &e, err);
    for (size_t i = 0; rc == FR_OK && i < e.nfiles; i++)
        rc = tr_records_read(e.files[i], &sink, err);
    (void)unlink(path);
    fr_buf_finish(&bytes);
    fr_arena_finish(&arena);
    if (rc == FR_OK)
        return all;
    json_decref(all);
    return NULL;
}

static void test_records(void)
{
    json_t *root = NULL, *want;
    const char *name;

    CHECK_INT(fr_json_load(GOLDEN "/columns.json", 1 << 20, &root, NULL), FR_OK);
    json_object_foreach(root, name, want)
    {
        struct fr_err err = {0};
        json_t *got;

        check_row(name);
        got = records(name, &err);
        if (!CHECK(got != NULL && json_equal(got, want)))
            printf("   %s\n", got != NULL ? json_dumps(got, 0) : err.msg);
        json_decref(got);
    }
    json_decref(root);
}

static void test_splits(void)
{
    struct fr_err err = {0};

    check_row("several splits");
    CHECK(records("splits", &err) == NULL);
    CHECK(strstr(err.msg, "holds the splits train, test: file_name is the folder of one") != NULL);
}

/* Columns of answers that datasets gives as text, and those that it does not. */
static void test_answers(void)
{
    json_t *rows = NULL, *row, *v;
    size_t i, k;

    CHECK_INT(fr_json_load(SOURCE_ROOT "/tests/golden/answer_types.json", 1 << 20, &rows, NULL),
              FR_OK);
    json_array_foreach(rows, i, row)
    {
        struct tr_answers a = {.seen = 0};
        bool csv = strcmp(json_string_value(json_object_get(row, "file")), "csv") == 0;
        char *text = json_dumps(row, 0);

        check_row(text);
        json_array_foreach(json_object_get(row, "answers"), k, v) tr_answers_note(&a, csv, v);
        CHECK_INT(tr_answers_are(&a) == NULL, json_is_true(json_object_get(row, "text")));
        free(text);
    }
    CHECK(i > 90);
    json_decref(rows);
}

int main(void)
{
    const char *own = getenv("FLOWTRAIN_PYTHON");
    char keep_own[256], command[512];

    (void)snprintf(keep_own, sizeof(keep_own), "%s", own != NULL ? own : "python3");
    (void)snprintf(command, sizeof(command), "'%s' -c 'import pyarrow.parquet' 2>/dev/null",
                   keep_own);
    if (mkdtemp(dir) == NULL)
        return EXIT_FAILURE;
    test_plumbing();
    test_splits();
    test_answers();
    bool has = system(command) == 0;
    CHECK_INT(setenv("FLOWTRAIN_PYTHON", keep_own, 1), 0);
    if (has)
        test_records();
    (void)unlink(python);
    (void)rmdir(dir);
    int status = check_done();
    if (!has)
        printf("skipped: records by pyarrow, which %s lacks\n", keep_own);
    return status;
}

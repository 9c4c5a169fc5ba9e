/* The folder of an allocation: what is made there, and what is read of it. */
#include "engine/submit/folder.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define TAG "0123456789abcdef0123456789abcdef"

static char work[64];

static const char *in_work(struct fr_arena *arena, const char *path)
{
    return fr_arena_fmt(arena, "%s/%s", work, path);
}

static void put(struct fr_arena *arena, const char *name, const char *text, size_t n)
{
    const char *path = fr_arena_fmt(arena, "%s/alloc/%s/%s", work, TAG, name);

    CHECK_INT(fr_file_write(path, text, n, 0600, NULL), FR_OK);
}

static void test_made(void)
{
    struct fr_arena arena = {0};
    const char *folder = in_work(&arena, "alloc/" TAG), *program = NULL;
    struct fr_err err = {0};
    struct stat st;

    CHECK_INT(fr_folder_make(folder, "/proc/self/exe", &arena, &program, &err), FR_OK);
    CHECK(fr_has_prefix(program, in_work(&arena, "bin/flownode-")));
    CHECK(stat(program, &st) == 0 && (st.st_mode & 0777) == 0755);
    CHECK(stat(folder, &st) == 0 && (st.st_mode & 0777) == 0700);
    CHECK_INT(fr_folder_script(folder, "#!/bin/sh\n", &err), FR_OK);
    CHECK(stat(in_work(&arena, "alloc/" TAG "/job.sh"), &st) == 0 && (st.st_mode & 0777) == 0700);
    fr_arena_finish(&arena);
}

static int none_there(const char *path, struct stat *st)
{
    if (strcmp(path, work) != 0)
        return lstat(path, st);
    errno = ENOENT;
    return -1;
}

/* Two allocations make their folders at once: the other one makes WORK behind our look. */
static void test_twice(void)
{
    struct fr_arena arena = {0};
    const char *folder = in_work(&arena, "alloc/" TAG), *program = NULL;
    int (*before)(const char *path, struct stat *st) = fr_sys.lstat;
    struct fr_err err = {0};

    fr_sys.lstat = none_there;
    CHECK_INT(fr_folder_make(folder, "/proc/self/exe", &arena, &program, &err), FR_OK);
    fr_sys.lstat = before;
    CHECK_TEXT(err.msg, "");
    fr_arena_finish(&arena);
}

static void test_read(void)
{
    struct fr_arena arena = {0};
    struct fr_buf files = {0};
    struct fr_str rest, name, bytes;
    char log[2000];
    size_t n = 0;

    memset(log, 'x', sizeof(log));
    log[sizeof(log) - 1] = '!';
    put(&arena, "claim", "7 0 host\n", 9);
    put(&arena, "place.1", "", 0);
    put(&arena, "place.1.closed", "job 7\n\n3 4\n", 11);
    put(&arena, "job.log", log, sizeof(log));
    put(&arena, "other", "no", 2);
    CHECK_INT(fr_folder_read(in_work(&arena, "alloc/" TAG), &files, NULL), FR_OK);
    rest = (struct fr_str){files.p, files.n};
    while (fr_folder_next(&rest, &name, &bytes)) {
        n++;
        if (fr_str_is(name, "claim"))
            CHECK(fr_str_is(bytes, "7 0 host\n"));
        else if (fr_str_is(name, "place.1"))
            CHECK_INT((int)bytes.n, 0);
        else if (fr_str_is(name, "place.1.closed"))
            CHECK(fr_str_is(bytes, "job 7\n\n3 4\n"));
        else if (fr_str_is(name, "job.log"))
            CHECK(bytes.n == FR_FOLDER_LOG && bytes.p[bytes.n - 1] == '!');
        else
            CHECK_TEXT(fr_arena_text(&arena, name.p, name.n), "none of these");
    }
    CHECK_INT((int)n, 4);
    CHECK_INT((int)rest.n, 0);
    fr_buf_finish(&files);
    fr_arena_finish(&arena);
}

/* Texts that fr_folder_read() does not make. */
static void test_wrong_texts(void)
{
    static const char *const wrong[] = {"claim",
                                        "claim 3",
                                        "claim 3\nab",
                                        "claim 3\nabcd\n",
                                        "claim x\n",
                                        "claim -1\na\n",
                                        "claim 99999999999999999999\na\n"};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct fr_str rest = fr_str_of(wrong[i]), name, bytes;

        check_row(wrong[i]);
        CHECK(!fr_folder_next(&rest, &name, &bytes));
        CHECK(fr_str_is(rest, wrong[i]));
    }
}

/* What lies behind the text is none of it, whatever it is. */
static void test_cut_text(void)
{
    static const char text[] = "claim 3\nabc\n";
    struct fr_str rest = {text, sizeof(text) - 2}, name, bytes;

    CHECK(!fr_folder_next(&rest, &name, &bytes));
    rest = (struct fr_str){text, sizeof(text) - 1};
    CHECK(fr_folder_next(&rest, &name, &bytes) && fr_str_is(bytes, "abc") && rest.n == 0);
}

/* Only WORK/alloc/TAG is touched. */
static void test_wrong_paths(void)
{
    struct fr_arena arena = {0};
    const char *wrong[] = {work,
                           "alloc/" TAG,
                           "/alloc/" TAG,
                           in_work(&arena, "alloc/0123"),
                           in_work(&arena, "alloc/" TAG "/job.sh"),
                           in_work(&arena, "other/" TAG),
                           ""};
    struct fr_buf files = {0};
    const char *program;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        check_row(wrong[i]);
        CHECK_INT(fr_folder_remove(wrong[i], NULL), FR_USAGE);
        CHECK_INT(fr_folder_make(wrong[i], "/proc/self/exe", &arena, &program, NULL), FR_USAGE);
        CHECK_INT(fr_folder_script(wrong[i], "x", NULL), FR_USAGE);
        CHECK_INT(fr_folder_read(wrong[i], &files, NULL), FR_USAGE);
    }
    fr_arena_finish(&arena);
}

static void test_removed(void)
{
    struct fr_arena arena = {0};
    struct fr_buf files = {0};
    const char *folder = in_work(&arena, "alloc/" TAG);
    struct stat st;

    CHECK_INT(fr_folder_remove(folder, NULL), FR_OK);
    CHECK(stat(folder, &st) != 0 && stat(in_work(&arena, "bin"), &st) == 0);
    CHECK_INT(fr_folder_read(folder, &files, NULL), FR_OK);
    CHECK_INT((int)files.n, 0);
    fr_buf_finish(&files);
    fr_arena_finish(&arena);
}

int main(void)
{
    snprintf(work, sizeof(work), "/tmp/fr-folder-XXXXXX");
    if (mkdtemp(work) == NULL)
        return 99;
    test_made();
    test_twice();
    test_read();
    test_wrong_texts();
    test_cut_text();
    test_wrong_paths();
    test_removed();
    CHECK_INT(fr_remove_tree(work, NULL), FR_OK);
    return check_done();
}

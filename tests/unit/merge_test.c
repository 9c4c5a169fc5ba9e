/* Logs of several attempts as one text: a row says what lies in each log and its index, and what is
 * printed, with the time of each line in front. */
#include "engine/host/merge.h"

#include "engine/base/file.h"
#include "engine/base/mark.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char dir[] = "/tmp/flowrun-merge-XXXXXX";

struct log {
    const char *text;            /* NULL: there is no such attempt */
    struct fr_log_mark marks[3]; /* ms 0: no more */
    enum { GOES_ON, ENDED, WHOLE } state;
};

static const struct {
    const char *name;
    struct log logs[3];
    size_t tail;
    bool last;
    const char *want;
} rows[] = {
    {"by their times",
     {{"a1\na2\n", {{0, 10}, {3, 30}}, GOES_ON}, {"b1\n", {{0, 20}}, GOES_ON}},
     .want = "10 a | a1\n20 b | b1\n30 a | a2\n"},
    {"at one time as they were added",
     {{"a1\n", {{0, 10}}, GOES_ON}, {"b1\n", {{0, 10}}, GOES_ON}},
     .want = "10 a | a1\n10 b | b1\n"},
    {"a clock that is set back",
     {{"a1\na2\na3\n", {{0, 30}, {3, 10}, {6, 40}}, GOES_ON}, {"b1\n", {{0, 20}}, GOES_ON}},
     .want = "20 b | b1\n30 a | a1\n30 a | a2\n40 a | a3\n"},
    {"without an index: when the attempt began",
     {{"a1\na2\n", {{0, 0}}, GOES_ON}, {"b1\n", {{0, 6}}, GOES_ON}},
     .want = "5 a | a1\n5 a | a2\n6 b | b1\n"},
    {"a line without its end waits", {{"a1\na2", {{0, 10}}, GOES_ON}}, .want = "10 a | a1\n"},
    {"also at the last look",
     {{"a1\na2", {{0, 10}}, GOES_ON}},
     .last = true,
     .want = "10 a | a1\n"},
    {"and behind the end of its attempt", {{"a1\na2", {{0, 10}}, ENDED}}, .want = "10 a | a1\n"},
    {"but not at the last look then",
     {{"a1\na2", {{0, 10}}, ENDED}},
     .last = true,
     .want = "10 a | a1\n10 a | a2\n"},
    {"nor of a whole log", {{"a1\na2", {{0, 10}}, WHOLE}}, .want = "10 a | a1\n10 a | a2\n"},
    {"what a terminal shows in the end",
     {{"10%\r20%\nby DOS\r\n50%\r60%\r\n\r\n\n", {{0, 10}}, GOES_ON}},
     .want = "10 a | 20%\n10 a | by DOS\n10 a | 60%\n10 a | \n10 a | \n"},
    {"the last lines of all",
     {{"a1\na2\na3\n", {{0, 10}, {3, 30}, {6, 50}}, GOES_ON},
      {"b1\nb2\n", {{0, 20}, {3, 40}}, WHOLE}},
     .tail = 3,
     .want = "30 a | a2\n40 b | b2\n50 a | a3\n"},
    {"the last lines of one",
     {{"a1\na2\na3\na4\n", {{0, 10}}, GOES_ON}},
     .tail = 2,
     .want = "10 a | a3\n10 a | a4\n"},
    {"the last of which lacks its end",
     {{"a1\na2\na3", {{0, 10}}, WHOLE}},
     .tail = 2,
     .want = "10 a | a2\n10 a | a3\n"},
    {"more than there are", {{"a1\n", {{0, 10}}, WHOLE}}, .tail = 3, .want = "10 a | a1\n"},
};

static void put(size_t i, const struct log *log)
{
    char path[100];
    size_t n = 0;

    while (n < 3 && log->marks[n].ms != 0)
        n++;
    (void)snprintf(path, sizeof(path), "%s/%zu.log", dir, i);
    CHECK_INT(fr_file_write(path, log->text, strlen(log->text), 0600, NULL), FR_OK);
    (void)snprintf(path, sizeof(path), "%s/%zu.log.idx", dir, i);
    (void)unlink(path);
    if (n > 0)
        CHECK_INT(
            fr_file_write(path, (const char *)log->marks, n * sizeof(log->marks[0]), 0600, NULL),
            FR_OK);
}

static bool take(void *arg, struct fr_str lines)
{
    fr_buf_add(arg, lines.p, lines.n);
    return true;
}

static void append(const char *name, const void *p, size_t n)
{
    char path[100];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    f = fopen(path, "a");
    CHECK(f != NULL && fwrite(p, 1, n, f) == n && fclose(f) == 0);
}

/* What comes later is never shown as of before, whatever is said of its attempt meanwhile. */
static void test_later(void)
{
    static const struct log log = {"a1\n", {{0, 30}}, GOES_ON};
    static const struct fr_log_mark back = {3, 10};
    struct fr_buf got = {0};
    struct fr_merge_opts o = {.put = take, .put_arg = &got, .times = FR_MERGE_MS};
    struct fr_merge *m = NULL;
    struct fr_err err = {0};

    check_row("a second look");
    put(0, &log);
    CHECK_INT(fr_merge_create(&m, dir, &o, &err), FR_OK);
    CHECK_INT(fr_merge_add(m, (struct fr_id){.b = {1}}, "a", "0.log", &err), FR_OK);
    for (int look = 0; look < 2; look++) {
        fr_merge_set(m, 0, 5, false, false);
        CHECK_INT(fr_merge_print(m, false, &err), FR_OK);
        if (look == 0)
            append("0.log", "a2\n", 3), append("0.log.idx", &back, sizeof(back));
    }
    CHECK_TEXT(got.p, "30 a | a1\n30 a | a2\n");
    fr_merge_destroy(m);
    fr_buf_finish(&got);
}

int main(void)
{
    CHECK(mkdtemp(dir) != NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_buf got = {0};
        struct fr_merge_opts o = {
            .put = take, .put_arg = &got, .times = FR_MERGE_MS, .n_tail = rows[i].tail};
        struct fr_merge *m = NULL;
        struct fr_err err = {0};

        check_row(rows[i].name);
        fr_buf_text(&got, "");
        CHECK_INT(fr_merge_create(&m, dir, &o, &err), FR_OK);
        for (size_t k = 0; k < 3 && rows[i].logs[k].text != NULL; k++) {
            const struct log *log = &rows[i].logs[k];
            char label[] = {(char)('a' + k), '\0'}, name[20];

            put(k, log);
            (void)snprintf(name, sizeof(name), "%zu.log", k);
            CHECK_INT(fr_merge_add(m, (struct fr_id){.b = {(uint8_t)(k + 1)}}, label, name, &err),
                      FR_OK);
            fr_merge_set(m, k, 5, log->state != GOES_ON, log->state == WHOLE);
        }
        CHECK_INT(fr_merge_print(m, rows[i].last, &err), FR_OK);
        CHECK_TEXT(got.p, rows[i].want);
        fr_merge_destroy(m);
        fr_buf_finish(&got);
    }
    test_later();
    CHECK_INT(fr_remove_tree(dir, NULL), FR_OK);
    return check_done();
}

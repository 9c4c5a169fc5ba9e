/* Logs of several attempts as one text: a row says what lies in each log and its index, and what is
 * printed, with the time of each line in front. */
#include "engine/view/merge.h"

#include "engine/base/file.h"
#include "engine/base/mark.h"
#include "engine/base/sys.h"
#include "engine/base/tail.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
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
    {"as many as there are",
     {{"a1\na2\n", {{0, 10}}, WHOLE}},
     .tail = 2,
     .want = "10 a | a1\n10 a | a2\n"},
    {"an empty log", {{"", {{0, 0}}, WHOLE}, {"b1\n", {{0, 10}}, WHOLE}}, .want = "10 b | b1\n"},
    {"an empty line", {{"\n\na3\n", {{0, 10}}, WHOLE}}, .want = "10 a | \n10 a | \n10 a | a3\n"},
    {"bytes that a terminal would obey",
     {{"1234567\x1f\n12345678\x7f\n\x1b[31m\n12345678\xff~ \n", {{0, 10}}, WHOLE}},
     .want =
         "10 a | 1234567\\x1f\n10 a | 12345678\\x7f\n10 a | \\x1b[31m\n10 a | 12345678\\xff~ \n"},
    {"UTF-8",
     {{"12345678\u00e9 \u4e2d\n", {{0, 10}}, WHOLE}},
     .want = "10 a | 12345678\u00e9 \u4e2d\n"},
    {"a delete in the first eight bytes",
     {{"1234567\x7f\n", {{0, 10}}, WHOLE}},
     .want = "10 a | 1234567\\x7f\n"},
    {"three at once, one of which goes on later",
     {{"a1\na2\n", {{0, 10}, {3, 40}}, WHOLE},
      {"b1\nb2\n", {{0, 20}}, WHOLE},
      {"c1\nc2\n", {{0, 10}, {3, 20}}, WHOLE}},
     .want = "10 a | a1\n10 c | c1\n20 b | b1\n20 b | b2\n20 c | c2\n40 a | a2\n"},
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
    static const struct fr_log_mark marks[] = {{3, 10}, {6, 40}};
    static const char *const lines[] = {"a2\n", "a3\n"};
    struct fr_buf got = {0};
    struct fr_merge_opts o = {.put = take, .put_arg = &got, .times = FR_MERGE_MS};
    struct fr_merge *m = NULL;

    check_row("a second look");
    put(0, &log);
    CHECK_INT(fr_merge_create(&m, dir, &o, NULL), FR_OK);
    CHECK_INT(fr_merge_add(m, (struct fr_id){.b = {1}}, "a", "0.log", NULL), FR_OK);
    for (int look = 0; look < 3; look++) {
        fr_merge_set(m, 0, 5, false, false);
        CHECK_INT(fr_merge_print(m, false, NULL), FR_OK);
        if (look < 2)
            append("0.log", lines[look], 3), append("0.log.idx", &marks[look], sizeof(marks[0]));
    }
    CHECK_TEXT(got.p, "30 a | a1\n30 a | a2\n40 a | a3\n");
    check_row("output that arrives behind its end");
    for (int look = 0; look < 3; look++) {
        fr_merge_set(m, 0, 5, true, look == 2);
        CHECK_INT(fr_merge_print(m, false, NULL), FR_OK);
        if (look < 2)
            append("0.log", &"a4\na5"[3 * look], look == 0 ? 3 : 2);
    }
    CHECK_TEXT(got.p, "30 a | a1\n30 a | a2\n40 a | a3\n40 a | a4\n40 a | a5\n");
    fr_merge_destroy(m);
    fr_buf_finish(&got);
}

static const struct fr_id ids[] = {{.b = {1}}, {.b = {2}}};

static struct fr_buf got;

static struct fr_merge *begin(size_t n_tail, enum fr_merge_times times)
{
    struct fr_merge_opts o = {.put = take, .put_arg = &got, .times = times, .n_tail = n_tail};
    struct fr_merge *m = NULL;

    fr_buf_finish(&got);
    fr_buf_text(&got, "");
    CHECK_INT(fr_merge_create(&m, dir, &o, NULL), FR_OK);
    return m;
}

/* Prints what came, and forgets it. */
static void check_next(struct fr_merge *m, const char *want)
{
    got.n = 0;
    CHECK_INT(fr_merge_print(m, false, NULL), FR_OK);
    fr_buf_add(&got, "", 1);
    CHECK_TEXT(got.p, want);
}

/* What was printed of the buffer is no end of the line that comes behind it. */
static void test_pieces(void)
{
    static const struct log log = {"aaaa\nbb", {{0, 10}}, GOES_ON};
    struct fr_merge *m = begin(0, FR_MERGE_NO_TIMES);

    check_row("a line that comes in pieces");
    put(0, &log);
    CHECK_INT(fr_merge_add(m, ids[0], "a", "0.log", NULL), FR_OK);
    check_next(m, "a | aaaa\n");
    append("0.log", "c", 1);
    check_next(m, "");
    append("0.log", "d\n", 2);
    check_next(m, "a | bbcd\n");
    fr_merge_destroy(m);
}

/* ---- a log that is full ---- */

static void log_path(const char *name, char path[100])
{
    (void)snprintf(path, 100, "%s/%s", dir, name);
}

static int begin_tail(const char *head, struct fr_tail_head *h)
{
    static const struct fr_log_mark mark = {0, 10};
    char path[100];

    log_path("0.log", path);
    CHECK_INT(fr_file_write(path, head, strlen(head), 0600, NULL), FR_OK);
    log_path("0.log.idx", path);
    CHECK_INT(fr_file_write(path, (const char *)&mark, sizeof(mark), 0600, NULL), FR_OK);
    log_path("0.log.tail", path);
    *h = (struct fr_tail_head){.head = strlen(head), .keep = FR_TAIL_MAX};
    return open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
}

static void put_tail(int fd, struct fr_tail_head *h, const char *text, int64_t ms)
{
    h->ms = ms;
    CHECK(fr_tail_put(fd, h, text, strlen(text)));
}

static struct fr_merge *begin_one(size_t n_tail)
{
    struct fr_merge *m = begin(n_tail, FR_MERGE_MS);

    CHECK_INT(fr_merge_add(m, ids[0], "a", "0.log", NULL), FR_OK);
    fr_merge_set(m, 0, 5, false, false);
    return m;
}

/* The log gets its tail: what was shown is not shown again, and what follows is. */
static void test_tail(void)
{
    struct fr_tail_head h;
    int fd = begin_tail("h1\nh2", &h);
    struct fr_merge *m = begin_one(0);

    check_row("a tail");
    put_tail(fd, &h, "-t0\nt1\n", 40);
    check_next(m, "10 a | h1\n10 a | h2-t0\n40 a | t1\n");
    check_next(m, "");
    put_tail(fd, &h, "t2\nt", 50);
    check_next(m, "50 a | t2\n");
    put_tail(fd, &h, "3\n", 60);
    check_next(m, "60 a | t3\n");
    append("0.log", "-t0\nt1\nt2\nt3\n", 13);
    CHECK(fr_tail_join(fd, &h, 5, 0));
    append("0.log", "t4\n", 3);
    check_next(m, "60 a | t4\n");
    append("0.log", "t5", 2);
    fr_merge_set(m, 0, 5, true, true);
    check_next(m, "60 a | t5\n");
    check_next(m, "");
    fr_merge_destroy(m);
    close(fd);
}

/* What the log keeps begins behind what was shown: the log says what is missing. */
static void test_tail_dropped(void)
{
    static const char rest[] = "[left out]\nt3\nt4\n";
    struct fr_tail_head h;
    int fd = begin_tail("h1\n", &h);
    struct fr_merge *m = begin_one(0);

    check_row("a tail of which the log gets the end");
    h.keep = 6;
    put_tail(fd, &h, "t1\n", 40);
    check_next(m, "10 a | h1\n40 a | t1\n");
    put_tail(fd, &h, "t2\nt3\nt4\n", 50);
    append("0.log", rest, sizeof(rest) - 1);
    CHECK(fr_tail_join(fd, &h, 3 + 11, 6));
    check_next(m, "40 a | [left out]\n40 a | t3\n40 a | t4\n");
    fr_merge_destroy(m);

    check_row("and of which all that it gets was shown");
    close(fd);
    fd = begin_tail("h1\n", &h);
    m = begin_one(0);
    h.keep = 6;
    put_tail(fd, &h, "t1\nt2\nt3\n", 40);
    check_next(m, "10 a | h1\n40 a | t1\n40 a | t2\n40 a | t3\n");
    put_tail(fd, &h, "t4\n", 50);
    append("0.log", rest, sizeof(rest) - 1);
    CHECK(fr_tail_join(fd, &h, 3 + 11, 6));
    check_next(m, "40 a | t4\n");
    fr_merge_destroy(m);

    check_row("and that ends without one");
    close(fd);
    fd = begin_tail("h1\n", &h);
    m = begin_one(0);
    put_tail(fd, &h, "t1\n", 40);
    check_next(m, "10 a | h1\n40 a | t1\n");
    append("0.log", "[gone]\n", 7);
    fr_merge_set(m, 0, 5, true, true);
    check_next(m, "40 a | [gone]\n");
    fr_merge_destroy(m);
    close(fd);
}

/* More comes than the tail holds: the first line that can be read is preceded by what is gone. */
static void test_gap(void)
{
    enum { LINE = 1024, LINES = 300, LOST = LINES * LINE - FR_TAIL_MAX };
    static char many[LINES * LINE + 1];
    struct fr_tail_head h;
    struct fr_buf want = {0};
    int fd = begin_tail("h1\n", &h);
    struct fr_merge *m = begin_one(0);

    check_row("a gap");
    put_tail(fd, &h, "t1\nab", 40);
    check_next(m, "10 a | h1\n40 a | t1\n");
    for (int i = 0; i < LINES; i++)
        (void)snprintf(many + (size_t)i * LINE, LINE + 1, "%1023d\n", i);
    put_tail(fd, &h, many, 50);
    fr_buf_fmt(&want, "40 a | ab\n40 a | [flowrun: %d bytes left out so far]\n", LOST);
    for (int i = LOST / LINE; i < LINES; i++)
        fr_buf_fmt(&want, "50 a | %1023d\n", i);
    check_next(m, want.p);
    put_tail(fd, &h, "t2\n", 60);
    check_next(m, "60 a | t2\n");
    fr_merge_destroy(m);
    fr_buf_finish(&want);
    close(fd);
}

static void test_tail_last(void)
{
    static const struct {
        size_t n;
        const char *want;
    } cases[] = {
        {1, "40 a | t3\n"},
        {2, "40 a | t2\n40 a | t3\n"},
        {4, "10 a | h2\n40 a | t1\n40 a | t2\n40 a | t3\n"},
        {9, "10 a | h1\n10 a | h2\n40 a | t1\n40 a | t2\n40 a | t3\n"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fr_tail_head h;
        int fd = begin_tail("h1\nh2\n", &h);
        struct fr_merge *m = begin_one(cases[i].n);
        char row[40];

        (void)snprintf(row, sizeof(row), "the last %zu lines with a tail", cases[i].n);
        check_row(row);
        put_tail(fd, &h, "t1\nt2\nt3\n", 40);
        check_next(m, cases[i].want);
        put_tail(fd, &h, "t4\nt5\n", 50);
        check_next(m, "50 a | t4\n50 a | t5\n");
        fr_merge_destroy(m);
        close(fd);
    }
}

/* ---- many, and long ---- */

enum { MANY = 100, OPEN_MOST = 40 };

static int n_open, opened;

static int open_few(const char *path, int flags, mode_t mode)
{
    int fd = -1;

    if (n_open >= OPEN_MOST)
        errno = EMFILE;
    else if ((fd = fr_sys_real.open(path, flags, mode)) >= 0)
        n_open++, opened++;
    return fd;
}

static int close_one(int fd)
{
    n_open--;
    return fr_sys_real.close(fd);
}

/* In turn a line of each, twice; however few files may be open. */
static void test_many(bool few)
{
    struct fr_merge *m = begin(0, FR_MERGE_NO_TIMES);
    struct fr_buf want = {0};
    char name[40], path[100], label[20];

    check_row(few ? "few files may be open" : "more logs than are open at a time");
    for (int i = 0; i < MANY; i++) {
        const struct fr_log_mark marks[] = {{0, 1000 + i}, {2, 2000 + i}};

        (void)snprintf(name, sizeof(name), "many%d.log", i);
        (void)snprintf(label, sizeof(label), "l%d", i);
        log_path(name, path);
        CHECK_INT(fr_file_write(path, "1\n2\n", 4, 0600, NULL), FR_OK);
        CHECK_INT(fr_merge_add(m, (struct fr_id){.b = {9, (uint8_t)i}}, label, name, NULL), FR_OK);
        (void)snprintf(name, sizeof(name), "many%d.log.idx", i);
        log_path(name, path);
        CHECK_INT(fr_file_write(path, (const char *)marks, sizeof(marks), 0600, NULL), FR_OK);
        fr_merge_set(m, (size_t)i, 5, true, true);
        CHECK_INT(fr_merge_find(m, (struct fr_id){.b = {9, (uint8_t)i}}), i);
    }
    CHECK(fr_merge_find(m, (struct fr_id){.b = {9, MANY}}) == SIZE_MAX);
    for (int k = 1; k <= 2; k++)
        for (int i = 0; i < MANY; i++)
            fr_buf_fmt(&want, "l%d | %d\n", i, k);
    n_open = opened = 0;
    if (few)
        fr_sys.open = open_few;
    fr_sys.close = close_one;
    check_next(m, want.p);
    fr_merge_destroy(m);
    fr_sys.open = fr_sys_real.open;
    fr_sys.close = fr_sys_real.close;
    if (few)
        CHECK_INT(n_open, 0);
    fr_buf_finish(&want);
}

/* Lines of all lengths around those at which buffers end, from one log and behind another's. */
static void test_long(void)
{
    static const size_t lengths[] = {4095, 4096, FR_LINE_MAX - 1, 2 * FR_LINE_MAX + 5, 10};
    struct fr_buf text = {0}, want = {0};
    struct fr_merge *m;
    char path[100];

    check_row("long lines");
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (size_t k = 0; k < lengths[i]; k++) {
            char c = (char)('a' + (i + k) % 26);

            if (k % FR_LINE_MAX == 0)
                fr_buf_text(&want, k > 0 ? "\na | " : "a | ");
            fr_buf_add(&text, &c, 1);
            fr_buf_add(&want, &c, 1);
        }
        fr_buf_text(&text, "\n");
        fr_buf_text(&want, "\n");
    }
    log_path("long.log", path);
    CHECK_INT(fr_file_write(path, text.p, text.n, 0600, NULL), FR_OK);
    m = begin(0, FR_MERGE_NO_TIMES);
    CHECK_INT(fr_merge_add(m, ids[0], "a", "long.log", NULL), FR_OK);
    fr_merge_set(m, 0, 5, true, true);
    check_next(m, want.p);
    fr_merge_destroy(m);

    check_row("a line that goes on: as soon as there is a piece of it");
    text.n = want.n = 0;
    fr_buf_fmt(&text, "%*s", FR_LINE_MAX - 1, "x");
    fr_buf_fmt(&want, "a | %*sy\n", FR_LINE_MAX - 1, "x");
    CHECK_INT(fr_file_write(path, text.p, text.n, 0600, NULL), FR_OK);
    m = begin(0, FR_MERGE_NO_TIMES);
    CHECK_INT(fr_merge_add(m, ids[0], "a", "long.log", NULL), FR_OK);
    check_next(m, "");
    append("long.log", "y", 1);
    check_next(m, want.p);
    append("long.log", "z\n", 2);
    check_next(m, "a | z\n");
    fr_merge_destroy(m);
    fr_buf_finish(&text);
    fr_buf_finish(&want);
}

/* The last lines of three logs that together have more than is held. */
static void test_long_tail(void)
{
    enum { LINES = 1500, LAST = 700, WIDTH = 1000 };
    struct fr_merge *m = begin(LAST, FR_MERGE_NO_TIMES);
    struct fr_buf want = {0};
    char path[100];

    check_row("many last lines");
    for (uint8_t i = 0; i < 3; i++) {
        const struct fr_log_mark mark = {0, 10 + i};
        char name[40], label[] = {(char)('a' + i), '\0'};
        struct fr_buf text = {0};

        (void)snprintf(name, sizeof(name), "last%d.log", i);
        log_path(name, path);
        for (int k = 0; k < LINES; k++)
            fr_buf_fmt(&text, "%*d\n", WIDTH, k);
        CHECK_INT(fr_file_write(path, text.p, text.n, 0600, NULL), FR_OK);
        fr_buf_finish(&text);
        CHECK_INT(fr_merge_add(m, (struct fr_id){.b = {7, i}}, label, name, NULL), FR_OK);
        (void)snprintf(name, sizeof(name), "last%d.log.idx", i);
        log_path(name, path);
        CHECK_INT(fr_file_write(path, (const char *)&mark, sizeof(mark), 0600, NULL), FR_OK);
        fr_merge_set(m, i, 5, true, true);
    }
    for (int k = LINES - LAST; k < LINES; k++)
        fr_buf_fmt(&want, "c | %*d\n", WIDTH, k);
    check_next(m, want.p);
    fr_merge_destroy(m);
    fr_buf_finish(&want);
}

static size_t puts_most;

static bool take_one(void *arg, struct fr_str lines)
{
    int *calls = arg;

    puts_most = lines.n > puts_most ? lines.n : puts_most;
    CHECK(lines.n > 0 && lines.p[lines.n - 1] == '\n');
    return ++*calls != 2;
}

/* Lines are given away as they come, until no more are wanted. */
static void test_enough(void)
{
    int calls = 0;
    struct fr_merge_opts o = {.put = take_one, .put_arg = &calls};
    struct fr_merge *m = NULL;

    check_row("enough");
    CHECK_INT(fr_merge_create(&m, dir, &o, NULL), FR_OK);
    CHECK_INT(fr_merge_add(m, ids[0], "a", "last0.log", NULL), FR_OK);
    CHECK_INT(fr_merge_print(m, true, NULL), FR_OK);
    CHECK_INT(calls, 2);
    CHECK(puts_most > 0 && puts_most < 512 << 10);
    fr_merge_destroy(m);
}

static void test_clock(void)
{
    static const struct fr_log_mark mark = {0, 3723004};
    struct fr_merge *m = begin(0, FR_MERGE_CLOCK);
    char path[100];

    check_row("the time of day");
    log_path("clock.log", path);
    CHECK_INT(fr_file_write(path, "x\n", 2, 0600, NULL), FR_OK);
    log_path("clock.log.idx", path);
    CHECK_INT(fr_file_write(path, (const char *)&mark, sizeof(mark), 0600, NULL), FR_OK);
    CHECK_INT(fr_merge_add(m, ids[0], "a", "clock.log", NULL), FR_OK);
    check_next(m, "01:02:03 a | x\n");
    fr_merge_destroy(m);
}

static void test_unreadable(void)
{
    struct fr_merge *m = begin(0, FR_MERGE_NO_TIMES);
    struct fr_err err = {0};
    char path[100];

    check_row("a link in place of a log");
    log_path("link.log", path);
    CHECK_INT(symlink("clock.log", path), 0);
    CHECK_INT(fr_merge_add(m, ids[0], "a", "link.log", &err), FR_OK);
    CHECK(fr_merge_print(m, false, &err) != FR_OK && strstr(err.msg, "cannot read ") != NULL);
    fr_merge_destroy(m);
    check_row("no log yet");
    m = begin(0, FR_MERGE_NO_TIMES);
    CHECK_INT(fr_merge_add(m, ids[0], "a", "later.log", &err), FR_OK);
    check_next(m, "");
    append("later.log", "x\n", 2);
    check_next(m, "a | x\n");
    fr_merge_destroy(m);
}

int main(void)
{
    CHECK(setenv("TZ", "UTC", 1) == 0);
    tzset();
    CHECK(mkdtemp(dir) != NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_merge_opts o = {
            .put = take, .put_arg = &got, .times = FR_MERGE_MS, .n_tail = rows[i].tail};
        struct fr_merge *m = NULL;

        check_row(rows[i].name);
        fr_buf_finish(&got);
        fr_buf_text(&got, "");
        CHECK_INT(fr_merge_create(&m, dir, &o, NULL), FR_OK);
        for (size_t k = 0; k < 3 && rows[i].logs[k].text != NULL; k++) {
            const struct log *log = &rows[i].logs[k];
            char label[] = {(char)('a' + k), '\0'}, name[20];

            put(k, log);
            (void)snprintf(name, sizeof(name), "%zu.log", k);
            CHECK_INT(fr_merge_add(m, (struct fr_id){.b = {(uint8_t)(k + 1)}}, label, name, NULL),
                      FR_OK);
            fr_merge_set(m, k, 5, log->state != GOES_ON, log->state == WHOLE);
        }
        CHECK_INT(fr_merge_print(m, rows[i].last, NULL), FR_OK);
        CHECK_TEXT(got.p, rows[i].want);
        fr_merge_destroy(m);
    }
    test_later();
    test_pieces();
    test_tail();
    test_tail_dropped();
    test_gap();
    test_tail_last();
    test_many(false);
    test_many(true);
    test_long();
    test_long_tail();
    test_enough();
    test_clock();
    test_unreadable();
    fr_buf_finish(&got);
    CHECK_INT(fr_remove_tree(dir, NULL), FR_OK);
    return check_done();
}

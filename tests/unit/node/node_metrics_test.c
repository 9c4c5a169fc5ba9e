/* The copy that a node keeps of an attempt's metrics: appended rows, files that begin anew, limits,
 * secrets, a disk that is full. */
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/supervise/home.h"
#include "engine/supervise/metrics.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char home[64], path[96];
static const struct fr_id id = {{7}};

static void put(const char *text, int flags)
{
    int fd = open(path, O_WRONLY | O_CREAT | flags, 0600);

    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void append(const char *text)
{
    put(text, O_APPEND);
}

static void begin(struct fr_metrics *m, const struct fr_strs *secrets)
{
    char copy[FR_NODE_PATH];

    fr_home_path(home, FR_HOME_METRICS, id, copy);
    unlink(copy);
    *m = (struct fr_metrics){.home = home, .attempt = id, .from = -1, .fd = -1};
    fr_metrics_begin(m, path, secrets);
}

static void look(struct fr_metrics *m)
{
    for (int i = 0; i < 1000 && fr_metrics_look(m); i++)
        ;
}

static void check_copy(const char *want)
{
    char copy[FR_NODE_PATH];
    struct fr_buf got = {0};
    struct fr_err err;

    fr_home_path(home, FR_HOME_METRICS, id, copy);
    (void)fr_file_read(copy, 1 << 30, &got, &err);
    CHECK_TEXT(got.p != NULL ? got.p : "", want);
    fr_buf_finish(&got);
}

/* One step of a program, and what the copy has then. */
enum { APPEND, TRUNCATE, REPLACE, REMOVE, PIPE, LINK, END };
struct step {
    int what;
    const char *text, *want;
};

static const struct {
    const char *name, *before;
    struct step steps[5];
} rows[] = {
    {"rows as they come", NULL, {{APPEND, "1\n2\n", "1\n2\n"}, {APPEND, "3\n", "1\n2\n3\n"}}},
    {"half a row waits", NULL, {{APPEND, "1\n2", "1\n"}, {APPEND, "2\n", "1\n22\n"}}},
    {"the last row has no end", NULL, {{APPEND, "1\n2", "1\n"}, {END, "", "1\n2\n"}}},
    {"what was there before", "old\n", {{APPEND, "1\n", "1\n"}}},
    {"behind half a row of before", "old", {{APPEND, "\n1\n", "\n1\n"}}},
    {"a fresh start", "old\n", {{REPLACE, "1\n", "1\n"}, {APPEND, "2\n", "1\n2\n"}}},
    {"cut, shorter", "old row\n", {{TRUNCATE, "1\n", "1\n"}}},
    {"cut, longer", "old\n", {{TRUNCATE, "1111\n2\n", "1111\n2\n"}}},
    {"a new file is a new part",
     NULL,
     {{APPEND, "1\n", "1\n"}, {REPLACE, "1\n", "1\n" FR_METRICS_PART "1\n"}}},
    {"so is a file that was cut",
     NULL,
     {{APPEND, "1\n2\n", "1\n2\n"}, {TRUNCATE, "3\n", "1\n2\n" FR_METRICS_PART "3\n"}}},
    {"gone, and back",
     NULL,
     {{APPEND, "1\n", "1\n"}, {REMOVE, "", "1\n"}, {APPEND, "2\n", "1\n" FR_METRICS_PART "2\n"}}},
    {"a part without a row is none",
     NULL,
     {{APPEND, "1\n", "1\n"}, {REPLACE, "", "1\n"}, {REPLACE, "2\n", "1\n" FR_METRICS_PART "2\n"}}},
    {"a pipe is not opened", NULL, {{PIPE, "", ""}, {REPLACE, "1\n", "1\n"}}},
    {"a link is not followed", NULL, {{LINK, "", ""}, {END, "", ""}}},
    {"nothing", NULL, {{END, "", ""}}},
};

static void do_step(struct fr_metrics *m, const struct step *s)
{
    char other[128];

    snprintf(other, sizeof(other), "%s.new", path);
    if (s->what == REMOVE || s->what == PIPE || s->what == LINK)
        unlink(path);
    if (s->what == APPEND)
        append(s->text);
    if (s->what == TRUNCATE)
        put(s->text, O_TRUNC);
    if (s->what == PIPE)
        CHECK(mkfifo(path, 0600) == 0);
    if (s->what == LINK)
        CHECK(symlink("/etc/passwd", path) == 0);
    if (s->what == REPLACE) {
        int fd = open(other, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        CHECK(write(fd, s->text, strlen(s->text)) == (ssize_t)strlen(s->text));
        close(fd);
        CHECK(rename(other, path) == 0);
    }
    if (s->what == END)
        fr_metrics_end(m);
    else
        look(m);
    check_copy(s->want);
}

static void test_files(void)
{
    static const struct fr_strs none = {NULL, 0};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_metrics m;

        check_row(rows[i].name);
        unlink(path);
        if (rows[i].before != NULL)
            append(rows[i].before);
        begin(&m, &none);
        for (size_t k = 0; k < 5 && rows[i].steps[k].want != NULL; k++)
            do_step(&m, &rows[i].steps[k]);
        fr_metrics_close(&m);
    }
    check_row("");
}

static void test_secrets(void)
{
    struct fr_str values[] = {FR_STR("geheim")};
    struct fr_strs secrets = {values, 1};
    struct fr_metrics m;

    unlink(path);
    begin(&m, &secrets);
    append("{\"step\":1,\"key\":\"geheim\"}\n");
    look(&m);
    check_copy("{\"step\":1,\"key\":\"***\"}\n");
    fr_metrics_close(&m);
}

/* A line longer than the limit goes; those around it stay. */
static void test_long_line(void)
{
    static const struct fr_strs none = {NULL, 0};
    size_t n = 3 * FR_METRICS_LINE;
    char *text = malloc(n + 1);
    struct fr_metrics m;

    memset(text, 'x', n);
    text[n] = '\0';
    unlink(path);
    begin(&m, &none);
    append("1\n");
    append(text);
    look(&m);
    append("x\n2\n");
    look(&m);
    check_copy("1\n2\n");
    fr_metrics_close(&m);
    free(text);
}

/* Rows beyond the limit of a part go, and a mark says so; a new part has its own. */
static void test_many_rows(void)
{
    static const struct fr_strs none = {NULL, 0};
    static char text[2 * (FR_METRICS_ROWS + 5) + 1];
    const size_t all = 2 * FR_METRICS_ROWS, mark = strlen(FR_METRICS_FULL);
    struct fr_metrics m;

    for (size_t i = 0; i + 1 < sizeof(text); i += 2)
        memcpy(text + i, "1\n", 2);
    unlink(path);
    begin(&m, &none);
    append(text);
    look(&m);
    CHECK_INT(m.size, all + mark);
    append("2\n");
    look(&m);
    CHECK_INT(m.size, all + mark);
    put("3\n", O_TRUNC);
    look(&m);
    CHECK_INT(m.size, all + mark + strlen(FR_METRICS_PART) + 2);
    fr_metrics_close(&m);
}

static long writes_left;

static ssize_t full_pwrite(int fd, const void *p, size_t n, off_t at)
{
    if (writes_left == 0) {
        errno = ENOSPC;
        return -1;
    }
    writes_left--;
    return pwrite(fd, p, n > 3 ? 3 : n, at);
}

/* Whatever the disk took: in the end each row is there once. */
static void test_full_disk(void)
{
    static const struct fr_strs none = {NULL, 0};
    struct fr_metrics m;

    unlink(path);
    begin(&m, &none);
    append("11111\n22222\n");
    for (long k = 0; k < 3; k++) {
        writes_left = k;
        fr_sys.pwrite = full_pwrite;
        look(&m);
        CHECK_INT(m.size, 0);
        fr_sys = fr_sys_real;
    }
    append("33333\n");
    look(&m);
    check_copy("11111\n22222\n33333\n");
    fr_metrics_close(&m);
}

int main(void)
{
    char dir[128];

    snprintf(home, sizeof(home), "/tmp/node-metrics-%d", (int)getpid());
    snprintf(path, sizeof(path), "%s/file", home);
    mkdir(home, 0700);
    snprintf(dir, sizeof(dir), "%s/log", home);
    mkdir(dir, 0700);
    test_files();
    test_secrets();
    test_long_line();
    test_many_rows();
    test_full_disk();
    fr_remove_tree(home, NULL);
    return check_done();
}

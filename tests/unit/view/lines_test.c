/* Lines of logs by number: every number against a plain walk, while the log grows. */
#include "engine/view/line_index.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static char dir[] = "/tmp/lines_test.XXXXXX", path[64];
static struct fr_err err;

static int write_log(const char *p, size_t n)
{
    int fd = fr_sys.open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

    CHECK(fd >= 0 && fr_write_full(fd, p, n));
    return fd;
}

/* Line no of the text by reading all of it. */
static uint64_t walk(const struct fr_buf *text, uint64_t no)
{
    const char *p = text->p;

    for (; no > 1; no--)
        p = (const char *)memchr(p, '\n', (size_t)(text->p + text->n - p)) + 1;
    return (uint64_t)(p - text->p);
}

static void check_line(struct line_index *l, int fd, const struct fr_buf *text, uint64_t no,
                       uint64_t lines)
{
    struct host_line_at at;
    char row[40];

    (void)snprintf(row, sizeof(row), "line %llu", (unsigned long long)no);
    check_row(row);
    CHECK_INT(line_index_find(l, path, fd, no, &at, &err), FR_OK);
    CHECK_INT(at.lines, lines);
    CHECK_INT(at.bytes, text->n);
    CHECK_INT(at.offset, no >= 1 && no <= lines ? walk(text, no) : text->n);
}

static void grows(void)
{
    static const uint64_t nos[] = {1, 2, 1023, 1024, 1025, 1026, 2047, 2048, 2049, 4999, 5000};
    struct line_index *l = line_index_create();
    struct fr_buf text = {0};
    int fd;

    for (int i = 0; i < 2000; i++)
        fr_buf_fmt(&text, "%*d\n", i % 97, i);
    fd = write_log(text.p, text.n);
    for (size_t i = 0; i < 7; i++)
        check_line(l, fd, &text, nos[i] < 2000 ? nos[i] : 2000, 2000);
    for (int i = 2000; i < 5000; i++) {
        size_t from = text.n;

        fr_buf_fmt(&text, "%*d%s", i % 97, i, i < 4999 ? "\n" : "");
        CHECK(fr_write_full(fd, text.p + from, text.n - from));
    }
    for (size_t i = 0; i < sizeof(nos) / sizeof(nos[0]); i++)
        check_line(l, fd, &text, nos[i], 5000);
    check_line(l, fd, &text, 5001, 5000);
    check_line(l, fd, &text, 0, 5000);

    check_row("the last line ends");
    fr_buf_text(&text, "\n");
    CHECK(fr_write_full(fd, "\n", 1));
    check_line(l, fd, &text, 5000, 5000);
    close(fd);

    check_row("another log in its place");
    fr_buf_finish(&text);
    fr_buf_text(&text, "one\ntwo");
    fd = write_log(text.p, text.n);
    check_line(l, fd, &text, 2, 2);
    close(fd);
    fr_buf_finish(&text);
    line_index_leave(l);
}

/* More logs than are kept, long lines, none. */
static void many(void)
{
    struct line_index *l = line_index_create(), *again = line_index_use(l);
    struct host_line_at at;
    struct fr_buf text = {0};
    char key[20];
    int fd;

    line_index_leave(l);
    for (int i = 0; i < 300000; i++)
        fr_buf_text(&text, "x");
    fr_buf_text(&text, "\ny\n");
    fd = write_log(text.p, text.n);
    for (int i = 0; i < 50; i++) {
        (void)snprintf(key, sizeof(key), "log %d", i % 20);
        check_row(key);
        CHECK_INT(line_index_find(again, key, fd, 2, &at, &err), FR_OK);
        CHECK(at.lines == 2 && at.offset == 300001);
    }
    close(fd);
    fd = write_log("", 0);
    check_row("an empty log");
    CHECK_INT(line_index_find(again, "empty", fd, 1, &at, &err), FR_OK);
    CHECK(at.lines == 0 && at.bytes == 0 && at.offset == 0);
    close(fd);
    fr_buf_finish(&text);
    line_index_leave(again);
    line_index_leave(NULL);
}

static struct line_index *read_meanwhile;
static size_t reads;

static ssize_t pread_and_use(int fd, void *p, size_t n, off_t at)
{
    line_index_leave(line_index_use(read_meanwhile));
    reads++;
    return fr_sys_real.pread(fd, p, n, at);
}

static ssize_t pread_counted(int fd, void *p, size_t n, off_t at)
{
    reads++;
    return fr_sys_real.pread(fd, p, n, at);
}

/* A log that was read is kept: its next line is found without all of it. */
static void kept(void)
{
    struct line_index *l = line_index_create();
    struct host_line_at at;
    struct fr_buf text = {0};
    size_t first;
    int fd;

    check_row("one that was read");
    for (int i = 0; i < 300000; i++)
        fr_buf_text(&text, "x\n");
    fd = write_log(text.p, text.n);
    fr_sys.pread = pread_counted;
    reads = 0;
    CHECK_INT(line_index_find(l, path, fd, 299999, &at, &err), FR_OK);
    first = reads;
    CHECK_INT(line_index_find(l, path, fd, 299998, &at, &err), FR_OK);
    CHECK(at.offset == 2 * 299997 && first > 5 && reads <= first + 3);
    check_row("one that was read lately, beside more than are kept");
    for (int i = 0; i < 40; i++) {
        char key[20];

        (void)snprintf(key, sizeof(key), "other %d", i);
        CHECK_INT(line_index_find(l, key, fd, 1, &at, &err), FR_OK);
        reads = 0;
        CHECK_INT(line_index_find(l, path, fd, 299998, &at, &err), FR_OK);
        CHECK(reads < first);
    }
    fr_sys.pread = fr_sys_real.pread;
    close(fd);
    fr_buf_finish(&text);
    line_index_leave(l);
}

static ssize_t pread_twice(int fd, void *p, size_t n, off_t at)
{
    return reads++ < 2 ? fr_sys_real.pread(fd, p, n, at) : 0;
}

/* It is cut between the look at all of it and that at the line. */
static void shorter(void)
{
    struct line_index *l = line_index_create();
    struct host_line_at at;
    int fd = write_log("one\ntwo\n", 8);

    check_row("a log that becomes shorter");
    fr_sys.pread = pread_twice;
    reads = 0;
    CHECK_INT(line_index_find(l, path, fd, 2, &at, &err), FR_IO);
    CHECK_TEXT(err.msg, "a log became shorter");
    fr_sys.pread = fr_sys_real.pread;
    close(fd);
    line_index_leave(l);
}

/* Users come and go while a log is read: if they waited for the reader, this would never end. */
static void used_meanwhile(void)
{
    struct host_line_at at;
    int fd = write_log("one\ntwo\n", 8);

    check_row("used while it is read");
    read_meanwhile = line_index_create();
    fr_sys.pread = pread_and_use;
    CHECK_INT(line_index_find(read_meanwhile, path, fd, 2, &at, &err), FR_OK);
    fr_sys.pread = fr_sys_real.pread;
    CHECK(at.offset == 4 && reads > 0);
    line_index_leave(read_meanwhile);
    close(fd);
}

int main(void)
{
    CHECK(mkdtemp(dir) != NULL);
    (void)snprintf(path, sizeof(path), "%s/log", dir);
    grows();
    many();
    kept();
    shorter();
    used_meanwhile();
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
    return check_done();
}

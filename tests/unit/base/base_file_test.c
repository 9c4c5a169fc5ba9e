/*
 * How a file gets its content and its name: the order of the machine's calls, and what is left when
 * each of them fails.
 */
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static char dir[] = "/tmp/fr-base-file-XXXXXX";

/* A letter a call: open, write, sync, close, rename, unlink. */
static struct {
    char calls[64];
    size_t n, fail_at; /* fail_at: the call that fails, from 1; 0 none */
} seen;

static bool fails(char call)
{
    if (seen.n + 1 < sizeof(seen.calls))
        seen.calls[seen.n++] = call;
    seen.calls[seen.n] = '\0';
    errno = ENOSPC;
    return seen.n == seen.fail_at;
}

static int seen_open(const char *path, int flags, mode_t mode)
{
    return fails('o') ? -1 : fr_sys_real.open(path, flags, mode);
}

static ssize_t seen_write(int fd, const void *p, size_t n)
{
    return fails('w') ? -1 : fr_sys_real.write(fd, p, n);
}

static int seen_sync(int fd)
{
    return fails('s') ? -1 : fr_sys_real.fdatasync(fd);
}

static int seen_close(int fd)
{
    bool failed = fails('c');
    int rc = fr_sys_real.close(fd);

    return failed ? -1 : rc;
}

static int seen_rename(const char *from, const char *to)
{
    return fails('r') ? -1 : fr_sys_real.rename(from, to);
}

static int seen_unlink(const char *path)
{
    (void)fails('u');
    return fr_sys_real.unlink(path);
}

static enum fr_rc watched_write(const char *path, const char *text, size_t fail_at)
{
    struct fr_err err;
    enum fr_rc rc;

    seen.n = 0;
    seen.fail_at = fail_at;
    fr_sys.open = seen_open;
    fr_sys.write = seen_write;
    fr_sys.fdatasync = seen_sync;
    fr_sys.close = seen_close;
    fr_sys.rename = seen_rename;
    fr_sys.unlink = seen_unlink;
    rc = fr_file_write(path, text, strlen(text), 0600, &err);
    fr_sys = fr_sys_real;
    return rc;
}

/* The folder holds f alone, with this content. */
static void holds(const char *path, const char *want)
{
    struct fr_buf b = {0};
    char **names = NULL;
    size_t n = 0;

    CHECK_INT(fr_sys.list(dir, &names, &n), 0);
    CHECK_INT(n, 1);
    fr_sys_names_free(names, n);
    CHECK_INT(fr_file_read(path, 100, &b, NULL), FR_OK);
    CHECK_TEXT(b.p, want);
    fr_buf_finish(&b);
}

/* Files alone are opened, and nothing waits for what else lies there. */
static void test_kinds(void)
{
    static const struct {
        const char *row, *name, *say; /* say NULL: it is read */
    } rows[] = {
        {"a file", "file", NULL},
        {"a link to a file", "link", NULL},
        {"a folder", "folder", "is a folder, expected a file"},
        {"a FIFO", "fifo", "is a FIFO, expected a file"},
        {"a link to a FIFO", "fifo-link", "is a FIFO, expected a file"},
        {"a socket", "socket", "is a socket, expected a file"},
        {"a link to a device", "zero", "is a device, expected a file"},
        {"nothing", "absent", "cannot open"},
    };
    char path[80];
    int sock;

    snprintf(path, sizeof(path), "%s/socket", dir);
    sock = fr_sys.listen_unix(path);
    if (!CHECK(chdir(dir) == 0) || !CHECK(mkfifo("fifo", 0600) == 0) ||
        !CHECK(mkdir("folder", 0700) == 0) || !CHECK(symlink("file", "link") == 0) ||
        !CHECK(symlink("fifo", "fifo-link") == 0) || !CHECK(symlink("/dev/zero", "zero") == 0) ||
        !CHECK(sock >= 0) || !CHECK_INT(fr_file_write("file", "x", 1, 0600, NULL), FR_OK))
        return;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char hash[FR_SHA256_TEXT];
        struct fr_buf b = {0};
        struct fr_err err = {0};
        bool good = rows[i].say == NULL;

        check_row(rows[i].row);
        CHECK_INT(fr_file_read(rows[i].name, 100, &b, &err) == FR_OK, good);
        CHECK(good || strstr(err.msg, rows[i].say) != NULL);
        CHECK_INT(fr_sha256_file(rows[i].name, hash, &err) == FR_OK, good);
        CHECK(good || strstr(err.msg, rows[i].say) != NULL);
        fr_buf_finish(&b);
    }
    check_row("");
    fr_sys.close(sock);
}

int main(void)
{
    /* content, then its sync, then the name, then the folder's sync */
    static const struct {
        const char *row, *calls;
        size_t fail_at;
        bool renamed;
    } rows[] = {
        {"nothing fails", "owscrosc", 0, true},   {"no new file", "o", 1, false},
        {"the write", "owcu", 2, false},          {"the sync", "owscu", 3, false},
        {"the close", "owscu", 4, false},         {"the rename", "owscru", 5, false},
        {"the folder's open", "owscro", 6, true}, {"the folder's sync", "owscrosc", 7, true},
    };
    char path[64];

    if (!CHECK(mkdtemp(dir) != NULL))
        return check_done();
    snprintf(path, sizeof(path), "%s/f", dir);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {

        check_row(rows[i].row);
        CHECK_INT(fr_file_write(path, "old", 3, 0600, NULL), FR_OK);
        CHECK_INT(watched_write(path, "new", rows[i].fail_at) == FR_OK, rows[i].fail_at == 0);
        CHECK_TEXT(seen.calls, rows[i].calls);
        holds(path, rows[i].renamed ? "new" : "old");
    }
    check_row("");
    test_kinds();
    CHECK_INT(fr_remove_tree(dir, NULL), FR_OK);
    return check_done();
}

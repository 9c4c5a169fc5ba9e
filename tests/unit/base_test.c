/* Text, values, files and processes of engine/base. */
#include "engine/base/file.h"
#include "engine/base/str.h"
#include "engine/base/sys.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

static void values(void)
{
    static const struct {
        const char *text;
        int64_t ms; /* -1: refused */
    } rows[] = {{"250ms", 250}, {"10s", 10000}, {"1h30m", 5400000}, {"2d", 172800000},
                {"1.5s", 1500}, {"10", -1},     {"", -1},           {"-3s", -1},
                {"10 s", -1},   {"5x", -1},     {"1h30", -1}};
    static const struct {
        const char *text;
        int64_t bytes;
    } sizes[] = {{"512", 512}, {"64KiB", 65536}, {"10GB", 10000000000}, {"1.5GiB", 1610612736},
                 {"x", -1},    {"1 KB", -1},     {"10QB", -1}};
    struct fr_err err;
    int64_t v;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].text);
        enum fr_rc rc = fr_parse_duration(fr_str_of(rows[i].text), &v, &err);
        CHECK_INT(rc == FR_OK ? v : -1, rows[i].ms);
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        check_row(sizes[i].text);
        enum fr_rc rc = fr_parse_size(fr_str_of(sizes[i].text), &v, &err);
        CHECK_INT(rc == FR_OK ? v : -1, sizes[i].bytes);
    }
    check_row("numbers");
    CHECK(fr_parse_i64(FR_STR("9223372036854775807"), &v, &err) == FR_OK && v == INT64_MAX);
    CHECK(fr_parse_i64(FR_STR("9223372036854775808"), &v, &err) == FR_USAGE);
    CHECK(fr_parse_i64(FR_STR("1e3"), &v, &err) == FR_USAGE);
    CHECK(fr_parse_i64((struct fr_str){"1\0002", 3}, &v, &err) == FR_USAGE);
    double f;
    CHECK(fr_parse_f64(FR_STR("1e-4"), &f, &err) == FR_OK && f == 1e-4);
    CHECK(fr_parse_f64(FR_STR("nan"), &f, &err) == FR_USAGE);
}

static void texts(void)
{
    static const char *const words[] = {"retry", "timeout", "needs", "on"};
    struct fr_buf b = {0};
    struct fr_err err;

    check_row("suggest");
    CHECK_TEXT(fr_suggest("retyr", words, 4), "retry");
    CHECK_TEXT(fr_suggest("time_out", words, 4), "timeout");
    CHECK(fr_suggest("banana", words, 4) == NULL);
    check_row("visible");
    fr_buf_visible(&b, "a\x1b[31m\xff\xc3\xa9\xc2\x9b", 11);
    CHECK_TEXT(b.p, "a\\x1b[31m\\xff\xc3\xa9\\xc2\\x9b");
    fr_buf_finish(&b);
    check_row("error text");
    fr_fail(&err, FR_BUSY, "port %d", 7);
    CHECK_INT(fr_while(&err, "starting %s", "x"), FR_BUSY);
    CHECK_TEXT(err.msg, "starting x: port 7");
    CHECK_INT(fr_fail_errno(&err, ENOSPC, "log"), FR_FULL);
    check_row("id");
    struct fr_id id, back;
    char text[FR_ID_TEXT];
    CHECK(fr_id_new(&id, &err) == FR_OK);
    fr_id_text(id, text);
    CHECK(fr_id_parse(fr_str_of(text), &back) && fr_id_eq(id, back) && !fr_id_zero(back));
    CHECK(!fr_id_parse(FR_STR("xyz"), &back));
}

static void files(void)
{
    char dir[] = "/tmp/fr-base-XXXXXX", path[64], hash[FR_SHA256_TEXT];
    struct fr_buf b = {0};
    struct fr_err err;

    check_row("files");
    if (!CHECK(mkdtemp(dir) != NULL))
        return;
    snprintf(path, sizeof(path), "%s/a/b", dir);
    CHECK_INT(fr_mkdirs(path, 0700, &err), FR_OK);
    snprintf(path, sizeof(path), "%s/a/b/f", dir);
    CHECK_INT(fr_file_write(path, "abc", 3, 0600, &err), FR_OK);
    CHECK_INT(fr_file_read(path, 3, &b, &err), FR_OK);
    CHECK_TEXT(b.p, "abc");
    CHECK_INT(fr_file_read(path, 2, &b, &err), FR_USAGE);
    CHECK_INT(fr_sha256_file(path, hash, &err), FR_OK);
    CHECK_TEXT(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    static const struct {
        const char *path;
        bool beyond; /* what is looked at begins behind the link */
        enum fr_rc rc;
    } links[] = {{"/a/b/f", false, FR_OK}, {"/a/none/x", false, FR_OK},
                 {"/l", false, FR_DENIED}, {"/l/b/f", false, FR_DENIED},
                 {"/l/b/f", true, FR_OK},  {"/a/b/l", false, FR_DENIED}};
    char link[64];
    snprintf(link, sizeof(link), "%s/l", dir);
    CHECK_INT(symlink("a", link), 0);
    snprintf(link, sizeof(link), "%s/a/b/l", dir);
    CHECK_INT(symlink("/nowhere", link), 0);
    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        snprintf(link, sizeof(link), "%s%s", dir, links[i].path);
        check_row(link);
        CHECK_INT(fr_check_unlinked(link, strlen(dir) + (links[i].beyond ? 2 : 0), &err),
                  links[i].rc);
    }
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
    CHECK_INT(fr_file_read(path, 3, &b, &err), FR_NOTFOUND);
    fr_buf_finish(&b);
}

static int say_hello(void *arg)
{
    int fd = *(int *)arg;

    return write(fd, "hi", 2) == 2 ? 0 : 1;
}

static void processes(void)
{
    const char *argv[] = {"sh", "-c", "kill -9 $$", NULL}, *envp[] = {"FLOWRUN_ATTEMPT=me", NULL};
    struct fr_spawn s = {.argv = argv, .envp = envp, .fds = {-1, -1, 2}, .new_session = true};
    struct fr_proc p;
    struct fr_wait w;
    int fds[2];
    char text[3] = "";

    setenv("PATH", "/usr/bin:/bin", 1); /* a folder there that may not be read is another error */
    check_row("spawn");
    CHECK_INT(fr_sys.spawn(&s, &p), 0);
    CHECK_INT(fr_sys.wait(p.pid, &w, FR_WAIT_PEEK), 0);
    CHECK(w.pid == p.pid && w.signaled && w.code == SIGKILL);
    CHECK_INT(fr_sys.wait(p.pid, &w, 0), 0);
    CHECK(fr_sys.kill(p, 0) == -1 && errno == ESRCH);
    argv[0] = "no-such-program";
    CHECK(fr_sys.spawn(&s, &p) == -1 && errno == ENOENT);
    check_row("marker");
    const char *cat[] = {"cat", NULL};
    CHECK_INT(fr_sys.pipe(fds), 0);
    s = (struct fr_spawn){.argv = cat, .envp = envp, .fds = {fds[0], -1, 2}};
    CHECK_INT(fr_sys.spawn(&s, &p), 0);
    struct fr_procinfo *list;
    size_t n, found = 0;
    CHECK_INT(fr_sys.procs(&list, &n), 0);
    for (size_t i = 0; i < n; i++)
        found += list[i].proc.pid == p.pid && list[i].proc.start != 0 &&
                 strcmp(list[i].marker, "me") == 0;
    CHECK_INT(found, 1);
    fr_sys.free(list);
    close(fds[1]);
    close(fds[0]);
    fr_sys.wait(p.pid, &w, 0);
    check_row("detach");
    CHECK_INT(fr_sys.pipe(fds), 0);
    CHECK_INT(fr_sys.detach(&(struct fr_detach){say_hello, &fds[1], sizeof(fds[1]), &fds[1], 1,
                                                "/nowhere/cgroup"}),
              0);
    close(fds[1]);
    CHECK(fr_read_full(fds[0], text, 2));
    CHECK_TEXT(text, "hi");
    close(fds[0]);
}

int main(void)
{
    values();
    texts();
    files();
    processes();
    return check_done();
}

/* Text, values, files and processes of engine/base. */
#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/str.h"
#include "engine/base/sys.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <sha2.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
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
    } sizes[] = {{"512", 512},    {"64KiB", 65536}, {"10GB", 10000000000}, {"1.5GiB", 1610612736},
                 {"x", -1},       {"1 KB", -1},     {"10QB", -1},          {"2K", 2048},
                 {"2M", 2097152}, {"2KB", 2000}};
    static const struct {
        int64_t n;
        const char *duration, *size;
    } shown[] = {{999, "999ms", "999 B"},        {1000, "1.0s", "1000 B"},
                 {1023, "1.0s", "1023 B"},       {1024, "1.0s", "1.0 KiB"},
                 {59999, "59.9s", "58.6 KiB"},   {60000, "1m00s", "58.6 KiB"},
                 {3599999, "59m59s", "3.4 MiB"}, {3600000, "1h00m", "3.4 MiB"}};
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
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        char text[24];

        check_row(shown[i].size);
        fr_show_duration(shown[i].n, text);
        CHECK_TEXT(text, shown[i].duration);
        fr_show_size(shown[i].n, text);
        CHECK_TEXT(text, shown[i].size);
    }
    check_row("numbers");
    CHECK(fr_parse_i64(FR_STR("9223372036854775807"), &v, &err) == FR_OK && v == INT64_MAX);
    CHECK(fr_parse_i64(FR_STR("9223372036854775808"), &v, &err) == FR_USAGE);
    CHECK(fr_parse_i64(FR_STR("1e3"), &v, &err) == FR_USAGE);
    CHECK(fr_parse_i64((struct fr_str){"1\0002", 3}, &v, &err) == FR_USAGE);
    double f;
    CHECK(fr_parse_f64(FR_STR("1e-4"), &f, &err) == FR_OK && f == 1e-4);
    CHECK(fr_parse_f64(FR_STR("nan"), &f, &err) == FR_USAGE);
    CHECK(fr_parse_f64(FR_STR("1e999"), &f, &err) == FR_USAGE);
}

static void *no_realloc(void *p, size_t n)
{
    (void)p;
    (void)n;
    return NULL;
}

static void arrays(void)
{
    struct fr_arena arena = {0};
    size_t cap = 0, moves = 0;
    int *v = NULL, *kept = NULL;

    check_row("arrays");
    for (size_t n = 0; n < 1000; n++) {
        int *to = fr_grow(v, n + 1, &cap, sizeof(*v));

        CHECK(to != NULL && cap > n);
        moves += to != v;
        v = to;
        v[n] = (int)n;
    }
    CHECK(moves <= 7); /* 16, 32 … 1024 */
    for (int n = 0; n < 1000; n++)
        CHECK_INT(v[n], n);
    CHECK_INT(cap, 1024);
    CHECK(fr_grow(v, SIZE_MAX / sizeof(*v) + 1, &cap, sizeof(*v)) == NULL);
    fr_sys.realloc = no_realloc;
    CHECK(fr_grow(v, 1025, &cap, sizeof(*v)) == NULL);
    CHECK(fr_grow(v, 1024, &cap, sizeof(*v)) == v);
    fr_sys = fr_sys_real;
    CHECK_INT(cap, 1024);
    v = fr_grow(v, 5000, &cap, sizeof(*v));
    CHECK_INT(cap, 5000);
    fr_sys.free(v);
    for (size_t n = 0; n < 1000; n++) {
        kept = fr_arena_grow(&arena, kept, n, sizeof(*kept));
        if (!CHECK(kept != NULL))
            break;
        kept[n] = (int)n;
    }
    for (int n = 0; n < 1000; n++)
        CHECK_INT(kept[n], n);
    fr_arena_finish(&arena);
    check_row("");
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
    struct fr_hash *now = NULL;
    size_t left = 1; /* a piece is read whole: the slice is over */
    bool done = true;
    CHECK_INT(fr_hash_slice(&now, path, &left, &done, hash, &err), FR_OK);
    CHECK(left == 0 && !done && now != NULL);
    left = 1 << 20;
    hash[0] = '\0';
    CHECK_INT(fr_hash_slice(&now, path, &left, &done, hash, &err), FR_OK);
    CHECK(left > 0 && left < 1 << 20 && done && now == NULL);
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

/* By the processor's instructions as by libmd alone, whatever the pieces. */
static void sums(void)
{
    static uint8_t data[200000];
    static const size_t sizes[] = {0, 1, 63, 64, 65, 16383, 16384, 16385, 65536 + 3, sizeof(data)};
    char want[FR_SHA256_TEXT], got[FR_SHA256_TEXT];

    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t n = sizes[i], cut = n / 3;
        struct fr_str parts[] = {{(char *)data, cut}, {NULL, 0}, {(char *)data + cut, n - cut}};

        check_row("sums");
        SHA256Data(data, n, want);
        fr_sha256(data, n, got);
        CHECK_TEXT(got, want);
        fr_sha256_parts(&(struct fr_parts){parts, 3}, got);
        CHECK_TEXT(got, want);
    }
}

static int say_hello(void *arg)
{
    int fd = *(int *)arg;

    return write(fd, "hi", 2) == 2 ? 0 : 1;
}

#define FOLDER "programs" /* below a folder of this process */

static const struct {
    const char *name, *program, *path, *cwd;
    int error; /* 0: it starts and exits with 7 */
    bool cwd_refused;
} path_rows[] = {
    {"of the child's PATH", "mine", "PATH=/nowhere:" FOLDER, NULL, 0, false},
    {"an empty part of PATH is the working folder", "mine", "PATH=/nowhere:", FOLDER, 0, false},
    {"below the working folder", "./mine", "PATH=", FOLDER, 0, false},
    {"a script without a first line", "script", "PATH=" FOLDER, NULL, 0, false},
    {"not on the child's PATH", "sh", "PATH=" FOLDER, NULL, ENOENT, false},
    {"not executable", "plain", "PATH=" FOLDER ":/nowhere", NULL, EACCES, false},
    {"no PATH: the usual folders", "true", "A=1", NULL, -1, false},
    {"no working folder", "mine", "PATH=" FOLDER, FOLDER "/none", ENOENT, true},
};

/* Programs are those of the new process's PATH, not of this one's. */
static void program_paths(void)
{
    char place[] = "/tmp/base_test.XXXXXX";

    CHECK(mkdtemp(place) != NULL && chdir(place) == 0);
    CHECK(fr_mkdirs(FOLDER, 0700, NULL) == FR_OK);
    CHECK(fr_file_write(FOLDER "/mine", "#!/bin/sh\nexit 7\n", 17, 0700, NULL) == FR_OK);
    CHECK(fr_file_write(FOLDER "/script", "exit 7\n", 7, 0700, NULL) == FR_OK);
    CHECK(fr_file_write(FOLDER "/plain", "x", 1, 0600, NULL) == FR_OK);
    for (size_t i = 0; i < sizeof(path_rows) / sizeof(path_rows[0]); i++) {
        const char *argv[] = {path_rows[i].program, NULL}, *envp[] = {path_rows[i].path, NULL};
        bool refused = !path_rows[i].cwd_refused;
        struct fr_spawn s = {.argv = argv,
                             .envp = envp,
                             .cwd = path_rows[i].cwd,
                             .cwd_refused = &refused,
                             .fds = {-1, -1, 2}};
        struct fr_proc p;
        struct fr_wait w;
        check_row(path_rows[i].name);
        int rc = fr_sys.spawn(&s, &p), e = errno;
        CHECK(refused == path_rows[i].cwd_refused);
        if (path_rows[i].error > 0) {
            CHECK(rc == -1 && e == path_rows[i].error);
        } else if (CHECK(rc == 0)) {
            CHECK(fr_sys.wait(p.pid, &w, 0) == 0 && !w.signaled);
            CHECK_INT(w.code, path_rows[i].error == 0 ? 7 : 0);
        }
    }
    CHECK(chdir("/") == 0 && fr_remove_tree(place, NULL) == FR_OK);
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
    program_paths();
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

/* Places in an attempt's folder. */
static void inner_paths(void)
{
    static const struct {
        const char *path;
        bool inner;
    } rows[] = {
        {"a", true},   {"a/b.c", true}, {"..a/b..", true}, {"", false},
        {"/a", false}, {"a/", false},   {"a//b", false},   {".", false},
        {"..", false}, {"../a", false}, {"a/../b", false}, {"a/..", false},
    };
    char text[FR_PATH_INNER_MAX + 1];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].path);
        CHECK_INT(fr_path_is_inner(fr_str_of(rows[i].path)), rows[i].inner);
    }
    check_row("how long");
    memset(text, 'x', sizeof(text));
    CHECK(fr_path_is_inner((struct fr_str){text, 255}));
    CHECK(!fr_path_is_inner((struct fr_str){text, 256}));
    text[200] = text[400] = text[600] = '/';
    CHECK(fr_path_is_inner((struct fr_str){text, FR_PATH_INNER_MAX}));
    CHECK(!fr_path_is_inner((struct fr_str){text, FR_PATH_INNER_MAX + 1}));
}

/* Lines of a text: how many there are, and which one is the last. */
static void lines(void)
{
    static const struct {
        const char *text, *last;
        int n;
    } rows[] = {{"", "none", 0}, {"a", "a", 1},    {"a\n", "a", 1},    {"a\nbc", "bc", 2},
                {"\n", "", 1},   {"a\n\n", "", 2}, {"\n\nc\n", "c", 3}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_str rest = fr_str_of(rows[i].text), line = FR_STR("none");
        int n = 0;

        check_row(rows[i].text);
        while (fr_next_line(&rest, &line))
            n++;
        CHECK_INT(n, rows[i].n);
        CHECK(fr_str_is(line, rows[i].last) && rest.n == 0);
    }
}

/* A value is appended; one that has no text leaves a buffer that says so. */
static void json(void)
{
    static const char *const words[] = {"a", "\"b\""};
    json_t *list = fr_json_texts(words, 2), *none = fr_json_texts(NULL, 0);
    struct fr_buf out = {0};

    fr_buf_text(&out, "v=");
    fr_json_add(&out, list, JSON_COMPACT);
    fr_json_add(&out, none, JSON_COMPACT);
    CHECK(!out.bad);
    CHECK_TEXT(out.p, "v=[\"a\",\"\\\"b\\\"\"][]");
    fr_json_add(&out, NULL, JSON_COMPACT);
    CHECK(out.bad);
    CHECK_INT(fr_json_print(NULL, JSON_COMPACT, NULL), FR_NOMEM);
    fr_buf_finish(&out);
    json_decref(list);
    json_decref(none);
}

int main(void)
{
    values();
    lines();
    json();
    inner_paths();
    arrays();
    texts();
    files();
    sums();
    processes();
    return check_done();
}

/* Parts of a node that need no process: outputs, masks, whose a process is, paths, the journal's
 * order, a log's times, and its tail when its supervisor was killed. */
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "engine/supervise/cgroup.h"
#include "engine/supervise/home.h"
#include "engine/supervise/logfile.h"
#include "engine/supervise/logind.h"
#include "engine/supervise/mask.h"
#include "engine/supervise/outputs.h"
#include "engine/supervise/reason.h"
#include "engine/supervise/table.h"
#include "engine/supervise/tree.h"
#include "engine/wire/codec.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct output_row {
    const char *name, *text;
    const char *want; /* "K=V|K=V", or the error */
    enum fr_rc rc;
};

static const struct output_row output_rows[] = {
    {"empty", "", "", FR_OK},
    {"one", "a=1\n", "a=1", FR_OK},
    {"no newline at the end", "a=1", "a=1", FR_OK},
    {"value with = and blanks", "a=b = c \n", "a=b = c ", FR_OK},
    {"empty value", "a=\n", "a=", FR_OK},
    {"a later one wins", "a=1\nb=2\na=3\n", "a=3|b=2", FR_OK},
    {"block", "a<<END\nx=1\n\ny\nEND\nb=2\n", "a=x=1\n\ny|b=2", FR_OK},
    {"empty block", "a<<E\nE\n", "a=", FR_OK},
    {"value with <<", "a=x<<y\n", "a=x<<y", FR_OK},
    {"blank lines", "\n\na=1\n\n", "a=1", FR_OK},
    {"block without end", "a<<END\nx\n", "FLOWRUN_OUTPUT:1: a<<END has no line \"END\" behind it",
     FR_USAGE},
    {"block without word", "a<<\n", "FLOWRUN_OUTPUT:1: no word behind <<", FR_USAGE},
    {"no name", "=1\n", "FLOWRUN_OUTPUT:1: expected NAME=VALUE or NAME<<END", FR_USAGE},
    {"no =", "b=1\nhello\n", "FLOWRUN_OUTPUT:2: expected NAME=VALUE or NAME<<END", FR_USAGE},
    {"bad name", "1a=1\n", "FLOWRUN_OUTPUT:1: expected NAME=VALUE or NAME<<END", FR_USAGE},
    {"not declared", "zz=1\n",
     "FLOWRUN_OUTPUT:1: output \"zz\" is not declared: add it to the task's outputs", FR_USAGE},
    {"not UTF-8", "a=\xff\n", "FLOWRUN_OUTPUT:1: a is not UTF-8 text", FR_USAGE},
};

static void test_outputs(void)
{
    struct fr_str names[] = {FR_STR("a"), FR_STR("b"), FR_STR("1a")};
    struct fr_strs declared = {names, 3};

    for (size_t i = 0; i < sizeof(output_rows) / sizeof(output_rows[0]); i++) {
        const struct output_row *row = &output_rows[i];
        struct fr_arena arena = {0};
        struct fr_buf got = {0};
        struct fr_strs out;
        struct fr_err err = {0};
        check_row(row->name);
        CHECK_INT(fr_outputs_parse(fr_str_of(row->text), &declared, &arena, &out, &err), row->rc);
        for (size_t k = 0; k < out.n; k++)
            fr_buf_fmt(&got, "%s%.*s", k > 0 ? "|" : "", (int)out.v[k].n, out.v[k].p);
        CHECK_TEXT(row->rc != FR_OK ? err.msg : got.p != NULL ? got.p : "", row->want);
        fr_buf_finish(&got);
        fr_arena_finish(&arena);
    }
    check_row("");
}

static const struct {
    const char *name, *text, *want;
} mask_rows[] = {
    {"nothing secret", "plain text\n", "plain text\n"},
    {"whole", "secret", "***"},
    {"inside", "a secret b\n", "a *** b\n"},
    {"twice", "secretsecret", "******"},
    {"almost", "secre", "secre"},
    {"almost, then it", "secresecret", "secre***"},
    {"the longest wins", "x secretly y", "x *** y"},
    {"beginning of the longer", "secretl!", "***l!"},
    {"overlap", "abab", "***b"},
    {"lines", "one\ntwo", "***"},
};

/* What files of logind say of a user's tasks. */
static void test_logind(void)
{
    static const struct {
        const char *name, *main, *drop, *user, *cgroup;
        bool kills;
    } rows[] = {
        {"nothing set", "[Login]\n#KillUserProcesses=yes\n", "", "u", "0::/session-3.scope", false},
        {"set", "[Login]\nKillUserProcesses = yes \n", "", "u", "0::/a/session-3.scope\n", true},
        {"another word", "KillUserProcesses=On", "", "u", "1:name=systemd:/session-c1.scope", true},
        {"no session", "KillUserProcesses=yes\n", "", "u", "0::/system.slice/ssh.service", false},
        {"root is spared", "KillUserProcesses=yes\n", "", "root", "0::/session-3.scope", false},
        {"unless the list is empty", "KillUserProcesses=yes\nKillExcludeUsers=\n", "", "root",
         "0::/session-3.scope", true},
        {"a later file", "KillUserProcesses=yes\n", "[Login]\nKillUserProcesses=no\n", "u",
         "0::/session-3.scope", false},
        {"spared", "KillUserProcesses=yes\n", "KillExcludeUsers=root u\n", "u",
         "0::/session-3.scope", false},
        {"another is spared", "KillUserProcesses=yes\nKillExcludeUsers=uu\n", "", "u",
         "0::/session-3.scope", true},
        {"only others", "KillUserProcesses=yes\nKillOnlyUsers=a b\n", "", "u",
         "0::/session-3.scope", false},
        {"only these", "KillUserProcesses=yes\nKillOnlyUsers=a u\n", "", "u", "0::/session-3.scope",
         true},
    };
    char root[] = "/tmp/logind.XXXXXX", main[64], dir[72], drop[96];

    CHECK(mkdtemp(root) != NULL);
    snprintf(main, sizeof(main), "%s/etc/systemd/logind.conf", root);
    snprintf(dir, sizeof(dir), "%s.d", main);
    snprintf(drop, sizeof(drop), "%s/50-more.conf", dir);
    CHECK(fr_mkdirs(dir, 0700, NULL) == FR_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].name);
        CHECK(fr_file_write(main, rows[i].main, strlen(rows[i].main), 0600, NULL) == FR_OK);
        CHECK(fr_file_write(drop, rows[i].drop, strlen(rows[i].drop), 0600, NULL) == FR_OK);
        CHECK(fr_logind_kills(root, rows[i].user, rows[i].cgroup) == rows[i].kills);
    }
    check_row("");
    CHECK(fr_remove_tree(root, NULL) == FR_OK &&
          !fr_logind_kills(root, "u", "0::/session-3.scope"));
}

/* A secret in the quotes of tools. */
static void test_mask_forms(void)
{
    static const struct {
        const char *name, *secret, *text, *want;
    } rows[] = {
        {"as it is", "it's", "x it's y", "x *** y"},
        {"bash -x", "it's", "+ x='it'\\''s'", "+ x='***'"},
        {"busybox sh -x", "it's", "+ x='it'\"'\"'s'", "+ x='***'"},
        {"JSON", "a\"b\\c", "{\"x\": \"a\\\"b\\\\c\"}", "{\"x\": \"***\"}"},
        {"JSON of several lines", "short\nand a tab\t!", "\"short\\nand a tab\\t!\"", "\"***\""},
        {"a line of several, as JSON", "short\nand a \"q\"", "and a \\\"q\\\"", "***"},
        {"letters in JSON", "gr\xc3\xbc\xc3\x9f\xf0\x9f\x94\x91",
         "\"gr\\u00fc\\u00df\\ud83d\\udd11\"", "\"***\""},
        {"no UTF-8", "a\xff\"b", "a\xff\\\"b", "***"},
        {"a control character", "a\x01z", "a\\u0001z", "***"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_arena arena = {0};
        struct fr_strs list = {0};
        struct fr_buf out = {0};
        struct fr_mask m;

        check_row(rows[i].name);
        CHECK(fr_mask_add(&arena, &list, fr_str_of(rows[i].secret)));
        fr_mask_init(&m, &list);
        fr_mask_feed(&m, rows[i].text, strlen(rows[i].text), &out);
        fr_mask_end(&m, &out);
        CHECK_TEXT(out.p != NULL ? out.p : "", rows[i].want);
        fr_buf_finish(&out);
        fr_mask_finish(&m);
        fr_arena_finish(&arena);
    }
    check_row("");
}

/* In every cut into two pieces, and byte by byte. */
static void test_mask(void)
{
    struct fr_str values[] = {FR_STR("secret"), FR_STR("secretly"), FR_STR(""), FR_STR("aba"),
                              FR_STR("one\ntwo")};
    struct fr_strs list = {values, 5};

    for (size_t i = 0; i < sizeof(mask_rows) / sizeof(mask_rows[0]); i++) {
        size_t n = strlen(mask_rows[i].text);
        check_row(mask_rows[i].name);
        for (size_t cut = 0; cut <= n + 1; cut++) {
            struct fr_mask m;
            struct fr_buf out = {0};
            fr_mask_init(&m, &list);
            for (size_t at = 0; cut == n + 1 && at < n; at++)
                fr_mask_feed(&m, mask_rows[i].text + at, 1, &out);
            if (cut <= n) {
                fr_mask_feed(&m, mask_rows[i].text, cut, &out);
                fr_mask_feed(&m, mask_rows[i].text + cut, n - cut, &out);
            }
            fr_mask_end(&m, &out);
            CHECK_TEXT(out.p != NULL ? out.p : "", mask_rows[i].want);
            fr_buf_finish(&out);
            fr_mask_finish(&m);
        }
    }
    check_row("");
}

static const struct {
    const char *name, *text, *want;
    bool cut;
} reason_rows[] = {
    {"nothing", "", "", false},
    {"blank lines", "\n \n", "", false},
    {"the error of a JSON line", "x\n{\"ok\":false,\"error\":\"no disk\"}\n", "no disk", false},
    {"a JSON line without one", "why\n{\"ok\":true}\n", "", false},
    {"an error that is no text", "{\"error\": 3}", "", false},
    {"the last line", "first\nlast \r\n\n", "last", false},
    {"one line", "only", "only", false},
    {"a line whose beginning is not here", "error\"}\n", "", true},
    {"a whole line behind one", "cut\nwhole\n", "whole", true},
    {"no JSON after all", "{ oops", "{ oops", false},
    {"lines of a sidecar behind it", "why\n[side] a\n[side] b\n\n", "why", false},
    {"lines of a sidecar alone", "[side] a\n[side] b\n", "", false},
    {"a line of a sidecar that is cut", "de] a\n[side] b\n", "", true},
    {"no sidecar of that name", "why\n[sidecar] a\n", "[sidecar] a", false},
};

static void test_reason(void)
{
    struct fr_sidecar side = {.name = FR_STR("side")};
    const struct fr_sidecars sidecars = {&side, 1};
    struct fr_arena arena = {0};

    for (size_t i = 0; i < sizeof(reason_rows) / sizeof(reason_rows[0]); i++) {
        struct fr_str got;

        check_row(reason_rows[i].name);
        got = fr_reason_of(fr_str_of(reason_rows[i].text), !reason_rows[i].cut, &sidecars, &arena);
        CHECK_TEXT(got.p, reason_rows[i].want);
    }
    check_row("");
    fr_arena_finish(&arena);
}

/* A process table as rows; the attempt's id is "me", its supervisor is 100, started at 50. */
static const struct {
    struct fr_procinfo p;
    bool ours;
} proc_rows[] = {
    {{.proc = {1, 1}, .ppid = 0, .session = 0, .state = 'S', .comm = "init"}, false},
    {{.proc = {2, 1}, .ppid = 0, .session = 0, .state = 'S', .comm = "kthreadd"}, false},
    {{.proc = {50, 10}, .ppid = 1, .session = 50, .state = 'S', .comm = "shell"}, false},
    {{.proc = {100, 50}, .ppid = 1, .session = 100, .state = 'S', .comm = "supervisor"}, false},
    {{.proc = {101, 51},
      .ppid = 100,
      .session = 100,
      .state = 'S',
      .comm = "child",
      .marker = "me"},
     true},
    {{.proc = {102, 52},
      .ppid = 101,
      .session = 102,
      .state = 'S',
      .comm = "setsid",
      .marker = "me"},
     true},
    {{.proc = {103, 53}, .ppid = 100, .session = 103, .state = 'S', .comm = "adopted"}, true},
    {{.proc = {104, 54}, .ppid = 1, .session = 104, .state = 'S', .comm = "marked", .marker = "me"},
     true},
    {{.proc = {105, 55}, .ppid = 1, .session = 105, .state = 'S', .comm = "other", .marker = "you"},
     false},
    {{.proc = {106, 56}, .ppid = 1, .session = 100, .state = 'S', .comm = "cleared"}, true},
    {{.proc = {107, 57},
      .ppid = 1,
      .session = 100,
      .state = 'S',
      .comm = "theirs",
      .marker = "you"},
     false},
    {{.proc = {108, 40}, .ppid = 1, .session = 100, .state = 'S', .comm = "older"}, false},
    {{.proc = {109, 58}, .ppid = 101, .session = 100, .state = 'Z', .comm = "zombie"}, false},
    {{.proc = {110, 59}, .ppid = 105, .session = 105, .state = 'S', .comm = "its child"}, false},
    {{.proc = {111, 60},
      .ppid = 100,
      .session = 111,
      .state = 'S',
      .comm = "sidecar",
      .marker = "me"},
     false},
};

enum { PROCS = sizeof(proc_rows) / sizeof(proc_rows[0]) };

static int fake_procs(struct fr_procinfo **list, size_t *n)
{
    *list = fr_sys.alloc(PROCS * sizeof(**list));
    *n = PROCS;
    for (size_t i = 0; i < PROCS; i++)
        (*list)[PROCS - 1 - i] = proc_rows[i].p; /* in no order */
    return 0;
}

static bool contains(const struct fr_procinfo *list, size_t n, pid_t pid)
{
    for (size_t i = 0; i < n; i++)
        if (list[i].proc.pid == pid)
            return true;
    return false;
}

static void test_tree(void)
{
    static const pid_t spare[] = {111};
    struct fr_tree t = {.marker = "me", .supervisor = {100, 50}, .spare = spare, .n_spare = 1};
    struct fr_procinfo *list;
    size_t n;

    fr_sys.procs = fake_procs;
    CHECK(fr_tree_find(&t, &list, &n, NULL) == FR_OK);
    for (size_t i = 0; i < PROCS; i++) {
        check_row(proc_rows[i].p.comm);
        CHECK_INT(contains(list, n, proc_rows[i].p.proc.pid), proc_rows[i].ours);
    }
    fr_sys.free(list);
    check_row("supervisor not known here: markers alone");
    t = (struct fr_tree){.marker = "me"};
    CHECK(fr_tree_find(&t, &list, &n, NULL) == FR_OK);
    CHECK_INT(n, 4);
    CHECK(contains(list, n, 101) && contains(list, n, 102) && contains(list, n, 104) &&
          contains(list, n, 111));
    fr_sys.free(list);
    check_row("its pid is somebody else's by now");
    t = (struct fr_tree){.marker = "nobody", .supervisor = {50, 9}};
    CHECK(fr_tree_find(&t, &list, &n, NULL) == FR_OK);
    CHECK_INT(contains(list, n, 101) || contains(list, n, 105), 0);
    fr_sys.free(list);
    check_row("");
    fr_sys = fr_sys_real;
}

/* Pids have begun again at the lowest: children have lower ones than their shell. The last two are
 * each other's parent, as after a pid was reused while the table was read. */
static const struct fr_procinfo wrapped[] = {
    {.proc = {11, 63},
     .ppid = 12,
     .session = 901,
     .state = 'S',
     .comm = "command's",
     .marker = "me"},
    {.proc = {12, 62},
     .ppid = 901,
     .session = 901,
     .state = 'S',
     .comm = "command",
     .marker = "me"},
    {.proc = {13, 61}, .ppid = 14, .session = 901, .state = 'S', .comm = "circle", .marker = "me"},
    {.proc = {14, 61}, .ppid = 13, .session = 901, .state = 'S', .comm = "circle", .marker = "me"},
    {.proc = {900, 50}, .ppid = 1, .session = 900, .state = 'S', .comm = "supervisor"},
    {.proc = {901, 51}, .ppid = 900, .session = 901, .state = 'S', .comm = "sh", .marker = "me"},
};

static struct fr_buf terminated; /* pids that were sent SIGTERM, in that order */

static int wrapped_procs(struct fr_procinfo **list, size_t *n)
{
    *n = sizeof(wrapped) / sizeof(wrapped[0]);
    *list = fr_sys.alloc(sizeof(wrapped));
    memcpy(*list, wrapped, sizeof(wrapped));
    return 0;
}

static int record_kill(struct fr_proc proc, int sig)
{
    if (sig == SIGTERM)
        fr_buf_fmt(&terminated, " %d", (int)proc.pid);
    return 0;
}

/* A shell hears of its end before its command does, so that its trap runs first. */
static void test_parents_first(void)
{
    struct fr_stopper s = {.tree = {.marker = "me", .supervisor = {900, 50}}};

    fr_sys.procs = wrapped_procs;
    fr_sys.kill = record_kill;
    fr_stopper_begin(&s, 60000);
    fr_stopper_step(&s);
    fr_sys = fr_sys_real;
    CHECK(terminated.p != NULL && strcmp(terminated.p, " 901 12 11 13 14") == 0);
    fr_buf_finish(&terminated);
    fr_stopper_finish(&s);
}

/* A cgroup as the kernel shows it: a folder with files, made here of plain ones. 105 is in it and
 * is somebody else's by all other signs, so 110, its child, is ours, too; 109 is a zombie; 900 was
 * born after the table was read. */
static void test_cgroup(void)
{
    char dir[] = "/tmp/fr-cgroup-XXXXXX", path[64];
    struct fr_tree t = {.marker = "nobody", .supervisor = {100, 50}, .cgroup = dir};
    struct fr_procinfo *list;
    size_t n;

    if (!CHECK(mkdtemp(dir) != NULL))
        return;
    snprintf(path, sizeof(path), "%s/inner", dir);
    CHECK_INT(fr_mkdirs(path, 0700, NULL), FR_OK);
    snprintf(path, sizeof(path), "%s/inner/cgroup.procs", dir);
    CHECK_INT(fr_file_write(path, "900\n", 4, 0600, NULL), FR_OK);
    snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
    CHECK_INT(fr_file_write(path, "0\n100\n105\n109\n", 15, 0600, NULL), FR_OK);
    fr_sys.procs = fake_procs;
    CHECK(fr_tree_find(&t, &list, &n, NULL) == FR_OK);
    CHECK(contains(list, n, 105) && contains(list, n, 110) && contains(list, n, 900));
    CHECK(!contains(list, n, 100) && !contains(list, n, 109) && !contains(list, n, 0));
    fr_sys.free(list);
    CHECK_INT(fr_file_write(path, "", 0, 0600, NULL), FR_OK);
    CHECK(fr_tree_find(&t, &list, &n, NULL) == FR_OK);
    CHECK(!contains(list, n, 105) && contains(list, n, 900));
    fr_sys.free(list);
    fr_sys = fr_sys_real;
    CHECK_INT(fr_remove_tree(dir, NULL), FR_OK);
}

/* Of four folders only the one of ours that is old and empty goes. */
static void test_cgroup_tidy(void)
{
    static const struct {
        const char *name;
        bool old, stays;
    } cases[] = {{"flowrun-left", true, false},
                 {"flowrun-new", false, true},
                 {"flowrun-lived", true, true},
                 {"other", true, true}};
    const struct timespec hour_ago[2] = {{.tv_sec = time(NULL) - 3600},
                                         {.tv_sec = time(NULL) - 3600}};
    char dir[] = "/tmp/fr-cgroup-XXXXXX", path[64];

    if (!CHECK(mkdtemp(dir) != NULL))
        return;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s%s", dir, cases[i].name,
                 strcmp(cases[i].name, "flowrun-lived") == 0 ? "/inner" : "");
        CHECK_INT(fr_mkdirs(path, 0700, NULL), FR_OK);
        snprintf(path, sizeof(path), "%s/%s", dir, cases[i].name);
        CHECK(!cases[i].old || utimensat(AT_FDCWD, path, hour_ago, 0) == 0);
    }
    fr_cgroup_tidy(dir);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, cases[i].name);
        CHECK((access(path, F_OK) == 0) == cases[i].stays);
    }
    CHECK_INT(fr_remove_tree(dir, NULL), FR_OK);
}

static int64_t fuse(const char *path)
{
    (void)path;
    return 0x65735546;
}

static void test_far_home(void)
{
    char dir[] = "/tmp/fr-far-XXXXXX";
    struct fr_node_home h;
    struct fr_err err = {0};

    if (!CHECK(mkdtemp(dir) != NULL))
        return;
    fr_sys.fs_type = fuse;
    CHECK_INT(fr_home_open(&h, dir, &err), FR_UNSUPPORTED);
    CHECK(strstr(err.msg, "home of the node: ") != NULL && strstr(err.msg, dir) != NULL);
    CHECK(strstr(err.msg, "network file system (FUSE), where locks are not safe") != NULL);
    CHECK(strstr(err.msg, "work: folder") != NULL);
    fr_home_close(&h);
    fr_sys = fr_sys_real;
    CHECK_INT(fr_home_open(&h, dir, &err), FR_OK);
    fr_home_close(&h);
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
}

static void add(int fd, enum fr_rec_kind kind, struct fr_id id)
{
    struct fr_rec r = {.kind = kind, .attempt = id, .instance = FR_STR("i"), .boot = FR_STR("b")};

    CHECK(fr_journal_append(fd, &r, NULL) == FR_OK);
}

/* Of records that exclude each other the first one counts, wherever the file is cut. */
static void test_journal(void)
{
    char path[] = "/tmp/node_parts.XXXXXX";
    struct fr_id x = {{1}}, y = {{2}};
    int fd, tmp = mkstemp(path);

    close(tmp);
    CHECK(fr_journal_open(path, &fd, NULL) == FR_OK);
    add(fd, FR_REC_PREPARED, x);
    add(fd, FR_REC_TOMBSTONE, x);
    add(fd, FR_REC_LAUNCHED, x);
    add(fd, FR_REC_PREPARED, y);
    add(fd, FR_REC_LAUNCHED, y);
    add(fd, FR_REC_TOMBSTONE, y);
    struct fr_table t = {0};
    CHECK(fr_table_read(&t, fd, NULL) == FR_OK);
    CHECK(fr_table_find(&t, x)->tombstoned && !fr_table_find(&t, x)->launched);
    CHECK(!fr_table_find(&t, y)->tombstoned && fr_table_find(&t, y)->launched);
    size_t whole = (size_t)t.at;
    fr_table_finish(&t);
    for (size_t cut = whole; cut-- > 0;) { /* a torn end is no record, and no error */
        CHECK(ftruncate(fd, (off_t)cut) == 0);
        CHECK(fr_table_read(&t, fd, NULL) == FR_OK);
        CHECK(t.at <= cut);
        fr_table_finish(&t);
    }
    fr_sys.close(fd);
    unlink(path);
}

static ssize_t write_less(int fd, const void *p, size_t n)
{
    return write(fd, p, n - 5);
}

static uint32_t crc32(const char *p, size_t n)
{
    uint32_t crc = ~0u;

    for (size_t i = 0; i < n; i++) {
        crc ^= (uint8_t)p[i];
        for (int k = 0; k < 8; k++)
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0);
    }
    return ~crc;
}

/* Appends a record whose payload has so many bytes, right but for its size. */
static void add_sized(int fd, struct fr_id id, size_t payload)
{
    enum { HEAD = 12 };
    struct fr_rec r = {.kind = FR_REC_PREPARED, .attempt = id};
    struct fr_buf b = {0};

    CHECK(fr_journal_put(&b, &r, NULL) == FR_OK);
    size_t filled = payload - (b.n - HEAD);
    fr_buf_finish(&b);
    b = (struct fr_buf){0};
    char *text = calloc(1, filled);
    memset(text, 'x', filled);
    r.ended = (struct fr_str){text, filled};
    CHECK_INT(fr_journal_put(&b, &r, NULL), payload > FR_REC_MAX ? FR_USAGE : FR_OK);
    CHECK_INT(b.n, HEAD + payload);
    memcpy(b.p, "FRJ1", 4);
    fr_put_u32(b.p + 4, (uint32_t)payload);
    fr_put_u32(b.p + 8, crc32(b.p + HEAD, payload));
    CHECK(fr_write_full(fd, b.p, b.n));
    fr_buf_finish(&b);
    free(text);
}

/* Records that were cut short, or are too large: those behind them count. */
static void test_journal_torn(void)
{
    char path[] = "/tmp/node_parts.XXXXXX";
    struct fr_id x = {{1}}, y = {{2}}, z = {{3}}, large = {{4}}, largest = {{5}};
    struct fr_rec r = {.kind = FR_REC_PREPARED, .attempt = x, .instance = FR_STR("i")};
    struct fr_table t = {0};
    struct fr_err err;
    int fd, tmp = mkstemp(path);

    close(tmp);
    CHECK(fr_journal_open(path, &fd, &err) == FR_OK);
    fr_sys.write = write_less;
    CHECK_INT(fr_journal_append(fd, &r, &err), FR_FULL);
    fr_sys = fr_sys_real;
    CHECK(fr_write_full(fd, "FRJ1\0\0\1\0torn", 12)); /* its bytes never came */
    add(fd, FR_REC_PREPARED, y);
    CHECK(fr_table_read(&t, fd, &err) == FR_OK);
    CHECK(fr_table_find(&t, x) == NULL);
    CHECK(fr_table_find(&t, y) != NULL);
    add_sized(fd, largest, FR_REC_MAX);
    add_sized(fd, large, FR_REC_MAX + 1);
    add(fd, FR_REC_PREPARED, z);
    CHECK(fr_table_read(&t, fd, &err) == FR_OK);
    CHECK(fr_table_find(&t, largest) != NULL);
    CHECK(fr_table_find(&t, large) == NULL);
    CHECK(fr_table_find(&t, z) != NULL);
    fr_table_finish(&t);
    fr_sys.close(fd);
    unlink(path);
}

static int64_t a_second_later(void)
{
    return fr_sys_real.mono_ms() + 1000;
}

/* The disk is full after five bytes. */
static ssize_t pwrite_five(int fd, const void *p, size_t n, off_t at)
{
    return fr_sys_real.pwrite(fd, p, n < 5 ? n : 5, at);
}

/* Marks stay whole whatever a full disk took of one: a torn one would shift all that follow. */
static void test_marks(void)
{
    char dir[] = "/tmp/fr-marks-XXXXXX", path[FR_NODE_PATH];
    struct fr_id id = {{7}};
    struct fr_request req = {0};
    struct fr_logfile log;
    struct fr_log_mark m[4];
    int64_t now = fr_sys.mono_ms();

    if (!CHECK(mkdtemp(dir) != NULL))
        return;
    snprintf(path, sizeof(path), "%s/log", dir);
    CHECK(mkdir(path, 0700) == 0);
    CHECK_INT(fr_logfile_open(&log, dir, id, &req, NULL), FR_OK);
    fr_logfile_add(&log, "one\n", 4);
    fr_sys.mono_ms = a_second_later;
    fr_sys.pwrite = pwrite_five;
    fr_logfile_add(&log, "two\n", 4); /* its mark is torn */
    fr_sys.pwrite = fr_sys_real.pwrite;
    fr_logfile_add(&log, "three\n", 6);
    fr_sys = fr_sys_real;
    fr_logfile_close(&log);
    fr_home_path(dir, FR_HOME_INDEX, id, path);
    int fd = open(path, O_RDONLY);
    CHECK_INT(read(fd, m, sizeof(m)), 2 * (int)sizeof(m[0]));
    CHECK(m[0].offset == 0 && m[0].ms >= now && m[0].ms < now + 1000);
    CHECK(m[1].offset == 8 && m[1].ms >= now + 1000 && m[1].ms < now + 60000);
    close(fd);
    CHECK_INT(fr_remove_tree(dir, NULL), FR_OK);
}

/* The supervisor is killed before its end, or when it has written cut bytes behind the head: the
 * log becomes the same. */
static void check_recovered(size_t cut)
{
    char dir[] = "/tmp/fr-tail-XXXXXX", path[FR_NODE_PATH], got[4096], line[80];
    struct fr_id id = {{7}};
    struct fr_request req = {.log_max_bytes = 1000, .log_on_full = FR_LOG_DROP_MIDDLE};
    struct fr_buf all = {0}, want = {0};
    struct fr_logfile log;
    uint64_t dropped = 0;

    if (!CHECK(mkdtemp(dir) != NULL))
        return;
    snprintf(path, sizeof(path), "%s/log", dir);
    CHECK(mkdir(path, 0700) == 0);
    CHECK_INT(fr_logfile_open(&log, dir, id, &req, NULL), FR_OK);
    for (int i = 0; i < 2000; i++) {
        int n = snprintf(line, sizeof(line), "%d\n", i);
        fr_logfile_add(&log, line, (size_t)n);
        fr_buf_add(&all, line, (size_t)n);
    }
    fr_buf_add(&want, all.p, 500);
    fr_buf_fmt(&want, "\n[flowrun: %d bytes dropped]\n", (int)all.n - 1000);
    if (cut > 0) {
        CHECK(fr_tail_join(log.tail_fd, &log.tail_head, want.n, all.n - 1000));
        fr_buf_add(&want, all.p + all.n - 500, 500);
        CHECK(fr_write_full(log.fd, want.p + 500, cut));
    } else {
        fr_buf_add(&want, all.p + all.n - 500, 500);
    }
    fr_logfile_close(&log);
    for (int i = 0; i < 2; i++)
        fr_logfile_recover(dir, id, true, &dropped);
    CHECK_INT(dropped, all.n - 1000);
    fr_home_path(dir, FR_HOME_LOG, id, path);
    int fd = open(path, O_RDONLY);
    CHECK_INT(read(fd, got, sizeof(got)), want.n);
    CHECK(memcmp(got, want.p, want.n) == 0);
    close(fd);
    fr_buf_finish(&all);
    fr_buf_finish(&want);
    CHECK_INT(fr_remove_tree(dir, NULL), FR_OK);
}

static void test_recover(void)
{
    const size_t cuts[] = {0, 7, 100, 531};

    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++)
        check_recovered(cuts[i]);
}

int main(void)
{
    test_outputs();
    test_mask();
    test_mask_forms();
    test_logind();
    test_reason();
    test_tree();
    test_parents_first();
    test_cgroup();
    test_cgroup_tidy();
    test_far_home();
    test_journal();
    test_journal_torn();
    test_marks();
    test_recover();
    return check_done();
}

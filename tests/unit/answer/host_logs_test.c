/* Logs as the host shows them: lines, hits, times, packed, and those of all tasks. */
#include "engine/store/sql.h"
#include "tests/unit/host/host_bed.h"

#include <errno.h>
#include <pthread.h>

static struct host_bed bed = HOST_BED;

#define ATTEMPT "000000000000000000000000000000a3"

#define LOG "attempts/" ATTEMPT "/log"

enum { PIECE = 256 << 10, LONG_LINE = 3 * PIECE }; /* of a line that is sought in */

static const struct {
    const char *path; /* behind the run's */
    int status;
    const char *text;
} of_log[] = {
    {LOG, 200, NULL},
    {LOG ".gz", 200, NULL},
    {LOG "x", 404, "there is nothing at"},
    {LOG "/else", 404, "there is nothing at"},
    {"attempts/" ATTEMPT "/lag", 404, "there is nothing at"},
    {LOG "/lines", 200,
     "{\"total\":3,\"bytes\":18,\"items\":[{\"line\":1,\"offset\":0,\"text\":\"one\","},
    {LOG "/lines?from=2&n=1", 200,
     "\"items\":[{\"line\":2,\"offset\":4,\"text\":\"two one\",\"cut\":false}]}"},
    {LOG "/lines?from=3&n=1000", 200, "\"items\":[{\"line\":3,\"offset\":12,\"text\":\"three\","},
    {LOG "/lines?from=4", 200, "\"items\":[]"},
    {LOG "/lines?from=0", 400, "'from' must be 1 or more"},
    {LOG "/lines?n=0", 400, "'n' 1 to 1000"},
    {LOG "/lines?n=1001", 400, "'n' 1 to 1000"},
    {LOG "/times", 200, "{\"items\":[]}"},
    {LOG "/times?from=x", 400, "a whole number"},
    {LOG "/times?to=x", 400, "a whole number"},
    {LOG "/search?q=one", 200,
     "{\"items\":[{\"line\":1,\"offset\":0,\"text\":\"one\"},{\"line\":2,\"offset\":8,\"text\":"
     "\"two "
     "one\"}],\"truncated\":false}"},
    {LOG "/search?q=one&from=2", 200, "{\"items\":[{\"line\":2,"},
    {LOG "/search?q=^t&re=1", 200, "{\"items\":[{\"line\":2,\"offset\":4,"},
    {LOG "/search?q=^t", 200, "{\"items\":[],"},
    {LOG "/search?q=(&re=1", 400,
     "the pattern is wrong at character 2: missing closing parenthesis"},
    {LOG "/search?q=", 400, "'q' must be 1 to 1000 bytes"},
    {LOG "/search?q=x&from=0", 400, "'from' 1 or more"},
    {"log/search?q=three", 200,
     "{\"items\":[{\"line\":3,\"offset\":12,\"text\":\"three\",\"instance\":\"one@local\","
     "\"attempt\":\"" ATTEMPT "\",\"attempt_no\":1}],\"truncated\":false}"},
    {"log/search?q=one&from=2&attempt=" ATTEMPT, 200, "{\"items\":[{\"line\":2,"},
    {"log/search?q=one&task=two", 200, "{\"items\":[],"},
    {"log/search?q=one&attempt=" OTHER, 404, "no such attempt"},
    {"log", 200, "one@local | one\none@local | two one\none@local | three\n"},
    {"log?tail=1", 200, "one@local | three\n"},
    {"log?tail=0", 400, "'tail' must be 1 to 20000"},
    {"log?tail=20001", 400, "'tail' must be 1 to 20000"},
    {"log?task=two", 200, NULL},
};

/* Of task one, which is running. */
static void add_attempt(const char *log)
{
    char text[600];

    snprintf(text, sizeof(text),
             "INSERT INTO attempt (id, run, idx, no, generation, node, rank, home_id, state, log, "
             "started_wall, ended_wall) SELECT x'" ATTEMPT "', id, 0, 1, 1, 'local', 0, x'" OTHER
             "', 'running', '%s', 1, 0 FROM run WHERE no = 1",
             log);
    CHECK_INT(sqlite3_exec(bed.st->db, text, NULL, NULL, NULL), SQLITE_OK);
}

static void check_logs(void)
{
    struct fr_api_response res;

    for (size_t i = 0; i < sizeof(of_log) / sizeof(of_log[0]); i++) {
        char at[200];

        check_row(of_log[i].path);
        snprintf(at, sizeof(at), "/api/v1/runs/1/%s", of_log[i].path);
        check_answer(ask(&bed, GET, at, NULL), of_log[i].status, of_log[i].text);
    }
    check_row("a packed log");
    res = ask(&bed, GET, "/api/v1/runs/1/" LOG ".gz", NULL);
    CHECK(res.packed && res.file && res.bytes == 18 && strcmp(res.growing, "1") == 0);
    CHECK_TEXT(res.type, "application/gzip");
    fr_api_response_finish(&res);
    check_row("all logs");
    res = ask(&bed, GET, "/api/v1/runs/1/log?tail=1", NULL);
    CHECK_TEXT(res.type, "text/plain; charset=utf-8");
    CHECK(res.foreign);
    fr_api_response_finish(&res);
    check_row("");
}

/* ---- disks that fail, and that are slow ---- */

static _Atomic int interrupts, failures; /* of reads that are to come */

static ssize_t pread_badly(int fd, void *p, size_t n, off_t at)
{
    if (interrupts == 0 && failures == 0)
        return fr_sys_real.pread(fd, p, n, at);
    errno = interrupts > 0 ? EINTR : EIO;
    interrupts > 0 ? interrupts-- : failures--;
    return -1;
}

static pthread_t of_loop;
static _Atomic int64_t ahead_ms;

/* To whoever reads in a thread each look at the clock is four seconds later. */
static int64_t hasty_ms(void)
{
    if (!pthread_equal(pthread_self(), of_loop))
        ahead_ms += 4000;
    return fr_sys_real.mono_ms() + ahead_ms;
}

static void test_disks(const char *path)
{
    static const char search[] = "/api/v1/runs/1/" LOG "/search?q=three",
                      lines[] = "/api/v1/runs/1/" LOG "/lines?n=1";
    struct fr_buf many = {0};

    fr_sys.pread = pread_badly;
    for (int i = 0; i < 2; i++) {
        check_row(i == 0 ? "a read that is interrupted" : "a read that fails");
        interrupts = i == 0 ? 2 : 0;
        failures = i == 0 ? 0 : 1;
        check_answer(ask(&bed, GET, search, NULL), i == 0 ? 200 : 500,
                     i == 0 ? "{\"line\":3," : "reading a log: Input/output error");
        CHECK(interrupts == 0 && failures == 0);
        interrupts = i == 0 ? 2 : 0;
        failures = i == 0 ? 0 : 1;
        check_answer(ask(&bed, GET, lines, NULL), i == 0 ? 200 : 500,
                     i == 0 ? "{\"line\":1," : "reading a log: Input/output error");
    }
    fr_sys.pread = fr_sys_real.pread;
    check_row("a search that takes too long says where to go on");
    for (int i = 0; i < 1500; i++)
        fr_buf_text(&many, "line\n");
    CHECK_INT(fr_file_write(path, many.p, many.n, 0600, NULL), FR_OK);
    fr_buf_finish(&many);
    of_loop = pthread_self();
    fr_sys.mono_ms = hasty_ms;
    check_answer(ask(&bed, GET, "/api/v1/runs/1/" LOG "/search?q=nothing", NULL), 200,
                 "{\"items\":[],\"truncated\":true,\"next\":1024}");
    fr_sys.mono_ms = fr_sys_real.mono_ms;
    check_answer(ask(&bed, GET, "/api/v1/runs/1/" LOG "/search?q=nothing&from=1024", NULL), 200,
                 "{\"items\":[],\"truncated\":false}");
}

/* Of a log with these bytes. */
static void check_log(const char *path, const struct fr_buf *log, const char *at, const char *want)
{
    CHECK_INT(fr_file_write(path, log->p, log->n, 0600, NULL), FR_OK);
    check_answer(ask(&bed, GET, at, NULL), 200, want);
}

/* What is shown of a line, and of what stands in it. */
static void test_lines(const char *path)
{
    struct fr_buf log = {0}, want = {0};

    check_row("a character of four bytes, and a part of one");
    fr_buf_text(&log, "\xf0\x9f\x98\x80!\xf0\x9f\n");
    check_log(path, &log, "/api/v1/runs/1/" LOG "/lines?n=1",
              "\"text\":\"\xf0\x9f\x98\x80!\xef\xbf\xbd\xef\xbf\xbd\",\"cut\":false}]");
    check_row("a line as long as is shown, and a longer one");
    log.n = 0;
    fr_buf_fmt(&log, "%*s\n%*s\n", 8192, "y", 8193, "z");
    check_log(path, &log, "/api/v1/runs/1/" LOG "/lines?n=1", " y\",\"cut\":false}]");
    check_log(path, &log, "/api/v1/runs/1/" LOG "/lines?from=2", "  \",\"cut\":true}]");
    check_row("what is shown around a hit");
    log.n = 0;
    fr_buf_fmt(&log, "%*s\n%*sneedle%*s\nnext", 150, "needle", 150, "", 300, "");
    fr_buf_fmt(&want, "{\"items\":[{\"line\":1,\"offset\":144,\"text\":\"%*s\"}", 106, "needle");
    check_log(path, &log, "/api/v1/runs/1/" LOG "/search?q=needle", want.p);
    want.n = 0;
    fr_buf_fmt(&want, "{\"line\":2,\"offset\":301,\"text\":\"%*sneedle%*s\"}]", 100, "", 94, "");
    check_log(path, &log, "/api/v1/runs/1/" LOG "/search?q=needle", want.p);
    fr_buf_finish(&log);
    fr_buf_finish(&want);
}

/* Two lines of which the first one is taken in pieces; it has the needle at `at`, and once more. */
static void check_pieces(const char *q, const char *how, size_t at)
{
    struct fr_api_response res;
    json_t *doc, *items;
    char ask_for[120];

    snprintf(ask_for, sizeof(ask_for), "/api/v1/runs/1/" LOG "/search?q=%s%s", q, how);
    res = ask(&bed, GET, ask_for, NULL);
    doc = json_loadb(res.body.p, res.body.n, 0, NULL);
    items = json_object_get(doc, "items");
    CHECK_INT(res.status, 200);
    CHECK_INT(json_array_size(items), 2);
    for (size_t i = 0; i < json_array_size(items); i++) {
        const json_t *hit = json_array_get(items, i);
        const char *text = json_string_value(json_object_get(hit, "text"));

        CHECK_INT(json_integer_value(json_object_get(hit, "line")), i + 1);
        CHECK_INT(json_integer_value(json_object_get(hit, "offset")),
                  i == 0 ? at : (size_t)LONG_LINE + 1 + 2);
        CHECK_INT(strspn(text, "x"), i == 0 ? 100 : 2); /* what stands before it */
    }
    json_decref(doc);
    fr_api_response_finish(&res);
}

static void test_pieces(const char *path)
{
    static char text[LONG_LINE + 10];

    check_row("around the end of a piece");
    for (size_t at = PIECE - 7; at <= PIECE + 1; at++) {
        memset(text, 'x', LONG_LINE);
        memcpy(text + at, "needle", 6);
        memcpy(text + 2 * PIECE, "needle", 6);
        memcpy(text + LONG_LINE, "\nxxneedle", 10);
        CHECK_INT(fr_file_write(path, text, LONG_LINE + 9, 0600, NULL), FR_OK);
        check_pieces("needle", "", at);
        check_pieces("needle", "&re=1", at);
        check_pieces("(?<=xx)needle", "&re=1", at);
    }
}

static void check_merged(const char *want)
{
    struct fr_api_response res = ask(&bed, GET, "/api/v1/runs/1/log", NULL);

    fr_buf_add(&res.body, "", 1);
    CHECK_TEXT(res.body.p, want);
    fr_api_response_finish(&res);
}

/* The last line of an attempt is shown once nothing is written any more. */
static void test_last(const char *path)
{
    check_row("a line without its end");
    CHECK_INT(fr_file_write(path, "one\ntwo", 7, 0600, NULL), FR_OK);
    check_merged("one@local | one\n");
    CHECK_INT(sqlite3_exec(bed.st->db, "UPDATE attempt SET ended_wall = 5", NULL, NULL, NULL),
              SQLITE_OK);
    check_merged("one@local | one\none@local | two\n");
}

int main(void)
{
    static const char text[] = "one\ntwo one\nthree\n";
    struct fr_arena arena = {0};
    struct fr_run_row row;
    struct fr_buf path = {0};

    make_pipelines(&bed);
    open_host(&bed);
    submit(&bed, "p.yaml", 1, "", "running");
    CHECK_INT(fr_store_run_find(bed.st, "1", &arena, &row, NULL), FR_OK);
    fr_home_at(bed.home, FR_HOME_RUN, row.id, &path);
    mkdir(path.p, 0700);
    fr_buf_text(&path, "/c.log");
    CHECK_INT(fr_file_write(path.p, text, strlen(text), 0600, NULL), FR_OK);
    add_attempt("c.log");
    check_logs();
    test_disks(path.p);
    test_lines(path.p);
    test_pieces(path.p);
    test_last(path.p);
    fr_buf_finish(&path);
    fr_arena_finish(&arena);
    close_host(&bed);
    remove_home(bed.home);
    return check_done();
}

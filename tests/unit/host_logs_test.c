/* Logs as the host shows them: lines, hits, times, packed, and those of all tasks. */
#include "engine/store/sql.h"
#include "tests/unit/host_bed.h"

#define ATTEMPT "000000000000000000000000000000a3"

#define LOG "attempts/" ATTEMPT "/log"

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
    CHECK_INT(sqlite3_exec(st->db, text, NULL, NULL, NULL), SQLITE_OK);
}

static void check_logs(void)
{
    struct fr_api_response res;

    for (size_t i = 0; i < sizeof(of_log) / sizeof(of_log[0]); i++) {
        char at[200];

        check_row(of_log[i].path);
        snprintf(at, sizeof(at), "/api/v1/runs/1/%s", of_log[i].path);
        check_answer(FR_API_GET, at, NULL, of_log[i].status, of_log[i].text);
    }
    check_row("a packed log");
    res = ask(FR_API_GET, "/api/v1/runs/1/" LOG ".gz", NULL);
    CHECK(res.packed && res.file && res.bytes == 18 && strcmp(res.growing, "1") == 0);
    CHECK_TEXT(res.type, "application/gzip");
    fr_api_response_finish(&res);
    check_row("all logs");
    res = ask(FR_API_GET, "/api/v1/runs/1/log?tail=1", NULL);
    CHECK_TEXT(res.type, "text/plain; charset=utf-8");
    CHECK(res.foreign);
    fr_api_response_finish(&res);
    check_row("");
}

int main(void)
{
    static const char text[] = "one\ntwo one\nthree\n";
    struct fr_arena arena = {0};
    struct fr_run_row row;
    struct fr_buf path = {0};
    struct fr_err err = {0};

    make_pipelines();
    open_host();
    submit("p.yaml", 1, "", "running");
    CHECK_INT(fr_store_run_find(st, "1", &arena, &row, &err), FR_OK);
    fr_home_at(home, FR_HOME_RUN, row.id, &path);
    mkdir(path.p, 0700);
    fr_buf_text(&path, "/c.log");
    CHECK_INT(fr_file_write(path.p, text, strlen(text), 0600, &err), FR_OK);
    add_attempt("c.log");
    check_logs();
    fr_buf_finish(&path);
    fr_arena_finish(&arena);
    close_host();
    remove_home();
    return check_done();
}

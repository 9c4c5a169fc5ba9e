/* Requests about the output of one attempt, and their answers. */
#include "engine/answer/call.h"
#include "engine/view/line_index.h"
#include "engine/view/merge.h"
#include "engine/store/home.h"
#include "engine/store/lists.h"

#include <fcntl.h>

enum {
    LINES_USUAL = 256,
    LINES_MOST = 1000,
    SOUGHT_MOST = 1000,
    TAIL_USUAL = 2000,
    TAIL_MOST = 20000
};

/* The attempt that the path names; *rest is the path after its "/log". */
static enum fr_rc find_attempt(struct call *c, struct fr_attempt_row *out, const char **rest,
                               struct fr_err *err)
{
    const char *end = strchr(c->rest, '/');
    enum fr_rc rc;

    if (end == NULL || strncmp(end, "/log", 4) != 0 ||
        !fr_id_parse((struct fr_str){c->rest, (size_t)(end - c->rest)}, &out->id))
        return fr_fail(err, FR_NOTFOUND, "there is nothing at %s", c->req->path);
    *rest = end + 4;
    rc = fr_store_attempt_find(c->host->env.store, c->run.id, &c->arena, out, err);
    return rc != FR_NOTFOUND
               ? rc
               : fr_fail(err, rc, "run %lld has no such attempt", (long long)c->run.no);
}

static enum fr_rc find_path(struct call *c, const struct fr_attempt_row *row, struct fr_buf *path,
                            struct fr_err *err)
{
    fr_home_at(fr_store_home(c->host->env.store), FR_HOME_RUN, c->run.id, path);
    fr_buf_fmt(path, "/%s", row->log);
    if (path->bad)
        return fr_fail(err, FR_NOMEM, "no memory for a path");
    return fr_check_unlinked(path->p, strlen(fr_store_home(c->host->env.store)), err);
}

static enum fr_rc send_bytes(struct call *c, const struct fr_attempt_row *row, const char *path)
{
    int fd = fr_sys.open(path, O_RDONLY | O_NOFOLLOW, 0); /* -1: the attempt has no output yet */

    answer_file(c, fd, "text/plain; charset=utf-8", row->done != 0 ? "0" : "1");
    return FR_OK;
}

/* The whole log, as a download. */
static enum fr_rc send_packed(struct call *c, const struct fr_attempt_row *row, const char *path,
                              struct fr_err *err)
{
    int fd = fr_sys.open(path, O_RDONLY | O_NOFOLLOW, 0);

    if (fd < 0)
        return fr_fail(err, FR_NOTFOUND, "the attempt has written nothing yet");
    answer_whole(c, fd, "application/gzip", row->done != 0 ? "0" : "1");
    c->res->packed = true;
    return FR_OK;
}

/* ?from=&n= */
static enum fr_rc send_lines(struct call *c, struct host_text *want, struct fr_err *err)
{
    enum fr_rc rc = query_number(c, "from", 1, &want->numbers[0], err);

    want->view = HOST_VIEW_LINES;
    if (rc == FR_OK)
        rc = query_number(c, "n", LINES_USUAL, &want->numbers[1], err);
    if (rc == FR_OK &&
        (want->numbers[0] < 1 || want->numbers[1] < 1 || want->numbers[1] > LINES_MOST))
        rc = fr_fail(err, FR_USAGE, "'from' must be 1 or more, 'n' 1 to %d", LINES_MOST);
    return rc == FR_OK ? answer_view(c, want, err) : rc;
}

/* ?from=&to= */
static enum fr_rc send_times(struct call *c, struct host_text *want, struct fr_err *err)
{
    enum fr_rc rc = query_number(c, "from", 0, &want->numbers[0], err);

    want->view = HOST_VIEW_TIMES;
    if (rc == FR_OK)
        rc = query_number(c, "to", INT64_MAX, &want->numbers[1], err);
    return rc == FR_OK ? answer_view(c, want, err) : rc;
}

/* ?q=&re=1&from= */
static enum fr_rc send_hits(struct call *c, struct host_text *want, struct fr_err *err)
{
    enum fr_rc rc = query_number(c, "from", 1, &want->numbers[0], err);

    want->args[1] = query_text(c, "q");
    want->args[2] = query_text(c, "re");
    if (rc == FR_OK && (want->args[1] == NULL || want->args[1][0] == '\0' ||
                        strlen(want->args[1]) > SOUGHT_MOST || want->numbers[0] < 1))
        rc = fr_fail(err, FR_USAGE, "'q' must be 1 to %d bytes, 'from' 1 or more", SOUGHT_MOST);
    return rc == FR_OK ? answer_view(c, want, err) : rc;
}

static enum fr_rc take_lines(struct call *c, struct host_text *want, struct fr_err *err)
{
    struct host_answers *a = answers_of(c->host);

    if (a->lines == NULL && (a->lines = line_index_create()) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the lines of logs");
    want->lines = a->lines;
    return FR_OK;
}

/* ?task=&q=&re=1&attempt=&from=, the last two as in next of the previous response */
enum fr_rc get_runs_run_log_search(struct call *c, struct fr_err *err)
{
    struct host_text want = {.view = HOST_VIEW_FOUND, .run = c->run.id};
    enum fr_rc rc = take_lines(c, &want, err);

    want.args[0] = query_text(c, "task");
    want.args[3] = query_text(c, "attempt");
    return rc == FR_OK ? send_hits(c, &want, err) : rc;
}

enum fr_rc get_runs_run_attempts_attempt_log(struct call *c, struct fr_err *err)
{
    struct fr_attempt_row row = {0};
    struct fr_buf path = {0};
    struct host_text want = {.view = HOST_VIEW_HITS, .run = c->run.id};
    const char *rest = "";
    enum fr_rc rc = find_attempt(c, &row, &rest, err);

    if (rc == FR_OK)
        rc = find_path(c, &row, &path, err);
    if (rc == FR_OK)
        rc = take_lines(c, &want, err);
    want.args[0] = path.p;
    if (rc != FR_OK)
        ;
    else if (rest[0] == '\0')
        rc = send_bytes(c, &row, path.p);
    else if (strcmp(rest, ".gz") == 0)
        rc = send_packed(c, &row, path.p, err);
    else if (strcmp(rest, "/lines") == 0)
        rc = send_lines(c, &want, err);
    else if (strcmp(rest, "/times") == 0)
        rc = send_times(c, &want, err);
    else if (strcmp(rest, "/search") == 0)
        rc = send_hits(c, &want, err);
    else
        rc = fr_fail(err, FR_NOTFOUND, "there is nothing at %s", c->req->path);
    fr_buf_finish(&path);
    return rc;
}

/* ?task=&times=&tail=; times: 1, as the host's clock shows them, or ms, since 1970 */
enum fr_rc get_runs_run_log(struct call *c, struct fr_err *err)
{
    const char *times = query_text(c, "times");
    struct host_text want = {.view = HOST_VIEW_MERGED, .run = c->run.id};
    enum fr_rc rc = query_range(c, "tail", (struct query_range){1, TAIL_MOST, TAIL_USUAL},
                                &want.numbers[0], err);

    want.args[0] = query_text(c, "task");
    if (times != NULL)
        want.numbers[1] = times[0] == '1' ? FR_MERGE_CLOCK : FR_MERGE_MS;
    if (rc == FR_OK)
        rc = answer_view(c, &want, err);
    if (rc == FR_OK && c->res->status == 200) {
        c->res->type = "text/plain; charset=utf-8";
        c->res->foreign = true;
    }
    return rc;
}

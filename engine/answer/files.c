/* Responses that are files: ranges of files, and the files that a run kept. */
#include "engine/answer/call.h"
#include "engine/api/problem.h"
#include "engine/api/range.h"
#include "engine/store/blob.h"

#include <errno.h>
#include <fcntl.h>

static const uint64_t PART_MOST = 1 << 20; /* bytes of an answer to a Range */

void answer_whole(struct call *c, int fd, const char *type, const char *growing)
{
    struct stat st = {0};

    if (fd >= 0 && fr_sys.fstat(fd, &st) != 0)
        st.st_size = 0;
    *c->res = (struct fr_api_response){.status = 200,
                                       .type = type,
                                       .foreign = true,
                                       .growing = growing,
                                       .file = fd >= 0,
                                       .fd = fd,
                                       .bytes = (uint64_t)st.st_size,
                                       .total = (uint64_t)st.st_size};
}

/* The response has the total size. */
static void answer_none(struct call *c, const char *growing)
{
    uint64_t total = c->res->total;
    struct fr_err err = {0};

    fr_fail(&err, FR_USAGE, "nothing of that range is there: %llu bytes are",
            (unsigned long long)total);
    fr_problem(c->res, 416, c->req->path, &err, NULL);
    c->res->growing = growing;
    c->res->total = total;
}

void answer_file(struct call *c, int fd, const char *type, const char *growing)
{
    answer_whole(c, fd, type, growing);
    switch (fr_range_parse(c->req->range, c->res->total, &c->res->offset, &c->res->bytes)) {
    case FR_RANGE_WHOLE:
        return;
    case FR_RANGE_PART:
        c->res->status = 206;
        if (c->res->bytes > PART_MOST)
            c->res->bytes = PART_MOST;
        return;
    default:
        answer_none(c, growing);
    }
}

static const struct fr_file_row *find_file(const struct fr_file_rows *rows, const char *hash)
{
    for (size_t i = 0; i < rows->n; i++)
        if (strcmp(rows->rows[i].hash, hash) == 0)
            return &rows->rows[i];
    return NULL;
}

/* SHA256: of a file of the run. The run does not give access to other files of the home. */
enum fr_rc get_runs_run_artifacts_name(struct call *c, struct fr_err *err)
{
    struct fr_file_rows rows = {0};
    const struct fr_file_row *row;
    struct fr_buf path = {0};
    int fd;
    enum fr_rc rc = fr_store_files(c->host->env.store, c->run.id, &c->arena, &rows, err);

    if (rc != FR_OK)
        return rc;
    if ((row = find_file(&rows, c->rest)) == NULL)
        return fr_fail(err, FR_NOTFOUND, "run %lld kept no such file", (long long)c->run.no);
    fr_blob_path(fr_store_home(c->host->env.store), row->hash, &path);
    if (path.bad)
        return fr_fail(err, FR_NOMEM, "no memory for a path");
    if ((fd = fr_sys.open(path.p, O_RDONLY | O_NOFOLLOW, 0)) < 0)
        rc = fr_fail_errno(err, errno, "opening the copy of %s", row->path);
    else
        answer_file(c, fd, "application/octet-stream", NULL);
    fr_buf_finish(&path);
    return rc;
}

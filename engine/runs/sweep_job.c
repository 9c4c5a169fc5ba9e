/* What takes long of the files of a home: adding up those of a run, removing what no row knows. */
#include "engine/runs/job.h"
#include "engine/runs/state.h"

#include "engine/base/file.h"
#include "engine/retain/retain.h"
#include "engine/store/blob.h"
#include "engine/store/home.h"
#include "engine/store/lead.h"

/* ---- the size of a run ---- */

struct size_job {
    struct host_job job;
    int64_t bytes;
};

static void add_up(struct host_job *job)
{
    struct fr_buf path = {0};

    fr_home_at(job->home, FR_HOME_RUN, job->run, &path);
    ((struct size_job *)job)->bytes = path.bad ? 0 : fr_tree_bytes(path.p);
    fr_buf_finish(&path);
}

static const struct job_ops size_ops = {.in_thread = add_up};

struct host_job *size_begin(struct fr_host *host, struct fr_id run)
{
    struct host_job *job = job_add(host, &size_ops, sizeof(struct size_job), run);

    if (job != NULL)
        job_start_all(host);
    return job;
}

int64_t size_bytes(const struct host_job *job)
{
    return ((const struct size_job *)job)->bytes;
}

/* ---- what no row knows ---- */

struct sweep_job {
    struct host_job job;
    struct fr_swept swept;
    struct fr_lead lead; /* the host's */
};

/* What a sweep removes it removes as the host: not beside another one that has followed it. */
static enum fr_rc take_lead(struct host_job *job)
{
    struct fr_store *st = job->host->env.store;
    enum fr_rc rc = FR_OK;

    if (!fr_store_get_lead(st).raised && (rc = fr_store_begin(st, &job->err)) == FR_OK)
        rc = fr_store_commit(st, &job->err);
    ((struct sweep_job *)job)->lead = fr_store_get_lead(st);
    return rc;
}

static enum fr_rc copy_lead(struct host_job *job)
{
    ((struct sweep_job *)job)->lead = fr_store_get_lead(job->host->env.store);
    return FR_OK;
}

static struct fr_store *open_store(struct host_job *job)
{
    struct fr_store *st = NULL;

    if (fr_store_open(job->home, &st, &job->err) == FR_OK)
        fr_store_set_lead(st, ((struct sweep_job *)job)->lead);
    return st;
}

static void sweep(struct host_job *job)
{
    struct fr_store *st = open_store(job);

    if (st != NULL)
        (void)fr_retain_sweep(st, false, &((struct sweep_job *)job)->swept, &job->err);
    fr_store_close(st);
}

static void tidy(struct host_job *job)
{
    struct fr_store *st = open_store(job);

    if (st != NULL)
        fr_blob_tidy(st);
    fr_store_close(st);
}

static bool nobody_asks(struct host_job *job)
{
    (void)job;
    return true;
}

static const struct job_ops sweep_ops = {.alone = true, .begin = take_lead, .in_thread = sweep};
static const struct job_ops tidy_ops = {
    .alone = true, .begin = copy_lead, .in_thread = tidy, .unasked = nobody_asks};

static struct host_job *begin(struct fr_host *host, const struct job_ops *ops, struct fr_id run)
{
    struct host_job *job = job_add(host, ops, sizeof(struct sweep_job), run);

    if (job != NULL)
        job_start_all(host);
    return job;
}

struct host_job *sweep_begin(struct fr_host *host, struct fr_id run)
{
    return begin(host, &sweep_ops, run);
}

struct fr_swept sweep_result(const struct host_job *job)
{
    return ((const struct sweep_job *)job)->swept;
}

struct host_job *untidy_begin(struct fr_host *host)
{
    return begin(host, &tidy_ops, (struct fr_id){{0}});
}

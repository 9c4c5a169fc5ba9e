/* What a host goes on with that another one had before: runs, and the last output of ended ones. */
#include "engine/host/host.h"
#include "engine/runs/state.h"

#include "engine/base/log.h"
#include "engine/store/unfetched.h"

/* Nobody left it; or it is queued: leaving it stopped nothing, so its turn still comes. */
static bool goes_on(const struct fr_run_row *row)
{
    return row->host != 0 || row->state == FR_RUN_QUEUED;
}

static enum fr_rc take_up(struct fr_host *host, struct fr_id run, int64_t no, struct fr_err *err)
{
    struct fr_issues issues = {0};
    struct host_run *h = NULL;
    struct fr_err why = {0};
    char id[FR_ID_TEXT];
    struct fr_resume_opts opts = {.run = id};

    if (host_find(host, run) != NULL)
        return FR_OK;
    fr_id_text(run, id);
    if (host_resume(host, &opts, NULL, &h, &issues, &why) != FR_OK && why.rc != FR_NOMEM)
        fr_log(FR_LOG_WARN, "host", "run=%lld not gone on with: %s", (long long)no, why.msg);
    fr_issues_finish(&issues);
    return why.rc == FR_NOMEM ? fr_fail(err, FR_NOMEM, "%s", why.msg) : FR_OK;
}

enum fr_rc fr_host_recover(struct fr_host *host, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_run_rows rows = {0};
    enum fr_rc rc = fr_store_runs_open(host->env.store, &arena, &rows, err);

    for (size_t i = rows.n; rc == FR_OK && i-- > 0;)
        if (goes_on(&rows.rows[i]))
            rc = take_up(host, rows.rows[i].id, rows.rows[i].no, err);
    fr_arena_finish(&arena);
    if (rc == FR_OK)
        fr_host_fetch(host);
    return rc;
}

/* Fetches the rest of its output, if there is any. */
static enum fr_rc fetch(struct fr_host *host, const struct fr_unfetched_row *row,
                        struct fr_err *err)
{
    bool lacks = false;
    enum fr_rc rc;

    if (host_find(host, row->run) != NULL)
        return FR_OK;
    rc = fr_store_lacks_output(host->env.store, row->run, &lacks, err);
    if (rc != FR_OK)
        return rc;
    return lacks ? take_up(host, row->run, row->no, err)
                 : fr_store_run_host(host->env.store, row->run, 0, err);
}

void fr_host_fetch(struct fr_host *host)
{
    struct fr_arena arena = {0};
    struct fr_unfetched_rows rows = {0};
    struct fr_err err = {0};
    enum fr_rc rc = fr_store_unfetched(host->env.store, &arena, &rows, &err);

    for (size_t i = 0; rc == FR_OK && i < rows.n; i++)
        rc = fetch(host, &rows.rows[i], &err);
    if (rc != FR_OK)
        fr_log(FR_LOG_WARN, "host", "output of ended runs is not fetched now: %s", err.msg);
    fr_arena_finish(&arena);
}

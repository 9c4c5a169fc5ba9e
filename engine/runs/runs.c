/* The list of runs of a host, and how long each is driven. */
#include "engine/runs/private.h"

enum { PARK_MS = 5000 /* a follower may come, or come again, so long */ };

struct host_run *host_find(const struct fr_host *host, struct fr_id run)
{
    for (size_t i = 0; i < host->n; i++)
        if (fr_id_eq(fr_run_id(host->runs[i]->run), run))
            return host->runs[i];
    return NULL;
}

struct host_run *host_find_no(const struct fr_host *host, int64_t no)
{
    for (size_t i = 0; i < host->n; i++)
        if (fr_run_no(host->runs[i]->run) == no)
            return host->runs[i];
    return NULL;
}

void host_forget(struct fr_host *host, struct host_run *h)
{
    for (size_t i = 0; i < host->n; i++)
        if (host->runs[i] == h) {
            host->runs[i] = host->runs[--host->n];
            host_run_step(h, HOST_RUN_GONE);
            host_free_run(h);
            shell_agents(host);
            return;
        }
}

/* Parks the run: it has no host, and its tasks continue. */
static enum fr_rc park(struct host_run *h, struct fr_err *err)
{
    struct fr_store *st = h->host->env.store;
    enum fr_rc rc = fr_store_begin(st, err);

    if (rc == FR_OK)
        rc = fr_store_run_host(st, fr_run_id(h->run), 0, err);
    return fr_store_end(st, rc, err);
}

/* Its tasks have ended; at most output is still to be fetched. */
static bool has_ended(const struct host_run *h)
{
    return fr_run_now(h->run).state == FR_RUN_OVER;
}

/* The run leaves before its end, or its output did not come. An ended run whose output is missing
 * is left to the next host. */
static bool is_given_up(const struct host_run *h)
{
    if (fr_run_over(h->run))
        return fr_run_record(h->run)->host != 0;
    return h->mine && !has_ended(h);
}

void fr_host_drop(struct fr_host *host, struct fr_run *run)
{
    struct host_run *h = host_find(host, fr_run_id(run));

    if (h == NULL)
        return;
    if (is_given_up(h))
        (void)park(h, NULL); /* if this cannot be written, it is left as by a kill */
    host_run_step(h, HOST_RUN_LEAVES);
    host_forget(host, h);
}

static bool is_driven(const struct host_run *h)
{
    return h->mine || h->host->config.stays || h->followers > 0 || h->cancelled || has_ended(h);
}

enum fr_rc host_give_up(struct host_run *h, struct fr_err *err)
{
    struct fr_host *host = h->host;
    struct fr_err why = {0};

    fr_run_say(h->run, err->msg);
    host_run_step(h, HOST_RUN_LEAVES);
    (void)park(h, &why); /* if this cannot be written, the home's next host finds it left */
    host_forget(host, h);
    return why.rc == FR_DENIED ? fr_fail(err, FR_DENIED, "%s", why.msg) : FR_OK;
}

enum fr_rc host_tidy(struct fr_host *host, struct fr_err *err)
{
    int64_t now = fr_sys.mono_ms();

    for (size_t i = host->n; i-- > 0;) {
        struct host_run *h = host->runs[i];

        host_run_step(h, HOST_RUN_SETTLED);
        if (h->mine)
            continue;
        if (fr_run_over(h->run)) {
            fr_host_drop(host, h->run);
        } else if (!is_driven(h) && now >= h->alone_ms + PARK_MS && h->due.commit_ms == INT64_MAX) {
            struct fr_err why = {0};

            if (park(h, &why) == FR_DENIED)
                return fr_fail(err, FR_DENIED, "%s", why.msg);
            if (why.rc == FR_OK) {
                host_forget(host, h);
                if (host_step(host, HOST_PARKED, &why) == FR_NOMEM)
                    return fr_fail(err, FR_NOMEM, "%s", why.msg);
            } else {
                h->alone_ms = now; /* a full disk: later */
            }
        }
    }
    return FR_OK;
}

int64_t host_tidy_due(const struct fr_host *host)
{
    int64_t due = INT64_MAX;

    for (size_t i = 0; i < host->n; i++) {
        const struct host_run *h = host->runs[i];

        if (!is_driven(h) && h->due.commit_ms == INT64_MAX && h->alone_ms + PARK_MS < due)
            due = h->alone_ms + PARK_MS;
    }
    return due;
}

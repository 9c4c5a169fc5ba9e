/*
 * Beginning or going on with a run, wherever its host is.
 *
 * Who finds the home without a host is it. Else the run is handed to the host and followed: what is
 * shown comes from the store and the logs (follow.h), the host's stream only says that there is
 * news. When the host goes, its stream ends: whoever is first to take the home's lock is the next
 * host and goes on with its run, behind what it has shown; the others follow that one.
 *
 * A flowrun inside a task of the home is never its host: it would wait for itself. Without a host
 * it says so once and waits as long as its task lives: whoever resumes a run is the next host, and
 * it goes on there. It ends when its task is stopped: by the task's timeout, or with its run.
 */
#include "engine/client/attached_run.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/store/home.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    AGAIN_MS = 10,     /* between two tries to be the host or to find it */
    SILENT_MS = 10000, /* the host does not answer so long: somebody has to look at it */
    ALONE_MS = 1000,   /* one inside a task says after so long that there is no host */
};

static bool is_nested(const struct cli_drive *d)
{
    const char *home = getenv("FLOWRUN_HOME_ID");
    struct fr_store *st = NULL;
    char id[FR_ID_TEXT] = "";

    if (getenv("FLOWRUN_ATTEMPT") == NULL || home == NULL ||
        fr_store_open_read(d->home.p, &st, NULL) != FR_OK)
        return false;
    fr_id_text(fr_store_home_id(st), id);
    fr_store_close(st);
    return strcmp(id, home) == 0;
}

/* Reports the error. A run that a host had until now is left. */
static enum cli_exit fail(struct cli_drive *d, const struct attached_run *a,
                          const struct fr_issues *issues, const struct fr_err *err)
{
    enum cli_exit code = cli_fail_issues(issues, err);

    if (a->taken)
        cli_show_say(d->show, "tasks go on; 'flowrun resume %lld' takes over",
                     (long long)cli_follow_row(a->f)->no);
    return code;
}

/* As the host. */
static enum cli_exit go_here(struct cli_drive *d, struct cli_wish *wish, struct attached_run *a)
{
    struct fr_host_own own = {cli_shell(d->paths.cwd), cli_show_view(d->show)};
    struct fr_issues issues = {0};
    struct fr_run *run = NULL;
    struct fr_err err = {0};
    bool over = false;
    enum cli_exit code;
    enum fr_rc rc = attached_run_take_over(a, wish, &over, &err);

    if (rc == FR_OK && over) {
        cli_unlead(d);
        return attached_run_end(a);
    }
    if (rc == FR_OK)
        rc = wish->submit != NULL
                 ? fr_host_submit(d->host, wish->submit, &own, &run, &issues, &err)
                 : fr_host_resume(d->host, &wish->resume, &own, &run, &issues, &err);
    if (rc == FR_OK)
        fr_host_fetch(d->host);
    code = rc == FR_OK ? cli_drive(d, run) : fail(d, a, &issues, &err);
    fr_issues_finish(&issues);
    return code;
}

/* The host lives and does not answer. */
static enum cli_exit fail_silent(const struct cli_drive *d)
{
    struct fr_home_who host = {0};
    const char *home = d->home.p;
    char pid[24] = "PID", who[64] = "'fuser host.lock' there names its PID";

    (void)fr_home_leader(home, &host, NULL);
    if (host.pid != 0) { /* it has said who it is */
        snprintf(pid, sizeof(pid), "%" PRId64, host.pid);
        snprintf(who, sizeof(who), "pid %s", pid);
    }
    fr_complain(
        "flowrun: the host of %s (%s) does not answer; it may be stopped (kill -CONT %s) or hang: "
        "end it with 'kill %s', tasks go on and the next flowrun takes over; what was asked of it "
        "may still be done ('flowrun runs' shows it)\n",
        home, who, pid, pid);
    return CLI_OWNED;
}

/* Tries once to be the host or to follow it. *again: neither, so far. */
static enum cli_exit try_once(struct cli_drive *d, struct cli_wish *wish, struct attached_run *a,
                              bool *again)
{
    struct fr_err err = {0};
    enum cli_exit code = CLI_OK;
    enum fr_rc rc = d->nested ? FR_BUSY : cli_lead(d, &err);

    *again = false;
    if (rc == FR_OK)
        return go_here(d, wish, a);
    if (rc != FR_BUSY)
        return fail(d, a, &(struct fr_issues){0}, &err);
    rc = attached_run_go(a, wish, &code, &err);
    *again = rc == FR_UNREACHABLE;
    if (rc == FR_OK || *again)
        return code;
    if (rc == FR_TIMEOUT)
        return fail_silent(d);
    return fail(d, a, &a->answer.issues, &err);
}

/* The host of the moment, and since when it does not answer. */
struct silence {
    int64_t pid, since_ms;
};

static int64_t silent_ms(struct silence *s, const struct cli_drive *d, bool followed)
{
    struct fr_home_who host = {0};
    int64_t now = fr_sys.mono_ms();

    (void)fr_home_leader(d->home.p, &host, NULL);
    if (followed || host.pid != s->pid) /* it went just now, or another one came */
        *s = (struct silence){host.pid, now};
    return now - s->since_ms;
}

static void say_alone(const struct cli_drive *d)
{
    const char *run = getenv("FLOWRUN_RUN");

    cli_show_say(d->show,
                 "the home %s has no host now, and a flowrun inside a task cannot be it: this one "
                 "waits until 'flowrun resume %.8s' or another flowrun is the host, or its task is "
                 "stopped",
                 d->home.p, run != NULL ? run : "");
}

enum cli_exit cli_go(struct cli_drive *d, struct cli_wish *wish)
{
    struct attached_run a = {.d = d};
    bool again = true, said = false;
    enum cli_exit code = CLI_OK;
    struct silence silence = {.pid = -1}; /* none was looked at */
    int64_t silent;
    struct fr_err err = {0};

    d->nested = is_nested(d);
    while (again && !d->leave) {
        a.followed = false;
        code = try_once(d, wish, &a, &again);
        silent = again ? silent_ms(&silence, d, a.followed) : 0;
        if (d->nested && !said && silent > ALONE_MS) {
            say_alone(d);
            said = true;
        }
        if (!d->nested && silent > SILENT_MS) {
            code = fail_silent(d);
            again = false;
        } else if (again && cli_pause(d, AGAIN_MS, &err) != FR_OK) {
            code = cli_fail(&err);
            again = false;
        }
    }
    if (again)
        code = cli_left(d);
    if (d->shown)
        cli_show_end(d->show);
    cli_show_destroy(d->show); /* it borrows from what is freed now */
    d->show = NULL;
    attached_run_finish(&a);
    return code;
}

/*
 * Begins or resumes a run, wherever its host is.
 *
 * A process that finds the home without a host becomes the host. Otherwise it hands the run to the
 * host and follows: it shows the store and the logs (follow.h), and the host's stream only signals
 * news. When the host ends, its stream ends. The first process that takes the home's lock is the
 * next host; it resumes its run after the last shown line, and the others follow it.
 *
 * A flowrun inside a task of the home never becomes the host, since it would wait for itself.
 * Without a host it prints that once and waits, until another flowrun is the host or its task is
 * stopped.
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
    AGAIN_MS = 10,     /* between two tries to become or to find the host */
    SILENT_MS = 10000, /* after so long without an answer, the user has to look at the host */
    ALONE_MS = 1000,   /* after so long, a flowrun inside a task prints that there is no host */
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

/* Prints the error, and that the run's tasks go on if a host took the run. */
static enum cli_exit fail(struct cli_drive *d, const struct attached_run *a,
                          const struct fr_issues *issues, const struct fr_err *err)
{
    enum cli_exit code = cli_fail_issues(issues, err);

    if (a->taken)
        cli_show_say(d->show, "tasks go on; 'flowrun resume %lld' takes over",
                     (long long)cli_follow_row(a->f)->no);
    return code;
}

/* Goes on as the host. */
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
    if (host.pid != 0) { /* its identity is known */
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

/* Tries once to become the host or to follow it. *again: neither worked. */
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

/* The present host, and since when it does not answer. */
struct silence {
    int64_t pid, since_ms;
};

static int64_t silent_ms(struct silence *s, const struct cli_drive *d, bool followed)
{
    struct fr_home_who host = {0};
    int64_t now = fr_sys.mono_ms();

    (void)fr_home_leader(d->home.p, &host, NULL);
    if (followed || host.pid != s->pid) /* the host ended just now, or another one began */
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
    struct silence silence = {.pid = -1}; /* no host was seen yet */
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
    cli_show_destroy(d->show); /* it borrows from a */
    d->show = NULL;
    attached_run_finish(&a);
    return code;
}

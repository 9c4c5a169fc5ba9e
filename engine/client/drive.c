/* A process that shows a run: loop, view, Ctrl-C; and as the home's host, the run's end. */
#include "engine/client/session.h"
#include "engine/show/model.h"
#include "engine/client/waiting.h"

#include "engine/base/sys.h"
#include "engine/spec/config.h"
#include "engine/store/home.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum {
    STOP_MS = 1000,  /* from the first Ctrl-C to its effect: time for the second */
    OWED_MS = 15000, /* time for what the host owes */
};

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

const char *cli_getenv(void *self, const char *name)
{
    (void)self;
    return getenv(name);
}

struct fr_run_shell cli_shell(const char *cwd)
{
    return (struct fr_run_shell){.cwd = cwd, .getenv = cli_getenv, .umask = fr_sys.umask()};
}

/* ---- Ctrl-C ---- */

static void on_stop(void *arg)
{
    struct cli_drive *d = arg;

    d->stopping = true;
    d->stop(d->stop_arg);
}

static void stop_in(struct cli_drive *d, int64_t ms)
{
    if (!d->stop_said)
        cli_show_say(d->show, "stopping all tasks of run %lld; Ctrl-C again leaves them running",
                     (long long)d->run_no);
    d->stop_said = true;
    fr_loop_arm_in(&d->loop, d->stop_timer, ms);
}

static void on_signal(void *arg, int signo)
{
    struct cli_drive *d = arg;

    if (signo == SIGINT && (d->stop != NULL || d->asks) && d->interrupts++ == 0) {
        if (d->stop != NULL)
            stop_in(d, STOP_MS);
        return;
    }
    if (signo == SIGHUP && d->stays) {
        d->reload = true;
        return;
    }
    d->leave = true;
    d->why = signo != SIGINT ? strsignal(signo) : d->interrupts > 0 ? "Ctrl-C twice" : "Ctrl-C";
}

static enum fr_rc watch_signals(struct cli_drive *d, struct fr_err *err)
{
    enum fr_rc rc = fr_loop_timer(&d->loop, on_stop, d, &d->stop_timer);

    for (size_t i = 0; rc == FR_OK && i < sizeof(signals) / sizeof(signals[0]); i++)
        rc = fr_loop_signal(&d->loop, signals[i], on_signal, d, &d->watches[i]);
    return rc == FR_OK ? FR_OK : fr_fail(err, rc, "no memory to wait for signals");
}

void cli_on_stop(struct cli_drive *d, int64_t no, void (*stop)(void *arg), void *arg)
{
    d->run_no = no;
    d->stop = stop;
    d->stop_arg = arg;
    if (stop == NULL && d->stop_timer != NULL)
        fr_loop_arm(&d->loop, d->stop_timer, -1);
    else if (d->interrupts > 0) /* Ctrl-C came before a host had the run */
        stop_in(d, 0);
}

static void on_pause(void *arg)
{
    (void)arg; /* the turn ends */
}

enum fr_rc cli_pause(struct cli_drive *d, int64_t ms, struct fr_err *err)
{
    struct fr_timer *timer = NULL;
    enum fr_rc rc = fr_loop_timer(&d->loop, on_pause, NULL, &timer);

    if (rc != FR_OK)
        return fr_fail(err, rc, "no memory for a timer");
    cli_out_flush(d->out);
    fr_loop_arm_in(&d->loop, timer, ms);
    rc = fr_loop_turn(&d->loop, true, err);
    fr_loop_untimer(&d->loop, &timer);
    return rc;
}

enum cli_exit cli_left(const struct cli_drive *d)
{
    const struct cli_model *m = cli_show_model(d->show);
    long long no = (long long)m->no; /* set even before a host has the run */

    if (m->now.state == FR_RUN_QUEUED)
        cli_show_say(
            d->show,
            "left (%s): run %lld stays queued; a 'flowrun serve' starts it in its turn, as "
            "'flowrun resume %lld' does; 'flowrun cancel %lld' ends it",
            d->why, no, no, no);
    else if (d->run_no == 0)
        cli_show_say(
            d->show,
            "left (%s) before a host had the run; 'flowrun runs' shows whether one took it "
            "meanwhile",
            d->why);
    else if (d->stopping)
        cli_show_say(d->show,
                     "left (%s): tasks were already asked to stop, and do so by themselves; "
                     "'flowrun resume %lld' takes over until they have",
                     d->why, (long long)d->run_no);
    else
        cli_show_say(d->show,
                     "left (%s): tasks go on; 'flowrun resume %lld' takes over, "
                     "'flowrun cancel %lld' stops them",
                     d->why, (long long)d->run_no, (long long)d->run_no);
    return CLI_LEFT;
}

/* ---- the process ---- */

enum fr_rc cli_drive_show(struct cli_drive *d, const struct cli_show_opts *how, struct fr_err *err)
{
    struct cli_show_opts so = *how;
    enum fr_rc rc = d->loop.ops == NULL ? fr_loop_event_create(&d->loop, err) : FR_OK;

    if (rc == FR_OK)
        rc = cli_out_create(&d->out, &d->loop, how->json, err);
    so.loop = &d->loop;
    so.out = d->out;
    if (rc == FR_OK)
        rc = cli_show_create(&d->show, &so, err);
    return rc == FR_OK ? watch_signals(d, err) : rc;
}

enum fr_rc cli_drive_init(struct cli_drive *d, const struct cli_show_opts *how, struct fr_err *err)
{
    enum fr_rc rc = d->paths.self == NULL ? cli_paths_find(&d->paths, err) : FR_OK;

    d->links.flownode_dir = d->paths.flownode_dir;
    if (rc == FR_OK)
        rc = cli_home(&d->home, err);
    return rc == FR_OK ? cli_drive_show(d, how, err) : rc;
}

void cli_drive_finish(struct cli_drive *d)
{
    cli_on_stop(d, 0, NULL, NULL); /* from now on a signal ends the wait for the reader */
    cli_unlead(d);
    cli_show_destroy(d->show);
    if (d->out != NULL)
        cli_out_drain(d->out, &d->leave); /* messages from before or after the run */
    cli_out_destroy(d->out);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (d->watches[i] != NULL)
            fr_loop_unwatch(&d->loop, &d->watches[i]);
    if (d->stop_timer != NULL)
        fr_loop_untimer(&d->loop, &d->stop_timer);
    fr_loop_destroy(&d->loop);
    cli_paths_finish(&d->paths);
    fr_buf_finish(&d->home);
}

/* ---- the host ---- */

enum fr_rc cli_configure(struct cli_drive *d, struct fr_err *err)
{
    struct fr_config *config = NULL;
    struct fr_issues issues = {0};
    enum fr_rc rc = cli_config(NULL, &config, &issues, err);

    if (rc == FR_OK)
        rc = fr_host_configure(d->host, config, err);
    fr_config_destroy(config);
    fr_issues_finish(&issues);
    return rc;
}

enum fr_rc cli_lead(struct cli_drive *d, struct fr_err *err)
{
    struct fr_run_env env = {
        .loop = &d->loop, .self = d->paths.self, .program = cli_program, .program_arg = &d->paths};
    struct fr_buf sock = {0};
    enum fr_rc rc = fr_home_lead(d->home.p, &d->lock_fd, err);

    if (rc != FR_OK)
        return rc;
    d->leads = true;
    rc = fr_store_open(d->home.p, &d->store, err);
    env.store = d->store;
    if (rc == FR_OK)
        rc = fr_host_create(&env, &d->links, &d->host, err);
    if (rc == FR_OK)
        fr_host_lock(d->host, &d->lock_fd);
    if (rc == FR_OK)
        rc = cli_configure(d, err);
    fr_home_sock(d->home.p, &sock);
    if (rc == FR_OK && sock.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for a path");
    if (rc == FR_OK) {
        d->api = fr_host_api(d->host);
        rc = fr_server_create(&d->loop, sock.p, &d->api, &d->server, err);
    }
    fr_buf_finish(&sock);
    if (rc == FR_NOTFOUND)
        err->rc = rc = FR_IO; /* the home is missing, not the named object */
    if (rc != FR_OK)
        cli_unlead(d);
    return rc;
}

void cli_unlead(struct cli_drive *d)
{
    fr_server_destroy(d->server);
    fr_host_destroy(d->host);
    fr_store_close(d->store);
    if (d->leads)
        fr_sys.close(d->lock_fd);
    d->server = NULL;
    d->host = NULL;
    d->store = NULL;
    d->leads = false;
}

static enum cli_exit turn_it(struct cli_drive *d, struct fr_run *run)
{
    struct fr_err err = {0};

    while (!fr_run_over(run) && !d->leave) {
        cli_out_flush(d->out);
        if (fr_host_turn(d->host, &err) != FR_OK) {
            cli_fail(&err);
            cli_show_say(d->show, "tasks go on; 'flowrun resume %lld' takes over",
                         (long long)fr_run_no(run));
            return err.rc == FR_DENIED ? CLI_HOME : CLI_INTERNAL;
        }
    }
    return d->leave ? cli_left(d) : cli_exit_of_run(cli_show_model(d->show));
}

static void stop_run(void *run)
{
    fr_run_cancel(run);
}

static void on_patience(void *over)
{
    *(bool *)over = true;
}

void cli_say_owed(struct cli_drive *d)
{
    struct fr_buf text = {0};
    struct fr_str rest, line;

    fr_host_owed(d->host, &text);
    rest = (struct fr_str){text.p, text.bad ? 0 : text.n};
    while (fr_next_line(&rest, &line))
        cli_show_say(d->show, "%.*s", (int)line.n, line.p);
    fr_buf_finish(&text);
}

/* Tries each due message about the run once, and gives its allocations back; the next host does the
 * rest. */
static void send_owed(struct cli_drive *d)
{
    struct fr_timer *timer = NULL;
    struct fr_err err = {0};
    bool over = d->leave || !fr_host_owes(d->host) ||
                fr_loop_timer(&d->loop, on_patience, &over, &timer) != FR_OK;

    if (!over)
        fr_loop_arm_in(&d->loop, timer, OWED_MS);
    while (!over && !d->leave && fr_host_owes(d->host) && fr_host_turn(d->host, &err) == FR_OK)
        cli_out_flush(d->out);
    fr_loop_untimer(&d->loop, &timer);
    cli_say_owed(d);
}

enum cli_exit cli_drive(struct cli_drive *d, struct fr_run *run)
{
    struct fr_err err = {0};
    enum cli_exit code;

    cli_on_stop(d, fr_run_no(run), stop_run, run);
    if (cli_show_begin(d->show, run, &err) == FR_OK) {
        cli_say_queued(d, d->store);
        code = turn_it(d, run);
    } else {
        code = cli_fail(&err);
    }
    cli_show_end(d->show);
    d->shown = false;
    cli_on_stop(d, 0, NULL, NULL);
    fr_host_drop(d->host, run);
    send_owed(d);
    cli_unlead(d); /* the home is free while the rest is printed */
    cli_out_drain(d->out, &d->leave);
    return code;
}

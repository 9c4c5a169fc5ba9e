/* Turning a run to its end, and what Ctrl-C means meanwhile. */
#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"

#include <signal.h>
#include <string.h>

enum { STOP_MS = 1000 }; /* between the first Ctrl-C and its effect: time for the second */

struct driver {
    struct cli_drive *d;
    struct fr_run *run;
    struct fr_timer *stop; /* armed by the first Ctrl-C */
    int interrupts;
    bool stopping;
    bool leave;
    const char *why;
};

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

enum fr_rc cli_drive_init(struct cli_drive *d, const struct cli_show_opts *how, struct fr_err *err)
{
    struct cli_show_opts so = *how;
    enum fr_rc rc = cli_paths_find(&d->paths, err);

    if (rc == FR_OK)
        rc = cli_store(&d->store, err);
    if (rc == FR_OK)
        rc = fr_loop_event_create(&d->loop, err);
    if (rc == FR_OK)
        rc = fr_host_create(&d->loop, d->store, &d->host, err);
    if (rc == FR_OK)
        rc = fr_nodes_create(&d->nodes,
                             &(struct fr_nodes_args){.loop = &d->loop,
                                                     .control = fr_store_home_id(d->store),
                                                     .flownode_dir = d->paths.flownode_dir,
                                                     .home = fr_store_home(d->store)},
                             err);
    if (rc == FR_OK)
        rc = cli_out_create(&d->out, &d->loop, how->json, err);
    so.loop = &d->loop;
    so.out = d->out;
    if (rc == FR_OK)
        rc = cli_show_create(&d->show, &so, err);
    if (rc != FR_OK)
        return rc;
    d->env = (struct fr_run_env){.loop = &d->loop,
                                 .store = d->store,
                                 .view = cli_show_view(d->show),
                                 .nodes = d->nodes,
                                 .self = d->paths.self,
                                 .program = cli_program,
                                 .program_arg = &d->paths,
                                 .cwd = d->paths.cwd};
    return FR_OK;
}

void cli_drive_finish(struct cli_drive *d)
{
    bool leave = false;

    cli_show_destroy(d->show);
    if (d->out != NULL)
        cli_out_drain(d->out, &leave); /* what went wrong before the run, or behind it */
    cli_out_destroy(d->out);
    fr_host_destroy(d->host);
    fr_nodes_destroy(d->nodes);
    fr_loop_destroy(&d->loop);
    fr_store_close(d->store);
    cli_paths_finish(&d->paths);
}

static void on_stop(void *arg)
{
    struct driver *dr = arg;

    dr->stopping = true;
    fr_run_cancel(dr->run);
}

static void on_signal(void *arg, int signo)
{
    struct driver *dr = arg;

    if (signo == SIGINT && dr->run != NULL && dr->interrupts++ == 0) {
        cli_show_say(dr->d->show,
                     "stopping all tasks of run %lld; Ctrl-C again leaves them running",
                     (long long)fr_run_no(dr->run));
        fr_loop_arm_in(&dr->d->loop, dr->stop, STOP_MS);
        return;
    }
    dr->leave = true;
    dr->why = signo == SIGINT ? "Ctrl-C twice" : strsignal(signo);
}

static enum cli_exit turn_it(struct driver *dr, struct fr_err *err)
{
    struct fr_run *run = dr->run;

    while (!fr_run_over(run) && !dr->leave) {
        cli_out_flush(dr->d->out);
        if (fr_host_turn(dr->d->host, err) != FR_OK) {
            cli_fail(err);
            cli_show_say(dr->d->show, "tasks go on; 'flowrun resume %lld' takes over",
                         (long long)fr_run_no(run));
            return err->rc == FR_DENIED ? CLI_HOME : CLI_INTERNAL;
        }
    }
    if (dr->leave && dr->stopping)
        cli_show_say(dr->d->show,
                     "left (%s): tasks were already asked to stop, and do so by themselves; "
                     "'flowrun resume %lld' takes over until they have",
                     dr->why, (long long)fr_run_no(run));
    else if (dr->leave)
        cli_show_say(dr->d->show,
                     "left (%s): tasks go on; 'flowrun resume %lld' takes over, "
                     "'flowrun cancel %lld' stops them",
                     dr->why, (long long)fr_run_no(run), (long long)fr_run_no(run));
    if (dr->leave)
        return CLI_LEFT;
    return cli_exit_of_run(cli_show_model(dr->d->show));
}

enum cli_exit cli_drive(struct cli_drive *d, struct fr_run *run)
{
    struct driver dr = {.d = d, .run = run};
    struct fr_watch *watches[sizeof(signals) / sizeof(signals[0])] = {NULL};
    struct fr_err err = {0};
    enum cli_exit code = CLI_INTERNAL;
    enum fr_rc rc = fr_host_add(d->host, run, &err);

    if (rc != FR_OK)
        return cli_fail(&err);
    rc = fr_loop_timer(&d->loop, on_stop, &dr, &dr.stop);
    for (size_t i = 0; rc == FR_OK && i < sizeof(signals) / sizeof(signals[0]); i++)
        rc = fr_loop_signal(&d->loop, signals[i], on_signal, &dr, &watches[i]);
    if (rc != FR_OK)
        fr_fail(&err, rc, "no memory to wait for signals");
    if (rc == FR_OK)
        rc = cli_show_begin(d->show, run, &err);
    if (rc == FR_OK)
        code = turn_it(&dr, &err);
    else
        cli_fail(&err);
    cli_show_end(d->show);
    dr.run = NULL; /* over for this process: from now on a signal ends the wait for the reader */
    if (dr.stop != NULL)
        fr_loop_arm(&d->loop, dr.stop, -1);
    fr_host_drop(d->host, run);
    cli_out_drain(d->out, &dr.leave);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (watches[i] != NULL)
            fr_loop_unwatch(&d->loop, &watches[i]);
    if (dr.stop != NULL)
        fr_loop_untimer(&d->loop, &dr.stop);
    return code;
}

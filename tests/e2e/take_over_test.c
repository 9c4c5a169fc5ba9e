/*
 * Follows a run until nobody drives it, then drives it: what it prints is one story, as if the run
 * had had one owner. usage: take_over_test RUN
 */
#include "engine/cli/cli.h"
#include "engine/cli/follow.h"

#include "engine/base/log.h"
#include "engine/store/home.h"

#include <stdlib.h>

static void on_note(void *arg, const struct fr_note *note)
{
    cli_show_note(arg, note);
}

static void on_tick(void *arg)
{
    (void)arg;
}

/* Until the owner is gone; then all that it left. */
static enum fr_rc follow(struct cli_drive *d, struct cli_follow *f, struct fr_err *err)
{
    struct fr_timer *tick = NULL;
    bool owned = true;
    enum fr_rc rc = cli_show_begin_stored(d->show, cli_follow_row(f), cli_follow_plan(f), err);

    if (rc == FR_OK)
        rc = fr_loop_timer(&d->loop, on_tick, NULL, &tick);
    while (rc == FR_OK && owned) {
        bool more = false;

        owned = fr_home_owned(fr_store_home(d->store), cli_follow_row(f)->id);
        rc = owned ? cli_follow_news(f, &more, err) : cli_follow_catch_up(f, err);
        cli_out_flush(d->out);
        fr_loop_arm_in(&d->loop, tick, 5);
        if (rc == FR_OK)
            rc = fr_loop_turn(&d->loop, !more, err);
    }
    if (tick != NULL)
        fr_loop_untimer(&d->loop, &tick);
    return rc;
}

int main(int argc, char **argv)
{
    struct cli_show_opts how = {.verbose = true, .json = argc > 2};
    struct fr_resume_opts ro = {.run = argv[1]};
    struct cli_follow_opts fo = {.run = argv[1], .note = on_note};
    struct fr_issues issues = {0};
    struct cli_follow *f = NULL;
    struct cli_drive d = {0};
    struct fr_run *run = NULL;
    struct fr_err err = {0};
    enum fr_rc rc = argc > 1 ? cli_drive_init(&d, &how, &err) : FR_USAGE;
    int code;

    fo.store = d.store;
    fo.arg = d.show;
    if (rc == FR_OK)
        rc = cli_follow_create(&f, &fo, &err);
    if (rc == FR_OK)
        rc = follow(&d, f, &err);
    if (rc == FR_OK)
        rc = fr_run_resume(&d.env, &ro, &run, &issues, &err);
    code = rc == FR_OK ? (int)cli_drive(&d, run) : (int)cli_fail_issues(&issues, &err);
    cli_drive_finish(&d);
    cli_follow_destroy(f);
    fr_issues_finish(&issues);
    return code;
}

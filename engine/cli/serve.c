/* serve: a host that stays. It drives the runs that other shells hand to it, followed or not. */
#include "engine/cli/cli.h"

#include "engine/base/log.h"

/* After SIGHUP. A wrong configuration is not taken. */
static void reload(struct cli_drive *d)
{
    struct fr_err err = {0};

    d->reload = false;
    if (cli_configure(d, &err) == FR_OK)
        cli_show_say(d->show, "the configuration was read again");
    else
        cli_show_say(d->show, "the configuration stays as it was: %s", err.msg);
}

static enum fr_rc serve(struct cli_drive *d, struct fr_err *err)
{
    enum fr_rc rc = cli_lead(d, err);

    if (rc != FR_OK)
        return rc;
    fr_host_stay(d->host);
    d->stays = true;
    cli_show_say(d->show, "this is the host of %s; SIGTERM ends it, tasks go on", d->home.p);
    rc = fr_host_take_up(d->host, err);
    while (rc == FR_OK && !d->leave) {
        cli_out_flush(d->out);
        rc = fr_host_turn(d->host, err);
        if (rc == FR_OK && d->reload)
            reload(d);
    }
    return rc;
}

int cli_serve(const struct cli_command *cmd, char **argv)
{
    const struct cli_opt opts[] = {{.name = NULL}};
    struct cli_list args = {0};
    struct cli_drive d = {0};
    struct fr_err err = {0};
    enum fr_rc rc = cli_parse(cmd, opts, argv, &args, &err);
    int code;

    if (rc == FR_OK)
        rc = cli_args_between(cmd, &args, 0, 0, &err);
    if (rc == FR_OK)
        rc = cli_drive_init(&d, &(struct cli_show_opts){.quiet = true}, &err);
    if (rc == FR_OK)
        rc = serve(&d, &err);
    code = rc == FR_OK ? CLI_OK : (int)cli_fail(&err);
    cli_drive_finish(&d);
    cli_list_finish(&args);
    return code;
}

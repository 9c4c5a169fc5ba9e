/* serve: a host that stays. It drives the runs that other shells hand to it, followed or not. */
#include "engine/cli/cli.h"
#include "engine/cli/rotate.h"
#include "engine/cli/systemd.h"

#include "engine/base/log.h"

struct served {
    struct cli_drive drive;
    struct cli_systemd *systemd;
    const char *log; /* NULL: stdout and stderr as they are */
    bool log_failed; /* it could not be begun anew; said once */
};

/* After SIGHUP. A wrong configuration is not taken. */
static void reload(struct served *s)
{
    struct cli_drive *d = &s->drive;
    struct fr_err err = {0};

    d->reload = false;
    cli_systemd_reloading(s->systemd);
    if (cli_configure(d, &err) == FR_OK)
        cli_show_say(d->show, "the configuration was read again");
    else
        cli_show_say(d->show, "the configuration stays as it was: %s", err.msg);
    cli_systemd_ready(s->systemd);
}

/* What is done behind each turn. */
static void look_around(struct served *s)
{
    struct fr_host_load load = fr_host_load(s->drive.host);
    struct fr_err err = {0};

    cli_systemd_status(s->systemd, "%zu runs, %zu of them queued", load.runs, load.queued);
    if (s->drive.reload)
        reload(s);
    if (s->log == NULL)
        return;
    if (cli_rotate(s->log, CLI_ROTATE_BYTES, &err) != FR_OK && !s->log_failed)
        cli_show_say(s->drive.show, "the log goes on in the same file: %s", err.msg);
    s->log_failed = err.rc != FR_OK;
}

static enum fr_rc serve(struct served *s, struct fr_err *err)
{
    struct cli_drive *d = &s->drive;
    enum fr_rc rc = cli_lead(d, err);

    if (rc != FR_OK)
        return rc;
    fr_host_stay(d->host);
    d->stays = true;
    cli_show_say(d->show, "this is the host of %s; SIGTERM ends it, tasks go on", d->home.p);
    if ((rc = fr_host_take_up(d->host, err)) == FR_OK)
        cli_systemd_ready(s->systemd);
    while (rc == FR_OK && !d->leave) {
        cli_out_flush(d->out);
        if ((rc = fr_host_turn(d->host, err)) == FR_OK)
            look_around(s);
    }
    cli_systemd_stopping(s->systemd);
    return rc;
}

int cli_serve(const struct cli_command *cmd, char **argv)
{
    struct served s = {0};
    const struct cli_opt opts[] = {
        {.name = "--log",
         .meta = "FILE",
         .help = "write to FILE, which is begun anew at 8 MiB; FILE.1 to FILE.4 are older",
         .value = &s.log},
        {.name = NULL}};
    struct cli_list args = {0};
    struct fr_err err = {0};
    enum fr_rc rc = cli_parse(cmd, opts, argv, &args, &err);
    int code;

    if (rc == FR_OK)
        rc = cli_args_between(cmd, &args, 0, 0, &err);
    if (rc == FR_OK && s.log != NULL)
        rc = cli_rotate_open(s.log, &err);
    if (rc == FR_OK)
        rc = cli_drive_init(&s.drive, &(struct cli_show_opts){.quiet = true}, &err);
    if (rc == FR_OK)
        rc = cli_systemd_create(&s.drive.loop, &s.systemd, &err);
    if (rc == FR_OK)
        rc = serve(&s, &err);
    code = rc == FR_OK ? CLI_OK : (int)cli_fail(&err);
    cli_systemd_destroy(s.systemd);
    cli_drive_finish(&s.drive);
    cli_list_finish(&args);
    return code;
}

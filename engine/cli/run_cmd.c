/* run: makes a run of a pipeline file and shows it to its end. */
#include "engine/api/body.h"
#include "engine/cli/cli.h"

enum fr_rc cli_begin(struct cli_call *c, struct cli_wish *wish, const char *first,
                     struct fr_err *err)
{
    struct cli_show_opts how = cli_shown(c);
    struct cli_drive d = {0};
    enum fr_rc rc = cli_drive_init(&d, &how, err);

    if (rc == FR_OK && first != NULL)
        cli_show_say(d.show, "%s", first);
    if (rc == FR_OK)
        c->code = (int)cli_go(&d, wish);
    cli_drive_finish(&d);
    return rc;
}

enum fr_rc cli_submit_options(const struct cli_call *c, struct fr_submit *out, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (const struct body_key *key = body_keys(); rc == FR_OK && key->name != NULL; key++) {
        void *at = (char *)out + key->at;

        if (key->option == NULL || cli_option(c->cmd, key->option) == NULL)
            continue;
        if (key->kind == BODY_NUMBER)
            rc = cli_number(c, key->option, (struct cli_range){key->least, key->most}, at, err);
        else
            *(const char **)at = cli_value(c, key->option);
    }
    return rc;
}

enum fr_rc cli_run(struct cli_call *c, struct fr_err *err)
{
    struct fr_submit submit = {0};
    enum fr_rc rc = cli_submit_options(c, &submit, err);

    if (rc == FR_OK)
        rc = cli_pipeline(c, c->args.v[0], &submit.spec, err);
    if (rc == FR_OK)
        rc = fr_id_new(&submit.id, err);
    return rc == FR_OK ? cli_begin(c, &(struct cli_wish){.submit = &submit}, NULL, err) : rc;
}

/* run: a pipeline file becomes a run. */
#include "engine/cli/cli.h"

enum fr_rc cli_run(struct cli_call *c, struct fr_err *err)
{
    struct cli_show_opts how = cli_shown(c);
    struct fr_submit submit = {.occasion.at = cli_value(c, "--at")};
    struct cli_wish wish = {.submit = &submit};
    struct cli_drive d = {0};
    enum fr_rc rc = cli_number(c, "--priority", cli_any_number, &submit.priority, err);

    if (rc == FR_OK)
        rc = cli_pipeline(c, c->args.v[0], &submit.spec, err);
    if (rc == FR_OK)
        rc = fr_id_new(&submit.id, err);
    if (rc == FR_OK)
        rc = cli_drive_init(&d, &how, err);
    if (rc == FR_OK)
        c->code = (int)cli_go(&d, &wish);
    cli_drive_finish(&d);
    return rc;
}

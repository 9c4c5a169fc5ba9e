/* rerun: makes a new run from one that is over. */
#include "engine/cli/cli.h"

#include "engine/base/file.h"

#include <string.h>

/* *edited: the pipeline file differs from the run's copy. */
static enum fr_rc find(struct cli_call *c, struct fr_again *again, bool *edited, struct fr_err *err)
{
    struct fr_run_row row;
    char hash[FR_SHA256_TEXT];
    enum fr_rc rc = cli_store_read(&c->home.st, err);

    if (rc == FR_OK)
        rc = fr_store_run_find(c->home.st, c->args.v[0], &c->arena, &row, err);
    if (rc == FR_OK)
        rc = fr_run_again(c->home.st, &row, &c->arena, again, err);
    *edited = rc == FR_OK && fr_sha256_file(row.source, hash, NULL) == FR_OK &&
              strcmp(hash, row.spec_hash) != 0;
    cli_writer_close(&c->home);
    return rc;
}

enum fr_rc cli_rerun(struct cli_call *c, struct fr_err *err)
{
    struct fr_again again;
    struct fr_submit submit = {.again = &again};
    const char *first = NULL;
    bool edited;
    enum fr_rc rc = cli_submit_options(c, &submit, err);

    if (rc == FR_OK)
        rc = cli_pipeline(c, NULL, &submit.spec, err);
    if (rc == FR_OK)
        rc = find(c, &again, &edited, err);
    if (rc == FR_OK)
        rc = fr_id_new(&submit.id, err);
    if (rc == FR_OK && edited &&
        (first = fr_arena_fmt(&c->arena,
                              "%s was changed since run %lld began: that run's copy is used; "
                              "'flowrun run' takes the file as it is now",
                              again.row.source, (long long)again.row.no)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a message");
    return rc == FR_OK ? cli_begin(c, &(struct cli_wish){.submit = &submit}, first, err) : rc;
}

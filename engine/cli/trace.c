/* trace: prints a run as OTLP. */
#include "engine/cli/cli.h"
#include "engine/notify/trace.h"

enum fr_rc cli_trace_of(struct cli_call *c, const char *run, json_t **out, struct fr_err *err)
{
    struct fr_run_row row;
    enum fr_rc rc = cli_store_read(&c->home.st, err);

    *out = NULL;
    if (rc == FR_OK)
        rc = fr_store_run_find(c->home.st, run, &c->arena, &row, err);
    return rc == FR_OK ? fr_trace_run(c->home.st, &row, out, err) : rc;
}

enum fr_rc cli_trace(struct cli_call *c, struct fr_err *err)
{
    json_t *batches, *batch;
    size_t i;
    enum fr_rc rc = cli_trace_of(c, cli_arg(c, 0), &batches, err);

    json_array_foreach(batches, i, batch) cli_put_json(json_incref(batch));
    json_decref(batches);
    return rc;
}

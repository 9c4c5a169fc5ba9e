/* trace: a run as OTLP. */
#include "engine/cli/trace.h"

#include "engine/cli/cli.h"
#include "engine/notify/trace.h"

enum fr_rc cli_trace_of(const char *run, json_t **out, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct fr_store *st = NULL;
    struct fr_run_row row;
    enum fr_rc rc = cli_store_read(&st, err);

    *out = NULL;
    if (rc == FR_OK)
        rc = fr_store_run_find(st, run, &arena, &row, err);
    if (rc == FR_OK)
        rc = fr_trace_run(st, &row, out, err);
    fr_store_close(st);
    fr_arena_finish(&arena);
    return rc;
}

int cli_trace(const struct cli_command *cmd, char **argv)
{
    const struct cli_opt opts[] = {{.name = NULL}};
    struct cli_list args = {0};
    struct fr_err err = {0};
    json_t *batches = NULL, *batch;
    size_t i;
    enum fr_rc rc = cli_parse(cmd, opts, argv, &args, &err);

    if (rc == FR_OK)
        rc = cli_trace_of(args.n > 0 ? args.v[0] : NULL, &batches, &err);
    json_array_foreach(batches, i, batch) cli_put_json(json_incref(batch));
    json_decref(batches);
    cli_list_finish(&args);
    return rc == FR_OK ? CLI_OK : (int)cli_fail(&err);
}

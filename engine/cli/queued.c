#include "engine/cli/queued.h"

#include "engine/cli/show.h"
#include "engine/host/queue.h"

enum fr_rc cli_queue_why(struct fr_store *st, const struct fr_run_row *row, struct fr_buf *out,
                         struct fr_err *err)
{
    struct fr_config *config = NULL;
    struct fr_queue_limits limits;
    struct fr_issues issues = {0};
    struct fr_stored stored = {0};
    enum fr_rc rc = cli_config(NULL, &config, &issues, err);

    if (rc == FR_OK && (rc = fr_run_stored(fr_store_home(st), row, &stored, err)) == FR_OK) {
        limits.pipeline = stored.spec->max_active_runs;
        limits.home = config->limits.max_active_runs;
        rc = fr_queue_why(st, &limits, row, out, err);
    }
    fr_run_stored_finish(&stored);
    fr_config_destroy(config);
    fr_issues_finish(&issues);
    return rc;
}

void cli_say_queued(struct cli_drive *d, struct fr_store *st)
{
    const struct cli_model *m = cli_show_model(d->show);
    struct fr_arena arena = {0};
    struct fr_buf why = {0};
    struct fr_run_row row;
    struct fr_err err = {0};
    char id[FR_ID_TEXT];
    enum fr_rc rc;

    if (m->now.state != FR_RUN_QUEUED || d->show->opts.quiet)
        return;
    fr_id_text(m->id, id);
    rc = fr_store_run_find(st, id, &arena, &row, &err);
    if (rc == FR_OK)
        rc = cli_queue_why(st, &row, &why, &err);
    if (rc != FR_OK)
        cli_show_say(d->show, "run %lld is queued; why cannot be said: %s", (long long)m->no,
                     err.msg);
    else if (why.n > 0)
        cli_show_say(d->show, "run %lld is queued: %s", (long long)m->no, why.p);
    fr_buf_finish(&why);
    fr_arena_finish(&arena);
}

/* Why runs and tasks wait, as text. */
#include "engine/client/waiting.h"

#include "engine/show/private.h"
#include "engine/spec/config.h"
#include "engine/view/queue.h"
#include "engine/view/why.h"

/* Appends why the queued run waits; appends nothing if the run is about to start. */
static enum fr_rc queue_why(struct fr_store *st, const struct fr_run_row *row, struct fr_buf *out,
                            struct fr_err *err)
{
    struct fr_config *config = NULL;
    struct fr_queue_limits limits;
    struct fr_issues issues = {0};
    struct fr_stored stored = {0};
    enum fr_rc rc = cli_config(NULL, &config, &issues, err);

    if (rc == FR_OK && (rc = fr_run_stored(st, row, &stored, err)) == FR_OK) {
        limits.pipeline = stored.spec->max_active_runs;
        limits.home = &config->limits;
        limits.schedule = fr_run_stored_schedule(&stored, row);
        rc = fr_queue_why(st, &limits, row, out, err);
    }
    fr_run_stored_finish(&stored);
    fr_config_destroy(config);
    fr_issues_finish(&issues);
    return rc;
}

/* Sets *reason to the text of why, in arena, and frees why. */
static enum fr_rc keep_reason(struct fr_buf *why, struct fr_arena *arena, const char **reason,
                              struct fr_err *err)
{
    char *text = why->n > 0 && !why->bad ? fr_arena_text(arena, why->p, why->n) : NULL;
    bool bad = why->bad || (why->n > 0 && text == NULL);

    if (text != NULL)
        *reason = text;
    fr_buf_finish(why);
    *why = (struct fr_buf){0};
    return bad ? fr_fail(err, FR_NOMEM, "no memory for a reason") : FR_OK;
}

enum fr_rc cli_queue_reason(struct fr_store *st, struct fr_arena *arena, struct fr_run_row *row,
                            struct fr_err *err)
{
    struct fr_buf why = {0};

    if (queue_why(st, row, &why, err) != FR_OK) {
        why.n = 0;
        fr_buf_fmt(&why, "why cannot be said: %s", err->msg);
    }
    return keep_reason(&why, arena, &row->reason, err);
}

enum fr_rc cli_ready_reasons(struct fr_store *st, struct fr_arena *arena,
                             const struct fr_run_row *run, struct fr_inst_rows *rows,
                             struct fr_err *err)
{
    struct fr_stored stored = {0};
    struct fr_why why = {0};
    struct fr_err unread = {0};
    enum fr_rc rc = FR_OK;

    if (fr_run_stored(st, run, &stored, &unread) == FR_OK)
        rc = fr_why_open(&why, st, run->id, stored.plan, rows, err);
    for (size_t i = 0; stored.plan != NULL && rc == FR_OK && i < rows->n; i++) {
        struct fr_buf text = {0};
        struct fr_inst_row *row = &rows->rows[i];

        if (row->reason[0] == '\0')
            fr_why_ready(&why, row, &text);
        if (text.n > 0)
            rc = keep_reason(&text, arena, &row->reason, err);
    }
    fr_why_finish(&why);
    fr_run_stored_finish(&stored);
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

    if (d->show->opts.quiet)
        return;
    fr_id_text(m->id, id);
    rc = fr_store_run_find(st, id, &arena, &row, &err);
    if (rc == FR_OK && cli_is_queued(&row))
        rc = queue_why(st, &row, &why, &err);
    if (rc != FR_OK)
        cli_show_say(d->show, "run %lld is queued; why cannot be said: %s", (long long)m->no,
                     err.msg);
    else if (why.n > 0)
        cli_show_say(d->show, "run %lld is queued: %s", (long long)m->no, why.p);
    fr_buf_finish(&why);
    fr_arena_finish(&arena);
}

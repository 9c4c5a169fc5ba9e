/* queue: lists the queued runs and why each waits; cancels them, or changes a priority. */
#include "engine/cli/cli.h"
#include "engine/client/waiting.h"

#include "engine/base/log.h"
#include "engine/view/queue.h"
#include "engine/store/types.h"

#include <stdlib.h>
#include <string.h>

static json_t *queued_json(struct fr_store *st, const struct fr_run_row *r, size_t place)
{
    json_t *doc = fr_row_json(&fr_run_type, r);

    json_object_set_new(doc, "driven", json_boolean(cli_is_driven(st, r)));
    json_object_set_new(doc, "place", json_integer((json_int_t)place));
    json_object_set_new(doc, "why_waiting", json_string(r->reason));
    return doc;
}

static void print_queue(struct fr_store *st, const struct fr_run_rows *rows, bool json)
{
    if (!json && rows->n == 0)
        fr_print("no run is queued\n");
    else if (!json)
        fr_print("%5s  %5s  %-24s  %8s  %-19s  %s\n", "place", "run", "pipeline", "priority",
                 "queued", "waits for");
    for (size_t i = 0; i < rows->n; i++) {
        const struct fr_run_row *r = &rows->rows[i];
        char date[32];

        if (json) {
            cli_put_json(queued_json(st, r, i + 1));
            continue;
        }
        cli_date(r->queued_wall, date);
        fr_print("%5zu  %5lld  %-24s  %8lld  %-19s  %s", i + 1, (long long)r->no, r->name,
                 (long long)r->priority, date, r->reason);
        if (!cli_is_driven(st, r))
            fr_print("%sno flowrun looks after it: 'flowrun resume %lld' lets it start when it may",
                     r->reason[0] != '\0' ? "; " : "", (long long)r->no);
        fr_print("\n");
    }
}

/* Keeps only the queued runs, in the order in which they start. */
static enum fr_rc keep_queued(struct fr_store *st, struct fr_arena *arena, struct fr_run_rows *rows,
                              struct fr_err *err)
{
    size_t n = 0;
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < rows->n; i++)
        if (cli_is_queued(&rows->rows[i]))
            rows->rows[n++] = rows->rows[i];
    rows->n = n;
    if (n > 0)
        qsort(rows->rows, n, sizeof(*rows->rows), fr_queue_order);
    for (size_t i = 0; rc == FR_OK && i < n; i++)
        rc = cli_queue_reason(st, arena, &rows->rows[i], err);
    return rc;
}

/* Cancels from the end, so that no run starts in the place of a cancelled one. */
static enum fr_rc clear_queue(struct cli_call *c, const struct fr_run_rows *rows,
                              struct fr_err *err)
{
    const char *pipeline = cli_arg(c, 1);
    enum fr_rc rc = FR_OK;
    size_t n = 0;

    for (size_t i = rows->n; rc == FR_OK && i-- > 0;) {
        if (pipeline != NULL && strcmp(rows->rows[i].name, pipeline) != 0)
            continue;
        rc = cli_cancel_queued(c, &rows->rows[i], err);
        n++;
    }
    if (rc == FR_OK && n == 0 && !c->json)
        fr_print("no run %s%s%sis queued\n", pipeline != NULL ? "of " : "",
                 pipeline != NULL ? pipeline : "", pipeline != NULL ? " " : "");
    return rc;
}

static enum fr_rc set_priority(struct cli_call *c, struct fr_err *err)
{
    struct fr_run_row row;
    int64_t priority = 0;
    enum fr_rc rc = cli_writer_open(&c->home, err);

    if (rc == FR_OK)
        rc = cli_number(c, "--priority", cli_any_number, &priority, err);
    if (rc == FR_OK)
        rc = fr_store_run_find(c->home.st, c->args.v[0], &c->arena, &row, err);
    if (rc != FR_OK)
        return rc;
    if (!cli_is_queued(&row))
        return fr_fail(err, FR_USAGE, "run %lld does not wait in the queue: it is %s",
                       (long long)row.no, fr_run_word(row.state, row.outcome));
    return c->home.lock_fd >= 0
               ? fr_store_run_priority(c->home.st, row.id, priority, err)
               : cli_ask_run(c->home.st, row.id, "priority",
                             json_pack("{s:I}", "priority", (json_int_t)priority), err);
}

/* The arguments are clear [PIPELINE], RUN --priority N, or none. */
static enum fr_rc check_words(const struct cli_call *c, bool priority, struct fr_err *err)
{
    bool clears = c->args.n > 0 && strcmp(c->args.v[0], "clear") == 0;

    if (priority ? c->args.n == 1 && !clears : c->args.n == 0 || clears)
        return FR_OK;
    if (priority)
        return fr_fail(err, FR_USAGE, "queue: --priority is of one RUN");
    return fr_fail(err, FR_USAGE,
                   "'%s' is not known of the queue; expected clear [PIPELINE], or RUN --priority N",
                   c->args.v[0]);
}

enum fr_rc cli_queue(struct cli_call *c, struct fr_err *err)
{
    bool priority = cli_has(c, "--priority");
    struct fr_run_rows rows = {0};
    enum fr_rc rc = check_words(c, priority, err);

    if (rc == FR_OK)
        rc = priority ? set_priority(c, err) : cli_store_read(&c->home.st, err);
    if (rc == FR_OK)
        rc = fr_store_runs_open(c->home.st, &c->arena, &rows, err);
    if (rc == FR_OK)
        rc = keep_queued(c->home.st, &c->arena, &rows, err);
    if (rc == FR_OK && c->args.n > 0 && !priority)
        return clear_queue(c, &rows, err);
    if (rc == FR_OK)
        print_queue(c->home.st, &rows, c->json);
    return rc;
}

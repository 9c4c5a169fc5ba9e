/* The run that a command acts on when the user names none. */
#include "engine/client/session.h"

#include "engine/base/log.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LIST_MAX = 20 };

/* The words of each act, and which runs it takes. */
static const struct {
    const char *command, *done;
    bool driven; /* also a run that another flowrun drives */
} acts[] = {
    [CLI_PICK_RESUME] = {"resume", "resumed", false},
    [CLI_PICK_ABANDON] = {"resume", "resumed", true},
    [CLI_PICK_CANCEL] = {"cancel", "cancelled", true},
    [CLI_PICK_ATTACH] = {"attach", "followed", true},
};

/* Moves the rows that the act can take to the front, the newest first, and counts them. */
static size_t keep_possible(struct fr_store *st, enum cli_pick act, struct fr_run_rows *rows)
{
    size_t n = 0;

    for (size_t i = 0; i < rows->n; i++) {
        struct fr_run_row row = rows->rows[i];

        if (!acts[act].driven && cli_is_driven(st, &row))
            continue;
        rows->rows[i] = rows->rows[n];
        rows->rows[n++] = row;
    }
    return n;
}

/* rows is in the order of fr_store_runs_open(). */
static enum fr_rc fail_none(struct fr_store *st, enum cli_pick act, const struct fr_run_rows *rows,
                            struct fr_arena *arena, struct fr_err *err)
{
    const char *done = acts[act].done;
    struct fr_run_rows newest = {0};
    enum fr_rc rc;

    if (rows->n > 0)
        return fr_fail(err, FR_BUSY,
                       "no run can be %s: run %lld is driven by another flowrun; 'flowrun "
                       "attach %lld' follows it",
                       done, (long long)rows->rows[0].no, (long long)rows->rows[0].no);
    if ((rc = fr_store_runs(st, 1, arena, &newest, err)) != FR_OK)
        return rc;
    if (newest.n == 0)
        return fr_fail(err, FR_NOTFOUND, "no run can be %s: this home has no run yet", done);
    return fr_fail(err, FR_USAGE,
                   "no run can be %s: all are over, the newest is run %lld (%s); "
                   "'flowrun retry %lld' runs again what failed in it",
                   done, (long long)newest.rows[0].no, fr_outcome_name(newest.rows[0].outcome),
                   (long long)newest.rows[0].no);
}

static void describe(struct fr_store *st, const struct fr_run_row *row)
{
    const char *word = cli_run_word(st, row);
    char date[32];

    cli_date(row->started_wall, date);
    fr_complain("  %4lld  %-24s  started %s  %s%s\n", (long long)row->no, row->name, date, word,
                strcmp(word, "left") == 0 ? ": no flowrun looks after it" : "");
}

/* Asks the user; Enter takes the newest. SIZE_MAX: no answer that names one. */
static size_t ask(const struct fr_run_rows *rows, size_t n)
{
    char line[64] = "";
    struct fr_err err;
    int64_t no;

    fr_complain("which one? [%lld] ", (long long)rows->rows[0].no);
    if (fgets(line, sizeof(line), stdin) == NULL)
        return SIZE_MAX;
    line[strcspn(line, "\n")] = '\0';
    if (line[0] == '\0')
        return 0;
    if (fr_parse_i64(fr_str_of(line), &no, &err) != FR_OK)
        return SIZE_MAX;
    for (size_t i = 0; i < n; i++)
        if (rows->rows[i].no == no)
            return i;
    return SIZE_MAX;
}

static enum fr_rc pick_one(struct fr_store *st, enum cli_pick act, const struct fr_run_rows *rows,
                           size_t n, size_t *at, struct fr_err *err)
{
    const char *command = acts[act].command;

    *at = 0;
    if (n == 1)
        return FR_OK;
    fr_complain("flowrun: %zu runs can be %s:\n", n, acts[act].done);
    for (size_t i = 0; i < n && i < LIST_MAX; i++)
        describe(st, &rows->rows[i]);
    if (n > LIST_MAX)
        fr_complain("  … and %zu older ones\n", n - LIST_MAX);
    *at = isatty(0) && isatty(2) ? ask(rows, n) : SIZE_MAX;
    if (*at != SIZE_MAX)
        return FR_OK;
    return fr_fail(err, FR_USAGE, "name the run: 'flowrun %s %lld' takes the newest", command,
                   (long long)rows->rows[0].no);
}

enum fr_rc cli_pick_run(struct fr_store *st, const char *given, enum cli_pick act,
                        struct fr_arena *arena, struct fr_run_row *out, struct fr_err *err)
{
    struct fr_run_rows rows = {0};
    size_t n, at = 0;
    enum fr_rc rc;

    if (given != NULL)
        return fr_store_run_find(st, given, arena, out, err);
    rc = fr_store_runs_open(st, arena, &rows, err);
    if (rc != FR_OK)
        return rc;
    n = keep_possible(st, act, &rows);
    if (n == 0)
        return fail_none(st, act, &rows, arena, err);
    rc = pick_one(st, act, &rows, n, &at, err);
    if (rc != FR_OK)
        return rc;
    *out = rows.rows[at];
    fr_complain("flowrun: run %lld of %s is %s\n", (long long)out->no, out->name, acts[act].done);
    return FR_OK;
}

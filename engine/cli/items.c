#include "engine/cli/items.h"
#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/spec/kinds.h"

#include <string.h>

enum { VALUE_WIDE = 40 /* columns of a value; --json has the whole */ };

/* The items of a task and the outputs of these. */
struct items {
    const struct fr_inst_row *rows;
    const struct fr_output_row *outs;
    size_t n, n_outs;
    const char **names; /* owns: of outputs, each once */
    size_t n_names, cap;
    bool bad; /* no memory */
};

bool cli_is_item(const struct fr_inst_row *row)
{
    size_t n = strlen(row->task);

    return strncmp(row->key, row->task, n) == 0 && row->key[n] == '[';
}

int64_t cli_began(const struct fr_inst_row *r)
{
    struct fr_row row = {.state = r->state,
                         .attempt_no = (uint32_t)r->attempt_no,
                         .attempt_state = r->attempt_state,
                         .live = r->live != 0,
                         .cause = r->cause};

    return fr_row_began(&row);
}

/* The number of instances of the task that the one at i is the first of. */
static size_t task_at(const struct fr_inst_rows *insts, size_t i)
{
    size_t n = 1;

    while (i + n < insts->n && strcmp(insts->rows[i + n].task, insts->rows[i].task) == 0)
        n++;
    return n;
}

/* ---- tasks ---- */

/* The columns of an instance, its outputs left out: those in front of them, and that behind. */
static void print_begin(const struct fr_inst_row *r, int wide)
{
    char time[24];

    cli_took(r->started_wall, r->ended_wall, time);
    fr_print("%-*s  %-15s  %8lld  %8s", wide, r->key, fr_state_name(r->state),
             (long long)cli_began(r), time);
}

static void print_reason(const struct fr_inst_row *r)
{
    fr_print("%s%s%s\n", r->reason[0] != '\0' ? "  " : "", r->reason,
             r->unreachable_wall != 0 ? "  (its node is unreachable)" : "");
}

static void print_row(const struct fr_inst_row *r, int wide)
{
    if (r->hook[0] != '\0' && r->state == FR_ST_SKIPPED)
        return;
    print_begin(r, wide);
    print_reason(r);
}

/* A task of n instances in a row: the state that shows of all, and how many are in which. */
static void print_sum(const struct fr_inst_row *rows, size_t n, int wide)
{
    size_t count[FR_ST_N] = {0};
    int64_t attempts = 0, started = 0, ended = 0;
    enum fr_state_of shown = rows[0].state;
    const char *gap = "  ";
    bool open = false;
    char time[24];

    for (size_t i = 0; i < n; i++) {
        const struct fr_inst_row *r = &rows[i];

        count[r->state]++;
        shown = fr_state_shown(shown, r->state);
        attempts += cli_began(r);
        if (r->started_wall != 0 && (started == 0 || r->started_wall < started))
            started = r->started_wall;
        ended = r->ended_wall > ended ? r->ended_wall : ended;
        open = open || !fr_state_ended(r->state);
    }
    cli_took(started, open ? 0 : ended, time);
    fr_print("%-*s  %-15s  %8lld  %8s", wide, rows[0].task, fr_state_name(shown),
             (long long)attempts, time);
    for (int c = 0; c < FR_ST_N; c++)
        if (count[fr_state_at(c)] > 0) {
            fr_print("%s%zu %s", gap, count[fr_state_at(c)], fr_state_name(fr_state_at(c)));
            gap = ", ";
        }
    fr_print("\n");
}

void cli_print_tasks(const struct fr_inst_rows *insts)
{
    size_t wide = strlen("task");

    for (size_t i = 0; i < insts->n; i++) {
        const struct fr_inst_row *r = &insts->rows[i];
        size_t n = strlen(cli_is_item(r) ? r->task : r->key);

        wide = n > wide ? n : wide;
    }
    fr_print("\n%-*s  %-15s  %8s  %8s\n", (int)wide, "task", "state", "attempts", "time");
    for (size_t i = 0, n; i < insts->n; i += n) {
        const struct fr_inst_row *rows = &insts->rows[i];

        n = task_at(insts, i);
        if (cli_is_item(rows))
            print_sum(rows, n, (int)wide);
        for (size_t k = 0; k < n && !cli_is_item(rows); k++)
            print_row(&rows[k], (int)wide);
    }
}

/* ---- items ---- */

static void add_name(struct items *it, const char *name)
{
    const char **names;

    for (size_t i = 0; i < it->n_names; i++)
        if (strcmp(it->names[i], name) == 0)
            return;
    names = fr_grow(it->names, it->n_names + 1, &it->cap, sizeof(*names));
    if (names == NULL) {
        it->bad = true;
        return;
    }
    it->names = names;
    it->names[it->n_names++] = name;
}

/* The first output of the instance, or of a later one. */
static size_t first_of(const struct items *it, int64_t idx)
{
    size_t from = 0, to = it->n_outs;

    while (from < to) {
        size_t mid = from + (to - from) / 2;

        if (it->outs[mid].idx < idx)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

/* The value of an output as one line, which ends with "..." if it is longer; "-": there is none. */
static const char *value_of(const struct items *it, int64_t idx, const char *name,
                            char out[VALUE_WIDE + 4])
{
    for (size_t o = first_of(it, idx); o < it->n_outs && it->outs[o].idx == idx; o++)
        if (strcmp(it->outs[o].key, name) == 0) {
            const char *value = it->outs[o].value;

            if (fr_visible(out, VALUE_WIDE + 1, value, strlen(value)) < strlen(value))
                memcpy(out + strlen(out), "...", 4);
            return out;
        }
    return "-";
}

/* Columns that an output takes; name NULL: the keys. */
static int width_of(const struct items *it, const char *name)
{
    size_t wide = name != NULL ? strlen(name) : strlen("item");

    for (size_t i = 0; i < it->n; i++) {
        char text[VALUE_WIDE + 4];
        const char *cell =
            name != NULL ? value_of(it, it->rows[i].idx, name, text) : it->rows[i].key;

        wide = strlen(cell) > wide ? strlen(cell) : wide;
    }
    return (int)wide;
}

static void print_item(const struct items *it, const struct fr_inst_row *r, int wide,
                       const int *widths)
{
    print_begin(r, wide);
    for (size_t k = 0; k < it->n_names; k++) {
        char text[VALUE_WIDE + 4];

        fr_print("  %*s", widths[k], value_of(it, r->idx, it->names[k], text));
    }
    print_reason(r);
}

static void print_table(const struct items *it, int *widths)
{
    int wide = width_of(it, NULL);

    fr_print("\n%-*s  %-15s  %8s  %8s", wide, "item", "state", "attempts", "time");
    for (size_t k = 0; k < it->n_names; k++) {
        widths[k] = width_of(it, it->names[k]);
        fr_print("  %*s", widths[k], it->names[k]);
    }
    fr_print("\n");
    for (size_t i = 0; i < it->n; i++)
        print_item(it, &it->rows[i], wide, widths);
}

static void print_task(struct items *it)
{
    int *widths;

    for (size_t i = 0; i < it->n; i++)
        for (size_t o = first_of(it, it->rows[i].idx);
             o < it->n_outs && it->outs[o].idx == it->rows[i].idx; o++)
            if (strcmp(it->outs[o].key, FR_RESULT) != 0)
                add_name(it, it->outs[o].key);
    widths = fr_sys.alloc((it->n_names + 1) * sizeof(*widths));
    if (it->bad || widths == NULL)
        fr_print("\nno memory for the table of %s\n", it->rows[0].task);
    else
        print_table(it, widths);
    fr_sys.free(widths);
    fr_sys.free(it->names);
}

void cli_print_items(const struct fr_inst_rows *insts, const struct fr_output_rows *outs)
{
    for (size_t i = 0, n; i < insts->n; i += n) {
        struct items it = {.rows = &insts->rows[i], .outs = outs->rows, .n_outs = outs->n};

        it.n = n = task_at(insts, i);
        if (cli_is_item(&it.rows[0]))
            print_task(&it);
    }
}

#include "engine/cli/items.h"

#include "engine/base/arena.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/spec/kinds.h"
#include "engine/words/states.h"

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

static void print_counts(const struct items *it)
{
    size_t count[FR_ST_N] = {0};
    const char *gap = "";

    for (size_t i = 0; i < it->n; i++)
        count[it->rows[i].state]++;
    fr_print("\n%s: ", it->rows[0].task);
    for (int c = 0; c < FR_ST_N; c++) {
        enum fr_state_of state = fr_state_at(c);

        if (count[state] == 0)
            continue;
        fr_print("%s%zu %s", gap, count[state], fr_state_name(state));
        gap = ", ";
    }
    fr_print("\n");
}

static void print_table(const struct items *it, int *widths)
{
    int wide = width_of(it, NULL);

    fr_print("%-*s  %-15s", wide, "item", "state");
    for (size_t k = 0; k < it->n_names; k++) {
        widths[k] = width_of(it, it->names[k]);
        fr_print("  %*s", widths[k], it->names[k]);
    }
    for (size_t i = 0; i < it->n; i++) {
        fr_print("\n%-*s  %-15s", wide, it->rows[i].key, fr_state_name(it->rows[i].state));
        for (size_t k = 0; k < it->n_names; k++) {
            char text[VALUE_WIDE + 4];

            fr_print("  %*s", widths[k], value_of(it, it->rows[i].idx, it->names[k], text));
        }
    }
    fr_print("\n");
}

static void print_task(struct items *it)
{
    int *widths;

    print_counts(it);
    for (size_t i = 0; i < it->n; i++)
        for (size_t o = first_of(it, it->rows[i].idx);
             o < it->n_outs && it->outs[o].idx == it->rows[i].idx; o++)
            if (strcmp(it->outs[o].key, FR_RESULT) != 0)
                add_name(it, it->outs[o].key);
    widths = it->n_names > 0 ? fr_sys.alloc(it->n_names * sizeof(*widths)) : NULL;
    if (it->bad || (it->n_names > 0 && widths == NULL))
        fr_print("no memory for the table of its outputs\n");
    else if (widths != NULL)
        print_table(it, widths);
    fr_sys.free(widths);
    fr_sys.free(it->names);
}

void cli_print_items(const struct fr_inst_rows *insts, const struct fr_output_rows *outs)
{
    for (size_t i = 0, n; i < insts->n; i += n) {
        struct items it = {.rows = &insts->rows[i], .outs = outs->rows, .n_outs = outs->n};

        for (n = 1; i + n < insts->n && strcmp(insts->rows[i + n].task, it.rows[0].task) == 0;)
            n++;
        it.n = n;
        if (cli_is_item(&it.rows[0]))
            print_task(&it);
    }
}

#include "engine/curve/curve.h"

#include "engine/base/arena.h"
#include "engine/base/sys.h"
#include "engine/wire/message.h"

#include <math.h>
#include <string.h>

int fr_curve_key(const struct fr_curve *c, const char *name)
{
    for (size_t i = 0; i < c->n_names; i++)
        if (strcmp(c->names[i], name) == 0)
            return (int)i;
    return -1;
}

/* The key's column, made for a number; -1: there is no room for it. */
static int add_key(struct fr_curve *c, const char *name)
{
    size_t n = strlen(name) + 1;
    char *copy;

    if (c->n_names == FR_CURVE_KEYS) {
        c->left_out++;
        return -1;
    }
    if ((copy = fr_sys.alloc(n)) == NULL) {
        c->no_memory = true;
        return -1;
    }
    memcpy(copy, name, n);
    c->bytes += n;
    c->names[c->n_names] = copy;
    return (int)c->n_names++;
}

/* Room for one more item after the n of *v. */
static bool grow(struct fr_curve *c, void **v, size_t n, size_t *cap, size_t size)
{
    size_t before = *cap;
    void *p = fr_grow(*v, n + 1, cap, size);

    c->no_memory = c->no_memory || p == NULL;
    c->bytes += (*cap - before) * size;
    *v = p != NULL ? p : *v;
    return p != NULL;
}

static bool add_value(struct fr_curve *c, struct fr_curve_col *col, size_t row, double value)
{
    size_t cap = col->cap;

    if (!grow(c, (void **)&col->row, col->n, &cap, sizeof(*col->row)) ||
        !grow(c, (void **)&col->value, col->n, &col->cap, sizeof(*col->value)))
        return false;
    col->row[col->n] = (uint32_t)row;
    col->value[col->n++] = value;
    return true;
}

/* NULL: no memory, or too many parts. */
static struct fr_curve_part *add_part(struct fr_curve *c)
{
    struct fr_curve_part *part;

    if (c->n_parts == FR_CURVE_PARTS ||
        !grow(c, (void **)&c->parts, c->n_parts, &c->cap_parts, sizeof(struct fr_curve_part *)))
        return NULL;
    if ((part = fr_sys.alloc(sizeof(*part))) == NULL) {
        c->no_memory = true;
        return NULL;
    }
    *part = (struct fr_curve_part){0};
    c->bytes += sizeof(*part);
    c->parts[c->n_parts++] = part;
    return part;
}

static struct fr_curve_part *part_for(struct fr_curve *c, double step)
{
    struct fr_curve_part *part = c->n_parts > 0 ? c->parts[c->n_parts - 1] : NULL;

    if (part == NULL || (part->n > 0 && (c->next_part || step < part->step[part->n - 1])))
        part = add_part(c);
    c->next_part = false;
    return part;
}

static bool add_step(struct fr_curve *c, struct fr_curve_part *part, double step)
{
    if (!grow(c, (void **)&part->step, part->n, &part->cap, sizeof(*part->step)))
        return false;
    part->step[part->n++] = step;
    return true;
}

static void add_row(struct fr_curve *c, const struct fr_curve_row *row)
{
    struct fr_curve_part *part = part_for(c, row->step);

    c->left_out += row->left_out;
    if (part == NULL || part->n == FR_METRICS_ROWS || !add_step(c, part, row->step)) {
        c->left_out++;
        return;
    }
    for (size_t i = 0; i < row->n; i++) {
        const struct fr_curve_item *item = &row->items[i];
        int key = fr_curve_key(c, item->name);

        if (key < 0 && !isnan(item->value))
            key = add_key(c, item->name);
        if (key >= 0 && !add_value(c, &part->cols[key], part->n - 1, item->value))
            return;
    }
}

static void take_line(void *arg, struct fr_str line)
{
    struct fr_curve *c = arg;
    struct fr_curve_row row;

    if (line.n == 0 || c->no_memory)
        return;
    fr_curve_row_read(line, &row);
    if (row.kind == FR_CURVE_ROW) {
        add_row(c, &row);
        fr_curve_head_take(&c->head, &row);
    } else if (row.kind == FR_CURVE_PART) {
        c->next_part = true;
    } else if (row.kind == FR_CURVE_FULL && c->n_parts > 0) {
        c->parts[c->n_parts - 1]->full = true;
    } else if (row.kind == FR_CURVE_BAD) {
        c->bad++;
    }
    fr_curve_row_finish(&row);
}

enum fr_rc fr_curve_feed(struct fr_curve *c, const char *p, size_t n, struct fr_err *err)
{
    if (c->taken == 0)
        c->head = fr_curve_no_head;
    c->taken += n;
    fr_curve_lines(&c->rest, p, n, take_line, c);
    return c->no_memory || c->rest.bad ? fr_fail(err, FR_NOMEM, "no memory for curves") : FR_OK;
}

void fr_curve_finish(struct fr_curve *c)
{
    for (size_t i = 0; i < c->n_parts; i++) {
        struct fr_curve_part *part = c->parts[i];

        for (size_t k = 0; k < c->n_names; k++) {
            fr_sys.free(part->cols[k].row);
            fr_sys.free(part->cols[k].value);
        }
        fr_sys.free(part->step);
        fr_sys.free(part);
    }
    for (size_t k = 0; k < c->n_names; k++)
        fr_sys.free(c->names[k]);
    fr_sys.free(c->parts);
    fr_buf_finish(&c->rest);
    *c = (struct fr_curve){0};
}

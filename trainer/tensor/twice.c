#include "trainer/tensor/twice.h"

#include <stdlib.h>

static const char *copy(struct tr_twice *t, const char *text)
{
    const char *own = text != NULL ? fr_arena_dup(&t->arena, text) : NULL;

    t->bad = t->bad || (text != NULL && own == NULL);
    return own;
}

void tr_twice_add(struct tr_twice *t, const struct tr_twice_row *row)
{
    struct tr_twice_row *rows;

    if (t == NULL)
        return;
    if ((rows = fr_arena_grow(&t->arena, t->rows, t->n, sizeof(*rows))) == NULL) {
        t->bad = true;
        return;
    }
    t->rows = rows;
    rows[t->n++] =
        (struct tr_twice_row){copy(t, row->what), copy(t, row->from), copy(t, row->value),
                              copy(t, row->over), copy(t, row->other)};
}

static char *dump(const json_t *v)
{
    return json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
}

void tr_twice_idle(struct tr_twice *t, const char *where, const char *key, const json_t *value)
{
    char *text;

    if (t == NULL)
        return;
    text = dump(value);
    t->bad = t->bad || text == NULL;
    tr_twice_add(t, &(struct tr_twice_row){.what = key, .over = where, .other = text});
    free(text);
}

void tr_twice_add_json(struct tr_twice *t, struct tr_twice_row row, const json_t *value,
                       const json_t *other)
{
    char *taken, *passed;

    if (t == NULL || value == NULL || other == NULL || json_is_null(value) || json_is_null(other) ||
        json_equal(value, other))
        return;
    taken = dump(value);
    passed = dump(other);
    t->bad = t->bad || taken == NULL || passed == NULL;
    row.value = taken;
    row.other = passed;
    tr_twice_add(t, &row);
    free(taken);
    free(passed);
}

static const char *shown(const char *text)
{
    return text != NULL ? text : "";
}

void tr_twice_notes(const struct tr_twice *t, struct fr_buf *lines)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct tr_twice_row *r = &t->rows[i];

        if (r->from == NULL) {
            fr_buf_fmt(lines, "without effect, %s: %s %.300s\n", shown(r->what), shown(r->over),
                       shown(r->other));
            continue;
        }
        fr_buf_fmt(lines, "said twice, %s: %s%s%.300s is taken, %s%s%.300s is passed over\n",
                   shown(r->what), shown(r->from), r->value != NULL ? " " : "", shown(r->value),
                   shown(r->over), r->other != NULL ? " " : "", shown(r->other));
    }
    if (t->bad)
        fr_buf_text(lines, "no memory for all that is said twice\n");
}

json_t *tr_twice_list(const struct tr_twice *t)
{
    json_t *list = json_array();

    for (size_t i = 0; i < t->n; i++) {
        const struct tr_twice_row *r = &t->rows[i];

        if (json_array_append_new(list, json_pack("{s:s?, s:s?, s:s?, s:s?, s:s?}", "what", r->what,
                                                  "from", r->from, "value", r->value, "over",
                                                  r->over, "other", r->other)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

void tr_twice_finish(struct tr_twice *t)
{
    fr_arena_finish(&t->arena);
    *t = (struct tr_twice){.n = 0};
}

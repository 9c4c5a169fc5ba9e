/* foreach: of a task: a list as it stands in the file, or a text whose value will be one. */
#include "engine/spec/load.h"

#include "engine/base/json.h"

#include <string.h>

enum { DEPTH_MAX = 16 };

#define A_LIST "a list, a map, or an expression that gives one as JSON"

static bool put_value(struct loader *l, const struct fr_yaml *y, int depth, struct fr_buf *out);

static bool put_scalar(struct loader *l, const struct fr_yaml *y, struct fr_buf *out)
{
    bool quoted = y->quoted && strstr(y->text.p, "${{") == NULL, good;
    const char *text = read_now(l, y);
    enum fr_scalar_type type;
    struct fr_buf b = {0};

    if (text == NULL)
        return false;
    l->item_fenced = l->item_fenced || l->fenced;
    good = fr_scalar_read(fr_str_of(text), quoted, &type, &b);
    if (!good)
        complain(l, pos_of(l, y), "a finite number of at most 64 bits, or quotes around it",
                 "'%s' cannot be an element of foreach", text);
    else if (type == FR_SCALAR_NULL)
        fr_buf_text(out, "null");
    else if (type == FR_SCALAR_TEXT)
        fr_json_add_text(out, b.p != NULL ? b.p : "");
    else
        fr_buf_text(out, b.p);
    out->bad = out->bad || b.bad;
    fr_buf_finish(&b);
    return good;
}

/* The members of a list or a map. */
static bool put_members(struct loader *l, const struct fr_yaml *y, int depth, struct fr_buf *out)
{
    bool map = y->kind == FR_YAML_MAP, good = true;

    if (depth == DEPTH_MAX) {
        complain(l, pos_of(l, y), NULL, "an element of foreach is deeper than %d", DEPTH_MAX);
        return false;
    }
    fr_buf_text(out, map ? "{" : "[");
    for (size_t i = 0; i < y->n; i++) {
        fr_buf_text(out, i > 0 ? "," : "");
        if (map) {
            fr_json_add_text(out, y->pairs[i].key.p);
            fr_buf_text(out, ":");
        }
        good = put_value(l, map ? y->pairs[i].value : y->items[i], depth + 1, out) && good;
    }
    fr_buf_text(out, map ? "}" : "]");
    return good;
}

/* Appends the value as JSON. False after a complaint. */
static bool put_value(struct loader *l, const struct fr_yaml *y, int depth, struct fr_buf *out)
{
    if (y->kind == FR_YAML_NULL)
        fr_buf_text(out, "null");
    if (y->kind == FR_YAML_SCALAR)
        return put_scalar(l, y, out);
    return y->kind == FR_YAML_NULL || put_members(l, y, depth, out);
}

/* The items of a list that is known now; NULL after a complaint. */
static const struct fr_items *items_now(struct loader *l, const struct fr_yaml *y,
                                        struct fr_str text)
{
    struct fr_items *items = load_alloc(l, 1, sizeof(*items));
    struct fr_err err = {0};
    enum fr_rc rc = items != NULL ? fr_items_read(text, l->arena, items, &err) : FR_NOMEM;

    l->no_memory = l->no_memory || rc == FR_NOMEM;
    if (rc == FR_USAGE)
        complain(l, pos_of(l, y), A_LIST, "foreach: %s", err.msg);
    return rc == FR_OK ? items : NULL;
}

static const struct fr_items *read_literal(struct loader *l, const struct fr_yaml *y)
{
    const struct fr_items *items = NULL;
    struct fr_buf text = {0};

    if (put_value(l, y, 0, &text) && !text.bad)
        items = items_now(l, y, (struct fr_str){text.p, text.n});
    l->no_memory = l->no_memory || text.bad;
    fr_buf_finish(&text);
    return items;
}

static const struct fr_items *read_expression(struct loader *l, const struct fr_yaml *y,
                                              const struct field *f)
{
    struct fr_items *items = load_alloc(l, 1, sizeof(*items));
    struct fr_text *text = load_alloc(l, 1, sizeof(*text));

    if (items == NULL || text == NULL || !read_text(l, y, f->allow, text))
        return NULL;
    l->item_fenced = l->fenced;
    if (text->expr == NULL)
        return items_now(l, y, fr_str_of(text->s));
    *items = (struct fr_items){.of_list = true, .awaited = true, .list = text};
    return items;
}

void read_foreach(struct loader *l, const struct fr_yaml *y, const struct field *f, void *target)
{
    struct fr_task *task = target;

    l->item_fenced = false;
    if (y->kind == FR_YAML_NULL)
        wrong_value(l, y, "foreach", A_LIST);
    else
        task->items = y->kind == FR_YAML_SCALAR ? read_expression(l, y, f) : read_literal(l, y);
    l->bad_items = y->kind == FR_YAML_NULL || task->items == NULL;
}

void finish_foreach(struct loader *l, const struct fr_yaml *y, struct fr_task *task)
{
    const struct fr_yaml *list = fr_yaml_get(y, "foreach");

    if (list != NULL && fr_yaml_get(y, "matrix") != NULL)
        complain(l, pos_of(l, list), "one of them",
                 "'%s' has both matrix: and foreach:", task->act.name);
}

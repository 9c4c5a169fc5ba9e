#include "engine/store/types.h"

#include "engine/store/blob.h"
#include "engine/store/access.h"
#include "engine/store/allocations.h"
#include "engine/store/backfills.h"
#include "engine/store/drained.h"
#include "engine/store/occurrences.h"
#include "engine/store/lists.h"
#include "engine/store/outbox.h"
#include "engine/store/ready.h"
#include "engine/store/retain.h"
#include "engine/store/item_lists.h"
#include "engine/store/shipped.h"
#include "engine/store/unfetched.h"

#include <assert.h>
#include <string.h>

#define WRITTEN_ONCE(R, kind, name, shown)                                                         \
    {#name, shown, FR_COLUMN_##kind, false, offsetof(struct R, name)},
#define SET(R, kind, name, shown) {#name, shown, FR_COLUMN_##kind, true, offsetof(struct R, name)},
#define TYPE(type, table, row, columns)                                                            \
    static const struct fr_column type##_columns[] = {columns(WRITTEN_ONCE, SET, row)};            \
    const struct fr_row_type fr_##type##_type = {                                                  \
        table, type##_columns, sizeof(type##_columns) / sizeof(type##_columns[0]),                 \
        sizeof(struct row)};
FR_ROW_TYPES(TYPE)

const struct fr_words *fr_column_words(enum fr_column_kind kind)
{
#define WORDS(kind, words) [FR_COLUMN_##kind] = &words,
    static const struct fr_words *const of[] = {FR_WORD_KINDS(WORDS)};
#undef WORDS

    return of[kind];
}

static json_t *value_of(enum fr_column_kind kind, const void *at)
{
    char id[FR_ID_TEXT] = "";

    switch (kind) {
    case FR_COLUMN_INT:
        return json_integer((json_int_t) * (const int64_t *)at);
    case FR_COLUMN_BOOL:
        return json_boolean(*(const int64_t *)at != 0);
    case FR_COLUMN_ORDER:
        return json_string(*(const int64_t *)at != 0 ? "newest" : "oldest");
    case FR_COLUMN_ID:
        if (!fr_id_zero(*(const struct fr_id *)at))
            fr_id_text(*(const struct fr_id *)at, id);
        return json_string(id);
    case FR_COLUMN_TEXT:
        return json_string(*(const char *const *)at);
    default:
        return json_string(fr_word(fr_column_words(kind), *(const int *)at));
    }
}

json_t *fr_row_json(const struct fr_row_type *type, const void *row)
{
    json_t *doc = json_object();

    for (size_t i = 0; i < type->n; i++) {
        const struct fr_column *c = &type->columns[i];

        if (c->shown != NULL &&
            json_object_set_new(doc, c->shown, value_of(c->kind, (const char *)row + c->at)) != 0) {
            json_decref(doc);
            return NULL;
        }
    }
    return doc;
}

json_t *fr_rows_json(const struct fr_row_type *type, const void *rows, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, fr_row_json(type, (const char *)rows + i * type->bytes));
    return list;
}

/* ---- the text of a statement ---- */

static bool is_name(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z');
}

static struct fr_str name_at(const char *text)
{
    size_t n = 0;

    while (is_name(text[n]))
        n++;
    return (struct fr_str){text, n};
}

static const struct fr_row_type *type_named(struct fr_str name)
{
#define POINTER(type, table, row, columns) &fr_##type##_type,
    static const struct fr_row_type *const types[] = {FR_ROW_TYPES(POINTER)};
#undef POINTER
    size_t i = 0;

    while (i < sizeof(types) / sizeof(types[0]) && !fr_str_is(name, types[i]->table))
        i++;
    assert(i < sizeof(types) / sizeof(types[0]));
    return types[i];
}

/* The columns that text names behind a $, each with `mark` in front; behind $name= the assignments
 * of those that an UPDATE writes. Returns what follows. */
static const char *put_columns(struct fr_buf *out, const char *text, const char *mark)
{
    struct fr_str name = name_at(text), but = {"", 0};
    const struct fr_row_type *type = type_named(name);
    bool assign = text[name.n] == '=';
    const char *comma = "";

    text += name.n + assign;
    if (*text == '-') {
        but = name_at(text + 1);
        text += 1 + but.n;
    }
    for (size_t i = 0; i < type->n; i++) {
        const char *column = type->columns[i].name;

        if (fr_str_is(but, column) || (assign && !type->columns[i].set))
            continue;
        fr_buf_fmt(out, "%s%s%s", comma, mark, column);
        if (assign)
            fr_buf_fmt(out, " = :%s", column);
        comma = ", ";
    }
    return text;
}

void fr_row_statement(struct fr_buf *out, const char *text)
{
    while (*text != '\0') {
        size_t plain = strcspn(text, "$");
        bool parameters = text[plain] == '$' && plain > 0 && text[plain - 1] == ':';

        fr_buf_add(out, text, plain - parameters);
        text += plain;
        if (*text == '$')
            text = put_columns(out, text + 1, parameters ? ":" : "");
    }
}

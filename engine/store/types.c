#include "engine/store/types.h"

#include "engine/store/access.h"
#include "engine/store/backfills.h"
#include "engine/store/drained.h"
#include "engine/store/fires.h"
#include "engine/store/lists.h"
#include "engine/store/outbox.h"
#include "engine/store/ready.h"
#include "engine/store/retain.h"
#include "engine/store/shipped.h"
#include "engine/store/unfetched.h"

#define WRITTEN_ONCE(R, kind, name, shown)                                                         \
    {#name, shown, FR_COLUMN_##kind, false, offsetof(struct R, name)},
#define SET(R, kind, name, shown) {#name, shown, FR_COLUMN_##kind, true, offsetof(struct R, name)},
#define TYPE(type, table, row, columns)                                                            \
    static const struct fr_column type##_columns[] = {columns(WRITTEN_ONCE, SET, row)};            \
    const struct fr_row_type fr_##type##_type = {                                                  \
        table, type##_columns, sizeof(type##_columns) / sizeof(type##_columns[0]),                 \
        sizeof(struct row)};
FR_ROW_TYPES(TYPE)

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
    default:
        return json_string(*(const char *const *)at);
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

#include "engine/view/allocations.h"

#include "engine/base/str.h"
#include "engine/slurm/reason.h"
#include "engine/store/types.h"

enum { REASON = 400 };

static void name_places(const struct fr_allocation_row *row, struct fr_buf *out)
{
    long long first = row->copy > 0 ? row->copy : 1;

    fr_buf_fmt(out, "%s%lld", row->name, first);
    if (row->copy == 0 && row->nodes > 1)
        fr_buf_fmt(out, " to %s%lld", row->name, (long long)row->nodes);
}

json_t *fr_allocation_json(const struct fr_allocation_row *row, int64_t run)
{
    json_t *doc = fr_row_json(&fr_allocation_type, row);
    struct fr_buf places = {0};
    char why[REASON];

    name_places(row, &places);
    if (doc == NULL || places.bad || json_object_set_new(doc, "run", json_integer(run)) != 0 ||
        json_object_set_new(doc, "places", json_string(places.p)) != 0 ||
        json_object_set_new(doc, "why", json_string(fr_slurm_reason(row->reason, why, REASON))) !=
            0) {
        json_decref(doc);
        doc = NULL;
    }
    fr_buf_finish(&places);
    return doc;
}

json_t *fr_allocations_json(const struct fr_allocation_rows *rows, int64_t run)
{
    json_t *list = json_array();

    for (size_t i = 0; i < rows->n; i++)
        json_array_append_new(list, fr_allocation_json(&rows->rows[i], run));
    return list;
}

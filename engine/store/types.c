#include "engine/store/types.h"

#include "engine/store/access.h"
#include "engine/store/backfills.h"
#include "engine/store/drained.h"
#include "engine/store/fires.h"
#include "engine/store/outbox.h"
#include "engine/store/shipped.h"
#include "engine/store/store.h"

/* Columns of struct ROW: shown under their own name, under another one, or not at all. */
#define SHOWN(kind, member)                                                                        \
    {                                                                                              \
#member, #member, FR_COLUMN_##kind, offsetof(struct ROW, member)                           \
    }
#define AS(kind, member, shown)                                                                    \
    {                                                                                              \
#member, shown, FR_COLUMN_##kind, offsetof(struct ROW, member)                             \
    }
#define HIDDEN(kind, member) AS(kind, member, NULL)
#define TYPE(type, name)                                                                           \
    const struct fr_row_type fr_##type##_type = {                                                  \
        name, type##_columns, sizeof(type##_columns) / sizeof(type##_columns[0]),                  \
        sizeof(struct ROW)}

#define ROW fr_run_row
static const struct fr_column run_columns[] = {
    SHOWN(INT, no),
    SHOWN(ID, id),
    AS(TEXT, name, "pipeline"),
    AS(TEXT, source, "file"),
    SHOWN(TEXT, state),
    SHOWN(TEXT, outcome),
    SHOWN(TEXT, reason),
    AS(BOOL, host, "driven"),
    SHOWN(TEXT, origin),
    SHOWN(INT, priority),
    SHOWN(BOOL, pinned),
    SHOWN(INT, queued_wall),
    SHOWN(INT, not_before_wall),
    SHOWN(INT, started_wall),
    SHOWN(INT, ended_wall),
    SHOWN(INT, retry_of),
    SHOWN(INT, reruns),
    SHOWN(INT, rerun_wall),
    SHOWN(TEXT, who),
    HIDDEN(TEXT, folder),
    HIDDEN(TEXT, spec_hash),
    HIDDEN(TEXT, inventory_hash),
    HIDDEN(TEXT, inventory),
    HIDDEN(TEXT, params),
    HIDDEN(INT, round),
    HIDDEN(INT, schedule),
    HIDDEN(INT, at_ms),
    HIDDEN(INT, backfill),
    HIDDEN(TEXT, rerun_from),
    HIDDEN(TEXT, notify),
    HIDDEN(TEXT, pool),
    HIDDEN(INT, late_wall),
};
TYPE(run, "run");
#undef ROW

#define ROW fr_inst_row
static const struct fr_column inst_columns[] = {
    SHOWN(INT, idx),           SHOWN(TEXT, key),         SHOWN(TEXT, task),
    SHOWN(TEXT, node),         SHOWN(TEXT, hook),        SHOWN(TEXT, state),
    SHOWN(INT, attempt_no),    SHOWN(ID, attempt),       SHOWN(TEXT, cause),
    SHOWN(INT, code),          SHOWN(TEXT, reason),      SHOWN(INT, unreachable_wall),
    SHOWN(INT, started_wall),  SHOWN(INT, ended_wall),   HIDDEN(TEXT, attempt_state),
    HIDDEN(INT, live),         HIDDEN(INT, go),          HIDDEN(INT, generation),
    HIDDEN(INT, retries),      HIDDEN(TEXT, stop_cause), HIDDEN(INT, due_wall),
    HIDDEN(INT, due_delay_ms),
};
TYPE(inst, "instance");
#undef ROW

#define ROW fr_attempt_row
static const struct fr_column attempt_columns[] = {
    HIDDEN(ID, id),          HIDDEN(INT, idx),          HIDDEN(INT, no),
    HIDDEN(INT, generation), HIDDEN(TEXT, node),        HIDDEN(INT, rank),
    HIDDEN(ID, home_id),     HIDDEN(TEXT, boot_id),     HIDDEN(TEXT, state),
    HIDDEN(TEXT, cause),     HIDDEN(INT, code),         HIDDEN(TEXT, reason),
    HIDDEN(TEXT, address),   HIDDEN(INT, port),         HIDDEN(TEXT, log),
    HIDDEN(INT, slots),      HIDDEN(INT, started_wall), HIDDEN(INT, ended_wall),
    HIDDEN(INT, done),
};
TYPE(attempt, "attempt");
#undef ROW

#define ROW fr_event_row
static const struct fr_column event_columns[] = {
    SHOWN(INT, seq),        SHOWN(INT, wall),         SHOWN(INT, idx),        SHOWN(TEXT, kind),
    SHOWN(INT, attempt_no), SHOWN(TEXT, cause),       SHOWN(INT, code),       SHOWN(TEXT, text),
    SHOWN(INT, delay_ms),   HIDDEN(TEXT, stop_cause), HIDDEN(INT, log_bytes),
};
TYPE(event, "event");
#undef ROW

#define ROW fr_output_row
static const struct fr_column output_columns[] = {HIDDEN(INT, idx), HIDDEN(TEXT, key),
                                                  HIDDEN(TEXT, value)};
TYPE(output, "output");
#undef ROW

#define ROW fr_node_row
static const struct fr_column node_columns[] = {
    HIDDEN(TEXT, name),   HIDDEN(ID, home_id),           HIDDEN(TEXT, boot_id),
    HIDDEN(TEXT, folder), HIDDEN(INT, unreachable_wall), HIDDEN(INT, abandoned),
};
TYPE(node, "node");
#undef ROW

#define ROW fr_file_row
static const struct fr_column file_columns[] = {SHOWN(TEXT, path), SHOWN(INT, bytes),
                                                AS(TEXT, hash, "sha256"), HIDDEN(INT, mode)};
TYPE(file, "file");
#undef ROW

#define ROW fr_shipped_row
static const struct fr_column shipped_columns[] = {HIDDEN(TEXT, path), HIDDEN(TEXT, exclude),
                                                   HIDDEN(TEXT, hash)};
TYPE(shipped, "shipped");
#undef ROW

#define ROW fr_schedule_row
static const struct fr_column schedule_columns[] = {
    SHOWN(INT, id),        SHOWN(TEXT, pipeline), SHOWN(TEXT, name),      AS(TEXT, source, "file"),
    SHOWN(TEXT, rule),     SHOWN(TEXT, state),    SHOWN(INT, state_wall), SHOWN(TEXT, note),
    SHOWN(INT, gone_wall), SHOWN(INT, seen_ms),   SHOWN(INT, since_ms),   HIDDEN(TEXT, fingerprint),
};
TYPE(schedule, "schedule");
#undef ROW

#define ROW fr_fire_row
static const struct fr_column fire_columns[] = {
    SHOWN(INT, at_ms),        SHOWN(INT, first_ms), SHOWN(INT, count),
    SHOWN(TEXT, decision),    SHOWN(INT, run),      SHOWN(TEXT, outcome),
    SHOWN(INT, decided_wall), SHOWN(TEXT, note),    HIDDEN(INT, schedule),
};
TYPE(fire, "fire");
#undef ROW

#define ROW fr_schedule_file
static const struct fr_column schedule_file_columns[] = {
    HIDDEN(TEXT, path), HIDDEN(TEXT, text), HIDDEN(TEXT, error), HIDDEN(INT, error_wall)};
TYPE(schedule_file, "schedule_file");
#undef ROW

#define ROW fr_backfill_row
static const struct fr_column backfill_columns[] = {
    SHOWN(INT, id),         SHOWN(INT, schedule),       SHOWN(INT, from_ms),
    SHOWN(INT, to_ms),      AS(ORDER, newest, "order"), SHOWN(TEXT, existing),
    SHOWN(INT, max_active), SHOWN(INT, priority),       SHOWN(TEXT, state),
    SHOWN(TEXT, note),      SHOWN(INT, total),          SHOWN(INT, made),
    SHOWN(INT, kept),       SHOWN(INT, made_wall),      HIDDEN(TEXT, params),
    HIDDEN(INT, cursor_ms),
};
TYPE(backfill, "backfill");
#undef ROW

#define ROW fr_delivery_row
static const struct fr_column delivery_columns[] = {
    SHOWN(INT, id),        SHOWN(TEXT, key),     SHOWN(TEXT, channel),       SHOWN(TEXT, rule),
    SHOWN(TEXT, kind),     SHOWN(INT, run),      AS(TEXT, name, "pipeline"), SHOWN(TEXT, state),
    SHOWN(INT, made_wall), SHOWN(INT, due_wall), SHOWN(INT, tried_wall),     SHOWN(INT, tries),
    SHOWN(TEXT, answer),   HIDDEN(TEXT, body),
};
TYPE(delivery, "delivery");
#undef ROW

#define ROW fr_notice_row
static const struct fr_column notice_columns[] = {
    HIDDEN(INT, id),    HIDDEN(TEXT, kind),    HIDDEN(INT, wall),  HIDDEN(INT, run),
    HIDDEN(TEXT, name), HIDDEN(TEXT, subject), HIDDEN(TEXT, text),
};
TYPE(notice, "notice");
#undef ROW

#define ROW fr_token_row
static const struct fr_column token_columns[] = {
    SHOWN(TEXT, name),     SHOWN(TEXT, role),  SHOWN(INT, made_wall), SHOWN(INT, ends_wall),
    SHOWN(INT, used_wall), HIDDEN(TEXT, hash), HIDDEN(INT, id),
};
TYPE(token, "token");
#undef ROW

#define ROW fr_session_row
static const struct fr_column session_columns[] = {HIDDEN(TEXT, hash), HIDDEN(INT, token),
                                                   HIDDEN(INT, made_wall), HIDDEN(INT, used_wall)};
TYPE(session, "session");
#undef ROW

#define ROW fr_audit_row
static const struct fr_column audit_columns[] = {
    SHOWN(INT, id),    SHOWN(INT, wall),     SHOWN(TEXT, what), SHOWN(INT, run),
    SHOWN(TEXT, name), SHOWN(TEXT, outcome), SHOWN(TEXT, who),  SHOWN(TEXT, address),
};
TYPE(audit, "audit");
#undef ROW

#define ROW fr_kept_row
static const struct fr_column answer_columns[] = {HIDDEN(TEXT, request), HIDDEN(INT, status),
                                                  HIDDEN(TEXT, location), HIDDEN(TEXT, body)};
TYPE(answer, "answer");
#undef ROW

#define ROW fr_drained_row
static const struct fr_column drained_columns[] = {
    HIDDEN(ID, home),  HIDDEN(TEXT, name), AS(INT, wall, "since_wall"),
    SHOWN(TEXT, note), SHOWN(TEXT, who),
};
TYPE(drained, "drained");
#undef ROW

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

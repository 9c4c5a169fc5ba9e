/* Notes as JSON, one object a line. */
#include "engine/show/private.h"

#include "engine/base/json.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"

#include <stdlib.h>

/* jansson leaves DEL and the control characters U+0080 to U+009F unescaped; terminals act on them.
 * They occur only inside strings. */
static void add_json(struct fr_buf *out, json_t *doc)
{
    char *text = doc != NULL ? json_dumps(doc, JSON_COMPACT) : NULL;

    for (const char *p = text; p != NULL && *p != '\0'; p++) {
        const unsigned char *c = (const unsigned char *)p;

        if (c[0] == 0x7f)
            fr_buf_text(out, "\\u007f");
        else if (c[0] == 0xc2 && c[1] < 0xa0)
            fr_buf_fmt(out, "\\u%04x", *(const unsigned char *)++p);
        else
            fr_buf_add(out, p, 1);
    }
    if (text != NULL)
        fr_buf_text(out, "\n");
    free(text);
    json_decref(doc);
}

void cli_put_json(json_t *doc)
{
    struct fr_buf b = {0};

    add_json(&b, doc);
    if (b.n > 0 && !b.bad)
        fr_print("%s", b.p);
    fr_buf_finish(&b);
}

static json_t *event(const struct cli_show *show, const char *kind, int64_t wall_ms)
{
    return json_pack("{s:s, s:I, s:I}", "event", kind, "time_ms", (json_int_t)wall_ms, "run",
                     (json_int_t)show->model.no);
}

static void place(const struct cli_show *show, json_t *doc, uint32_t inst)
{
    const struct fr_plan *plan = show->model.plan;
    const struct fr_plan_inst *pi = &plan->insts[inst];

    json_object_set_new(doc, "task", json_string(plan->tasks[pi->task].name));
    json_object_set_new(doc, "node", json_string(plan->nodes[pi->node].name));
    if (plan->tasks[pi->task].spec->items != NULL)
        json_object_set_new(doc, "key", json_string(pi->key));
}

void json_begin(struct cli_show *show)
{
    json_t *doc = event(show, "begin", fr_sys.wall_ms());
    char id[FR_ID_TEXT];

    fr_id_text(show->model.id, id);
    json_object_set_new(doc, "id", json_string(id));
    json_object_set_new(doc, "pipeline", json_string(show->model.name));
    cli_put_json(doc);
}

void json_line(struct cli_show *show, uint32_t inst, int64_t wall_ms, struct fr_str text)
{
    json_t *doc = event(show, "log", wall_ms);
    struct fr_buf visible = {0}, line = {0};

    place(show, doc, inst);
    if (fr_utf8_valid(text.p, text.n)) {
        json_object_set_new(doc, "text", json_stringn(text.p, text.n));
    } else {
        fr_buf_visible(&visible, text.p, text.n);
        json_object_set_new(doc, "text", json_string(visible.p != NULL ? visible.p : ""));
        fr_buf_finish(&visible);
    }
    add_json(&line, doc);
    if (line.n > 0 && !line.bad)
        cli_out_add(show->opts.out, CLI_OUT_OUTPUT, line.p, line.n);
    fr_buf_finish(&line);
}

static void put_state(struct cli_show *show, const struct fr_note *note)
{
    const struct fr_row *row = &note->row;
    json_t *doc = event(show, "state", note->wall_ms);

    place(show, doc, note->inst);
    json_object_set_new(doc, "state", json_string(fr_state_name(row->state)));
    json_object_set_new(doc, "attempt", json_integer(row->attempt_no));
    if (row->cause != FR_CAUSE_NONE) {
        json_object_set_new(doc, "cause", json_string(fr_cause_name(row->cause)));
        json_object_set_new(doc, "code", json_integer(row->code));
    }
    if (row->unreachable)
        json_object_set_new(doc, "unreachable", json_true());
    if (row->state == FR_ST_RETRYING)
        json_object_set_new(doc, "delay_ms", json_integer(row->delay_ms));
    if (note->text[0] != '\0')
        json_object_set_new(doc, "reason", json_string(note->text));
    cli_put_json(doc);
}

void json_note(struct cli_show *show, const struct fr_note *note)
{
    const struct fr_plan *plan = show->model.plan;
    json_t *doc;

    switch (note->kind) {
    case FR_NOTE_STATE:
        put_state(show, note);
        return;
    case FR_NOTE_RUN:
        doc = event(show, "run", note->wall_ms);
        json_object_set_new(doc, "state", json_string(fr_run_state_name(note->now.state)));
        if (note->now.outcome != FR_OUT_NONE)
            json_object_set_new(doc, "outcome", json_string(fr_outcome_name(note->now.outcome)));
        break;
    case FR_NOTE_NODE:
        doc = event(show, "node", note->wall_ms);
        json_object_set_new(doc, "node", json_string(plan->nodes[note->node].name));
        break;
    case FR_NOTE_FULL:
        doc = event(show, "log_full", note->wall_ms);
        place(show, doc, note->inst);
        break;
    default:
        doc = event(show, "trouble", note->wall_ms);
        if (note->inst != FR_PLAN_NONE)
            place(show, doc, note->inst);
        break;
    }
    if (note->text[0] != '\0')
        json_object_set_new(doc, "text", json_string(note->text));
    cli_put_json(doc);
}

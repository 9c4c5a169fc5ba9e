/*
 * Instances as columns: as few bytes as a page with 10,000 of them needs. The readers of this form
 * are engine/web/static/columns.js and tests/e2e/columns.py: schema/openapi.json has the rules.
 */
#include "engine/view/task_summary.h"
#include "engine/view/view.h"

#include <string.h>

/* Values that repeat: value, how often, value, how often … */
struct runs {
    json_t *list;
    json_int_t times; /* of the last value, which the list lacks still; 0: it is empty */
    json_int_t last;  /* it, or … */
    const char *text; /* … borrows */
};

/* The list, whole; it is the caller's. */
static json_t *list_of(struct runs *r)
{
    if (r->times > 0)
        json_array_append_new(r->list, json_integer(r->times));
    return r->list;
}

static void begin_run(struct runs *r, json_t *value)
{
    json_array_append_new(list_of(r), value);
    r->times = 1;
}

static void add_int(struct runs *r, json_int_t value)
{
    if (r->times > 0 && r->last == value) {
        r->times++;
        return;
    }
    begin_run(r, json_integer(value));
    r->last = value;
}

static void add_text(struct runs *r, const char *text)
{
    if (r->times > 0 && strcmp(r->text, text) == 0) {
        r->times++;
        return;
    }
    begin_run(r, json_string(text));
    r->text = text;
}

/* 0: not yet. Else how long behind base; what is not before it is one more, so that none is 0. */
static json_int_t packed_time(int64_t wall, int64_t base)
{
    int64_t ms = wall - base;

    return wall == 0 ? 0 : ms >= 0 ? ms + 1 : ms;
}

struct names {
    json_t *list;     /* in the order of their first use */
    json_t *position; /* {name: its position there} */
    const char *last; /* that was found, and where; borrows */
    json_int_t last_at;
};

static struct names names_create(void)
{
    return (struct names){.list = json_array(), .position = json_object()};
}

static json_int_t names_find(struct names *names, const char *name)
{
    json_int_t at = (json_int_t)json_array_size(names->list);
    json_t *known;

    if (names->last != NULL && strcmp(names->last, name) == 0)
        return names->last_at;
    if ((known = json_object_get(names->position, name)) != NULL) {
        at = json_integer_value(known);
    } else {
        json_array_append_new(names->list, json_string(name));
        json_object_set_new(names->position, name, json_integer(at));
    }
    names->last = name;
    names->last_at = at;
    return at;
}

/* Of values that seldom repeat, as the text of a list without its ends: there may be thousands. */
static void put_int(struct fr_buf *b, json_int_t value)
{
    char text[24], *p = text + sizeof(text);
    uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;

    do
        *--p = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (value < 0)
        *--p = '-';
    if (b->n > 0)
        *--p = ',';
    fr_buf_add(b, p, (size_t)(text + sizeof(text) - p));
}

struct columns {
    struct names tasks, nodes;
    json_t *keys; /* owns: that of each instance; NULL: all are task@node */
    struct runs idx, task, hook, attempt_no, cause, code, reason, unreachable, due;
    struct fr_buf node, started, ended, state; /* owns */
    int64_t wall;                              /* that times count from */
    int64_t last;                              /* the newest start that was added; at first wall */
    json_int_t next;                           /* idx that would follow */
};

static void add_inst(struct columns *c, const struct fr_inst_row *row)
{
    char letter = fr_state_letter(row->state);

    add_int(&c->idx, (json_int_t)row->idx - c->next);
    c->next = (json_int_t)row->idx + 1;
    add_int(&c->task, names_find(&c->tasks, row->task));
    put_int(&c->node, names_find(&c->nodes, row->node));
    add_text(&c->hook, row->hook);
    if (c->keys != NULL)
        json_array_append_new(c->keys, json_string(row->key));
    fr_buf_add(&c->state, &letter, 1);
    add_int(&c->attempt_no, (json_int_t)row->attempt_no);
    add_text(&c->cause, fr_cause_name(row->cause));
    add_int(&c->code, (json_int_t)row->code);
    add_text(&c->reason, row->reason);
    add_int(&c->unreachable, packed_time(row->unreachable_wall, c->wall));
    add_int(&c->due, packed_time(row->due_wall, c->wall));
    put_int(&c->started, packed_time(row->started_wall, c->last));
    if (row->started_wall != 0)
        c->last = row->started_wall;
    put_int(&c->ended,
            packed_time(row->ended_wall, row->started_wall != 0 ? row->started_wall : c->wall));
}

static void put_list(struct fr_buf *out, const char *name, struct fr_buf *values)
{
    fr_buf_fmt(out, ",\"%s\":[", name);
    fr_buf_add(out, values->n > 0 ? values->p : "", values->n);
    fr_buf_text(out, "]");
    out->bad |= values->bad;
    fr_buf_finish(values);
}

/* more: gets the members that are text already. */
static json_t *finish(struct columns *c, int64_t seq, struct fr_buf *more)
{
    json_t *doc = json_pack(
        "{s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "seq",
        (json_int_t)seq, "wall", (json_int_t)c->wall, "tasks", c->tasks.list, "nodes",
        c->nodes.list, "idx", list_of(&c->idx), "task", list_of(&c->task), "hook",
        list_of(&c->hook), "state", c->state.n > 0 ? c->state.p : "", "attempt_no",
        list_of(&c->attempt_no), "cause", list_of(&c->cause), "code", list_of(&c->code), "reason",
        list_of(&c->reason), "unreachable", list_of(&c->unreachable), "due", list_of(&c->due));

    if (c->keys != NULL)
        json_object_set_new(doc, "key", c->keys);
    put_list(more, "node", &c->node);
    put_list(more, "started", &c->started);
    put_list(more, "ended", &c->ended);
    json_decref(c->tasks.position);
    json_decref(c->nodes.position);
    fr_buf_finish(&c->state);
    return doc;
}

enum fr_rc view_columns(struct view *v, struct fr_err *err)
{
    struct fr_inst_rows rows = {0};
    int64_t wall = v->run.started_wall != 0 ? v->run.started_wall : v->run.queued_wall;
    struct columns c = {.tasks = names_create(),
                        .nodes = names_create(),
                        .idx = {.list = json_array()},
                        .task = {.list = json_array()},
                        .hook = {.list = json_array()},
                        .attempt_no = {.list = json_array()},
                        .cause = {.list = json_array()},
                        .code = {.list = json_array()},
                        .reason = {.list = json_array()},
                        .unreachable = {.list = json_array()},
                        .due = {.list = json_array()},
                        .wall = wall,
                        .last = wall};
    enum fr_rc rc = view_instances(v, &rows, err);

    for (size_t i = 0; rc == FR_OK && i < rows.n && c.keys == NULL; i++)
        if (rows.rows[i].key[strlen(rows.rows[i].task)] == '[')
            c.keys = json_array();
    for (size_t i = 0; rc == FR_OK && i < rows.n; i++)
        add_inst(&c, &rows.rows[i]);
    if (c.state.bad && rc == FR_OK)
        rc = fr_fail(err, FR_NOMEM, "no memory for an answer");
    v->doc = finish(&c, v->text->seq, &v->more);
    return rc;
}

#include "trainer/text/pyjson.h"
#include "trainer/dataset/records.h"

#include <string.h>

/* State and results of a conversion. */
struct conv {
    const struct tr_data_entry *e;
    const json_t *record;
    struct fr_arena *arena;
    struct tr_message *messages;
    size_t n;
    struct tr_example *out;
    const char **why;
    struct fr_err *err;
};

static enum fr_rc no_memory(struct fr_err *err)
{
    return fr_fail(err, FR_NOMEM, "no memory for a record");
}

static struct fr_str str_of(const json_t *v)
{
    return (struct fr_str){json_string_value(v), json_string_length(v)};
}

/* v as JSON text that lives in the arena. */
static enum fr_rc keep_json(struct conv *c, const json_t *v, struct fr_str *out)
{
    struct fr_buf text = {0};

    tr_pyjson_dump(v, &text);
    const char *kept = text.bad ? NULL : fr_arena_text(c->arena, text.p, text.n);
    fr_buf_finish(&text);
    *out = fr_str_of(kept);
    return kept != NULL ? FR_OK : no_memory(c->err);
}

/* The value of a column, NULL where the column is not named or absent. */
static const json_t *member(const struct conv *c, const char *key)
{
    return key != NULL ? json_object_get(c->record, key) : NULL;
}

/* The text of a column; empty where the column is not named, absent or null. */
static enum fr_rc column(const struct conv *c, const char *key, struct fr_str *out)
{
    const json_t *v = member(c, key);

    *out = (struct fr_str){"", 0};
    if (v == NULL || json_is_null(v))
        return FR_OK;
    if (!tr_pyjson_is_text(v))
        return fr_fail(c->err, FR_USAGE, "column '%s' is not text", key);
    *out = str_of(v);
    return FR_OK;
}

/* tools may be text, or the list itself. */
static enum fr_rc tools_column(struct conv *c, struct fr_str *out)
{
    const json_t *v = member(c, c->e->tools);

    if (!json_is_array(v) && !json_is_object(v))
        return column(c, c->e->tools, out);
    return keep_json(c, v, out);
}

static void add(struct conv *c, enum tr_role role, struct fr_str text)
{
    c->messages[c->n++] = (struct tr_message){role, text};
}

static enum fr_rc put_history(struct conv *c)
{
    const json_t *list = member(c, c->e->history);

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *turn = json_array_get(list, i);
        const json_t *q = json_array_get(turn, 0), *a = json_array_get(turn, 1);
        if (!tr_pyjson_is_text(q) || !tr_pyjson_is_text(a))
            return fr_fail(c->err, FR_USAGE, "column '%s': expected pairs of text", c->e->history);
        add(c, TR_USER, str_of(q));
        add(c, TR_ASSISTANT, str_of(a));
    }
    return FR_OK;
}

static enum fr_rc alpaca(struct conv *c)
{
    const json_t *response = member(c, c->e->response), *history = member(c, c->e->history);
    struct fr_str prompt, query;
    enum fr_rc rc;

    c->messages =
        fr_arena_array(c->arena, 2 * json_array_size(history) + 2, sizeof(c->messages[0]));
    if (c->messages == NULL)
        return no_memory(c->err);
    if ((rc = put_history(c)) != FR_OK || (rc = column(c, c->e->prompt, &prompt)) != FR_OK ||
        (rc = column(c, c->e->query, &query)) != FR_OK)
        return rc;
    if (prompt.n > 0 && query.n > 0) {
        char *both = fr_arena_alloc(c->arena, prompt.n + query.n + 2);
        if (both == NULL)
            return no_memory(c->err);
        memcpy(both, prompt.p, prompt.n);
        both[prompt.n] = '\n';
        memcpy(both + prompt.n + 1, query.p, query.n);
        prompt = (struct fr_str){both, prompt.n + 1 + query.n};
    } else if (prompt.n == 0)
        prompt = query;
    add(c, TR_USER, prompt);
    if (response != NULL && !tr_pyjson_is_text(response) && !json_is_null(response))
        return fr_fail(c->err, FR_USAGE, "column '%s' is not text", c->e->response);
    if (tr_pyjson_is_text(response))
        add(c, TR_ASSISTANT, str_of(response));
    else
        *c->why = "there is no response";
    return FR_OK;
}

static bool is(const char *tag, const char *role)
{
    return tag != NULL && role != NULL && strcmp(tag, role) == 0;
}

/* The role of a message, -1 when its tag is none of them. */
static int role_of(const struct tr_data_entry *e, const char *tag)
{
    if (is(e->user_tag, tag))
        return TR_USER;
    if (is(e->assistant_tag, tag))
        return TR_ASSISTANT;
    if (is(e->observation_tag, tag) || (e->form == TR_FORM_OPENAI && is("tool", tag)))
        return TR_OBSERVATION;
    return is(e->function_tag, tag) ? TR_FUNCTION : -1;
}

/* An assistant message that calls functions: its content is the list of them, as JSON. */
static enum fr_rc tool_calls(struct conv *c, const json_t *calls, struct fr_str *out)
{
    json_t *list = json_array();
    enum fr_rc rc = list != NULL ? FR_OK : no_memory(c->err);

    for (size_t i = 0; list != NULL && i < json_array_size(calls); i++)
        (void)json_array_append(list, json_object_get(json_array_get(calls, i), "function"));
    if (rc == FR_OK)
        rc = keep_json(c, list, out);
    json_decref(list);
    return rc;
}

/* One message after the last: consecutive observations of the OpenAI form become one. */
static enum fr_rc put_message(struct conv *c, int role, struct fr_str text)
{
    static const char between[] = "\n</tool_response>\n<tool_response>\n";
    struct tr_message *last = c->n > 0 ? &c->messages[c->n - 1] : NULL;

    if (c->e->form != TR_FORM_OPENAI || role != TR_OBSERVATION || last == NULL ||
        last->role != TR_OBSERVATION) {
        add(c, (enum tr_role)role, text);
        return FR_OK;
    }
    size_t n = last->text.n + sizeof(between) - 1 + text.n;
    char *all = fr_arena_alloc(c->arena, n + 1);
    if (all == NULL)
        return no_memory(c->err);
    memcpy(all, last->text.p, last->text.n);
    memcpy(all + last->text.n, between, sizeof(between) - 1);
    memcpy(all + last->text.n + sizeof(between) - 1, text.p, text.n);
    last->text = (struct fr_str){all, n};
    return FR_OK;
}

/* Users and observations stand at even places, assistants and functions at odd ones; the last
 * message is an answer. */
static void check_turns(struct conv *c)
{
    if (c->n == 0 || c->n % 2 != 0) {
        *c->why = "its count of messages is odd or zero";
        return;
    }
    for (size_t i = 0; i < c->n; i++) {
        bool asks = c->messages[i].role == TR_USER || c->messages[i].role == TR_OBSERVATION;
        if (asks != (i % 2 == 0))
            *c->why = "its roles do not alternate";
    }
}

static enum fr_rc put_turn(struct conv *c, const json_t *m, size_t i)
{
    const json_t *v = c->e->content_tag != NULL ? json_object_get(m, c->e->content_tag) : NULL;
    const json_t *calls = c->e->form == TR_FORM_OPENAI ? json_object_get(m, "tool_calls") : NULL;
    const char *tag =
        c->e->role_tag != NULL ? json_string_value(json_object_get(m, c->e->role_tag)) : NULL;
    int role = role_of(c->e, tag);
    struct fr_str text = {"", 0};
    enum fr_rc rc;

    if (tr_pyjson_is_text(v))
        text = str_of(v);
    else if (v != NULL && !json_is_null(v))
        return fr_fail(c->err, FR_USAGE, "message %zu: '%s' is not text", i + 1, c->e->content_tag);
    if (i == 0 && is(c->e->system_tag, tag)) {
        c->out->system = text;
        return FR_OK;
    }
    if (role < 0) {
        *c->why = fr_arena_fmt(c->arena, "message %zu has the role '%s', which no tag names", i + 1,
                               tag != NULL ? tag : "");
        return *c->why != NULL ? FR_OK : no_memory(c->err);
    }
    if ((role == TR_ASSISTANT || role == TR_FUNCTION) && json_array_size(calls) > 0) {
        if ((rc = tool_calls(c, calls, &text)) != FR_OK)
            return rc;
        role = TR_FUNCTION;
    }
    return put_message(c, role, text);
}

static enum fr_rc chat(struct conv *c)
{
    const json_t *list = member(c, c->e->messages);
    enum fr_rc rc = FR_OK;

    if (list != NULL && !json_is_null(list) && !json_is_array(list))
        return fr_fail(c->err, FR_USAGE, "column '%s' is not a list", c->e->messages);
    c->messages = fr_arena_array(c->arena, json_array_size(list) + 1, sizeof(c->messages[0]));
    if (c->messages == NULL)
        return no_memory(c->err);
    for (size_t i = 0; rc == FR_OK && i < json_array_size(list); i++)
        rc = put_turn(c, json_array_get(list, i), i);
    /* results of tools that nothing answers are left out, the rest stays */
    if (c->e->form == TR_FORM_OPENAI && c->n > 0 && c->messages[c->n - 1].role == TR_OBSERVATION)
        c->n--;
    if (rc == FR_OK && *c->why == NULL)
        check_turns(c);
    return rc;
}

/* LLaMA-Factory's OpenAI form says whether thinking is on in the system text where no tools are. */
static enum fr_rc thinking_note(struct conv *c)
{
    struct fr_str *s = &c->out->system;
    const char *text;

    if (c->out->tools.n > 0)
        text = s->n > 0 ? fr_arena_fmt(c->arena, "%.*s\n", (int)s->n, s->p) : "";
    else if (s->n == 0)
        text = "detailed thinking off";
    else if (memmem(s->p, s->n, "detailed thinking on", 20) != NULL ||
             memmem(s->p, s->n, "detailed thinking off", 21) != NULL)
        return FR_OK;
    else
        text = fr_arena_fmt(c->arena, "%.*s\ndetailed thinking off", (int)s->n, s->p);
    if (text == NULL)
        return no_memory(c->err);
    *s = fr_str_of(text);
    return FR_OK;
}

enum fr_rc tr_record_convert(const struct tr_data_entry *entry, const json_t *record,
                             struct fr_arena *arena, struct tr_example *out, const char **why,
                             struct fr_err *err)
{
    struct conv c = {
        .e = entry, .record = record, .arena = arena, .out = out, .why = why, .err = err};
    enum fr_rc rc;

    *out = (struct tr_example){.n = 0};
    *why = NULL;
    if (!json_is_object(record))
        return fr_fail(err, FR_USAGE, "expected an object");
    if ((rc = column(&c, entry->system, &out->system)) != FR_OK ||
        (rc = tools_column(&c, &out->tools)) != FR_OK)
        return rc;
    rc = entry->form == TR_FORM_ALPACA ? alpaca(&c) : chat(&c);
    if (rc == FR_OK && entry->form == TR_FORM_OPENAI)
        rc = thinking_note(&c);
    out->messages = c.messages;
    out->n = c.n;
    return rc;
}

const char *tr_record_column(const struct tr_data_entry *e, size_t i, const char **name)
{
    bool alpaca_form = e->form == TR_FORM_ALPACA,
         given = e->query != NULL && !is(e->query, "input");
    const struct {
        const char *key, *name;
    } columns[TR_RECORD_COLUMNS] = {
        {"prompt", alpaca_form ? e->prompt : NULL},
        {"query", alpaca_form && given ? e->query : NULL}, /* the default need not be there */
        {"response", alpaca_form ? e->response : NULL},
        {"history", alpaca_form ? e->history : NULL},
        {"messages", alpaca_form ? NULL : e->messages},
        {"system", e->form != TR_FORM_OPENAI ? e->system : NULL},
        {"tools", e->tools},
    };

    *name = columns[i].name;
    return columns[i].key;
}

enum fr_rc tr_record_text(const struct tr_data_entry *entry, const json_t *record,
                          struct fr_arena *arena, struct fr_str *out, const char **why,
                          struct fr_err *err)
{
    struct tr_example x;
    enum fr_rc rc = tr_record_convert(entry, record, arena, &x, why, err);

    if (rc != FR_OK)
        return rc;
    *why = x.n == 0 ? "it has no message" : NULL;
    *out = x.n > 0 ? x.messages[0].text : (struct fr_str){"", 0};
    return FR_OK;
}

#include "trainer/template/tools.h"

#include "engine/base/sys.h"
#include "trainer/text/pyjson.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>

enum fr_rc tr_tools_find(const char *name, enum tr_tool_format *out, struct fr_err *err)
{
    static const char *const names[TR_TOOLS_NAMED] = {
        "default",  "qwen",     "llama3",   "mistral", "glm4", "glm4_moe", "qwen3_5",
        "minimax1", "minimax2", "seed_oss", "ling",    "lfm2", "gemma4"};
    const char *near;

    for (size_t i = 0; i < TR_TOOLS_NAMED; i++)
        if (strcmp(names[i], name) == 0) {
            *out = (enum tr_tool_format)i;
            return FR_OK;
        }
    near = fr_suggest(name, names, TR_TOOLS_NAMED);
    return fr_fail(err, FR_USAGE, "unknown --tool_format '%s'%s%s%s", name,
                   near != NULL ? ": did you mean '" : "", near != NULL ? near : "",
                   near != NULL ? "'?" : " (default, qwen, llama3, mistral, glm4 …)");
}

void tr_tools_day(char out[32])
{
    time_t now = (time_t)(fr_sys.wall_ms() / 1000);
    struct tm day;

    out[0] = '\0';
    if (localtime_r(&now, &day) != NULL)
        (void)strftime(out, 32, "%d %b %Y", &day);
}

static bool is_list_of_objects(const json_t *v)
{
    size_t i = 0;

    while (i < json_array_size(v) && json_is_object(json_array_get(v, i)))
        i++;
    return json_is_array(v) && i == json_array_size(v);
}

enum fr_rc tr_tools_text(enum tr_tool_format format, struct fr_str tools, struct fr_buf *out,
                         struct fr_err *err)
{
    json_t *v = NULL;
    enum fr_rc rc;

    if ((rc = tr_pyjson_parse(tools, "tools", &v, err)) != FR_OK)
        return rc;
    if (!is_list_of_objects(v))
        rc = fr_fail(err, FR_USAGE, "tools: expected a JSON list of objects");
    else if (format == TR_TOOLS_PHI4) {
        fr_buf_text(out, "<|tool|>");
        fr_buf_add(out, tools.p, tools.n);
        fr_buf_text(out, "<|/tool|>");
    } else if (json_array_size(v) > 0)
        tr_tools_offer(format, v, out);
    json_decref(v);
    return rc == FR_OK && out->bad ? fr_fail(err, FR_NOMEM, "no memory for the tools") : rc;
}

/* A call {name, arguments}, or a list of them. */
static enum fr_rc put_calls(enum tr_tool_format format, struct fr_str text, struct fr_buf *out,
                            struct fr_err *err)
{
    json_t *v = NULL, *calls = NULL;
    const char *why;
    enum fr_rc rc = tr_pyjson_parse(text, "function message", &v, err);

    if (rc != FR_OK)
        return rc;
    if ((calls = json_is_array(v) ? json_incref(v) : json_pack("[O]", v)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for a call");
    else if ((why = tr_tools_unwritable(format, calls)) != NULL)
        rc = fr_fail(err, FR_USAGE, "function message: %s", why);
    else
        tr_tools_put(format, calls, out);
    json_decref(calls);
    json_decref(v);
    return rc;
}

/* The first stretch of text that open and close enclose, these included; empty: there is none. */
static struct fr_str enclosed(struct fr_str text, const char *open, const char *close)
{
    const char *end = text.p + text.n, *p = memmem(text.p, text.n, open, strlen(open)), *q = NULL;

    if (p != NULL) {
        const char *from = p + strlen(open);
        q = memmem(from, (size_t)(end - from), close, strlen(close));
    }
    return q == NULL ? (struct fr_str){text.p, 0}
                     : (struct fr_str){p, (size_t)(q + strlen(close) - p)};
}

/* text without any occurrence of part. */
static void put_without(struct fr_str text, struct fr_str part, struct fr_buf *out)
{
    const char *end = text.p + text.n, *p = text.p, *q;

    while ((q = memmem(p, (size_t)(end - p), part.p, part.n)) != NULL) {
        fr_buf_add(out, p, (size_t)(q - p));
        p = q + part.n;
    }
    fr_buf_add(out, p, (size_t)(end - p));
}

enum fr_rc tr_tools_call(enum tr_tool_format format, const struct tr_tool_words *words,
                         struct fr_str call, struct fr_buf *out, struct fr_err *err)
{
    struct fr_str tagged = enclosed(call, words->call, words->called);
    struct fr_str thought = enclosed(call, words->think, words->thought);
    struct fr_buf json = {0};
    enum fr_rc rc;

    if (format == TR_TOOLS_KIMI)
        return fr_fail(err, FR_UNSUPPORTED,
                       "the chat template that template 'kimi_k2' stands for writes no calls: put "
                       "the call into an answer, or take --tool_format qwen, llama3 …");
    if (tagged.n > 0) {
        size_t open = strlen(words->call), tags = open + strlen(words->called);
        put_without(call, tagged, out);
        rc = put_calls(format, (struct fr_str){tagged.p + open, tagged.n - tags}, out, err);
    } else if (thought.n > 0) {
        fr_buf_add(out, thought.p, thought.n);
        put_without(call, thought, &json);
        rc = json.bad ? fr_fail(err, FR_NOMEM, "no memory for a call")
                      : put_calls(format, (struct fr_str){json.p, json.n}, out, err);
    } else
        rc = put_calls(format, call, out, err);
    fr_buf_finish(&json);
    return rc == FR_OK && out->bad ? fr_fail(err, FR_NOMEM, "no memory for a call") : rc;
}

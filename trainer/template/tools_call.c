/* Calls of functions as the formats write them, by a table of the words around their parts. */
#include "trainer/template/tools.h"

#include "trainer/text/pyjson.h"

#include <string.h>

enum kind {
    JSON,   /* {"name": NAME, KEY: ARGUMENTS} */
    WORDS,  /* name and arguments, with words before each */
    TAGS,   /* each argument by its name, text without quotes */
    PYTHON, /* NAME(KEY="VALUE", …) */
    GEMMA   /* call:NAME{KEY:VALUE,…}, by the order of keys */
};

static const struct form {
    enum kind kind;
    const char *open, *named;         /* around the name; of JSON open alone */
    const char *key, *value, *valued; /* around the name and the value of an argument */
    const char *close;
    const char *begin, *between, *end; /* of the calls of a message */
    bool bare;                         /* one call stands without begin and end */
    bool single;                       /* a message has one call */
} forms[TR_TOOLS_FORMATS] = {
    [TR_TOOLS_DEFAULT] = {WORDS, "Action: ", "\nAction Input: ", .between = "\n"},
    [TR_TOOLS_QWEN] = {JSON, "<tool_call>\n", NULL, "arguments", .close = "\n</tool_call>",
                       .between = "\n"},
    [TR_TOOLS_LLAMA3] = {JSON, .key = "parameters", .begin = "[", .between = ", ", .end = "]",
                         .bare = true},
    [TR_TOOLS_MISTRAL] = {JSON, .key = "arguments", .begin = "[", .between = ", ", .end = "]"},
    [TR_TOOLS_GLM4] = {WORDS, .named = "\n", .single = true},
    [TR_TOOLS_GLM_MOE] = {TAGS, "\n<tool_call>", "", "\n<arg_key>", "</arg_key>\n<arg_value>",
                          "</arg_value>", "", .between = "\n"},
    [TR_TOOLS_QWEN35] = {TAGS, "<tool_call>\n<function=", ">", "\n<parameter=", ">\n",
                         "\n</parameter>", "\n</function>\n</tool_call>", .between = "\n"},
    [TR_TOOLS_MINIMAX1] = {JSON, .key = "arguments", .begin = "<tool_calls>\n", .between = "\n",
                           .end = "\n</tool_calls>"},
    [TR_TOOLS_MINIMAX2] = {TAGS, "<invoke name=\"", "\">", "\n<parameter name=\"", "\">",
                           "</parameter>", "\n</invoke>", .between = "\n"},
    [TR_TOOLS_SEED_OSS] = {TAGS, "\n<seed:tool_call>\n<function=", "", "\n<parameter=", ">",
                           "</parameter>", "\n</function>\n</seed:tool_call>", .between = "\n"},
    [TR_TOOLS_LING] = {JSON, "<tool_call>\n", NULL, "arguments", .close = "\n</tool_call>",
                       .between = "\n"},
    [TR_TOOLS_LFM2] = {PYTHON, .begin = "<|tool_call_start|>[", .between = ", ",
                       .end = "]<|tool_call_end|>"},
    [TR_TOOLS_GEMMA4] = {GEMMA, "<|tool_call>call:", "{", .close = "}<tool_call|>"},
    [TR_TOOLS_LLAMA31] = {JSON, .key = "parameters", .single = true},
    [TR_TOOLS_PHI4] = {WORDS, "Action: ", "\nAction Input: ", .between = "\n"},
};

static void put(const char *words, struct fr_buf *out)
{
    fr_buf_text(out, words != NULL ? words : "");
}

/* Text as it is, other values as JSON. */
static void put_value(const json_t *v, struct fr_buf *out)
{
    if (tr_pyjson_is_text(v))
        fr_buf_add(out, json_string_value(v), json_string_length(v));
    else
        tr_pyjson_dump(v, out);
}

static void put_tags(const struct form *f, const json_t *arguments, struct fr_buf *out)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)arguments, key, v)
    {
        fr_buf_fmt(out, "%s%s%s", f->key, key, f->value);
        put_value(v, out);
        fr_buf_text(out, f->valued);
    }
}

static void put_python(const json_t *arguments, struct fr_buf *out)
{
    const char *key, *comma = "";
    json_t *v;

    fr_buf_text(out, "(");
    json_object_foreach((json_t *)arguments, key, v)
    {
        fr_buf_fmt(out, "%s%s=%s", comma, key, tr_pyjson_is_text(v) ? "\"" : "");
        put_value(v, out);
        fr_buf_text(out, tr_pyjson_is_text(v) ? "\"" : "");
        comma = ", ";
    }
    fr_buf_text(out, ")");
}

static void put_call(const struct form *f, const json_t *call, struct fr_buf *out)
{
    const json_t *name = json_object_get(call, "name");
    const json_t *arguments = json_object_get(call, "arguments");

    put(f->open, out);
    if (f->kind == JSON) {
        fr_buf_text(out, "{\"name\": ");
        tr_pyjson_dump(name, out);
        fr_buf_fmt(out, ", \"%s\": ", f->key);
        tr_pyjson_dump(arguments, out);
        fr_buf_text(out, "}");
    } else {
        tr_pyjson_str(name, out);
        put(f->named, out);
    }
    if (f->kind == WORDS)
        tr_pyjson_dump(arguments, out);
    else if (f->kind == TAGS)
        put_tags(f, arguments, out);
    else if (f->kind == PYTHON)
        put_python(arguments, out);
    else if (f->kind == GEMMA)
        tr_tools_gemma_call(arguments, out);
    put(f->close, out);
}

const char *tr_tools_unwritable(enum tr_tool_format format, const json_t *calls)
{
    const struct form *f = &forms[format];
    const json_t *call;
    size_t i;

    if (f->single && json_array_size(calls) != 1)
        return "the format of the template has one call a message";
    json_array_foreach((json_t *)calls, i, call)
    {
        const json_t *arguments = json_object_get(call, "arguments");

        if (json_object_get(call, "name") == NULL || arguments == NULL)
            return "expected name and arguments";
        if ((f->kind == TAGS || f->kind == PYTHON) && !json_is_object(arguments))
            return "the format of the template has arguments by name: expected an object";
    }
    return NULL;
}

void tr_tools_put(enum tr_tool_format format, const json_t *calls, struct fr_buf *out)
{
    const struct form *f = &forms[format];
    bool bare = f->bare && json_array_size(calls) == 1;

    put(bare ? NULL : f->begin, out);
    for (size_t i = 0; i < json_array_size(calls); i++) {
        put(i > 0 ? f->between : NULL, out);
        put_call(f, json_array_get(calls, i), out);
    }
    put(bare ? NULL : f->end, out);
}

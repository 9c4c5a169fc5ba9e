#include "trainer/data/tools.h"

#include "engine/base/sys.h"
#include "trainer/data/pyjson.h"

#include <string.h>
#include <time.h>

enum fr_rc tr_tools_find(const char *name, enum tr_tool_format *out, struct fr_err *err)
{
    static const char *const names[] = {"default", "qwen", "llama3", "mistral", "glm4", "glm4_moe"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0) {
            *out = (enum tr_tool_format)i;
            return FR_OK;
        }
    return fr_fail(
        err, FR_UNSUPPORTED,
        "--tool_format %s: only default, qwen, llama3, mistral, glm4 and glm4_moe are done", name);
}

/* F of {"type": "function", "function": F}; another object is F itself. */
static bool is_wrapped(const json_t *tool)
{
    const char *type = json_string_value(json_object_get(tool, "type"));

    return type != NULL && strcmp(type, "function") == 0;
}

static const json_t *function_of(const json_t *tool)
{
    return is_wrapped(tool) ? json_object_get(tool, "function") : tool;
}

/* v as Python's str() has it; absent: nothing. */
static void put_member(const json_t *o, const char *key, struct fr_buf *out)
{
    const json_t *v = json_object_get(o, key);

    if (v != NULL)
        tr_pyjson_str(v, out);
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s != NULL ? s : "";
}

static bool contains(const json_t *list, const char *word)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *s = json_string_value(json_array_get(list, i));
        if (s != NULL && strcmp(s, word) == 0)
            return true;
    }
    return false;
}

/* One line a parameter. */
static void put_parameter(const char *name, const json_t *p, bool required, struct fr_buf *out)
{
    const json_t *choices = json_object_get(p, "enum"), *items = json_object_get(p, "items");

    fr_buf_fmt(out, "  - %s (", name);
    put_member(p, "type", out);
    fr_buf_fmt(out, "%s): ", required ? ", required" : "");
    put_member(p, "description", out);
    if (json_array_size(choices) > 0) {
        fr_buf_text(out, ", should be one of [");
        for (size_t i = 0; i < json_array_size(choices); i++) {
            fr_buf_text(out, i > 0 ? ", " : "");
            tr_pyjson_str(json_array_get(choices, i), out);
        }
        fr_buf_text(out, "]");
    }
    if (json_object_size(items) > 0) {
        fr_buf_text(out, ", where each item should be ");
        put_member(items, "type", out);
    }
    fr_buf_text(out, "\n");
}

static void default_text(const json_t *tools, struct fr_buf *out)
{
    const char *name;
    json_t *p;

    fr_buf_text(out, "You have access to the following tools:\n");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *f = function_of(json_array_get(tools, i));
        const json_t *params = json_object_get(f, "parameters");
        fr_buf_fmt(out, "> Tool Name: %s\nTool Description: ", text_of(f, "name"));
        put_member(f, "description", out);
        fr_buf_text(out, "\nTool Args:\n");
        json_object_foreach(json_object_get(params, "properties"), name, p)
            put_parameter(name, p, contains(json_object_get(params, "required"), name), out);
        fr_buf_text(out, "\n");
    }
    fr_buf_text(out, "Use the following format if using a tool:\n```\n"
                     "Action: tool name (one of [");
    for (size_t i = 0; i < json_array_size(tools); i++)
        fr_buf_fmt(out, "%s%s", i > 0 ? ", " : "",
                   text_of(function_of(json_array_get(tools, i)), "name"));
    fr_buf_text(out, "])\nAction Input: the input to the tool, in a JSON format representing the "
                     "kwargs (e.g. ```{\"input\": \"hello world\", \"num_beams\": 5}```)\n```\n");
}

static void put_wrapped(const json_t *tool, struct fr_buf *out)
{
    fr_buf_text(out, is_wrapped(tool) ? "" : "{\"type\": \"function\", \"function\": ");
    tr_pyjson_dump(tool, out);
    fr_buf_text(out, is_wrapped(tool) ? "" : "}");
}

/* A line a tool. */
static void put_signatures(const json_t *tools, struct fr_buf *out)
{
    fr_buf_text(out, "\n\n# Tools\n\nYou may call one or more functions to assist with the user "
                     "query.\n\nYou are provided with function signatures within <tools></tools> "
                     "XML tags:\n<tools>");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        fr_buf_text(out, "\n");
        put_wrapped(json_array_get(tools, i), out);
    }
}

static void glm_moe_text(const json_t *tools, struct fr_buf *out)
{
    put_signatures(tools, out);
    fr_buf_text(out, "\n</tools>\n\nFor each function call, output the function name and arguments "
                     "within the following XML format:\n<tool_call>{function-name}"
                     "\n<arg_key>{arg-key-1}</arg_key>\n<arg_value>{arg-value-1}</arg_value>"
                     "\n<arg_key>{arg-key-2}</arg_key>\n<arg_value>{arg-value-2}</arg_value>"
                     "\n...\n</tool_call>\n");
}

static void mistral_text(const json_t *tools, struct fr_buf *out)
{
    fr_buf_text(out, "[AVAILABLE_TOOLS] [");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        fr_buf_text(out, i > 0 ? ", " : "");
        put_wrapped(json_array_get(tools, i), out);
    }
    fr_buf_text(out, "][/AVAILABLE_TOOLS]");
}

static void glm4_text(const json_t *tools, struct fr_buf *out)
{
    fr_buf_text(out, "你是一个名为 ChatGLM 的人工智能助手。你是基于智谱 AI 公司训练的语言模型 "
                     "GLM-4 模型开发的，你的任务是针对用户的问题和要求提供适当的答复和支持。\n\n"
                     "# 可用工具");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *f = function_of(json_array_get(tools, i));

        fr_buf_fmt(out, "\n\n## %s\n\n", text_of(f, "name"));
        tr_pyjson_pretty(f, 4, out);
        fr_buf_text(out, "\n在调用上述函数时，请使用 Json 格式表示调用的参数。");
    }
}

static void qwen_text(const json_t *tools, struct fr_buf *out)
{
    put_signatures(tools, out);
    fr_buf_text(out, "\n</tools>\n\nFor each function call, return a json object with function "
                     "name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n"
                     "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n"
                     "</tool_call>");
}

void tr_tools_day(char out[32])
{
    time_t now = (time_t)(fr_sys.wall_ms() / 1000);
    struct tm day;

    out[0] = '\0';
    if (localtime_r(&now, &day) != NULL)
        (void)strftime(out, 32, "%d %b %Y", &day);
}

/* The text names the day, as the reference's does. */
static void llama3_text(const json_t *tools, struct fr_buf *out)
{
    char date[32];

    tr_tools_day(date);
    fr_buf_fmt(out,
               "Cutting Knowledge Date: December 2023\nToday Date: %s\n\nYou have access to the "
               "following functions. To call a function, please respond with JSON for a function "
               "call. Respond in the format {\"name\": function name, \"parameters\": dictionary "
               "of argument name and its value}. Do not use variables.\n\n",
               date);
    for (size_t i = 0; i < json_array_size(tools); i++) {
        json_t *tool = json_incref(json_array_get(tools, i));
        if (!is_wrapped(tool))
            tool = json_pack("{s:s, s:o}", "type", "function", "function", tool);
        if (tool == NULL) {
            out->bad = true;
            return;
        }
        tr_pyjson_pretty(tool, 4, out);
        fr_buf_text(out, "\n\n");
        json_decref(tool);
    }
}

static enum fr_rc no_format(struct fr_err *err)
{
    return fr_fail(err, FR_UNSUPPORTED,
                   "the template writes tools in a format that is not done: leave tools out, or "
                   "take --tool_format default, qwen, llama3, mistral, glm4 or glm4_moe");
}

enum fr_rc tr_tools_text(enum tr_tool_format format, struct fr_str tools, struct fr_buf *out,
                         struct fr_err *err)
{
    static void (*const texts[])(const json_t *, struct fr_buf *) = {
        [TR_TOOLS_DEFAULT] = default_text, [TR_TOOLS_QWEN] = qwen_text,
        [TR_TOOLS_LLAMA3] = llama3_text,   [TR_TOOLS_MISTRAL] = mistral_text,
        [TR_TOOLS_GLM4] = glm4_text,       [TR_TOOLS_GLM_MOE] = glm_moe_text,
    };
    json_t *v = NULL;
    enum fr_rc rc;

    if ((rc = tr_pyjson_parse(tools, "tools", &v, err)) != FR_OK)
        return rc;
    if (!json_is_array(v))
        rc = fr_fail(err, FR_USAGE, "tools: expected a JSON list");
    else if (json_array_size(v) > 0 && format == TR_TOOLS_NONE)
        rc = no_format(err);
    else if (json_array_size(v) > 0) /* an empty list adds no text */
        texts[format](v, out);
    json_decref(v);
    return rc == FR_OK && out->bad ? fr_fail(err, FR_NOMEM, "no memory for the tools") : rc;
}

/* Text as it is, other values as JSON. */
static void put_tagged(const json_t *name, const json_t *arguments, struct fr_buf *out)
{
    const char *key;
    json_t *v;

    fr_buf_text(out, "\n<tool_call>");
    tr_pyjson_str(name, out);
    json_object_foreach((json_t *)arguments, key, v)
    {
        fr_buf_fmt(out, "\n<arg_key>%s</arg_key>\n<arg_value>", key);
        if (json_is_string(v) && !tr_pyjson_number(v))
            fr_buf_add(out, json_string_value(v), json_string_length(v));
        else
            tr_pyjson_dump(v, out);
        fr_buf_text(out, "</arg_value>");
    }
}

static void put_call(enum tr_tool_format format, const json_t *call, struct fr_buf *out)
{
    const json_t *name = json_object_get(call, "name");
    const json_t *arguments = json_object_get(call, "arguments");
    bool in_words = format == TR_TOOLS_DEFAULT;

    if (format == TR_TOOLS_GLM_MOE) {
        put_tagged(name, arguments, out);
    } else if (in_words || format == TR_TOOLS_GLM4) {
        fr_buf_text(out, in_words ? "Action: " : "");
        tr_pyjson_str(name, out);
        fr_buf_text(out, in_words ? "\nAction Input: " : "\n");
        tr_pyjson_dump(arguments, out);
    } else {
        fr_buf_text(out, format == TR_TOOLS_QWEN ? "<tool_call>\n" : "");
        fr_buf_text(out, "{\"name\": ");
        tr_pyjson_dump(name, out);
        fr_buf_text(out, format == TR_TOOLS_LLAMA3 ? ", \"parameters\": " : ", \"arguments\": ");
        tr_pyjson_dump(arguments, out);
        fr_buf_text(out, format == TR_TOOLS_QWEN ? "}\n</tool_call>" : "}");
    }
}

/* What a format cannot write. */
static const char *unwritable(enum tr_tool_format format, const json_t *call, size_t n)
{
    const json_t *arguments = json_object_get(call, "arguments");

    if (json_object_get(call, "name") == NULL || arguments == NULL)
        return "expected name and arguments";
    if (format == TR_TOOLS_GLM_MOE && !json_is_object(arguments))
        return "glm4_moe writes arguments by name: expected an object";
    return format == TR_TOOLS_GLM4 && n > 1 ? "glm4 writes one call a message" : NULL;
}

/* A call {name, arguments}, or a list of them. */
static enum fr_rc put_calls(enum tr_tool_format format, struct fr_str text, struct fr_buf *out,
                            struct fr_err *err)
{
    json_t *v = NULL;
    enum fr_rc rc = tr_pyjson_parse(text, "function message", &v, err);
    size_t n = json_is_array(v) ? json_array_size(v) : 1;
    bool list = format == TR_TOOLS_MISTRAL || (format == TR_TOOLS_LLAMA3 && n != 1);

    if (rc == FR_OK)
        fr_buf_text(out, list ? "[" : "");
    for (size_t i = 0; rc == FR_OK && i < n; i++) {
        const json_t *call = json_is_array(v) ? json_array_get(v, i) : v;
        const char *why = unwritable(format, call, n);

        if (why != NULL)
            rc = fr_fail(err, FR_USAGE, "function message: %s", why);
        else {
            fr_buf_text(out, i == 0 ? "" : list ? ", " : "\n");
            put_call(format, call, out);
        }
    }
    if (rc == FR_OK)
        fr_buf_text(out, list ? "]" : "");
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

enum fr_rc tr_tools_call(enum tr_tool_format format, struct fr_str call, struct fr_buf *out,
                         struct fr_err *err)
{
    static const char open[] = "<tool_call>", close[] = "</tool_call>";
    struct fr_str tagged = enclosed(call, open, close);
    struct fr_str thought = enclosed(call, "<think>\n", "\n</think>\n\n");
    struct fr_buf json = {0};
    enum fr_rc rc;

    if (format == TR_TOOLS_NONE)
        return no_format(err);
    if (tagged.n > 0) {
        size_t tags = sizeof(open) - 1 + sizeof(close) - 1;
        put_without(call, tagged, out);
        rc = put_calls(format, (struct fr_str){tagged.p + sizeof(open) - 1, tagged.n - tags}, out,
                       err);
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

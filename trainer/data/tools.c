#include "trainer/data/tools.h"

#include "trainer/data/pyjson.h"

#include <string.h>

/* {"type": "function", "function": F} or F itself. */
static const json_t *function_of(const json_t *tool)
{
    const json_t *f = json_object_get(tool, "function");

    return f != NULL ? f : tool;
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

    fr_buf_fmt(out, "  - %s (%s%s): %s", name, text_of(p, "type"), required ? ", required" : "",
               text_of(p, "description"));
    if (json_array_size(choices) > 0) {
        fr_buf_text(out, ", should be one of [");
        for (size_t i = 0; i < json_array_size(choices); i++) {
            const json_t *c = json_array_get(choices, i);
            fr_buf_text(out, i > 0 ? ", " : "");
            if (json_is_string(c))
                fr_buf_text(out, json_string_value(c));
            else
                tr_pyjson_dump(c, out);
        }
        fr_buf_text(out, "]");
    }
    if (json_object_size(items) > 0)
        fr_buf_fmt(out, ", where each item should be %s", text_of(items, "type"));
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
        fr_buf_fmt(out, "> Tool Name: %s\nTool Description: %s\nTool Args:\n", text_of(f, "name"),
                   text_of(f, "description"));
        json_object_foreach (json_object_get(params, "properties"), name, p)
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

static void qwen_text(const json_t *tools, struct fr_buf *out)
{
    fr_buf_text(out, "\n\n# Tools\n\nYou may call one or more functions to assist with the user "
                     "query.\n\nYou are provided with function signatures within <tools></tools> "
                     "XML tags:\n<tools>");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *tool = json_array_get(tools, i);
        fr_buf_text(out, "\n");
        if (json_object_get(tool, "function") == NULL)
            fr_buf_text(out, "{\"type\": \"function\", \"function\": ");
        tr_pyjson_dump(tool, out);
        if (json_object_get(tool, "function") == NULL)
            fr_buf_text(out, "}");
    }
    fr_buf_text(out, "\n</tools>\n\nFor each function call, return a json object with function "
                     "name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n"
                     "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n"
                     "</tool_call>");
}

enum fr_rc tr_tools_text(enum tr_tool_format format, struct fr_str tools, struct fr_buf *out,
                         struct fr_err *err)
{
    json_t *v = NULL;
    enum fr_rc rc;

    if (format == TR_TOOLS_NONE)
        return fr_fail(err, FR_UNSUPPORTED, "this template's tool format is not done");
    if ((rc = tr_pyjson_parse(tools, "tools", &v, err)) != FR_OK)
        return rc;
    if (!json_is_array(v))
        rc = fr_fail(err, FR_USAGE, "tools: expected a JSON list");
    else if (json_array_size(v) > 0) { /* an empty list adds no text */
        if (format == TR_TOOLS_QWEN)
            qwen_text(v, out);
        else
            default_text(v, out);
    }
    json_decref(v);
    return rc == FR_OK && out->bad ? fr_fail(err, FR_NOMEM, "no memory for the tools") : rc;
}

static enum fr_rc put_call(enum tr_tool_format format, const json_t *call, struct fr_buf *out,
                           struct fr_err *err)
{
    const json_t *name = json_object_get(call, "name");
    const json_t *arguments = json_object_get(call, "arguments");

    if (!json_is_string(name) || tr_pyjson_number(name) || arguments == NULL)
        return fr_fail(err, FR_USAGE, "function message: expected name and arguments");
    if (format == TR_TOOLS_QWEN) {
        fr_buf_text(out, "<tool_call>\n{\"name\": ");
        tr_pyjson_dump(name, out);
        fr_buf_text(out, ", \"arguments\": ");
        tr_pyjson_dump(arguments, out);
        fr_buf_text(out, "}\n</tool_call>");
    } else {
        fr_buf_fmt(out, "Action: %s\nAction Input: ", json_string_value(name));
        tr_pyjson_dump(arguments, out);
    }
    return FR_OK;
}

enum fr_rc tr_tools_call(enum tr_tool_format format, struct fr_str call, struct fr_buf *out,
                         struct fr_err *err)
{
    json_t *v = NULL;
    enum fr_rc rc;

    if (format == TR_TOOLS_NONE)
        return fr_fail(err, FR_UNSUPPORTED, "this template's tool format is not done");
    if ((rc = tr_pyjson_parse(call, "function message", &v, err)) != FR_OK)
        return rc;
    if (!json_is_array(v))
        rc = put_call(format, v, out, err);
    for (size_t i = 0; rc == FR_OK && i < json_array_size(v); i++) {
        fr_buf_text(out, i > 0 ? "\n" : "");
        rc = put_call(format, json_array_get(v, i), out, err);
    }
    json_decref(v);
    return rc == FR_OK && out->bad ? fr_fail(err, FR_NOMEM, "no memory for a call") : rc;
}

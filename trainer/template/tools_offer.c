/* The offer of tools in a system text, in the format of each template. */
#include "trainer/template/tools.h"

#include "engine/base/json.h"
#include "trainer/text/pyjson.h"

#include <stdbool.h>
#include <string.h>

static bool is_wrapped(const json_t *tool)
{
    const char *type = json_string_value(json_object_get(tool, "type"));

    return type != NULL && strcmp(type, "function") == 0;
}

const json_t *tr_tools_function(const json_t *tool)
{
    const json_t *f = json_object_get(tool, "function");

    return is_wrapped(tool) && json_is_object(f) ? f : tool;
}

/* v as Python's str() has it; absent: nothing. */
static void put_member(const json_t *o, const char *key, struct fr_buf *out)
{
    const json_t *v = json_object_get(o, key);

    if (v != NULL)
        tr_pyjson_str(v, out);
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
        const json_t *f = tr_tools_function(json_array_get(tools, i));
        const json_t *params = json_object_get(f, "parameters");
        fr_buf_fmt(out, "> Tool Name: %s\nTool Description: ", fr_json_text(f, "name"));
        put_member(f, "description", out);
        fr_buf_text(out, "\nTool Args:\n");
        json_object_foreach(json_object_get(params, "properties"), name, p)
            put_parameter(name, p, fr_json_has(json_object_get(params, "required"), name), out);
        fr_buf_text(out, "\n");
    }
    fr_buf_text(out, "Use the following format if using a tool:\n```\n"
                     "Action: tool name (one of [");
    for (size_t i = 0; i < json_array_size(tools); i++)
        fr_buf_fmt(out, "%s%s", i > 0 ? ", " : "",
                   fr_json_text(tr_tools_function(json_array_get(tools, i)), "name"));
    fr_buf_text(out, "])\nAction Input: the input to the tool, in a JSON format representing the "
                     "kwargs (e.g. ```{\"input\": \"hello world\", \"num_beams\": 5}```)\n```\n");
}

#define SIGNATURES                                                                                 \
    "# Tools\n\nYou may call one or more functions to assist with the user "                       \
    "query.\n\nYou are provided with function signatures within <tools></tools> "                  \
    "XML tags:\n<tools>"
/* How a call is written as JSON. */
#define CALLS_IN_JSON                                                                              \
    "\n</tools>\n\nFor each function call, return a json object with function "                    \
    "name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n"                   \
    "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n"                             \
    "</tool_call>"

/* A tool is written wrapped in its type, as its function alone, or unchanged with a member a line.
 */
enum form { WRAPPED, FUNCTION, PRETTY };

/* Most formats: text around all tools and around each. */
static const struct offer {
    const char *begin;
    enum form form;
    const char *before, *between, *behind; /* of each tool */
    const char *end;
} offers[TR_TOOLS_FORMATS] = {
    [TR_TOOLS_GLM_MOE] =
        {"\n\n" SIGNATURES, WRAPPED, "\n", "", "",
         "\n</tools>\n\nFor each function call, output the function name and arguments "
         "within the following XML format:\n<tool_call>{function-name}"
         "\n<arg_key>{arg-key-1}</arg_key>\n<arg_value>{arg-value-1}</arg_value>"
         "\n<arg_key>{arg-key-2}</arg_key>\n<arg_value>{arg-value-2}</arg_value>"
         "\n...\n</tool_call>\n"},
    [TR_TOOLS_MISTRAL] = {"[AVAILABLE_TOOLS] [", WRAPPED, "", ", ", "", "][/AVAILABLE_TOOLS]"},
    [TR_TOOLS_QWEN] = {"\n\n" SIGNATURES, WRAPPED, "\n", "", "", CALLS_IN_JSON},
    [TR_TOOLS_LING] = {SIGNATURES, WRAPPED, "\n", "", "", CALLS_IN_JSON "\ndetailed thinking off"},
    [TR_TOOLS_LLAMA31] =
        {"Given the following functions, please respond with a JSON for a function "
         "call with its proper arguments that best answers the given prompt.\n\n"
         "Respond in the format {\"name\": function name, \"parameters\": dictionary "
         "of argument name and its value}.Do not use variables.\n\n",
         PRETTY, "", "", "\n\n", ""},
    [TR_TOOLS_QWEN35] =
        {"\n\n# Tools\n\nYou have access to the following functions:\n\n<tools>", FUNCTION, "\n",
         "", "",
         "\n</tools>\n\nIf you choose to call a function ONLY reply in the following format with "
         "NO "
         "suffix:\n\n<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>"
         "\nvalue_1\n</parameter>\n<parameter=example_parameter_2>\nThis is the value for the "
         "second parameter\nthat can span\nmultiple lines\n</parameter>\n</function>\n</tool_call>"
         "\n\n<IMPORTANT>\nReminder:\n- Function calls MUST follow the specified format: an inner "
         "<function=...></function> block must be nested within <tool_call></tool_call> XML tags\n"
         "- Required parameters MUST be specified\n- You may provide optional reasoning for your "
         "function call in natural language BEFORE the function call, but NOT after\n- If there is "
         "no function call available, answer the question like normal with your current knowledge "
         "and do not tell the user about function calls\n</IMPORTANT>"},
    [TR_TOOLS_MINIMAX1] =
        {"You are provided with these tools:\n<tools>\n", FUNCTION, "", "", "\n",
         "</tools>\n\nIf you need to call tools, please respond with "
         "<tool_calls></tool_calls> XML tags, and provide tool-name and json-object of "
         "arguments, following the format below:\n<tool_calls>\n{\"name\": "
         "<tool-name-1>, \"arguments\": <args-json-object-1>}\n...\n</tool_calls>"},
    [TR_TOOLS_MINIMAX2] =
        {"\n\n# Tools\n\nYou may call one or more tools to assist with the user "
         "query.\nHere are the tools available in JSONSchema format:\n\n<tools>\n",
         FUNCTION, "<tool>", "", "</tool>\n",
         "</tools>\n\nWhen making tool calls, use XML format to invoke tools and pass "
         "parameters:\n\n<minimax:tool_call>\n<invoke name=\"tool-name-1\">\n"
         "<parameter name=\"param-key-1\">param-value-1</parameter>\n"
         "<parameter name=\"param-key-2\">param-value-2</parameter>\n...\n</invoke>\n"
         "</minimax:tool_call>"},
    [TR_TOOLS_LFM2] = {"List of tools: <|tool_list_start|>[", FUNCTION, "", ", ", "",
                       "]<|tool_list_end|>"},
};

static void put_offer(const struct offer *o, const json_t *tools, struct fr_buf *out)
{
    const json_t *tool;
    size_t i;

    fr_buf_text(out, o->begin);
    json_array_foreach(tools, i, tool)
    {
        bool wrap = o->form == WRAPPED && !is_wrapped(tool);

        fr_buf_fmt(out, "%s%s%s", i > 0 ? o->between : "", o->before,
                   wrap ? "{\"type\": \"function\", \"function\": " : "");
        if (o->form == PRETTY)
            tr_pyjson_pretty(tool, 4, out);
        else
            tr_pyjson_dump(o->form == FUNCTION ? tr_tools_function(tool) : tool, out);
        fr_buf_fmt(out, "%s%s", wrap ? "}" : "", o->behind);
    }
    fr_buf_text(out, o->end);
}

static void glm4_text(const json_t *tools, struct fr_buf *out)
{
    fr_buf_text(out, "你是一个名为 ChatGLM 的人工智能助手。你是基于智谱 AI 公司训练的语言模型 "
                     "GLM-4 模型开发的，你的任务是针对用户的问题和要求提供适当的答复和支持。\n\n"
                     "# 可用工具");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *f = tr_tools_function(json_array_get(tools, i));

        fr_buf_fmt(out, "\n\n## %s\n\n", fr_json_text(f, "name"));
        tr_pyjson_pretty(f, 4, out);
        fr_buf_text(out, "\n在调用上述函数时，请使用 Json 格式表示调用的参数。");
    }
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

static void kimi_text(const json_t *tools, struct fr_buf *out)
{
    fr_buf_text(out, "<|im_system|>tool_declare<|im_middle|>");
    tr_pyjson_dump(tools, out);
    fr_buf_text(out, "<|im_end|>");
}

static void seed_oss_text(const json_t *tools, struct fr_buf *out)
{
    fr_buf_text(out, "system\nYou are Doubao, a helpful AI assistant. You may call one or more "
                     "functions to assist with the user query.Tool List:\nYou are authorized to "
                     "use the following tools (described in JSON Schema format). Before performing "
                     "any task, you must decide how to call them based on the descriptions and "
                     "parameters of these tools.\n");
    tr_pyjson_dump(tools, out);
    fr_buf_text(out,
                "\n工具调用请遵循如下格式:\n<seed:tool_call>\n<function=example_function_name>\n"
                "<parameter=example_parameter_1>value_1</parameter>\n"
                "<parameter=example_parameter_2>This is the value for the second parameter\n"
                "that can span\nmultiple lines</parameter>\n</function>\n</seed:tool_call>\n");
}

void tr_tools_offer(enum tr_tool_format format, const json_t *tools, struct fr_buf *out)
{
    static void (*const texts[TR_TOOLS_FORMATS])(const json_t *, struct fr_buf *) = {
        [TR_TOOLS_DEFAULT] = default_text,
        [TR_TOOLS_LLAMA3] = llama3_text,
        [TR_TOOLS_GLM4] = glm4_text,
        [TR_TOOLS_SEED_OSS] = seed_oss_text,
        [TR_TOOLS_GEMMA4] = tr_tools_gemma_offer,
        [TR_TOOLS_KIMI] = kimi_text,
    };

    if (texts[format] != NULL)
        texts[format](tools, out);
    else
        put_offer(&offers[format], tools, out);
}

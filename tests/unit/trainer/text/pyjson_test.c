/* JSON as Python's json module writes it (json.dumps(json.loads(x), ensure_ascii=False) of Python
 * 3.11), by itself, in tool calls and through records. */
#include "trainer/text/pyjson.h"

#include "engine/base/file.h"
#include "tests/unit/check.h"
#include "trainer/text/quickjson.h"
#include "trainer/dataset/records.h"
#include "trainer/template/tools.h"

#include <unistd.h>

/* clang-format off */
static const struct {
    const char *text, *want;
} rows[] = {
    {"3.141592653589793", "3.141592653589793"},
    {"0.1", "0.1"},
    {"1e5", "100000.0"},
    {"1E400", "Infinity"},
    {"-1e400", "-Infinity"},
    {"1e-7", "1e-07"},
    {"1e16", "1e+16"},
    {"123456789012345680.0", "1.2345678901234568e+17"},
    {"9223372036854775807", "9223372036854775807"},
    {"9223372036854775808", "9223372036854775808"},
    {"-9223372036854775808", "-9223372036854775808"},
    {"-9223372036854775809", "-9223372036854775809"},
    {"123456789012345678901234567890", "123456789012345678901234567890"},
    {"-0", "0"},
    {"-0.0", "-0.0"},
    {"0.30000000000000004", "0.30000000000000004"},
    {"5e-324", "5e-324"},
    {"1.7976931348623157e308", "1.7976931348623157e+308"},
    {"\"a\\u001b\\u007f\\/\\u00e9\\\"\\\\\\n\\t\\b\\f\\r\"",
     "\"a\\u001b\x7f/\xc3\xa9\\\"\\\\\\n\\t\\b\\f\\r\""},
    {"[NaN, -Infinity,Infinity, \"NaN\"]", "[NaN, -Infinity, Infinity, \"NaN\"]"},
    {"{\"a\": 1, \"b\": 2, \"a\": 99999999999999999999}",
     "{\"a\": 99999999999999999999, \"b\": 2}"},
    {"[]", "[]"},
    {"{}", "{}"},
    {"[1,2.0,{\"a\":null,\"b\":[true,false]}]", "[1, 2.0, {\"a\": null, \"b\": [true, false]}]"},
    {"{\"n\": 18446744073709551616, \"x\": [1e999]}",
     "{\"n\": 18446744073709551616, \"x\": [Infinity]}"},
    {"\"9223372036854775808\"", "\"9223372036854775808\""},
    {"{\"a\\n\": 99999999999999999999.5}", "{\"a\\n\": 1e+20}"},
    {"{\"s\": \"\\\\\\\" 99999999999999999999\", \"n\": 99999999999999999999}",
     "{\"s\": \"\\\\\\\" 99999999999999999999\", \"n\": 99999999999999999999}"},
    {"0.00001", "1e-05"},
    {"0.0001", "0.0001"},
};
/* clang-format on */

static void test_values(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_buf got = {0};
        struct fr_err err = {0};
        json_t *v = NULL;

        check_row(rows[i].text);
        if (!CHECK_INT(tr_pyjson_parse(fr_str_of(rows[i].text), "x", &v, &err), FR_OK)) {
            printf("   %s\n", err.msg);
            continue;
        }
        tr_pyjson_dump(v, &got);
        CHECK_TEXT(got.p, rows[i].want);
        fr_buf_finish(&got);
        json_decref(v);
    }
}

static void test_wrong(void)
{
    static const struct {
        const char *text, *want;
    } wrong[] = {{"{\"a\": 1", "x:1:"},
                 {"99999999999999999999,", "x:1:"},
                 {"[99999999999999999999", "x:1:"},
                 {"[NaNa]", "x:1:"}};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct fr_err err = {0};
        json_t *v = NULL;

        check_row(wrong[i].text);
        CHECK_INT(tr_pyjson_parse(fr_str_of(wrong[i].text), "x", &v, &err), FR_USAGE);
        CHECK(strstr(err.msg, wrong[i].want) != NULL);
    }
}

static void test_floats(void)
{
    static const struct {
        double x;
        const char *text;
    } floats[] = {{4.98e-05, "4.98e-05"},  {1, "1.0"},      {0.1, "0.1"},       {0, "0.0"},
                  {1.2345, "1.2345"},      {1e16, "1e+16"}, {0.0001, "0.0001"}, {-2.5, "-2.5"},
                  {12345678, "12345678.0"}};
    char text[32];

    for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]); i++) {
        check_row(floats[i].text);
        tr_show_float(floats[i].x, text);
        CHECK_TEXT(text, floats[i].text);
    }
}

#define ARGUMENTS "{\"pi\": 3.141592653589793, \"id\": 9223372036854775808, \"big\": 1e+16}"

static void test_calls(void)
{
    static const char call[] = "{\"name\": \"f\", \"arguments\": " ARGUMENTS "}";
    static const struct tr_tool_words words = {"<tool_call>", "</tool_call>", "<think>",
                                               "</think>"};
    static const char disordered[] = "{\"name\": \"f\", \"arguments\": {\"b\": {\"z\": 1, \"y\": "
                                     "[true, null, \"t\"]}, \"a\": \"s\"}}";
    static const char tool[] = "[{\"name\": \"f\", \"maximum\": 9223372036854775808}]";
    struct fr_buf out = {0};
    struct fr_err err = {0};

    check_row("calls and tools");
    CHECK_INT(tr_tools_call(TR_TOOLS_DEFAULT, &words, fr_str_of(call), &out, &err), FR_OK);
    CHECK_TEXT(out.p, "Action: f\nAction Input: " ARGUMENTS);
    out.n = 0;
    CHECK_INT(tr_tools_call(TR_TOOLS_QWEN, &words, fr_str_of(call), &out, &err), FR_OK);
    CHECK_TEXT(out.p, "<tool_call>\n{\"name\": \"f\", \"arguments\": " ARGUMENTS "}\n</tool_call>");
    out.n = 0;
    CHECK_INT(tr_tools_text(TR_TOOLS_QWEN, fr_str_of(tool), &out, &err), FR_OK);
    CHECK(strstr(out.p, "\"maximum\": 9223372036854775808}") != NULL);
    out.n = 0;
    CHECK_INT(tr_tools_call(TR_TOOLS_GEMMA4, &words, fr_str_of(disordered), &out, &err), FR_OK);
    CHECK_TEXT(out.p, "<|tool_call>call:f{a:<|\"|>s<|\"|>,b:{y:[true,null,<|\"|>t<|\"|>],z:1}}"
                      "<tool_call|>");
    fr_buf_finish(&out);
}

/* What Python's str() makes of what json.loads() gives. */
static void test_str(void)
{
    static const char text[] =
        "[\"a\\nb\\t\\r\\\\\", \"it's\", \"q\\\"\", \"b'\\\"\", \"\\u0001\\u007f\", "
        "{\"k\": true, \"l\": null, \"m\": [1.5, false]}]";
    struct fr_buf out = {0};
    struct fr_err err = {0};
    json_t *v = NULL;

    check_row("str");
    CHECK_INT(tr_pyjson_parse(fr_str_of(text), "x", &v, &err), FR_OK);
    tr_pyjson_str(v, &out);
    CHECK_TEXT(out.p, "['a\\nb\\t\\r\\\\', \"it's\", 'q\"', 'b\\'\"', '\\x01\\x7f', "
                      "{'k': True, 'l': None, 'm': [1.5, False]}]");
    out.n = 0;
    tr_pyjson_str(json_array_get(v, 1), &out);
    CHECK_TEXT(out.p, "it's");
    json_decref(v);
    fr_buf_finish(&out);
}

#define Q "<|\"|>"

/* Gemma 4: what an answer is, with its type where that is an object; arguments that are none. */
static void test_gemma(void)
{
    static const struct tr_tool_words words = {"<tool_call>", "</tool_call>", "<think>",
                                               "</think>"};
    static const char tools[] =
        "[{\"name\": \"f\", \"description\": \"d\", \"response\": {\"description\": \"it\", "
        "\"type\": \"object\"}}, {\"name\": \"g\", \"description\": \"e\", \"response\": "
        "{\"description\": \"that\", \"type\": \"string\"}}]";
    static const char list[] = "{\"name\": \"f\", \"arguments\": [1, \"t\", {\"a\": 2.5}]}";
    struct fr_buf out = {0};
    struct fr_err err = {0};

    check_row("Gemma's answers");
    CHECK_INT(tr_tools_text(TR_TOOLS_GEMMA4, fr_str_of(tools), &out, &err), FR_OK);
    CHECK(strstr(out.p, "declaration:f{description:" Q "d" Q ",response:{description:" Q "it" Q
                        ",type:" Q "OBJECT" Q "}}") != NULL);
    CHECK(strstr(out.p, "declaration:g{description:" Q "e" Q ",response:{description:" Q "that" Q
                        "}}") != NULL);
    out.n = 0;
    CHECK_INT(tr_tools_call(TR_TOOLS_GEMMA4, &words, fr_str_of(list), &out, &err), FR_OK);
    CHECK_TEXT(out.p, "<|tool_call>call:f{[1," Q "t" Q ",{a:2.5}]}<tool_call|>");
    fr_buf_finish(&out);
}

#define CALL "{\"name\": \"f\", \"arguments\": {}}"

static const struct {
    const char *what;
    enum tr_tool_format format;
    const char *tools, *call; /* one of them */
    enum fr_rc rc;
    const char *message;
} refused[] = {
    {"two calls", TR_TOOLS_GLM4, NULL, "[" CALL ", " CALL "]", FR_USAGE, "one call a message"},
    {"no call", TR_TOOLS_LLAMA31, NULL, "[]", FR_USAGE, "one call a message"},
    {"arguments in a list", TR_TOOLS_LFM2, NULL, "{\"name\": \"f\", \"arguments\": [1]}", FR_USAGE,
     "arguments by name"},
    {"no arguments", TR_TOOLS_QWEN, NULL, "{\"name\": \"f\"}", FR_USAGE, "name and arguments"},
    {"a call of Kimi K2", TR_TOOLS_KIMI, NULL, CALL, FR_UNSUPPORTED, "writes no calls"},
    {"a tool that is a number", TR_TOOLS_GEMMA4, "[7]", NULL, FR_USAGE, "a JSON list of objects"},
    {"tools that are one", TR_TOOLS_QWEN, "{\"name\": \"f\"}", NULL, FR_USAGE, "a JSON list"},
};

static void test_refused(void)
{
    static const struct tr_tool_words words = {"<tool_call>", "</tool_call>", "<think>",
                                               "</think>"};

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct fr_str call = fr_str_of(refused[i].call), tools = fr_str_of(refused[i].tools);
        struct fr_buf out = {0};
        struct fr_err err = {0};

        check_row(refused[i].what);
        CHECK_INT(refused[i].call != NULL
                      ? tr_tools_call(refused[i].format, &words, call, &out, &err)
                      : tr_tools_text(refused[i].format, tools, &out, &err),
                  refused[i].rc);
        CHECK(strstr(err.msg, refused[i].message) != NULL);
        fr_buf_finish(&out);
    }
}

/* ---- records ---- */

struct seen {
    const struct tr_data_entry *entry;
    struct fr_buf text;
    enum fr_rc rc;
    struct fr_err err;
};

static enum fr_rc each(void *arg, const json_t *record, const char *where, struct fr_err *err)
{
    struct seen *s = arg;
    struct fr_arena arena = {0};
    struct tr_example x;
    const char *why;

    (void)where;
    (void)err;
    s->rc = tr_record_convert(s->entry, record, &arena, &x, &why, &s->err);
    for (size_t i = 0; s->rc == FR_OK && i < x.n; i++)
        fr_buf_fmt(&s->text, "%.*s|", (int)x.messages[i].text.n, x.messages[i].text.p);
    if (s->rc == FR_OK)
        fr_buf_add(&s->text, x.tools.p, x.tools.n);
    fr_arena_finish(&arena);
    return FR_OK;
}

static void test_records(void)
{
    static const struct tr_data_entry openai = {.form = TR_FORM_OPENAI,
                                                .messages = "messages",
                                                .tools = "tools",
                                                .role_tag = "role",
                                                .content_tag = "content",
                                                .user_tag = "user",
                                                .assistant_tag = "assistant"};
    static const struct tr_data_entry alpaca = {.prompt = "q", .response = "a"};
    static const struct {
        const char *name;
        const struct tr_data_entry *entry;
        const char *text, *want;
        enum fr_rc rc;
    } records[] = {
        {"calls and tools", &openai,
         "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", "
         "\"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": " ARGUMENTS "}}]}], "
         "\"tools\": [{\"most\": 9223372036854775808}]}",
         "q|[{\"name\": \"f\", \"arguments\": " ARGUMENTS "}]|[{\"most\": 9223372036854775808}]",
         FR_OK},
        {"a column that is not used", &alpaca,
         "{\"q\": \"q\", \"a\": \"a\", \"id\": 18446744073709551616}", "q|a|", FR_OK},
        {"a number is no text", &alpaca, "{\"q\": 18446744073709551616, \"a\": \"a\"}",
         "column 'q' is not text", FR_USAGE},
    };
    char path[] = "/tmp/flowrun-pyjson-XXXXXX.jsonl";
    int fd = mkstemps(path, 6);

    CHECK(fd >= 0);
    (void)close(fd);
    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
        struct seen s = {.entry = records[i].entry};
        struct fr_buf bytes = {0};
        struct tr_record_sink sink = {.each = each, .arg = &s, .bytes = &bytes};
        struct fr_err err = {0};

        check_row(records[i].name);
        CHECK_INT(fr_file_write(path, records[i].text, strlen(records[i].text), 0600, &err), FR_OK);
        CHECK_INT(tr_records_read(path, &sink, &err), FR_OK);
        CHECK_INT(s.rc, records[i].rc);
        if (s.rc == FR_OK)
            CHECK_TEXT(s.text.p, records[i].want);
        else
            CHECK(strstr(s.err.msg, records[i].want) != NULL);
        fr_buf_finish(&s.text);
        fr_buf_finish(&bytes);
    }
    CHECK_INT(unlink(path), 0);
}

static bool same_json(const json_t *a, const json_t *b)
{
    char *x = json_dumps(a, JSON_ENCODE_ANY), *y = json_dumps(b, JSON_ENCODE_ANY);
    bool same = x != NULL && y != NULL && strcmp(x, y) == 0 && json_equal(a, b);

    free(x);
    free(y);
    return same;
}

/* Records with a few bytes of them changed: what the quick reader reads, jansson reads as well. */
static void test_quick(void)
{
    static const char *const texts[] = {
        "{\"instruction\": \"say \\\"a\\\"\\n\", \"input\": null, \"n\": 12, \"ok\": true}",
        " [ {\"from\": \"human\", \"value\": \"\xc3\xa9t\xc3\xa9\"}, [], {}, 0, false ] ",
        "{\"a\": 1, \"a\": {\"b\": [\"\\\\\", \"\\/\", \"\\t\"]}, \"\": \"\"}",
        "[12345678901234567, 1234567890123456, 01, 1.5, -1, 1e3, \"\\u0041\", \"x]",
    };
    static const char bytes[] = "\"\\{}[]:, 019.e-tnu\n\t\x01\x80\xc3";
    unsigned state = 3, read = 0, left = 0, wrong = 0;
    char text[128];

    check_row("the quick reader");
    for (int i = 0; i < 40000; i++) {
        const char *from = texts[i % 4];
        size_t n = strlen(from);
        json_t *quick, *slow;

        memcpy(text, from, n);
        for (unsigned k = 0; k < (unsigned)i / 4 % 4; k++) {
            state = state * 1664525u + 1013904223u;
            text[(state >> 8) % n] = bytes[(state >> 20) % (sizeof(bytes) - 1)];
        }
        quick = tr_quick_json((struct fr_str){text, n});
        slow = json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        wrong += quick != NULL && (slow == NULL || !same_json(quick, slow));
        read += quick != NULL;
        left += quick == NULL && slow != NULL;
        json_decref(quick);
        json_decref(slow);
    }
    CHECK_INT(wrong, 0);
    CHECK(read > 9000 && left > 10 && left < read / 10);
    CHECK(tr_quick_json(FR_STR("{\"a\": [\"b\", 1, null]}x")) == NULL);
}

int main(void)
{
    test_values();
    test_quick();
    test_wrong();
    test_floats();
    test_calls();
    test_str();
    test_gemma();
    test_refused();
    test_records();
    return check_done();
}

#include "tests/unit/check.h"
#include "trainer/dataset/dataset.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <unistd.h>

static char dir[] = "/tmp/flowrun-data-XXXXXX";
static const char tokenizer[] = SOURCE_ROOT "/tests/golden/tokenizer/deepseek.json";

static void put(const char *name, const char *text)
{
    char path[256];
    struct fr_err err;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    CHECK_INT(fr_file_write(path, text, strlen(text), 0644, &err), FR_OK);
}

/* ids as text, each left out that is not trained. */
static void show(const struct tr_tokenizer *t, const int32_t *ids, const int32_t *labels, size_t n,
                 struct fr_buf *out)
{
    struct tr_ids kept = {0};

    for (size_t i = 0; i < n; i++)
        if (labels == NULL || labels[i] != TR_IGNORE)
            CHECK_INT(tr_ids_add(&kept, &ids[i], 1, NULL), FR_OK);
    out->n = 0;
    fr_buf_text(out, " "); /* so that p is there */
    CHECK_INT(tr_tokenizer_decode(t, kept.v, kept.n, false, out, NULL), FR_OK);
    fr_buf_cut(out, 1);
    out->p[out->n] = '\0';
    tr_ids_finish(&kept);
}

#define U(text)                                                                                    \
    {                                                                                              \
        TR_USER,                                                                                   \
        {                                                                                          \
            text, sizeof(text) - 1                                                                 \
        }                                                                                          \
    }
#define A(text)                                                                                    \
    {                                                                                              \
        TR_ASSISTANT,                                                                              \
        {                                                                                          \
            text, sizeof(text) - 1                                                                 \
        }                                                                                          \
    }
#define O(text)                                                                                    \
    {                                                                                              \
        TR_OBSERVATION,                                                                            \
        {                                                                                          \
            text, sizeof(text) - 1                                                                 \
        }                                                                                          \
    }
#define F(text)                                                                                    \
    {                                                                                              \
        TR_FUNCTION,                                                                               \
        {                                                                                          \
            text, sizeof(text) - 1                                                                 \
        }                                                                                          \
    }

static const struct {
    const char *name, *templ;
    struct tr_message messages[4];
    size_t n;
    const char *system, *tools;
    const char *all, *trained;
} rows[] = {
    {"default",
     "default",
     {U("hi"), A("yes")},
     2,
     "",
     "",
     "Human: hi</s>\nAssistant:yes</s>\n",
     "yes</s>\n"},
    {"default system",
     "default",
     {U("hi"), A("yes")},
     2,
     "be brief",
     "",
     "System: be brief</s>\nHuman: hi</s>\nAssistant:yes</s>\n",
     "yes</s>\n"},
    {"deepseek3",
     "deepseek3",
     {U("hi"), A("yes")},
     2,
     "",
     "",
     "<s><\xef\xbd\x9cUser\xef\xbd\x9c>hi<\xef\xbd\x9c"
     "Assistant\xef\xbd\x9c>yes</s>",
     "yes</s>"},
    {"deepseek3 system, two turns",
     "deepseek3",
     {U("a"), A("b"), U("c"), A("d")},
     4,
     "S",
     "",
     "<s>S<\xef\xbd\x9cUser\xef\xbd\x9c>a<\xef\xbd\x9c"
     "Assistant\xef\xbd\x9c>b</s>"
     "<\xef\xbd\x9cUser\xef\xbd\x9c>c<\xef\xbd\x9c"
     "Assistant\xef\xbd\x9c>d</s>",
     "b</s>d</s>"},
    {"deepseek",
     "deepseek",
     {U("a"), A("b")},
     2,
     "S",
     "",
     "<s>S\n\nUser: a\n\nAssistant:b</s>",
     "b</s>"},
    {"empty", "empty", {U("a"), A(" b")}, 2, "", "", "a b", " b"},
    {"alpaca",
     "alpaca",
     {U("a"), A("b")},
     2,
     "S\n",
     "",
     "S\n### Instruction:\na\n\n### Response:\nb</s>\n\n",
     "b</s>\n\n"},
    {"fewshot",
     "fewshot",
     {U("a"), A("b"), U("c"), A("d")},
     4,
     "",
     "",
     "ab\n\ncd\n\n</s>",
     "b\n\n</s>d\n\n</s>"},
    {"content is put in once", "empty", {U("{{content}}"), A("x")}, 2, "", "", "{{content}}x", "x"},
    {"special text in data", "empty", {U("a</s>"), A("x")}, 2, "", "", "a</s>x", "x"},
    {"qwen",
     "qwen3_nothink",
     {U("a"), A("b")},
     2,
     "",
     "",
     "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n",
     "b<|im_end|>\n"},
    {"tools",
     "default",
     {U("a"), F("{\"name\": \"f\", \"arguments\": {\"x\": 1.5}}"), O("7"), A("c")},
     4,
     "",
     "[{\"name\": \"f\", \"description\": \"D\", \"parameters\": {\"properties\": {\"x\": "
     "{\"type\": \"number\", \"description\": \"P\"}, \"y\": {\"type\": \"string\", \"enum\": "
     "[\"u\", \"v\"]}}, \"required\": [\"x\"]}}]",
     "System: You have access to the following tools:\n> Tool Name: f\nTool Description: D\n"
     "Tool Args:\n  - x (number, required): P\n  - y (string): , should be one of [u, v]\n\n"
     "Use the following format if using a tool:\n```\nAction: tool name (one of [f])\n"
     "Action Input: the input to the tool, in a JSON format representing the kwargs (e.g. "
     "```{\"input\": \"hello world\", \"num_beams\": 5}```)\n```\n</s>\n"
     "Human: a</s>\nAssistant:Action: f\nAction Input: {\"x\": 1.5}</s>\n"
     "Human: 7</s>\nAssistant:c</s>\n",
     "Action: f\nAction Input: {\"x\": 1.5}</s>\nc</s>\n"},
};

static void test_templates(struct tr_tokenizer *t, struct tr_encoder *e)
{
    struct fr_buf text = {0};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct tr_template *templ;
        struct tr_template_opts o = {.cutoff_len = 100000};
        struct tr_example x = {rows[i].messages, rows[i].n, fr_str_of(rows[i].system),
                               fr_str_of(rows[i].tools)};
        struct tr_ids ids = {0}, labels = {0};
        struct fr_err err;
        check_row(rows[i].name);
        CHECK_INT(tr_template_find(rows[i].templ, &templ, &err), FR_OK);
        struct tr_encoded out = {&ids, &labels};
        CHECK_INT(tr_template_encode(templ, e, &x, &o, out, &err), FR_OK);
        CHECK_INT(ids.n, labels.n);
        show(t, ids.v, NULL, ids.n, &text);
        CHECK_TEXT(text.p, rows[i].all);
        show(t, labels.v, labels.v, ids.n, &text);
        CHECK_TEXT(text.p, rows[i].trained);
        tr_ids_finish(&ids);
        tr_ids_finish(&labels);
    }
    fr_buf_finish(&text);
}

static const struct {
    int64_t s, t, c, want_s, want_t;
} fits[] = {
    {100, 10, 50, 40, 10},
    {10, 100, 50, 10, 40},
    {60, 60, 100, 50, 50},
    {200, 40, 100, 60, 40},
    {1000, 600, 1024, 640, 384},
    {5, 5, 100, 5, 5},
    {0, 0, 1, 0, 0},
    {3, 3, 1, 1, 0},
    /* ties: half of the limit is no longer short; a share is cut off in double precision */
    {60, 49, 100, 51, 49},
    {60, 50, 100, 55, 45},
    {49, 60, 100, 49, 51},
    {50, 60, 100, 46, 54},
    {50, 50, 100, 50, 50},
    {1, 1, 1, 1, 0},
    {1, 1, 2, 1, 1},
    {14, 30, 22, 8, 14},
};

/* Each character is one token: s1 "@$%&", t1 "!?^~", s2 "*+/", t2 "|;". Worked out by hand from the
 * reference's rule. */
static const struct {
    const char *name;
    int64_t cutoff;
    bool mask_history, train_on_prompt;
    const char *all, *trained;
} cuts[] = {
    {"whole", 99, false, false, "@$%&!?^~*+/|;", "!?^~|;"},
    {"prompt too", 99, false, true, "@$%&!?^~*+/|;", "@$%&!?^~*+/|;"},
    {"last turn only", 99, true, false, "@$%&!?^~*+/|;", "|;"},
    {"no target left", 10, false, false, "@$%&!?^~*+", "!?^~"},
    {"second pair cut", 11, false, false, "@$%&!?^~*+|", "!?^~|"},
    {"first pair fills all", 8, false, false, "@$%&!?^~", "!?^~"},
    {"first pair cut", 4, false, false, "@$!?", "!?"},
    {"history is cut first", 7, true, false, "@!*+/|;", "|;"},
};

static void test_cuts(struct tr_tokenizer *t, struct tr_encoder *e)
{
    static const struct tr_message m[] = {U("@$%&"), A("!?^~"), U("*+/"), A("|;")};
    const struct tr_template *empty;
    struct fr_buf text = {0};
    struct fr_err err;

    check_row("fit");
    for (size_t i = 0; i < sizeof(fits) / sizeof(fits[0]); i++) {
        int64_t s, n;
        tr_fit(fits[i].s, fits[i].t, fits[i].c, &s, &n);
        CHECK_INT(s, fits[i].want_s);
        CHECK_INT(n, fits[i].want_t);
    }
    CHECK_INT(tr_template_find("empty", &empty, &err), FR_OK);
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        struct tr_template_opts o = {
            cuts[i].cutoff, cuts[i].mask_history, cuts[i].train_on_prompt, NULL, NULL, false,
            false};
        struct tr_example x = {.messages = m, .n = 4};
        struct tr_ids ids = {0}, labels = {0};
        check_row(cuts[i].name);
        struct tr_encoded out = {&ids, &labels};
        CHECK_INT(tr_template_encode(empty, e, &x, &o, out, &err), FR_OK);
        show(t, ids.v, NULL, ids.n, &text);
        CHECK_TEXT(text.p, cuts[i].all);
        show(t, labels.v, labels.v, ids.n, &text);
        CHECK_TEXT(text.p, cuts[i].trained);
        tr_ids_finish(&ids);
        tr_ids_finish(&labels);
    }
    fr_buf_finish(&text);
    check_row("unknown template");
    CHECK_INT(tr_template_find("deepseek4", &empty, &err), FR_USAGE);
    CHECK(strstr(err.msg, "did you mean 'deepseek") != NULL);
}

static int64_t count_of(const struct tr_ids *ids, int32_t id)
{
    int64_t n = 0;

    for (size_t i = 0; i < ids->n; i++)
        n += ids->v[i] == id;
    return n;
}

/* Ends that are trained: one a turn, where the next turn begins, and the last. An empty prompt has
 * no token to carry one. */
static void test_ends(const struct tr_template *fewshot, struct tr_encoder *e)
{
    static const struct {
        const char *name;
        struct tr_message m[4];
        int64_t want;
    } turns[] = {{"two ends", {U("@$"), A("!?"), U("*"), A("|;")}, 2},
                 {"an empty prompt", {U("@$"), A("!?"), U(""), A("|;")}, 1}};
    struct tr_template_opts o = {.cutoff_len = 99};
    struct fr_err err;

    for (size_t i = 0; i < sizeof(turns) / sizeof(turns[0]); i++) {
        struct tr_example x = {.messages = turns[i].m, .n = 4};
        struct tr_ids ids = {0}, labels = {0};
        struct tr_encoded out = {&ids, &labels};

        check_row(turns[i].name);
        CHECK_INT(tr_template_encode(fewshot, e, &x, &o, out, &err), FR_OK);
        CHECK_INT(count_of(&labels, tr_tokenizer_eos(tr_encoder_tokenizer(e))), turns[i].want);
        tr_ids_finish(&ids);
        tr_ids_finish(&labels);
    }
}

/* A template with one end-of-sequence at the end: it has a place within every limit. */
static void test_efficient(struct tr_encoder *e)
{
    static const struct tr_message m[] = {U("@$%&"), A("!?^~"), U("*+/"), A("|;")};
    int32_t eos = tr_tokenizer_eos(tr_encoder_tokenizer(e));
    struct tr_example x = {.messages = m, .n = 4};
    const struct tr_template *fewshot;
    int64_t whole = 0;
    struct fr_err err;

    CHECK_INT(tr_template_find("fewshot", &fewshot, &err), FR_OK);
    for (int64_t cutoff = 99; cutoff >= 1; cutoff = cutoff == 99 ? whole + 1 : cutoff - 1) {
        struct tr_template_opts o = {.cutoff_len = cutoff};
        struct tr_ids ids = {0}, labels = {0};
        struct tr_encoded out = {&ids, &labels};
        char name[32];

        (void)snprintf(name, sizeof(name), "one end, limit %d", (int)cutoff);
        check_row(name);
        CHECK_INT(tr_template_encode(fewshot, e, &x, &o, out, &err), FR_OK);
        whole = cutoff == 99 ? (int64_t)ids.n : whole;
        CHECK_INT(ids.n, cutoff < whole ? cutoff : whole);
        CHECK_INT(labels.n, ids.n);
        CHECK_INT(count_of(&ids, eos), 1);
        CHECK_INT(ids.v[ids.n - 1], eos);
        CHECK_INT(labels.v[ids.n - 1], eos);
        tr_ids_finish(&ids);
        tr_ids_finish(&labels);
    }
    CHECK(whole > 14);
    test_ends(fewshot, e);
}

/* Data sets: an entry, a file, and the texts of the samples (template empty), joined by "|". */
static const struct {
    const char *name, *entry, *file, *data, *want;
    enum fr_rc rc;
    const char *message; /* of the error, or of the warnings */
} sets[] = {
    {"alpaca lines", "{\"file_name\": \"a.jsonl\"}", "a.jsonl",
     "{\"instruction\": \"a\", \"input\": \"b\", \"output\": \"c\"}\n\n"
     "{\"instruction\": \"d\", \"input\": \"\", \"output\": \"e\"}",
     "a\nbc|de", FR_OK, ""},
    {"alpaca list", "{\"file_name\": \"a.json\"}", "a.json",
     "[{\"instruction\": \"\", \"input\": \"b\", \"output\": \"c\"},"
     "{\"instruction\": \"d\", \"output\": \"\", \"system\": \"no\"}]",
     "bc|d", FR_OK, ""},
    {"columns",
     "{\"file_name\": \"a.json\", \"columns\": {\"prompt\": \"q\", \"response\": "
     "\"r\"}}",
     "a.json", "[{\"q\": \"d\", \"r\": \"e\", \"input\": \"no\"}]", "de", FR_OK, ""},
    {"history and system",
     "{\"file_name\": \"a.json\", \"columns\": {\"prompt\": \"q\", "
     "\"response\": \"r\", \"history\": \"h\", \"system\": \"s\"}}",
     "a.json", "[{\"q\": \"e\", \"r\": \"f\", \"s\": \"a\", \"h\": [[\"b\", \"c\"]]}]", "abcef",
     FR_OK, ""},
    {"no response", "{\"file_name\": \"a.json\"}", "a.json",
     "[{\"instruction\": \"d\", \"output\": null}, {\"instruction\": \"a\", "
     "\"output\": \"b\"}]",
     "ab", FR_OK, "a.json, record 1: Dropped invalid example: there is no response"},
    {"sharegpt", "{\"file_name\": \"a.json\", \"formatting\": \"sharegpt\"}", "a.json",
     "[{\"conversations\": [{\"from\": \"system\", \"value\": \"s\"}, {\"from\": \"human\", "
     "\"value\":"
     " \"a\"}, {\"from\": \"gpt\", \"value\": \"b\"}, {\"from\": \"human\", \"value\": \"c\"}, "
     "{\"from\": \"gpt\", \"value\": \"d\"}]}]",
     "sabcd", FR_OK, ""},
    {"sharegpt, wrong turns", "{\"file_name\": \"a.json\", \"formatting\": \"sharegpt\"}", "a.json",
     "[{\"conversations\": [{\"from\": \"gpt\", \"value\": \"a\"}, {\"from\": \"human\", \"value\":"
     " \"b\"}]}]",
     NULL, FR_USAGE, "Cannot find valid samples"},
    {"sharegpt, odd", "{\"file_name\": \"a.json\", \"formatting\": \"sharegpt\"}", "a.json",
     "[{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}]}]", NULL, FR_USAGE,
     "Cannot find valid samples"},
    {"tags",
     "{\"file_name\": \"a.json\", \"formatting\": \"sharegpt\", \"columns\": "
     "{\"messages\": "
     "\"m\"}, \"tags\": {\"role_tag\": \"role\", \"content_tag\": \"content\", \"user_tag\": "
     "\"user\", "
     "\"assistant_tag\": \"assistant\"}}",
     "a.json",
     "[{\"m\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": "
     "\"b\"}]}]",
     "ab", FR_OK, ""},
    {"openai",
     "{\"file_name\": \"a.json\", \"formatting\": \"openai\", \"columns\": "
     "{\"messages\": "
     "\"m\"}, \"tags\": {\"role_tag\": \"role\", \"content_tag\": \"content\", \"user_tag\": "
     "\"user\", "
     "\"assistant_tag\": \"assistant\", \"system_tag\": \"system\"}}",
     "a.json",
     "[{\"m\": [{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": "
     "\"a\"}, "
     "{\"role\": \"assistant\", \"tool_calls\": [{\"type\": \"function\", \"function\": {\"name\": "
     "\"f\", \"arguments\": {\"x\": 1}}}]}, {\"role\": \"tool\", \"content\": \"p\"}, {\"role\": "
     "\"tool\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"b\"}]}]",
     "S\ndetailed thinking offaAction: f\nAction Input: {\"x\": 1}"
     "p\n</tool_response>\n<tool_response>\nqb",
     FR_OK, ""},
    {"not text", "{\"file_name\": \"a.json\"}", "a.json",
     "[{\"instruction\": 7, \"output\": "
     "\"x\"}]",
     NULL, FR_USAGE, "a.json, record 1: column 'instruction' is not text"},
    {"bad line", "{\"file_name\": \"a.jsonl\"}", "a.jsonl",
     "{\"instruction\": \"a\", \"output\": \"b\"}\n{\"instruction\": ", NULL, FR_USAGE,
     "a.jsonl:2:"},
    {"a key twice in a line", "{\"file_name\": \"a.jsonl\"}", "a.jsonl",
     "{\"instruction\": \"{\\\"a\\\":1\", \"output\": \"b\"}\n"
     "{\"instruction\": \"a\", \"output\": \"b\", \"\\u006futput\": \"c\"}",
     NULL, FR_USAGE,
     "a.jsonl:2: the key 'output' stands twice in the record, and datasets refuses such a file"},
    {"a key twice in a list or inside", "{\"file_name\": \"a.json\"}", "a.json",
     "[{\"instruction\": \"a\", \"output\": \"b\", \"output\": \"c\"}]", "ac", FR_OK, ""},
    {"a key twice inside", "{\"file_name\": \"a.jsonl\"}", "a.jsonl",
     "{\"instruction\": \"a\", \"output\": \"b\", "
     "\"more\": {\"x\": 1, \"x\": [{\"y\": 2, \"y\": 3}]}}",
     "ab", FR_OK, ""},
    {"csv, answers that are numbers", "{\"file_name\": \"a.csv\"}", "a.csv",
     "instruction,output\na,1\nb,2.5\n", "a1|b2.5", FR_OK,
     "data set 'x': all answers in the column 'output' are numbers, which datasets gives a type"},
    {"answers that are times", "{\"file_name\": \"a.jsonl\"}", "a.jsonl",
     "{\"instruction\": \"a\", \"output\": \"2024-01-02\"}", "a2024-01-02", FR_OK,
     "are dates and times, which datasets gives a type of their own: LLaMA-Factory drops these"},
    {"no object", "{\"file_name\": \"a.jsonl\"}", "a.jsonl", "7", NULL, FR_USAGE,
     "a.jsonl:1: expected an object"},
    {"empty file", "{\"file_name\": \"a.jsonl\"}", "a.jsonl", " \n", NULL, FR_USAGE,
     "holds no "
     "records"},
    {"text", "{\"file_name\": \"a.txt\", \"columns\": {\"prompt\": \"text\"}}", "a.txt", "a,b",
     NULL, FR_USAGE, "a.txt:1: there is no response"},
    {"text, not UTF-8", "{\"file_name\": \"a.txt\"}", "a.txt", "a\n\xff", NULL, FR_USAGE,
     "a.txt:2: text is not UTF-8"},
    {"another type", "{\"file_name\": \"a.bin\"}", "a.bin", "a,b", NULL, FR_UNSUPPORTED,
     "only .json"},
    {"csv, a header alone", "{\"file_name\": \"a.csv\"}", "a.csv", "a,b", NULL, FR_USAGE,
     "Cannot find valid samples"},
    {"csv, an open quote", "{\"file_name\": \"a.csv\"}", "a.csv", "a,b\n\n\"x\n,", NULL, FR_USAGE,
     "a.csv:3: a quote is not closed"},
    {"csv, too many fields", "{\"file_name\": \"a.csv\"}", "a.csv", "a,b\n1,2,3", NULL, FR_USAGE,
     "a.csv:2: more fields than the header's 2"},
    {"no file", "{\"file_name\": \"none.json\"}", "a.csv", "", NULL, FR_NOTFOUND, "none.json"},
    {"remote", "{\"hf_hub_url\": \"x/y\"}", "a.csv", "", NULL, FR_UNSUPPORTED, "hf_hub_url"},
    {"a key that is nearly one", "{\"file_name\": \"a.json\", \"formating\": \"sharegpt\"}",
     "a.json", "[]", NULL, FR_USAGE, "unknown key 'formating': did you mean 'formatting'?"},
    {"a column that is nearly one",
     "{\"file_name\": \"a.json\", \"columns\": {\"promt\": \"instruction\"}}", "a.json", "[]", NULL,
     FR_USAGE, "unknown key 'promt' of columns: did you mean 'prompt'?"},
    {"a tag that is nearly one", "{\"file_name\": \"a.json\", \"tags\": {\"role_tg\": \"role\"}}",
     "a.json", "[]", NULL, FR_USAGE, "unknown key 'role_tg' of tags: did you mean 'role_tag'?"},
    {"a key of others", "{\"file_name\": \"a.jsonl\", \"file_sha1\": \"x\", \"_comment\": 1}",
     "a.jsonl", "{\"instruction\": \"a\", \"output\": \"b\"}", "ab", FR_OK, ""},
    {"num_samples as text", "{\"file_name\": \"a.json\", \"num_samples\": \"3\"}", "a.json", "[]",
     NULL, FR_USAGE, "num_samples: expected a number of records"},
    {"a role without a tag", "{\"file_name\": \"a.json\", \"formatting\": \"sharegpt\"}", "a.json",
     "[{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gtp\", "
     "\"value\": \"b\"}]}]",
     NULL, FR_USAGE, "message 2 has the role 'gtp', which no tag names"},
    {"ranking", "{\"file_name\": \"a.json\", \"ranking\": true}", "a.json", "[]", NULL,
     FR_UNSUPPORTED, "ranking"},
    {"formatting", "{\"file_name\": \"a.json\", \"formatting\": \"x\"}", "a.json", "[]", NULL,
     FR_USAGE, "formatting 'x'"},
};

static enum fr_rc load(const char *name, struct tr_tokenizer *t, const char *cache,
                       struct tr_dataset **out, struct fr_buf *warnings, struct fr_err *err)
{
    struct tr_dataset_opts o = {.dataset = name,
                                .dataset_dir = dir,
                                .max_samples = -1,
                                .seed = 42,
                                .cache_dir = cache,
                                .text = {.cutoff_len = 1000}};

    CHECK_INT(tr_template_find("empty", &o.templ, err), FR_OK);
    return tr_dataset_load(&o, t, out, warnings, err);
}

static void test_sets(struct tr_tokenizer *t)
{
    struct fr_buf info = {0}, got = {0}, text = {0}, warnings = {0};
    struct fr_err err;

    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        struct tr_dataset *d = NULL;
        check_row(sets[i].name);
        info.n = warnings.n = got.n = 0;
        fr_buf_fmt(&info, "{\"x\": %s}", sets[i].entry);
        put("dataset_info.json", info.p);
        put(sets[i].file, sets[i].data);
        err.msg[0] = '\0';
        if (!CHECK_INT(load(" x ,", t, NULL, &d, &warnings, &err), sets[i].rc))
            printf("   %s\n", err.msg);
        const char *said = sets[i].rc == FR_OK ? warnings.n > 0 ? warnings.p : "" : err.msg;
        if (!CHECK(strstr(said, sets[i].message) != NULL))
            printf("   said: %s\n", said);
        for (int64_t k = 0; d != NULL && k < tr_dataset_size(d); k++) {
            struct tr_sample s = tr_dataset_at(d, k);
            show(t, s.ids, NULL, (size_t)s.n, &text);
            fr_buf_fmt(&got, "%s%s", k > 0 ? "|" : "", text.p);
        }
        if (sets[i].want != NULL)
            CHECK_TEXT(got.p, sets[i].want);
        tr_dataset_destroy(d);
    }
    check_row("undefined");
    struct tr_dataset *d;
    CHECK_INT(load("y", t, NULL, &d, NULL, &err), FR_USAGE);
    CHECK(strstr(err.msg, "Undefined dataset y in dataset_info.json.") != NULL);
    fr_buf_finish(&info);
    fr_buf_finish(&got);
    fr_buf_finish(&text);
    fr_buf_finish(&warnings);
}

/* More records than a batch takes, some of them dropped and, if asked, one wrong near the end. */
static void put_many(bool wrong)
{
    struct fr_buf text = {0};

    for (int i = 0; i < 700; i++)
        if (wrong && i == 690)
            fr_buf_text(&text, "{\"instruction\": 7, \"output\": \"x\"}\n");
        else if (i % 50 == 7)
            fr_buf_text(&text, "{\"messages\": []}\n");
        else
            fr_buf_fmt(&text, "{\"instruction\": \"count %d\", \"output\": \"%d\"}\n", i, i * i);
    put("dataset_info.json", "{\"x\": {\"file_name\": \"a.jsonl\"}}");
    put("a.jsonl", text.p);
    fr_buf_finish(&text);
}

static int64_t stop_at;

static bool told(void *arg, int64_t records)
{
    int64_t *last = arg;

    CHECK(records > *last);
    *last = records;
    return records < stop_at;
}

/* Samples, what is said and the first error are those of one thread; all records are told. */
static void test_workers(struct tr_tokenizer *t)
{
    static const struct {
        const char *row, *said;
        enum fr_rc rc;
    } ends[] = {{"threads", "a.jsonl:8: Dropped", FR_OK},
                {"threads, one record wrong", "a.jsonl:691", FR_USAGE},
                {"asked to stop", "stopped as asked, while data set 'x' was read", FR_STOPPED}};

    for (int k = 0; k < 3; k++) {
        bool wrong = ends[k].rc == FR_USAGE;
        struct fr_buf said[3] = {{0}, {0}, {0}};
        put_many(wrong);
        stop_at = ends[k].rc == FR_STOPPED ? 1 : INT64_MAX;
        for (int i = 0; i < 3; i++) {
            int64_t last = 0;
            struct tr_dataset_opts o = {.dataset = "x",
                                        .dataset_dir = dir,
                                        .max_samples = -1,
                                        .text = {.cutoff_len = 1000},
                                        .workers = 1 + 3 * i,
                                        .tell = {told, &last}};
            struct tr_dataset *d = NULL;
            struct fr_err err = {.msg = ""};
            check_row(ends[k].row);
            CHECK_INT(tr_template_find("empty", &o.templ, &err), FR_OK);
            CHECK_INT(tr_dataset_load(&o, t, &d, &said[i], &err), ends[k].rc);
            fr_buf_fmt(&said[i], "%s %s", d != NULL ? tr_dataset_digest(d) : "", err.msg);
            CHECK(d == NULL || (tr_dataset_size(d) == 686 && last == 700));
            tr_dataset_destroy(d);
        }
        CHECK_TEXT(said[1].p, said[0].p);
        CHECK_TEXT(said[2].p, said[0].p);
        CHECK(strstr(said[0].p, ends[k].said) != NULL);
        for (int i = 0; i < 3; i++)
            fr_buf_finish(&said[i]);
    }
}

/* Public data sets through the registry that comes with them: nothing is dropped, nothing is
 * empty. */
static void test_real(const char *data)
{
    static const struct {
        const char *dir, *names, *templ;
        int64_t samples;
    } real[] = {
        {"sft/llamafactory", "identity,glaive_toolcall_en_demo", "default", 91 + 300},
        {"sft/llamafactory", "identity", "deepseek3", 91},
    };
    char path[512];
    struct tr_tokenizer *t = NULL;
    struct fr_err err;

    (void)snprintf(path, sizeof(path), "%s/tokenizers/deepseek-r1", data);
    CHECK_INT(tr_tokenizer_load(path, &t, &err), FR_OK);
    for (size_t i = 0; t != NULL && i < sizeof(real) / sizeof(real[0]); i++) {
        struct tr_dataset_opts o = {.dataset = real[i].names,
                                    .dataset_dir = path,
                                    .max_samples = -1,
                                    .text = {.cutoff_len = 4096}};
        struct fr_buf warnings = {0};
        struct tr_dataset *d = NULL;
        check_row(real[i].names);
        (void)snprintf(path, sizeof(path), "%s/%s", data, real[i].dir);
        CHECK_INT(tr_template_find(real[i].templ, &o.templ, &err), FR_OK);
        if (!CHECK_INT(tr_dataset_load(&o, t, &d, &warnings, &err), FR_OK)) {
            printf("   %s\n", err.msg);
            continue;
        }
        CHECK_INT(tr_dataset_size(d), real[i].samples);
        CHECK_INT(warnings.n, 0);
        for (int64_t k = 0; k < tr_dataset_size(d); k++) {
            struct tr_sample s = tr_dataset_at(d, k);
            CHECK(s.n > 4 && s.labels[0] == TR_IGNORE && s.labels[s.n - 1] != TR_IGNORE);
        }
        tr_dataset_destroy(d);
        fr_buf_finish(&warnings);
    }
    tr_tokenizer_destroy(t);
}

/* Files of a model's folder, and what --template auto makes of them. */
static const struct {
    const char *name, *config, *jinja; /* NULL: not there */
    const char *want;
} chats[] = {
    {"no files", NULL, NULL, "has no chat template: name one"},
    {"no chat template", "{\"bos_token\":\"<s>\"}", NULL, "has no chat template"},
    {"blanks", NULL, " \n", "has no chat template"},
    {"an unknown one", "{\"chat_template\":\"x\\n\"}", NULL, "(SHA-256 2d711642b726…)"},
    {"of a list",
     "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"y\"},"
     "{\"name\":\"default\",\"template\":\"x\"}]}",
     NULL, "(SHA-256 2d711642b726…)"},
    {"a file of its own", "{\"chat_template\":\"y\"}", "x\n", "(SHA-256 2d711642b726…)"},
};

static void test_auto(const char *data)
{
    static const char *const real[][2] = {{"deepseek-v3", "deepseek3"},
                                          {"tokenizers/deepseek-r1", "deepseekr1"}};
    const struct tr_template *found;
    struct fr_err err = {0};
    char path[512];

    for (size_t i = 0; i < sizeof(chats) / sizeof(chats[0]); i++) {
        check_row(chats[i].name);
        if (chats[i].config != NULL)
            put("tokenizer_config.json", chats[i].config);
        if (chats[i].jinja != NULL)
            put("chat_template.jinja", chats[i].jinja);
        CHECK_INT(tr_template_choose("auto", dir, &found, &err), FR_USAGE);
        if (!CHECK(strstr(err.msg, chats[i].want) != NULL))
            printf("   message: %s\n", err.msg);
        (void)snprintf(path, sizeof(path), "%s/chat_template.jinja", dir);
        (void)unlink(path);
        (void)snprintf(path, sizeof(path), "%s/tokenizer_config.json", dir);
        (void)unlink(path);
    }
    CHECK_INT(tr_template_choose("qwen", dir, &found, &err), FR_OK);
    CHECK_TEXT(tr_template_name(found), "qwen");
    for (size_t i = 0; data != NULL && i < 2; i++) {
        check_row(real[i][0]);
        (void)snprintf(path, sizeof(path), "%s/%s", data, real[i][0]);
        if (CHECK_INT(tr_template_choose("auto", path, &found, &err), FR_OK))
            CHECK_TEXT(tr_template_name(found), real[i][1]);
    }
}

int main(void)
{
    const char *data = getenv("FLOWRUN_DATA");
    struct tr_tokenizer *t = NULL;
    struct tr_encoder *e = NULL;
    struct fr_err err;

    if (mkdtemp(dir) == NULL || tr_tokenizer_load(tokenizer, &t, &err) != FR_OK ||
        tr_encoder_create(t, &e, &err) != FR_OK) {
        printf("cannot start: %s\n", err.msg);
        return EXIT_FAILURE;
    }
    test_templates(t, e);
    test_cuts(t, e);
    test_efficient(e);
    test_sets(t);
    test_workers(t);
    test_auto(data);
    if (data != NULL)
        test_real(data);
    else
        printf("skipped: public data sets, FLOWRUN_DATA is not set\n");
    tr_encoder_destroy(e);
    tr_tokenizer_destroy(t);
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
    return check_done();
}

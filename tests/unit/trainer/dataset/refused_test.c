/* Data sets that are refused, each with what is said; what is dropped, counted and cut short. */
#include "tests/unit/check.h"
#include "trainer/dataset/dataset.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <unistd.h>

static char dir[] = "/tmp/flowrun-refused-XXXXXX";
static const char tokenizer[] = SOURCE_ROOT "/tests/golden/tokenizer/deepseek.json";

static void put(const char *name, const char *text)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    CHECK_INT(fr_file_write(path, text, strlen(text), 0644, NULL), FR_OK);
}

static void put_entry(const char *entry)
{
    struct fr_buf info = {0};

    fr_buf_fmt(&info, "{\"x\": %s}", entry);
    put("dataset_info.json", info.p);
    fr_buf_finish(&info);
}

static enum fr_rc load(struct tr_dataset_opts *o, struct tr_tokenizer *t, struct tr_dataset **out,
                       struct fr_buf *warnings, struct fr_err *err)
{
    *err = (struct fr_err){0};
    o->dataset = o->dataset != NULL ? o->dataset : "x";
    o->dataset_dir = o->dataset_dir != NULL ? o->dataset_dir : dir;
    o->text.cutoff_len = 1000;
    CHECK_INT(tr_template_find("empty", &o->templ, NULL), FR_OK);
    return tr_dataset_load(o, t, out, warnings, err);
}

#define JSON "{\"file_name\": \"a.json\"}"
#define LINES "{\"file_name\": \"a.jsonl\"}"
#define CSV "{\"file_name\": \"a.csv\"}"
#define CHAT "{\"file_name\": \"a.json\", \"formatting\": \"sharegpt\"}"

static const struct {
    const char *name, *entry, *file, *data, *want;
} rows[] = {
    {"an entry that is a list", "[1]", "a.json", "[]",
     "dataset_info.json: data set 'x': expected an object"},
    {"an entry without a file", "{\"formatting\": \"alpaca\"}", "a.json", "[]",
     "data set 'x': file_name is missing"},
    {"a column that is a number", "{\"file_name\": \"a.json\", \"columns\": {\"prompt\": 7}}",
     "a.json", "[]", "data set 'x': prompt: expected a name"},
    {"a tag that is a list", "{\"file_name\": \"a.json\", \"tags\": {\"user_tag\": []}}", "a.json",
     "[]", "data set 'x': user_tag: expected a name"},
    {"no samples of a set", "{\"file_name\": \"a.json\", \"num_samples\": 0}", "a.json", "[]",
     "num_samples: expected a number of records, 1 or more"},
    {"a history that is no pairs",
     "{\"file_name\": \"a.json\", \"columns\": {\"prompt\": \"q\", \"response\": \"r\", "
     "\"history\": \"h\"}}",
     "a.json", "[{\"q\": \"a\", \"r\": \"b\", \"h\": [[\"a\", 7]]}]",
     "a.json, record 1: column 'h': expected pairs of text"},
    {"an answer that is a number", JSON, "a.json", "[{\"instruction\": \"a\", \"output\": 7}]",
     "a.json, record 1: column 'output' is not text"},
    {"messages that are text", CHAT, "a.json", "[{\"conversations\": \"x\"}]",
     "a.json, record 1: column 'conversations' is not a list"},
    {"a message that is a number", CHAT, "a.json",
     "[{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gpt\", "
     "\"value\": 7}]}]",
     "a.json, record 1: message 2: 'value' is not text"},
    {"a header that is no text", CSV, "a.csv", "a\xff,b\n1,2", "a.csv:1: a field is not UTF-8"},
    {"a field that is no text", CSV, "a.csv", "instruction,output\na,b\nc,\xff\n",
     "a.csv:3: a field is not UTF-8"},
    {"a sample without tokens", LINES, "a.jsonl", "{\"instruction\": \"\", \"output\": \"\"}",
     "all 1 records of --dataset x failed; "},
};

static void test_rows(struct tr_tokenizer *t)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_dataset_opts o = {.max_samples = -1};
        struct tr_dataset *d = NULL;
        struct fr_err err;

        check_row(rows[i].name);
        put(rows[i].file, rows[i].data);
        put_entry(rows[i].entry);
        CHECK_INT(load(&o, t, &d, NULL, &err), FR_USAGE);
        CHECK(d == NULL);
        if (!CHECK(strstr(err.msg, rows[i].want) != NULL))
            printf("   %s\n", err.msg);
    }
}

/* What is wrong beside the entry: the folder, the list, the names, the files. */
static void test_others(struct tr_tokenizer *t)
{
    char path[256], many[4 * 80] = "x", name[5000], entry[5100];
    struct tr_dataset *d = NULL;
    struct fr_err err;

    for (int i = 1; i < 65; i++)
        (void)strncat(many, ",x", sizeof(many) - strlen(many) - 1);
    put("a.jsonl", "{\"instruction\": \"a\", \"output\": \"b\"}\n");
    put_entry(LINES);
    const struct {
        const char *name, *dataset, *folder, *want;
    } names[] = {
        {"no name", ",", NULL, "--dataset names no data set"},
        {"65 names", many, NULL, "--dataset names more than 64 data sets"},
        {"a folder elsewhere", "x", "REMOTE:me/sets", "--dataset_dir REMOTE:me/sets: nothing is"},
        {"no folder", "x", "ONLINE", "--dataset_dir ONLINE: nothing is downloaded, give a local"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        check_row(names[i].name);
        CHECK_INT(load(&(struct tr_dataset_opts){.max_samples = -1,
                                                 .dataset = names[i].dataset,
                                                 .dataset_dir = names[i].folder},
                       t, &d, NULL, &err),
                  FR_USAGE);
        if (!CHECK(strstr(err.msg, names[i].want) != NULL))
            printf("   %s\n", err.msg);
    }
    check_row("64 names");
    many[strlen(many) - 2] = '\0';
    CHECK_INT(
        load(&(struct tr_dataset_opts){.max_samples = -1, .dataset = many}, t, &d, NULL, &err),
        FR_OK);
    CHECK_INT(tr_dataset_size(d), 64);
    tr_dataset_destroy(d);
    check_row("a name that is too long");
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    (void)snprintf(entry, sizeof(entry), "{\"file_name\": \"%s\"}", name);
    put_entry(entry);
    CHECK_INT(load(&(struct tr_dataset_opts){.max_samples = -1}, t, &d, NULL, &err), FR_USAGE);
    CHECK(strstr(err.msg, "file name too long: nnn") != NULL);
    check_row("a folder of two types");
    (void)snprintf(path, sizeof(path), "%s/mixed", dir);
    CHECK_INT(fr_mkdirs(path, 0755, NULL), FR_OK);
    put("mixed/a.json", "[]");
    put("mixed/b.csv", "a,b\n");
    put_entry("{\"file_name\": \"mixed\"}");
    CHECK_INT(load(&(struct tr_dataset_opts){.max_samples = -1}, t, &d, NULL, &err), FR_USAGE);
    CHECK(strstr(err.msg, ": the files of a folder are of one type, as ") != NULL);
    check_row("a list of lists");
    put("dataset_info.json", "[]");
    CHECK_INT(load(&(struct tr_dataset_opts){.max_samples = -1}, t, &d, NULL, &err), FR_USAGE);
    CHECK(strstr(err.msg, "dataset_info.json: expected an object of data sets by name") != NULL);
}

static int count_of(const char *text, const char *part)
{
    int n = 0;

    for (; text != NULL && (text = strstr(text, part)) != NULL; text++)
        n++;
    return n;
}

/* 25 records without an answer, and with `good` one that has one. */
static void put_dropped(bool good)
{
    struct fr_buf text = {0};

    for (int i = 0; i < 25; i++)
        fr_buf_text(&text, "  {\"instruction\": \"a\", \"output\": null}\n");
    if (good)
        fr_buf_text(&text, " \t{\"instruction\": \"a\", \"output\": \"b\"}");
    put("a.jsonl", text.p);
    put_entry(LINES);
    fr_buf_finish(&text);
}

/* The first 20 are named, and all counted; the error names three. */
static void test_dropped(struct tr_tokenizer *t)
{
    struct tr_dataset_opts o = {.max_samples = -1};
    struct tr_dataset *d = NULL;
    struct fr_buf said = {0};
    struct fr_err err;

    check_row("dropped");
    put_dropped(true);
    CHECK_INT(load(&o, t, &d, &said, &err), FR_OK);
    CHECK_INT(tr_dataset_size(d), 1);
    fr_buf_add(&said, "", 1);
    CHECK_INT(count_of(said.p, "Dropped invalid example: there is no response\n"), 20);
    CHECK(strstr(said.p, "a.jsonl:1: Dropped") != NULL && strstr(said.p, "a.jsonl:20: ") != NULL);
    CHECK_INT(count_of(said.p, "25 invalid examples were dropped in all\n"), 1);
    tr_dataset_destroy(d);
    check_row("all dropped");
    put_dropped(false);
    CHECK_INT(load(&o, t, &d, NULL, &err), FR_USAGE);
    CHECK(strstr(err.msg, "all 25 records of --dataset x failed; ") != NULL);
    CHECK_INT(count_of(err.msg, ": there is no response"), 3);
    fr_buf_finish(&said);
}

/* num_samples is drawn of all records, max_samples are the first of these; threads count for
 * nothing. */
static void test_few(struct tr_tokenizer *t)
{
    struct fr_buf text = {0};
    struct tr_dataset *all = NULL, *d = NULL;
    struct fr_err err;

    for (int i = 0; i < 10; i++)
        fr_buf_fmt(&text, "{\"instruction\": \"%c\", \"output\": \"\"}\n", '0' + i);
    put("a.jsonl", text.p);
    put_entry("{\"file_name\": \"a.jsonl\", \"num_samples\": 5}");
    check_row("two of five of ten");
    CHECK_INT(load(&(struct tr_dataset_opts){.max_samples = -1, .seed = 3}, t, &all, NULL, &err),
              FR_OK);
    CHECK_INT(load(&(struct tr_dataset_opts){.max_samples = 2, .seed = 3, .workers = 1000}, t, &d,
                   NULL, &err),
              FR_OK);
    CHECK_INT(tr_dataset_size(all), 5);
    if (CHECK_INT(tr_dataset_size(d), 2))
        for (int64_t i = 0; i < 2; i++) {
            struct tr_sample x = tr_dataset_at(all, i), y = tr_dataset_at(d, i);

            CHECK(x.n == y.n && memcmp(x.ids, y.ids, (size_t)x.n * sizeof(*x.ids)) == 0);
        }
    tr_dataset_destroy(all);
    tr_dataset_destroy(d);
    fr_buf_finish(&text);
}

int main(void)
{
    struct tr_tokenizer *t = NULL;
    struct fr_err err;

    if (mkdtemp(dir) == NULL || tr_tokenizer_load(tokenizer, &t, &err) != FR_OK) {
        printf("cannot start: %s\n", err.msg);
        return EXIT_FAILURE;
    }
    test_rows(t);
    test_others(t);
    test_dropped(t);
    test_few(t);
    tr_tokenizer_destroy(t);
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
    return check_done();
}

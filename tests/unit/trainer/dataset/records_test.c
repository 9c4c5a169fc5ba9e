/*
 * Records against LLaMA-Factory's own code (tests/golden/records.py): tools and calls in all
 * formats, numbers, text around calls, tool messages at the end, dropped records, num_samples and
 * packing.
 */
#include "tests/unit/check.h"
#include "trainer/dataset/dataset.h"
#include "trainer/dataset/sampler.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <jansson.h>
#include <unistd.h>

static char dir[] = "/tmp/flowrun-rec-XXXXXX";
static struct fr_err err;

static void put(const char *name, const char *p, size_t n)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    CHECK_INT(fr_file_write(path, p, n, 0644, &err), FR_OK);
}

static void put_files(const json_t *row)
{
    json_t *info = json_pack("{s:O}", "x", json_object_get(row, "entry"));
    const json_t *text = json_object_get(row, "text");
    char *p = json_dumps(info, 0);

    put("dataset_info.json", p, strlen(p));
    put(json_string_value(json_object_get(json_object_get(row, "entry"), "file_name")),
        json_string_value(text), json_string_length(text));
    free(p);
    json_decref(info);
}

static bool same(const int32_t *got, int64_t n, const json_t *want)
{
    if ((size_t)n != json_array_size(want))
        return false;
    for (int64_t i = 0; i < n; i++)
        if (got[i] != json_integer_value(json_array_get(want, (size_t)i)))
            return false;
    return true;
}

static void show(const struct tr_tokenizer *t, const char *what, const int32_t *ids, size_t n)
{
    struct fr_buf out = {0};

    (void)tr_tokenizer_decode(t, ids, n, false, &out, NULL);
    printf("   %s: %.*s\n", what, (int)out.n, out.p != NULL ? out.p : "");
    fr_buf_finish(&out);
}

static void show_both(const struct tr_tokenizer *t, const struct tr_ids *got, const json_t *want)
{
    struct tr_ids ids = {0};

    for (size_t i = 0; i < json_array_size(want); i++)
        (void)tr_ids_add(&ids, &(int32_t){(int32_t)json_integer_value(json_array_get(want, i))}, 1,
                         NULL);
    show(t, "got ", got->v, got->n);
    show(t, "want", ids.v, ids.n);
    for (size_t i = 0; i < ids.n && i < got->n; i++)
        if (got->v[i] != ids.v[i]) {
            printf("   first at %zu: got %d, want %d\n", i, got->v[i], ids.v[i]);
            break;
        }
    tr_ids_finish(&ids);
}

/* Of all parts of a sample. */
static void add_all(const struct tr_sample *s, struct tr_ids *ids, struct tr_ids *labels)
{
    for (int64_t k = 0; k < s->parts; k++) {
        struct tr_sample one = tr_sample_part(s, k);
        CHECK_INT(tr_ids_add(ids, one.ids, (size_t)one.n, &err), FR_OK);
        CHECK_INT(tr_ids_add(labels, one.labels, (size_t)one.n, &err), FR_OK);
    }
    CHECK_INT(ids->n, s->n);
}

/* A row's batch is that of its examples, each by itself: no token of one sees another. */
static void test_batch(const struct tr_sample *row)
{
    struct tr_sample one[64];
    struct tr_batch got = {0}, want = {0};

    if (!CHECK(row->parts > 0 && row->parts <= 64))
        return;
    for (int64_t k = 0; k < row->parts; k++)
        one[k] = tr_sample_part(row, k);
    CHECK_INT(tr_batch_pack(row, 1, &got, &err), FR_OK);
    CHECK_INT(tr_batch_pack(one, row->parts, &want, &err), FR_OK);
    CHECK_INT(got.samples, want.samples);
    CHECK_INT(got.tokens, want.tokens);
    CHECK_INT(got.target_count, want.target_count);
    size_t ids = (size_t)want.tokens * sizeof(int32_t);
    CHECK(memcmp(got.ids, want.ids, ids) == 0 && memcmp(got.pos, want.pos, ids) == 0);
    CHECK(memcmp(got.targets, want.targets, ids) == 0);
    CHECK(memcmp(got.attn_offsets, want.attn_offsets,
                 (size_t)(want.samples + 1) * sizeof(int64_t)) == 0);
    for (int64_t k = 1; k < got.samples; k++)
        CHECK(got.place[k] != got.place[k - 1] && got.index[k] == 0);
    tr_batch_finish(&got);
    tr_batch_finish(&want);
}

static void test_parts(const struct tr_sample *s, const json_t *lengths)
{
    if (!CHECK_INT(s->parts, json_array_size(lengths)))
        return;
    for (size_t k = 0; k < json_array_size(lengths); k++)
        CHECK_INT(tr_sample_part(s, (int64_t)k).n, json_integer_value(json_array_get(lengths, k)));
    test_batch(s);
}

/* The options of a row with packing, and what tr_dataset_pack() is given. */
static struct tr_pack_opts packing_of(const json_t *packing, struct tr_dataset_opts *o)
{
    int64_t cutoff = json_integer_value(json_object_get(packing, "cutoff_len"));

    o->text.cutoff_len = cutoff - 1;
    o->keep_dropped = true;
    return (struct tr_pack_opts){cutoff - 1, json_integer_value(json_object_get(packing, "batch")),
                                 json_integer_value(json_object_get(packing, "shards"))};
}

/* The options of a row of stage pt. */
static struct tr_pack_opts pretraining_of(const json_t *pretrain, struct tr_dataset_opts *o)
{
    int64_t cutoff = json_integer_value(json_object_get(pretrain, "cutoff_len"));
    bool packing = json_is_true(json_object_get(pretrain, "packing"));

    o->pretrain = true;
    o->text.cutoff_len = packing ? 0 : cutoff;
    return (struct tr_pack_opts){packing ? cutoff : 0,
                                 json_integer_value(json_object_get(pretrain, "batch")),
                                 json_integer_value(json_object_get(pretrain, "shards"))};
}

/* The row's tokenizer, with the tokens that its template needs. */
static struct tr_tokenizer *tokenizer_of(const json_t *row, const struct tr_template *templ)
{
    struct tr_tokenizer *t = NULL;
    const json_t *token;
    size_t i;

    CHECK_INT(tr_tokenizer_load(SOURCE_ROOT "/tests/golden/tokenizer/deepseek.json", &t, &err),
              FR_OK);
    json_array_foreach(json_object_get(row, "needs"), i, token)
        CHECK_INT(tr_tokenizer_add(t, json_string_value(token), &err), FR_OK);
    CHECK_INT(tr_template_fix(templ, t, &err), FR_OK);
    if (json_is_true(json_object_get(row, "split_special_tokens")))
        tr_tokenizer_split_special(t);
    return t;
}

static void test_row(const json_t *row)
{
    const char *templ = json_string_value(json_object_get(row, "template"));
    const json_t *want = json_object_get(row, "samples");
    const json_t *packing = json_object_get(row, "packing");
    const json_t *pretrain = json_object_get(row, "pretrain");
    const char *format = json_string_value(json_object_get(row, "tool_format"));
    struct tr_pack_opts pack = {0};
    enum tr_tool_format tools;
    struct tr_dataset_opts o = {
        .dataset = "x",
        .dataset_dir = dir,
        .text = {.cutoff_len = 100000},
        .max_samples = -1,
        .seed = json_integer_value(json_object_get(row, "seed")),
    };
    struct tr_tokenizer *t = NULL;
    struct tr_dataset *d = NULL;

    put_files(row);
    if (packing != NULL)
        pack = packing_of(packing, &o);
    if (pretrain != NULL)
        pack = pretraining_of(pretrain, &o);
    CHECK_INT(tr_template_find(templ, &o.templ, &err), FR_OK);
    t = tokenizer_of(row, o.templ);
    if (format != NULL && CHECK_INT(tr_tools_find(format, &tools, &err), FR_OK))
        o.text.tools = &tools;
    o.text.mask_history = json_is_true(json_object_get(row, "mask_history"));
    o.text.no_thinking = json_is_false(json_object_get(row, "enable_thinking"));
    o.text.preserve_thinking = json_is_true(json_object_get(row, "preserve_thinking"));
    o.text.train_on_prompt = json_is_true(json_object_get(row, "train_on_prompt"));
    o.text.default_system = json_string_value(json_object_get(row, "default_system"));
    if (json_is_integer(json_object_get(row, "cutoff_len")))
        o.text.cutoff_len = json_integer_value(json_object_get(row, "cutoff_len"));
    enum fr_rc rc = tr_dataset_load(&o, t, &d, NULL, &err);
    if (!CHECK_INT(rc, json_array_size(want) > 0 ? FR_OK : FR_USAGE))
        printf("   %s\n", err.msg);
    if (rc == FR_OK && packing != NULL)
        CHECK_INT(rc = tr_dataset_pack(&d, &pack, &err), FR_OK);
    if (rc == FR_OK && pretrain != NULL && pack.capacity > 0)
        CHECK_INT(rc = tr_dataset_chunk(&d, &pack, &err), FR_OK);
    for (size_t i = 0; rc == FR_OK && i < json_array_size(want); i++) {
        const json_t *one = json_array_get(want, i);
        if (!CHECK_INT(tr_dataset_size(d), json_array_size(want)))
            break;
        struct tr_sample s = tr_dataset_at(d, (int64_t)i);
        struct tr_ids ids = {0}, labels = {0};
        add_all(&s, &ids, &labels);
        if (!CHECK(same(ids.v, s.n, json_array_get(one, 0))))
            show_both(t, &ids, json_array_get(one, 0));
        CHECK(same(labels.v, s.n, json_array_get(one, 1)));
        tr_ids_finish(&ids);
        tr_ids_finish(&labels);
        if (packing != NULL)
            test_parts(&s, json_array_get(one, 2));
    }
    tr_dataset_destroy(d);
    tr_tokenizer_destroy(t);
}

/* Of columns that the first records lack, others may be in records that max_samples leaves out; the
 * prompt may not. */
static void test_columns(void)
{
    static const char records[] = "{\"instruction\": \"a\", \"output\": \"b\"}\n"
                                  "{\"instruction\": \"a\", \"output\": \"b\", \"s\": \"c\"}\n";
    static const struct {
        const char *name, *columns;
        int64_t most;
        enum fr_rc rc;
        const char *said;
    } rows[] = {
        {"in the second record",
         "{\"prompt\": \"instruction\", \"response\": \"output\", "
         "\"system\": \"s\"}",
         -1, FR_OK, ""},
        {"in a record left out",
         "{\"prompt\": \"instruction\", \"response\": \"output\", "
         "\"system\": \"s\"}",
         1, FR_OK, ""},
        {"in no record",
         "{\"prompt\": \"instruction\", \"response\": \"output\", "
         "\"system\": \"sys\"}",
         -1, FR_USAGE,
         "a.jsonl: none of 2 records of data set 'x' has the column 'sys', its system; the first "
         "has: instruction, output. Name it in dataset_info.json: \"columns\": {\"system\": …}"},
        {"prompt in no record", "{\"prompt\": \"q\", \"response\": \"output\"}", 1, FR_USAGE,
         "none of 1 records of data set 'x' has the column 'q', its prompt"},
    };

    struct tr_tokenizer *t = NULL;

    CHECK_INT(tr_tokenizer_load(SOURCE_ROOT "/tests/golden/tokenizer/deepseek.json", &t, &err),
              FR_OK);
    put("a.jsonl", records, strlen(records));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_dataset_opts o = {.dataset = "x",
                                    .dataset_dir = dir,
                                    .max_samples = rows[i].most,
                                    .text = {.cutoff_len = 1000}};
        struct fr_buf info = {0};
        struct tr_dataset *d = NULL;

        err.msg[0] = '\0';
        check_row(rows[i].name);
        fr_buf_fmt(&info, "{\"x\": {\"file_name\": \"a.jsonl\", \"columns\": %s}}",
                   rows[i].columns);
        put("dataset_info.json", info.p, info.n);
        CHECK_INT(tr_template_find("empty", &o.templ, &err), FR_OK);
        CHECK_INT(tr_dataset_load(&o, t, &d, NULL, &err), rows[i].rc);
        if (!CHECK(strstr(err.msg, rows[i].said) != NULL))
            printf("   said: %s\n", err.msg);
        tr_dataset_destroy(d);
        fr_buf_finish(&info);
    }
    tr_tokenizer_destroy(t);
}

/* 2026-01-02, 12:00 UTC: what the llama3 tools name. */
static int64_t that_day(void)
{
    return 1767355200000;
}

/* records_test [FILE]: rows of records_drawn.py instead of those that are kept. */
int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : SOURCE_ROOT "/tests/golden/records.json";
    json_t *rows = json_load_file(path, JSON_ALLOW_NUL, NULL);

    if (mkdtemp(dir) == NULL)
        return EXIT_FAILURE;
    fr_sys.wall_ms = that_day;
    test_columns();
    if (argc == 1)
        CHECK_INT(json_array_size(rows), 549);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        check_row(json_string_value(json_object_get(row, "name")));
        test_row(row);
    }
    json_decref(rows);
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
    return check_done();
}

/* Tokens that are kept: damaged files, other data, other options. */
#include "tests/unit/check.h"
#include "trainer/dataset/dataset.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <unistd.h>

static char dir[] = "/tmp/flowrun-tokens-XXXXXX";
static const char tokenizer[] = SOURCE_ROOT "/tests/golden/tokenizer/deepseek.json";

static void put(const char *name, const char *text)
{
    char path[256];
    struct fr_err err;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    CHECK_INT(fr_file_write(path, text, strlen(text), 0644, &err), FR_OK);
}

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

static void test_cache(struct tr_tokenizer *t)
{
    char cache[256], path[600], digest[65];
    struct tr_dataset *d;
    struct fr_buf bytes = {0};
    struct fr_err err;
    char **names = NULL;
    size_t n = 0;

    check_row("cache");
    put("dataset_info.json", "{\"x\": {\"file_name\": \"a.json\"}}");
    put("a.json", "[{\"instruction\": \"a\", \"output\": \"b\"}, {\"instruction\": \"c\", "
                  "\"output\":"
                  " \"d e\"}]");
    (void)snprintf(cache, sizeof(cache), "%s/cache", dir);
    CHECK_INT(load("x", t, cache, &d, NULL, &err), FR_OK);
    CHECK(!tr_dataset_cached(d));
    (void)snprintf(digest, sizeof(digest), "%s", tr_dataset_digest(d));
    tr_dataset_destroy(d);
    CHECK_INT(load("x", t, cache, &d, NULL, &err), FR_OK);
    CHECK(tr_dataset_cached(d));
    CHECK_TEXT(tr_dataset_digest(d), digest);
    CHECK_INT(tr_dataset_size(d), 2);
    tr_dataset_destroy(d);
    CHECK_INT(fr_sys.list(cache, &names, &n), 0);
    if (!CHECK_INT(n, 2)) /* and the list of files whose sums are known */
        return;
    size_t tok = strcmp(names[0], "stamps.json") == 0 ? 1 : 0;
    (void)snprintf(path, sizeof(path), "%s/%s", cache, names[tok]);
    fr_sys_names_free(names, n);
    CHECK_INT(fr_file_read(path, 1 << 20, &bytes, &err), FR_OK);
    check_row("a cache that is cut or damaged is made again");
    for (size_t cut = 0; cut <= bytes.n; cut += 37) {
        char *p = malloc(bytes.n);
        memcpy(p, bytes.p, bytes.n);
        size_t len = cut % 2 == 0 ? cut : bytes.n;
        if (len == bytes.n)
            p[cut < bytes.n ? cut : 0] ^= 1;
        CHECK_INT(fr_file_write(path, p, len, 0644, &err), FR_OK);
        free(p);
        CHECK_INT(load("x", t, cache, &d, NULL, &err), FR_OK);
        CHECK_TEXT(tr_dataset_digest(d), digest);
        tr_dataset_destroy(d);
    }
    check_row("other data, other key");
    put("a.json", "[{\"instruction\": \"a\", \"output\": \"c\"}]");
    CHECK_INT(load("x", t, cache, &d, NULL, &err), FR_OK);
    CHECK(!tr_dataset_cached(d) && tr_dataset_size(d) == 1);
    tr_dataset_destroy(d);
    check_row("a cache that cannot be written is a warning");
    struct fr_buf warnings = {0};
    put("file", "");
    (void)snprintf(cache, sizeof(cache), "%s/file/cache", dir);
    CHECK_INT(load("x", t, cache, &d, &warnings, &err), FR_OK);
    CHECK(strstr(warnings.p, "no token cache: ") != NULL);
    tr_dataset_destroy(d);
    fr_buf_finish(&warnings);
    fr_buf_finish(&bytes);
}

static enum fr_rc load_with(struct tr_dataset_opts *o, const char *templ, struct tr_tokenizer *t,
                            struct tr_dataset **out)
{
    struct fr_err err;
    enum fr_rc rc;

    CHECK_INT(tr_template_find(templ, &o->templ, &err), FR_OK);
    if ((rc = tr_dataset_load(o, t, out, NULL, &err)) != FR_OK)
        printf("   %s\n", err.msg);
    return rc;
}

#define AS_IT_WAS .text.cutoff_len = 40, .max_samples = -1, .seed = 42

/* A cache made with other options is not taken: each option that decides ids or labels. */
static const enum tr_tool_format other_tools = TR_TOOLS_QWEN;
static const struct {
    const char *name, *dataset, *templ;
    struct tr_dataset_opts o;
} options[] = {
    {"as it was", "x", "default", {AS_IT_WAS}},
    {"cutoff_len", "x", "default", {.text.cutoff_len = 39, .max_samples = -1, .seed = 42}},
    {"mask_history", "x", "default", {AS_IT_WAS, .text.mask_history = true}},
    {"train_on_prompt", "x", "default", {AS_IT_WAS, .text.train_on_prompt = true}},
    {"default_system", "x", "default", {AS_IT_WAS, .text.default_system = "s"}},
    {"tool_format", "x", "default", {AS_IT_WAS, .text.tools = &other_tools}},
    {"enable_thinking", "x", "default", {AS_IT_WAS, .text.no_thinking = true}},
    {"preserve_thinking", "x", "default", {AS_IT_WAS, .text.preserve_thinking = true}},
    {"template", "x", "alpaca", {AS_IT_WAS}},
    {"max_samples", "x", "default", {.text.cutoff_len = 40, .max_samples = 3, .seed = 42}},
    {"seed", "x", "default", {.text.cutoff_len = 40, .max_samples = -1, .seed = 43}},
    {"texts", "x", "default", {AS_IT_WAS, .pretrain = true}},
    {"what is dropped", "x", "default", {AS_IT_WAS, .keep_dropped = true}},
    {"a stream", "x", "default", {AS_IT_WAS, .keep_dropped = true, .stream = true}},
    {"columns", "columns", "default", {AS_IT_WAS}},
    {"the same columns in other places", "turned", "default", {AS_IT_WAS}},
    {"tags", "tags", "default", {AS_IT_WAS}},
    {"other tags", "tags2", "default", {AS_IT_WAS}},
    {"num_samples", "few", "default", {AS_IT_WAS}},
    {"two sets", "x,columns", "default", {AS_IT_WAS}},
    {"their order", "columns,x", "default", {AS_IT_WAS}},
    {"by turns", "x,columns", "default", {AS_IT_WAS, .mix = TR_MIX_UNDER}},
    {"until all are used up", "x,columns", "default", {AS_IT_WAS, .mix = TR_MIX_OVER}},
    {"shares", "x,columns", "default", {AS_IT_WAS, .mix = TR_MIX_UNDER, .mix_probs = "0.5,0.5"}},
    {"others", "x,columns", "default", {AS_IT_WAS, .mix = TR_MIX_UNDER, .mix_probs = "0.4,0.6"}},
};

static void test_cache_options(struct tr_tokenizer *t)
{
    char cache[256];
    struct tr_dataset *d;

    put("dataset_info.json",
        "{\"x\": {\"file_name\": \"a.json\"}, "
        "\"columns\": {\"file_name\": \"a.json\", \"columns\": {\"prompt\": \"output\", "
        "\"response\": \"instruction\"}}, "
        "\"turned\": {\"file_name\": \"a.json\", \"columns\": {\"prompt\": \"instruction\", "
        "\"response\": \"output\"}}, "
        "\"tags\": {\"file_name\": \"b.json\", \"formatting\": \"sharegpt\"}, "
        "\"tags2\": {\"file_name\": \"b.json\", \"formatting\": \"sharegpt\", \"tags\": "
        "{\"role_tag\": \"from\", \"content_tag\": \"value\", \"user_tag\": \"human\", "
        "\"assistant_tag\": \"gpt\", \"system_tag\": \"sys\"}}, "
        "\"few\": {\"file_name\": \"a.json\", \"num_samples\": 2}}");
    put("a.json", "[{\"instruction\": \"a\", \"output\": \"b\", \"history\": [[\"h\", \"i\"]]}, "
                  "{\"instruction\": \"c\", \"output\": \"d\"}, {\"instruction\": \"e\", "
                  "\"output\": \"f\"}, {\"instruction\": \"g\", \"output\": \"h\"}]");
    put("b.json",
        "[{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gpt\", "
        "\"value\": \"b\"}]}, {\"conversations\": [{\"from\": \"human\", \"value\": \"c\"}, "
        "{\"from\": \"gpt\", \"value\": \"d\"}]}]");
    (void)snprintf(cache, sizeof(cache), "%s/options", dir);
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        struct tr_dataset_opts o = options[i].o;
        char plain[65] = "";

        check_row(options[i].name);
        o.dataset = options[i].dataset;
        o.dataset_dir = dir;
        if (!CHECK_INT(load_with(&o, options[i].templ, t, &d), FR_OK))
            continue;
        (void)snprintf(plain, sizeof(plain), "%s", tr_dataset_digest(d));
        tr_dataset_destroy(d);
        o.cache_dir = cache;
        for (int again = 0; again < 3; again++) {
            o.overwrite_cache = again == 2;
            if (!CHECK_INT(load_with(&o, options[i].templ, t, &d), FR_OK))
                continue;
            CHECK_INT(tr_dataset_cached(d), again == 1);
            CHECK_TEXT(tr_dataset_digest(d), plain);
            tr_dataset_destroy(d);
        }
    }
}

/* Of many tokens, which are summed piece by piece: the sum of a data set that shares them is that
 * of a copy. */
static void test_shared_sum(struct tr_tokenizer *t)
{
    enum { RECORDS = 9000 };
    struct tr_dataset *d = NULL, *all = NULL;
    int64_t *order = malloc(RECORDS * sizeof(*order));
    struct fr_buf text = {0};
    struct fr_err err;

    check_row("a sum of shared tokens");
    for (int i = 0; i < RECORDS; i++) {
        fr_buf_fmt(&text, "{\"instruction\": \"%d and %d\", \"output\": \"%d\"}\n", i, i, 2 * i);
        order[i] = i;
    }
    put("dataset_info.json", "{\"x\": {\"file_name\": \"many.jsonl\"}}");
    put("many.jsonl", text.p);
    if (CHECK_INT(load("x", t, NULL, &d, NULL, &err), FR_OK) &&
        CHECK_INT(tr_dataset_pick(d, &(struct tr_picked){order, RECORDS, false}, &all, &err),
                  FR_OK)) {
        CHECK_INT(tr_dataset_size(all), RECORDS);
        CHECK_TEXT(tr_dataset_digest(all), tr_dataset_digest(d));
    }
    tr_dataset_destroy(all);
    tr_dataset_destroy(d);
    fr_buf_finish(&text);
    free(order);
}

int main(void)
{
    struct tr_tokenizer *t = NULL;
    struct fr_err err;

    if (mkdtemp(dir) == NULL || tr_tokenizer_load(tokenizer, &t, &err) != FR_OK) {
        printf("cannot start: %s\n", err.msg);
        return EXIT_FAILURE;
    }
    test_cache(t);
    test_cache_options(t);
    test_shared_sum(t);
    tr_tokenizer_destroy(t);
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
    return check_done();
}

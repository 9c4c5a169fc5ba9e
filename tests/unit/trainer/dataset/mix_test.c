/*
 * Mixtures of data sets against the datasets library (tests/golden/mix.py), and through a data set.
 */
#include "tests/unit/check.h"
#include "trainer/dataset/dataset.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <jansson.h>
#include <unistd.h>

static char dir[] = "/tmp/flowrun-mix-XXXXXX";
static struct fr_err err;

static void test_row(const json_t *row)
{
    const json_t *sizes = json_object_get(row, "lengths"), *shares = json_object_get(row, "probs");
    const json_t *order = json_object_get(row, "order");
    int64_t lengths[8], *got = NULL, count = 0;
    double probs[8];
    size_t n = json_array_size(sizes);
    const char *strategy = json_string_value(json_object_get(row, "strategy"));
    struct tr_mix_opts o = {strcmp(strategy, "interleave_over") == 0   ? TR_MIX_OVER
                            : strcmp(strategy, "interleave_once") == 0 ? TR_MIX_ONCE
                                                                       : TR_MIX_UNDER,
                            json_is_null(shares) ? NULL : probs,
                            (uint64_t)json_integer_value(json_object_get(row, "seed"))};
    bool same = true;

    for (size_t i = 0; i < n; i++) {
        lengths[i] = json_integer_value(json_array_get(sizes, i));
        probs[i] = json_number_value(json_array_get(shares, i));
    }
    CHECK_INT(tr_mix(lengths, n, &o, &got, &count, &err), FR_OK);
    if (CHECK_INT(count, json_array_size(order)))
        for (int64_t i = 0; i < count; i++)
            same = same && got[i] == json_integer_value(json_array_get(order, (size_t)i));
    CHECK(same);
    fr_sys.free(got);
}

static void test_golden(void)
{
    json_t *rows = json_load_file(SOURCE_ROOT "/tests/golden/mix.json", 0, NULL);
    char name[32];

    CHECK_INT(json_array_size(rows), 35);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        (void)snprintf(name, sizeof(name), "row %zu", i);
        check_row(name);
        test_row(json_array_get(rows, i));
    }
    json_decref(rows);
}

static void test_wrong(void)
{
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"0.5,0.5", NULL},
        {" 0.25 , 0.75", NULL},
        {"0.5", "one for each of 2 sets"},
        {"0.2,0.3,0.5", "one for each of 2 sets"},
        {"0.5,0.6", "their sum is 1.1"},
        {"half,half", "numbers from 0 to 1"},
        {"1.5,-0.5", "numbers from 0 to 1"},
        {"1.5,0", "numbers from 0 to 1"},
        {"0,1", NULL},
    };
    double probs[2];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].text);
        err.msg[0] = '\0';
        CHECK_INT(tr_mix_probs(rows[i].text, 2, probs, &err), rows[i].want ? FR_USAGE : FR_OK);
        if (rows[i].want != NULL && !CHECK(strstr(err.msg, rows[i].want) != NULL))
            printf("   %s\n", err.msg);
    }
    int64_t *out, count;
    check_row("a set that is never drawn");
    for (int over = 0; over < 2; over++) {
        enum tr_mix_strategy mix = over ? TR_MIX_OVER : TR_MIX_ONCE;

        CHECK_INT(tr_mix((const int64_t[]){2, 1}, 2,
                         &(struct tr_mix_opts){mix, (const double[]){1, 0}, 1}, &out, &count, &err),
                  FR_USAGE);
        CHECK(strstr(err.msg, "data set 2 of the mixture has the share 0") != NULL);
    }
    check_row("an empty set");
    CHECK_INT(tr_mix((const int64_t[]){2, 0}, 2, &(struct tr_mix_opts){TR_MIX_OVER, NULL, 1}, &out,
                     &count, &err),
              FR_USAGE);
    CHECK_TEXT(err.msg, "data set 2 of the mixture has no records");
    check_row("as many sets as may be, and one more");
    int64_t lengths[TR_MIX_SETS + 1];
    for (size_t i = 0; i <= TR_MIX_SETS; i++)
        lengths[i] = 1;
    CHECK_INT(tr_mix(lengths, TR_MIX_SETS, &(struct tr_mix_opts){TR_MIX_OVER, NULL, 1}, &out,
                     &count, &err),
              FR_OK);
    CHECK_INT(count, TR_MIX_SETS);
    fr_sys.free(out);
    CHECK_INT(tr_mix(lengths, TR_MIX_SETS + 1, &(struct tr_mix_opts){TR_MIX_OVER, NULL, 1}, &out,
                     &count, &err),
              FR_USAGE);
    CHECK_TEXT(err.msg, "more than 64 data sets are mixed");
    CHECK(out == NULL && count == 0);
}

static void put(const char *name, const char *text)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    CHECK_INT(fr_file_write(path, text, strlen(text), 0644, &err), FR_OK);
}

/* The records of two sets by turns; the dropped one keeps its turn. */
static void test_dataset(void)
{
    static const char want[] = "a1b2d";
    struct tr_dataset_opts o = {.dataset = "x,y",
                                .dataset_dir = dir,
                                .text = {.cutoff_len = 99},
                                .max_samples = -1,
                                .mix = TR_MIX_OVER};
    struct tr_tokenizer *t = NULL;
    struct tr_dataset *d = NULL;
    struct fr_buf text = {0};

    check_row("two data sets");
    put("dataset_info.json",
        "{\"x\": {\"file_name\": \"x.jsonl\"}, \"y\": {\"file_name\": \"y.jsonl\"}}");
    put("x.jsonl",
        "{\"instruction\": \"a\", \"output\": \"\"}\n{\"instruction\": \"b\", \"output\": \"\"}\n"
        "{\"instruction\": \"c\", \"output\": null}\n{\"instruction\": \"d\", \"output\": \"\"}\n");
    put("y.jsonl",
        "{\"instruction\": \"1\", \"output\": \"\"}\n{\"instruction\": \"2\", \"output\": \"\"}\n"
        "{\"instruction\": \"\", \"output\": null}\n{\"instruction\": \"\", \"output\": null}\n");
    CHECK_INT(tr_template_find("empty", &o.templ, &err), FR_OK);
    CHECK_INT(tr_tokenizer_load(SOURCE_ROOT "/tests/golden/tokenizer/deepseek.json", &t, &err),
              FR_OK);
    if (!CHECK_INT(tr_dataset_load(&o, t, &d, NULL, &err), FR_OK))
        printf("   %s\n", err.msg);
    for (int64_t i = 0; d != NULL && i < tr_dataset_size(d); i++) {
        struct tr_sample s = tr_dataset_at(d, i);
        CHECK_INT(tr_tokenizer_decode(t, s.ids, (size_t)s.n, false, &text, &err), FR_OK);
    }
    CHECK(text.n == sizeof(want) - 1 && memcmp(text.p, want, text.n) == 0);
    fr_buf_finish(&text);
    tr_dataset_destroy(d);
    tr_tokenizer_destroy(t);
}

/* How many records each set has is known to a start that finds the tokens in the cache. */
static void test_sets(void)
{
    char cache[64];
    struct tr_dataset_opts o = {.dataset = "x,y",
                                .dataset_dir = dir,
                                .cache_dir = cache,
                                .text = {.cutoff_len = 99},
                                .max_samples = -1,
                                .keep_dropped = true};
    struct tr_tokenizer *t = NULL;

    check_row("records of sets");
    put("y.jsonl", "{\"instruction\": \"1\", \"output\": \"\"}\n");
    (void)snprintf(cache, sizeof(cache), "%s/cache", dir);
    CHECK_INT(tr_template_find("empty", &o.templ, &err), FR_OK);
    CHECK_INT(tr_tokenizer_load(SOURCE_ROOT "/tests/golden/tokenizer/deepseek.json", &t, &err),
              FR_OK);
    for (int again = 0; again < 2; again++) {
        const int64_t *lengths;
        struct tr_dataset *d = NULL, *part = NULL;

        CHECK_INT(tr_dataset_load(&o, t, &d, NULL, &err), FR_OK);
        CHECK_INT(tr_dataset_cached(d), again);
        CHECK_INT(tr_dataset_sets(d, &lengths), 2);
        CHECK(lengths[0] == 4 && lengths[1] == 1);
        CHECK_INT(
            tr_dataset_pick(d, &(struct tr_picked){(const int64_t[]){1}, 1, true}, &part, &err),
            FR_OK);
        CHECK_INT(tr_dataset_sets(part, &lengths), 0);
        CHECK_INT(tr_dataset_cached(part), again);
        tr_dataset_destroy(part);
        tr_dataset_destroy(d);
    }
    tr_tokenizer_destroy(t);
}

int main(void)
{
    if (mkdtemp(dir) == NULL)
        return EXIT_FAILURE;
    test_golden();
    test_wrong();
    test_dataset();
    test_sets();
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
    return check_done();
}

/* The arguments of evaluation, which records --val_size takes (golden/evaluate.json), and what
 * follows from its figures. */
#include "tests/unit/check.h"
#include "trainer/dataset/dataset.h"
#include "trainer/dataset/pcg.h"
#include "trainer/dataset/sampler.h"
#include "trainer/train/setup.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/sys.h"

#include <math.h>
#include <unistd.h>

static char dir[] = "/tmp/flowrun-eval-XXXXXX";

/* ---- arguments ---- */

#define NEED                                                                                       \
    "--do_train", "--model_name_or_path", "m", "--dataset", "d", "--template", "empty",            \
        "--output_dir", "o"
#define STEPS "--val_size=9", "--eval_strategy=steps"

static const struct {
    const char *name;
    const char *argv[8];
    const char *want; /* NULL: accepted */
} lines[] = {
    {"strategy", {STEPS, "--eval_steps=5"}, NULL},
    {"a share of the steps", {STEPS, "--eval_steps=0.2"}, NULL},
    {"eval_dataset", {"--eval_dataset=a,b", "--do_eval", "--eval_on_each_dataset"}, NULL},
    {"both", {"--eval_dataset=a", "--val_size=0.1"}, "--val_size and --eval_dataset exclude"},
    {"one record or all of them", {"--val_size=1"}, "a share below 1, or a number of records"},
    {"no data", {"--eval_strategy=epoch"}, "--eval_strategy needs --eval_dataset or --val_size"},
    {"no data at the end", {"--do_eval"}, "--do_eval needs --eval_dataset or --val_size"},
    {"each of nothing", {"--val_size=9", "--eval_on_each_dataset"}, "needs --eval_dataset"},
    {"never", {"--val_size=9", "--eval_strategy=best"}, "one of no, steps, epoch"},
    {"best", {STEPS, "--load_best_model_at_end", "--eval_steps=250"}, NULL},
    {"best of shares",
     {STEPS, "--load_best_model_at_end", "--eval_steps=0.1", "--save_steps=0.3"},
     NULL},
    {"no multiple",
     {STEPS, "--load_best_model_at_end", "--eval_steps=200", "--save_steps=500"},
     "--save_steps to be a multiple of --eval_steps: found 500 and 200"},
    {"share and count", {STEPS, "--load_best_model_at_end", "--eval_steps=0.1"}, "multiple of"},
    {"strategies differ",
     {"--val_size=9", "--eval_strategy=epoch", "--load_best_model_at_end"},
     "--eval_strategy and --save_strategy to be the same"},
    {"best without evaluation",
     {"--load_best_model_at_end", "--save_strategy=no"},
     "--load_best_model_at_end needs --eval_strategy"},
    {"save the best of what", {STEPS, "--save_strategy=best"}, "needs --metric_for_best_model"},
    {"save the best", {STEPS, "--save_strategy=best", "--metric_for_best_model=loss"}, NULL},
    {"stop at what", {STEPS, "--early_stopping_steps=2"}, "needs --metric_for_best_model"},
    {"no patience", {STEPS, "--early_stopping_steps=0"}, "--early_stopping_steps 0: expected 1"},
    {"maybe", {STEPS, "--greater_is_better", "--no_greater_is_better"}, NULL},
    {"maybe not", {"--greater_is_better=perhaps"}, "expected true, false or none"},
    {"no samples", {STEPS, "--per_device_eval_batch_size=0"}, "per_device_eval_batch_size 0"},
};

static enum fr_rc read_args(struct tr_args *a, const char *const *more, struct fr_err *err)
{
    const char *argv[16] = {NEED};
    int n = 0, k = 0;

    while (argv[n] != NULL)
        n++;
    while (k < 6 && more[k] != NULL)
        argv[n++] = more[k++];
    return tr_args_read(a, n, argv, NULL, err);
}

static void test_lines(void)
{
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct tr_args a;
        struct fr_err err = {0};

        check_row(lines[i].name);
        enum fr_rc rc = read_args(&a, lines[i].argv, &err);
        if (!CHECK((rc == FR_OK) == (lines[i].want == NULL)) ||
            (lines[i].want != NULL && !CHECK(strstr(err.msg, lines[i].want) != NULL)))
            printf("   message: %s\n", err.msg);
        tr_args_finish(&a);
    }
}

/* What follows from flags that were not given. */
static const struct {
    const char *name, *argv[8];
    const char *metric;
    enum tr_maybe greater;
    double steps;
    int64_t every; /* of 100 steps, 40 an epoch */
    bool do_eval;
} filled[] = {
    {"nothing", {NULL}, NULL, TR_MAYBE_UNSET, 500, 0, false},
    {"logging_steps", {STEPS, "--logging_steps=7"}, NULL, TR_MAYBE_UNSET, 7, 7, true},
    {"the loss", {STEPS, "--load_best_model_at_end"}, "loss", TR_MAYBE_FALSE, 500, 500, true},
    {"a loss by name",
     {STEPS, "--metric_for_best_model=eval_a_loss"},
     "eval_a_loss",
     TR_MAYBE_FALSE,
     500,
     500,
     true},
    {"accuracy",
     {STEPS, "--metric_for_best_model=accuracy", "--eval_steps=0.13"},
     "accuracy",
     TR_MAYBE_TRUE,
     0.13,
     13,
     true},
    {"as it is said",
     {STEPS, "--metric_for_best_model=loss", "--greater_is_better"},
     "loss",
     TR_MAYBE_TRUE,
     500,
     500,
     true},
    {"epochs", {"--val_size=2", "--eval_strategy=epoch"}, NULL, TR_MAYBE_UNSET, 500, 40, true},
};

static void test_filled(void)
{
    for (size_t i = 0; i < sizeof(filled) / sizeof(filled[0]); i++) {
        struct tr_args a;
        struct tr_derived d;
        struct fr_err err = {0};

        check_row(filled[i].name);
        if (!CHECK_INT(read_args(&a, filled[i].argv, &err), FR_OK))
            printf("   message: %s\n", err.msg);
        a.max_steps = 100;
        a.per_device_train_batch_size = 1;
        CHECK_INT(tr_args_derive(&a, 40, 1, &d, &err), FR_OK);
        CHECK_INT(d.eval_every, filled[i].every);
        CHECK(a.eval_steps == filled[i].steps);
        CHECK_INT(a.greater_is_better, filled[i].greater);
        CHECK_INT(a.do_eval, filled[i].do_eval);
        if (filled[i].metric == NULL)
            CHECK(a.metric_for_best_model == NULL);
        else
            CHECK_TEXT(a.metric_for_best_model, filled[i].metric);
        tr_args_finish(&a);
    }
}

/* ---- the split ---- */

static json_int_t number(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static void test_permutations(const json_t *golden)
{
    const json_t *row;
    size_t i;

    check_row("permutations");
    CHECK(json_array_size(json_object_get(golden, "permutations")) >= 4);
    json_array_foreach(json_object_get(golden, "permutations"), i, row)
    {
        const json_t *first = json_object_get(row, "first");
        int64_t n = number(row, "n"), sum = 0;
        int64_t *got = calloc((size_t)n, sizeof(*got));

        tr_pcg_permutation((uint64_t)number(row, "seed"), n, got);
        for (size_t k = 0; k < json_array_size(first); k++)
            CHECK_INT(got[k], json_integer_value(json_array_get(first, k)));
        for (int64_t k = 0; k < n; k++)
            sum += k * got[k];
        CHECK_INT(sum, number(row, "sum"));
        free(got);
    }
}

static enum fr_rc load(struct tr_tokenizer *t, bool keep, const char *cache,
                       struct tr_dataset **out, struct fr_err *err)
{
    struct tr_dataset_opts o = {.dataset = "ten",
                                .dataset_dir = dir,
                                .max_samples = -1,
                                .seed = 42,
                                .keep_dropped = keep,
                                .cache_dir = cache,
                                .text = {.cutoff_len = 1000}};

    CHECK_INT(tr_template_find("empty", &o.templ, err), FR_OK);
    return tr_dataset_load(&o, t, out, NULL, err);
}

/* The digits that the samples are made of, in their order. */
static void digits(const struct tr_tokenizer *t, const struct tr_dataset *d, char out[32])
{
    size_t n = 0;

    for (int64_t i = 0; i < tr_dataset_size(d); i++) {
        struct tr_sample s = tr_dataset_at(d, i);
        struct fr_buf text = {0};

        CHECK_INT(tr_tokenizer_decode(t, s.ids, (size_t)s.n, false, &text, NULL), FR_OK);
        out[n++] = text.n > 0 ? text.p[0] : '-';
        fr_buf_finish(&text);
    }
    out[n] = '\0';
}

/* seed 42, 10 records: numpy's order is 5 6 0 7 3 2 4 9 1 8; 7 is the first of seed 5, the last of
 * seed 27. Record 7 is dropped. */
static const struct {
    const char *name;
    double size;
    int64_t seed;
    const char *train, *eval, *want;
} splits[] = {
    {"a number", 3, 42, "324918", "560", NULL},
    {"a dropped record has its place", 4, 42, "324918", "560", NULL},
    {"a share, rounded up", 0.41, 42, "24918", "5603", NULL},
    {"one record", 0.1, 42, "60324918", "5", NULL},
    {"all", 10, 42, NULL, NULL, "--val_size 10 takes 10 of 10 records"},
    {"a share of nearly all", 0.99, 42, NULL, NULL, "takes 10 of 10"},
    {"more than there are", 11, 42, NULL, NULL, "takes 11 of 10"},
    {"the one record is dropped", 0.1, 5, NULL, NULL, "leaves no valid record for evaluation"},
    {"the other one is dropped", 9, 27, NULL, NULL, "leaves no valid record to train on"},
};

static void test_splits(struct tr_tokenizer *t)
{
    for (size_t i = 0; i < sizeof(splits) / sizeof(splits[0]); i++) {
        struct tr_dataset *d = NULL, *eval = NULL;
        struct fr_err err = {0};
        char got[32];

        check_row(splits[i].name);
        if (!CHECK_INT(load(t, true, NULL, &d, &err), FR_OK))
            printf("   message: %s\n", err.msg);
        enum fr_rc rc = tr_dataset_split(
            &d, &(struct tr_split_opts){splits[i].size, splits[i].seed, false}, &eval, &err);
        if (splits[i].want != NULL) {
            CHECK_INT(rc, FR_USAGE);
            CHECK(eval == NULL && strstr(err.msg, splits[i].want) != NULL);
            CHECK_INT(tr_dataset_size(d), 10); /* as it was */
        } else if (CHECK_INT(rc, FR_OK)) {
            digits(t, d, got);
            CHECK_TEXT(got, splits[i].train);
            digits(t, eval, got);
            CHECK_TEXT(got, splits[i].eval);
            CHECK(strcmp(tr_dataset_digest(d), tr_dataset_digest(eval)) != 0);
            CHECK_INT(tr_dataset_longest(eval), 2);
        }
        tr_dataset_destroy(d);
        tr_dataset_destroy(eval);
    }
    struct tr_dataset *d = NULL;
    check_row("no split");
    CHECK_INT(load(t, false, NULL, &d, NULL), FR_OK);
    CHECK_INT(tr_dataset_size(d), 9);
    tr_dataset_destroy(d);
}

/* Of ten records one is dropped: it has a place, and is no sample, of a stream neither. */
static void test_dropped(struct tr_tokenizer *t)
{
    for (int64_t buffer = 0; buffer <= 4; buffer += 4) {
        struct tr_sampler_opts o = {
            .batch = 1, .world = 1, .seed = 1, .stream = {.buffer = buffer}};
        struct tr_sampler *s = NULL;
        struct tr_dataset *d = NULL;
        struct fr_err err = {0};
        int64_t micros = 0, samples = 0;

        check_row(buffer == 0 ? "samples without a dropped record" : "and of a stream");
        CHECK_INT(load(t, true, NULL, &d, &err), FR_OK);
        CHECK_INT(tr_dataset_size(d), 10);
        CHECK_INT(tr_sampler_create(d, &o, &s, &err), FR_OK);
        CHECK_INT(tr_sampler_micros(s, 0, &micros, &samples, &err), FR_OK);
        CHECK_INT(samples, 9);
        CHECK_INT(micros, 9);
        tr_sampler_destroy(s);
        tr_dataset_destroy(d);
    }
}

static void put(const char *name, const char *text)
{
    char path[256];
    struct fr_err err;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    CHECK_INT(fr_file_write(path, text, strlen(text), 0644, &err), FR_OK);
}

/* ---- sums of what was picked ---- */

enum { SETS = 4 };

/* SHA-256 over lengths, ids and labels of all examples, as of a copy. */
static void sum_of_copy(const struct tr_dataset *d, char out[65])
{
    struct fr_buf offsets = {0}, ids = {0}, labels = {0};
    int64_t at = 0;

    fr_buf_add(&offsets, (const char *)&at, sizeof(at));
    for (int64_t i = 0; i < tr_dataset_size(d); i++) {
        struct tr_sample row = tr_dataset_at(d, i);

        for (int64_t k = 0; k < row.parts; k++) {
            struct tr_sample s = tr_sample_part(&row, k);

            at += s.n;
            fr_buf_add(&offsets, (const char *)&at, sizeof(at));
            fr_buf_add(&ids, (const char *)s.ids, (size_t)s.n * sizeof(int32_t));
            fr_buf_add(&labels, (const char *)s.labels, (size_t)s.n * sizeof(int32_t));
        }
    }
    fr_buf_add(&offsets, ids.p, ids.n);
    fr_buf_add(&offsets, labels.p, labels.n);
    fr_sha256(offsets.p, offsets.n, out);
    fr_buf_finish(&offsets);
    fr_buf_finish(&ids);
    fr_buf_finish(&labels);
}

/* Sums of what is trained on and of the rest, and of both packed; copies: of their copies. */
static void take_sums(struct tr_tokenizer *t, const char *cache, bool copies, char out[SETS][65])
{
    const struct tr_pack_opts rows = {.capacity = 9, .batch = 4, .shards = 1};
    struct tr_dataset *d[2] = {NULL, NULL};
    struct fr_err err = {0};

    CHECK_INT(load(t, true, cache, &d[0], &err), FR_OK);
    CHECK_INT(tr_dataset_split(&d[0], &(struct tr_split_opts){4, 42, true}, &d[1], &err), FR_OK);
    for (int i = 0; i < SETS; i++) {
        if (i >= 2)
            CHECK_INT(tr_dataset_pack(&d[i - 2], &rows, &err), FR_OK);
        if (copies)
            sum_of_copy(d[i % 2], out[i]);
        else
            (void)snprintf(out[i], 65, "%s", tr_dataset_digest(d[i % 2]));
    }
    CHECK(tr_dataset_most(d[0]) > 1);
    CHECK_INT(tr_dataset_valid(d[1]), tr_dataset_size(d[1]));
    tr_dataset_destroy(d[0]);
    tr_dataset_destroy(d[1]);
}

static void check_sums(const char *row, char got[SETS][65], char want[SETS][65])
{
    check_row(row);
    for (int i = 0; i < SETS; i++)
        CHECK_TEXT(got[i], want[i]);
}

/* The sums are those of copies; what was summed once is found; a damaged list is made again. */
static void test_sums(struct tr_tokenizer *t)
{
    char cache[64], path[96], want[SETS][65], got[SETS][65], wrong[SETS][65];
    json_t *list = NULL, *one;
    const char *key;
    struct fr_err err;
    void *next;

    (void)snprintf(cache, sizeof(cache), "%s/cache", dir);
    (void)snprintf(path, sizeof(path), "%s/sums.json", cache);
    take_sums(t, NULL, true, want);
    for (int i = 0; i < SETS; i++)
        CHECK(i == 0 || strcmp(want[i], want[i - 1]) != 0);
    take_sums(t, NULL, false, got);
    check_sums("no cache", got, want);
    for (int again = 0; again < 2; again++) {
        take_sums(t, cache, false, got);
        check_sums(again ? "the second start" : "the first start", got, want);
    }
    CHECK_INT(fr_json_load(path, 1 << 20, &list, &err), FR_OK);
    CHECK_INT(json_object_size(list), SETS);
    json_object_foreach_safe(list, next, key, one)
        json_object_set_new(list, key, json_string(want[0]));
    CHECK_INT(fr_json_save(list, path, 0, 0644, &err), FR_OK);
    json_decref(list);
    for (int i = 0; i < SETS; i++)
        memcpy(wrong[i], want[0], sizeof(wrong[i]));
    take_sums(t, cache, false, got);
    check_sums("what the list says is taken", got, wrong);
    CHECK_INT(fr_file_write(path, "{\"", 2, 0644, &err), FR_OK);
    take_sums(t, cache, false, got);
    check_sums("a damaged list", got, want);
}

/* Data sets of the same tokens that begin alike have sums of their own. */
static void test_alike(struct tr_tokenizer *t)
{
    const struct tr_picked picked[] = {{(const int64_t[]){0, 1, 2}, 3, true},
                                       {(const int64_t[]){0, 1, 3}, 3, true},
                                       {(const int64_t[]){0, 1}, 2, true},
                                       {(const int64_t[]){1, 0}, 2, true}};
    struct tr_dataset *d = NULL;
    struct fr_err err = {0};
    char cache[64], sum[65];

    check_row("data sets that begin alike");
    (void)snprintf(cache, sizeof(cache), "%s/alike", dir);
    CHECK_INT(load(t, true, cache, &d, &err), FR_OK);
    for (int again = 0; again < 2; again++)
        for (size_t i = 0; i < sizeof(picked) / sizeof(picked[0]); i++) {
            struct tr_dataset *one = NULL;

            CHECK_INT(tr_dataset_pick(d, &picked[i], &one, &err), FR_OK);
            sum_of_copy(one, sum);
            CHECK_TEXT(tr_dataset_digest(one), sum);
            tr_dataset_destroy(one);
        }
    tr_dataset_destroy(d);
}

/* ---- what follows from an evaluation ---- */

static const struct {
    const char *name;
    double losses[5]; /* of steps 1, 2 …; 0: no more, NaN: none */
    bool greater;
    int64_t best_step, not_better;
} judged[] = {
    {"each is better", {3, 2, 1}, false, 3, 0},
    {"none is better than the first", {1, 2, 1}, false, 1, 2},
    {"a better one counts anew", {3, 4, 5, 2, 2.5}, false, 4, 1},
    {"greater is better", {3, 4, 5, 2, 2.5}, true, 3, 2},
    {"no number is never better", {NAN, 3, NAN, 2, NAN}, false, 4, 1},
};

static void test_judged(void)
{
    struct tr_args args = {.metric_for_best_model = "loss"};

    for (size_t i = 0; i < sizeof(judged) / sizeof(judged[0]); i++) {
        struct tr_run r = {.args = &args};

        check_row(judged[i].name);
        args.greater_is_better = judged[i].greater ? TR_MAYBE_TRUE : TR_MAYBE_FALSE;
        for (int k = 0; k < 5 && judged[i].losses[k] != 0; k++) {
            double loss = judged[i].losses[k];
            json_t *figures = json_object();

            json_object_set_new(figures, "eval_loss", isnan(loss) ? json_null() : json_real(loss));
            r.progress.step = k + 1;
            CHECK(tr_run_judge(&r, figures) == (r.progress.best_step == k + 1));
            json_decref(figures);
        }
        CHECK_INT(r.progress.best_step, judged[i].best_step);
        CHECK(r.progress.best_metric == judged[i].losses[judged[i].best_step - 1]);
        CHECK_INT(r.progress.not_better, judged[i].not_better);
    }
}

static const struct {
    const char *metric;
    bool accuracy;    /* --compute_accuracy */
    const char *want; /* NULL: there is such a figure */
} metrics[] = {
    {"a_loss", false, NULL},
    {"eval_b_loss", false, NULL},
    {"b_accuracy", true, NULL},
    {"b_accuracy", false, "b_accuracy: the evaluation gives eval_a_loss, eval_b_loss"},
    {"loss", true, "gives eval_a_loss, eval_a_accuracy, eval_b_loss, eval_b_accuracy"},
};

static void test_metrics(void)
{
    struct tr_eval_set sets[] = {{.name = "a"}, {.name = "b"}};

    for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++) {
        struct tr_args args = {.metric_for_best_model = metrics[i].metric,
                               .compute_accuracy = metrics[i].accuracy};
        struct tr_run r = {.args = &args, .evals = sets, .nevals = 2, .derived = {.eval_every = 1}};
        struct fr_err err = {0};

        check_row(metrics[i].metric);
        CHECK_INT(tr_run_check_metric(&r, &err), metrics[i].want != NULL ? FR_USAGE : FR_OK);
        CHECK(metrics[i].want == NULL || strstr(err.msg, metrics[i].want) != NULL);
    }
    check_row("");
}

static int64_t ticking_ms(void)
{
    static int64_t now;

    return now += 1000;
}

static void test_figures(void)
{
    struct tr_eval_set sets[] = {{.name = "a"}, {.name = "b"}, {.name = "none"}, {.name = NULL}};
    struct tr_run r = {.evals = sets, .nevals = 4};
    json_t *figures = json_pack("{s:f, s:f, s:n, s:f}", "eval_a_loss", 1.0, "eval_b_loss", 2.0,
                                "eval_none_loss", "eval_loss", 3.0);
    struct fr_err err = {0};

    check_row("the perplexity of each set");
    tr_run_add_perplexity(&r, figures);
    CHECK(json_number_value(json_object_get(figures, "eval_a_perplexity")) == exp(1));
    CHECK(json_number_value(json_object_get(figures, "eval_b_perplexity")) == exp(2));
    CHECK(json_is_null(json_object_get(figures, "eval_none_perplexity")));
    CHECK(json_number_value(json_object_get(figures, "eval_perplexity")) == exp(3));
    json_decref(figures);
    check_row("an evaluation is no training: its second does not count for tokens_per_second");
    r.nevals = 0;
    fr_sys.mono_ms = ticking_ms;
    CHECK_INT(tr_run_evaluate(&r, &figures, &err), FR_OK);
    fr_sys.mono_ms = fr_sys_real.mono_ms;
    CHECK_INT(r.metrics.last_log_ms, 1000);
    json_decref(figures);
}

static void make_set(void)
{
    struct fr_buf b = {0};

    for (int i = 0; i < 10; i++)
        fr_buf_fmt(&b, "{\"instruction\": \"%d\", \"output\": %s}\n", i, i == 7 ? "null" : "\"a\"");
    put("ten.jsonl", b.p);
    put("dataset_info.json", "{\"ten\": {\"file_name\": \"ten.jsonl\"}}");
    fr_buf_finish(&b);
}

int main(void)
{
    struct tr_tokenizer *t = NULL;
    json_t *golden = NULL;
    struct fr_err err = {0};

    CHECK(mkdtemp(dir) != NULL);
    test_lines();
    test_filled();
    test_judged();
    test_metrics();
    test_figures();
    if (CHECK_INT(fr_json_load(SOURCE_ROOT "/tests/golden/evaluate.json", 1 << 20, &golden, &err),
                  FR_OK))
        test_permutations(golden);
    make_set();
    if (CHECK_INT(tr_tokenizer_load(SOURCE_ROOT "/tests/golden/tokenizer/deepseek.json", &t, &err),
                  FR_OK)) {
        test_splits(t);
        test_dropped(t);
        test_sums(t);
        test_alike(t);
    }
    tr_tokenizer_destroy(t);
    json_decref(golden);
    fr_remove_tree(dir, NULL);
    return check_done();
}

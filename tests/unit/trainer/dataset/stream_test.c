/*
 * Streams of records against the reference's (tests/golden/stream.py): their order in each epoch,
 * of one data set and of mixtures, and the records for evaluation; rows that are made of them
 * (tests/golden/stream_rows.py); the rounds of ranks.
 */
#include "tests/unit/check.h"
#include "trainer/dataset/dataset.h"
#include "trainer/dataset/sampler.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "trainer/dataset/stream.h"

#include <jansson.h>
#include <unistd.h>

static char dir[] = "/tmp/flowrun-stream-XXXXXX";
static const char tokenizer[] = SOURCE_ROOT "/tests/golden/tokenizer/deepseek.json";
static struct fr_err err;

static int64_t number(const json_t *row, const char *key)
{
    return json_integer_value(json_object_get(row, key));
}

static void put(const char *name, const char *text)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    CHECK_INT(fr_file_write(path, text, strlen(text), 0644, &err), FR_OK);
}

/* ---- order ---- */

struct mixture {
    int64_t lengths[16];
    double probs[16];
    struct tr_stream s;
};

static void mixture_of(const json_t *row, struct mixture *m)
{
    static const char *const names[] = {"concat", "interleave_under", "interleave_over",
                                        "interleave_once"};
    const json_t *lengths = json_object_get(row, "lengths"), *probs = json_object_get(row, "probs");
    const char *strategy = json_string_value(json_object_get(row, "strategy"));

    *m = (struct mixture){.s = {.buffer = number(row, "buffer"),
                                .seed = number(row, "seed"),
                                .lengths = m->lengths,
                                .n = json_array_size(lengths),
                                .probs = json_is_array(probs) ? m->probs : NULL,
                                .fixed = number(row, "val") > 0}};
    CHECK(m->s.n <= 16);
    for (size_t i = 0; i < m->s.n && i < 16; i++) {
        m->lengths[i] = json_integer_value(json_array_get(lengths, i));
        m->probs[i] = json_number_value(json_array_get(probs, i));
    }
    for (int i = 0; i < 4; i++)
        if (strcmp(names[i], strategy) == 0)
            m->s.mix = (enum tr_mix_strategy)i;
}

/* records[0..n), without one that is dropped, are those of list. */
static void test_records(const int64_t *records, int64_t n, bool drops, const json_t *list)
{
    size_t at = 0;

    for (int64_t k = 0; k < n; k++)
        if (!drops || records[k] != 5)
            at += records[k] == json_integer_value(json_array_get(list, at));
    CHECK_INT(at, json_array_size(list));
}

static void test_orders(void)
{
    json_t *rows = json_load_file(SOURCE_ROOT "/tests/golden/stream.json", 0, NULL);

    CHECK_INT(json_array_size(rows), 72);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        int64_t *got = NULL, n = 0, val = number(row, "val"), all = 0;
        struct mixture m;
        char name[64];

        mixture_of(row, &m);
        for (size_t k = 0; k < m.s.n; k++)
            all += m.lengths[k];
        (void)snprintf(name, sizeof(name), "stream %zu: %zu sets of %lld records", i, m.s.n,
                       (long long)all);
        check_row(name);
        if (!CHECK_INT(tr_stream_order(&m.s, number(row, "epoch"), &got, &n, &err), FR_OK) ||
            !CHECK(n >= val))
            continue;
        test_records(got + val, n - val, all == 8, json_object_get(row, "order"));
        if (json_object_get(row, "eval") != NULL)
            test_records(got, val, all == 8, json_object_get(row, "eval"));
        fr_sys.free(got);
    }
    json_decref(rows);
}

static void test_refused(void)
{
    static const int64_t none[] = {3, 0}, some[] = {3, 2};
    static const double probs[] = {1, 0};
    struct tr_stream s = {.buffer = 4, .seed = 42, .lengths = none, .n = 2};
    int64_t *got = NULL, n;

    int64_t ones[TR_MIX_SETS + 1];

    check_row("as many sets as may be, and one more");
    for (size_t i = 0; i <= TR_MIX_SETS; i++)
        ones[i] = 1;
    s.lengths = ones;
    s.n = TR_MIX_SETS;
    CHECK_INT(tr_stream_order(&s, 0, &got, &n, &err), FR_OK);
    CHECK_INT(n, TR_MIX_SETS);
    fr_sys.free(got);
    s.n++;
    CHECK_INT(tr_stream_order(&s, 0, &got, &n, &err), FR_USAGE);
    CHECK_TEXT(err.msg, "more than 64 data sets are mixed");
    CHECK(got == NULL && n == 0);
    s.lengths = none;
    s.n = 2;
    check_row("streams without an end");
    CHECK_INT(tr_stream_order(&s, 0, &got, &n, &err), FR_USAGE);
    CHECK(strstr(err.msg, "data set 2 of the stream has no records") != NULL);
    s.lengths = some;
    s.probs = probs;
    for (int over = 0; over < 2; over++) {
        s.mix = over ? TR_MIX_OVER : TR_MIX_ONCE;
        CHECK_INT(tr_stream_order(&s, 0, &got, &n, &err), FR_USAGE);
        CHECK(strstr(err.msg, "never be used up") != NULL);
    }
    s.mix = TR_MIX_CONCAT; /* shares count for nothing */
    if (CHECK_INT(tr_stream_order(&s, 0, &got, &n, &err), FR_OK))
        CHECK_INT(n, 5);
    fr_sys.free(got);
    check_row("the first set alone, as it ends first");
    s.mix = TR_MIX_UNDER;
    if (CHECK_INT(tr_stream_order(&s, 0, &got, &n, &err), FR_OK) && CHECK_INT(n, 3))
        CHECK_INT(got[0] + got[1] + got[2], 0 + 1 + 2);
    fr_sys.free(got);
}

/* ---- rows ---- */

static struct tr_dataset *load(const json_t *row, bool pretrain, struct tr_tokenizer *t)
{
    const json_t *texts = json_object_get(row, "texts");
    int64_t cutoff = number(row, "cutoff_len");
    struct tr_dataset_opts o = {.dataset = json_array_size(texts) > 1 ? "x0,x1" : "x0",
                                .dataset_dir = dir,
                                .text.cutoff_len = pretrain ? 0 : cutoff - 1,
                                .max_samples = -1,
                                .seed = number(row, "seed"),
                                .pretrain = pretrain,
                                .keep_dropped = true,
                                .stream = true};
    const char *column = pretrain ? ", \"columns\": {\"prompt\": \"text\"}" : "";
    struct tr_dataset *d = NULL;
    char info[256];

    (void)snprintf(info, sizeof(info),
                   "{\"x0\": {\"file_name\": \"0.jsonl\"%s}, \"x1\": {\"file_name\": "
                   "\"1.jsonl\"%s}}",
                   column, column);
    put("dataset_info.json", info);
    for (size_t i = 0; i < json_array_size(texts); i++)
        put(i == 0 ? "0.jsonl" : "1.jsonl", json_string_value(json_array_get(texts, i)));
    CHECK_INT(tr_template_find("default", &o.templ, &err), FR_OK);
    CHECK_INT(tr_dataset_load(&o, t, &d, NULL, &err), FR_OK);
    return d;
}

/* ids[0..n) stand in the sample, up to its end where that comes first. */
static bool stands_in(const struct tr_sample *s, const int32_t *ids, int64_t n)
{
    for (int64_t at = 0; at < s->n; at++)
        if (memcmp(s->ids + at, ids, (size_t)(s->n - at < n ? s->n - at : n) * sizeof(*ids)) == 0)
            return true;
    return false;
}

/* Which records the examples of row k are, their places, and counts. */
static void test_keys(const struct tr_batch *b, const struct tr_dataset *d, int64_t k, bool texts)
{
    int64_t targets = 0, ends = 0;
    int32_t end = -1;

    for (int64_t i = 0; i < b->samples; i++) {
        const struct tr_sample s = tr_dataset_at(d, b->index[i]);
        int64_t n = b->attn_offsets[i + 1] - b->attn_offsets[i];

        CHECK_INT(b->place[i], k + i * ((int64_t)1 << 40));
        CHECK(stands_in(&s, b->ids + b->attn_offsets[i], n) && (texts || s.n == n));
        for (int64_t t = 0; t < n; t++)
            CHECK_INT(b->pos[b->attn_offsets[i] + t], t);
    }
    for (int64_t t = 0; t < b->tokens; t++)
        targets += b->targets[t] != TR_IGNORE;
    for (int64_t t = 0; texts && t + 1 < b->tokens; t++) { /* all but the end of a text */
        end = b->targets[t] == TR_IGNORE ? b->ids[t + 1] : end;
        ends += b->targets[t] == TR_IGNORE;
    }
    for (int64_t t = 1; t < b->tokens && ends > 0; t++)
        ends -= b->ids[t] == end;
    CHECK(targets > 0 && ends == 0 && b->targets[b->tokens - 1] == TR_IGNORE);
    CHECK_INT(b->target_count, targets);
    CHECK_INT(b->padded_tokens, (b->tokens + 7) / 8 * 8);
}

/* The batch is one row: its tokens, the lengths of its examples; each token's target is the next
 * one, or none. */
static void test_batch(const struct tr_batch *b, const json_t *want)
{
    const json_t *ids = json_array_get(want, 0), *lengths = json_array_get(want, 1);

    CHECK_INT(b->samples, json_array_size(lengths));
    if (!CHECK_INT(b->tokens, json_array_size(ids)))
        return;
    for (int64_t k = 0; k < b->tokens; k++)
        CHECK_INT(b->ids[k], json_integer_value(json_array_get(ids, (size_t)k)));
    for (int64_t k = 0; k < b->samples; k++) {
        int64_t from = b->attn_offsets[k], to = b->attn_offsets[k + 1];

        CHECK_INT(to - from, json_integer_value(json_array_get(lengths, (size_t)k)));
        CHECK_INT(b->targets[to - 1], TR_IGNORE);
        for (int64_t i = from; i + 1 < to; i++)
            CHECK(b->targets[i] == TR_IGNORE || b->targets[i] == b->ids[i + 1]);
    }
}

static void test_rows_of(const json_t *row, struct tr_tokenizer *t)
{
    bool pretrain = strcmp(json_string_value(json_object_get(row, "stage")), "pt") == 0;
    int64_t cutoff = number(row, "cutoff_len");
    struct tr_sampler_opts o = {
        .batch = 1,
        .world = 1,
        .seed = number(row, "seed"),
        .stream = {.buffer = number(row, "buffer"),
                   .skip = number(row, "val_size"),
                   .rows = {pretrain ? cutoff : cutoff - 1, number(row, "batch"), 1},
                   .texts = pretrain}};
    struct tr_dataset *d = load(row, pretrain, t);
    struct tr_sampler *s = NULL;
    struct tr_batch b = {0};

    CHECK_INT(tr_sampler_create(d, &o, &s, &err), FR_OK);
    for (int64_t e = 0; s != NULL && e < 3; e++) {
        const json_t *epoch = json_array_get(json_object_get(row, "epochs"), (size_t)e);
        int64_t micros = 0;

        CHECK_INT(tr_sampler_micros(s, e, &micros, NULL, &err), FR_OK);
        if (!CHECK_INT(micros, json_array_size(epoch)))
            continue;
        for (int64_t k = 0; k < micros; k++) {
            CHECK_INT(tr_sampler_batch(s, e, k, &b, &err), FR_OK);
            test_batch(&b, json_array_get(epoch, (size_t)k));
            test_keys(&b, d, k, pretrain);
        }
    }
    tr_batch_finish(&b);
    tr_sampler_destroy(s);
    tr_dataset_destroy(d);
}

static void test_rows(struct tr_tokenizer *t)
{
    json_t *rows = json_load_file(SOURCE_ROOT "/tests/golden/stream_rows.json", 0, NULL);

    CHECK_INT(json_array_size(rows), 8);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "rows %zu", i);
        check_row(name);
        test_rows_of(json_array_get(rows, i), t);
    }
    json_decref(rows);
}

/* ---- rounds ---- */

static struct tr_dataset *make_set(int64_t n, struct tr_tokenizer *t)
{
    struct tr_dataset_opts o = {
        .dataset = "x", .dataset_dir = dir, .text.cutoff_len = 1000, .max_samples = -1, .seed = 42};
    struct tr_dataset *d = NULL;
    struct fr_buf b = {0};

    for (int64_t i = 0; i < n; i++)
        fr_buf_fmt(&b, "{\"instruction\": \"%.*s\", \"output\": \"!?\"}\n", (int)(1 + i % 4),
                   "@$%&");
    put("a.jsonl", b.p);
    put("dataset_info.json", "{\"x\": {\"file_name\": \"a.jsonl\"}}");
    fr_buf_finish(&b);
    CHECK_INT(tr_template_find("empty", &o.templ, &err), FR_OK);
    CHECK_INT(tr_dataset_load(&o, t, &d, NULL, &err), FR_OK);
    return d;
}

/* Of a stream of 11 samples, 2 ranks take 3 each a round; 5 are left for the last one: the second
 * rank's are completed from the first. */
static void test_rounds(struct tr_tokenizer *t)
{
    const int64_t length = 11;
    struct tr_stream stream = {.buffer = 4, .seed = 42, .lengths = &length, .n = 1};
    struct tr_dataset *d = make_set(length, t);
    struct tr_batch b = {0};
    int64_t *order = NULL, n = 0, seen = 0, micros = 0;

    check_row("rounds of a stream");
    CHECK_INT(tr_stream_order(&stream, 1, &order, &n, &err), FR_OK);
    for (int64_t rank = 0; rank < 2; rank++) {
        struct tr_sampler_opts o = {
            .batch = 3, .rank = rank, .world = 2, .seed = 42, .stream.buffer = 4};
        struct tr_sampler *s = NULL;

        CHECK_INT(tr_sampler_create(d, &o, &s, &err), FR_OK);
        CHECK_INT(tr_sampler_micros(s, 1, &micros, NULL, &err), FR_OK);
        CHECK_INT(micros, 2);
        for (int64_t k = 0; k < 2; k++) {
            CHECK_INT(tr_sampler_batch(s, 1, k, &b, &err), FR_OK);
            CHECK_INT(b.samples, 3);
            for (int64_t i = 0; i < b.samples; i++, seen++) {
                CHECK_INT(b.index[i], order[(6 * k + 3 * rank + i) % 11]);
                CHECK_INT(b.place[i], 6 * k + 3 * rank + i);
            }
        }
        tr_sampler_destroy(s);
    }
    CHECK_INT(seen, 12);
    struct tr_sampler_opts one = {.batch = 4, .world = 1, .seed = 42, .stream.buffer = 4};
    struct tr_sampler *s = NULL;
    CHECK_INT(tr_sampler_create(d, &one, &s, &err), FR_OK);
    CHECK_INT(tr_sampler_batch(s, 0, 2, &b, &err), FR_OK);
    CHECK_INT(b.samples, 3); /* one process: the last batch is what is left */
    tr_sampler_destroy(s);
    fr_sys.free(order);
    tr_dataset_destroy(d);
    tr_batch_finish(&b);
}

/* What completes the last round of samples that are cut out of texts has a place of its own, too.
 */
static void test_cut_rounds(struct tr_tokenizer *t)
{
    struct tr_dataset_opts o = {.dataset = "x",
                                .dataset_dir = dir,
                                .text.cutoff_len = 1000,
                                .max_samples = -1,
                                .seed = 42,
                                .pretrain = true};
    struct tr_dataset *d = NULL;
    struct tr_batch b = {0}, first = {0};
    int64_t micros = 0;

    check_row("rounds of samples that are cut");
    CHECK_INT(tr_template_find("empty", &o.templ, &err), FR_OK);
    CHECK_INT(tr_dataset_load(&o, t, &d, NULL, &err), FR_OK);
    for (int64_t rank = 0; rank < 2; rank++) {
        struct tr_sampler_opts so = {.batch = 2,
                                     .rank = rank,
                                     .world = 2,
                                     .seed = 42,
                                     .stream = {.buffer = 4, .rows = {4, 20, 1}, .texts = true}};
        struct tr_sampler *s = NULL;

        CHECK_INT(tr_sampler_create(d, &so, &s, &err), FR_OK);
        CHECK_INT(tr_sampler_micros(s, 0, &micros, NULL, &err), FR_OK);
        CHECK(micros >= 2);
        for (int64_t k = 0; k < micros; k++) {
            CHECK_INT(tr_sampler_batch(s, 0, k, &b, &err), FR_OK);
            CHECK_INT(b.tokens, 4 * b.samples);
            for (int64_t i = 0; i < b.samples; i++)
                CHECK_INT(b.place[i], 4 * k + rank * b.samples + i);
        }
        if (rank == 1 && CHECK_INT(tr_sampler_batch(s, 0, 0, &first, &err), FR_OK))
            CHECK(b.samples < 2 || memcmp(b.ids + 4 * (b.samples - 1), first.ids, 16) != 0);
        tr_sampler_destroy(s);
    }
    tr_batch_finish(&b);
    tr_batch_finish(&first);
    tr_dataset_destroy(d);
}

/* Examples of one row have places of their own. */
static void test_packed(const struct tr_dataset *d)
{
    struct tr_sampler_opts packed = {
        .batch = 1, .world = 1, .seed = 42, .stream = {.buffer = 3, .rows = {5, 6, 1}}};
    struct tr_sampler *s = NULL;
    struct tr_batch b = {0};
    int64_t micros = 0;

    check_row("two records a row");
    CHECK_INT(tr_sampler_create(d, &packed, &s, &err), FR_OK);
    CHECK_INT(tr_sampler_micros(s, 1, &micros, NULL, &err), FR_OK);
    CHECK_INT(micros, 3);
    for (int64_t k = 0; k < micros; k++) {
        CHECK_INT(tr_sampler_batch(s, 1, k, &b, &err), FR_OK);
        CHECK_INT(b.samples, 2);
        test_keys(&b, d, k, false);
    }
    tr_sampler_destroy(s);
    tr_batch_finish(&b);
}

/* A mixture in the order that tr_stream_order gives, but for records for evaluation. */
static void test_mixed(struct tr_tokenizer *t)
{
    static const double shares[] = {0.25, 0.75};
    struct tr_dataset_opts o = {.dataset = "x,y",
                                .dataset_dir = dir,
                                .text.cutoff_len = 1000,
                                .max_samples = -1,
                                .seed = 42,
                                .keep_dropped = true,
                                .stream = true};
    struct tr_dataset *d = NULL;
    struct tr_batch b = {0};

    put("a.jsonl", "{\"instruction\": \"@\", \"output\": \"!\"}\n"
                   "{\"instruction\": \"$\", \"output\": \"!\"}\n"
                   "{\"instruction\": \"%\", \"output\": \"!\"}\n");
    put("dataset_info.json",
        "{\"x\": {\"file_name\": \"a.jsonl\"}, \"y\": {\"file_name\": \"a.jsonl\"}}");
    CHECK_INT(tr_template_find("empty", &o.templ, &err), FR_OK);
    CHECK_INT(tr_dataset_load(&o, t, &d, NULL, &err), FR_OK);
    for (int64_t i = 0; i < 8; i++) {
        bool probs = i % 2 == 0;
        int64_t skip = i / 2 % 2 == 0 ? 0 : 2, *order = NULL, n = 0, micros = 0;
        enum tr_mix_strategy mix = i < 4 ? TR_MIX_UNDER : TR_MIX_OVER;
        struct tr_sampler_opts so = {
            .batch = 1,
            .world = 1,
            .seed = 42,
            .stream = {
                .buffer = 3, .mix = mix, .mix_probs = probs ? "0.25,0.75" : NULL, .skip = skip}};
        struct tr_stream stream = {
            .buffer = 3, .seed = 42, .mix = mix, .fixed = skip > 0, .probs = probs ? shares : NULL};
        struct tr_sampler *s = NULL;

        check_row(probs ? "shares of a mixture" : "a mixture by turns");
        stream.n = tr_dataset_sets(d, &stream.lengths);
        CHECK_INT(stream.n, 2);
        CHECK_INT(tr_stream_order(&stream, 1, &order, &n, &err), FR_OK);
        CHECK_INT(tr_sampler_create(d, &so, &s, &err), FR_OK);
        CHECK_INT(tr_sampler_micros(s, 1, &micros, NULL, &err), FR_OK);
        CHECK_INT(micros, n - skip);
        for (int64_t k = 0; k < micros; k++) {
            CHECK_INT(tr_sampler_batch(s, 1, k, &b, &err), FR_OK);
            CHECK_INT(b.index[0], order[skip + k]);
        }
        fr_sys.free(order);
        tr_sampler_destroy(s);
    }
    test_packed(d);
    tr_dataset_destroy(d);
    tr_batch_finish(&b);
}

int main(void)
{
    struct tr_tokenizer *t = NULL;

    if (mkdtemp(dir) == NULL || tr_tokenizer_load(tokenizer, &t, &err) != FR_OK) {
        printf("cannot start: %s\n", err.msg);
        return EXIT_FAILURE;
    }
    test_orders();
    test_refused();
    test_rows(t);
    test_rounds(t);
    test_cut_rounds(t);
    test_mixed(t);
    tr_tokenizer_destroy(t);
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
    return check_done();
}

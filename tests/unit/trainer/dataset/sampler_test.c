/* In which order samples come: epochs, ranks, numpy's permutation; how a micro-batch is packed. */
#include "tests/unit/check.h"
#include "trainer/dataset/dataset.h"
#include "trainer/dataset/pack.h"
#include "trainer/dataset/sampler.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <unistd.h>

static char dir[] = "/tmp/flowrun-sampler-XXXXXX";
static const char tokenizer[] = SOURCE_ROOT "/tests/golden/tokenizer/deepseek.json";

static void put(const char *name, const char *text)
{
    char path[256];
    struct fr_err err;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    CHECK_INT(fr_file_write(path, text, strlen(text), 0644, &err), FR_OK);
}

/* The data set x of dir, by the template "empty". */
static enum fr_rc load_with(struct tr_dataset_opts *o, struct tr_tokenizer *t,
                            struct tr_dataset **out)
{
    struct fr_err err;

    o->dataset = "x";
    o->dataset_dir = dir;
    o->text.cutoff_len = 1000;
    CHECK_INT(tr_template_find("empty", &o->templ, &err), FR_OK);
    return tr_dataset_load(o, t, out, NULL, &err);
}

/* What accelerate's BatchSamplerShard gives (even_batches) for torch.randperm's order. */
static const struct {
    int64_t n, batch, world, rank, seed;
    bool drop;
    int64_t micro, index[6];
} shards[] = {
    {10, 2, 3, 0, 42, false, 2, {2, 6, 0, 9}},
    {10, 2, 3, 1, 42, false, 2, {1, 8, 3, 7}},
    {10, 2, 3, 2, 42, false, 2, {4, 5, 2, 6}},
    {10, 3, 2, 0, 42, false, 2, {2, 6, 1, 0, 9, 3}},
    {10, 3, 2, 1, 42, false, 2, {8, 4, 5, 7, 2, 6}},
    {3, 2, 4, 0, 42, false, 1, {0, 2}},
    {3, 2, 4, 2, 42, false, 1, {2, 1}},
    {3, 2, 4, 3, 42, false, 1, {0, 2}},
    {7, 2, 2, 0, 43, false, 2, {3, 1, 5, 0}},
    {7, 2, 2, 1, 43, false, 2, {2, 4, 6, 3}},
    {10, 3, 2, 1, 42, true, 1, {8, 4, 5}},
};

static void make_set(int64_t n)
{
    struct fr_buf b = {0};

    for (int64_t i = 0; i < n; i++)
        fr_buf_fmt(&b, "{\"instruction\": \"%.*s\", \"output\": \"!?\"}\n", (int)(1 + i % 4),
                   "@$%&");
    put("a.jsonl", b.p);
    put("dataset_info.json", "{\"x\": {\"file_name\": \"a.jsonl\"}}");
    fr_buf_finish(&b);
}

static void test_sampler(struct tr_tokenizer *t)
{
    struct tr_batch b = {0};
    struct fr_err err;

    check_row("sampler");
    for (size_t i = 0; i < sizeof(shards) / sizeof(shards[0]); i++) {
        struct tr_sampler_opts o = {.batch = shards[i].batch,
                                    .rank = shards[i].rank,
                                    .world = shards[i].world,
                                    .seed = shards[i].seed - 1,
                                    .shuffle = true,
                                    .drop_last = shards[i].drop};
        int64_t micros = 0;
        struct tr_dataset *d = NULL;
        struct tr_sampler *s = NULL;
        make_set(shards[i].n);
        CHECK_INT(load_with(&(struct tr_dataset_opts){.max_samples = -1, .seed = 42}, t, &d),
                  FR_OK);
        CHECK_INT(tr_sampler_create(d, &o, &s, &err), FR_OK);
        CHECK_INT(tr_sampler_micros(s, 1, &micros, NULL, &err), FR_OK);
        CHECK_INT(micros, shards[i].micro);
        for (int64_t k = 0; k < shards[i].micro; k++) {
            CHECK_INT(tr_sampler_batch(s, 1, k, &b, &err), FR_OK); /* epoch 1: seed + 1 */
            for (int64_t x = 0; x < o.batch; x++)
                CHECK_INT(b.index[x], shards[i].index[k * o.batch + x]);
            CHECK_INT(b.place[0], (k * o.world + o.rank) * o.batch);
        }
        tr_sampler_destroy(s);
        tr_dataset_destroy(d);
    }
    tr_batch_finish(&b);
}

/* Of 7 samples in batches of 2 the last is completed; an epoch that comes again has its order. */
static void test_epochs(struct tr_tokenizer *t)
{
    struct tr_sampler_opts o = {.batch = 2, .world = 1, .seed = 42, .shuffle = true};
    struct tr_dataset *d = NULL;
    struct tr_sampler *s = NULL;
    struct tr_batch b = {0};
    struct fr_err err;
    int64_t first[2], second[2], micros = 0;

    check_row("epochs");
    make_set(7);
    CHECK_INT(load_with(&(struct tr_dataset_opts){.max_samples = -1, .seed = 42}, t, &d), FR_OK);
    CHECK_INT(tr_sampler_create(d, &o, &s, &err), FR_OK);
    CHECK_INT(tr_sampler_micros(s, 0, &micros, NULL, &err), FR_OK);
    CHECK_INT(micros, 4);
    CHECK_INT(tr_sampler_batch(s, 0, 0, &b, &err), FR_OK);
    memcpy(first, b.index, sizeof(first));
    CHECK_INT(tr_sampler_batch(s, 1, 0, &b, &err), FR_OK);
    CHECK(memcmp(first, b.index, sizeof(first)) != 0);
    memcpy(second, b.index, sizeof(second));
    CHECK_INT(tr_sampler_batch(s, 0, 0, &b, &err), FR_OK);
    CHECK(memcmp(first, b.index, sizeof(first)) == 0);
    CHECK_INT(tr_sampler_batch(s, 1, 0, &b, &err), FR_OK);
    CHECK(memcmp(second, b.index, sizeof(second)) == 0);
    tr_sampler_destroy(s);
    tr_dataset_destroy(d);
    tr_batch_finish(&b);
}

/* 5 samples are no round of 2 processes with 3 each, where incomplete ones are dropped. */
static void test_nothing_left(struct tr_tokenizer *t)
{
    struct tr_sampler_opts o = {.batch = 3, .world = 2, .seed = 42, .drop_last = true};
    struct tr_dataset *d = NULL;
    struct tr_sampler *s = NULL;
    int64_t micros = 0, samples = 0;
    struct fr_err err;

    check_row("nothing left");
    make_set(5);
    CHECK_INT(load_with(&(struct tr_dataset_opts){.max_samples = -1, .seed = 42}, t, &d), FR_OK);
    CHECK_INT(tr_sampler_create(d, &o, &s, &err), FR_USAGE);
    CHECK(s == NULL);
    CHECK_TEXT(err.msg, "5 samples do not fill one round of 2 processes with 3 each "
                        "(--dataloader_drop_last)");
    tr_sampler_destroy(s);
    check_row("just enough left");
    o.world = 1;
    CHECK_INT(tr_sampler_create(d, &o, &s, &err), FR_OK);
    CHECK_INT(tr_sampler_micros(s, 3, &micros, &samples, &err), FR_OK);
    CHECK(micros == 1 && samples == 5);
    tr_sampler_destroy(s);
    for (int64_t skip = 4; skip <= 7; skip++) {
        struct tr_sampler_opts stream = {
            .batch = 1, .world = 1, .stream = {.buffer = 2, .skip = skip}};

        check_row("a stream of which all is skipped");
        CHECK_INT(tr_sampler_create(d, &stream, &s, &err), skip < 5 ? FR_OK : FR_USAGE);
        CHECK(skip < 5 || strncmp(err.msg, "0 samples do not fill one round", 31) == 0);
        tr_sampler_destroy(s);
    }
    tr_dataset_destroy(d);
}

/* numpy.random.RandomState(seed).permutation(10). */
static const struct {
    int64_t seed;
    int order[10];
} permutations[] = {{42, {8, 1, 5, 0, 7, 2, 9, 4, 3, 6}}, {0, {2, 8, 4, 9, 1, 6, 7, 3, 0, 5}}};

static void test_resample(struct tr_tokenizer *t)
{
    struct tr_dataset_opts o = {.max_samples = -1};
    struct fr_buf b = {0};
    struct tr_dataset *d, *whole;

    for (int i = 0; i < 10; i++)
        fr_buf_fmt(&b, "{\"instruction\": \"%c\", \"output\": \"\"}\n", '0' + i);
    put("a.jsonl", b.p);
    put("dataset_info.json", "{\"x\": {\"file_name\": \"a.jsonl\"}}");
    CHECK_INT(load_with(&o, t, &whole), FR_OK);
    for (size_t i = 0; i < sizeof(permutations) / sizeof(permutations[0]); i++) {
        check_row(i == 0 ? "seed 42" : "seed 0");
        put("dataset_info.json", "{\"x\": {\"file_name\": \"a.jsonl\", \"num_samples\": 10}}");
        o.seed = permutations[i].seed;
        if (!CHECK_INT(load_with(&o, t, &d), FR_OK))
            continue;
        for (int64_t k = 0; CHECK_INT(tr_dataset_size(d), 10) && k < 10; k++) {
            struct tr_sample s = tr_dataset_at(d, k);
            struct tr_sample want = tr_dataset_at(whole, permutations[i].order[k]);

            CHECK(s.n == want.n && memcmp(s.ids, want.ids, (size_t)s.n * sizeof(*s.ids)) == 0);
        }
        tr_dataset_destroy(d);
    }
    tr_dataset_destroy(whole);
    check_row("max_samples");
    put("dataset_info.json", "{\"x\": {\"file_name\": \"a.jsonl\"}}");
    o.max_samples = 3;
    CHECK_INT(load_with(&o, t, &d), FR_OK);
    CHECK_INT(tr_dataset_size(d), 3);
    tr_dataset_destroy(d);
    check_row("overwrite_cache");
    o.cache_dir = dir;
    for (int again = 0; again < 2; again++) {
        o.overwrite_cache = again;
        CHECK_INT(load_with(&o, t, &d), FR_OK);
        CHECK(!tr_dataset_cached(d));
        tr_dataset_destroy(d);
    }
    fr_buf_finish(&b);
}

/* Lengths of more than eleven bits: of those left the longest that fits follows in a row. */
static void test_rows(void)
{
    static const int64_t lengths[] = {5000, 2049, 100, 3000, 4096}, order[] = {0, 3, 2, 4, 1};
    struct tr_pack_opts o = {.capacity = 8192, .batch = 1000, .shards = 1};
    struct tr_packs packs;
    struct fr_err err = {0};

    check_row("rows of long examples");
    CHECK_INT(tr_pack(lengths, 5, &o, &packs, &err), FR_OK);
    CHECK_INT(packs.n, 2);
    CHECK_INT(packs.rows[1], 3);
    CHECK_INT(packs.rows[2], 5);
    for (int i = 0; i < 5; i++)
        CHECK_INT(packs.order[i], order[i]);
    tr_packs_finish(&packs);
}

/* Rows as they have to be, by looking at all that are left: where in order the next row begins. */
static int64_t greedy(const int64_t *lengths, bool *left, const int64_t range[2], int64_t capacity,
                      int64_t *order)
{
    int64_t room = capacity, n = 0, best;

    do {
        best = -1;
        for (int64_t i = range[0]; i < range[1]; i++)
            if (left[i] && lengths[i] <= room && (best < 0 || lengths[i] >= lengths[best]))
                best = i;
        if (best >= 0) {
            order[n++] = best;
            room -= lengths[best];
            left[best] = false;
        }
    } while (best >= 0);
    return n;
}

static const struct {
    const char *name;
    int64_t n, capacity, batch, shards, longest;
} greedies[] = {{"no examples", 0, 10, 4, 1, 5},
                {"one", 1, 10, 4, 1, 10},
                {"many alike", 90, 16, 1000, 1, 6},
                {"batches", 100, 40, 7, 1, 40},
                {"a whole batch", 30, 40, 10, 1, 40},
                {"shards", 95, 40, 9, 4, 40},
                {"even shards", 96, 40, 24, 4, 40},
                {"more shards than examples", 5, 40, 9, 8, 40},
                {"no shards", 20, 40, 9, 0, 40},
                {"long ones", 120, 9000, 60, 2, 9000},
                {"the longest is 2^11", 90, 2048, 1000, 1, 2048}};

static void test_greedy(void)
{
    enum { MOST = 120 };

    for (size_t c = 0; c < sizeof(greedies) / sizeof(greedies[0]); c++) {
        struct tr_pack_opts o = {greedies[c].capacity, greedies[c].batch, greedies[c].shards};
        int64_t lengths[MOST], order[MOST], n = greedies[c].n, at = 0, rows = 0, done = 0;
        int64_t parts = o.shards < 1 ? 1 : o.shards;
        bool left[MOST];
        struct tr_packs got;
        struct fr_err err;

        check_row(greedies[c].name);
        srand(11);
        for (int64_t i = 0; i < n; i++) {
            lengths[i] = rand() % (greedies[c].longest + 1); /* some are dropped */
            left[i] = lengths[i] > 0;
        }
        if (n > 2)
            left[2] = (lengths[2] = greedies[c].longest) > 0;
        CHECK_INT(tr_pack(lengths, n, &o, &got, &err), FR_OK);
        CHECK_INT(got.rows[0], 0);
        for (int64_t k = 0; k < parts; k++) {
            int64_t end = done + n / parts + (k < n % parts);

            for (; done < end; done = done + o.batch < end ? done + o.batch : end) {
                int64_t to = done + o.batch < end ? done + o.batch : end, more;

                while ((more = greedy(lengths, left, (int64_t[]){done, to}, o.capacity,
                                      order + at)) > 0) {
                    at += more;
                    rows++;
                    CHECK(rows <= got.n && got.rows[rows] == at);
                }
            }
        }
        CHECK_INT(got.n, rows);
        for (int64_t i = 0; got.n == rows && i < at; i++)
            CHECK_INT(got.order[i], order[i]);
        tr_packs_finish(&got);
        CHECK(got.order == NULL && got.rows == NULL && got.n == 0);
    }
}

/* Texts of 3, 4, 5, 6, 3, 4 … tokens, cut into samples of 7 a batch of three: what is left of a
 * batch is dropped, and a shard begins a batch. */
static void test_chunk(struct tr_tokenizer *t)
{
    static const struct {
        const char *name;
        int64_t shards, capacity, want;
    } cuts[] = {{"no shards", 0, 7, 4},     {"one shard", 1, 7, 4},
                {"two shards", 2, 7, 5},    {"a text each", 20, 6, 2},
                {"nothing fits", 20, 7, 0}, {"one whole batch", 1, 14, 1}};

    make_set(10);
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        struct tr_pack_opts o = {cuts[i].capacity, 3, cuts[i].shards};
        struct tr_dataset *whole = NULL, *d = NULL;
        struct fr_err err = {0};

        check_row(cuts[i].name);
        CHECK_INT(load_with(&(struct tr_dataset_opts){.max_samples = -1}, t, &whole), FR_OK);
        CHECK_INT(load_with(&(struct tr_dataset_opts){.max_samples = -1}, t, &d), FR_OK);
        CHECK_INT(tr_dataset_chunk(&d, &o, &err), cuts[i].want > 0 ? FR_OK : FR_USAGE);
        CHECK_INT(tr_dataset_size(d), cuts[i].want > 0 ? cuts[i].want : 10);
        CHECK_TEXT(err.msg, cuts[i].want > 0
                                ? ""
                                : "all texts have 43 tokens together, which is not one "
                                  "sample of 7: lower --cutoff_len, or set --packing "
                                  "false");
        for (int64_t k = 0, from = 0; cuts[i].capacity == 7 && cuts[i].want > 0 && k < 7; k++) {
            struct tr_sample got = tr_dataset_at(d, 0), text = tr_dataset_at(whole, from / 8);

            from += from % 8 == text.n ? 8 - text.n : 0;
            text = tr_dataset_at(whole, from / 8);
            CHECK_INT(got.ids[k], text.ids[from % 8]);
            CHECK_INT(got.labels[k], text.labels[from % 8]);
            from++;
        }
        tr_dataset_destroy(whole);
        tr_dataset_destroy(d);
    }
}

static void test_pack(void)
{
    static const int32_t ids[] = {5, 6, 7, 8, 9}, labels[] = {TR_IGNORE, 6, 7, TR_IGNORE, 9};
    static const int32_t pos[] = {0, 1, 2, 0, 1}, targets[] = {6, 7, TR_IGNORE, 9, TR_IGNORE};
    static const int32_t all[] = {6, 7, TR_IGNORE, 9, TR_IGNORE};
    struct tr_sample s[2] = {{.ids = ids, .labels = labels, .n = 3},
                             {.ids = ids + 3, .labels = labels + 3, .n = 2}};
    struct tr_batch b = {0};
    struct fr_err err;

    check_row("pack");
    CHECK_INT(tr_batch_pack(s, 2, &b, &err), FR_OK);
    CHECK(b.tokens == 5 && b.samples == 2 && b.target_count == 3 && b.padded_tokens == 16);
    CHECK(b.attn_offsets[0] == 0 && b.attn_offsets[1] == 3 && b.attn_offsets[2] == 5);
    for (int i = 0; i < 5; i++) {
        CHECK_INT(b.ids[i], ids[i]);
        CHECK_INT(b.pos[i], pos[i]);
        CHECK_INT(b.targets[i], targets[i]);
    }
    check_row("pack without labels");
    s[0].labels = s[1].labels = NULL;
    CHECK_INT(tr_batch_pack(s, 2, &b, &err), FR_OK);
    for (int i = 0; i < 5; i++)
        CHECK_INT(b.targets[i], all[i]);
    tr_batch_finish(&b);
}

/* Padding is of rows: each of a batch is as long as its longest one, in eights. */
static void test_padded(struct tr_tokenizer *t)
{
    struct tr_sampler_opts o = {.batch = 2, .world = 1};
    struct tr_pack_opts po = {.capacity = 12, .batch = 100, .shards = 1};
    struct tr_dataset *d = NULL;
    struct tr_sampler *s = NULL;
    struct tr_batch b = {0};
    int64_t micros = 0, many = 0;
    struct fr_err err;

    check_row("padded rows");
    make_set(13);
    CHECK_INT(load_with(&(struct tr_dataset_opts){.max_samples = -1}, t, &d), FR_OK);
    CHECK_INT(tr_dataset_pack(&d, &po, &err), FR_OK);
    CHECK_INT(tr_sampler_create(d, &o, &s, &err), FR_OK);
    CHECK_INT(tr_sampler_micros(s, 0, &micros, NULL, &err), FR_OK);
    for (int64_t k = 0; k < micros; k++) {
        int64_t longest = 0, tokens = 0;

        for (int64_t i = 2 * k; i < 2 * k + 2; i++) {
            struct tr_sample row = tr_dataset_at(d, i % tr_dataset_size(d));

            longest = row.n > longest ? row.n : longest;
            tokens += row.n;
        }
        CHECK_INT(tr_sampler_batch(s, 0, k, &b, &err), FR_OK);
        CHECK_INT(b.tokens, tokens);
        CHECK_INT(b.padded_tokens, 2 * ((longest + 7) / 8 * 8));
        many += b.samples > 2;
    }
    CHECK(micros > 1 && many > 1);
    tr_sampler_destroy(s);
    tr_dataset_destroy(d);
    tr_batch_finish(&b);
}

int main(void)
{
    struct tr_tokenizer *t = NULL;
    struct fr_err err;

    if (mkdtemp(dir) == NULL || tr_tokenizer_load(tokenizer, &t, &err) != FR_OK) {
        printf("cannot start: %s\n", err.msg);
        return EXIT_FAILURE;
    }
    test_sampler(t);
    test_epochs(t);
    test_resample(t);
    test_chunk(t);
    test_pack();
    test_padded(t);
    test_rows();
    test_greedy();
    test_nothing_left(t);
    tr_tokenizer_destroy(t);
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
    return check_done();
}

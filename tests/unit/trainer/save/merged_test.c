/* A module's weight with its adapter folded in, in each type of a base, and what is refused. */
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "tests/unit/check.h"
#include "trainer/save/export.h"
#include "trainer/save/merge.h"
#include "trainer/save/quantize.h"
#include "trainer/tensor/tensor.h"

#include <malloc.h>
#include <math.h>
#include <unistd.h>

enum { OUT = 2, IN = 3, R = 2, ELEMENTS = OUT * IN };

static char dir[] = "/tmp/flowtrain-merge-XXXXXX";
static char module[] = "m";

/* A (R, IN), then B (OUT, R), each behind a gap; B A = 1 2 3, 2 3 6. */
static const float flat[] = {99, 1, 2, 3, 0, 1, 0, 99, 1, 0, 2, -1};
static const struct tr_model_config config = {.fp8_block_rows = 2, .fp8_block_cols = 2};

/* The base: m.weight, its scales in FP8, and what has no adapter. */
struct base {
    enum tr_st_type type, scale_type;
    float w[ELEMENTS];
    bool no_weight, no_scale;
    int64_t scales; /* columns */
};

static void put(const char *path, const char *text)
{
    CHECK_INT(fr_file_write(path, text, strlen(text), 0644, NULL), FR_OK);
}

static void has(const struct fr_err *err, const char *want)
{
    if (!CHECK(strstr(err->msg, want) != NULL))
        printf("   %s\n", err->msg);
}

static void write_base(const struct base *b)
{
    static const float ones[] = {1, 1, 1, 1};
    static const uint16_t halves[] = {0x3f80, 0x3f80, 0x3f80, 0x3f80};
    static const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8};
    bool fp8 = b->type == TR_ST_F8_E4M3;
    struct tr_st_item items[5];
    char w[ELEMENTS * sizeof(float)];
    enum tr_dtype type;
    size_t n = 0;

    CHECK_INT(tr_st_dtype(b->type, &type, NULL), FR_OK);
    for (int64_t i = 0; i < ELEMENTS; i++)
        tr_set(tr_view1(w, type, ELEMENTS), i, (double)b->w[i]);
    items[n++] = (struct tr_st_item){"m.bias", TR_ST_F16, 1, {4}, bytes, NULL, NULL};
    if (!b->no_weight)
        items[n++] = (struct tr_st_item){"m.weight", b->type, 2, {OUT, IN}, w, NULL, NULL};
    if (fp8 && !b->no_scale)
        items[n++] = (struct tr_st_item){.name = "m.weight_scale_inv",
                                         .type = b->scale_type,
                                         .ndim = 2,
                                         .shape = {1, b->scales},
                                         .data = b->scale_type == TR_ST_F32 ? (const void *)ones
                                                                            : (const void *)halves};
    items[n++] = (struct tr_st_item){"mm.weight", TR_ST_F32, 2, {1, 2}, bytes, NULL, NULL};
    items[n++] = (struct tr_st_item){"n.m.weight", TR_ST_U8, 1, {8}, bytes, NULL, NULL};
    CHECK_INT(tr_st_write("base/model.safetensors", items, n, NULL, 0, NULL), FR_OK);
}

static enum fr_rc merge_over(struct tr_adapter a, int64_t shard_bytes, int64_t *merged,
                             struct fr_err *err)
{
    const struct tr_params p = {.adapters = &a, .n = 1};
    struct tr_merge_opts o = {.config = &config,
                              .params = &p,
                              .flat = flat,
                              .model_dir = "base",
                              .out_dir = "new/out",
                              .shard_bytes = shard_bytes};
    struct tr_st *st = NULL;
    enum fr_rc rc;

    CHECK_INT(tr_st_open("base/model.safetensors", &st, NULL), FR_OK);
    o.st = st;
    rc = tr_merge(&o, merged, err);
    tr_st_close(st);
    return rc;
}

/* Into a new folder. */
static enum fr_rc merge(struct tr_adapter a, int64_t shard_bytes, int64_t *merged,
                        struct fr_err *err)
{
    CHECK_INT(fr_remove_tree("new", NULL), FR_OK);
    return merge_over(a, shard_bytes, merged, err);
}

static const struct tr_adapter adapter = {
    .module = module, .r = R, .in = IN, .out = OUT, .scale = 0.5F, .a_at = 1, .b_at = 8};

/* The values of new/out's m.weight; all else is the base's. */
static void read_back(const struct base *b, float got[ELEMENTS], float scales[2])
{
    static const char *const same[] = {"m.bias", "mm.weight", "n.m.weight"};
    struct tr_st *old = NULL, *new = NULL;
    const struct tr_st_tensor *t;

    CHECK_INT(tr_st_open("base/model.safetensors", &old, NULL), FR_OK);
    CHECK_INT(tr_st_open_folder("new/out", false, NULL, &new, NULL), FR_OK);
    CHECK_INT(tr_st_count(new), tr_st_count(old));
    for (size_t i = 0; i < 3; i++) {
        char x[8] = "", y[8] = "";

        t = tr_st_find(old, same[i]);
        CHECK_INT(tr_st_read(old, t, 0, x, 8, NULL), FR_OK);
        t = tr_st_find(new, same[i]);
        CHECK(t != NULL && tr_st_read(new, t, 0, y, 8, NULL) == FR_OK && memcmp(x, y, 8) == 0);
    }
    t = tr_st_find(new, "m.weight");
    CHECK(t != NULL && t->type == b->type && t->ndim == 2 && t->shape[0] == OUT);
    struct tr_weight_source from = {new, t, tr_st_find(new, "m.weight_scale_inv"), 2, 2};
    CHECK_INT(tr_weight_read(&from, got, NULL), FR_OK);
    if (from.scale != NULL)
        CHECK_INT(tr_st_read(new, from.scale, 0, scales, 2 * sizeof(float), NULL), FR_OK);
    tr_st_close(old);
    tr_st_close(new);
}

static void test_types(void)
{
    static const enum tr_st_type types[] = {TR_ST_F32, TR_ST_BF16, TR_ST_F16, TR_ST_F8_E4M3};
    static const float want[] = {1.5F, 3, 5.5F, 9, 1.5F, 2};

    for (size_t i = 0; i < 4; i++)
        for (int shards = 0; shards < 2; shards++) {
            struct base b = {types[i], TR_ST_F32, {1, 2, 4, 8, 0, -1}, false, false, 2};
            float got[ELEMENTS], scales[2] = {0};
            bool fp8 = types[i] == TR_ST_F8_E4M3;
            struct fr_err err = {0};
            int64_t merged = 0;

            check_row(tr_st_type_name(types[i]));
            write_base(&b);
            if (!CHECK_INT(merge(adapter, shards ? 24 : 1000, &merged, &err), FR_OK)) {
                printf("   %s\n", err.msg);
                continue;
            }
            CHECK_INT(merged, 1);
            CHECK_INT(access("new/out/model.safetensors", F_OK), shards ? -1 : 0);
            read_back(&b, got, scales);
            for (int k = 0; k < ELEMENTS; k++)
                CHECK(fp8 ? fabsf(got[k] - want[k]) <= want[k] / 16 : got[k] == want[k]);
            CHECK(!fp8 || (scales[0] == 9 / 448.0F && scales[1] == 5.5F / 448));
        }
    check_row("files beside the weights");
    CHECK_INT(access("new/out/config.json", F_OK), 0);
    CHECK_INT(access("new/out/readme.md", F_OK), 0);
    CHECK_INT(access("new/out/other.bin", F_OK), -1);
}

/* In f16 sums at its limit; the adapter adds 0.5 to the first element, or subtracts it. */
static void test_limits(void)
{
    static const struct {
        const char *want; /* NULL: merged */
        float scale, first;
        enum tr_st_type type;
    } rows[] = {
        {NULL, 0, 65504, TR_ST_F16},
        {NULL, 0, -65504, TR_ST_F16},
        {NULL, -0.5F, 65504, TR_ST_F16},
        {NULL, 0.5F, -65504, TR_ST_F16},
        {"m.weight would hold 65504.5 at element 0, which f16 cannot", 0.5F, 65504, TR_ST_F16},
        {"m.weight would hold -65504.5 at element 0, which f16 cannot", -0.5F, -65504, TR_ST_F16},
        {NULL, 0.5F, 65536, TR_ST_BF16},
        {"m.weight would hold inf at element 0, which is not finite", 0.5F, INFINITY, TR_ST_F32},
        {"m.weight would hold nan at element 0, which is not finite", 0.5F, NAN, TR_ST_BF16},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct base b = {rows[i].type, TR_ST_F32, {rows[i].first}, false, false, 2};
        struct tr_adapter a = adapter;
        struct fr_err err = {0};
        int64_t merged;

        check_row(rows[i].want != NULL ? rows[i].want : "what its type holds");
        write_base(&b);
        a.scale = rows[i].scale;
        CHECK_INT(merge(a, 1000, &merged, &err), rows[i].want != NULL ? FR_CORRUPT : FR_OK);
        if (rows[i].want == NULL)
            continue;
        CHECK(strncmp(err.msg, "merging into new/out: ", 22) == 0);
        has(&err, rows[i].want);
        CHECK_INT(access("new/out/model.safetensors", F_OK), -1);
    }
}

static void test_refused(void)
{
    static const struct {
        const char *want;
        enum fr_rc rc;
        struct base b;
        int64_t in; /* of the adapter */
    } rows[] = {
        {"tensor 'm.weight' has shape [2, 3], expected [2, 4]",
         FR_SHAPE,
         {TR_ST_BF16, TR_ST_F32, {1}, false, false, 2},
         4},
        {"tensor 'm.weight' has shape [2, 3], expected [2, 2]",
         FR_SHAPE,
         {TR_ST_F8_E4M3, TR_ST_F32, {1}, false, false, 2},
         2},
        {"the base has 0 of the 1 adapted weights",
         FR_CORRUPT,
         {TR_ST_BF16, TR_ST_F32, {1}, true, false, 2},
         3},
        {"the base has no m.weight",
         FR_CORRUPT,
         {TR_ST_F8_E4M3, TR_ST_F32, {1}, true, false, 2},
         3},
        {"the base has no m.weight_scale_inv in f32",
         FR_CORRUPT,
         {TR_ST_F8_E4M3, TR_ST_F32, {1}, false, true, 2},
         3},
        {"the base has no m.weight_scale_inv in f32",
         FR_CORRUPT,
         {TR_ST_F8_E4M3, TR_ST_BF16, {1}, false, false, 2},
         3},
        {"tensor 'm.weight_scale_inv' has shape [1, 3], expected [1, 2]",
         FR_SHAPE,
         {TR_ST_F8_E4M3, TR_ST_F32, {1}, false, false, 3},
         3},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tr_adapter a = adapter;
        struct fr_err err = {0};
        int64_t merged;

        check_row(rows[i].want);
        write_base(&rows[i].b);
        a.in = rows[i].in;
        CHECK_INT(merge(a, 1000, &merged, &err), rows[i].rc);
        has(&err, rows[i].want);
        CHECK_INT(access("new/out/model.safetensors", F_OK), -1);
    }
}

/* Of a merge that was killed, in more and other files, nothing comes into the folder. */
static void test_killed(void)
{
    static const char *const left[] = {TR_EXPORT_TMP "model/model-00002-of-00009.safetensors",
                                       TR_EXPORT_TMP "model/model.safetensors.index.json",
                                       TR_EXPORT_TMP "model/old/readme.md"};
    const struct base b = {TR_ST_F32, TR_ST_F32, {1}, false, false, 2};
    char path[100];
    char **names = NULL;
    int64_t merged;
    size_t n = 0;

    check_row("behind a merge that was killed");
    write_base(&b);
    CHECK_INT(fr_remove_tree("new", NULL), FR_OK);
    CHECK_INT(fr_mkdirs("new/out/" TR_EXPORT_TMP "model/old", 0755, NULL), FR_OK);
    for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++) {
        (void)snprintf(path, sizeof(path), "new/out/%s", left[i]);
        put(path, "x");
    }
    CHECK_INT(merge_over(adapter, 1000, &merged, NULL), FR_OK);
    CHECK_INT(fr_sys.list("new/out", &names, &n), 0);
    CHECK_INT(n, 3);
    for (size_t i = 0; i < n; i++)
        CHECK(strcmp(names[i], "config.json") == 0 || strcmp(names[i], "readme.md") == 0 ||
              strcmp(names[i], "model.safetensors") == 0);
    fr_sys_names_free(names, n);
}

/* ---- memory ---- */

enum { SIDE = 256, MANY = 8 }; /* weights of SIDE x SIDE f32 */

static size_t live, peak;

static void *counted_alloc(size_t n)
{
    void *p = fr_sys_real.alloc(n);

    live += p != NULL ? malloc_usable_size(p) : 0;
    peak = live > peak ? live : peak;
    return p;
}

static void *counted_realloc(void *p, size_t n)
{
    live -= p != NULL ? malloc_usable_size(p) : 0;
    p = fr_sys_real.realloc(p, n);
    live += p != NULL ? malloc_usable_size(p) : 0;
    peak = live > peak ? live : peak;
    return p;
}

static void counted_free(void *p)
{
    live -= p != NULL ? malloc_usable_size(p) : 0;
    fr_sys_real.free(p);
}

/* The most memory of a merge of n weights, each with an adapter. */
static size_t most_memory(size_t n)
{
    static float w[SIDE * SIDE], ab[2 * SIDE];
    static char names[MANY][24], modules[MANY][8];
    struct tr_st_item items[MANY];
    struct tr_adapter adapters[MANY];
    const struct tr_params p = {.adapters = adapters, .n = n};
    struct tr_merge_opts o = {.config = &config,
                              .params = &p,
                              .flat = ab,
                              .model_dir = "base",
                              .out_dir = "new/out",
                              .shard_bytes = 1 << 20};
    struct tr_st *st = NULL;
    int64_t merged = 0;

    for (size_t i = 0; i < n; i++) {
        (void)snprintf(modules[i], sizeof(modules[i]), "m%zu", i);
        (void)snprintf(names[i], sizeof(names[i]), "m%zu.weight", i);
        items[i] = (struct tr_st_item){names[i], TR_ST_F32, 2, {SIDE, SIDE}, w, NULL, NULL};
        adapters[i] = (struct tr_adapter){
            .module = modules[i], .r = 1, .in = SIDE, .out = SIDE, .scale = 1, .b_at = SIDE};
    }
    CHECK_INT(fr_remove_tree("new", NULL), FR_OK);
    CHECK_INT(tr_st_write("base/model.safetensors", items, n, NULL, 0, NULL), FR_OK);
    CHECK_INT(tr_st_open("base/model.safetensors", &st, NULL), FR_OK);
    o.st = st;
    live = peak = 0;
    fr_sys.alloc = counted_alloc;
    fr_sys.realloc = counted_realloc;
    fr_sys.free = counted_free;
    CHECK_INT(tr_merge(&o, &merged, NULL), FR_OK);
    fr_sys.alloc = fr_sys_real.alloc;
    fr_sys.realloc = fr_sys_real.realloc;
    fr_sys.free = fr_sys_real.free;
    tr_st_close(st);
    CHECK_INT(merged, n);
    CHECK_INT(live, 0);
    return peak;
}

/* A weight that is written leaves: a merge of many takes no more than one of a few. */
static void test_memory(void)
{
    size_t few;

    check_row("memory");
    few = most_memory(2);
    CHECK(most_memory(MANY) < few + SIDE * SIDE * sizeof(float));
}

int main(void)
{
    if (mkdtemp(dir) == NULL || chdir(dir) != 0)
        return EXIT_FAILURE;
    CHECK_INT(fr_mkdirs("base", 0755, NULL), FR_OK);
    put("base/config.json", "{}");
    put("base/readme.md", "x");
    put("base/other.bin", "x");
    test_types();
    test_limits();
    test_refused();
    test_killed();
    test_memory();
    CHECK(chdir("/") == 0 && fr_remove_tree(dir, NULL) == FR_OK);
    return check_done();
}

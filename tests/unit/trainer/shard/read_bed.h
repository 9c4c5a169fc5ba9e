/*
 * Under the tests of reading weights: a checkpoint of two files, ranks that load it and compare
 * every value, and what of its files the page cache has.
 */
#ifndef TESTS_UNIT_READ_BED_H
#define TESTS_UNIT_READ_BED_H

#include "tests/ref/ref.h"
#include "tests/unit/check.h"
#include "tests/unit/trainer/shard/page_model.h"
#include "tests/unit/trainer/comm/ranks.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "trainer/shard/shard.h"

#include <fcntl.h>
#include <math.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* SMALL: pages that nobody misses. */
enum { TENSORS = 6, SMALL = 40, PAGE = 4096, LARGE = 1 << 20 };

/* The checkpoint: 50 MB in two files, of other sizes than the 16 MB that are read at once. */
struct tensor {
    const char *name;
    enum tr_st_type disk;
    enum tr_dtype memory;
    int64_t rows, cols;
    enum tr_unit_kind kind;
};

static const struct tensor tensors[TENSORS] = {
    {"a", TR_ST_BF16, TR_BF16, 2900, 3001, TR_UNIT_SHARDED},
    {"b", TR_ST_F8_E4M3, TR_F8_E4M3, 1001, 777, TR_UNIT_SHARDED},
    {"c", TR_ST_F32, TR_BF16, 901, 1203, TR_UNIT_SHARDED},
    {"d", TR_ST_BF16, TR_F32, 1, 4096, TR_UNIT_PERSISTENT},
    {"e", TR_ST_BF16, TR_BF16, 3000, 4001, TR_UNIT_SHARDED},
    {"f", TR_ST_F16, TR_F32, 999, 1001, TR_UNIT_OWNED},
};

static char dir[] = "/tmp/read_test.XXXXXX";
static int broken = -1; /* the tensors from here on end with a value that is no number */

/* Values that every type here has exactly. */
static float value(int tensor, int64_t i)
{
    return (float)(((uint64_t)i * 2654435761U + (uint64_t)tensor) >> 7 & 15) / 8 - 1;
}

static enum fr_rc fill(void *arg, const struct tr_st_item *item, int64_t at, void *dst, size_t n,
                       struct fr_err *err)
{
    const struct tensor *t = arg;
    int k = (int)(t - tensors);
    size_t size = tr_st_type_bits(item->type) / 8;
    enum tr_dtype type;

    if (tr_st_dtype(item->type, &type, err) != FR_OK)
        return FR_DTYPE;
    struct tr_view v = tr_view1(dst, type, (int64_t)(n / size));

    for (int64_t i = 0, first = at / (int64_t)size; i < (int64_t)(n / size); i++)
        tr_set(v, i,
               k >= broken && broken >= 0 && first + i == t->rows * t->cols - 1
                   ? (double)NAN
                   : (double)value(k, first + i));
    return FR_OK;
}

static void write_model(void)
{
    struct tr_st_item items[TENSORS];
    struct fr_err err = {0};

    for (int i = 0; i < TENSORS; i++) {
        const struct tensor *t = &tensors[i];
        bool vector = t->rows == 1;

        items[i] = (struct tr_st_item){.name = t->name,
                                       .type = t->disk,
                                       .ndim = vector ? 1 : 2,
                                       .shape = {vector ? t->cols : t->rows, vector ? 0 : t->cols},
                                       .fill = fill,
                                       .arg = (void *)(uintptr_t)t};
    }
    CHECK_INT(tr_st_write_model(dir, items, TENSORS, 25 << 20, &err), FR_OK);
}

static void file_path(int i, char path[64])
{
    (void)snprintf(path, 64, "%s/model-0000%d-of-00002.safetensors", dir, i + 1);
}

/* ---- a shard of it ---- */

/* owned: each rank owns what is sharded else. */
static int add_units(struct tr_shard *s, bool owned)
{
    struct fr_err err = {0};
    int id = -1, bad = 0;

    for (int i = TENSORS - 1; i >= 0; i--) { /* not in the order on disk */
        const struct tensor *t = &tensors[i];
        bool own = owned && t->kind == TR_UNIT_SHARDED;
        struct tr_unit_spec u = {.what = t->name, .kind = own ? TR_UNIT_OWNED : t->kind, .n = 1};

        u.tensors[0] = (struct tr_unit_tensor){.name = t->name,
                                               .rank = t->rows == 1 ? 1 : 2,
                                               .shape = {t->rows == 1 ? t->cols : t->rows, t->cols},
                                               .dtype = t->memory};
        bad += tr_shard_add(s, &u, &id, &err) != FR_OK || id != TENSORS - 1 - i;
    }
    return bad;
}

static void *wanted[TENSORS]; /* all values of each, as memory has them */

static size_t memory_bytes(int k)
{
    return (size_t)(tensors[k].rows * tensors[k].cols) * tr_dtype_bytes(tensors[k].memory);
}

static void make_wanted(void)
{
    for (int k = 0; k < TENSORS; k++) {
        wanted[k] = malloc(memory_bytes(k));
        int64_t n = tensors[k].rows * tensors[k].cols;
        struct tr_view v = tr_view1(wanted[k], tensors[k].memory, n);

        for (int64_t i = 0; i < n; i++)
            tr_set(v, i, (double)value(k, i));
    }
}

static bool wrong_values(const struct tr_shard *s, int id)
{
    int k = TENSORS - 1 - id;
    struct tr_view v = tr_shard_view(s, id, 0);

    return v.p == NULL || tr_view_count(v) != tensors[k].rows * tensors[k].cols ||
           memcmp(v.p, wanted[k], memory_bytes(k)) != 0;
}

struct told {
    int64_t last, of;
    int backward;
};

static bool so_far(void *arg, int64_t bytes, int64_t of)
{
    struct told *t = arg;

    t->backward += bytes < t->last || bytes > of;
    t->last = bytes;
    t->of = of;
    return true;
}

/* What a rank sees. */
struct seen {
    struct told told;
    int bad;
    bool partition, apart; /* apart: the device's memory is not the host's */
    bool twice;            /* a rank owns all units, and others own them, too */
};

/* The reference backend as if the host could not touch its memory. */
static struct tr_memory_ops apart_memory;

static void body(struct rank_self *self, void *arg)
{
    struct seen *v = arg;
    struct tr_shard_opts o = {.partition = v->partition,
                              .owned_twice = v->twice,
                              .limits = {.prefetch_bucket = 0, .max_live = 1 << 30},
                              .tokens_max = 1};
    struct tr_shard_tell tell = {so_far, &v->told};
    struct fr_err err = {0};
    struct tr_shard *s = NULL;
    struct tr_queue *q = NULL;
    struct tr_st *st = NULL;
    struct tr_comm comm;

    v->bad += tr_ref_create(&o.be, &err) != FR_OK;
    if (v->apart)
        o.be->memory = &apart_memory;
    comm = ranks_comm(self, o.be);
    o.comm = &comm;
    v->bad += tr_queue_create(o.be, 0, &q, &err) != FR_OK;
    v->bad += tr_shard_create(&o, &s, &err) != FR_OK;
    v->bad += add_units(s, v->twice);
    v->bad += tr_st_open_folder(dir, false, NULL, &st, &err) != FR_OK;
    v->bad += tr_shard_load(s, st, &tell, &err) != FR_OK;
    v->bad += tr_shard_begin(s, 0, &err) != FR_OK;
    for (int id = 0; id < TENSORS; id++) {
        v->bad += tr_shard_gather(s, q, id, 1, &err) != FR_OK;
        v->bad += wrong_values(s, id);
        v->bad += tr_shard_release(s, q, id, 1, &err) != FR_OK;
    }
    v->bad += tr_shard_end(s, false, &err) != FR_OK;
    if (v->bad > 0)
        printf("rank %d: %s\n", self->rank, err.msg);
    tr_shard_destroy(s);
    tr_queue_destroy(o.be, q);
    tr_st_close(st);
    tr_backend_destroy(o.be);
}

static void load_alone(void)
{
    struct seen v = {.partition = true};

    ranks_run(1, body, (void *[]){&v});
    CHECK_INT(v.bad, 0);
}

/* ---- the page cache ---- */

/* The model's (page_model.h), of the files as they are now: it has nothing of them. */
static void empty_cache(void)
{
    char path[64];

    memset(model.files, 0, sizeof(model.files));
    for (int i = 0; i < 2; i++) {
        file_path(i, path);
        CHECK(model_add(path));
    }
}

static int64_t cached_of_all(void)
{
    return model_count(0, 0, -1) + model_count(1, 0, -1);
}

/* Before all else. */
static void read_bed_begin(void)
{
    struct tr_backend *be = NULL;

    CHECK(mkdtemp(dir) != NULL);
    CHECK_INT(tr_ref_create(&be, &(struct fr_err){0}), FR_OK);
    apart_memory = *be->memory;
    apart_memory.is_host = false;
    tr_backend_destroy(be);
    make_wanted();
    write_model();
    empty_cache();
    fr_sys.pread = model_pread;
}

static int read_bed_done(void)
{
    CHECK_INT(fr_remove_tree(dir, &(struct fr_err){0}), FR_OK);
    for (int k = 0; k < TENSORS; k++)
        free(wanted[k]);
    return check_done();
}

#endif

/*
 * Weights that lie on each other in their file, as the rows of a tied head lie on the embedding:
 * both get all values, whatever the page cache has and however many ranks share them.
 */
#include "tests/ref/ref.h"
#include "tests/unit/check.h"
#include "tests/unit/trainer/comm/ranks.h"

#include "engine/base/file.h"
#include "trainer/shard/shard.h"

#include <fcntl.h>
#include <unistd.h>

/* More bytes than one read takes, in chunks that do not divide them. */
enum { ROWS = 3001, COLS = 1003, CHUNK = 457, AFTER = 5, UNITS = 2 + (ROWS + CHUNK - 1) / CHUNK };

static char dir[] = "/tmp/read_tied_test.XXXXXX";

/* bf16 has it exactly. */
static float value(int64_t i)
{
    return (float)((uint64_t)i * 2654435761U >> 9 & 127) / 64 - 1;
}

static enum fr_rc fill(void *arg, const struct tr_st_item *item, int64_t at, void *dst, size_t n,
                       struct fr_err *err)
{
    struct tr_view v = tr_view1(dst, TR_BF16, (int64_t)n / 2);

    (void)arg;
    (void)item;
    (void)err;
    for (int64_t i = 0; i < v.shape[0]; i++)
        tr_set(v, i, (double)value(at / 2 + i));
    return FR_OK;
}

static void write_model(void)
{
    struct tr_st_item items[] = {
        {.name = "table", .type = TR_ST_BF16, .ndim = 2, .shape = {ROWS, COLS}, .fill = fill},
        {.name = "after", .type = TR_ST_BF16, .ndim = 2, .shape = {AFTER, COLS}, .fill = fill},
    };
    struct fr_err err = {0};

    CHECK_INT(tr_st_write_model(dir, items, 2, 1 << 30, &err), FR_OK);
}

/* Unit 0: the table; 1: what lies behind it; then its chunks of rows. */
static struct tr_unit_spec unit_at(int id, enum tr_dtype type)
{
    struct tr_unit_spec u = {.what = "unit", .kind = TR_UNIT_SHARDED, .n = 1};
    int64_t row = id < 2 ? 0 : (int64_t)(id - 2) * CHUNK, all = id == 1 ? AFTER : ROWS;
    int64_t rows = id < 2 ? all : ROWS - row < CHUNK ? ROWS - row : CHUNK;

    u.tensors[0] = (struct tr_unit_tensor){.name = id == 1 ? "after" : "table",
                                           .rank = 2,
                                           .shape = {rows, COLS},
                                           .row0 = row,
                                           .disk_rows = all,
                                           .dtype = type};
    return u;
}

/* The table as memory has it, by whether that is bf16. */
static char *wanted[2];
static const enum tr_dtype types[2] = {TR_F32, TR_BF16};

static void make_wanted(void)
{
    for (int half = 0; half < 2; half++) {
        wanted[half] = malloc(ROWS * COLS * tr_dtype_bytes(types[half]));
        struct tr_view v = tr_view1(wanted[half], types[half], ROWS * COLS);

        for (int64_t i = 0; i < ROWS * COLS; i++)
            tr_set(v, i, (double)value(i));
    }
}

static bool wrong_values(const struct tr_shard *s, int id)
{
    struct tr_view v = tr_shard_view(s, id, 0);
    size_t first = id < 2 ? 0 : (size_t)(id - 2) * CHUNK * COLS, size = tr_dtype_bytes(v.dtype);

    return v.p == NULL || memcmp(v.p, wanted[v.dtype == TR_BF16] + first * size,
                                 (size_t)tr_view_count(v) * size) != 0;
}

struct seen {
    int bad;
    bool partition;
    enum tr_dtype type;
};

static void body(struct rank_self *self, void *arg)
{
    struct seen *v = arg;
    struct tr_shard_opts o = {
        .partition = v->partition, .limits = {.max_live = 1 << 30}, .tokens_max = 1};
    struct fr_err err = {0};
    struct tr_shard *s = NULL;
    struct tr_queue *q = NULL;
    struct tr_st *st = NULL;
    struct tr_comm comm;
    int id;

    v->bad += tr_ref_create(&o.be, &err) != FR_OK;
    comm = ranks_comm(self, o.be);
    o.comm = &comm;
    v->bad += tr_queue_create(o.be, 0, &q, &err) != FR_OK;
    v->bad += tr_shard_create(&o, &s, &err) != FR_OK;
    for (int i = 0; i < UNITS; i++) {
        struct tr_unit_spec u = unit_at(i, v->type);

        v->bad += tr_shard_add(s, &u, &id, &err) != FR_OK || id != i;
    }
    v->bad += tr_st_open_folder(dir, false, NULL, &st, &err) != FR_OK;
    v->bad += tr_shard_load(s, st, NULL, &err) != FR_OK;
    v->bad += tr_shard_begin(s, 0, &err) != FR_OK;
    for (id = 0; id < UNITS; id++) {
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

/* Out of the page cache, but for every `step`-th MiB; 0: all of it. */
static void set_cache(int step)
{
    char path[64], page[4096];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/model.safetensors", dir);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    (void)fsync(fd);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    for (off_t at = 0; step > 0 && at < (off_t)2 * ROWS * COLS; at += (off_t)step << 20)
        for (off_t i = 0; i < 1 << 20; i += (off_t)sizeof page)
            (void)!pread(fd, page, sizeof page, at + i);
    close(fd);
}

static void check_values(int W, bool partition, enum tr_dtype type)
{
    static struct seen v[RANKS_MAX];
    void *args[RANKS_MAX];

    for (int k = 0; k < W; k++) {
        v[k] = (struct seen){.partition = partition, .type = type};
        args[k] = &v[k];
    }
    ranks_run(W, body, args);
    for (int k = 0; k < W; k++)
        CHECK_INT(v[k].bad, 0);
}

int main(void)
{
    static const char *const caches[] = {"none of it cached", "all of it cached", "some cached"};

    CHECK(mkdtemp(dir) != NULL);
    make_wanted();
    write_model();
    for (int i = 0; i < 3; i++)
        for (int W = 1; W <= 3; W++)
            for (int half = 0; half < 2; half++) {
                check_row(caches[i]);
                set_cache(i);
                check_values(W, true, types[half]);
                check_values(W, false, types[half]);
            }
    CHECK_INT(fr_remove_tree(dir, &(struct fr_err){0}), FR_OK);
    free(wanted[0]);
    free(wanted[1]);
    return check_done();
}

/*
 * The Nth call of the machine fails, for N = 1, 2, … until a run meets no failure; once with
 * that one failure and once with all calls failing from there on. Each run must end in success or
 * in an error with a text, leave no temporary file, and leave what was there before as it was.
 */
#include "tests/unit/check.h"
#include "trainer/dataset/dataset.h"
#include "trainer/dataset/sampler.h"
#include "trainer/tensor/safetensors.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <unistd.h>

static char dir[] = "/tmp/flowrun-fault-XXXXXX";
static struct {
    long calls, fail_at;
    bool persist, fired;
} fault;

static bool fails(void)
{
    fault.calls++;
    if (fault.fail_at == 0 || fault.calls < fault.fail_at ||
        (fault.calls > fault.fail_at && !fault.persist))
        return false;
    fault.fired = true;
    errno = ENOSPC;
    return true;
}

static void *bad_alloc(size_t n)
{
    return fails() ? NULL : fr_sys_real.alloc(n);
}

static void *bad_realloc(void *p, size_t n)
{
    return fails() ? NULL : fr_sys_real.realloc(p, n);
}

static int bad_open(const char *path, int flags, mode_t mode)
{
    return fails() ? -1 : fr_sys_real.open(path, flags, mode);
}

static ssize_t bad_write(int fd, const void *p, size_t n)
{
    return fails() ? -1 : fr_sys_real.write(fd, p, n);
}

static ssize_t bad_read(int fd, void *p, size_t n)
{
    return fails() ? -1 : fr_sys_real.read(fd, p, n);
}

static ssize_t bad_pread(int fd, void *p, size_t n, off_t at)
{
    return fails() ? -1 : fr_sys_real.pread(fd, p, n, at);
}

static int bad_sync(int fd)
{
    return fails() ? -1 : fr_sys_real.fdatasync(fd);
}

static int bad_rename(const char *from, const char *to)
{
    return fails() ? -1 : fr_sys_real.rename(from, to);
}

static void arm(long n, bool persist)
{
    fault.calls = 0;
    fault.fail_at = n;
    fault.persist = persist;
    fault.fired = false;
    fr_sys.alloc = bad_alloc;
    fr_sys.realloc = bad_realloc;
    fr_sys.open = bad_open;
    fr_sys.write = bad_write;
    fr_sys.read = bad_read;
    fr_sys.pread = bad_pread;
    fr_sys.fdatasync = bad_sync;
    fr_sys.rename = bad_rename;
}

static void disarm(void)
{
    fr_sys = fr_sys_real;
}

/* Files of the folder whose names hold "tmp". */
static int leftovers(const char *path)
{
    char **names = NULL;
    size_t n = 0;
    int count = 0;

    if (fr_sys.list(path, &names, &n) != 0)
        return 0;
    for (size_t i = 0; i < n; i++)
        count += strstr(names[i], "tmp") != NULL;
    fr_sys_names_free(names, n);
    return count;
}

static enum fr_rc write_and_read(struct fr_err *err)
{
    static const float data[3] = {1, 2, 3};
    const struct tr_st_item item = {
        .name = "x", .type = TR_ST_F32, .ndim = 1, .shape = {3}, .data = data};
    char path[256];
    struct tr_st *st = NULL;
    float back[3];
    enum fr_rc rc;

    (void)snprintf(path, sizeof(path), "%s/w.safetensors", dir);
    if ((rc = tr_st_write(path, &item, 1, NULL, 0, err)) != FR_OK ||
        (rc = tr_st_open(path, &st, err)) != FR_OK)
        return rc;
    rc = tr_st_read(st, tr_st_at(st, 0), 0, back, sizeof(back), err);
    tr_st_close(st);
    return rc;
}

static struct tr_tokenizer *tok;
static char digest[65];

static enum fr_rc load_set(struct fr_err *err)
{
    char cache[256];
    struct tr_dataset_opts o = {.dataset = "x",
                                .dataset_dir = dir,
                                .max_samples = -1,
                                .cache_dir = cache,
                                .text = {.cutoff_len = 100},
                                .workers = 1};
    struct fr_buf warnings = {0};
    struct tr_dataset *d = NULL;
    enum fr_rc rc;

    (void)snprintf(cache, sizeof(cache), "%s/cache", dir);
    if ((rc = tr_template_find("default", &o.templ, err)) != FR_OK)
        return rc;
    rc = tr_dataset_load(&o, tok, &d, &warnings, err);
    CHECK((rc == FR_OK) == (d != NULL));
    if (d != NULL) {
        if (digest[0] == '\0')
            (void)snprintf(digest, sizeof(digest), "%s", tr_dataset_digest(d));
        CHECK_TEXT(tr_dataset_digest(d), digest);
    }
    tr_dataset_destroy(d);
    fr_buf_finish(&warnings);
    return rc;
}

/* The first micro-batches of two epochs. */
static enum fr_rc two_epochs(const struct tr_dataset *d, const struct tr_sampler_stream *stream,
                             struct fr_err *err)
{
    struct tr_sampler_opts o = {
        .batch = 2, .world = 1, .seed = 42, .shuffle = true, .stream = *stream};
    struct tr_sampler *s = NULL;
    struct tr_batch b = {0};
    enum fr_rc rc = tr_sampler_create(d, &o, &s, err);

    CHECK((rc == FR_OK) == (s != NULL));
    for (int epoch = 0; rc == FR_OK && epoch < 2; epoch++)
        rc = tr_sampler_batch(s, epoch, 0, &b, err);
    CHECK(rc != FR_OK || b.tokens > 0);
    tr_batch_finish(&b);
    tr_sampler_destroy(s);
    return rc;
}

/* Of a data set that is there: it is split, packed, cut and sampled in all ways. What fails leaves
 * the data set as it was. */
static enum fr_rc make_parts(struct fr_err *err)
{
    static const struct tr_sampler_stream streams[] = {
        {.buffer = 0},
        {.buffer = 3},
        {.buffer = 3, .rows = {.capacity = 60, .batch = 4}},
        {.buffer = 3, .rows = {.capacity = 5, .batch = 4}, .texts = true}};
    struct tr_dataset_opts o = {.dataset = "y",
                                .dataset_dir = dir,
                                .max_samples = -1,
                                .text = {.cutoff_len = 100},
                                .workers = 1,
                                .keep_dropped = true};
    struct tr_dataset *d = NULL, *eval = NULL;
    long n = fault.fail_at;
    bool persist = fault.persist;
    enum fr_rc rc = FR_OK;

    disarm();
    CHECK_INT(tr_template_find("default", &o.templ, err), FR_OK);
    CHECK_INT(tr_dataset_load(&o, tok, &d, NULL, err), FR_OK);
    arm(n, persist);
    for (size_t i = 0; rc == FR_OK && i < sizeof(streams) / sizeof(streams[0]); i++)
        rc = two_epochs(d, &streams[i], err);
    if (rc == FR_OK) {
        rc = tr_dataset_split(&d, &(struct tr_split_opts){4, 42, true}, &eval, err);
        CHECK_INT(tr_dataset_size(d), rc == FR_OK ? 6 : 10);
        CHECK((rc == FR_OK) == (eval != NULL));
    }
    if (rc == FR_OK) {
        rc = tr_dataset_pack(&d, &(struct tr_pack_opts){60, 10, 1}, err);
        CHECK((rc == FR_OK) == (tr_dataset_most(d) > 1));
    }
    if (rc == FR_OK) {
        rc = tr_dataset_chunk(&eval, &(struct tr_pack_opts){3, 2, 1}, err);
        CHECK((rc == FR_OK) == (tr_dataset_longest(eval) == 3));
    }
    CHECK((rc == FR_OK) == !fault.fired);
    tr_dataset_destroy(d);
    tr_dataset_destroy(eval);
    return rc;
}

static void run(const char *name, enum fr_rc (*body)(struct fr_err *err), bool persist)
{
    char cache[256];

    check_row(name);
    (void)snprintf(cache, sizeof(cache), "%s/cache", dir);
    for (long n = 1; n < 100000; n++) {
        struct fr_err err = {.rc = FR_OK};
        arm(n, persist);
        enum fr_rc rc = body(&err);
        disarm();
        CHECK(rc == FR_OK || (err.rc == rc && err.msg[0] != '\0'));
        CHECK_INT(leftovers(dir) + leftovers(cache), 0);
        if (!fault.fired) {
            CHECK_INT(rc, FR_OK);
            CHECK(n > 10);
            return;
        }
        if (n % 3 == 0)
            CHECK_INT(fr_remove_tree(cache, &err), FR_OK); /* with and without a cache there */
    }
    CHECK(!"a run without a failure");
}

int main(void)
{
    static const char info[] = "{\"x\": {\"file_name\": \"a.json\"}, "
                               "\"y\": {\"file_name\": \"b.jsonl\"}}";
    static const char data[] = "[{\"instruction\": \"a\", \"input\": \"b c\", \"output\": \"d\"}, "
                               "{\"instruction\": \"e\", \"output\": \"f g\"}]";
    struct fr_buf many = {0};
    char path[256];
    struct fr_err err;

    if (mkdtemp(dir) == NULL ||
        tr_tokenizer_load(SOURCE_ROOT "/tests/golden/tokenizer/gpt2.json", &tok, &err) != FR_OK)
        return EXIT_FAILURE;
    (void)snprintf(path, sizeof(path), "%s/dataset_info.json", dir);
    CHECK_INT(fr_file_write(path, info, sizeof(info) - 1, 0644, &err), FR_OK);
    (void)snprintf(path, sizeof(path), "%s/a.json", dir);
    CHECK_INT(fr_file_write(path, data, sizeof(data) - 1, 0644, &err), FR_OK);
    (void)snprintf(path, sizeof(path), "%s/b.jsonl", dir);
    for (int i = 0; i < 10; i++)
        fr_buf_fmt(&many, "{\"instruction\": \"%d\", \"output\": \"a b\"}\n", i);
    CHECK_INT(fr_file_write(path, many.p, many.n, 0644, &err), FR_OK);
    fr_buf_finish(&many);
    CHECK_INT(load_set(&err), FR_OK);
    run("safetensors, one failure", write_and_read, false);
    run("safetensors, all fail", write_and_read, true);
    run("data set, one failure", load_set, false);
    run("data set, all fail", load_set, true);
    run("parts of a data set, one failure", make_parts, false);
    run("parts of a data set, all fail", make_parts, true);
    tr_tokenizer_destroy(tok);
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
    return check_done();
}

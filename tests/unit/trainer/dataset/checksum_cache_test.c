/* Files that are known from an earlier start: a data set and its cache are read whole once. */
#include "tests/unit/check.h"
#include "trainer/dataset/dataset.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"

#include <jansson.h>
#include <unistd.h>

static char dir[] = "/tmp/flowrun-stamp-XXXXXX";

static void put(const char *name, const char *text)
{
    char path[256];
    struct fr_err err;

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    CHECK_INT(fr_file_write(path, text, strlen(text), 0644, &err), FR_OK);
}

static enum fr_rc load(struct tr_tokenizer *t, const char *cache, struct tr_dataset **out,
                       struct fr_err *err)
{
    struct tr_dataset_opts o = {.dataset = "x",
                                .dataset_dir = dir,
                                .max_samples = -1,
                                .cache_dir = cache,
                                .text = {.cutoff_len = 100}};

    CHECK_INT(tr_template_find("empty", &o.templ, err), FR_OK);
    return tr_dataset_load(&o, t, out, NULL, err);
}

static size_t bytes_read;

static ssize_t counted_read(int fd, void *p, size_t n)
{
    ssize_t got = fr_sys_real.read(fd, p, n);

    bytes_read += got > 0 ? (size_t)got : 0;
    return got;
}

static ssize_t counted_pread(int fd, void *p, size_t n, off_t at)
{
    ssize_t got = fr_sys_real.pread(fd, p, n, at);

    bytes_read += got > 0 ? (size_t)got : 0;
    return got;
}

/* Files are not of the last two seconds. */
static int64_t later(void)
{
    return fr_sys_real.wall_ms() + 10000;
}

static void put_long(char last)
{
    enum { LONG = 100000 };
    char *text = malloc(LONG + 64);

    memset(text, 'a', LONG);
    text[LONG] = '\0';
    json_t *records = json_pack("[{s:s, s:s%}]", "instruction", text, "output", &last, (size_t)1);
    char *all = json_dumps(records, 0);
    put("a.json", all);
    free(all);
    json_decref(records);
    free(text);
}

/* What was read whole is not read again, until somebody writes to it. */
static void test_stamps(struct tr_tokenizer *t)
{
    static const struct {
        const char *name;
        char last; /* written into the data before; 0: as it is */
        bool cached, read;
    } rows[] = {{"the first start", 'x', false, true},         {"the second", 0, true, false},
                {"the same written again", 'x', true, true},   {"and known again", 0, true, false},
                {"other data of that size", 'y', false, true}, {"known", 0, true, false}};
    char cache[256];
    struct tr_dataset *d;
    struct fr_err err;

    put("dataset_info.json", "{\"x\": {\"file_name\": \"a.json\"}}");
    (void)snprintf(cache, sizeof(cache), "%s/stamps", dir);
    fr_sys.read = counted_read;
    fr_sys.pread = counted_pread;
    fr_sys.wall_ms = later;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].name);
        if (rows[i].last != 0)
            put_long(rows[i].last);
        bytes_read = 0;
        CHECK_INT(load(t, cache, &d, &err), FR_OK);
        CHECK_INT(tr_dataset_cached(d), rows[i].cached);
        CHECK_INT(bytes_read > 100000, rows[i].read);
        tr_dataset_destroy(d);
    }
    check_row("a damaged list is empty");
    put("stamps/stamps.json", "[1");
    bytes_read = 0;
    CHECK_INT(load(t, cache, &d, &err), FR_OK);
    CHECK(tr_dataset_cached(d) && bytes_read > 100000);
    tr_dataset_destroy(d);
    fr_sys = fr_sys_real;
}

/* The data is new when its sum is made, and no longer once it was read. */
static int64_t ageing(void)
{
    return fr_sys_real.wall_ms() + (bytes_read > 100000 ? 10000 : 0);
}

/* A file that was just written is known after the first start, which took longer than that. */
static void test_new_file(struct tr_tokenizer *t)
{
    char cache[256];
    struct tr_dataset *d;
    struct fr_err err;

    (void)snprintf(cache, sizeof(cache), "%s/new", dir);
    put_long('n');
    fr_sys.read = counted_read;
    fr_sys.pread = counted_pread;
    fr_sys.wall_ms = ageing;
    for (int start = 0; start < 2; start++) {
        check_row(start == 0 ? "new data" : "the second start");
        bytes_read = 0;
        CHECK_INT(load(t, cache, &d, &err), FR_OK);
        CHECK_INT(tr_dataset_cached(d), start > 0);
        CHECK_INT(bytes_read > 100000, start == 0);
        tr_dataset_destroy(d);
    }
    fr_sys = fr_sys_real;
}

static int64_t written_ms;

static int64_t just_written(void)
{
    return written_ms;
}

/* What was written within the last two seconds is read again: a later write may have given it the
 * same times. */
static void test_too_new(struct tr_tokenizer *t)
{
    char cache[256];
    struct tr_dataset *d;
    struct fr_err err;

    (void)snprintf(cache, sizeof(cache), "%s/too_new", dir);
    put_long('t');
    written_ms = fr_sys_real.wall_ms();
    fr_sys.read = counted_read;
    fr_sys.pread = counted_pread;
    fr_sys.wall_ms = just_written;
    for (int start = 0; start < 2; start++) {
        check_row(start == 0 ? "written just now" : "and still");
        bytes_read = 0;
        CHECK_INT(load(t, cache, &d, &err), FR_OK);
        CHECK_INT(tr_dataset_cached(d), start > 0);
        CHECK(bytes_read > 100000);
        tr_dataset_destroy(d);
    }
    fr_sys = fr_sys_real;
}

/* Writes other data of that size, once, when the sum was made. */
static ssize_t meddling_read(int fd, void *p, size_t n)
{
    bool before = bytes_read <= 100000;
    ssize_t got = counted_read(fd, p, n);

    if (before && bytes_read > 100000)
        put_long('m');
    return got;
}

/* There is no cache of data that was written to between its sum and its tokens. */
static void test_written_to(struct tr_tokenizer *t)
{
    char cache[256];
    struct tr_dataset *d;
    struct fr_err err;

    (void)snprintf(cache, sizeof(cache), "%s/between", dir);
    for (int start = 0; start < 2; start++) {
        check_row(start == 0 ? "written to" : "the same data as before");
        put_long('b');
        bytes_read = 0;
        fr_sys.read = start == 0 ? meddling_read : counted_read;
        CHECK_INT(load(t, cache, &d, &err), FR_OK);
        CHECK(!tr_dataset_cached(d));
        tr_dataset_destroy(d);
    }
    fr_sys = fr_sys_real;
}

int main(void)
{
    struct tr_tokenizer *t = NULL;
    struct fr_err err;

    if (mkdtemp(dir) == NULL)
        return EXIT_FAILURE;
    if (CHECK_INT(tr_tokenizer_load(SOURCE_ROOT "/tests/golden/tokenizer/deepseek.json", &t, &err),
                  FR_OK)) {
        test_stamps(t);
        test_new_file(t);
        test_too_new(t);
        test_written_to(t);
    }
    tr_tokenizer_destroy(t);
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
    return check_done();
}

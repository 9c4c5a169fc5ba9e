#include "tests/unit/check.h"
#include "trainer/tensor/safetensors.h"

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/str.h"
#include "engine/base/sys.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <unistd.h>

static char dir[] = "/tmp/flowrun-st-XXXXXX";

static const char *in_dir(const char *name)
{
    static char path[256];

    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

/* A file of this header (its length is put in front unless n_says >= 0) and this many data bytes.
 *  */
static void put(const char *path, const char *head, size_t head_n, int64_t n_says, size_t data)
{
    struct fr_buf b = {0};
    struct fr_err err;
    uint64_t n = n_says == -1 ? head_n : (uint64_t)n_says;

    for (int i = 0; i < 8; i++)
        fr_buf_add(&b, (char[]){(char)(n >> (8 * i) & 0xff)}, 1);
    fr_buf_add(&b, head, head_n);
    for (size_t i = 0; i < data; i++)
        fr_buf_add(&b, (char[]){(char)i}, 1);
    CHECK_INT(fr_file_write(path, b.p, b.n, 0644, &err), FR_OK);
    fr_buf_finish(&b);
}

#define T(name, dtype, shape, off)                                                                 \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" off "}"

static const struct {
    const char *name, *head;
    int64_t n_says; /* -1: the true length */
    size_t data;
    const char *want; /* part of the message; NULL: accepted */
} headers[] = {
    {"empty object", "{}", -1, 0, NULL},
    {"blanks around", " \t\r\n{} \n", -1, 0, NULL},
    {"scalar", "{" T("a", "F32", "[]", "[0,4]") "}", -1, 4, NULL},
    {"zero dim", "{" T("a", "F32", "[2,0]", "[0,0]") "}", -1, 0, NULL},
    {"any order", "{" T("a", "U8", "[2]", "[4,6]") "," T("b", "F32", "[1]", "[0,4]") "}", -1, 6,
     NULL},
    {"an empty one where another begins",
     "{" T("b", "F32", "[1]", "[0,4]") "," T("a", "U8", "[0]", "[0,0]") "}", -1, 4, NULL},
    {"null metadata", "{\"__metadata__\":null}", -1, 0, NULL},
    {"metadata", "{\"__metadata__\":{\"format\":\"pt\"}}", -1, 0, NULL},
    {"two F4 make a byte", "{" T("a", "F4", "[2]", "[0,1]") "}", -1, 1, NULL},
    {"n huge", "{}", INT64_MAX, 0, "header too large"},
    {"a pointer of Git LFS", "https://git-lfs.github.com/spec/v1\noid sha256:0\n",
     0x206e6f6973726576, 0, "is a pointer of Git LFS, not the weights: fetch them by git lfs pull"},
    {"n above the limit", "{}", 100000001, 0, "header too large"},
    {"n beyond the file", "{}", 60, 0, "invalid header length"},
    {"n zero", "", -1, 0, ""},
    {"byte ff", "\xff", -1, 0, "not UTF-8"},
    {"overlong", "{\"\xc0\x80\":1}", -1, 0, "not UTF-8"},
    {"surrogate", "{\"\xed\xa0\x80\":1}", -1, 0, "not UTF-8"},
    {"open", "{", -1, 0, ""},
    {"list", "[]", -1, 0, "not a JSON object"},
    {"string", "\"x\"", -1, 0, "not a JSON object"},
    {"two objects", "{}{}", -1, 0, ""},
    {"single quotes", "{'a':1}", -1, 0, ""},
    {"trailing comma", "{" T("a", "U8", "[1]", "[0,1]") ",}", -1, 1, ""},
    {"dtype F31", "{" T("a", "F31", "[1]", "[0,4]") "}", -1, 4, "dtype"},
    {"dtype f32", "{" T("a", "f32", "[1]", "[0,4]") "}", -1, 4, "dtype"},
    {"dtype 7", "{\"a\":{\"dtype\":7,\"shape\":[],\"data_offsets\":[0,4]}}", -1, 4, "dtype"},
    {"no dtype", "{\"a\":{\"shape\":[],\"data_offsets\":[0,4]}}", -1, 4, "dtype"},
    {"entry no object", "{\"a\":[1]}", -1, 0, "not an object"},
    {"shape negative", "{" T("a", "F32", "[-1]", "[0,4]") "}", -1, 4, "shape"},
    {"shape float", "{" T("a", "F32", "[1.0]", "[0,4]") "}", -1, 4, "shape"},
    {"shape exponent", "{" T("a", "F32", "[1e0]", "[0,4]") "}", -1, 4, "shape"},
    {"shape string", "{" T("a", "F32", "[\"1\"]", "[0,4]") "}", -1, 4, "shape"},
    {"shape true", "{" T("a", "F32", "[true]", "[0,4]") "}", -1, 4, "shape"},
    {"shape nested", "{" T("a", "F32", "[[1]]", "[0,4]") "}", -1, 4, "shape"},
    {"shape null", "{" T("a", "F32", "null", "[0,4]") "}", -1, 4, "shape"},
    {"no shape", "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", -1, 4, "shape"},
    {"no offsets", "{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", -1, 4, "data_offsets"},
    {"one offset", "{" T("a", "F32", "[]", "[0]") "}", -1, 4, "data_offsets"},
    {"three offsets", "{" T("a", "F32", "[]", "[0,4,8]") "}", -1, 4, "data_offsets"},
    {"backwards", "{" T("a", "F32", "[]", "[4,0]") "}", -1, 4, "data_offsets"},
    {"negative offset", "{" T("a", "F32", "[]", "[-4,0]") "}", -1, 4, "data_offsets"},
    {"all the same bytes",
     "{" T("a", "F32", "[4]", "[0,16]") "," T("b", "F32", "[4]", "[0,16]") "}", -1, 16, "overlap"},
    {"overlap", "{" T("a", "F32", "[4]", "[0,16]") "," T("b", "F32", "[4]", "[8,24]") "}", -1, 24,
     "overlap"},
    {"hole", "{" T("a", "F32", "[4]", "[0,16]") "," T("b", "F32", "[4]", "[20,36]") "}", -1, 36,
     "hole"},
    {"starts at 4", "{" T("a", "F32", "[1]", "[4,8]") "}", -1, 8, "hole"},
    {"size mismatch", "{" T("a", "I32", "[2,2]", "[0,4]") "}", -1, 4, "shape needs 16"},
    {"end beyond", "{" T("a", "F32", "[4]", "[0,16]") "}", -1, 14, ": it is cut, fetch it again"},
    {"extra bytes", "{" T("a", "F32", "[4]", "[0,16]") "}", -1, 18, "not fully covered"},
    {"overflow", "{" T("a", "F32", "[200000000000000,200000000000000]", "[0,16]") "}", -1, 16,
     "overflows"},
    {"above 2^48", "{" T("a", "F32", "[0,18446744073709551615]", "[0,0]") "}", -1, 0, ""},
    {"F4 odd", "{" T("a", "F4", "[3]", "[0,2]") "}", -1, 2, "whole byte"},
    {"nine dims", "{" T("a", "U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", -1, 1, "dimensions"},
    {"duplicate tensor", "{" T("a", "U8", "[1]", "[0,1]") "," T("a", "U8", "[1]", "[1,2]") "}", -1,
     2, "uplicate"},
    {"duplicate by escape",
     "{" T("a", "U8", "[1]", "[0,1]") "," T("\\u0061", "U8", "[1]", "[1,2]") "}", -1, 2,
     "uplicate"},
    {"duplicate dtype",
     "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", -1, 1,
     "uplicate"},
    {"duplicate metadata", "{\"__metadata__\":{},\"__metadata__\":{}}", -1, 0, "uplicate"},
    {"metadata number", "{\"__metadata__\":{\"a\":1}}", -1, 0, "__metadata__"},
    {"metadata list", "{\"__metadata__\":[]}", -1, 0, "__metadata__"},
    {"empty name", "{" T("", "U8", "[1]", "[0,1]") "}", -1, 1, "name"},
    {"NUL in a name", "{" T("a\\u0000b", "U8", "[1]", "[0,1]") "}", -1, 1, ""},
};

static void test_headers(void)
{
    const char *path = in_dir("h.safetensors");

    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        struct fr_err err = {0};
        struct tr_st *st;
        check_row(headers[i].name);
        put(path, headers[i].head, strlen(headers[i].head), headers[i].n_says, headers[i].data);
        enum fr_rc rc = tr_st_open(path, &st, &err);
        if (headers[i].want == NULL) {
            if (!CHECK_INT(rc, FR_OK))
                printf("   %s\n", err.msg);
        } else {
            CHECK_INT(rc, FR_CORRUPT);
            CHECK(st == NULL);
            if (!CHECK(strstr(err.msg, headers[i].want) != NULL))
                printf("   message: %s\n", err.msg);
        }
        tr_st_close(st);
    }
    check_row("NUL padding");
    struct fr_err err;
    struct tr_st *st;
    put(path, "{}\0", 3, -1, 0);
    CHECK_INT(tr_st_open(path, &st, &err), FR_CORRUPT);
    check_row("short files");
    for (size_t n = 0; n < 8; n++) {
        CHECK_INT(fr_file_write(path, "\0\0\0\0\0\0\0", n, 0644, &err), FR_OK);
        CHECK_INT(tr_st_open(path, &st, &err), FR_CORRUPT);
        CHECK(strstr(err.msg, "header too small") != NULL);
    }
}

static enum fr_rc fill(void *arg, const struct tr_st_item *item, int64_t at, void *dst, size_t n,
                       struct fr_err *err)
{
    (void)item;
    if (arg != NULL)
        return fr_fail(err, FR_IO, "planted");
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)dst)[i] = (uint8_t)((at + (int64_t)i) % 251);
    return FR_OK;
}

/* The reference library's bytes for {"b": f32[2] (1, -2), "a": bf16[3], "c \"é": u8[1]}. */
static void test_layout(void)
{
    static const uint16_t a[3] = {1, 2, 3};
    static const float b[2] = {1, -2};
    static const uint8_t c[1] = {9};
    const struct tr_st_item items[] = {
        {.name = "c \"\xc3\xa9", .type = TR_ST_U8, .ndim = 1, .shape = {1}, .data = c},
        {.name = "a", .type = TR_ST_BF16, .ndim = 1, .shape = {3}, .data = a},
        {.name = "b", .type = TR_ST_F32, .ndim = 2, .shape = {1, 2}, .data = b},
    };
    const char want[] =
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
        "\"a\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[8,14]},"
        "\"c \\\"\xc3\xa9\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[14,15]}}";
    struct fr_buf got = {0};
    struct fr_err err;
    struct tr_st *st;
    const char *path = in_dir("w.safetensors");

    check_row("layout");
    CHECK_INT(tr_st_write(path, items, 3, &(struct tr_st_pair){"format", "pt"}, 1, &err), FR_OK);
    CHECK_INT(fr_file_read(path, 10000, &got, &err), FR_OK);
    size_t n = (sizeof(want) - 1 + 7) / 8 * 8;
    CHECK_INT((uint8_t)got.p[0] | (uint8_t)got.p[1] << 8, n);
    CHECK(memcmp(got.p + 8, want, sizeof(want) - 1) == 0);
    CHECK_INT(got.n, 8 + n + 15);
    CHECK_INT(tr_st_open(path, &st, &err), FR_OK);
    const struct tr_st_tensor *t = tr_st_find(st, "b");
    float back[2] = {0};
    CHECK(t != NULL && t->ndim == 2 && t->bytes == 8 && t->elements == 2);
    CHECK_INT(tr_st_read(st, t, 4, back, 4, &err), FR_OK);
    CHECK(back[0] == -2.0f);
    CHECK_INT(tr_st_read(st, t, 4, back, 5, &err), FR_BUG);
    CHECK_INT(tr_st_want_shape(t, 2, (int64_t[]){2, 1}, &err), FR_SHAPE);
    CHECK_TEXT(err.msg, "tensor 'b' has shape [1, 2], expected [2, 1]");
    CHECK(tr_st_find(st, "d") == NULL);
    tr_st_close(st);
    fr_buf_finish(&got);

    check_row("a failed write leaves the old file");
    struct tr_st_item bad = {
        .name = "x", .type = TR_ST_U8, .ndim = 1, .shape = {4}, .fill = fill, .arg = dir};
    CHECK_INT(tr_st_write(path, &bad, 1, NULL, 0, &err), FR_IO);
    CHECK_INT(tr_st_open(path, &st, &err), FR_OK);
    CHECK_INT(tr_st_count(st), 3);
    tr_st_close(st);
}

/* A checkpoint of four shards without the second one. */
static void test_part(void)
{
    static const char gone[] = "model-00002-of-00004.safetensors";
    struct fr_err err;
    struct tr_st *st;
    uint8_t byte;

    check_row("a shard that is not there");
    CHECK_INT(unlink(in_dir(gone)), 0);
    CHECK_INT(tr_st_open_folder(dir, false, NULL, &st, &err), FR_NOTFOUND);
    CHECK_INT(tr_st_open_part(dir, &st, &err), FR_OK);
    CHECK_INT(tr_st_count(st), 7);
    for (size_t i = 0; i < 4; i++)
        CHECK_INT(tr_st_file_here(st, i), strcmp(tr_st_file_name(st, i), gone) != 0);
    for (size_t i = 0; i < 7; i++) {
        bool here = tr_st_file_here(st, (size_t)tr_st_at(st, i)->file);

        CHECK_INT(tr_st_at(st, i)->absent, !here);
        CHECK_INT(tr_st_read(st, tr_st_at(st, i), 0, &byte, 1, &err), here ? FR_OK : FR_NOTFOUND);
    }
    CHECK(tr_st_find(st, "t4")->absent && tr_st_find(st, "t3")->absent);
    tr_st_close(st);
}

static void test_shards(void)
{
    struct tr_st_item items[7];
    char names[7][8];
    struct fr_err err;
    struct tr_st *st;
    uint8_t byte;

    check_row("shards");
    for (int i = 0; i < 7; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "t%d", 6 - i);
        items[i] = (struct tr_st_item){
            .name = names[i], .type = TR_ST_U8, .ndim = 1, .shape = {1000 + i}, .fill = fill};
    }
    CHECK_INT(tr_st_write_model(dir, items, 7, 2500, &err), FR_OK);
    if (!CHECK_INT(tr_st_open_folder(dir, false, NULL, &st, &err), FR_OK))
        printf("   %s\n", err.msg);
    CHECK_INT(tr_st_files(st), 4);
    CHECK_INT(tr_st_count(st), 7);
    CHECK_TEXT(tr_st_at(st, 0)->name, "t0");
    const struct tr_st_tensor *t = tr_st_find(st, "t3");
    CHECK_INT(t->bytes, 1003);
    CHECK_INT(tr_st_read(st, t, 700, &byte, 1, &err), FR_OK);
    CHECK_INT(byte, 700 % 251);
    tr_st_close(st);
    check_row("the index's total");
    json_t *index = NULL;
    CHECK_INT(fr_json_load(in_dir("model.safetensors.index.json"), 1 << 20, &index, &err), FR_OK);
    const json_t *metadata = json_object_get(index, "metadata");
    CHECK_INT(json_integer_value(json_object_get(metadata, "total_size")), 7021);
    CHECK_INT(json_integer_value(json_object_get(metadata, "total_parameters")), 7021);
    json_decref(index);

    test_part();
    check_row("a shard that is exactly full");
    char full[300];
    (void)snprintf(full, sizeof(full), "%s/full", dir);
    CHECK_INT(fr_mkdirs(full, 0755, &err), FR_OK);
    CHECK_INT(tr_st_write_model(full, items, 2, 2001, &err), FR_OK);
    CHECK_INT(tr_st_open_folder(full, false, NULL, &st, &err), FR_OK);
    CHECK_INT(tr_st_files(st), 1);
    tr_st_close(st);
    check_row("one name in two shards");
    CHECK_INT(tr_st_write(in_dir("b.safetensors"), items, 1, NULL, 0, &err), FR_OK);
    const char *twice = "{\"weight_map\":{\"t6\":\"b.safetensors\","
                        "\"t5\":\"model-00001-of-00004.safetensors\"}}";
    CHECK_INT(
        fr_file_write(in_dir("model.safetensors.index.json"), twice, strlen(twice), 0644, &err),
        FR_OK);
    CHECK_INT(tr_st_open_folder(dir, false, NULL, &st, &err), FR_CORRUPT);
    CHECK(strstr(err.msg, "tensor 't6' is in") != NULL);
}

/* ---- reads that fail ---- */

static int read_errno; /* 0: the file has become shorter */

static ssize_t bad_pread(int fd, void *p, size_t n, off_t at)
{
    (void)fd;
    (void)p;
    (void)n;
    (void)at;
    errno = read_errno;
    return read_errno != 0 ? -1 : 0;
}

static void test_reads(void)
{
    static const struct {
        const char *name;
        int number;
        enum fr_rc rc;
        const char *want; /* behind the name of the file */
    } rows[] = {
        {"a disk that fails", EIO, FR_IO,
         " (see the kernel's log; fetch the file again, to a sound disk): Input/output error"},
        {"a file that its server replaced", ESTALE, FR_IO,
         " (its server has another file of that name now: start again): Stale file handle"},
        {"a file that was cut", 0, FR_CORRUPT, " became shorter while it was open"},
    };
    static const char *const head = "{" T("a", "U8", "[2]", "[0,2]") "}";
    const char *path = in_dir("r.safetensors");
    char file[300];
    struct fr_err err;
    struct tr_st *st;
    uint8_t byte;

    (void)snprintf(file, sizeof(file), "%s", path);
    put(file, head, strlen(head), -1, 2);
    CHECK_INT(tr_st_open(file, &st, &err), FR_OK);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char want[512];

        check_row(rows[i].name);
        (void)snprintf(want, sizeof(want), "tensor 'a': %s%s%s",
                       rows[i].number != 0 ? "cannot read " : "", file, rows[i].want);
        read_errno = rows[i].number;
        fr_sys.pread = bad_pread;
        CHECK_INT(tr_st_read(st, tr_st_at(st, 0), 0, &byte, 1, &err), rows[i].rc);
        fr_sys.pread = fr_sys_real.pread;
        CHECK_TEXT(err.msg, want);
    }
    check_row("a file that is as it was");
    CHECK_INT(tr_st_unchanged(st, &err), FR_OK);
    CHECK(truncate(file, 20) == 0);
    check_row("a file that is shorter");
    CHECK_INT(tr_st_unchanged(st, &err), FR_CORRUPT);
    CHECK(strstr(err.msg, file) != NULL && strstr(err.msg, "was written to while") != NULL);
    tr_st_close(st);
}

/* Indexes that do not fit the shards of test_shards. */
/* Three bytes a read at most; every second one is interrupted. */
static ssize_t slow_pread(int fd, void *p, size_t n, off_t at)
{
    static int calls;

    if (calls++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    return fr_sys_real.pread(fd, p, n < 3 ? n : 3, at);
}

static void test_short_reads(void)
{
    const char *path = in_dir("slow.safetensors");
    static const char want[] = "0123456789";
    struct tr_st_item item = {
        .name = "a", .type = TR_ST_U8, .ndim = 1, .shape = {10}, .data = want};
    char got[11] = "";
    struct tr_st *st = NULL;
    struct fr_err err = {0};

    check_row("reads that are cut short, and interrupted ones");
    CHECK_INT(tr_st_write(path, &item, 1, NULL, 0, &err), FR_OK);
    fr_sys.pread = slow_pread;
    if (CHECK_INT(tr_st_open(path, &st, &err), FR_OK))
        CHECK_INT(tr_st_read(st, tr_st_at(st, 0), 0, got, 10, &err), FR_OK);
    fr_sys.pread = fr_sys_real.pread;
    CHECK_TEXT(got, want);
    check_row("a file that was cut meanwhile");
    CHECK_INT(truncate(path, (off_t)tr_st_at(st, 0)->offset + 4), 0);
    CHECK_INT(tr_st_read(st, tr_st_at(st, 0), 0, got, 10, &err), FR_CORRUPT);
    CHECK(strstr(err.msg, "slow.safetensors became shorter while it was open") != NULL);
    CHECK_INT(tr_st_unchanged(st, &err), FR_CORRUPT);
    tr_st_close(st);
}

static void test_indexes(void)
{
    struct fr_err err;
    struct tr_st *st;

    static const struct {
        const char *name, *index, *want;
    } rows[] = {
        {"path", "{\"weight_map\":{\"t0\":\"../x\"}}", "no plain file name"},
        {"slash", "{\"weight_map\":{\"t0\":\"/etc/x\"}}", "no plain file name"},
        {"not a string", "{\"weight_map\":{\"t0\":1}}", "no plain file name"},
        {"no map", "{}", "no weight_map"},
        {"missing shards",
         "{\"weight_map\":{\"t0\":\"no.safetensors\",\"t1\":\"model-00001-of-00004.safetensors\","
         "\"t2\":\"nor.safetensors\"}}",
         "/model.safetensors.index.json names are not there: no.safetensors, nor.safetensors"},
        {"not in its shard", "{\"weight_map\":{\"zz\":\"model-00001-of-00004.safetensors\"}}",
         "tensor 'zz' is not in"},
        {"in another shard",
         "{\"weight_map\":{\"t0\":\"model-00001-of-00004.safetensors\","
         "\"t6\":\"model-00004-of-00004.safetensors\"}}",
         "is mapped to"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].name);
        CHECK_INT(fr_file_write(in_dir("model.safetensors.index.json"), rows[i].index,
                                strlen(rows[i].index), 0644, &err),
                  FR_OK);
        CHECK(tr_st_open_folder(dir, false, NULL, &st, &err) != FR_OK && st == NULL);
        if (!CHECK(strstr(err.msg, rows[i].want) != NULL))
            printf("   message: %s\n", err.msg);
    }
}

static void test_numbers(void)
{
    check_row("f16 round trip");
    for (uint32_t b = 0; b < 65536; b++) {
        float x = tr_f16_to((uint16_t)b);
        if (isnan(x) ? !isnan(tr_f16_to(tr_f16_of(x))) : tr_f16_of(x) != b)
            CHECK_INT(tr_f16_of(x), b);
    }
    check_row("f16 ties");
    CHECK_INT(tr_f16_of(2049.0f), tr_f16_of(2048.0f));
    CHECK_INT(tr_f16_of(2051.0f), tr_f16_of(2052.0f));
    CHECK_INT(tr_f16_of(65520.0f), 0x7c00);
    CHECK_INT(tr_f16_of(65519.0f), 0x7bff);
    CHECK_INT(tr_f16_of(0x1p-25f), 0);
    CHECK_INT(tr_f16_of(0x1.8p-25f), 1);
    CHECK_INT(tr_f16_of(-0x1.fp-15f), 0x8000 | 0x3e0);
    check_row("bf16");
    CHECK_INT(tr_bf16_of(0x1.01p0f), 0x3f80);
    CHECK_INT(tr_bf16_of(0x1.03p0f), 0x3f82);
    CHECK_INT(tr_bf16_of(INFINITY), 0x7f80);
    CHECK(isnan(tr_bf16_to(tr_bf16_of(NAN))));
    CHECK_INT(tr_bf16_of(3.4028234e38f), 0x7f80);
    check_row("f8 e4m3");
    CHECK(tr_f8_e4m3_to(0x7e) == 448.0f && tr_f8_e4m3_to(0x38) == 1.0f);
    CHECK(tr_f8_e4m3_to(0x01) == 0x1p-9f && tr_f8_e4m3_to(0x88) == -0x1p-6f);
    CHECK(isnan(tr_f8_e4m3_to(0x7f)) && isnan(tr_f8_e4m3_to(0xff)));
}

int main(void)
{
    struct fr_err err;

    if (mkdtemp(dir) == NULL)
        return EXIT_FAILURE;
    test_headers();
    test_reads();
    test_short_reads();
    test_layout();
    test_shards();
    test_indexes();
    test_numbers();
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
    return check_done();
}

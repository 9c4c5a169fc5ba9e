/* Packed data files: gzip and zstd, several parts of one file, cut and damaged ones. */
#include "tests/unit/check.h"
#include "trainer/dataset/unpack.h"

#include "engine/base/file.h"

#include <unistd.h>

/* One record a part, packed by gzip -9n and zstd -19. */
#define GZIP_A                                                                                     \
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\xca\xcc\x2b\x2e\x29\x2a\x4d"                 \
    "\x2e\xc9\xcc\xcf\x53\xb2\x52\x50\x4a\x54\xd2\x51\x50\xca\x2f\x2d\x29\x28\x2d"                 \
    "\x01\x71\x93\x94\x6a\xb9\x00\x7b\x46\xe1\xc8\x24\x00\x00\x00"
#define GZIP_B                                                                                     \
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\xca\xcc\x2b\x2e\x29\x2a\x4d"                 \
    "\x2e\xc9\xcc\xcf\x53\xb2\x52\x50\x4a\x56\xd2\x51\x50\xca\x2f\x2d\x29\x28\x2d"                 \
    "\x01\x71\x53\x94\x6a\xb9\x00\x56\x1f\x3e\x99\x24\x00\x00\x00"
#define ZSTD_A                                                                                     \
    "\x28\xb5\x2f\xfd\x04\x68\x21\x01\x00\x7b\x22\x69\x6e\x73\x74\x72\x75\x63\x74"                 \
    "\x69\x6f\x6e\x22\x3a\x20\x22\x61\x22\x2c\x20\x22\x6f\x75\x74\x70\x75\x74\x22"                 \
    "\x3a\x20\x22\x62\x22\x7d\x0a\x41\x11\xe5\xf0"
#define ZSTD_B                                                                                     \
    "\x28\xb5\x2f\xfd\x04\x68\x21\x01\x00\x7b\x22\x69\x6e\x73\x74\x72\x75\x63\x74"                 \
    "\x69\x6f\x6e\x22\x3a\x20\x22\x63\x22\x2c\x20\x22\x6f\x75\x74\x70\x75\x74\x22"                 \
    "\x3a\x20\x22\x64\x22\x7d\x0a\xa3\x50\x35\x59"
#define TEXT_A "{\"instruction\": \"a\", \"output\": \"b\"}\n"
#define TEXT_B "{\"instruction\": \"c\", \"output\": \"d\"}\n"
#define BYTES(s) s, sizeof(s) - 1

static char dir[] = "/tmp/flowrun-unpack-XXXXXX";
static struct fr_err err;

static const struct {
    const char *name, *file, *bytes;
    size_t n, cut; /* bytes of the file; left out at its end */
    size_t max;    /* 0: enough */
    const char *want, *wrong;
} rows[] = {
    {"not packed", "a.jsonl", BYTES(TEXT_A), 0, 0, TEXT_A, NULL},
    {"gzip", "a.jsonl.gz", BYTES(GZIP_A), 0, 0, TEXT_A, NULL},
    {"two members", "a.jsonl.gz", BYTES(GZIP_A GZIP_B), 0, 0, TEXT_A TEXT_B, NULL},
    {"zstd", "a.jsonl.zst", BYTES(ZSTD_A), 0, 0, TEXT_A, NULL},
    {"two frames", "a.json.zstd", BYTES(ZSTD_A ZSTD_B), 0, 0, TEXT_A TEXT_B, NULL},
    {"an empty gzip", "a.txt.gz", BYTES(""), 0, 0, NULL, "a.txt.gz cannot be unpacked: it is cut"},
    {"an empty zstd", "a.txt.zst", BYTES(""), 0, 0, NULL,
     "a.txt.zst cannot be unpacked: it is cut"},
    {"a cut gzip", "a.csv.gz", BYTES(GZIP_A), 9, 0, NULL, "it is cut"},
    {"cut at its sum", "a.csv.gz", BYTES(GZIP_A), 1, 0, NULL, "it is cut"},
    {"a cut member", "a.csv.gz", BYTES(GZIP_A GZIP_B), 30, 0, NULL, "it is cut"},
    {"a cut zstd", "a.csv.zst", BYTES(ZSTD_A), 5, 0, NULL, "it is cut"},
    {"text named gzip", "a.json.gz", BYTES(TEXT_A), 0, 0, NULL, "incorrect header check"},
    {"text named zstd", "a.json.zst", BYTES(TEXT_A), 0, 0, NULL, "Unknown frame descriptor"},
    {"bytes behind gzip", "a.json.gz", BYTES(GZIP_A "abc"), 0, 0, NULL, "incorrect header check"},
    {"a larger text", "a.json.gz", BYTES(GZIP_A GZIP_B), 0, 71, NULL, "holds more than 71 bytes"},
    {"text of the size", "a.json.gz", BYTES(GZIP_A GZIP_B), 0, 72, TEXT_A TEXT_B, NULL},
};

static bool lacks_zstd(void)
{
    struct fr_buf out = {0};
    struct tr_unpack u = {"x", {"", 0}, &out, 1};
    bool lacks = tr_unpack_zstd(&u, &err) == FR_UNSUPPORTED;

    fr_buf_finish(&out);
    return lacks;
}

int main(void)
{
    struct fr_buf out = {0};
    char path[256];

    if (mkdtemp(dir) == NULL)
        return EXIT_FAILURE;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enum fr_rc rc;

        if (strstr(rows[i].file, ".zst") != NULL && lacks_zstd())
            continue;
        check_row(rows[i].name);
        (void)snprintf(path, sizeof(path), "%s/%s", dir, rows[i].file);
        CHECK_INT(fr_file_write(path, rows[i].bytes, rows[i].n - rows[i].cut, 0644, &err), FR_OK);
        rc = tr_file_unpack(path, rows[i].max > 0 ? rows[i].max : 1 << 20, &out, &err);
        if (!CHECK_INT(rc, rows[i].want != NULL ? FR_OK : FR_USAGE))
            printf("   %s\n", err.msg);
        else if (rc == FR_OK)
            CHECK(out.n == strlen(rows[i].want) && memcmp(out.p, rows[i].want, out.n) == 0);
        else if (!CHECK(strstr(err.msg, rows[i].wrong) != NULL))
            printf("   %s\n", err.msg);
    }
    fr_buf_finish(&out);
    CHECK_INT(fr_remove_tree(dir, &err), FR_OK);
    return check_done();
}

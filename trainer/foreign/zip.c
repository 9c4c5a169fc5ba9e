#include "trainer/foreign/zip.h"

#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "trainer/tensor/safetensors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    ENTRY_BYTES = 46,
    LOCAL_BYTES = 30,
    COMMENT_MAX = 65535,
    DIRECTORY_MAX = 1 << 28,
    PIECE = 1 << 20
};

struct tr_zip {
    int fd;
    int64_t bytes;
    struct fr_arena arena;
    const char *path;
    struct tr_zip_entry *entries; /* by name */
    size_t n;
};

/* Where the directory of entries lies. */
struct directory {
    uint64_t at, bytes, n;
};

static uint64_t number(const unsigned char *p, int bytes)
{
    uint64_t x = 0;

    for (int i = 0; i < bytes; i++)
        x |= (uint64_t)p[i] << (8 * i);
    return x;
}

static enum fr_rc cut(const struct tr_zip *z, struct fr_err *err)
{
    return fr_fail(err, FR_CORRUPT,
                   "%s: the zip directory does not fit the file's %lld bytes: the file is cut, or "
                   "still being written",
                   z->path, (long long)z->bytes);
}

enum fr_rc tr_zip_read(const struct tr_zip *z, int64_t at, void *dst, size_t n, struct fr_err *err)
{
    if (at < 0 || at > z->bytes || n > (uint64_t)(z->bytes - at))
        return cut(z, err);
    return tr_st_pread(z->fd, z->path, dst, n, at, err);
}

/* The zip64 end record, where the 32-bit numbers are full; end_at: of the other one. */
static enum fr_rc find64(const struct tr_zip *z, int64_t end_at, struct directory *d,
                         struct fr_err *err)
{
    unsigned char b[END64_BYTES];
    enum fr_rc rc = tr_zip_read(z, end_at - LOCATOR_BYTES, b, LOCATOR_BYTES, err);
    uint64_t at;

    if (rc != FR_OK)
        return rc;
    at = number(b + 8, 8);
    if (number(b, 4) != 0x07064b50 || at > (uint64_t)z->bytes)
        return cut(z, err);
    if ((rc = tr_zip_read(z, (int64_t)at, b, END64_BYTES, err)) != FR_OK)
        return rc;
    if (number(b, 4) != 0x06064b50)
        return cut(z, err);
    *d = (struct directory){number(b + 48, 8), number(b + 40, 8), number(b + 32, 8)};
    return FR_OK;
}

static enum fr_rc find_directory(const struct tr_zip *z, struct directory *d, struct fr_err *err)
{
    int64_t tail = z->bytes < END_BYTES + COMMENT_MAX ? z->bytes : END_BYTES + COMMENT_MAX;
    unsigned char *b = fr_sys.alloc((size_t)tail + 1);
    int64_t i = tail - END_BYTES;
    enum fr_rc rc;

    if (b == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to read %s", z->path);
    if ((rc = tr_zip_read(z, z->bytes - tail, b, (size_t)tail, err)) != FR_OK)
        goto out;
    while (i >= 0 && number(b + i, 4) != 0x06054b50)
        i--;
    if (i < 0) {
        rc = tail >= 2 && b[0] != 'P' && z->bytes == tail
                 ? fr_fail(err, FR_USAGE, "%s is no zip file, as torch.save writes since 1.6",
                           z->path)
                 : fr_fail(err, FR_CORRUPT,
                           "%s has no zip directory at its end: the file is cut, or no file of "
                           "torch.save since 1.6",
                           z->path);
        goto out;
    }
    *d = (struct directory){number(b + i + 16, 4), number(b + i + 12, 4), number(b + i + 10, 2)};
    if (d->at == 0xffffffff || d->bytes == 0xffffffff || d->n == 0xffff)
        rc = find64(z, z->bytes - tail + i, d, err);
    if (rc == FR_OK && (d->bytes > DIRECTORY_MAX || d->at > (uint64_t)z->bytes ||
                        d->bytes > (uint64_t)z->bytes - d->at || d->n > d->bytes / ENTRY_BYTES))
        rc = cut(z, err);
out:
    fr_sys.free(b);
    return rc;
}

/* Numbers that are full in the entry stand in its zip64 field, in this order. */
static bool read_wide(const unsigned char *extra, size_t n, uint64_t *const v[3])
{
    bool full = *v[0] == 0xffffffff || *v[1] == 0xffffffff || *v[2] == 0xffffffff;

    for (size_t at = 0; full && at + 4 <= n;) {
        size_t size = (size_t)number(extra + at + 2, 2), k = at + 4;

        if (size > n - k)
            return false;
        if (number(extra + at, 2) == 1) {
            for (int i = 0; i < 3; i++) {
                if (*v[i] != 0xffffffff)
                    continue;
                if (k + 8 > at + 4 + size)
                    return false;
                *v[i] = number(extra + k, 8);
                k += 8;
            }
            return true;
        }
        at += 4 + size;
    }
    return !full;
}

/* The local header tells where the bytes begin: torch pads its extra field. */
static enum fr_rc place(const struct tr_zip *z, uint64_t local, struct tr_zip_entry *e,
                        struct fr_err *err)
{
    unsigned char b[LOCAL_BYTES];
    enum fr_rc rc;

    if (local > (uint64_t)z->bytes)
        return cut(z, err);
    if ((rc = tr_zip_read(z, (int64_t)local, b, LOCAL_BYTES, err)) != FR_OK)
        return rc;
    e->at = (int64_t)(local + LOCAL_BYTES + number(b + 26, 2) + number(b + 28, 2));
    if (number(b, 4) != 0x04034b50 || e->at > z->bytes || e->bytes > z->bytes - e->at)
        return fr_fail(err, FR_CORRUPT, "%s: entry %.*s lies outside of the file", z->path,
                       (int)e->name.n, e->name.p);
    return FR_OK;
}

/* One entry of the directory, at p; *used: its bytes. */
static enum fr_rc read_entry(struct tr_zip *z, const unsigned char *p, size_t left, size_t *used,
                             struct fr_err *err)
{
    struct tr_zip_entry *e = &z->entries[z->n];
    uint64_t packed, size, local;
    size_t name, extra;

    if (left < ENTRY_BYTES || number(p, 4) != 0x02014b50)
        return cut(z, err);
    packed = number(p + 20, 4);
    size = number(p + 24, 4);
    local = number(p + 42, 4);
    name = (size_t)number(p + 28, 2);
    extra = (size_t)number(p + 30, 2);
    *used = ENTRY_BYTES + name + extra + (size_t)number(p + 32, 2);
    if (*used > left ||
        !read_wide(p + ENTRY_BYTES + name, extra, (uint64_t *const[]){&size, &packed, &local}))
        return cut(z, err);
    e->name = (struct fr_str){fr_arena_text(&z->arena, (const char *)p + ENTRY_BYTES, name), name};
    if (e->name.p == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the entries of %s", z->path);
    if (number(p + 10, 2) != 0 || packed != size || (number(p + 8, 2) & 1) != 0)
        return fr_fail(err, FR_UNSUPPORTED,
                       "%s: entry %s is compressed or encrypted, which torch.save never does",
                       z->path, e->name.p);
    if (size > INT64_MAX)
        return cut(z, err);
    e->bytes = (int64_t)size;
    e->crc = (uint32_t)number(p + 16, 4);
    z->n++;
    return place(z, local, e, err);
}

static int by_name(const void *a, const void *b)
{
    const struct tr_zip_entry *x = a, *y = b;

    return strcmp(x->name.p, y->name.p);
}

static enum fr_rc read_directory(struct tr_zip *z, struct fr_err *err)
{
    struct directory d = {0};
    unsigned char *b = NULL;
    size_t at = 0, used = 0;
    enum fr_rc rc = find_directory(z, &d, err);

    if (rc != FR_OK)
        return rc;
    b = fr_sys.alloc((size_t)d.bytes + 1);
    z->entries = fr_arena_array(&z->arena, (size_t)d.n + 1, sizeof(*z->entries));
    if (b == NULL || z->entries == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for the entries of %s", z->path);
    if (rc == FR_OK)
        rc = tr_zip_read(z, (int64_t)d.at, b, (size_t)d.bytes, err);
    for (uint64_t i = 0; i < d.n && rc == FR_OK; i++, at += used)
        rc = read_entry(z, b + at, (size_t)d.bytes - at, &used, err);
    if (rc == FR_OK && z->n > 0)
        qsort(z->entries, z->n, sizeof(*z->entries), by_name);
    for (size_t i = 1; i < z->n && rc == FR_OK; i++)
        if (by_name(&z->entries[i - 1], &z->entries[i]) == 0)
            rc = fr_fail(err, FR_CORRUPT, "%s has two entries %s", z->path, z->entries[i].name.p);
    fr_sys.free(b);
    return rc;
}

enum fr_rc tr_zip_open(const char *path, struct tr_zip **out, struct fr_err *err)
{
    struct tr_zip *z = fr_sys.alloc(sizeof(*z));
    struct stat st;
    enum fr_rc rc;

    *out = NULL;
    if (z == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to read %s", path);
    *z = (struct tr_zip){.fd = -1};
    rc = fr_file_open(path, &z->fd, &st, err);
    if (rc == FR_OK && (z->path = fr_arena_dup(&z->arena, path)) == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory to read %s", path);
    if (rc == FR_OK) {
        z->bytes = st.st_size;
        rc = read_directory(z, err);
    }
    if (rc != FR_OK) {
        tr_zip_close(z);
        return rc;
    }
    *out = z;
    return FR_OK;
}

enum fr_rc tr_zip_check(struct tr_zip *z, const struct tr_zip_entry *e, struct fr_err *err)
{
    unsigned char *piece = NULL;
    enum fr_rc rc = FR_OK;
    uLong crc = crc32_z(0, NULL, 0);

    if (e->crc == 0 || e->whole)
        return FR_OK;
    if ((piece = fr_sys.alloc(PIECE)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory to check %s", z->path);
    for (int64_t at = 0; at < e->bytes && rc == FR_OK; at += PIECE) {
        size_t n = (size_t)(e->bytes - at < PIECE ? e->bytes - at : PIECE);

        if ((rc = tr_zip_read(z, e->at + at, piece, n, err)) == FR_OK)
            crc = crc32_z(crc, piece, n);
    }
    fr_sys.free(piece);
    if (rc == FR_OK && crc != e->crc)
        rc = fr_fail(err, FR_CORRUPT,
                     "%s: entry %s does not match its checksum: the file is damaged, fetch it "
                     "again",
                     z->path, e->name.p);
    z->entries[e - z->entries].whole = rc == FR_OK;
    return rc;
}

void tr_zip_close(struct tr_zip *z)
{
    if (z == NULL)
        return;
    if (z->fd >= 0)
        (void)fr_sys.close(z->fd);
    fr_arena_finish(&z->arena);
    fr_sys.free(z);
}

const char *tr_zip_path(const struct tr_zip *z)
{
    return z->path;
}

const struct tr_zip_entry *tr_zip_find(const struct tr_zip *z, const char *name)
{
    const char *slash = z->n > 0 ? strchr(z->entries[0].name.p, '/') : NULL;
    size_t folder = slash != NULL ? (size_t)(slash + 1 - z->entries[0].name.p) : 0;
    size_t low = 0, high = z->n;

    /* all names begin with the same folder, so they are ordered by what follows it */
    while (folder > 0 && low < high) {
        size_t mid = low + (high - low) / 2;
        const struct tr_zip_entry *e = &z->entries[mid];
        int d = strncmp(e->name.p, z->entries[0].name.p, folder);

        if (d == 0)
            d = strcmp(e->name.p + folder, name);
        if (d == 0)
            return e;
        if (d < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

#include "trainer/dataset/unpack.h"

#include "engine/base/file.h"
#include "engine/base/sys.h"
#include "trainer/text/text.h"

#include <limits.h>
#include <string.h>
#define ZLIB_CONST
#include <zlib.h>

enum { PIECE = 1 << 18 };

static const char *const endings[] = {".gz", ".zst", ".zstd"};
enum { GZIP, ENDINGS = sizeof(endings) / sizeof(endings[0]) };

/* Index of path's ending in endings; ENDINGS: none. */
static size_t ending_of(const char *path)
{
    size_t i = 0;

    while (i < ENDINGS && !tr_ends(path, endings[i]))
        i++;
    return i;
}

struct fr_str tr_unpacked_name(const char *path)
{
    size_t i = ending_of(path);

    return (struct fr_str){path, strlen(path) - (i < ENDINGS ? strlen(endings[i]) : 0)};
}

enum fr_rc tr_unpack_put(const struct tr_unpack *u, const void *p, size_t n, struct fr_err *err)
{
    if (n > u->max - u->out->n)
        return fr_fail(err, FR_USAGE, "%s holds more than %zu bytes", u->path, u->max);
    fr_buf_add(u->out, p, n);
    return u->out->bad ? fr_fail(err, FR_NOMEM, "no memory for what %s holds", u->path) : FR_OK;
}

enum fr_rc tr_unpack_bad(const struct tr_unpack *u, const char *why, struct fr_err *err)
{
    return fr_fail(err, FR_USAGE, "%s cannot be unpacked: %s", u->path, why);
}

/* One call of inflate. zlib counts in 32 bits: a file comes in several pieces. */
static enum fr_rc inflate_piece(const struct tr_unpack *u, z_stream *z, void *piece,
                                struct fr_err *err)
{
    size_t left = u->in.n - (size_t)((const char *)z->next_in - u->in.p);
    int rc;

    z->avail_in = left < UINT_MAX ? (uInt)left : UINT_MAX;
    z->next_out = piece;
    z->avail_out = PIECE;
    rc = inflate(z, Z_NO_FLUSH);
    if (rc == Z_BUF_ERROR)
        return tr_unpack_bad(u, "it is cut", err);
    if (rc != Z_OK && rc != Z_STREAM_END)
        return tr_unpack_bad(u, z->msg != NULL ? z->msg : "it is damaged", err);
    if (rc == Z_STREAM_END && inflateReset(z) != Z_OK)
        return fr_fail(err, FR_BUG, "zlib lost its state");
    return tr_unpack_put(u, piece, PIECE - z->avail_out, err);
}

static enum fr_rc unpack_gzip(const struct tr_unpack *u, struct fr_err *err)
{
    enum { GZIP_WINDOW = 15 + 16 };
    z_stream z = {.next_in = (const Bytef *)u->in.p};
    const char *end = u->in.p + u->in.n;
    void *piece = fr_sys.alloc(PIECE);
    enum fr_rc rc = FR_OK;

    if (piece == NULL || inflateInit2(&z, GZIP_WINDOW) != Z_OK) {
        fr_sys.free(piece);
        return fr_fail(err, FR_NOMEM, "no memory to unpack %s", u->path);
    }
    if (u->in.n == 0)
        rc = tr_unpack_bad(u, "it is cut", err);
    while (rc == FR_OK && ((const char *)z.next_in < end || z.total_in > 0))
        rc = inflate_piece(u, &z, piece, err);
    (void)inflateEnd(&z);
    fr_sys.free(piece);
    return rc;
}

enum fr_rc tr_file_unpack(const char *path, size_t max, struct fr_buf *out, struct fr_err *err)
{
    size_t kind = ending_of(path);
    struct fr_buf packed = {0};
    struct tr_unpack u = {.path = path, .out = out, .max = max};
    enum fr_rc rc;

    if (kind == ENDINGS)
        return fr_file_read(path, max, out, err);
    out->n = 0;
    if ((rc = fr_file_read(path, max + PIECE, &packed, err)) == FR_OK) {
        u.in = (struct fr_str){packed.p, packed.n};
        rc = kind == GZIP ? unpack_gzip(&u, err) : tr_unpack_zstd(&u, err);
    }
    fr_buf_finish(&packed);
    return rc;
}

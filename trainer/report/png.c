#include "trainer/report/png.h"

#include "engine/base/file.h"
#include "engine/base/str.h"
#include "engine/base/sys.h"

#include <string.h>
#include <zlib.h>

static void put_u32(struct fr_buf *b, uint32_t x)
{
    const uint8_t bytes[] = {(uint8_t)(x >> 24), (uint8_t)(x >> 16), (uint8_t)(x >> 8), (uint8_t)x};

    fr_buf_add(b, (const char *)bytes, sizeof(bytes));
}

static void put_chunk(struct fr_buf *out, const char *type, const char *p, size_t n)
{
    size_t at;

    put_u32(out, (uint32_t)n);
    at = out->n;
    fr_buf_add(out, type, 4);
    fr_buf_add(out, p, n);
    if (!out->bad)
        put_u32(out, (uint32_t)crc32_z(0, (const Bytef *)out->p + at, out->n - at));
}

/* ---- deflate ---- */

struct bits {
    struct fr_buf *out;
    uint32_t held;
    int n;
};

static void put_bits(struct bits *b, uint32_t value, int n)
{
    b->held |= value << b->n;
    for (b->n += n; b->n >= 8; b->n -= 8) {
        char byte = (char)(b->held & 0xff);

        fr_buf_add(b->out, &byte, 1);
        b->held >>= 8;
    }
}

/* Codes of symbols begin with their highest bit. */
static void put_code(struct bits *b, uint32_t code, int n)
{
    uint32_t turned = 0;

    for (int i = 0; i < n; i++)
        turned |= (code >> i & 1) << (n - 1 - i);
    put_bits(b, turned, n);
}

/* A symbol by the fixed codes (RFC 1951, 3.2.6). */
static void put_symbol(struct bits *b, int s)
{
    if (s < 144)
        put_code(b, 0x30u + (uint32_t)s, 8);
    else if (s < 256)
        put_code(b, 0x190u + (uint32_t)(s - 144), 9);
    else if (s < 280)
        put_code(b, (uint32_t)(s - 256), 7);
    else
        put_code(b, 0xc0u + (uint32_t)(s - 280), 8);
}

/* The byte before, n more times; 3 to 258. */
static void put_run(struct bits *b, int n)
{
    static const struct {
        int first, extra;
    } lengths[] = {{3, 0},   {4, 0},   {5, 0},   {6, 0},   {7, 0},  {8, 0},  {9, 0},  {10, 0},
                   {11, 1},  {13, 1},  {15, 1},  {17, 1},  {19, 2}, {23, 2}, {27, 2}, {31, 2},
                   {35, 3},  {43, 3},  {51, 3},  {59, 3},  {67, 4}, {83, 4}, {99, 4}, {115, 4},
                   {131, 5}, {163, 5}, {195, 5}, {227, 5}, {258, 0}};
    int k = (int)(sizeof(lengths) / sizeof(lengths[0])) - 1;

    while (lengths[k].first > n)
        k--;
    put_symbol(b, 257 + k);
    put_bits(b, (uint32_t)(n - lengths[k].first), lengths[k].extra);
    put_code(b, 0, 5); /* distance 1 */
}

static void put_deflated(struct fr_buf *out, const uint8_t *p, size_t n)
{
    struct bits b = {.out = out};

    put_bits(&b, 3, 3); /* the last block, fixed codes */
    for (size_t i = 0; i < n;) {
        size_t run = 0;

        put_symbol(&b, p[i++]);
        while (i + run < n && run < 258 && p[i + run] == p[i - 1])
            run++;
        if (run >= 3) {
            put_run(&b, (int)run);
            i += run;
        }
    }
    put_symbol(&b, 256);
    put_bits(&b, 0, 7); /* the last byte is full */
}

/* Each row as what it differs from the one above by: most of it is 0. */
static void filter(const struct tr_picture *p, uint8_t *out)
{
    size_t width = (size_t)p->width;

    for (size_t y = 0; y < (size_t)p->height; y++) {
        *out++ = 2; /* Up */
        for (size_t x = 0; x < width; x++)
            *out++ = (uint8_t)(p->at[y * width + x] - (y > 0 ? p->at[(y - 1) * width + x] : 0));
    }
}

enum fr_rc tr_png_write(const char *path, const struct tr_picture *p, struct fr_err *err)
{
    size_t n = (size_t)p->height * ((size_t)p->width + 1);
    uint8_t *rows = fr_sys.alloc(n);
    struct fr_buf out = {0}, part = {0};
    enum fr_rc rc;

    if (rows == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a picture");
    filter(p, rows);
    fr_buf_add(&out, "\x89PNG\r\n\x1a\n", 8);
    put_u32(&part, (uint32_t)p->width);
    put_u32(&part, (uint32_t)p->height);
    fr_buf_add(&part, "\x08\x03\0\0\0", 5); /* 8 bits a pixel, of a palette */
    put_chunk(&out, "IHDR", part.p, part.n);
    put_chunk(&out, "PLTE", (const char *)p->colours, sizeof(p->colours));
    part.n = 0;
    fr_buf_add(&part, "\x78\x01", 2);
    put_deflated(&part, rows, n);
    put_u32(&part, (uint32_t)adler32_z(1, rows, n));
    put_chunk(&out, "IDAT", part.p, part.n);
    put_chunk(&out, "IEND", "", 0);
    rc = out.bad || part.bad ? fr_fail(err, FR_NOMEM, "no memory for a picture")
                             : fr_file_write(path, out.p, out.n, 0644, err);
    fr_sys.free(rows);
    fr_buf_finish(&out);
    fr_buf_finish(&part);
    return rc;
}

#include "engine/web/gzip.h"

#include "engine/base/sys.h"

#include <assert.h>

#define ZLIB_CONST
#include <zlib.h>

enum { AS_GZIP = 16, WINDOW_BITS = 15, MEMORY_LEVEL = 8, PIECE_BYTES = 16 << 10 };

struct web_gzip {
    z_stream z;
};

struct web_gzip *web_gzip_create(void)
{
    struct web_gzip *g = fr_sys.alloc(sizeof(*g));

    if (g == NULL)
        return NULL;
    *g = (struct web_gzip){0};
    if (deflateInit2(&g->z, Z_BEST_SPEED, Z_DEFLATED, WINDOW_BITS + AS_GZIP, MEMORY_LEVEL,
                     Z_DEFAULT_STRATEGY) == Z_OK)
        return g;
    fr_sys.free(g);
    return NULL;
}

void web_gzip_destroy(struct web_gzip *g)
{
    if (g != NULL)
        (void)deflateEnd(&g->z);
    fr_sys.free(g);
}

void web_gzip_add(struct web_gzip *g, struct fr_str in, bool end, struct fr_buf *out)
{
    unsigned char piece[PIECE_BYTES];
    int code;

    g->z.next_in = (const unsigned char *)in.p;
    g->z.avail_in = (unsigned)in.n;
    do {
        g->z.next_out = piece;
        g->z.avail_out = sizeof(piece);
        code = deflate(&g->z, end ? Z_FINISH : Z_NO_FLUSH);
        assert(code != Z_STREAM_ERROR);
        fr_buf_add(out, (const char *)piece, sizeof(piece) - g->z.avail_out);
    } while (g->z.avail_out == 0 && code != Z_STREAM_END);
}

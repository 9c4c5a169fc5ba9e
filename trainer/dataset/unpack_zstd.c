#include "trainer/dataset/unpack.h"

#include "engine/base/sys.h"

#include <zstd.h>

enum fr_rc tr_unpack_zstd(const struct tr_unpack *u, struct fr_err *err)
{
    ZSTD_DCtx *z = ZSTD_createDCtx();
    ZSTD_inBuffer in = {u->in.p, u->in.n, 0};
    ZSTD_outBuffer piece = {fr_sys.alloc(ZSTD_DStreamOutSize()), ZSTD_DStreamOutSize(), 0};
    size_t more = 1; /* 0: at the end of a frame */
    enum fr_rc rc = FR_OK;

    if (z == NULL || piece.dst == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory to unpack %s", u->path);
    while (rc == FR_OK && (in.pos < in.size || more > 0)) {
        size_t at = in.pos;

        piece.pos = 0;
        more = ZSTD_decompressStream(z, &piece, &in);
        if (ZSTD_isError(more))
            rc = tr_unpack_bad(u, ZSTD_getErrorName(more), err);
        else if (in.pos == at && piece.pos == 0 && more > 0)
            rc = tr_unpack_bad(u, "it is cut", err);
        else
            rc = tr_unpack_put(u, piece.dst, piece.pos, err);
    }
    ZSTD_freeDCtx(z);
    fr_sys.free(piece.dst);
    return rc;
}

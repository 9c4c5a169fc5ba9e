/* A build without zstd. */
#include "trainer/dataset/unpack.h"

enum fr_rc tr_unpack_zstd(const struct tr_unpack *u, struct fr_err *err)
{
    return fr_fail(err, FR_UNSUPPORTED,
                   "%s: this flowtrain was built without zstd: unpack the file, or build where "
                   "libzstd-dev is",
                   u->path);
}

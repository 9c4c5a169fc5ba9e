#include "trainer/data/tok.h"
#include "trainer/data/tokenizer.h"

#include <string.h>
#include <utf8proc.h>

/* Adds bytes as UTF-8; each that begins no valid character becomes U+FFFD. */
static void put_lossy(struct fr_buf *out, const char *p, size_t n)
{
    while (n > 0) {
        utf8proc_int32_t c;
        utf8proc_ssize_t k =
            utf8proc_iterate((const utf8proc_uint8_t *)p, (utf8proc_ssize_t)n, &c);
        if (k > 0)
            fr_buf_add(out, p, (size_t)k);
        else
            fr_buf_text(out, "\xef\xbf\xbd");
        p += k > 0 ? k : 1;
        n -= k > 0 ? (size_t)k : 1;
    }
}

enum fr_rc tr_tokenizer_decode(const struct tr_tokenizer *t, const int32_t *ids, size_t n,
                               bool skip_special, struct fr_buf *out, struct fr_err *err)
{
    struct fr_buf bytes = {0};

    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= t->size)
            continue; /* a padded vocabulary has ids that are no token */
        if (skip_special && t->special[ids[i]])
            continue;
        fr_buf_add(&bytes, t->tokens[ids[i]].p, t->tokens[ids[i]].n);
    }
    if (!bytes.bad)
        put_lossy(out, bytes.p, bytes.n);
    bool bad = bytes.bad || out->bad;
    fr_buf_finish(&bytes);
    return bad ? fr_fail(err, FR_NOMEM, "no memory to decode %zu ids", n) : FR_OK;
}

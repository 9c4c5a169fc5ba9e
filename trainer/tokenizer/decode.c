#include "trainer/tokenizer/tok.h"
#include "trainer/tokenizer/tokenizer.h"

#include <string.h>
#include <utf8proc.h>

/* How many bytes of what is no character are one U+FFFD: as many as a character could begin with.
 * Source: the Unicode Standard, section 3.9, maximal subparts; table 3-7. */
static size_t broken(const unsigned char *p, size_t n)
{
    unsigned char low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    size_t whole = p[0] < 0xc2 || p[0] > 0xf4 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4, k = 1;

    for (; k < whole && k < n && p[k] >= low && p[k] <= high; k++) {
        low = 0x80;
        high = 0xbf;
    }
    return k;
}

/* Adds bytes as UTF-8, with U+FFFD for what is none. */
static void put_lossy(struct fr_buf *out, const char *p, size_t n)
{
    while (n > 0) {
        utf8proc_int32_t c;
        utf8proc_ssize_t k = utf8proc_iterate((const utf8proc_uint8_t *)p, (utf8proc_ssize_t)n, &c);
        size_t bytes = k > 0 ? (size_t)k : broken((const unsigned char *)p, n);

        if (k > 0)
            fr_buf_add(out, p, bytes);
        else
            fr_buf_text(out, "\xef\xbf\xbd");
        p += bytes;
        n -= bytes;
    }
}

/* The byte that a token of the form <0x0A> stands for, -1: none. */
static int byte_token(struct fr_str token)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *high, *low;

    if (token.n != 6 || memcmp(token.p, "<0x", 3) != 0 || token.p[5] != '>')
        return -1;
    high = memchr(digits, token.p[3], 16);
    low = memchr(digits, token.p[4], 16);
    return high != NULL && low != NULL ? (int)((high - digits) * 16 + (low - digits)) : -1;
}

/* Text of a vocabulary of characters, in the making. */
struct writer {
    const struct tr_tok_decoder *how;
    struct fr_buf text, run; /* run: bytes of neighbouring byte tokens */
    bool any;                /* a token was written */
};

/* Bytes that are no text together are a U+FFFD each. */
static void end_run(struct writer *w)
{
    if (w->run.n > 0 && fr_utf8_valid(w->run.p, w->run.n))
        fr_buf_add(&w->text, w->run.p, w->run.n);
    else
        for (size_t i = 0; i < w->run.n; i++)
            fr_buf_text(&w->text, "\xef\xbf\xbd");
    w->run.n = 0;
}

static void put_token(struct writer *w, struct fr_str token)
{
    const char *end = token.p + token.n, *p = token.p, *q;
    const struct fr_str mark = w->how->mark;
    int byte = w->how->byte_tokens ? byte_token(token) : -1;

    if (byte >= 0) {
        fr_buf_add(&w->run, &(char){(char)byte}, 1);
    } else {
        end_run(w);
        while (mark.n > 0 && (q = memmem(p, (size_t)(end - p), mark.p, mark.n)) != NULL) {
            fr_buf_add(&w->text, p, (size_t)(q - p));
            fr_buf_text(&w->text, w->any || !w->how->strip_token ? " " : "");
            p = q + mark.n;
        }
        fr_buf_add(&w->text, p, (size_t)(end - p));
    }
    w->any = true;
}

static bool skipped(const struct tr_tokenizer *t, int32_t id, bool skip_special)
{
    /* a padded vocabulary has ids that are no token */
    return id < 0 || id >= t->size || (skip_special && t->special[id]);
}

static enum fr_rc decode_chars(const struct tr_tokenizer *t, const int32_t *ids, size_t n,
                               bool skip_special, struct fr_buf *out)
{
    struct writer w = {.how = &t->decoder};
    size_t from = 0;

    for (size_t i = 0; i < n; i++)
        if (!skipped(t, ids[i], skip_special))
            put_token(&w, t->tokens[ids[i]]);
    end_run(&w);
    while (from < w.text.n && from < (size_t)t->decoder.strip && w.text.p[from] == ' ')
        from++;
    if (w.text.n > 0)
        fr_buf_add(out, w.text.p + from, w.text.n - from);
    out->bad = out->bad || w.text.bad || w.run.bad;
    fr_buf_finish(&w.text);
    fr_buf_finish(&w.run);
    return out->bad ? FR_NOMEM : FR_OK;
}

static enum fr_rc decode_bytes(const struct tr_tokenizer *t, const int32_t *ids, size_t n,
                               bool skip_special, struct fr_buf *out)
{
    struct fr_buf bytes = {0};

    for (size_t i = 0; i < n; i++)
        if (!skipped(t, ids[i], skip_special))
            fr_buf_add(&bytes, t->tokens[ids[i]].p, t->tokens[ids[i]].n);
    if (!bytes.bad)
        put_lossy(out, bytes.p, bytes.n);
    out->bad = out->bad || bytes.bad;
    fr_buf_finish(&bytes);
    return out->bad ? FR_NOMEM : FR_OK;
}

enum fr_rc tr_tokenizer_decode(const struct tr_tokenizer *t, const int32_t *ids, size_t n,
                               bool skip_special, struct fr_buf *out, struct fr_err *err)
{
    enum fr_rc rc = t->chars ? decode_chars(t, ids, n, skip_special, out)
                             : decode_bytes(t, ids, n, skip_special, out);

    return rc == FR_OK ? rc : fr_fail(err, rc, "no memory to decode %zu ids", n);
}

/* One decoder of the sequence. */
static bool read_one(struct tr_tokenizer *t, const json_t *v)
{
    const char *type = json_string_value(json_object_get(v, "type"));
    const json_t *mark = json_object_get(json_object_get(v, "pattern"), "String");
    const char *content = json_string_value(json_object_get(v, "content"));
    const char *scheme = json_string_value(json_object_get(v, "prepend_scheme"));
    bool blank = content != NULL && strcmp(content, " ") == 0, space;

    if (type == NULL)
        return false;
    space = strcmp(type, "Metaspace") == 0;
    if (strcmp(type, "ByteFallback") == 0)
        t->decoder.byte_tokens = true;
    else if (strcmp(type, "Strip") == 0 && blank &&
             json_integer_value(json_object_get(v, "stop")) == 0)
        t->decoder.strip = (int)json_integer_value(json_object_get(v, "start"));
    else if (space || (strcmp(type, "Replace") == 0 && blank && mark != NULL)) {
        mark = space ? json_object_get(v, "replacement") : mark;
        t->decoder.mark = (struct fr_str){json_string_value(mark), json_string_length(mark)};
        t->decoder.strip_token = space && (scheme == NULL || strcmp(scheme, "never") != 0);
        t->decoder.mark.p = fr_arena_text(&t->arena, json_is_string(mark) ? t->decoder.mark.p : "",
                                          t->decoder.mark.n);
        return t->decoder.mark.p != NULL;
    } else
        return strcmp(type, "Fuse") == 0;
    return true;
}

enum fr_rc tr_tok_read_decoder(struct tr_tokenizer *t, const json_t *v, struct fr_err *err)
{
    const json_t *list = json_object_get(v, "decoders");
    bool done = true;

    if (!t->chars)
        return FR_OK; /* bytes are written as they are */
    if (!json_is_array(list))
        done = read_one(t, v);
    for (size_t i = 0; i < json_array_size(list); i++)
        done = done && read_one(t, json_array_get(list, i));
    if (done)
        return FR_OK;
    return fr_fail(err, FR_UNSUPPORTED,
                   "without a ByteLevel pre-tokenizer only vocabularies of characters are done, "
                   "with a decoder of Replace, ByteFallback, Fuse, Strip or Metaspace");
}

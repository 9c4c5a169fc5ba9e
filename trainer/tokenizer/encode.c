#include "trainer/tokenizer/tok.h"

#include "engine/base/sys.h"

#include <string.h>
#include <utf8proc.h>

enum {
    CACHE_SLOTS = 1 << 11, /* at first: most texts have few words, and 8 MB cost what they take */
    CACHE_SLOTS_MAX = 1 << 17,
    CACHE_GROWTH = 8, /* each time that half of the slots are taken; a full cache is emptied */
    CACHE_LINE = 64,
    CACHE_WORD_BYTES = 26,
    CACHE_WORD_IDS = 8,
    WHOLE_WORD_BYTES = 128,
    JIT_STACK_BYTES = 1 << 20,
    MATCH_LIMIT = 100000000
};

/* A word and its ids: a line of the processor's cache. */
struct slot {
    uint32_t hash; /* 0: free */
    uint8_t n, nids;
    char text[CACHE_WORD_BYTES];
    int32_t ids[CACHE_WORD_IDS];
};

struct tr_encoder {
    const struct tr_tokenizer *t;
    pcre2_match_data *md;
    pcre2_match_context *mc;
    pcre2_jit_stack *stack;
    struct tr_tok_work work;
    struct slot *slots;
    void *memory; /* owns: what slots lie in */
    size_t nslots, words;
    struct tr_encoder_room room;
    struct fr_buf normal;   /* a piece after the normalizer */
    struct fr_buf prefixed; /* a piece with its blank */
    bool at_start;          /* the gap begins where the text begins */
    const char *origin;     /* the piece that begins there, NULL: none */
    struct tr_ids *out;
    struct fr_err *err;
};

void tr_encoder_destroy(struct tr_encoder *e)
{
    if (e == NULL)
        return;
    pcre2_match_data_free(e->md);
    pcre2_match_context_free(e->mc);
    pcre2_jit_stack_free(e->stack);
    tr_tok_work_finish(&e->work);
    fr_sys.free(e->memory);
    fr_buf_finish(&e->normal);
    fr_buf_finish(&e->prefixed);
    for (int i = 0; i < 4; i++)
        fr_buf_finish(&e->room.text[i]);
    for (int i = 0; i < 2; i++)
        tr_ids_finish(&e->room.ids[i]);
    fr_sys.free(e);
}

/* An empty cache in place of the one there is; false without memory for it. Each word is in a line
 * of the processor's cache. */
static bool make_cache(struct tr_encoder *e, size_t nslots)
{
    size_t bytes = nslots * sizeof(struct slot);
    void *memory = fr_sys.alloc(bytes + CACHE_LINE);

    if (memory == NULL)
        return false;
    fr_sys.free(e->memory);
    e->memory = memory;
    e->slots = (struct slot *)(((uintptr_t)memory + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    e->nslots = nslots;
    e->words = 0;
    memset(e->slots, 0, bytes);
    return true;
}

enum fr_rc tr_encoder_create(const struct tr_tokenizer *t, struct tr_encoder **out,
                             struct fr_err *err)
{
    struct tr_encoder *e = fr_sys.alloc(sizeof(*e));

    *out = NULL;
    if (e != NULL) {
        *e = (struct tr_encoder){.t = t,
                                 .md = pcre2_match_data_create(1, NULL),
                                 .mc = pcre2_match_context_create(NULL),
                                 .stack = pcre2_jit_stack_create(32768, JIT_STACK_BYTES, NULL)};
    }
    if (e == NULL || e->md == NULL || e->mc == NULL || !make_cache(e, CACHE_SLOTS)) {
        tr_encoder_destroy(e);
        return fr_fail(err, FR_NOMEM, "no memory for an encoder");
    }
    if (e->stack != NULL)
        pcre2_jit_stack_assign(e->mc, NULL, e->stack);
    (void)pcre2_set_match_limit(e->mc, MATCH_LIMIT);
    *out = e;
    return FR_OK;
}

struct tr_encoder_room *tr_encoder_room(struct tr_encoder *e)
{
    return &e->room;
}

const struct tr_tokenizer *tr_encoder_tokenizer(const struct tr_encoder *e)
{
    return e->t;
}

static void cache_renew(struct tr_encoder *e)
{
    if (e->nslots < CACHE_SLOTS_MAX && make_cache(e, e->nslots * CACHE_GROWTH))
        return;
    memset(e->slots, 0, e->nslots * sizeof(struct slot));
    e->words = 0;
}

/* The slot of a word, or the free one where it belongs. */
static struct slot *cache_find(const struct tr_encoder *e, const char *p, size_t n, uint32_t hash)
{
    size_t i = hash >> 1 & (e->nslots - 1);

    for (; e->slots[i].hash != 0; i = (i + 1) & (e->nslots - 1))
        if (e->slots[i].hash == hash && e->slots[i].n == n && tr_tok_same(e->slots[i].text, p, n))
            break;
    return &e->slots[i];
}

/* The vocab id of a whole word, -1. */
static int32_t whole_word(const struct tr_tokenizer *t, const char *p, size_t n)
{
    char key[2 * WHOLE_WORD_BYTES];
    size_t k = 0;

    if (t->chars)
        return tr_tok_map_get(&t->vocab, (struct fr_str){p, n});
    if (n > WHOLE_WORD_BYTES)
        return -1;
    for (size_t i = 0; i < n; i++)
        k += (size_t)tr_tok_byte_char((uint8_t)p[i], key + k);
    return tr_tok_map_get(&t->vocab, (struct fr_str){key, k});
}

/* The ids of a word's bytes. One that is no token is dropped, as by the reference. */
static size_t byte_symbols(const struct tr_tokenizer *t, const char *p, size_t n, int32_t *out)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        if (t->bytes[(uint8_t)p[i]] >= 0)
            out[count++] = t->bytes[(uint8_t)p[i]];
    return count;
}

/* The ids of a word's characters: the character's own, else those of its bytes, else the unknown
 * token, which waits for the next character that is a token of its own. */
static size_t char_symbols(const struct tr_tokenizer *t, const char *p, size_t n, int32_t *out)
{
    size_t count = 0, k;
    bool waits = false;

    for (const char *end = p + n; p < end; p += k) {
        int32_t id;

        k = 1;
        while (p + k < end && ((uint8_t)p[k] & 0xc0) == 0x80)
            k++;
        id = tr_tok_map_get(&t->vocab, (struct fr_str){p, k});
        if (id >= 0) {
            if (waits)
                out[count++] = t->unk;
            waits = false;
            out[count++] = id;
        } else if (byte_symbols(t, p, k, out + count) == k) {
            count += k;
        } else if (t->unk >= 0) {
            if (waits && !t->fuse_unk)
                out[count++] = t->unk;
            waits = true;
        }
    }
    if (waits)
        out[count++] = t->unk;
    return count;
}

/* Ids of one word, without the cache. */
static enum fr_rc merge_word(struct tr_encoder *e, const char *p, size_t n)
{
    const struct tr_tokenizer *t = e->t;
    size_t count = 0;
    int32_t whole;

    if (n >= INT32_MAX || !tr_tok_work_reserve(&e->work, n))
        return fr_fail(e->err, FR_NOMEM, "no memory for a word of %zu bytes", n);
    if (t->ignore_merges && (whole = whole_word(t, p, n)) >= 0)
        return tr_ids_add(e->out, &whole, 1, e->err);
    count = t->chars ? char_symbols(t, p, n, e->work.ids) : byte_symbols(t, p, n, e->work.ids);
    count = tr_tok_merge_word(t, &e->work, count);
    return tr_ids_add(e->out, e->work.ids, count, e->err);
}

/* A few ids. */
static enum fr_rc put_ids(struct tr_encoder *e, const int32_t *v, size_t n)
{
    struct tr_ids *out = e->out;

    if (out->cap - out->n < n)
        return tr_ids_add(out, v, n, e->err);
    for (size_t i = 0; i < n; i++)
        out->v[out->n + i] = v[i];
    out->n += n;
    return FR_OK;
}

static enum fr_rc put_word(struct tr_encoder *e, const char *p, size_t n)
{
    size_t first = e->out->n, nids;
    uint32_t hash;
    struct slot *s;
    enum fr_rc rc;

    if (n > CACHE_WORD_BYTES)
        return merge_word(e, p, n);
    hash = (uint32_t)tr_tok_hash(p, n) | 1;
    s = cache_find(e, p, n, hash);
    if (s->hash != 0)
        return put_ids(e, s->ids, s->nids);
    if ((rc = merge_word(e, p, n)) != FR_OK || (nids = e->out->n - first) > CACHE_WORD_IDS)
        return rc;
    if (e->words == e->nslots / 2) {
        cache_renew(e);
        s = cache_find(e, p, n, hash);
    }
    *s = (struct slot){.hash = hash, .n = (uint8_t)n, .nids = (uint8_t)nids};
    memcpy(s->text, p, n);
    if (nids > 0) /* there may be no array yet */
        memcpy(s->ids, e->out->v + first, nids * sizeof(s->ids[0]));
    e->words++;
    return FR_OK;
}

static enum fr_rc pieces(struct tr_encoder *e, int step, const char *p, size_t n);

static enum fr_rc prefix(struct tr_encoder *e, int step, const char *p, size_t n)
{
    if (*p == ' ')
        return pieces(e, step + 1, p, n);
    e->prefixed.n = 0;
    fr_buf_text(&e->prefixed, " ");
    fr_buf_add(&e->prefixed, p, n);
    if (e->prefixed.bad)
        return fr_fail(e->err, FR_NOMEM, "no memory for a piece of text");
    return pieces(e, step + 1, e->prefixed.p, e->prefixed.n);
}

/* Replaces blanks of the piece by marks, and splits it before each mark if s->split. */
static enum fr_rc metaspace(struct tr_encoder *e, int step, const char *p, size_t n)
{
    const struct tr_tok_step *s = &e->t->steps[step];
    struct fr_buf *b = &e->prefixed;
    bool marked = *p == ' ' || (n >= s->mark.n && memcmp(p, s->mark.p, s->mark.n) == 0);
    enum fr_rc rc = FR_OK;

    b->n = 0;
    if (!marked && (s->scheme == TR_TOK_ALWAYS || (s->scheme == TR_TOK_FIRST && p == e->origin)))
        fr_buf_add(b, s->mark.p, s->mark.n);
    for (size_t i = 0; i < n; i++)
        fr_buf_add(b, p[i] == ' ' ? s->mark.p : p + i, p[i] == ' ' ? s->mark.n : 1);
    if (b->bad)
        return fr_fail(e->err, FR_NOMEM, "no memory for a piece of text");
    for (const char *q = b->p, *end = b->p + b->n; q < end && rc == FR_OK;) {
        const char *next =
            s->split ? memmem(q + 1, (size_t)(end - q - 1), s->mark.p, s->mark.n) : NULL;

        next = next != NULL ? next : end;
        rc = pieces(e, step + 1, q, (size_t)(next - q));
        q = next;
    }
    return rc;
}

/* One match of the step at or after `at`; found[0] is n when there is none. */
static enum fr_rc find(struct tr_encoder *e, const struct tr_tok_step *s, struct fr_str text,
                       size_t at, size_t found[2])
{
    const pcre2_code *re = s->re;
    const char *by_hand[2];
    int got;

    if (s->scan != NULL && s->scan(text.p + at, text.p + text.n, by_hand)) {
        found[0] = (size_t)(by_hand[0] - text.p);
        found[1] = (size_t)(by_hand[1] - text.p);
        return FR_OK;
    }
    /* straight into the compiled code: text was checked to be UTF-8 */
    got = pcre2_jit_match(re, (PCRE2_SPTR)text.p, text.n, at, PCRE2_NO_UTF_CHECK, e->md, e->mc);

    if (got == PCRE2_ERROR_JIT_STACKLIMIT || got == PCRE2_ERROR_JIT_BADOPTION)
        got = pcre2_match(re, (PCRE2_SPTR)text.p, text.n, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                          e->md, e->mc);
    found[0] = found[1] = text.n;
    if (got == PCRE2_ERROR_NOMATCH)
        return FR_OK;
    if (got < 0)
        return fr_fail(e->err, FR_UNSUPPORTED, "a pre-tokenizer's pattern failed (PCRE2 error %d)",
                       got);
    const PCRE2_SIZE *v = pcre2_get_ovector_pointer(e->md);
    found[0] = v[0];
    found[1] = v[1];
    if (v[1] <= v[0])
        return fr_fail(e->err, FR_UNSUPPORTED, "a pre-tokenizer's pattern matches nothing");
    return FR_OK;
}

/* Runs the pre-tokenizers from `step` on over one piece; the remaining pieces are words. */
static enum fr_rc pieces(struct tr_encoder *e, int step, const char *p, size_t n)
{
    const struct tr_tok_step *s = &e->t->steps[step];
    size_t at = 0, found[2];
    bool last = step + 1 == e->t->nsteps;
    enum fr_rc rc = FR_OK;

    if (n == 0)
        return FR_OK;
    if (step == e->t->nsteps)
        return put_word(e, p, n);
    if (s->kind == TR_TOK_PREFIX)
        return prefix(e, step, p, n);
    if (s->kind == TR_TOK_METASPACE)
        return metaspace(e, step, p, n);
    while (rc == FR_OK && at < n) {
        if ((rc = find(e, s, (struct fr_str){p, n}, at, found)) != FR_OK)
            break;
        if (found[0] > at)
            rc = last ? put_word(e, p + at, found[0] - at)
                      : pieces(e, step + 1, p + at, found[0] - at);
        if (rc == FR_OK && found[1] > found[0] && s->kind == TR_TOK_SPLIT)
            rc = last ? put_word(e, p + found[0], found[1] - found[0])
                      : pieces(e, step + 1, p + found[0], found[1] - found[0]);
        at = found[1];
    }
    return rc;
}

/* The code point that begins at p, or -1 at the end; *n its bytes. */
static int32_t char_at(const char *p, const char *end, size_t *n)
{
    utf8proc_int32_t c = -1;
    utf8proc_ssize_t k = p < end ? utf8proc_iterate((const utf8proc_uint8_t *)p, end - p, &c) : 0;

    *n = k > 0 ? (size_t)k : 0;
    return k > 0 ? c : -1;
}

static const char *char_before(const char *start, const char *p)
{
    while (p > start && ((uint8_t) * --p & 0xc0) == 0x80)
        ;
    return p;
}

/* Alphabetic, Mark, Decimal_Number, Connector_Punctuation, Join_Control (Unicode TS 18). */
static bool is_word(int32_t c)
{
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        return c == 0x200c || c == 0x200d || (c >= 0x24b6 && c <= 0x24e9) ||
               (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
               (c >= 0x1f170 && c <= 0x1f189); /* letters in circles and squares */
    }
}

static bool is_blank(int32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

/* Whether a hit [s, end) counts; extends it over blanks for lstrip and rstrip, but not before prev.
 */
static bool widen(const struct tr_tok_added *a, struct fr_str text, const char *prev,
                  const char **s, const char **end)
{
    const char *stop = text.p + text.n, *before;
    size_t k;
    int32_t c;

    if (a->single_word) {
        if (*s > text.p && is_word(char_at(char_before(text.p, *s), stop, &k)))
            return false;
        if ((c = char_at(*end, stop, &k)) >= 0 && is_word(c))
            return false;
    }
    if (a->lstrip && *s < prev)
        *s = prev;
    while (a->lstrip && *s > prev && is_blank(char_at(before = char_before(prev, *s), stop, &k)))
        *s = before;
    while (a->rstrip && is_blank(char_at(*end, stop, &k)))
        *end += k;
    return true;
}

/* Where an added token may begin, from p on; end: nowhere. */
static const char *next_start(const struct tr_tok_trie *trie, const char *p, const char *end)
{
    if (trie->n == 0)
        return end;
    if (trie->start > 0) {
        p = memchr(p, trie->start, (size_t)(end - p));
        return p != NULL ? p : end;
    }
    while (p < end && !trie->starts[(uint8_t)*p])
        p++;
    return p;
}

static enum fr_rc split_normal(struct tr_encoder *e, struct fr_str text);

/* Passes the text between added tokens to the next stage. */
static enum fr_rc put_gap(struct tr_encoder *e, bool raw, struct fr_str text, struct fr_str gap)
{
    if (raw) {
        e->at_start = gap.p == text.p;
        return split_normal(e, gap);
    }
    e->origin = e->at_start && gap.p == text.p ? gap.p : NULL;
    return pieces(e, 0, gap.p, gap.n);
}

/* Splits text at the added tokens of trie; text between them goes on: raw text to the normalizer,
 * normalized text to the pre-tokenizers. */
static enum fr_rc split_added(struct tr_encoder *e, const struct tr_tok_trie *trie,
                              struct fr_str text)
{
    bool raw = trie == &e->t->raw;
    const char *end = text.p + text.n, *prev = text.p;
    enum fr_rc rc = FR_OK;

    for (const char *p = text.p; rc == FR_OK && (p = next_start(trie, p, end)) < end;) {
        size_t n = 0;
        int32_t hit = tr_tok_trie_match(trie, p, end, &n);
        if (hit < 0) {
            p++;
            continue;
        }
        const struct tr_tok_added *a = &e->t->added[hit];
        const char *s = p, *stop = p + n;
        p += n;
        if ((e->t->split_special && a->was_special) || !widen(a, text, prev, &s, &stop))
            continue;
        struct fr_str gap = {prev, s > prev ? (size_t)(s - prev) : 0};
        rc = put_gap(e, raw, text, gap);
        /* a token of blanks may lie in those that the one before reached over */
        if (rc == FR_OK && s < stop)
            rc = tr_ids_add(e->out, &a->id, 1, e->err);
        prev = stop;
    }
    if (rc != FR_OK || prev >= end)
        return rc;
    struct fr_str rest = {prev, (size_t)(end - prev)};
    return put_gap(e, raw, text, rest);
}

static enum fr_rc split_normal(struct tr_encoder *e, struct fr_str text)
{
    enum fr_rc rc;

    if (text.n == 0)
        return FR_OK;
    if (e->t->nforms == 0)
        return split_added(e, &e->t->normal, text);
    e->normal.n = 0;
    if ((rc = tr_tok_normalize(e->t, text, &e->normal, e->err)) != FR_OK)
        return rc;
    return split_added(e, &e->t->normal, (struct fr_str){e->normal.p, e->normal.n});
}

enum fr_rc tr_encode(struct tr_encoder *e, struct fr_str text, struct tr_ids *ids,
                     struct fr_err *err)
{
    if (!fr_utf8_valid(text.p, text.n))
        return fr_fail(err, FR_USAGE, "text is not UTF-8");
    e->out = ids;
    e->err = err;
    return split_added(e, &e->t->raw, text);
}

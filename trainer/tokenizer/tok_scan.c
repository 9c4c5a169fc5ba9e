/*
 * Patterns of well-known pre-tokenizers by hand, for text of ASCII characters. Where a character
 * beyond these could belong to a match, the pattern itself decides. A scanner looks at p, where p <
 * end, and behaves as the pattern does with alternatives tried in their order.
 */
#include "trainer/tokenizer/tok.h"

#include <string.h>

enum kind {
    LETTER = 1,
    DIGIT = 2,
    MARK = 4, /* punctuation and symbols */
    CONTROL = 8,
    BLANK = 16,
    BREAK = 32, /* of a line */
    WIDE = 64,  /* part of a character beyond ASCII */
    SPACE = BLANK | BREAK
};

static const uint8_t kind_table[256] = {
    [0 ... 8] = CONTROL,    ['\t'] = BLANK,        ['\n'] = BREAK,         [11 ... 12] = BLANK,
    ['\r'] = BREAK,         [14 ... 31] = CONTROL, [' '] = BLANK,          ['!' ... '/'] = MARK,
    ['0' ... '9'] = DIGIT,  [':' ... '@'] = MARK,  ['A' ... 'Z'] = LETTER, ['[' ... '`'] = MARK,
    ['a' ... 'z'] = LETTER, ['{' ... '~'] = MARK,  [127] = CONTROL,        [128 ... 255] = WIDE,
};

static enum kind kind_of(char at)
{
    return (enum kind)kind_table[(uint8_t)at];
}

/* After the characters of these kinds that begin at p; NULL: one that is WIDE stands there. */
static const char *run(const char *p, const char *end, unsigned kinds)
{
    while (p < end && (kind_of(*p) & kinds) != 0)
        p++;
    return p < end && kind_of(*p) == WIDE ? NULL : p;
}

static const char *breaks(const char *p, const char *end)
{
    while (p < end && kind_of(*p) == BREAK)
        p++;
    return p;
}

/* \p{N}{1,most} */
static const char *digits(const char *p, const char *end, int most)
{
    for (; p < end && most > 0 && kind_of(*p) == DIGIT; most--)
        p++;
    return most > 0 && p < end && kind_of(*p) == WIDE ? NULL : p;
}

/* \s+(?!\S)|\s+, with lines before it \s*[\r\n]+ */
static const char *blanks(const char *p, const char *end, bool lines)
{
    const char *q = p, *last = NULL;

    for (; q < end && (kind_of(*q) & SPACE) != 0; q++)
        if (kind_of(*q) == BREAK)
            last = q + 1;
    if (q < end && kind_of(*q) == WIDE)
        return NULL;
    if (lines && last != NULL)
        return last;
    return q == end || q - p == 1 ? q : q - 1;
}

/* After 's|'t|'re|'ve|'m|'ll|'d, p itself where none is there; NULL: a character that may be a
 * letter of the other case. */
static const char *contraction(const char *p, const char *end, bool any_case)
{
    int fold = any_case ? 0x20 : 0, a = p + 1 < end ? (uint8_t)p[1] | fold : 0;
    int b = p + 2 < end ? (uint8_t)p[2] | fold : 0;

    if (*p != '\'')
        return p;
    if (any_case && p + 1 < end && kind_of(p[1]) == WIDE)
        return NULL;
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return p + 2;
    return ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l') ? p + 3 : p;
}

/* [^\r\n\p{L}…]?\p{L}+ with a character that is no letter in front; p where that is not there. */
static const char *led_word(const char *p, const char *end)
{
    if (p + 1 == end)
        return p;
    if (kind_of(p[1]) == WIDE)
        return NULL;
    return kind_of(p[1]) == LETTER ? run(p + 1, end, LETTER) : p;
}

/* ` ?[…]+[\r\n]*` of these kinds; p where they are not there. */
static const char *marks(const char *p, const char *end, unsigned kinds)
{
    const char *q = p + (*p == ' ');

    if (q == end || (kind_of(*q) & kinds) == 0)
        return p;
    q = run(q, end, kinds);
    return q != NULL ? breaks(q, end) : NULL;
}

static bool put(const char *p, const char *stop, const char *found[2])
{
    found[0] = p;
    found[1] = stop;
    return stop != NULL;
}

static bool scan_gpt2(const char *p, const char *end, const char *found[2])
{
    const char *q = contraction(p, end, false);
    enum kind k;

    if (q > p)
        return put(p, q, found);
    q = p + (*p == ' ' && p + 1 < end);
    k = kind_of(*q);
    if (k == LETTER || k == DIGIT)
        return put(p, run(q, end, k), found);
    if (k == MARK || k == CONTROL)
        return put(p, run(q, end, MARK | CONTROL), found);
    return put(p, k == WIDE ? NULL : blanks(p, end, false), found);
}

/* Llama 3's and Qwen's, which differ in the digits of a number. */
static bool scan_llama3(const char *p, const char *end, int most, const char *found[2])
{
    enum kind k = kind_of(*p);
    const char *q = k == WIDE ? NULL : contraction(p, end, true);

    if (q != p)
        return put(p, q, found);
    if (k == LETTER)
        return put(p, run(p, end, LETTER), found);
    if (k == DIGIT)
        return put(p, digits(p, end, most), found);
    if (k != BREAK && (q = led_word(p, end)) != p)
        return put(p, q, found);
    if ((q = marks(p, end, MARK | CONTROL)) != p)
        return put(p, q, found);
    return put(p, blanks(p, end, true), found);
}

static bool scan_threes(const char *p, const char *end, const char *found[2])
{
    return scan_llama3(p, end, 3, found);
}

static bool scan_ones(const char *p, const char *end, const char *found[2])
{
    return scan_llama3(p, end, 1, found);
}

static bool scan_deepseek(const char *p, const char *end, const char *found[2])
{
    enum kind k = kind_of(*p);
    const char *q = p + 1;

    if (k == MARK && q < end && kind_of(*q) == LETTER) {
        while (q < end && kind_of(*q) == LETTER)
            q++;
        return put(p, q, found);
    }
    if (k == LETTER)
        return put(p, run(p, end, LETTER), found);
    if ((k & (CONTROL | DIGIT | BLANK)) != 0 && (q = led_word(p, end)) != p)
        return put(p, q, found);
    if ((q = marks(p, end, MARK)) != p)
        return put(p, q, found);
    return put(p, (k & SPACE) != 0 ? blanks(p, end, true) : NULL, found);
}

/* The next number, wherever it is. */
static bool scan_numbers(const char *p, const char *end, const char *found[2])
{
    while (p < end && (kind_of(*p) & (DIGIT | WIDE)) == 0)
        p++;
    return put(p, p < end && kind_of(*p) == WIDE ? NULL : digits(p, end, 3), found);
}

static bool scan_east(const char *p, const char *end, const char *found[2])
{
    const uint64_t high = 0x8080808080808080;

    for (uint64_t word = 0; (size_t)(end - p) >= sizeof(word); p += sizeof(word)) {
        memcpy(&word, p, sizeof(word));
        if ((word & high) != 0)
            return put(p, NULL, found);
    }
    while (p < end && (uint8_t)*p < 0x80)
        p++;
    return put(p, p < end ? NULL : p, found);
}

#define FOLDED "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *pattern;
    tr_tok_scan *scan;
} known[] = {
    {TR_TOK_GPT2, scan_gpt2},
    {FOLDED "{1,3}" REST, scan_threes},
    {FOLDED REST, scan_ones},
    {"\\p{N}{1,3}", scan_numbers},
    {"[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f\xe3\x82\xa0-\xe3\x83\xbf]+", scan_east},
    {"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
     "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
     scan_deepseek},
};

tr_tok_scan *tr_tok_scan_of(const char *pattern)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].pattern, pattern) == 0)
            return known[i].scan;
    return NULL;
}

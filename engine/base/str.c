#include "engine/base/str.h"

#include "engine/base/sys.h"

#include <stdio.h>
#include <string.h>

struct fr_str fr_str_of(const char *s)
{
    return (struct fr_str){s != NULL ? s : "", s != NULL ? strlen(s) : 0};
}

bool fr_str_eq(struct fr_str a, struct fr_str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool fr_str_is(struct fr_str a, const char *b)
{
    return fr_str_eq(a, fr_str_of(b));
}

bool fr_has_prefix(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool fr_str_ends(struct fr_str s, const char *ending)
{
    size_t n = strlen(ending);

    return s.n > n && memcmp(s.p + s.n - n, ending, n) == 0;
}

bool fr_next_line(struct fr_str *rest, struct fr_str *line)
{
    const char *end = rest->n > 0 ? memchr(rest->p, '\n', rest->n) : NULL;
    size_t n = end != NULL ? (size_t)(end - rest->p) : rest->n, taken = n + (end != NULL);

    if (taken == 0)
        return false;
    *line = (struct fr_str){rest->p, n};
    *rest = (struct fr_str){rest->p + taken, rest->n - taken};
    return true;
}

int fr_by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Room for n more bytes and a NUL. */
static bool reserve(struct fr_buf *b, size_t n)
{
    if (b->bad || n >= SIZE_MAX / 2 - b->n) {
        b->bad = true;
        return false;
    }
    size_t need = b->n + n + 1;
    if (need <= b->cap)
        return true;
    size_t cap = b->cap < 64 ? 64 : b->cap;
    while (cap < need)
        cap *= 2;
    char *p = fr_sys.realloc(b->p, cap);
    if (p == NULL) {
        b->bad = true;
        return false;
    }
    b->p = p;
    b->cap = cap;
    return true;
}

void fr_buf_room(struct fr_buf *b, size_t n)
{
    (void)reserve(b, n);
}

void fr_buf_add(struct fr_buf *b, const void *p, size_t n)
{
    if (!reserve(b, n))
        return;
    if (n > 0)
        memcpy(b->p + b->n, p, n);
    b->n += n;
    b->p[b->n] = '\0';
}

void fr_buf_text(struct fr_buf *b, const char *s)
{
    fr_buf_add(b, s, strlen(s));
}

void fr_buf_vfmt(struct fr_buf *b, const char *fmt, va_list ap)
{
    va_list again;

    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (n < 0)
        b->bad = true;
    else if (reserve(b, (size_t)n)) {
        vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    }
    va_end(again);
}

void fr_buf_fmt(struct fr_buf *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fr_buf_vfmt(b, fmt, ap);
    va_end(ap);
}

void fr_buf_cut(struct fr_buf *b, size_t n)
{
    if (n > b->n)
        n = b->n;
    if (n == 0)
        return;
    memmove(b->p, b->p + n, b->n - n);
    b->n -= n;
    b->p[b->n] = '\0';
}

void fr_buf_finish(struct fr_buf *b)
{
    if (b == NULL)
        return;
    fr_sys.free(b->p);
    *b = (struct fr_buf){0};
}

/* The length of the valid UTF-8 character at p (n > 0 bytes left), 0 when it is none. */
static size_t utf8_char(const unsigned char *p, size_t n)
{
    if (p[0] < 0x80)
        return 1;
    size_t len = p[0] >= 0xc2 && p[0] <= 0xdf   ? 2
                 : p[0] >= 0xe0 && p[0] <= 0xef ? 3
                 : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4
                                                : 0;
    if (len == 0 || len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return len;
}

bool fr_utf8_valid(const char *p, size_t n)
{
    const uint64_t high = 0x8080808080808080;
    size_t len;

    for (size_t i = 0; i < n; i += len) {
        uint64_t word = high;

        if (n - i >= sizeof(word))
            memcpy(&word, p + i, sizeof(word));
        len = sizeof(word); /* that many ASCII characters */
        if ((word & high) != 0 && (len = utf8_char((const unsigned char *)p + i, n - i)) == 0)
            return false;
    }
    return true;
}

/* Characters that are not seen, or that turn the text around them: zero-width space, marks and
 * embeddings of direction, byte order mark. Joiners belong to scripts and stay. */
static bool unseen(const unsigned char *c, size_t len)
{
    return len == 3 &&
           ((c[0] == 0xe2 && c[1] == 0x80 &&
             (c[2] == 0x8b || c[2] == 0x8e || c[2] == 0x8f || (c[2] >= 0xaa && c[2] <= 0xae))) ||
            (c[0] == 0xe2 && c[1] == 0x81 && c[2] >= 0xa0 && c[2] <= 0xa9) ||
            (c[0] == 0xef && c[1] == 0xbb && c[2] == 0xbf));
}

/* How the character at p is shown, in *shown (into hex when it must not be shown as it is); its
 * length. */
static size_t visible_char(const char *p, size_t n, char hex[5], struct fr_str *shown)
{
    const unsigned char *c = (const unsigned char *)p;
    size_t len = utf8_char(c, n);
    bool control =
        *c < 0x20 || *c == 0x7f || (len == 2 && c[0] == 0xc2 && c[1] < 0xa0) || unseen(c, len);

    *shown = (struct fr_str){p, len};
    if (len > 0 && (!control || *c == '\t'))
        return len;
    *shown = (struct fr_str){hex, (size_t)snprintf(hex, 5, "\\x%02x", *c)};
    return 1;
}

void fr_buf_visible(struct fr_buf *b, const char *p, size_t n)
{
    for (size_t i = 0, run = 0; i < n; run = i) {
        struct fr_str shown;
        char hex[5];

        while (i < n && p[i] >= 0x20 && p[i] < 0x7f)
            i++;
        fr_buf_add(b, p + run, i - run);
        if (i == n)
            break;
        i += visible_char(p + i, n - i, hex, &shown);
        fr_buf_add(b, shown.p, shown.n);
    }
}

size_t fr_visible(char *out, size_t cap, const char *p, size_t n)
{
    size_t i = 0, at = 0;

    while (i < n) {
        struct fr_str shown;
        char hex[5];
        size_t len = visible_char(p + i, n - i, hex, &shown);

        if (at + shown.n >= cap)
            break;
        memcpy(out + at, shown.p, shown.n);
        at += shown.n;
        i += len;
    }
    out[at] = '\0';
    return i;
}

bool fr_word_in(const char *words, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = strstr(words, word); n > 0 && at != NULL; at = strstr(at + 1, word))
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return strchr(word, ' ') == NULL;
    return false;
}

void fr_buf_words(struct fr_buf *b, const char *words)
{
    while (*words != '\0') {
        size_t n = strcspn(words, " ");

        fr_buf_add(b, words, n);
        words += n + (words[n] == ' ');
        if (*words != '\0')
            fr_buf_text(b, strchr(words, ' ') != NULL ? ", " : " or ");
    }
}

enum fr_rc fr_id_new(struct fr_id *id, struct fr_err *err)
{
    if (fr_sys.random(id->b, sizeof(id->b)) != 0)
        return fr_fail(err, FR_IO, "the system gave no random bytes");
    return FR_OK;
}

void fr_id_text(struct fr_id id, char out[FR_ID_TEXT])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < sizeof(id.b); i++) {
        out[2 * i] = digits[id.b[i] >> 4];
        out[2 * i + 1] = digits[id.b[i] & 15];
    }
    out[2 * sizeof(id.b)] = '\0';
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool fr_id_parse(struct fr_str s, struct fr_id *id)
{
    if (s.n != 2 * sizeof(id->b))
        return false;
    for (size_t i = 0; i < sizeof(id->b); i++) {
        int hi = hex_digit(s.p[2 * i]), lo = hex_digit(s.p[2 * i + 1]);
        if (hi < 0 || lo < 0)
            return false;
        id->b[i] = (uint8_t)(hi * 16 + lo);
    }
    return true;
}

bool fr_id_eq(struct fr_id a, struct fr_id b)
{
    return memcmp(a.b, b.b, sizeof(a.b)) == 0;
}

bool fr_id_zero(struct fr_id a)
{
    return fr_id_eq(a, (struct fr_id){{0}});
}

uint64_t fr_id_key(struct fr_id a)
{
    uint64_t key;

    memcpy(&key, a.b, sizeof(key));
    return key;
}

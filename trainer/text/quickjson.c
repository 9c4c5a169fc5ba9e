#include "trainer/text/quickjson.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { DEPTH = 32, DIGITS = 17 /* of an integer that needs no thought */ };

struct quick {
    const char *p, *end;
    struct fr_buf text; /* owns: a string without its escapes */
    int depth;
};

static char next(const struct quick *q)
{
    return q->p < q->end ? *q->p : '\0';
}

static void skip_blanks(struct quick *q)
{
    while (next(q) == ' ' || next(q) == '\n' || next(q) == '\t' || next(q) == '\r')
        q->p++;
}

static bool skip(struct quick *q, char c)
{
    skip_blanks(q);
    if (next(q) != c || q->p == q->end)
        return false;
    q->p++;
    return true;
}

#define EACH(c) (UINT64_C(0x0101010101010101) * (c))

/* Whether one of eight characters is below c, at most 128; of x ^ EACH(d) with c 1: is d. */
static bool below(uint64_t x, unsigned c)
{
    return ((x - EACH(c)) & ~x & EACH(0x80)) != 0;
}

/* After the plain characters that begin at p. */
static const char *plain(const char *p, const char *end)
{
    for (uint64_t x; (size_t)(end - p) >= sizeof(x); p += sizeof(x)) {
        memcpy(&x, p, sizeof(x));
        if (below(x, 0x20) || below(x ^ EACH('"'), 1) || below(x ^ EACH('\\'), 1))
            break;
    }
    while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20)
        p++;
    return p;
}

/* The character that an escape letter after \ denotes; 0: no plain escape. */
static char escaped(char c)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";

    for (size_t i = 0; i < sizeof(letters) - 1; i++)
        if (letters[i] == c)
            return meant[i];
    return 0;
}

/* The string that begins at its opening quote; its text lies in what is read, or in q->text. */
static bool read_string(struct quick *q, struct fr_str *out)
{
    const char *from = q->p + 1, *stop = plain(from, q->end);

    q->text.n = 0;
    while (stop + 1 < q->end && *stop == '\\') {
        char c = escaped(stop[1]);

        if (c == 0)
            return false;
        fr_buf_room(&q->text, (size_t)(q->end - from));
        fr_buf_add(&q->text, from, (size_t)(stop - from));
        fr_buf_add(&q->text, &c, 1);
        from = stop + 2;
        stop = plain(from, q->end);
    }
    if (stop == q->end || *stop != '"')
        return false;
    *out = (struct fr_str){from, (size_t)(stop - from)};
    if (q->text.n > 0) {
        fr_buf_add(&q->text, from, (size_t)(stop - from));
        *out = (struct fr_str){q->text.p, q->text.n};
    }
    q->p = stop + 1;
    return !q->text.bad;
}

static json_t *read_integer(struct quick *q)
{
    json_int_t v = 0;
    int n = 0;

    for (; next(q) >= '0' && next(q) <= '9' && n < DIGITS; n++)
        v = v * 10 + (*q->p++ - '0');
    if (n == 0 || n == DIGITS || next(q) == '.' || next(q) == 'e' || next(q) == 'E' ||
        (n > 1 && q->p[-n] == '0'))
        return NULL;
    return json_integer(v);
}

static json_t *read_word(struct quick *q)
{
    static const char *const words[] = {"null", "true", "false"};

    for (int i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);

        if ((size_t)(q->end - q->p) >= n && memcmp(q->p, words[i], n) == 0) {
            q->p += n;
            return i == 0 ? json_null() : json_boolean(i == 1);
        }
    }
    return NULL;
}

static json_t *read_value(struct quick *q);

static bool read_member(struct quick *q, json_t *object)
{
    struct fr_str key;
    char kept[64 + 1];

    skip_blanks(q);
    if (next(q) != '"' || !read_string(q, &key) || key.n >= sizeof(kept) || !skip(q, ':'))
        return false;
    memcpy(kept, key.p, key.n);
    kept[key.n] = '\0';
    return json_object_set_new_nocheck(object, kept, read_value(q)) == 0;
}

static bool read_item(struct quick *q, json_t *list)
{
    return json_array_append_new(list, read_value(q)) == 0;
}

/* After the opening bracket. */
static json_t *read_all(struct quick *q, json_t *whole, bool (*one)(struct quick *, json_t *),
                        char close)
{
    bool good = whole != NULL && q->depth++ < DEPTH;

    if (good && !skip(q, close)) {
        do
            good = one(q, whole);
        while (good && skip(q, ','));
        good = good && skip(q, close);
    }
    q->depth--;
    if (good)
        return whole;
    json_decref(whole);
    return NULL;
}

static json_t *read_value(struct quick *q)
{
    struct fr_str text;

    skip_blanks(q);
    switch (next(q)) {
    case '{':
        q->p++;
        return read_all(q, json_object(), read_member, '}');
    case '[':
        q->p++;
        return read_all(q, json_array(), read_item, ']');
    case '"':
        return read_string(q, &text) ? json_stringn_nocheck(text.p, text.n) : NULL;
    default:
        return next(q) >= '0' && next(q) <= '9' ? read_integer(q) : read_word(q);
    }
}

json_t *tr_quick_json(struct fr_str text)
{
    struct quick q = {.p = text.p, .end = text.p + text.n};
    json_t *v = fr_utf8_valid(text.p, text.n) ? read_value(&q) : NULL;

    skip_blanks(&q);
    if (v != NULL && q.p < q.end) {
        json_decref(v);
        v = NULL;
    }
    fr_buf_finish(&q.text);
    return v;
}

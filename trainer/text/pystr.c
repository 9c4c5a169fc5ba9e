#include "trainer/text/pyjson.h"

#include <string.h>

/* Bytes of the blank that p[0..n) begins with, 0: none. text is UTF-8. */
static size_t blank_at(const char *p, size_t n)
{
    static const char *const wide[] = {"\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80",
                                       "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf",
                                       "\xe2\x81\x9f", "\xe3\x80\x80"};

    if (n > 0 && (*p == ' ' || (*p >= '\t' && *p <= '\r') || (*p >= 0x1c && *p <= 0x1f)))
        return 1;
    if (n > 2 && memcmp(p, "\xe2\x80", 2) == 0 && (unsigned char)p[2] >= 0x80 &&
        (unsigned char)p[2] <= 0x8a) /* U+2000 to U+200A */
        return 3;
    for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++)
        if (strlen(wide[i]) <= n && memcmp(p, wide[i], strlen(wide[i])) == 0)
            return strlen(wide[i]);
    return 0;
}

struct fr_str tr_py_strip(struct fr_str text)
{
    size_t n, back;

    while ((n = blank_at(text.p, text.n)) > 0)
        text = (struct fr_str){text.p + n, text.n - n};
    for (;;) {
        for (back = 1; back < text.n && ((unsigned char)text.p[text.n - back] & 0xc0) == 0x80;)
            back++;
        if (text.n == 0 || blank_at(text.p + text.n - back, back) != back)
            return text;
        text.n -= back;
    }
}

#include "engine/api/range.h"

#include <string.h>
#include <strings.h>

static const char *opaque(const char *tag)
{
    return strncmp(tag, "W/", 2) == 0 ? tag + 2 : tag;
}

bool fr_etag_known(const char *if_none_match, const char *etag)
{
    const char *want = opaque(etag), *p = if_none_match;
    size_t n = strlen(want);

    for (p += strspn(p, " \t,"); *p != '\0'; p += strspn(p, " \t,")) {
        const char *end;

        if (*p == '*')
            return true;
        p = opaque(p);
        if (*p != '"' || (end = strchr(p + 1, '"')) == NULL)
            return false;
        if ((size_t)(end + 1 - p) == n && memcmp(p, want, n) == 0)
            return true;
        p = end + 1;
    }
    return false;
}

/* Reads digits and moves *p past them; a number that does not fit becomes UINT64_MAX. */
static bool number(const char **p, uint64_t *out)
{
    const char *from = *p;

    *out = 0;
    for (; **p >= '0' && **p <= '9'; (*p)++) {
        uint64_t digit = (uint64_t)(**p - '0');

        *out = *out > (UINT64_MAX - digit) / 10 ? UINT64_MAX : 10 * *out + digit;
    }
    return *p > from;
}

static enum fr_range part(uint64_t total, uint64_t first, uint64_t last, uint64_t *offset,
                          uint64_t *bytes)
{
    if (first >= total)
        return FR_RANGE_NONE;
    *offset = first;
    *bytes = (last < total - 1 ? last : total - 1) - first + 1;
    return FR_RANGE_PART;
}

enum fr_range fr_range_parse(const char *header, uint64_t total, uint64_t *offset, uint64_t *bytes)
{
    const char *p = header;
    uint64_t first, last;
    bool has_first, has_last;

    *offset = 0;
    *bytes = total;
    if (strncasecmp(p, "bytes=", 6) != 0)
        return FR_RANGE_WHOLE;
    p += 6;
    has_first = number(&p, &first);
    if (*p++ != '-')
        return FR_RANGE_WHOLE;
    has_last = number(&p, &last);
    if (*p != '\0' || (!has_first && !has_last) || (has_first && has_last && last < first))
        return FR_RANGE_WHOLE;
    if (has_first)
        return part(total, first, has_last ? last : UINT64_MAX, offset, bytes);
    if (last == 0)
        return FR_RANGE_NONE;
    return part(total, last < total ? total - last : 0, UINT64_MAX, offset, bytes);
}

#include "engine/web/target.h"

#include "engine/base/sign.h"

#include <string.h>

/* Decodes [p, end) to *to, which moves behind the NUL. FR_USAGE: a bad escape, a control character,
 * not UTF-8. */
static enum fr_rc decode(const char *p, const char *end, bool plus, char **to, struct fr_err *err)
{
    char *from = *to;

    for (; p < end; p++) {
        char c = *p;

        if (c == '%') {
            if (end - p < 3 || fr_hex_digit(p[1]) < 0 || fr_hex_digit(p[2]) < 0)
                return fr_fail(err, FR_USAGE, "the target has a \"%%\" without two hex digits");
            c = (char)(fr_hex_digit(p[1]) << 4 | fr_hex_digit(p[2]));
            p += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        if ((unsigned char)c < 0x20 || c == 0x7f)
            return fr_fail(err, FR_USAGE, "the target has a control character");
        *(*to)++ = c;
    }
    if (!fr_utf8_valid(from, (size_t)(*to - from)))
        return fr_fail(err, FR_USAGE, "the target is not UTF-8");
    *(*to)++ = '\0';
    return FR_OK;
}

/* No empty segment but the last, and none that means another place. */
static enum fr_rc check_path(const char *path, struct fr_err *err)
{
    for (const char *p = path; *p == '/';) {
        size_t n = strcspn(p + 1, "/");

        if ((n == 0 && p[1] == '/') || (n == 1 && p[1] == '.') ||
            (n == 2 && p[1] == '.' && p[2] == '.'))
            return fr_fail(err, FR_USAGE, "the path has \"//\", \"/.\" or \"/..\"");
        p += 1 + n;
    }
    return FR_OK;
}

static enum fr_rc add_pair(struct fr_target *t, const char *p, const char *end, char **to,
                           struct fr_err *err)
{
    const char *eq = memchr(p, '=', (size_t)(end - p)), *name_end = eq != NULL ? eq : end;
    struct fr_api_pair *pair = &t->query[t->n_query];
    enum fr_rc rc;

    if (t->n_query == FR_TARGET_PAIRS)
        return fr_fail(err, FR_FULL, "the query has more than %d values", FR_TARGET_PAIRS);
    pair->name = *to;
    if ((rc = decode(p, name_end, true, to, err)) != FR_OK)
        return rc;
    pair->value = *to;
    if ((rc = decode(eq != NULL ? eq + 1 : end, end, true, to, err)) != FR_OK)
        return rc;
    t->n_query++;
    return FR_OK;
}

static enum fr_rc parse_query(struct fr_target *t, const char *p, char **to, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    while (rc == FR_OK && *p != '\0') {
        size_t n = strcspn(p, "&");

        if (n > 0)
            rc = add_pair(t, p, p + n, to, err);
        p += n + (p[n] == '&');
    }
    return rc;
}

enum fr_rc fr_target_parse(const char *raw, struct fr_target *out, struct fr_err *err)
{
    size_t n = strnlen(raw, FR_TARGET_MAX + 1), n_path = strcspn(raw, "?");
    char *to = out->text;
    enum fr_rc rc;

    out->path = out->text;
    out->n_query = 0;
    if (n > FR_TARGET_MAX)
        return fr_fail(err, FR_FULL, "the target is longer than %d bytes", FR_TARGET_MAX);
    if (raw[0] != '/')
        return fr_fail(err, FR_USAGE, "the target is not a path");
    for (size_t i = 0; i < n; i++)
        if (raw[i] <= ' ' || raw[i] > '~' || raw[i] == '#')
            return fr_fail(err, FR_USAGE, "the target has a character that must be encoded");
    if ((rc = decode(raw, raw + n_path, false, &to, err)) != FR_OK ||
        (rc = check_path(out->path, err)) != FR_OK)
        return rc;
    return raw[n_path] == '?' ? parse_query(out, raw + n_path + 1, &to, err) : FR_OK;
}

static bool all_of(const char *p, size_t n, const char *set)
{
    for (size_t i = 0; i < n; i++)
        if (strchr(set, p[i]) == NULL)
            return false;
    return n > 0;
}

#define DIGITS "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

bool fr_target_host_valid(const char *host)
{
    size_t n = host[0] == '[' ? strcspn(host, "]") : strcspn(host, ":");
    bool ok;

    if (host[0] == '[') {
        ok = host[n] == ']' && all_of(host + 1, n - 1, DIGITS "abcdefABCDEF:.");
        n += host[n] == ']';
    } else {
        ok = all_of(host, n, DIGITS LETTERS "-._~");
    }
    if (!ok || n > 255)
        return false;
    return host[n] == '\0' || (host[n] == ':' && strlen(host + n) <= 6 &&
                               all_of(host + n + 1, strlen(host + n + 1), DIGITS));
}

#include "engine/notify/otel.h"

#include "engine/base/json.h"
#include "engine/base/sign.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char blanks[] = " \t\r\n\v\f";

static struct fr_str trim(struct fr_str s)
{
    while (s.n > 0 && strchr(blanks, s.p[0]) != NULL)
        s = (struct fr_str){s.p + 1, s.n - 1};
    while (s.n > 0 && strchr(blanks, s.p[s.n - 1]) != NULL)
        s.n--;
    return s;
}

/* Takes the next entry off *list. False: there is none. */
static bool next_entry(const char **list, struct fr_str *out)
{
    size_t n;

    if (*list == NULL)
        return false;
    n = strcspn(*list, ",");
    *out = trim((struct fr_str){*list, n});
    *list = (*list)[n] == ',' ? *list + n + 1 : NULL;
    return true;
}

/* Two parts of "key=value", without blanks around them. */
static bool split(struct fr_str entry, struct fr_str *key, struct fr_str *value)
{
    const char *eq = memchr(entry.p, '=', entry.n);

    if (eq == NULL)
        return false;
    *key = trim((struct fr_str){entry.p, (size_t)(eq - entry.p)});
    *value = trim((struct fr_str){eq + 1, entry.n - (size_t)(eq - entry.p) - 1});
    return true;
}

/* Adds s with %XX decoded. */
static void decode(struct fr_str s, struct fr_buf *out)
{
    for (size_t i = 0; i < s.n; i++) {
        bool coded = s.p[i] == '%' && s.n - i > 2 && fr_hex_digit(s.p[i + 1]) >= 0 &&
                     fr_hex_digit(s.p[i + 2]) >= 0;
        char c = (char)(coded ? fr_hex_digit(s.p[i + 1]) << 4 | fr_hex_digit(s.p[i + 2]) : s.p[i]);

        fr_buf_add(out, &c, 1);
        i += coded ? 2 : 0;
    }
}

static bool is_printed(char c)
{
    return (unsigned char)c >= ' ' && (unsigned char)c < 0x7f;
}

static bool is_key(struct fr_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!is_printed(s.p[i]) || strchr(" \"(),/:;<=>?@[\\]{}", s.p[i]) != NULL)
            return false;
    return s.n > 0;
}

/* *coded: it may be URL encoded; a value with a blank is taken as it is. */
static bool is_value(struct fr_str s, bool *coded)
{
    *coded = true;
    for (size_t i = 0; i < s.n; i++) {
        if (!is_printed(s.p[i]) || strchr("\",;\\", s.p[i]) != NULL)
            return false;
        *coded = *coded && s.p[i] != ' ';
    }
    return true;
}

/* What HTTP takes as a name and a value. */
static bool can_be_sent(struct fr_str name, struct fr_str value)
{
    for (size_t i = 0; i < value.n; i++)
        if ((unsigned char)value.p[i] < ' ' || value.p[i] == 0x7f)
            return false;
    return is_key(name);
}

static bool put(json_t *out, struct fr_str key, struct fr_str value)
{
    return fr_json_put(out, key, json_stringn(value.p, value.n));
}

static bool put_header(json_t *out, struct fr_str entry)
{
    struct fr_str key, value, sent;
    struct fr_buf name = {0}, text = {0};
    bool coded, ok = split(entry, &key, &value) && is_key(key) && is_value(value, &coded);

    if (ok && coded) {
        decode(key, &name);
        decode(value, &text);
    } else if (ok) {
        fr_buf_add(&name, key.p, key.n);
        fr_buf_add(&text, value.p, value.n);
    }
    for (size_t i = 0; i < name.n; i++)
        if (name.p[i] >= 'A' && name.p[i] <= 'Z')
            name.p[i] = (char)(name.p[i] | 0x20);
    sent = trim((struct fr_str){text.n > 0 ? text.p : "", text.n});
    key = trim((struct fr_str){name.n > 0 ? name.p : "", name.n});
    ok = ok && !name.bad && !text.bad && can_be_sent(key, sent) && put(out, key, sent);
    fr_buf_finish(&name);
    fr_buf_finish(&text);
    return ok;
}

json_t *fr_otel_headers(const char *list, size_t *bad)
{
    json_t *out = json_object();
    struct fr_str entry;

    *bad = 0;
    while (out != NULL && next_entry(&list, &entry))
        *bad += entry.n > 0 && !put_header(out, entry);
    return out;
}

json_t *fr_otel_attributes(const char *list)
{
    json_t *out = json_object();
    struct fr_str entry, key, value;

    while (out != NULL && next_entry(&list, &entry)) {
        struct fr_buf text = {0};

        if (split(entry, &key, &value)) {
            decode(value, &text);
            if (!text.bad)
                (void)put(out, key, (struct fr_str){text.n > 0 ? text.p : "", text.n});
        }
        fr_buf_finish(&text);
    }
    return out;
}

void fr_otel_endpoint(const char *base, const char *path, struct fr_buf *out)
{
    size_t n = strcspn(base, "?#"), slash = n > 0 && base[n - 1] == '/';

    fr_buf_add(out, base, n - slash);
    fr_buf_text(out, path);
    fr_buf_text(out, base + n);
}

bool fr_otel_wanted(void)
{
    const char *disabled = getenv("OTEL_SDK_DISABLED"), *list = getenv("OTEL_TRACES_EXPORTER");
    struct fr_str word = trim(fr_str_of(disabled));

    if (word.n == 4 && strncasecmp(word.p, "true", 4) == 0)
        return false;
    if (list == NULL || list[0] == '\0')
        return true;
    while (next_entry(&list, &word))
        if (word.n >= 4 && memcmp(word.p, "otlp", 4) == 0)
            return true;
    return false;
}

json_t *fr_otel_resource(json_t *base)
{
    json_t *given = fr_otel_attributes(getenv("OTEL_RESOURCE_ATTRIBUTES"));
    const char *service = getenv("OTEL_SERVICE_NAME");

    if (service != NULL && service[0] != '\0')
        json_object_set_new(given, "service.name", json_string(service));
    json_object_update(base, given);
    json_decref(given);
    return base;
}

/* The elements of a list that is known as JSON: items with a value each. */
#include "engine/spec/items.h"

#include "engine/base/json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 40 /* bytes of a wrong list in its message */, MEMBER_MAX = 256 };

/* A text that stands in a message, as its beginning, on one line. */
static const char *begin_of(struct fr_arena *arena, struct fr_str text)
{
    size_t n = text.n < SHOWN ? text.n : SHOWN;
    char *out;

    while (n > 0 && n < text.n && ((unsigned char)text.p[n] & 0xc0) == 0x80)
        n--;
    out = fr_arena_fmt(arena, "'%.*s%s'", (int)n, text.p, n < text.n ? "…" : "");
    for (char *p = out; p != NULL && *p != '\0'; p++)
        if (iscntrl((unsigned char)*p))
            *p = ' ';
    return out != NULL ? out : "";
}

static enum fr_rc parse(struct fr_str text, struct fr_arena *arena, json_t **out,
                        struct fr_err *err)
{
    json_error_t e;
    size_t blank = 0;

    while (blank < text.n && isspace((unsigned char)text.p[blank]))
        blank++;
    if (text.n > FR_ELEMENTS_MAX)
        return fr_fail(err, FR_USAGE, "it has %zu bytes, more than %d", text.n, FR_ELEMENTS_MAX);
    if (blank == text.n)
        return fr_fail(err, FR_USAGE, "it is empty, and no list: an empty one is '[]'");
    if (text.p[blank] != '[' && text.p[blank] != '{')
        return fr_fail(err, FR_USAGE, "it is no list of JSON, as [\"a\", \"b\"], nor a map: %s",
                       begin_of(arena, text));
    *out = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, &e); /* none of its texts has a NUL */
    if (*out != NULL)
        return FR_OK;
    if (json_error_code(&e) == json_error_out_of_memory)
        return fr_fail(err, FR_NOMEM, "no memory for a list");
    return fr_fail(err, FR_USAGE, "it is no JSON (%d:%d: %s): %s", e.line, e.column, e.text,
                   begin_of(arena, text));
}

/* The type of a scalar, and its text as of a value of a matrix. False: it is a list or a map. */
static bool scalar_of(const json_t *v, struct fr_scalar *out, struct fr_buf *text)
{
    struct fr_buf number = {0};

    switch (json_typeof(v)) {
    case JSON_STRING:
        out->type = FR_SCALAR_TEXT;
        fr_buf_text(text, json_string_value(v));
        return true;
    case JSON_INTEGER:
        out->type = FR_SCALAR_INT;
        fr_buf_fmt(text, "%lld", (long long)json_integer_value(v));
        return true;
    case JSON_REAL:
        fr_json_add(&number, v, JSON_ENCODE_ANY);
        if (!number.bad)
            (void)fr_scalar_read((struct fr_str){number.p, number.n}, false, &out->type, text);
        text->bad = text->bad || number.bad;
        fr_buf_finish(&number);
        return true;
    case JSON_TRUE:
    case JSON_FALSE:
        out->type = FR_SCALAR_BOOL;
        fr_buf_text(text, json_is_true(v) ? "true" : "false");
        return true;
    case JSON_NULL:
        out->type = FR_SCALAR_NULL;
        return true;
    default:
        return false;
    }
}

/* The value as JSON, in which numbers are as short as in keys. */
static void put_json(const json_t *v, struct fr_buf *out)
{
    struct fr_scalar s;
    struct fr_buf text = {0};
    const char *key, *gap = "";
    json_t *value;
    size_t i;

    if (json_is_array(v)) {
        fr_buf_text(out, "[");
        json_array_foreach(v, i, value)
        {
            fr_buf_text(out, i > 0 ? "," : "");
            put_json(value, out);
        }
        fr_buf_text(out, "]");
    } else if (json_is_object(v)) {
        fr_buf_text(out, "{");
        json_object_foreach((json_t *)v, key, value)
        {
            fr_buf_text(out, gap);
            fr_json_add_text(out, key);
            fr_buf_text(out, ":");
            put_json(value, out);
            gap = ",";
        }
        fr_buf_text(out, "}");
    } else if (json_is_string(v)) {
        fr_json_add_text(out, json_string_value(v));
    } else if (json_is_number(v) && scalar_of(v, &s, &text)) {
        fr_buf_add(out, text.p, text.n);
    } else {
        fr_json_add(out, v, JSON_ENCODE_ANY);
    }
    out->bad = out->bad || text.bad;
    fr_buf_finish(&text);
}

/* A copy of what b has, which is empty then. */
static const char *keep(struct fr_arena *arena, struct fr_buf *b)
{
    const char *out = b->bad ? NULL : fr_arena_text(arena, b->p != NULL ? b->p : "", b->n);

    b->n = 0;
    return out;
}

static bool is_printable(const char *text)
{
    for (const char *p = text; *p != '\0'; p++)
        if (iscntrl((unsigned char)*p))
            return false;
    return strlen(text) <= FR_ELEMENT_KEY_MAX;
}

struct reading { /* texts in the making */
    struct fr_arena *arena;
    struct fr_buf json, text, key;
};

/* A copy of what b has, or text where that is the same. */
static const char *keep_as(struct fr_arena *arena, struct fr_buf *b, const char *text)
{
    bool same = !b->bad && b->n == strlen(text) && memcmp(b->p, text, b->n) == 0;

    if (!same)
        return keep(arena, b);
    b->n = 0;
    return text;
}

/* A scalar that may be a key has it; else key is NULL. */
static enum fr_rc read_element(struct reading *r, const json_t *v, struct fr_item *out,
                               struct fr_err *err)
{
    struct fr_scalar s = {FR_SCALAR_NULL, ""};
    bool scalar = scalar_of(v, &s, &r->text), plain;

    *out = (struct fr_item){.text = scalar ? keep(r->arena, &r->text) : NULL};
    if (scalar && out->text == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a list");
    plain = scalar && s.type != FR_SCALAR_TEXT && s.type != FR_SCALAR_NULL;
    if (!plain)
        put_json(v, &r->json);
    out->json = plain ? out->text : keep(r->arena, &r->json);
    if (out->json == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a list");
    if (strlen(out->json) > FR_ELEMENT_MAX)
        return fr_fail(err, FR_USAGE, "an element has %zu bytes, more than %d", strlen(out->json),
                       FR_ELEMENT_MAX);
    if (!scalar) {
        out->text = out->json;
        return FR_OK;
    }
    s.text = out->text;
    if (!is_printable(s.text))
        return FR_OK;
    fr_scalar_key(&s, &r->key);
    out->key = keep_as(r->arena, &r->key, out->text);
    return out->key != NULL ? FR_OK : fr_fail(err, FR_NOMEM, "no memory for a list");
}

static int by_key(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Whether the values are keys: all are there, and no two are alike. */
static bool keys_differ(const struct fr_item *v, size_t n, const char **sorted)
{
    for (size_t i = 0; i < n; i++)
        if ((sorted[i] = v[i].key) == NULL)
            return false;
    qsort(sorted, n, sizeof(*sorted), by_key);
    for (size_t i = 1; i < n; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            return false;
    return true;
}

static enum fr_rc number_keys(struct fr_item *v, size_t n, struct fr_arena *arena,
                              struct fr_err *err)
{
    for (size_t i = 0; i < n; i++)
        if ((v[i].key = fr_arena_fmt(arena, "%zu", i)) == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for a list");
    return FR_OK;
}

/* A map as the list of its pairs. NULL: no memory. Takes doc. */
static json_t *pairs_of(json_t *doc)
{
    json_t *list = json_is_object(doc) ? json_array() : doc, *value;
    const char *key;

    if (list == doc)
        return doc;
    json_object_foreach(doc, key, value)
    {
        if (json_array_append_new(list, json_pack("{s:s, s:O}", "key", key, "value", value)) == 0)
            continue;
        json_decref(list);
        list = NULL;
        break;
    }
    json_decref(doc);
    return list;
}

static enum fr_rc read_elements(const json_t *list, struct fr_arena *arena, struct fr_items *out,
                                struct fr_err *err)
{
    size_t n = json_array_size(list);
    struct fr_item *v = fr_arena_array(arena, n + 1, sizeof(*v));
    const char **sorted = fr_arena_array(arena, n + 1, sizeof(*sorted));
    struct reading r = {.arena = arena};
    enum fr_rc rc = FR_OK;

    if (v == NULL || sorted == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a list");
    for (size_t i = 0; rc == FR_OK && i < n; i++)
        rc = read_element(&r, json_array_get(list, i), &v[i], err);
    fr_buf_finish(&r.json);
    fr_buf_finish(&r.text);
    fr_buf_finish(&r.key);
    if (rc == FR_OK && !keys_differ(v, n, sorted))
        rc = number_keys(v, n, arena, err);
    *out = (struct fr_items){.v = v, .n = n, .of_list = true};
    return rc;
}

enum fr_rc fr_items_read(struct fr_str text, struct fr_arena *arena, struct fr_items *out,
                         struct fr_err *err)
{
    json_t *doc = NULL;
    enum fr_rc rc = parse(text, arena, &doc, err);

    if (rc != FR_OK)
        return rc;
    if ((doc = pairs_of(doc)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a list");
    if (json_array_size(doc) > FR_ITEMS_MAX)
        rc = fr_fail(err, FR_USAGE, "it has %zu elements, more than %d", json_array_size(doc),
                     FR_ITEMS_MAX);
    else
        rc = read_elements(doc, arena, out, err);
    json_decref(doc);
    return rc;
}

/* The member that path names; NULL: there is none. */
static const json_t *member_of(const json_t *v, const char *path)
{
    char name[MEMBER_MAX];

    for (size_t n; v != NULL && *path != '\0'; path += n + (path[n] == '.')) {
        n = strcspn(path, ".");
        if (n >= sizeof(name))
            return NULL;
        memcpy(name, path, n);
        name[n] = '\0';
        v = json_object_get(v, name);
    }
    return v;
}

enum fr_rc fr_item_member(const struct fr_item *item, const char *path, struct fr_buf *out,
                          struct fr_err *err)
{
    struct fr_scalar s;
    const json_t *v;
    json_t *doc;
    enum fr_rc rc = FR_OK;

    if (path == NULL) {
        fr_buf_text(out, item->text);
        return FR_OK;
    }
    if (item->json[0] != '{')
        return fr_fail(err, FR_NOTFOUND, "the element is no map, so it has no '%s'", path);
    if ((rc = fr_json_parse(fr_str_of(item->json), "the element", &doc, err)) != FR_OK)
        return rc;
    if ((v = member_of(doc, path)) == NULL)
        rc = fr_fail(err, FR_NOTFOUND, "the element has no '%s'", path);
    else if (!scalar_of(v, &s, out))
        put_json(v, out);
    json_decref(doc);
    return rc;
}

#include "engine/base/json.h"

#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"

#include <math.h>
#include <string.h>

enum fr_rc fr_json_parse(struct fr_str text, const char *name, json_t **out, struct fr_err *err)
{
    json_error_t e;

    *out = NULL;
    if (text.n >= 3 && memcmp(text.p, "\xef\xbb\xbf", 3) == 0)
        return fr_fail(err, FR_USAGE,
                       "%s:1:1: a byte order mark stands before the JSON; save the file as UTF-8 "
                       "without one",
                       name);
    *out =
        json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &e);
    if (*out != NULL)
        return FR_OK;
    if (json_error_code(&e) == json_error_out_of_memory)
        return fr_fail(err, FR_NOMEM, "%s: no memory to read JSON", name);
    return fr_fail(err, FR_USAGE, "%s:%d:%d: %s", name, e.line, e.column, e.text);
}

typedef enum fr_rc reader(const char *path, size_t max_bytes, struct fr_buf *out,
                          struct fr_err *err);

static enum fr_rc load(reader *read, const char *path, size_t max_bytes, json_t **out,
                       struct fr_err *err)
{
    struct fr_buf text = {0};
    enum fr_rc rc = read(path, max_bytes, &text, err);

    *out = NULL;
    if (rc == FR_OK)
        rc = fr_json_parse((struct fr_str){text.p != NULL ? text.p : "", text.n}, path, out, err);
    fr_buf_finish(&text);
    return rc;
}

enum fr_rc fr_json_load(const char *path, size_t max_bytes, json_t **out, struct fr_err *err)
{
    return load(fr_file_read, path, max_bytes, out, err);
}

enum fr_rc fr_json_load_any(const char *path, size_t max_bytes, json_t **out, struct fr_err *err)
{
    return load(fr_file_read_any, path, max_bytes, out, err);
}

static int dump(const char *p, size_t n, void *buf)
{
    fr_buf_add(buf, p, n);
    return ((struct fr_buf *)buf)->bad ? -1 : 0;
}

void fr_json_add(struct fr_buf *out, const json_t *value, size_t flags)
{
    if (json_dump_callback(value, dump, out, flags) != 0)
        out->bad = true;
}

void fr_json_add_text(struct fr_buf *out, const char *text)
{
    json_t *value = json_string(text);

    fr_json_add(out, value, JSON_ENCODE_ANY);
    json_decref(value);
}

enum fr_rc fr_json_print(const json_t *value, size_t flags, struct fr_err *err)
{
    struct fr_buf text = {0};
    enum fr_rc rc = FR_OK;

    fr_json_add(&text, value, flags);
    if (text.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for JSON");
    else
        fr_print("%s\n", text.p);
    fr_buf_finish(&text);
    return rc;
}

json_t *fr_json_texts(const char *const *texts, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_string(texts[i]));
    return list;
}

enum fr_rc fr_json_save(const json_t *value, const char *path, size_t flags, unsigned mode,
                        struct fr_err *err)
{
    struct fr_buf text = {0};
    enum fr_rc rc;

    fr_json_add(&text, value, flags);
    fr_buf_text(&text, "\n");
    rc = text.bad ? fr_fail(err, FR_NOMEM, "%s: no memory to write JSON", path)
                  : fr_file_write(path, text.p, text.n, (mode_t)mode, err);
    fr_buf_finish(&text);
    return rc;
}

const char *fr_json_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

bool fr_json_has(const json_t *list, const char *text)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_is_string(json_array_get(list, i)) &&
            strcmp(json_string_value(json_array_get(list, i)), text) == 0)
            return true;
    return false;
}

json_t *fr_json_real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

/* jansson before 2.14 has no keys with a NUL, and refuses files with them. */
#if JANSSON_VERSION_HEX >= 0x020e00
bool fr_json_put(json_t *object, struct fr_str key, json_t *value)
{
    return json_object_setn_new(object, key.p, key.n, value) == 0;
}

struct fr_str fr_json_key(void *at)
{
    return (struct fr_str){json_object_iter_key(at), json_object_iter_key_len(at)};
}
#else
bool fr_json_put(json_t *object, struct fr_str key, json_t *value)
{
    char *name = fr_sys.alloc(key.n + 1);
    bool done;

    if (name == NULL) {
        json_decref(value);
        return false;
    }
    memcpy(name, key.p, key.n);
    name[key.n] = '\0';
    done = json_object_set_new(object, name, value) == 0;
    fr_sys.free(name);
    return done;
}

struct fr_str fr_json_key(void *at)
{
    return fr_str_of(json_object_iter_key(at));
}
#endif

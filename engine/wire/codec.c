#include "engine/wire/codec.h"

#include <string.h>

/* Every list struct has this layout. */
struct list {
    char *v;
    size_t n;
};

_Static_assert(sizeof(struct fr_strs) == sizeof(struct list), "list layout");
_Static_assert(sizeof(struct fr_ids) == sizeof(struct list), "list layout");

uint32_t fr_get_u32(const void *p)
{
    const uint8_t *b = p;

    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

void fr_put_u32(void *p, uint32_t v)
{
    uint8_t *b = p;

    for (int i = 0; i < 4; i++)
        b[i] = (uint8_t)(v >> (8 * i));
}

static void add_u32(struct fr_buf *out, uint32_t v)
{
    uint8_t b[4];

    fr_put_u32(b, v);
    fr_buf_add(out, b, sizeof(b));
}

static void add_bytes(struct fr_buf *out, struct fr_str s)
{
    add_u32(out, (uint32_t)s.n);
    fr_buf_add(out, s.p, s.n);
}

/* An item of a list, as a field of its own at offset 0; *size: of the item in memory. */
static struct fr_field item_of(const struct fr_field *list, size_t *size)
{
    switch (list->kind) {
    case FR_FIELD_TEXTS:
        *size = sizeof(struct fr_str);
        return (struct fr_field){FR_FIELD_TEXT, 0, NULL};
    case FR_FIELD_IDS:
        *size = sizeof(struct fr_id);
        return (struct fr_field){FR_FIELD_ID, 0, NULL};
    default:
        *size = list->shape()->size;
        return (struct fr_field){FR_FIELD_STRUCT, 0, list->shape};
    }
}

static void put_struct(const struct fr_shape *shape, const void *v, struct fr_buf *out)
{
    size_t at = out->n;

    add_u32(out, 0);
    fr_shape_put(shape, v, out);
    if (!out->bad)
        fr_put_u32(out->p + at, (uint32_t)(out->n - at - 4));
}

static void put_field(const struct fr_field *f, const void *v, struct fr_buf *out)
{
    const struct list *list = v;
    struct fr_field item;
    uint64_t u;
    size_t size;

    switch (f->kind) {
    case FR_FIELD_BOOL:
        fr_buf_add(out, &(uint8_t){*(const bool *)v}, 1);
        break;
    case FR_FIELD_U32:
        add_u32(out, *(const uint32_t *)v);
        break;
    case FR_FIELD_U64:
        u = *(const uint64_t *)v;
        add_u32(out, (uint32_t)u);
        add_u32(out, (uint32_t)(u >> 32));
        break;
    case FR_FIELD_ID:
        fr_buf_add(out, v, sizeof(struct fr_id));
        break;
    case FR_FIELD_TEXT:
    case FR_FIELD_BYTES:
        add_bytes(out, *(const struct fr_str *)v);
        break;
    case FR_FIELD_STRUCT:
        put_struct(f->shape(), v, out);
        break;
    default:
        item = item_of(f, &size);
        add_u32(out, (uint32_t)list->n);
        for (size_t i = 0; i < list->n; i++)
            put_field(&item, list->v + i * size, out);
    }
}

void fr_shape_put(const struct fr_shape *shape, const void *p, struct fr_buf *out)
{
    for (size_t i = 0; i < shape->n; i++)
        put_field(&shape->fields[i], (const char *)p + shape->fields[i].at, out);
}

struct reader {
    const char *p, *end;
    struct fr_arena *arena;
    struct fr_err *err;
    const char *name; /* of the message, for errors */
};

static enum fr_rc cut_short(struct reader *r)
{
    return fr_fail(r->err, FR_PROTO, "%s: a field runs past the end of the message", r->name);
}

static enum fr_rc take(struct reader *r, size_t n, const char **p)
{
    if ((size_t)(r->end - r->p) < n)
        return cut_short(r);
    *p = r->p;
    r->p += n;
    return FR_OK;
}

static enum fr_rc take_u32(struct reader *r, uint32_t *v)
{
    const char *p = NULL;
    enum fr_rc rc = take(r, 4, &p);

    if (rc == FR_OK)
        *v = fr_get_u32(p);
    return rc;
}

static enum fr_rc take_bytes(struct reader *r, struct fr_str *s)
{
    uint32_t n;
    enum fr_rc rc = take_u32(r, &n);
    const char *p = NULL;

    if (rc == FR_OK)
        rc = take(r, n, &p);
    if (rc != FR_OK)
        return rc;
    char *copy = fr_arena_text(r->arena, p, n);
    if (copy == NULL)
        return fr_fail(r->err, FR_NOMEM, "%s: no memory", r->name);
    *s = (struct fr_str){copy, n};
    return FR_OK;
}

static enum fr_rc take_text(struct reader *r, struct fr_str *s)
{
    enum fr_rc rc = take_bytes(r, s);

    if (rc == FR_OK && memchr(s->p, '\0', s->n) != NULL)
        return fr_fail(r->err, FR_PROTO, "%s: a NUL byte inside a text", r->name);
    return rc;
}

static enum fr_rc take_id(struct reader *r, struct fr_id *id)
{
    const char *p = NULL;
    enum fr_rc rc = take(r, sizeof(*id), &p);

    if (rc == FR_OK)
        memcpy(id, p, sizeof(*id));
    return rc;
}

static enum fr_rc take_struct(struct reader *r, const struct fr_shape *shape, void *v)
{
    uint32_t n;
    const char *p = NULL;
    enum fr_rc rc = take_u32(r, &n);

    if (rc == FR_OK)
        rc = take(r, n, &p);
    return rc == FR_OK ? fr_shape_get(shape, (struct fr_str){p, n}, r->arena, v, r->err) : rc;
}

static enum fr_rc take_field(struct reader *r, const struct fr_field *f, void *v);

static enum fr_rc take_list(struct reader *r, const struct fr_field *f, struct list *list)
{
    size_t size;
    struct fr_field item = item_of(f, &size);
    uint32_t n;
    enum fr_rc rc = take_u32(r, &n);

    if (rc != FR_OK)
        return rc;
    /* an item takes 4 bytes or more: a short message cannot ask for a long list */
    if (n > FR_LIST_MAX || n > (size_t)(r->end - r->p) / 4)
        return fr_fail(r->err, FR_PROTO, "%s: a list of %u items", r->name, n);
    if (n == 0)
        return FR_OK;
    if ((list->v = fr_arena_array(r->arena, n, size)) == NULL)
        return fr_fail(r->err, FR_NOMEM, "%s: no memory", r->name);
    list->n = n;
    for (size_t i = 0; i < n && rc == FR_OK; i++)
        rc = take_field(r, &item, list->v + i * size);
    return rc;
}

static enum fr_rc take_number(struct reader *r, enum fr_field_kind kind, void *v)
{
    size_t n = kind == FR_FIELD_BOOL ? 1 : kind == FR_FIELD_U32 ? 4 : 8;
    const char *p = NULL;
    enum fr_rc rc = take(r, n, &p);

    if (rc != FR_OK)
        return rc;
    if (kind == FR_FIELD_BOOL) {
        if (*p != 0 && *p != 1)
            return fr_fail(r->err, FR_PROTO, "%s: a truth value of %d", r->name, *p);
        *(bool *)v = *p == 1;
    } else if (kind == FR_FIELD_U32) {
        *(uint32_t *)v = fr_get_u32(p);
    } else {
        *(uint64_t *)v = (uint64_t)fr_get_u32(p) | (uint64_t)fr_get_u32(p + 4) << 32;
    }
    return FR_OK;
}

static enum fr_rc take_field(struct reader *r, const struct fr_field *f, void *v)
{
    switch (f->kind) {
    case FR_FIELD_BOOL:
    case FR_FIELD_U32:
    case FR_FIELD_U64:
        return take_number(r, f->kind, v);
    case FR_FIELD_ID:
        return take_id(r, v);
    case FR_FIELD_TEXT:
        return take_text(r, v);
    case FR_FIELD_BYTES:
        return take_bytes(r, v);
    case FR_FIELD_STRUCT:
        return take_struct(r, f->shape(), v);
    default:
        return take_list(r, f, v);
    }
}

enum fr_rc fr_shape_get(const struct fr_shape *shape, struct fr_str bytes, struct fr_arena *arena,
                        void *p, struct fr_err *err)
{
    const char *p0 = bytes.n > 0 ? bytes.p : "";
    struct reader r = {p0, p0 + bytes.n, arena, err, shape->name};
    enum fr_rc rc = FR_OK;

    memset(p, 0, shape->size);
    for (size_t i = 0; i < shape->n && r.p < r.end && rc == FR_OK; i++)
        rc = take_field(&r, &shape->fields[i], (char *)p + shape->fields[i].at);
    return rc;
}

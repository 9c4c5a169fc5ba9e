/*
 * The encoding of open structs by tables of their fields: used for messages (wire.h) and for the
 * records of a node's journal. Integers little-endian; text u32 length + bytes; lists u32 count +
 * items; a struct inside another, or in a list, is preceded by the u32 length of its encoding, so
 * that either side may know more fields than the other (see wire.h).
 */
#ifndef FR_WIRE_CODEC_H
#define FR_WIRE_CODEC_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct fr_strs {
    struct fr_str *v;
    size_t n;
};
struct fr_ids {
    struct fr_id *v;
    size_t n;
};

enum fr_field_kind {
    FR_FIELD_BOOL,
    FR_FIELD_U32,
    FR_FIELD_I32 = FR_FIELD_U32,
    FR_FIELD_U64,
    FR_FIELD_I64 = FR_FIELD_U64,
    FR_FIELD_ID,
    FR_FIELD_TEXT, /* without NUL */
    FR_FIELD_BYTES,
    FR_FIELD_TEXTS,
    FR_FIELD_IDS,
    FR_FIELD_STRUCT, /* of shape() */
    FR_FIELD_LIST    /* struct { T *v; size_t n; }, T of shape() */
};

/* The C type of each kind. */
#define FR_CODEC_BOOL bool
#define FR_CODEC_U32 uint32_t
#define FR_CODEC_I32 int32_t
#define FR_CODEC_U64 uint64_t
#define FR_CODEC_I64 int64_t
#define FR_CODEC_ID struct fr_id
#define FR_CODEC_TEXT struct fr_str
#define FR_CODEC_BYTES struct fr_str
#define FR_CODEC_TEXTS struct fr_strs
#define FR_CODEC_IDS struct fr_ids
#define FR_CODEC_STRUCT(type) struct type
#define FR_CODEC_LIST(type) struct type##s

struct fr_shape;
typedef const struct fr_shape *fr_shape_fn(void);

struct fr_field {
    enum fr_field_kind kind;
    size_t at;          /* offset in the struct */
    fr_shape_fn *shape; /* FR_FIELD_STRUCT, FR_FIELD_LIST; else NULL */
};

struct fr_shape {
    const char *name;
    size_t size; /* of the struct */
    const struct fr_field *fields;
    size_t n;
};

enum { FR_LIST_MAX = 65536 }; /* items */

/* Appends the fields of the struct at p. Running out of memory shows in out->bad. */
void fr_shape_put(const struct fr_shape *shape, const void *p, struct fr_buf *out);

/* Fills the struct at p (zeroed first); its text and lists live in arena. FR_PROTO, FR_NOMEM. */
enum fr_rc fr_shape_get(const struct fr_shape *shape, struct fr_str bytes, struct fr_arena *arena,
                        void *p, struct fr_err *err);

uint32_t fr_get_u32(const void *p);
void fr_put_u32(void *p, uint32_t v);

#endif

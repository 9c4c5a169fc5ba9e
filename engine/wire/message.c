#include "engine/wire/message.h"

#include <stddef.h>

/* clang-format off */

/* Each struct has a function that returns its table: the function's scope gives the rows the name
 * of their struct. */
#define BEGIN(name, type)                                                                          \
    static const struct fr_shape *type##_shape(void)                                               \
    {                                                                                              \
        typedef struct type record;                                                                \
        static const char title[] = #name;                                                         \
        static const struct fr_field fields[] = {
#define ROW(kind, member) {FR_FIELD_##kind, offsetof(record, member), NULL},
#define ROW_OF(kind, type, member) {FR_FIELD_##kind, offsetof(record, member), type##_shape},
#define DONE                                                                                       \
        };                                                                                         \
        static const struct fr_shape shape = {title, sizeof(record), fields,                       \
                                              sizeof(fields) / sizeof(fields[0])};                 \
        return &shape;                                                                             \
    }

#define FR_RECORD(name, type) BEGIN(name, type)
#define FR_FIELD(kind, member) ROW(kind, member)
#define FR_INNER(kind, type, member) ROW_OF(kind, type, member)
#define FR_END DONE
#include "engine/wire/request_fields.h"

#define FR_MESSAGE(number, ID, name, type) BEGIN(name, type)
#define FR_FIELD(kind, member) ROW(kind, member)
#define FR_INNER(kind, type, member) ROW_OF(kind, type, member)
#define FR_END DONE
#include "engine/wire/protocol.h"

static fr_shape_fn *const shapes[] = {
#define FR_MESSAGE(number, ID, name, type) [number] = type##_shape,
#define FR_FIELD(kind, member)
#define FR_INNER(kind, type, member)
#define FR_END
#include "engine/wire/protocol.h"
};

/* clang-format on */

const struct fr_shape *fr_msg_shape(enum fr_msg_type type)
{
    size_t i = (size_t)type;

    return i < sizeof(shapes) / sizeof(shapes[0]) && shapes[i] != NULL ? shapes[i]() : NULL;
}

const char *fr_msg_name(enum fr_msg_type type)
{
    const struct fr_shape *shape = fr_msg_shape(type);

    return shape != NULL ? shape->name : "?";
}

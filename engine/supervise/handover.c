/* An attempt as bytes, for the process of its supervisor. */
#include "engine/supervise/supervise.h"

#include <stddef.h>

static const struct fr_shape *prepare_shape(void)
{
    return fr_msg_shape(FR_MSG_PREPARE);
}

#define AT(kind, member, shape)                                                                    \
    {                                                                                              \
        FR_FIELD_##kind, offsetof(struct fr_supervise, member), shape                              \
    }

static const struct fr_field fields[] = {
    AT(TEXT, home, NULL),      AT(TEXT, self, NULL),
    AT(TEXT, boot, NULL),      AT(STRUCT, prepare, prepare_shape),
    AT(U64, journal_at, NULL), AT(I64, lease_from_ms, NULL),
    AT(TEXTS, environ, NULL),
};

static const struct fr_shape shape = {"handover", sizeof(struct fr_supervise), fields,
                                      sizeof(fields) / sizeof(fields[0])};

void fr_supervise_put(const struct fr_supervise *s, struct fr_buf *out)
{
    fr_shape_put(&shape, s, out);
}

enum fr_rc fr_supervise_message(const struct fr_supervise *s, struct fr_buf *out,
                                struct fr_err *err)
{
    struct fr_msg m = {.type = FR_MSG_HANDOVER};
    struct fr_buf bytes = {0};
    enum fr_rc rc;

    fr_supervise_put(s, &bytes);
    m.handover.bytes = (struct fr_str){bytes.p, bytes.n};
    rc = bytes.bad ? fr_fail(err, FR_NOMEM, "no memory to start a supervisor")
                   : fr_msg_put(&m, out, err);
    fr_buf_finish(&bytes);
    return rc;
}

enum fr_rc fr_supervise_get(struct fr_str bytes, struct fr_arena *arena, struct fr_supervise *s,
                            struct fr_err *err)
{
    return fr_shape_get(&shape, bytes, arena, s, err);
}

/* An attempt as bytes, for the process of its supervisor. */
#include "engine/supervise/supervise.h"

#include "engine/wire/codec.h"

#include <stddef.h>

struct handed {
    struct fr_str home, self, boot, prepare;
    uint64_t journal_at;
    int64_t lease_from_ms;
    struct fr_strs environ;
};

#define AT(kind, member)                                                                           \
    {                                                                                              \
        FR_FIELD_##kind, offsetof(struct handed, member), NULL                                     \
    }

static const struct fr_field fields[] = {
    AT(TEXT, home),      AT(TEXT, self),         AT(TEXT, boot),     AT(BYTES, prepare),
    AT(U64, journal_at), AT(U64, lease_from_ms), AT(TEXTS, environ),
};

static const struct fr_shape shape = {"handover", sizeof(struct handed), fields,
                                      sizeof(fields) / sizeof(fields[0])};

void fr_supervise_put(const struct fr_supervise *s, struct fr_buf *out)
{
    struct fr_buf p = {0};

    fr_shape_put(fr_msg_shape(FR_MSG_PREPARE), &s->prepare, &p);
    struct handed h = {s->home,       s->self,          s->boot,   {p.p, p.n},
                       s->journal_at, s->lease_from_ms, s->environ};
    fr_shape_put(&shape, &h, out);
    out->bad = out->bad || p.bad;
    fr_buf_finish(&p);
}

enum fr_rc fr_supervise_get(struct fr_str bytes, struct fr_arena *arena, struct fr_supervise *s,
                            struct fr_err *err)
{
    struct handed h;
    enum fr_rc rc = fr_shape_get(&shape, bytes, arena, &h, err);

    *s = (struct fr_supervise){0};
    if (rc != FR_OK)
        return rc;
    s->home = h.home;
    s->self = h.self;
    s->boot = h.boot;
    s->journal_at = h.journal_at;
    s->lease_from_ms = h.lease_from_ms;
    s->environ = h.environ;
    return fr_shape_get(fr_msg_shape(FR_MSG_PREPARE), h.prepare, arena, &s->prepare, err);
}

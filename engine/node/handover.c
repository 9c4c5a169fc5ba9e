/* Handing an attempt to its supervisor: flat bytes that a fork, a simulated process or a shim can
 * take. */
#include "engine/node/supervise.h"

#include "engine/base/sys.h"
#include "engine/wire/codec.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

struct flat { /* what fr_sys.detach copies */
    int sock;
    size_t n;
    char bytes[];
};

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

static int body(void *arg)
{
    struct flat *f = arg;
    struct fr_arena arena = {0};
    struct fr_supervise s;
    struct fr_err err;
    int code = 1;

    if (fr_supervise_get((struct fr_str){f->bytes, f->n}, &arena, &s, &err) == FR_OK)
        code = fr_supervise_run(&s, f->sock);
    fr_arena_finish(&arena);
    return code;
}

enum fr_rc fr_supervise_start(const struct fr_supervise *s, int *sock, struct fr_err *err)
{
    struct fr_buf b = {0};
    enum fr_rc rc = FR_OK;
    int fds[2];

    *sock = -1;
    if (fr_sys.socketpair(fds) != 0)
        return fr_fail_errno(err, errno, "cannot make a socket");
    fr_buf_add(&b, &(struct flat){.sock = fds[1]}, offsetof(struct flat, bytes));
    fr_supervise_put(s, &b);
    if (b.bad) {
        rc = fr_fail(err, FR_NOMEM, "no memory to start a supervisor");
    } else {
        struct flat *f = (struct flat *)(void *)b.p;
        f->n = b.n - offsetof(struct flat, bytes);
        if (fr_sys.detach(body, f, b.n, &fds[1], 1) != 0)
            rc = fr_fail_errno(err, errno, "cannot start a supervisor");
    }
    fr_buf_finish(&b);
    fr_sys.close(fds[1]);
    if (rc != FR_OK)
        fr_sys.close(fds[0]);
    else
        *sock = fds[0];
    return rc;
}

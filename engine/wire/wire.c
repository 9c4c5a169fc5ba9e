#include "engine/wire/wire.h"

#include "engine/wire/codec.h"

#include <string.h>

enum { NO_FRAME = -1 }; /* for a type: no whole message is there */

enum fr_rc fr_msg_put(const struct fr_msg *m, struct fr_buf *out, struct fr_err *err)
{
    const struct fr_shape *shape = fr_msg_shape(m->type);
    struct fr_buf payload = {0};
    enum fr_rc rc = FR_OK;
    size_t at = 0;

    if (shape == NULL)
        return fr_fail(err, FR_BUG, "message type %d has no fields", (int)m->type);
    fr_shape_put(shape, &m->hello, &payload); /* where every message is in the union */
    if (payload.bad) {
        rc = fr_fail(err, FR_NOMEM, "%s: no memory", shape->name);
    } else if (payload.n > FR_MSG_MAX) {
        rc = fr_fail(err, FR_USAGE, "%s: %zu bytes, more than the %d a message may have",
                     shape->name, payload.n, (int)FR_MSG_MAX);
    } else {
        do {
            size_t n = payload.n - at < FR_FRAME_MAX ? payload.n - at : FR_FRAME_MAX;
            uint8_t head[FR_FRAME_HEAD];

            fr_put_u32(head, (uint32_t)n);
            head[4] = (uint8_t)((int)m->type | (at + n < payload.n ? FR_FRAME_MORE : 0));
            fr_buf_add(out, head, sizeof(head));
            fr_buf_add(out, payload.p + at, n);
            at += n;
        } while (at < payload.n);
        if (out->bad)
            rc = fr_fail(err, FR_NOMEM, "%s: no memory", shape->name);
    }
    fr_buf_finish(&payload);
    return rc;
}

void fr_wire_feed(struct fr_wire_in *in, const void *p, size_t n)
{
    if (in->taken > 0 && (in->taken == in->raw.n || in->taken >= 4 * FR_FRAME_MAX)) {
        fr_buf_cut(&in->raw, in->taken);
        in->taken = 0;
    }
    fr_buf_add(&in->raw, p, n);
    if (in->swaps && !in->raw.bad)
        fr_wire_swap(in->raw.p + in->raw.n - n, n);
}

void fr_wire_swap(char *p, size_t n)
{
    const char other = (char)0xfe;

    for (size_t i = 0; i < n; i++)
        p[i] = p[i] == '\n' ? other : p[i] == other ? '\n' : p[i];
}

static enum fr_rc no_magic(const struct fr_wire_in *in, struct fr_err *err)
{
    struct fr_buf shown = {0};
    size_t n = in->raw.n < 200 ? in->raw.n : 200;

    fr_buf_visible(&shown, in->raw.p, n);
    fr_fail(err, FR_PROTO, "the node's first %zu bytes are not a flownode's: \"%s\"", in->raw.n,
            shown.p != NULL ? shown.p : "");
    fr_buf_finish(&shown);
    return FR_PROTO;
}

/* Skips to the end of the magic. True once it was found. */
static bool pass_magic(struct fr_wire_in *in)
{
    const char *at =
        in->raw.n > 0 ? memmem(in->raw.p, in->raw.n, FR_WIRE_MAGIC, strlen(FR_WIRE_MAGIC)) : NULL;

    if (at == NULL)
        return false;
    in->taken = (size_t)(at - in->raw.p) + strlen(FR_WIRE_MAGIC);
    in->magic = false;
    return true;
}

/* The payload of a whole message in *payload, from raw or, when it came in several frames, from
 * part. */
static enum fr_rc next_payload(struct fr_wire_in *in, int *type, struct fr_str *payload,
                               struct fr_err *err)
{
    for (;;) {
        size_t have = in->raw.n - in->taken;

        *type = NO_FRAME;
        if (have < FR_FRAME_HEAD)
            return FR_OK;
        const char *head = in->raw.p + in->taken;
        uint32_t n = fr_get_u32(head);
        uint8_t t = (uint8_t)head[4];
        if (n > FR_FRAME_MAX)
            return fr_fail(err, FR_PROTO, "a frame of %u bytes, more than %d", n,
                           (int)FR_FRAME_MAX);
        if (have - FR_FRAME_HEAD < n)
            return FR_OK;
        in->taken += FR_FRAME_HEAD + n;
        *payload = (struct fr_str){head + FR_FRAME_HEAD, n};
        *type = t & ~FR_FRAME_MORE;
        if (in->part.n == 0 && (t & FR_FRAME_MORE) == 0)
            return FR_OK;
        /* the type of the first frame stands before the payload in part */
        if (in->part.n == 0)
            fr_buf_add(&in->part, &(char){(char)*type}, 1);
        else if (in->part.p[0] != (char)*type)
            return fr_fail(err, FR_PROTO, "a %s message inside a %s message",
                           fr_msg_name((enum fr_msg_type) * type),
                           fr_msg_name((enum fr_msg_type)in->part.p[0]));
        if (in->part.n + n > FR_MSG_MAX + 1)
            return fr_fail(err, FR_PROTO, "a message of more than %d bytes", (int)FR_MSG_MAX);
        fr_buf_add(&in->part, payload->p, payload->n);
        if (in->part.bad)
            return fr_fail(err, FR_NOMEM, "no memory for a message");
        if ((t & FR_FRAME_MORE) == 0) {
            *payload = (struct fr_str){in->part.p + 1, in->part.n - 1};
            return FR_OK;
        }
    }
}

enum fr_rc fr_wire_next(struct fr_wire_in *in, struct fr_arena *arena, struct fr_msg *m, bool *got,
                        struct fr_err *err)
{
    const struct fr_shape *shape;
    struct fr_str payload = {NULL, 0};
    enum fr_rc rc;
    int type;

    *got = false;
    if (in->raw.bad)
        return fr_fail(err, FR_NOMEM, "no memory for what the other side sent");
    if (in->magic && !pass_magic(in))
        return in->raw.n > FR_PREAMBLE_MAX ? no_magic(in, err) : FR_OK;
    do {
        if ((rc = next_payload(in, &type, &payload, err)) != FR_OK || type == NO_FRAME)
            return rc;
        shape = fr_msg_shape((enum fr_msg_type)type);
        if (shape == NULL)
            in->part.n = 0;
    } while (shape == NULL);
    memset(m, 0, sizeof(*m));
    m->type = (enum fr_msg_type)type;
    rc = fr_shape_get(shape, payload, arena, &m->hello, err);
    in->part.n = 0;
    *got = rc == FR_OK;
    return rc;
}

bool fr_wire_waits(const struct fr_wire_in *in)
{
    return in->taken < in->raw.n || in->part.n > 0;
}

void fr_wire_finish(struct fr_wire_in *in)
{
    if (in == NULL)
        return;
    fr_buf_finish(&in->raw);
    fr_buf_finish(&in->part);
    in->taken = 0;
}

enum fr_rc fr_wire_agree(const struct fr_hello *theirs, struct fr_err *err)
{
    if (theirs->proto_max >= FR_PROTO_MIN && theirs->proto_min <= FR_PROTO_MAX)
        return FR_OK;
    return fr_fail(err, FR_PROTO,
                   "no common protocol: here %u to %u, the other side %u to %u; the newer "
                   "flowrun of the two goes on: flowrun resume",
                   (unsigned)FR_PROTO_MIN, (unsigned)FR_PROTO_MAX, theirs->proto_min,
                   theirs->proto_max);
}

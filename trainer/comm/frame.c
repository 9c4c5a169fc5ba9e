#include "trainer/comm/frame.h"

#include "engine/base/sys.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

void tr_frame_add(struct fr_buf *out, enum tr_frame_type type, const void *p, size_t n)
{
    uint32_t len = (uint32_t)n;
    char head[TR_FRAME_HEAD] = {0};

    memcpy(head, &len, sizeof(len));
    head[sizeof(len)] = (char)type;
    fr_buf_add(out, head, sizeof(head));
    fr_buf_add(out, p, n);
}

int tr_frame_first(const struct fr_buf *in, enum tr_frame_type *type, struct fr_str *payload)
{
    uint32_t len;

    if (in->n < TR_FRAME_HEAD)
        return 0;
    memcpy(&len, in->p, sizeof(len));
    unsigned char t = (unsigned char)in->p[sizeof(len)];
    if (len > TR_FRAME_MAX || t < TR_FRAME_HELLO || t > TR_FRAME_AGREED)
        return -1;
    if (in->n < TR_FRAME_HEAD + (size_t)len)
        return 0;
    *type = (enum tr_frame_type)t;
    *payload = (struct fr_str){in->p + TR_FRAME_HEAD, len};
    return 1;
}

/* Waits until fd is ready for `events`; false at the deadline. */
static bool ready(int fd, short events, int64_t deadline_ms)
{
    for (;;) {
        int64_t left = deadline_ms - fr_sys.mono_ms();
        struct pollfd p = {.fd = fd, .events = events};
        if (left <= 0)
            return false;
        int k = fr_sys.poll(&p, 1, left > 1000 ? 1000 : (int)left);
        if (k > 0)
            return true;
        if (k < 0 && errno != EINTR)
            return false;
    }
}

bool tr_frame_send(int fd, const struct fr_buf *out, int64_t deadline_ms)
{
    for (size_t done = 0; done < out->n;) {
        ssize_t k = send(fd, out->p + done, out->n - done, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (k > 0)
            done += (size_t)k;
        else if (k < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        else if (!ready(fd, POLLOUT, deadline_ms))
            return false;
    }
    return !out->bad;
}

bool tr_frame_recv(int fd, struct fr_buf *in, enum tr_frame_type *type, struct fr_str *payload,
                   int64_t deadline_ms)
{
    int got;

    while ((got = tr_frame_first(in, type, payload)) == 0) {
        char piece[4096];
        size_t want = sizeof(piece);
        uint32_t len;
        /* Never reads into the next frame, which the control thread reads. */
        if (in->n >= sizeof(len)) {
            memcpy(&len, in->p, sizeof(len));
            want = TR_FRAME_HEAD + (size_t)len - in->n;
        } else
            want = sizeof(len) - in->n;
        if (want > sizeof(piece))
            want = sizeof(piece);
        if (!ready(fd, POLLIN, deadline_ms))
            return false;
        ssize_t k = recv(fd, piece, want, MSG_DONTWAIT);
        if (k == 0 || (k < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        if (k > 0)
            fr_buf_add(in, piece, (size_t)k);
        if (in->bad)
            return false;
    }
    return got == 1;
}

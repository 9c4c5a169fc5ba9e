/* A raw reader of a test bed's web server, whose socket never waits. */
#ifndef TESTS_UNIT_WEB_READER_H
#define TESTS_UNIT_WEB_READER_H

#include "tests/unit/web/web_bed.h"

#include <sys/socket.h>

struct reader {
    struct bed *bed;
    int fd;
    struct fr_buf got;
    bool eof;
};

static struct reader reader_open(struct bed *b)
{
    struct reader r = {.bed = b, .fd = fr_sys.connect_unix(b->sock)};

    CHECK(r.fd >= 0);
    return r;
}

static void reader_close(struct reader *r)
{
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
    fr_buf_finish(&r->got);
}

/* Takes what is there. */
static void reader_take(struct reader *r)
{
    static char p[1 << 16];
    ssize_t n;

    bed_turn(r->bed);
    while ((n = recv(r->fd, p, sizeof(p), MSG_DONTWAIT)) > 0)
        fr_buf_add(&r->got, p, (size_t)n);
    r->eof |= n == 0 || (errno != EAGAIN && errno != EINTR);
}

/* Sends all; the server may refuse to read on. */
static void reader_send(struct reader *r, const char *p, size_t n)
{
    while (n > 0 && !r->eof) {
        ssize_t k = send(r->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (k > 0) {
            p += k;
            n -= (size_t)k;
        } else {
            reader_take(r);
        }
    }
}

static void reader_say(struct reader *r, const char *text)
{
    reader_send(r, text, strlen(text));
}

static bool reader_has(const struct reader *r, const char *text)
{
    return r->got.n > 0 && memmem(r->got.p, r->got.n, text, strlen(text)) != NULL;
}

static bool reader_until(struct reader *r, const char *text)
{
    while (!reader_has(r, text) && !r->eof)
        reader_take(r);
    if (!reader_has(r, text))
        printf("   got:  %s\n   want: %s\n", r->got.n > 0 ? r->got.p : "", text);
    return CHECK(reader_has(r, text));
}

static void reader_until_eof(struct reader *r)
{
    while (!r->eof)
        reader_take(r);
}

#endif

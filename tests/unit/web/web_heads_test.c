/* The web server over TCP: heads of answers as a whole, and who may still be accepted. */
#include "engine/base/log.h"
#include "tests/unit/web/web_bed.h"

#define GUARDS                                                                                     \
    "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"                          \
    "Cross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\n"     \
    "Permissions-Policy: camera=(), geolocation=(), microphone=(), payment=(), usb=()\r\n"
#define OWN                                                                                        \
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "           \
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'self'; "              \
    "frame-ancestors 'none'; require-trusted-types-for 'script'\r\n" GUARDS
#define FOREIGN                                                                                    \
    "Content-Security-Policy: sandbox; default-src 'none'\r\n"                                     \
    "Content-Disposition: attachment\r\n" GUARDS
#define KEPT "Cache-Control: private, no-cache\r\nVary: Accept-Encoding\r\n"
#define DATE "Date: Fri, 13 Feb 2009 23:31:30 GMT\r\n"

static const struct {
    const char *text, *want; /* a request's first line; the head that answers it */
} head_rows[] = {
    {"GET /api/all HTTP/1.1\r\n",
     "HTTP/1.1 401 Unauthorized\r\n" DATE "Content-Type: text/x\r\nContent-Length: 4\r\n"
     "Location: /l\r\nETag: W/\"7\"\r\nAllow: GET\r\nFlowrun-Growing: 1\r\nContent-Encoding: "
     "gzip\r\n"
     "Retry-After: 7\r\nWWW-Authenticate: Bearer\r\nCache-Control: no-store\r\n"
     "Vary: Accept-Encoding\r\n" OWN "\r\n"},
    {"GET /api/x HTTP/1.1\r\nConnection: Close\r\n",
     "HTTP/1.1 200 OK\r\n" DATE "Content-Type: application/json\r\nContent-Length: 51\r\n"
     "ETag: \"7\"\r\n" KEPT OWN "Connection: close\r\n\r\n"},
    {"HEAD /api/foreign HTTP/1.1\r\n",
     "HTTP/1.1 200 OK\r\n" DATE "Content-Type: application/json\r\nContent-Length: 57\r\n"
     "ETag: \"7\"\r\n" KEPT FOREIGN "\r\n"},
    {"POST /api/in HTTP/1.1\r\n" OURS,
     "HTTP/1.1 204 No Content\r\n" DATE KEPT
     "Set-Cookie: flowrun=fine; Path=/; HttpOnly; SameSite=Lax; Max-Age=604800\r\n" OWN "\r\n"},
    {"GET /api/stream HTTP/1.1\r\n",
     "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
     "X-Accel-Buffering: no\r\n" OWN "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"},
};

static int64_t friday(void)
{
    return 1234567890123;
}

/* All that stands before a body. */
static void heads(void)
{
    struct bed b;

    bed_begin(&b, NULL);
    listen_tcp(&b, &plain);
    fr_sys.wall_ms = friday;
    for (size_t i = 0; i < sizeof(head_rows) / sizeof(head_rows[0]); i++) {
        struct reader r = tcp_open(&b);
        size_t n = strlen(head_rows[i].want);

        check_row(head_rows[i].text);
        reader_say(&r, head_rows[i].text);
        reader_say(&r, LOCAL GOOD "\r\n");
        reader_until(&r, "\r\n\r\n");
        if (fr_has_prefix(head_rows[i].text, "GET /api/x"))
            reader_until_eof(&r); /* as it was asked */
        if (CHECK(r.got.n >= n))
            r.got.p[n] = '\0';
        CHECK_TEXT(r.got.p, head_rows[i].want);
        reader_close(&r);
    }
    fr_sys.wall_ms = fr_sys_real.wall_ms;
    bed_end(&b);
}

/* A twentieth of the descriptors is not for TCP. */
static void twentieth(void)
{
    enum { HELD = 60 };
    int held[HELD], fd;
    struct reader r;
    struct bed b;

    check_row("the last descriptors");
    bed_begin(&b, NULL);
    listen_tcp(&b, &plain);
    for (int i = 0; i < HELD; i++)
        held[i] = dup(0);
    for (int more = 0; more < 2; more++) {
        r = tcp_open(&b);
        CHECK((fd = dup(0)) > HELD); /* the next one, which the server will have */
        close(fd);
        for (size_t n = 1; n < 2000;
             n++) /* the least of which fd is the first, or the last but it */
            if (n - n / 20 == (size_t)(fd + more)) {
                fr_server_set_descriptors(b.server, n);
                break;
            }
        reader_say(&r, "GET /api/x HTTP/1.1\r\n" LOCAL GOOD "\r\n");
        reader_until(&r, more ? "HTTP/1.1 200" : "HTTP/1.1 503");
        reader_close(&r);
        fr_server_set_descriptors(b.server, 4096);
        bed_turn(&b);
        if (!more) { /* it accepts again after a while */
            r = tcp_open(&b);
            reader_say(&r, "GET /api/x HTTP/1.1\r\n" LOCAL GOOD "\r\n");
            reader_until(&r, "by=token");
            reader_close(&r);
            bed_turn(&b);
        }
    }
    for (int i = 0; i < HELD; i++)
        close(held[i]);
    bed_end(&b);
}

static int accept_errno;

/* Fails once. */
static int some_accept(int fd)
{
    if ((errno = accept_errno) == 0)
        return fr_sys_real.accept(fd);
    accept_errno = 0;
    return -1;
}

static int64_t stands(void)
{
    return 1000000;
}

/* Who left while it waited, or a signal, holds nobody up; the clock stands, so a pause would not
 * end. */
static void left_waiting(void)
{
    static const int codes[] = {ECONNABORTED, EINTR, EAGAIN};
    struct reader r;
    struct bed b;

    fr_sys.accept = some_accept;
    fr_sys.mono_ms = stands;
    bed_begin(&b, NULL);
    listen_tcp(&b, &plain);
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        check_row(strerror(codes[i]));
        accept_errno = codes[i];
        r = tcp_open(&b);
        reader_say(&r, "GET /api/x HTTP/1.1\r\n" LOCAL GOOD "\r\n");
        reader_until(&r, "by=token");
        reader_close(&r);
    }
    fr_sys.mono_ms = fr_sys_real.mono_ms;
    check_row("no descriptor is left: who waits is served later");
    accept_errno = EMFILE;
    r = reader_open(&b);
    reader_say(&r, "GET /x HTTP/1.1\r\n" LOCAL "\r\n");
    reader_until(&r, "by=owner");
    reader_close(&r);
    fr_sys.accept = fr_sys_real.accept;
    bed_end(&b);
}

int main(void)
{
    fr_log_level(FR_LOG_ERROR);
    heads();
    twentieth();
    left_waiting();
    return check_done();
}

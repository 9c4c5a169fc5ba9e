/* The web server against raw sockets: what is refused, what is cut off, what reaches the handler.
 */
#include "engine/base/log.h"
#include "tests/unit/web/web_bed.h"

#include <sys/wait.h>
#include <zlib.h>

#define HOST "Host: localhost\r\n"
#define END HOST "\r\n"

struct exchange {
    const char *name, *text, *want, *also;
    int asked;   /* requests that reach the handler */
    bool closed; /* the server closes the connection */
};

/* piece: bytes a send. */
static void exchange(struct bed *b, const struct exchange *x, size_t piece)
{
    struct reader r = reader_open(b);
    size_t n = strlen(x->text);
    int asked = b->asked;

    check_row(x->name);
    for (size_t at = 0; at < n && !r.eof; at += piece) {
        reader_send(&r, x->text + at, n - at < piece ? n - at : piece);
        bed_turn(b);
    }
    reader_until(&r, x->want);
    if (x->also[0] != '\0')
        reader_until(&r, x->also);
    if (x->closed)
        reader_until_eof(&r);
    CHECK(!reader_has(&r, "<") && !reader_has(&r, "Set-Cookie"));
    CHECK_INT(b->asked - asked, x->asked);
    if (x->closed && x->asked == 0)
        CHECK(reader_has(&r, "application/problem+json"));
    reader_close(&r);
}

#define CHUNKED "POST /p HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" END
#define CHUNKED_EXPECTED                                                                           \
    "POST /p HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n" END

static const struct exchange exchange_rows[] = {
    {"get", "GET /a%20b?x=1&y=2 HTTP/1.1\r\n" END, "HTTP/1.1 200 OK", "GET /a b x=1 y=2 type=", 1,
     false},
    {"post",
     "POST /p HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 7\r\n" END "{\"a\":1}",
     "HTTP/1.1 200 OK", "POST /p type=application/json range= match= last= by=owner body={\"a\":1}",
     1, false},
    {"put", "PUT /p HTTP/1.1\r\nContent-Length: 0\r\n" END, "HTTP/1.1 200", "PUT /p", 1, false},
    {"delete", "DELETE /p HTTP/1.1\r\n" END, "HTTP/1.1 200", "DELETE /p", 1, false},
    {"headers",
     "GET / HTTP/1.1\r\nRANGE: bytes=1-\r\nif-none-match: \"7\"\r\nlast-event-id: 1.2\r\n" END,
     "HTTP/1.1 200", "range=bytes=1- match=\"7\" last=1.2", 1, false},
    {"headers of a change",
     "PUT /p HTTP/1.1\r\nIf-Match: \"8\"\r\nIDEMPOTENCY-KEY: k\r\nContent-Length: 0\r\n" END,
     "HTTP/1.1 200", "body= if=\"8\" key=k", 1, false},
    {"a range behind the end", "GET /behind HTTP/1.1\r\n" END, "HTTP/1.1 416",
     "Content-Range: bytes */3000000\r\n", 1, false},
    {"no cookie for the owner", "POST /api/in HTTP/1.1\r\nContent-Length: 0\r\n" END,
     "HTTP/1.1 204", "\r\n\r\n", 1, false},
    {"close", "GET / HTTP/1.1\r\nConnection: close\r\n" END, "HTTP/1.1 200", "GET /", 1, true},
    {"1.0", "GET / HTTP/1.0\r\n" END, "HTTP/1.1 200", "GET /", 1, true},
    {"pipelined",
     "GET /1 HTTP/1.1\r\n" END "POST /2 HTTP/1.1\r\nContent-Length: 2\r\n" END
     "hiGET /3 HTTP/1.1\r\n" END,
     "GET /1", "GET /3", 3, false},
    {"wrong", "GET /wrong HTTP/1.1\r\n" END, "HTTP/1.1 422 Unprocessable Content",
     "{\"file\":\"p.yaml\",\"line\":7,\"col\":12,\"text\":\"one\"}", 1, false},
    {"nothing", "GET /nothing HTTP/1.1\r\n" END, "HTTP/1.1 500", "no answer", 1, false},
    {"no stream", "GET /no/stream HTTP/1.1\r\n" END, "HTTP/1.1 404", "such stream", 1, false},
    {"head stream", "HEAD /a/stream HTTP/1.1\r\n" END, "HTTP/1.1 405", "Allow: GET", 0, false},
    {"no host", "GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400", "one valid Host", 0, true},
    {"bad host", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "HTTP/1.1 400", "one valid Host", 0, true},
    {"blank behind host", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", "HTTP/1.1 400", "bad name", 0,
     true},
    {"empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", "HTTP/1.1 400", "one valid Host", 0, true},
    {"absolute", "GET http://localhost/ HTTP/1.1\r\n" END, "HTTP/1.1 400", "not a path", 0, true},
    {"authority", "CONNECT localhost:80 HTTP/1.1\r\n" END, "HTTP/1.1 501", "methods are", 0, true},
    {"asterisk", "OPTIONS * HTTP/1.1\r\n" END, "HTTP/1.1 501", "methods are", 0, true},
    {"patch", "PATCH / HTTP/1.1\r\n" END, "HTTP/1.1 501", "methods are", 0, true},
    {"unknown method", "BREW /pot HTTP/1.1\r\n" END, "HTTP/1.1 501", "methods are", 0, true},
    {"dots", "GET /../x HTTP/1.1\r\n" END, "HTTP/1.1 400", "/..", 0, true},
    {"coded dots", "GET /%2e%2e/x HTTP/1.1\r\n" END, "HTTP/1.1 400", "/..", 0, true},
    {"nul", "GET /%00 HTTP/1.1\r\n" END, "HTTP/1.1 400", "control character", 0, true},
    {"slashes", "GET //x HTTP/1.1\r\n" END, "HTTP/1.1 400", "//", 0, true},
    {"blank", "GET /a b HTTP/1.1\r\n" END, "HTTP/1.1 400", "not HTTP/1.1", 0, true},
    {"chunked", CHUNKED "2\r\nhi\r\n1\r\n!\r\n0\r\n\r\n", "HTTP/1.1 200", "POST /p", 1, false},
    {"what chunks give", CHUNKED "2\r\nhi\r\n1\r\n!\r\n0\r\n\r\n", "HTTP/1.1 200", "body=hi!", 1,
     false},
    {"chunks of nothing", CHUNKED "0\r\n\r\n", "HTTP/1.1 200", "POST /p", 1, false},
    {"a trailer", CHUNKED "000a;a=\"b\"\r\n0123456789\r\n0\r\nHost: b\r\nX:\r\n\r\n",
     "HTTP/1.1 200", "body=0123456789", 1, false},
    {"behind chunks", CHUNKED "2\r\nhi\r\n0\r\n\r\nGET /2 HTTP/1.1\r\n" END, "body=hi", "GET /2", 2,
     false},
    {"chunks in capitals",
     "POST / HTTP/1.1\r\nTRANSFER-ENCODING: Chunked\r\n" END "2\r\nhi\r\n0\r\n\r\n", "HTTP/1.1 200",
     "body=hi", 1, false},
    {"chunks, not yet asked", CHUNKED_EXPECTED "2\r\nhi\r\n0\r\n\r\n", "HTTP/1.1 200", "body=hi", 1,
     false},
    {"a size that is none", CHUNKED "x\r\nhi\r\n0\r\n\r\n", "HTTP/1.1 400", "chunks", 0, true},
    {"a size with a sign", CHUNKED "+2\r\nhi\r\n0\r\n\r\n", "HTTP/1.1 400", "chunks", 0, true},
    {"a size in C's words", CHUNKED "0x2\r\nhi\r\n0\r\n\r\n", "HTTP/1.1 400", "chunks", 0, true},
    {"a size beyond all", CHUNKED "10000000000000002\r\nhi", "HTTP/1.1 400", "chunks", 0, true},
    {"a size too small", CHUNKED "1\r\nhi\r\n0\r\n\r\n", "HTTP/1.1 400", "chunks", 0, true},
    {"a newline alone", CHUNKED "2\nhi\r\n0\r\n\r\n", "HTTP/1.1 400", "chunks", 0, true},
    {"a newline in an extension", CHUNKED "2;a\nhi\r\n0\r\n\r\n", "HTTP/1.1 400", "chunks", 0,
     true},
    {"a return alone", CHUNKED "2\rhi\r\n0\r\n\r\n", "HTTP/1.1 400", "chunks", 0, true},
    {"a trailer that is none", CHUNKED "0\r\nGET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400", "chunks", 0,
     true},
    {"chunks and a length",
     "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n" END "hi",
     "HTTP/1.1 400", "not both", 0, true},
    {"a length and chunks",
     "POST / HTTP/1.1\r\nContent-Length: 12\r\nTransfer-Encoding: chunked\r\n" END
     "2\r\nhi\r\n0\r\n\r\n",
     "HTTP/1.1 400", "not both", 0, true},
    {"chunks of HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n" END "0\r\n\r\n",
     "HTTP/1.1 400", "HTTP/1.0 has no", 0, true},
    {"coded", "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n" END, "HTTP/1.1 400", "is chunked", 0,
     true},
    {"coded at last", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked, gzip\r\n" END, "HTTP/1.1 400",
     "is chunked", 0, true},
    {"coded chunks", "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n" END, "HTTP/1.1 501",
     "only", 0, true},
    {"coded with a length",
     "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\nContent-Length: 2\r\n" END "hi", "HTTP/1.1 400",
     "not both", 0, true},
    {"plus length", "POST / HTTP/1.1\r\nContent-Length: +2\r\n" END "hi", "HTTP/1.1 400",
     "not a number", 0, true},
    {"empty length", "POST / HTTP/1.1\r\nContent-Length: \r\n" END, "HTTP/1.1 400", "not a number",
     0, true},
    {"minus length", "POST / HTTP/1.1\r\nContent-Length: -2\r\n" END, "HTTP/1.1 400",
     "not a number", 0, true},
    {"folded", "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", "HTTP/1.1 400", "bad name", 0, true},
    {"10 head stream", "HEAD /a/stream HTTP/1.0\r\n" END, "HTTP/1.1 405", "Allow: GET", 0, true},
    {"long length", "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n" END,
     "HTTP/1.1 413", "longer", 0, true},
    {"HTTP/2", "GET / HTTP/2.0\r\n" END, "HTTP/1.1 505", "not 2.0", 0, true},
    {"HTTP/1.2", "GET / HTTP/1.2\r\n" END, "HTTP/1.1 505", "not 1.2", 0, true},
    {"no version", "GET /\r\n" END, "HTTP/1.1 400", "not HTTP/1.1", 0, true},
    {"garbage", "\x16\x03\x01\x02 garbage of another protocol\r\n\r\n", "HTTP/1.1 400",
     "not HTTP/1.1", 0, true},
    {"no colon", "GET / HTTP/1.1\r\nHost\r\n\r\n", "HTTP/1.1 400", "bad name", 0, true},
    {"expect", "POST / HTTP/1.1\r\nExpect: tea\r\nContent-Length: 2\r\n" END, "HTTP/1.1 417",
     "100-continue", 0, true},
    {"large body", "POST / HTTP/1.1\r\nContent-Length: 1048577\r\n" END, "HTTP/1.1 413",
     "longer than 1048576", 0, true},
    {"huge body", "POST / HTTP/1.1\r\nContent-Length: 9223372036854775807\r\n" END, "HTTP/1.1 413",
     "longer", 0, true},
    {"behind an answer", "GET /1 HTTP/1.1\r\n" END "nonsense\r\n\r\n", "GET /1", "not HTTP/1.1", 1,
     true},
};

static void exchanges(void)
{
    struct bed b;

    bed_begin(&b, NULL);
    for (size_t i = 0; i < sizeof(exchange_rows) / sizeof(exchange_rows[0]); i++) {
        exchange(&b, &exchange_rows[i], 4096);
        exchange(&b, &exchange_rows[i], 1);
    }
    bed_end(&b);
}

/* What a request leaves for the next one on its connection. */
static const struct {
    const char *name, *parts[3]; /* each is read by itself */
    const char *want;
} kept_rows[] = {
    {"a head in pieces, and with its end a shorter one",
     {"GET /first HTTP/1.1\r\nX: 1\r\nHost: localhost\r", "\n\r\nGET /2 HTTP/1.1\r\n" END, ""},
     "GET /2"},
    {"chunks, then chunks",
     {CHUNKED "2\r\nhi\r\n0\r\n\r\n", CHUNKED "1\r\n!\r\n0\r\n\r\n", ""},
     "body=!"},
    {"chunks, then a length",
     {CHUNKED "2\r\nhi\r\n0\r\n\r\n", "POST /p HTTP/1.1\r\nContent-Length: 1\r\n" END "!", ""},
     "body=!"},
    {"a length, then none",
     {"POST /p HTTP/1.1\r\nContent-Length: 2\r\n" END "hi", "GET /2 HTTP/1.1\r\n" END, ""},
     "GET /2"},
    {"a HEAD, then a GET", {"HEAD /1 HTTP/1.1\r\n" END, "GET /2 HTTP/1.1\r\n" END, ""}, "GET /2"},
    {"headers, then none",
     {"PUT /p HTTP/1.1\r\nIf-Match: \"8\"\r\nContent-Length: 0\r\n" END, "GET /2 HTTP/1.1\r\n" END,
      ""},
     "GET /2 type= range= match= last= by=owner body="},
};

static void kept(void)
{
    struct bed b;

    bed_begin(&b, NULL);
    for (size_t i = 0; i < sizeof(kept_rows) / sizeof(kept_rows[0]); i++) {
        struct reader r = reader_open(&b);

        check_row(kept_rows[i].name);
        for (size_t k = 0; k < 3; k++) {
            reader_say(&r, kept_rows[i].parts[k]);
            for (int turns = 0; turns < 4; turns++)
                bed_turn(&b);
        }
        reader_until(&r, kept_rows[i].want);
        reader_close(&r);
    }
    bed_end(&b);
}

/* ---- sizes ---- */

static void chunk_sizes(struct bed *b, const char *filler)
{
    struct reader r;

    check_row("the largest body in chunks");
    for (int more = 0; more < 2; more++) {
        r = reader_open(b);
        reader_say(&r, CHUNKED_EXPECTED);
        reader_until(&r, "HTTP/1.1 100");
        reader_say(&r, "80000\r\n");
        reader_send(&r, filler, 1 << 19);
        reader_say(&r, more ? "\r\n80001\r\n" : "\r\n80000\r\n");
        reader_send(&r, filler, 1 << 19);
        reader_say(&r, more ? "x\r\n0\r\n\r\n" : "\r\n0\r\n\r\n");
        reader_until(&r, more ? "HTTP/1.1 413" : "HTTP/1.1 200");
        while (!more && r.got.n < 1 << 20)
            reader_take(&r);
        reader_close(&r);
    }

    check_row("a trailer without an end");
    r = reader_open(b);
    reader_say(&r, CHUNKED "0\r\nX:");
    reader_send(&r, filler, 17 << 10);
    reader_until(&r, "HTTP/1.1 400");
    reader_close(&r);
}

static void sizes(void)
{
    struct bed b;
    struct reader r;
    char *filler = malloc(1 << 20);

    bed_begin(&b, NULL);
    if (!CHECK(filler != NULL))
        return;
    memset(filler, 'x', 1 << 20);

    check_row("a long header");
    r = reader_open(&b);
    reader_say(&r, "GET / HTTP/1.1\r\n" HOST "X: ");
    reader_send(&r, filler, 17 << 10);
    reader_until(&r, "HTTP/1.1 431");
    reader_until_eof(&r);
    reader_close(&r);

    check_row("many headers");
    r = reader_open(&b);
    reader_say(&r, "GET / HTTP/1.1\r\n" HOST);
    for (int i = 0; i < 2000 && !r.eof; i++)
        reader_say(&r, "X-Some: header\r\n");
    reader_until(&r, "HTTP/1.1 431");
    CHECK(reader_has(&r, "application/problem+json") && !reader_has(&r, "<"));
    reader_close(&r);

    check_row("a long target");
    r = reader_open(&b);
    reader_say(&r, "GET /");
    reader_send(&r, filler, 2048);
    reader_say(&r, " HTTP/1.1\r\n" END);
    reader_until(&r, "HTTP/1.1 414");
    reader_close(&r);

    chunk_sizes(&b, filler);
    check_row("the largest body");
    r = reader_open(&b);
    reader_say(&r, "POST / HTTP/1.1\r\nContent-Length: 1048576\r\nExpect: 100-continue\r\n"
                   "Connection: close\r\n" END);
    reader_until(&r, "HTTP/1.1 100");
    reader_send(&r, filler, 1 << 20);
    reader_until(&r, "HTTP/1.1 200");
    while (r.got.n < 1 << 20)
        reader_take(&r);
    reader_close(&r);

    check_row("too much sent ahead");
    r = reader_open(&b);
    reader_say(&r, "GET /stream HTTP/1.1\r\n" END);
    reader_until(&r, "hello");
    for (int i = 0; i < 3 && !r.eof; i++)
        reader_send(&r, filler, 1 << 20);
    reader_until_eof(&r);
    while (b.streams[0].open)
        bed_turn(&b);
    CHECK_INT(b.streams[0].gone, 1);
    reader_close(&r);
    free(filler);
    bed_end(&b);
}

/* ---- answers ---- */

/* The content behind the head, chunked or to the end; takes it from r->got. */
static struct fr_buf content_of(struct reader *r, bool chunked)
{
    size_t at = (size_t)((char *)memmem(r->got.p, r->got.n, "\r\n\r\n", 4) - r->got.p) + 4, n;
    struct fr_buf out = {0};

    while (chunked && CHECK(at < r->got.n) && (n = strtoul(r->got.p + at, NULL, 16)) > 0) {
        at += strcspn(r->got.p + at, "\n") + 1;
        fr_buf_add(&out, r->got.p + at, n);
        at += n + 2;
    }
    if (!chunked)
        fr_buf_add(&out, r->got.p + at, r->got.n - at);
    return out;
}

/* A file that is packed as it is sent. file: what it has. */
static void packed(struct bed *b, const char *file)
{
    static const char *const versions[] = {"1.1", "1.0"};
    static unsigned char got[BED_FILE_BYTES];
    struct reader r;

    for (int i = 0; i < 2; i++) {
        z_stream z = {0};
        struct fr_buf content;
        char text[80];

        check_row("a packed file");
        r = reader_open(b);
        snprintf(text, sizeof(text), "GET /packed HTTP/%s\r\n" END, versions[i]);
        reader_say(&r, text);
        if (i == 0) {
            reader_say(&r, "GET /after HTTP/1.1\r\n" END);
            reader_until(&r, "GET /after");
        } else {
            reader_until_eof(&r);
        }
        CHECK(!reader_has(&r, "Content-Length: 2998000") && !reader_has(&r, "Accept-Ranges"));
        content = content_of(&r, i == 0);
        CHECK_INT(inflateInit2(&z, 31), Z_OK);
        z.next_in = (unsigned char *)content.p;
        z.avail_in = (unsigned)content.n;
        z.next_out = got;
        z.avail_out = sizeof(got);
        CHECK_INT(inflate(&z, Z_FINISH), Z_STREAM_END);
        CHECK_INT(z.avail_in, 0);
        CHECK_INT(z.total_out, BED_FILE_BYTES - 2000);
        CHECK(memcmp(got, file + 1000, BED_FILE_BYTES - 2000) == 0);
        (void)inflateEnd(&z);
        fr_buf_finish(&content);
        reader_close(&r);
    }
    check_row("the head of a packed file");
    r = reader_open(b);
    reader_say(&r, "HEAD /packed HTTP/1.1\r\n" END "GET /after HTTP/1.1\r\n" END);
    reader_until(&r, "GET /after");
    CHECK(r.got.n < 3000 && reader_has(&r, "Transfer-Encoding: chunked"));
    reader_close(&r);
}

static void other_answers(struct bed *b)
{
    struct reader r;

    check_row("the head of a file");
    r = reader_open(b);
    reader_say(&r, "HEAD /file HTTP/1.1\r\n" END "HEAD /x HTTP/1.1\r\n" END
                   "GET /unchanged HTTP/1.1\r\n" END "GET /after HTTP/1.1\r\n" END);
    reader_until(&r, "GET /after");
    CHECK(r.got.n < 6000 && reader_has(&r, "Content-Length: 2998000\r\n"));
    CHECK(reader_has(&r, "HTTP/1.1 304 Not Modified\r\n") && reader_has(&r, "ETag: \"7\""));
    CHECK(!reader_has(&r, "GET /x") && !reader_has(&r, "GET /unchanged"));
    reader_close(&r);

    check_row("a file that is shorter than was said");
    r = reader_open(b);
    reader_say(&r, "GET /cut HTTP/1.1\r\n" END);
    reader_until_eof(&r);
    CHECK(r.got.n > BED_FILE_BYTES - 1000 && r.got.n < BED_FILE_BYTES);
    reader_close(&r);

    check_row("an answer that the reader leaves in the middle of");
    for (int i = 0; i < 30; i++) {
        r = reader_open(b);
        reader_say(&r, i % 3 == 0   ? "GET /big HTTP/1.1\r\n" END
                       : i % 3 == 1 ? "GET /file HTTP/1.1\r\n" END
                                    : "GET /packed HTTP/1.1\r\n" END);
        while (r.got.n == 0)
            reader_take(&r);
        reader_close(&r);
    }

    check_row("a reader that sends no more");
    r = reader_open(b);
    reader_say(&r, "GET /half HTTP/1.1\r\n" END);
    shutdown(r.fd, SHUT_WR);
    reader_until(&r, "GET /half");
    reader_until_eof(&r);
    reader_close(&r);

    check_row("one with a long answer");
    r = reader_open(b);
    reader_say(&r, "GET /big HTTP/1.1\r\n" END);
    shutdown(r.fd, SHUT_WR);
    reader_until_eof(&r);
    CHECK(r.got.n > 4100000);
    reader_close(&r);

    check_row("many requests at once: none waits for more to come");
    r = reader_open(b);
    for (int i = 0; i < 20; i++)
        reader_say(&r, "GET /one HTTP/1.1\r\n" END);
    reader_say(&r, "GET /after HTTP/1.1\r\n" END);
    reader_until(&r, "GET /after");
    reader_close(&r);

    check_row("a connection that says nothing");
    r = reader_open(b);
    shutdown(r.fd, SHUT_WR);
    reader_until_eof(&r);
    CHECK_INT(r.got.n, 0);
    reader_close(&r);
}

static void answers(void)
{
    struct bed b;
    struct reader r;
    struct fr_buf file = {0};
    char path[128];

    bed_begin(&b, NULL);
    while (file.n < BED_FILE_BYTES)
        fr_buf_fmt(&file, "%zu\n", file.n);
    (void)snprintf(path, sizeof(path), "%s/file", b.dir);
    CHECK(fr_file_write(path, file.p, BED_FILE_BYTES, 0600, NULL) == FR_OK);

    check_row("a part of a file, twice on one connection, behind a packed one");
    r = reader_open(&b);
    reader_say(&r, "GET /packed HTTP/1.1\r\n" END);
    reader_until(&r, "\r\n0\r\n\r\n");
    fr_buf_cut(&r.got, r.got.n);
    reader_say(&r, "GET /file HTTP/1.1\r\n" END "GET /file HTTP/1.1\r\n" END);
    for (int i = 0; i < 2; i++) {
        reader_until(&r, "\r\n\r\n");
        CHECK(reader_has(&r, "HTTP/1.1 206 Partial Content\r\n"));
        CHECK(reader_has(&r, "Content-Range: bytes 1000-2998999/3000000\r\n"));
        CHECK(reader_has(&r, "Content-Length: 2998000\r\n"));
        size_t head = (size_t)((char *)memmem(r.got.p, r.got.n, "\r\n\r\n", 4) - r.got.p) + 4;
        while (r.got.n < head + BED_FILE_BYTES - 2000 && !r.eof)
            reader_take(&r);
        CHECK(memcmp(r.got.p + head, file.p + 1000, BED_FILE_BYTES - 2000) == 0);
        fr_buf_cut(&r.got, head + BED_FILE_BYTES - 2000);
    }
    CHECK_INT(r.got.n, 0);
    reader_say(&r, "GET /after HTTP/1.1\r\n" END);
    reader_until(&r, "GET /after");
    reader_close(&r);

    packed(&b, file.p);
    fr_buf_finish(&file);
    other_answers(&b);
    bed_end(&b);
}

/* ---- many ---- */

static void many(void)
{
    enum { N = 300, LIMIT = 256 };
    struct bed b;
    static struct reader r[N];
    int refused = 0, served = 0;

    check_row("300 connections");
    bed_begin(&b, NULL);
    for (int i = 0; i < N; i++) {
        r[i] = reader_open(&b);
        bed_turn(&b);
    }
    for (int i = 0; i < N; i++)
        reader_say(&r[i], "GET / HTTP/1.1\r\n" END);
    for (int i = 0; i < N; i++) {
        reader_until(&r[i], "HTTP/1.1 ");
        reader_until(&r[i], "\r\n\r\n");
        served += reader_has(&r[i], "HTTP/1.1 200");
        if (reader_has(&r[i], "HTTP/1.1 503")) {
            refused++;
            reader_until_eof(&r[i]);
            CHECK(reader_has(&r[i], "the host has 256 connections"));
            CHECK(reader_has(&r[i], "\r\nRetry-After: "));
        }
    }
    CHECK_INT(served, LIMIT);
    CHECK_INT(refused, N - LIMIT);
    reader_close(&r[0]);
    reader_close(&r[N - 1]);
    for (int i = 0; i < 3; i++)
        bed_turn(&b);
    r[0] = reader_open(&b);
    reader_say(&r[0], "GET /again HTTP/1.1\r\n" END);
    reader_until(&r[0], "GET /again");
    for (int i = 0; i < N; i++)
        reader_close(&r[i]);
    bed_end(&b);
}

static void many_streams(void)
{
    enum { N = 70, LIMIT = 64 };
    struct bed b;
    static struct reader r[N];
    int refused = 0, later = 0;

    check_row("70 streams");
    bed_begin(&b, NULL);
    for (int i = 0; i < N; i++) {
        r[i] = reader_open(&b);
        reader_say(&r[i], "GET /stream HTTP/1.1\r\n" END);
        reader_until(&r[i], "\r\n\r\n");
        refused += reader_has(&r[i], "HTTP/1.1 503");
        later += reader_has(&r[i], "\r\nRetry-After: ");
    }
    CHECK_INT(refused, N - LIMIT);
    CHECK_INT(later, refused);
    reader_close(&r[0]);
    while (b.streams[0].open)
        bed_turn(&b);
    reader_close(&r[N - 1]);
    r[0] = reader_open(&b);
    reader_say(&r[0], "GET /stream HTTP/1.1\r\n" END);
    reader_until(&r[0], "hello");
    for (int i = 0; i < N; i++)
        reader_close(&r[i]);
    bed_end(&b);
}

/* A process of another user is cut off before it is answered. */
static void foreign_uid(void)
{
    struct bed b;
    int status = 0;
    pid_t child;

    check_row("a foreign uid");
    if (getuid() != 0)
        return;
    bed_begin(&b, NULL);
    CHECK(chmod(b.dir, 0755) == 0 && chmod(b.sock, 0666) == 0);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        char p[100];
        int fd = setresuid(65534, 65534, 65534) == 0 ? fr_sys.connect_unix(b.sock) : -1;

        if (fd < 0)
            _exit(2);
        (void)!write(fd, "GET / HTTP/1.1\r\n" END, strlen("GET / HTTP/1.1\r\n" END));
        _exit(read(fd, p, sizeof(p)) > 0 ? 3 : 0);
    }
    while (waitpid(child, &status, WNOHANG) == 0)
        bed_turn(&b);
    CHECK_INT(status, 0);
    CHECK_INT(b.asked, 0);
    bed_end(&b);
}

/* Who waits for /later is called. */
static void late_ready(struct bed *b)
{
    struct fr_api_waiter *w = b->waits;

    b->ready = true;
    b->waits = NULL;
    if (CHECK(w != NULL))
        w->again(w->arg);
}

/* A request that takes long: it is worked on, and answered once that is done; others are not held
 * up. Nobody is called whose connection is gone. */
static void late_answers(void)
{
    static const struct fr_server_times times = {10000, 10000, 10000, 10000, 1};
    static const char post[] = "POST /later HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4"
                               "\r\n\r\nbody";
    struct bed b;

    check_row("an answer that comes later");
    bed_begin(&b, &times);
    struct reader first = reader_open(&b), other = reader_open(&b), gone = reader_open(&b);
    reader_say(&first, post);
    reader_say(&first, "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n"); /* its turn comes later */
    CHECK(reader_until(&first, "HTTP/1.1 102 Processing\r\n\r\n"));
    reader_say(&other, "GET /o HTTP/1.1\r\nHost: localhost\r\n\r\n");
    CHECK(reader_until(&other, "GET /o "));
    CHECK(!reader_has(&first, "200") && b.asked == 2);
    late_ready(&b);
    CHECK(reader_until(&first, "POST /later type= range= match= last= by=owner body=body"));
    CHECK(reader_until(&first, "GET /x "));
    CHECK_INT(b.asked, 4); /* it was asked twice */

    check_row("another one on the connection");
    b.ready = false;
    fr_buf_cut(&first.got, first.got.n);
    reader_say(&first, post);
    CHECK(reader_until(&first, "HTTP/1.1 102 Processing\r\n\r\n"));
    CHECK_INT(b.asked, 5);
    late_ready(&b);
    CHECK(reader_until(&first, "by=owner body=body"));

    check_row("nobody waits any more");
    b.ready = false;
    fr_buf_cut(&first.got, first.got.n);
    reader_say(&gone, post);
    CHECK(reader_until(&gone, "HTTP/1.1 102 Processing\r\n\r\n"));
    for (int64_t past = fr_sys.mono_ms() + 5; fr_sys.mono_ms() < past;)
        reader_take(&first);   /* more than the time of a comment */
    CHECK_INT(first.got.n, 0); /* where all is answered no comment comes */
    close(gone.fd);
    gone.fd = -1;
    for (int i = 0; i < 1000 && b.waits != NULL; i++)
        bed_turn(&b);
    fr_server_destroy(b.server);
    CHECK(b.waits == NULL);
    b.server = NULL;
    reader_close(&first);
    reader_close(&other);
    reader_close(&gone);
    bed_end(&b);
}

/* A body that is too long: its sender can send all of it, and has the answer then. */
static void refused_body(void)
{
    static char part[1 << 16];
    struct bed b;
    struct reader r;
    size_t left = 3 << 20;

    check_row("a body that is refused while it comes");
    bed_begin(&b, NULL);
    r = reader_open(&b);
    reader_say(&r, "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3145728\r\n\r\n");
    while (left > 0) {
        ssize_t k = send(r.fd, part, left < sizeof(part) ? left : sizeof(part),
                         MSG_DONTWAIT | MSG_NOSIGNAL);

        if (k > 0)
            left -= (size_t)k;
        else if (errno == EAGAIN)
            reader_take(&r);
        else
            break;
    }
    CHECK_INT(left, 0);
    reader_until(&r, "HTTP/1.1 413");
    reader_until_eof(&r);
    reader_close(&r);
    bed_end(&b);
}

int main(void)
{
    fr_log_to(-1);
    exchanges();
    kept();
    late_answers();
    refused_body();
    sizes();
    answers();
    many();
    many_streams();
    foreign_uid();
    return check_done();
}

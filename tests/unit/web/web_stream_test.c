/* The web server's streams, its deadlines and its end, against raw sockets. */
#include "engine/base/log.h"
#include "tests/unit/web/web_bed.h"

#define END "Host: localhost\r\n\r\n"

/* Long enough for what must not be cut off: the test's own deadline is the limit then. */
static const struct fr_server_times patient = {600000, 600000, 600000, 600000, 600000};

static const struct fr_server_times talkative = {600000, 600000, 600000, 600000, 10};

static struct fr_api_stream *open_stream(struct bed *b, struct reader *r)
{
    *r = reader_open(b);
    reader_say(r, "GET /x/stream HTTP/1.1\r\nLast-Event-ID: 7\r\n" END);
    reader_until(r, "hello\ndata: {}\n\n");
    return &b->streams[b->n_streams - 1];
}

static size_t send_text(struct fr_api_stream *s, const char *text)
{
    return s->sink.send(s->sink.arg, fr_str_of(text));
}

static void events(void)
{
    struct bed b;
    struct reader r, other;
    struct fr_api_stream *s;

    check_row("events");
    bed_begin(&b, &patient);
    s = open_stream(&b, &r);
    CHECK(reader_has(&r, "HTTP/1.1 200 OK\r\n"));
    CHECK(reader_has(&r, "Content-Type: text/event-stream\r\n"));
    CHECK(reader_has(&r, "Cache-Control: no-store\r\n"));
    CHECK(reader_has(&r, "X-Accel-Buffering: no\r\n"));
    while (s->drained == 0)
        bed_turn(&b);
    CHECK_INT(send_text(s, "data: 1\n\n"), 0);
    CHECK_INT(send_text(s, "data: 2\n\n"), 0);
    CHECK_INT(s->drained, 1); /* not from inside */
    reader_until(&r, "data: 2\n\n");
    while (s->drained == 1)
        bed_turn(&b);
    CHECK_INT(s->drained, 2);

    check_row("a stream and a request beside it");
    other = reader_open(&b);
    reader_say(&other, "GET /beside HTTP/1.1\r\n" END);
    reader_until(&other, "GET /beside");
    reader_say(&other, "POST /api/out HTTP/1.1\r\nContent-Length: 0\r\n" END);
    reader_until(&other, "HTTP/1.1 204");
    CHECK(s->open); /* without a session nobody logs out another one */
    reader_close(&other);

    check_row("the host closes it");
    send_text(s, "data: last\n\n");
    s->sink.close(s->sink.arg);
    s->open = false;
    reader_until_eof(&r);
    CHECK(reader_has(&r, "data: last\n\n\r\n0\r\n\r\n"));
    CHECK_INT(s->gone, 0);
    reader_close(&r);

    check_row("the reader leaves");
    s = open_stream(&b, &r);
    reader_close(&r);
    while (s->open)
        bed_turn(&b);
    CHECK_INT(s->gone, 1);

    check_row("the reader leaves while there is more for it");
    s = open_stream(&b, &r);
    for (int i = 0; i < 10000; i++)
        send_text(s, "data: 0123456789012345678901234567890123456789\n\n");
    reader_close(&r);
    while (s->open)
        bed_turn(&b);
    CHECK_INT(s->gone, 1);
    bed_end(&b);
}

static bool ends(const struct reader *r, const char *text)
{
    size_t n = strlen(text);

    return r->got.n >= n && memcmp(r->got.p + r->got.n - n, text, n) == 0;
}

/* By HTTP/1.0 the bytes are the events' own, and the end of the connection is that of the stream.
 */
static void unframed(void)
{
    struct bed b;
    struct reader r;
    struct fr_api_stream *s;

    for (int by_host = 0; by_host < 2; by_host++) {
        check_row(by_host ? "HTTP/1.0, the server ends" : "HTTP/1.0, the host closes it");
        bed_begin(&b, &talkative);
        r = reader_open(&b);
        reader_say(&r, "GET /x/stream HTTP/1.0\r\n" END);
        reader_until(&r, "Connection: close\r\n\r\nretry: 2000\nevent: hello\ndata: {}\n\n:\n\n");
        CHECK(!reader_has(&r, "Transfer-Encoding"));
        s = &b.streams[b.n_streams - 1];
        fr_server_set_times(b.server, &patient);
        if (by_host) {
            fr_server_destroy(b.server);
            b.server = NULL;
        } else {
            send_text(s, "data: last\n\n");
            s->sink.close(s->sink.arg);
            s->open = false;
        }
        reader_until_eof(&r);
        CHECK(ends(&r, by_host ? "data: {\"reason\":\"the host leaves\"}\n\n" : "data: last\n\n"));
        reader_close(&r);
        bed_end(&b);
    }
}

/* The reader leaves and the host sends before it was told so. */
static void late_send(void)
{
    struct bed b;
    struct reader r;
    struct fr_api_stream *s;

    check_row("sent after the reader left");
    bed_begin(&b, &patient);
    s = open_stream(&b, &r);
    reader_close(&r);
    while (s->open) {
        bed_turn(&b);
        if (s->open)
            send_text(s, "data: x\n\n");
    }
    CHECK_INT(s->gone, 1);
    bed_end(&b);
}

/* A reader that takes nothing: what waits for it is told to the host, others are served, and it is
 * cut off at last. */
static void stuck(void)
{
    static const struct fr_server_times hasty = {600000, 600000, 50, 600000, 600000};
    struct bed b;
    struct reader r, other;
    struct fr_api_stream *s;
    size_t waiting = 0, sent = 0, before;
    int drained;

    check_row("a stuck reader");
    bed_begin(&b, &patient);
    s = open_stream(&b, &r);
    while (waiting <= 256 << 10) {
        waiting = send_text(s, "data: 0123456789012345678901234567890123456789\n\n");
        sent += 48;
        CHECK(waiting < sent + sent / 4);
        bed_turn(&b);
    }
    before = waiting;
    drained = s->drained;
    CHECK_INT(s->sink.send(s->sink.arg, FR_STR("")), before);
    other = reader_open(&b);
    reader_say(&other, "GET /beside HTTP/1.1\r\n" END);
    reader_until(&other, "GET /beside");
    reader_close(&other);
    CHECK(s->open && s->drained == drained);

    check_row("it reads on");
    while (s->drained == drained)
        reader_take(&r);
    CHECK_INT(s->drained, drained + 1);
    CHECK(r.got.n > sent / 2);
    CHECK_INT(s->sink.send(s->sink.arg, FR_STR("")), 0);

    check_row("it is cut off, however often something is sent");
    fr_server_set_times(b.server, &hasty);
    for (; s->open; bed_turn(&b))
        send_text(s, "data: 0123456789012345678901234567890123456789\n\n");
    CHECK_INT(s->gone, 1);
    reader_close(&r);
    bed_end(&b);
}

static void comments(void)
{
    struct bed b;
    struct reader r;

    check_row("comments");
    bed_begin(&b, &talkative);
    open_stream(&b, &r);
    reader_until(&r, ":\n\n\r\n3\r\n:\n\n");
    reader_close(&r);
    bed_end(&b);
}

static void set_times(struct bed *b, int64_t head, int64_t comment)
{
    fr_server_set_times(b->server,
                        &(struct fr_server_times){head, 600000, 600000, 600000, comment});
}

/* One timer serves all: what is due behind the first deadline has its time, too. */
static void later_deadlines(void)
{
    struct bed b;
    struct reader first, second;

    check_row("two deadlines");
    bed_begin(&b, NULL);
    fr_server_set_look(b.server, 3600000);
    set_times(&b, 1, 3600000);
    first = reader_open(&b);
    bed_turn(&b);
    set_times(&b, 100, 3600000);
    second = reader_open(&b);
    bed_turn(&b);
    reader_until_eof(&first);
    reader_until_eof(&second);
    reader_close(&first);
    reader_close(&second);

    check_row("a slow header behind an answer");
    set_times(&b, 100, 3600000);
    first = reader_open(&b);
    reader_say(&first, "GET /1 HTTP/1.1\r\n" END "GET /2 HTTP/1.1\r\n");
    reader_until(&first, "GET /1");
    reader_until_eof(&first);
    CHECK(!reader_has(&first, "GET /2"));
    reader_close(&first);

    check_row("two comments");
    set_times(&b, 3600000, 50);
    open_stream(&b, &first);
    set_times(&b, 3600000, 100);
    open_stream(&b, &second);
    set_times(&b, 3600000, 3600000);
    reader_until(&first, "3\r\n:\n\n");
    reader_until(&second, "3\r\n:\n\n");
    reader_close(&first);
    reader_close(&second);
    bed_end(&b);
}

/* ---- deadlines ---- */

/* Sends text a byte at a time, by the loop's clock, until the server closes. */
struct dripping {
    struct reader *r;
    const char *text;
    size_t n, at;
    int64_t every_ms;
    struct fr_timer *timer;
};

static void drip(void *arg)
{
    struct dripping *d = arg;

    if (d->at < d->n)
        (void)!send(d->r->fd, d->text + d->at++, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    fr_loop_arm_in(&d->r->bed->loop, d->timer, d->every_ms);
}

/* What is cut off although a byte comes again and again. */
static void slow(const char *row, const struct fr_server_times *times, const char *begin,
                 const char *text)
{
    struct bed b;
    struct reader r;
    struct dripping d = {.r = &r, .text = text, .n = strlen(text), .every_ms = 5};

    check_row(row);
    bed_begin(&b, times);
    r = reader_open(&b);
    CHECK(fr_loop_timer(&b.loop, drip, &d, &d.timer) == FR_OK);
    reader_say(&r, begin);
    fr_loop_arm_in(&b.loop, d.timer, 0);
    reader_until_eof(&r);
    CHECK_INT(b.asked, 0);
    CHECK_INT(r.got.n, 0);
    CHECK(d.at < d.n);
    fr_loop_untimer(&b.loop, &d.timer);
    reader_close(&r);
    bed_end(&b);
}

#define SLOW "a long text of which a byte is sent each time, so that a silence is not what ends it "
#define SLOWER SLOW SLOW SLOW SLOW SLOW SLOW SLOW SLOW SLOW SLOW

static void deadlines(void)
{
    static const struct fr_server_times head = {100, 600000, 600000, 600000, 600000};
    static const struct fr_server_times late = {1000, 600000, 600000, 600000, 600000};
    static const struct fr_server_times body = {600000, 100, 600000, 600000, 600000};
    static const struct fr_server_times idle = {600000, 600000, 600000, 50, 600000};
    static const struct fr_server_times drain = {600000, 600000, 50, 600000, 600000};
    struct bed b;
    struct reader r;

    slow("a slow header", &head, "GET / HTTP/1.1\r\nX: ", SLOWER);
    slow("a slow header behind whole ones", &head, "GET / HTTP/1.1\r\nX: 1\r\nY: 2\r\nZ:", SLOWER);
    slow("a slow body", &body, "POST / HTTP/1.1\r\nContent-Length: 1000\r\n" END, SLOWER);

    check_row("a body has a deadline of its own");
    bed_begin(&b, &late);
    r = reader_open(&b);
    struct dripping d = {.r = &r, .text = SLOW, .n = 60, .every_ms = 30};
    CHECK(fr_loop_timer(&b.loop, drip, &d, &d.timer) == FR_OK);
    reader_say(&r, "POST /late HTTP/1.1\r\nContent-Length: 60\r\n" END);
    fr_loop_arm_in(&b.loop, d.timer, 0);
    reader_until(&r, "POST /late");
    fr_loop_untimer(&b.loop, &d.timer);
    reader_close(&r);
    bed_end(&b);

    check_row("a silent connection");
    bed_begin(&b, &head);
    r = reader_open(&b);
    reader_until_eof(&r);
    reader_close(&r);
    bed_end(&b);

    check_row("an idle connection");
    bed_begin(&b, &idle);
    r = reader_open(&b);
    reader_say(&r, "GET /1 HTTP/1.1\r\n" END);
    reader_until(&r, "GET /1");
    reader_until_eof(&r);
    reader_close(&r);
    bed_end(&b);

    check_row("an answer that is not read");
    bed_begin(&b, &drain);
    r = reader_open(&b);
    reader_say(&r, "GET /big HTTP/1.1\r\n" END);
    struct reader probe = reader_open(&b); /* turns the loop until the other is closed */
    char p[1];
    for (ssize_t n = 1; n != 0;) {
        struct pollfd f = {.fd = r.fd, .events = POLLRDHUP};
        bed_turn(&b);
        n = poll(&f, 1, 0) == 1 && (f.revents & (POLLRDHUP | POLLHUP)) ? 0 : 1;
    }
    while (recv(r.fd, p, 1, MSG_DONTWAIT) == 1)
        r.got.n++;
    CHECK(r.got.n < 4000000);
    r.got.n = 0;
    reader_close(&probe);
    reader_close(&r);
    bed_end(&b);
}

/* ---- beginning and end ---- */

static void end(void)
{
    struct bed b;
    struct reader r[5];
    struct fr_api_stream *s;
    struct fr_server *old;

    check_row("the server ends");
    bed_begin(&b, &patient);
    s = open_stream(&b, &r[0]);
    r[1] = reader_open(&b);
    reader_say(&r[1], "GET /x HTTP/1.1\r\nHost: loc");
    bed_turn(&b);
    bed_turn(&b);
    r[2] = reader_open(&b); /* not accepted yet */
    r[3] = reader_open(&b);
    reader_say(&r[3], "GET /answered HTTP/1.1\r\n" END);
    for (int asked = b.asked; b.asked == asked;)
        bed_turn(&b); /* answered, and not yet written */
    fr_server_destroy(b.server);
    b.server = NULL;
    CHECK(!s->open && s->gone == 1);
    for (int i = 0; i < 4; i++)
        reader_until_eof(&r[i]);
    CHECK(reader_has(&r[0], "event: bye\ndata: {\"reason\":"));
    CHECK(reader_has(&r[0], "\n\n\r\n0\r\n\r\n"));
    CHECK(r[1].got.n == 0 && r[2].got.n == 0);
    CHECK(reader_has(&r[3], "GET /answered"));
    for (int i = 0; i < 4; i++)
        reader_close(&r[i]);

    check_row("another server listens at the path");
    bed_listen(&b);
    old = b.server;
    bed_listen(&b);
    fr_server_destroy(old);
    r[4] = reader_open(&b);
    reader_say(&r[4], "GET /new HTTP/1.1\r\n" END);
    reader_until(&r[4], "GET /new");
    reader_close(&r[4]);
    bed_end(&b);
}

static void look_until_reached(struct bed *b)
{
    struct reader r = {.bed = b, .fd = -1};

    while ((r.fd = fr_sys.connect_unix(b->sock)) < 0)
        bed_turn(b);
    reader_say(&r, "GET /again HTTP/1.1\r\n" END);
    reader_until(&r, "GET /again");
    reader_close(&r);
}

static void lost_socket(void)
{
    struct bed b;
    struct fr_server *host, *other;
    struct stat theirs, now;
    struct fr_endpoint at = {"127.0.0.1", 0};
    struct fr_err err;
    char away[80];

    check_row("somebody removes the socket");
    bed_begin(&b, &patient);
    CHECK_INT(fr_server_listen(b.server, &at, &err), FR_OK);
    fr_server_set_look(b.server, 1);
    CHECK(fr_sys.unlink(b.sock) == 0);
    look_until_reached(&b);
    check_row("a server that is not the host's any more leaves one in its place");
    host = b.server;
    bed_listen(&b);
    other = b.server;
    fr_server_set_look(other, 600000);
    CHECK(lstat(b.sock, &theirs) == 0);
    do
        bed_turn(&b);
    while (lstat(b.sock, &now) == 0 && now.st_ino == theirs.st_ino);
    fr_server_destroy(other);
    b.server = host;
    look_until_reached(&b);
    check_row("its folder is gone for a while");
    (void)snprintf(away, sizeof(away), "%s.away", b.dir);
    CHECK(rename(b.dir, away) == 0);
    for (b.asked_lead = 0; b.asked_lead < 3;)
        bed_turn(&b);
    CHECK(mkdir(b.dir, 0700) == 0);
    look_until_reached(&b);
    CHECK(fr_remove_tree(away, &err) == FR_OK);
    struct fr_endpoint again = at; /* what listens there by TCP still does */
    CHECK_INT(fr_server_listen(b.server, &again, &err), FR_BUSY);
    check_row("one that is not the host's lets it be");
    b.followed = true;
    b.asked_lead = 0;
    CHECK(fr_sys.unlink(b.sock) == 0);
    while (b.asked_lead < 2)
        bed_turn(&b);
    CHECK(fr_sys.connect_unix(b.sock) < 0);
    bed_end(&b);
}

static void no_place(void)
{
    struct bed b;
    struct fr_server *s;
    struct fr_err err;
    struct stat st;
    char path[400];

    check_row("the socket's mode");
    bed_begin(&b, NULL);
    CHECK(lstat(b.sock, &st) == 0 && S_ISSOCK(st.st_mode) && (st.st_mode & 07777) == 0600);
    check_row("no folder");
    (void)snprintf(path, sizeof(path), "%s/none/host.sock", b.dir);
    CHECK_INT(fr_server_create(&b.loop, path, &b.api, &s, &err), FR_NOTFOUND);
    CHECK(s == NULL && strstr(err.msg, path) != NULL);
    bed_end(&b);
}

/* A path that does not fit into an address. */
static void long_path(void)
{
    struct bed b;
    struct reader r;
    char part[101];

    check_row("a long path");
    bed_begin(&b, NULL);
    fr_server_destroy(b.server);
    memset(part, 'd', 100);
    part[100] = '\0';
    (void)snprintf(b.sock, sizeof(b.sock), "%s/%s/%s", b.dir, part, part);
    CHECK(fr_mkdirs(b.sock, 0700, NULL) == FR_OK);
    (void)snprintf(b.sock, sizeof(b.sock), "%s/%s/%s/host.sock", b.dir, part, part);
    bed_listen(&b);
    r = reader_open(&b);
    reader_say(&r, "GET /far HTTP/1.1\r\n" END);
    reader_until(&r, "GET /far");
    reader_close(&r);
    bed_end(&b);
}

/* The Nth call for memory fails: nothing crashes, and others are served. */
static void no_memory(void)
{
    struct bed b;
    struct reader r;

    check_row("no memory");
    bed_begin(&b, &patient);
    for (long n = 1; n < 200; n++) {
        r = reader_open(&b);
        bed_deny(n / 2);
        reader_say(&r, n & 1 ? "GET /a/stream HTTP/1.1\r\n" END : "GET /hello HTTP/1.1\r\n" END);
        for (int i = 0; i < 20 && !r.eof && !reader_has(&r, "hello"); i++)
            bed_turn(&b);
        bed_allow();
        for (int i = 0; i < 20 && !r.eof; i++)
            reader_take(&r);
        reader_close(&r);
        for (int i = 0; i < 5; i++)
            bed_turn(&b);
        b.n_streams = 0;
    }
    fr_sys.alloc = fr_sys_real.alloc;
    fr_sys.realloc = fr_sys_real.realloc;
    CHECK(true);
    r = reader_open(&b);
    reader_say(&r, "GET /after HTTP/1.1\r\n" END);
    reader_until(&r, "GET /after");
    reader_close(&r);
    bed_end(&b);
}

int main(void)
{
    fr_log_to(-1);
    events();
    unframed();
    late_send();
    stuck();
    comments();
    later_deadlines();
    deadlines();
    end();
    lost_socket();
    no_place();
    long_path();
    no_memory();
    return check_done();
}

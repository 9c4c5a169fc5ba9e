/*
 * The command line's client against the web server, and against listeners that send a text of the
 * test. All in one thread: client_ask() turns the loop that the other side is on too.
 */
#include "engine/base/log.h"
#include "engine/client/client.h"
#include "tests/unit/web/web_bed.h"

#include <sys/socket.h>
#include <sys/un.h>

/* Long enough for what must not be cut off. */
static const struct fr_server_times patient = {600000, 600000, 600000, 600000, 600000};

static struct cli_client *new_client(struct bed *b)
{
    struct cli_client *c = NULL;
    struct fr_err err = {0};

    if (!CHECK(client_create(&b->loop, b->sock, &c, &err) == FR_OK)) {
        printf("%s\n", err.msg);
        exit(check_done());
    }
    return c;
}

static const char *body_of(const struct client_answer *a)
{
    return a->body.n > 0 ? a->body.p : "";
}

/* ---- against the server ---- */

static void problems(struct cli_client *c)
{
    struct client_answer a;
    struct fr_err err;

    check_row("a problem with its issues");
    CHECK_INT(client_ask(c, &(struct client_request){.method = "GET", .path = "/wrong"}, &a, &err),
              FR_USAGE);
    CHECK_TEXT(err.msg, "p.yaml has 2 mistakes");
    CHECK_INT(a.status, 422);
    if (CHECK_INT(a.issues.n, 2))
        CHECK_TEXT(a.issues.lines[1], "p.yaml:8:1: two");
    client_answer_finish(&a);

    check_row("a fault of the host");
    CHECK_INT(
        client_ask(c, &(struct client_request){.method = "GET", .path = "/nothing"}, &a, &err),
        FR_BUG);
    client_answer_finish(&a);
    check_row("refused by the server");
    CHECK_INT(
        client_ask(c, &(struct client_request){.method = "GET", .path = "/%2e%2e/x"}, &a, &err),
        FR_USAGE);
    client_answer_finish(&a);

    check_row("large");
    CHECK_INT(client_ask(c, &(struct client_request){.method = "GET", .path = "/big"}, &a, &err),
              FR_OK);
    CHECK_INT(a.body.n, 4100000);
    client_answer_finish(&a);
    char *large = malloc(1 << 20);
    if (CHECK(large != NULL)) {
        memset(large, 'x', 1 << 20);
        struct client_request post = {.method = "POST", .path = "/p", .body = {large, 1 << 20}};
        CHECK_INT(client_ask(c, &post, &a, &err), FR_OK);
        CHECK(a.body.n > 1 << 20);
        client_answer_finish(&a);
    }
    free(large);
}

static void answers(void)
{
    static const struct {
        struct client_request req;
        int status;
        const char *want;
    } rows[] = {
        {{"GET", "/r%20s?x=1&y=a%26b", {"", 0}, NULL, 0}, 200, "GET /r s x=1 y=a&b type= range="},
        {{"GET", "/", {"", 0}, "5-9", 0}, 200, "range=bytes=5-9"},
        {{"POST", "/p", {"{\"a\":1}", 7}, NULL, 0},
         200,
         "POST /p type=application/json range= "
         "match= last= by=owner body={\"a\":1}"},
        {{"POST", "/p", {"", 0}, NULL, 0}, 200, "POST /p"},
        {{"PUT", "/p", {"{}", 2}, NULL, 0}, 200, "body={}"},
        {{"DELETE", "/p", {"", 0}, NULL, 0}, 200, "DELETE /p"},
        {{"GET", "/unchanged", {"", 0}, NULL, 0}, 304, ""},
    };
    struct bed b;
    struct cli_client *c;
    struct client_answer a;

    bed_begin(&b, &patient);
    c = new_client(&b);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(rows[i].want);
        CHECK_INT(client_ask(c, &rows[i].req, &a, NULL), FR_OK);
        CHECK_INT(a.status, rows[i].status);
        CHECK(strstr(body_of(&a), rows[i].want) != NULL);
        client_answer_finish(&a);
    }

    problems(c);
    client_destroy(c);
    bed_end(&b);
}

struct heard {
    struct client_stream *stream;
    struct fr_buf text;
    struct fr_err why;
    int events, ends;
    int close_after; /* events; 0: never */
};

static void on_event(void *arg, const struct fr_sse_event *e)
{
    struct heard *h = arg;

    CHECK_INT(h->ends, 0);
    h->events++;
    fr_buf_fmt(&h->text, "[%s|%s|%s]", e->event, e->data.p, e->id);
    if (h->close_after > 0 && --h->close_after == 0)
        client_stream_close(h->stream);
}

static void on_end(void *arg, const struct fr_err *why)
{
    struct heard *h = arg;

    h->ends++;
    h->why = *why;
}

static void listen_to(struct cli_client *c, const char *path, const char *last_id, struct heard *h)
{
    struct client_listener l = {on_event, on_end, h};

    CHECK_INT(client_stream(c, path, last_id, &l, &h->stream, NULL), FR_OK);
}

static void until(struct bed *b, struct heard *h, const char *text)
{
    while (h->ends == 0 && (h->text.n == 0 || strstr(h->text.p, text) == NULL))
        bed_turn(b);
    if (!CHECK(h->text.n > 0 && strstr(h->text.p, text) != NULL))
        printf("   got:  %s, %s\n", h->text.n > 0 ? h->text.p : "", h->why.msg);
}

static void until_end(struct bed *b, struct heard *h)
{
    while (h->ends == 0)
        bed_turn(b);
}

static void say(struct bed *b, const char *text)
{
    struct fr_api_stream *s = &b->streams[b->n_streams - 1];

    s->sink.send(s->sink.arg, fr_str_of(text));
}

/* first: has a stream. Ends the client. */
static void the_host_leaves(struct bed *b, struct cli_client *c, struct heard *first)
{
    struct heard late = {0}, last = {0};

    check_row("the host leaves");
    fr_server_destroy(b->server);
    b->server = NULL;
    until_end(b, first);
    CHECK(strstr(first->text.p, "[bye|{\"reason\":") != NULL);
    CHECK_INT(first->why.rc, FR_STOPPED);
    CHECK_INT(first->ends, 1);

    check_row("nobody there");
    listen_to(c, "/x/stream", NULL, &late);
    CHECK_INT(late.ends, 0);
    until_end(b, &late);
    CHECK_INT(late.why.rc, FR_UNREACHABLE);
    CHECK(strstr(late.why.msg, b->sock) != NULL);

    check_row("the client ends before its stream");
    bed_listen(b);
    listen_to(c, "/x/stream", NULL, &last);
    until(b, &last, "hello");
    client_destroy(c);
    CHECK_INT(last.ends, 0);
    fr_buf_finish(&last.text);
    fr_buf_finish(&late.text);
}

static void streams(void)
{
    struct bed b;
    struct cli_client *c;
    struct heard h[3] = {{0}};
    struct client_answer a;

    check_row("a stream");
    bed_begin(&b, &patient);
    c = new_client(&b);
    listen_to(c, "/x/stream", "3.14", &h[0]);
    CHECK(h[0].text.n == 0 && h[0].ends == 0);
    until(&b, &h[0], "[hello|{}|]");
    CHECK_TEXT(b.last_id, "3.14");
    say(&b, "id: 1\nevent: log\ndata: {\"a\":\ndata: 1}\n\n");
    say(&b, ":\n\ndata: x\n\n");
    until(&b, &h[0], "[log|{\"a\":\n1}|1][message|x|1]");

    check_row("a question beside it");
    CHECK_INT(client_ask(c, &(struct client_request){.method = "GET", .path = "/beside"}, &a, NULL),
              FR_OK);
    CHECK(strstr(body_of(&a), "GET /beside") != NULL);
    client_answer_finish(&a);

    check_row("closed by a callback");
    h[1].close_after = 2;
    listen_to(c, "/y/stream", NULL, &h[1]);
    until(&b, &h[1], "hello");
    say(&b, "data: 1\n\ndata: 2\n\n");
    while (b.streams[1].open)
        bed_turn(&b);
    CHECK(strstr(h[1].text.p, "[message|1|]") != NULL && strstr(h[1].text.p, "2") == NULL);
    CHECK_INT(h[1].ends, 0);

    check_row("refused");
    listen_to(c, "/no/stream", NULL, &h[2]);
    until_end(&b, &h[2]);
    CHECK(h[2].why.rc == FR_NOTFOUND && strcmp(h[2].why.msg, "no such stream") == 0);

    the_host_leaves(&b, c, &h[0]);
    for (int i = 0; i < 3; i++)
        fr_buf_finish(&h[i].text);
    bed_end(&b);
}

/* ---- against a text ---- */

struct teller { /* accepts one connection after the other and sends each the text */
    struct bed *b;
    int fd, conn;
    const char *text;
    size_t n, piece, at;
    bool keep;  /* and keeps the connection open */
    bool asked; /* the request came */
    struct fr_watch *watch;
    struct fr_post post;
};

static void tell(void *arg)
{
    struct teller *t = arg;
    size_t n = t->n - t->at < t->piece ? t->n - t->at : t->piece;
    char p[4096];

    if (!t->asked && !(t->asked = recv(t->conn, p, sizeof(p), MSG_DONTWAIT) > 0)) {
        fr_loop_post(&t->b->loop, &t->post);
        return;
    }
    if (n > 0) /* who asked may have heard enough */
        (void)!send(t->conn, t->text + t->at, n, MSG_NOSIGNAL);
    t->at += n;
    if (t->at < t->n) {
        fr_loop_post(&t->b->loop, &t->post);
    } else if (!t->keep) {
        close(t->conn);
        t->conn = -1;
    }
}

static void on_caller(void *arg, int what)
{
    struct teller *t = arg;

    (void)what;
    if (t->conn >= 0)
        close(t->conn);
    t->conn = fr_sys.accept(t->fd);
    t->asked = false;
    t->at = 0;
    fr_loop_post(&t->b->loop, &t->post);
}

static void teller_begin(struct teller *t, struct bed *b)
{
    fr_server_destroy(b->server);
    b->server = NULL;
    *t = (struct teller){.b = b, .conn = -1, .piece = 1 << 20};
    t->post = (struct fr_post){.run = tell, .arg = t};
    t->fd = fr_sys.listen_unix(b->sock);
    CHECK(t->fd >= 0);
    CHECK(fr_loop_watch(&b->loop, t->fd, on_caller, t, &t->watch) == FR_OK);
    fr_loop_want(&b->loop, t->watch, FR_LOOP_READ);
}

static void teller_set(struct teller *t, const char *text, size_t piece, bool keep)
{
    t->text = text;
    t->n = strlen(text);
    t->piece = piece;
    t->keep = keep;
}

static void teller_end(struct teller *t)
{
    fr_loop_withdraw(&t->b->loop, &t->post);
    fr_loop_unwatch(&t->b->loop, &t->watch);
    if (t->conn >= 0)
        close(t->conn);
    close(t->fd);
    unlink(t->b->sock);
}

#define OK "HTTP/1.1 200 OK\r\n"

static void broken_answers(void)
{
    static const struct {
        const char *text;
        bool keep;
        enum fr_rc want;
        const char *words;
    } rows[] = {
        {OK "Content-Length: 2\r\n\r\nhi", false, FR_OK, ""},
        {OK "Content-Length: 2\r\n\r\nhi", true, FR_OK, ""},
        {OK "Transfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n", true, FR_OK, ""},
        {OK "\r\nhi", false, FR_OK, ""},
        {"HTTP/1.1 100 Continue\r\n\r\n" OK "Content-Length: 2\r\n\r\nhi", true, FR_OK, ""},
        {"", false, FR_UNREACHABLE, "went away"},
        {"HTTP/1.1 20", false, FR_UNREACHABLE, "went away"},
        {OK "Content-Len", false, FR_UNREACHABLE, "went away"},
        {OK "Content-Length: 3\r\n\r\nhi", false, FR_UNREACHABLE, "went away"},
        {OK "Transfer-Encoding: chunked\r\n\r\n5\r\nhi", false, FR_UNREACHABLE, "went away"},
        {"SSH-2.0-OpenSSH_9.2\r\n\r\n", false, FR_PROTO, "not HTTP/1.1"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2x\r\n\r\nhi", true, FR_PROTO, "no number"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz", true, FR_PROTO, "chunks"},
        {"HTTP/1.1 500 Oh\r\nContent-Length: 4\r\n\r\nwhat", true, FR_PROTO, "answered 500"},
        {"", true, FR_TIMEOUT, "does not answer"},
        {OK "Content-Length: 3\r\n\r\nhi", true, FR_TIMEOUT, "does not answer"},
    };
    struct bed b;
    struct teller t;
    struct cli_client *c;

    bed_begin(&b, &patient);
    c = new_client(&b);
    teller_begin(&t, &b);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (size_t piece = 1; piece <= 4096; piece += 4095) {
            struct client_request req = {
                .method = "GET", .path = "/", .deadline_ms = rows[i].want == FR_TIMEOUT ? 100 : 0};
            struct client_answer a;
            struct fr_err err = {0};

            check_row(rows[i].text);
            teller_set(&t, rows[i].text, piece, rows[i].keep);
            enum fr_rc rc = client_ask(c, &req, &a, &err);
            if (!CHECK_INT(rc, rows[i].want))
                printf("   %s\n", err.msg);
            if (rc == FR_OK)
                CHECK_TEXT(body_of(&a), "hi");
            CHECK(strstr(err.msg, rows[i].words) != NULL);
            client_answer_finish(&a);
        }
    client_destroy(c);
    teller_end(&t);
    bed_end(&b);
}

static void stream_pieces(void)
{
    static const char text[] = OK "Content-Type: text/event-stream; charset=utf-8\r\n"
                                  "Transfer-Encoding: chunked\r\n\r\n"
                                  "19\r\nid: 7\nevent: a\ndata: 1\n\n:\r\n"
                                  "10\r\n\ndata: 2\ndata: 3\r\n2\r\n\n\n\r\n0\r\n\r\n";
    struct bed b;
    struct teller t;
    struct cli_client *c;

    bed_begin(&b, &patient);
    c = new_client(&b);
    teller_begin(&t, &b);
    for (size_t piece = 1; piece < sizeof(text); piece++) {
        struct heard h = {0};

        check_row("a stream in pieces");
        teller_set(&t, text, piece, false);
        listen_to(c, "/stream", NULL, &h);
        until_end(&b, &h);
        CHECK_TEXT(h.text.p, "[a|1|7][message|2\n3|7]");
        CHECK_INT(h.why.rc, FR_STOPPED);
        fr_buf_finish(&h.text);
    }
    static const struct {
        const char *text;
        bool keep;
        enum fr_rc want;
    } rows[] = {
        {OK "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            "9\r\ndata: 1\n\n\r\n5\r\nda",
         false, FR_UNREACHABLE},
        {OK "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            "9\r\ndata: 1\n\n\r\n",
         true, FR_TIMEOUT},
        {OK "Content-Type: text/html\r\nContent-Length: 9\r\n\r\ndata: 1\n\n", true, FR_PROTO},
        {"HTTP/1.1 204 No\r\nContent-Type: text/event-stream\r\n\r\n", true, FR_PROTO},
        {"", true, FR_TIMEOUT},
        {"", false, FR_UNREACHABLE},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct heard h = {0};

        check_row(rows[i].text);
        teller_set(&t, rows[i].text, 4096, rows[i].keep);
        listen_to(c, "/stream", NULL, &h);
        if (rows[i].want == FR_TIMEOUT)
            client_stream_patience(h.stream, 1000);
        until_end(&b, &h);
        CHECK_INT(h.why.rc, rows[i].want);
        CHECK_INT(h.text.n > 0, i < 2);
        fr_buf_finish(&h.text);
    }
    client_destroy(c);
    teller_end(&t);
    bed_end(&b);
}

/* ---- places ---- */

static void serve_at_last(void *arg)
{
    struct teller *t = arg;

    fr_loop_want(&t->b->loop, t->watch, FR_LOOP_READ);
}

/* So many wait to be accepted that a connection is refused for now. */
static void crowd(void)
{
    struct bed b;
    struct teller t;
    struct cli_client *c;
    struct client_answer a;
    struct fr_err err = {0};
    struct fr_timer *timer;
    int waiting[300], n = 0;

    check_row("a crowd before the socket");
    bed_begin(&b, &patient);
    c = new_client(&b);
    teller_begin(&t, &b);
    fr_loop_want(&b.loop, t.watch, 0);
    teller_set(&t, OK "Content-Length: 2\r\n\r\nhi", 4096, false);
    while (n < 300 && (waiting[n] = fr_sys.connect_unix(b.sock)) >= 0)
        n++;
    CHECK(n > 0 && n < 300 && errno == EAGAIN);
    for (int i = 0; i < n; i++)
        CHECK(write(waiting[i], "x", 1) == 1);
    struct client_request req = {.method = "GET", .path = "/", .deadline_ms = 50};
    CHECK_INT(client_ask(c, &req, &a, &err), FR_TIMEOUT);
    client_answer_finish(&a);
    CHECK(fr_loop_timer(&b.loop, serve_at_last, &t, &timer) == FR_OK);
    fr_loop_arm_in(&b.loop, timer, 50);
    req.deadline_ms = 0;
    CHECK_INT(client_ask(c, &req, &a, &err), FR_OK);
    CHECK_TEXT(body_of(&a), "hi");
    client_answer_finish(&a);
    for (int i = 0; i < n; i++)
        close(waiting[i]);
    fr_loop_untimer(&b.loop, &timer);
    client_destroy(c);
    teller_end(&t);
    bed_end(&b);
}

static void nobody(void)
{
    struct bed b;
    struct cli_client *c;
    struct client_answer a;
    struct client_request req = {.method = "POST", .path = "/p", .body = {"{}", 2}};
    struct fr_err err;
    int fd;

    check_row("no socket");
    bed_begin(&b, &patient);
    fr_server_destroy(b.server);
    b.server = NULL;
    c = new_client(&b);
    CHECK_INT(client_ask(c, &req, &a, &err), FR_UNREACHABLE);
    CHECK(strstr(err.msg, b.sock) != NULL);
    check_row("the socket of one that is gone");
    fd = fr_sys.listen_unix(b.sock);
    CHECK(fd >= 0);
    close(fd);
    CHECK_INT(client_ask(c, &req, &a, &err), FR_UNREACHABLE);
    check_row("a file in its place");
    CHECK(unlink(b.sock) == 0 && fr_file_write(b.sock, "x", 1, 0600, &err) == FR_OK);
    CHECK_INT(client_ask(c, &req, &a, &err), FR_UNREACHABLE);
    check_row("and one again");
    bed_listen(&b);
    CHECK_INT(client_ask(c, &req, &a, &err), FR_OK);
    client_answer_finish(&a);
    client_destroy(c);
    bed_end(&b);
}

static void long_path(void)
{
    struct bed b;
    struct cli_client *c;
    struct heard h = {0};
    char part[101];

    check_row("a long path");
    bed_begin(&b, &patient);
    fr_server_destroy(b.server);
    memset(part, 'd', 100);
    part[100] = '\0';
    (void)snprintf(b.sock, sizeof(b.sock), "%s/%s/%s", b.dir, part, part);
    CHECK(strlen(b.sock) > sizeof(((struct sockaddr_un *)0)->sun_path));
    CHECK(fr_mkdirs(b.sock, 0700, NULL) == FR_OK);
    (void)snprintf(b.sock, sizeof(b.sock), "%s/%s/%s/host.sock", b.dir, part, part);
    bed_listen(&b);
    c = new_client(&b);
    listen_to(c, "/stream", NULL, &h);
    until(&b, &h, "hello");
    fr_buf_finish(&h.text);
    client_destroy(c);
    bed_end(&b);
}

/* The Nth call for memory fails, the server's among them: each question ends
 * with an answer or an error that has a text, and a stream that cannot be told
 * so ends. */
static bool ask_with_memory(struct bed *b, struct cli_client *c, long n)
{
    struct client_request req = {.method = "POST", .path = "/p", .body = {"{}", 2}};
    struct client_answer a;
    struct fr_err err = {0};
    enum fr_rc rc;
    bool denied_one;

    bed_deny(n);
    rc = client_ask(c, &req, &a, &err);
    denied_one = bed_allow();
    CHECK((rc == FR_OK) == (a.status == 200 && a.body.n > 0));
    CHECK(rc == FR_OK || err.msg[0] != '\0');
    client_answer_finish(&a);
    (void)b;
    return denied_one;
}

static bool listen_with_memory(struct bed *b, struct cli_client *c, long n)
{
    struct heard h = {0};
    struct client_listener l = {on_event, on_end, &h};
    struct fr_err err = {0};
    bool denied_one;

    bed_deny(n);
    if (client_stream(c, "/x/stream", "1", &l, &h.stream, &err) == FR_OK)
        while (h.ends == 0 && h.events == 0)
            bed_turn(b);
    else
        CHECK(h.stream == NULL && err.msg[0] != '\0');
    denied_one = bed_allow();
    if (h.ends == 0)
        client_stream_close(h.stream);
    else
        CHECK(h.why.msg[0] != '\0');
    fr_buf_finish(&h.text);
    b->n_streams = 0;
    for (int i = 0; i < 5; i++)
        bed_turn(b);
    return denied_one;
}

static void no_memory(void)
{
    struct bed b;
    struct cli_client *c;
    long n;

    bed_begin(&b, &patient);
    c = new_client(&b);
    check_row("no memory for a question");
    for (n = 1; ask_with_memory(&b, c, n); n++)
        ;
    CHECK(n > 5);
    check_row("no memory for a stream");
    for (n = 1; listen_with_memory(&b, c, n); n++)
        ;
    CHECK(n > 5);
    fr_sys.alloc = fr_sys_real.alloc;
    fr_sys.realloc = fr_sys_real.realloc;
    client_destroy(c);
    bed_end(&b);
}

int main(void)
{
    fr_log_to(-1);
    answers();
    streams();
    broken_answers();
    stream_pieces();
    crowd();
    nobody();
    long_path();
    no_memory();
    return check_done();
}

/* The web server over TCP: who is let in, pages, sessions, and how many may come. */
#include "engine/base/log.h"
#include "tests/unit/web/web_bed.h"

struct exchange {
    const char *name, *text, *want, *also;
    int asked; /* requests that reach the handler */
};

static void exchange(struct bed *b, const struct exchange *x)
{
    struct reader r = tcp_open(b);
    int asked = b->asked;

    check_row(x->name);
    reader_say(&r, x->text);
    reader_say(&r, "\r\n");
    reader_until(&r, x->want);
    reader_until(&r, x->also);
    reader_until(&r, "Content-Security-Policy: ");
    reader_until(&r, "\r\n\r\n");
    CHECK_INT(b->asked - asked, x->asked);
    reader_close(&r);
}

static const struct exchange rows[] = {
    {"a token", "GET /api/x HTTP/1.1\r\n" LOCAL GOOD, "HTTP/1.1 200", "by=token", 1},
    {"a session", "GET /api/x HTTP/1.1\r\n" LOCAL FINE, "HTTP/1.1 200", "by=user", 1},
    {"neither", "GET /api/x HTTP/1.1\r\n" LOCAL, "HTTP/1.1 200", "by= body=", 1},
    {"a bad token beside a session",
     "GET /api/x HTTP/1.1\r\n" LOCAL FINE "Authorization: Bearer bad\r\n", "HTTP/1.1 200",
     "by= body=", 1},
    {"another host", "GET /api/x HTTP/1.1\r\nHost: evil.example\r\n" GOOD, "HTTP/1.1 421",
     "not called so", 0},
    {"another host, a page", "GET / HTTP/1.1\r\nHost: evil.example\r\n", "HTTP/1.1 421",
     "not called so", 0},
    {"another site", "POST /api/x HTTP/1.1\r\n" LOCAL FINE "Sec-Fetch-Site: cross-site\r\n",
     "HTTP/1.1 403", "another site", 0},
    {"login", "POST /api/in HTTP/1.1\r\n" LOCAL OURS, "HTTP/1.1 204",
     "Set-Cookie: flowrun=fine; Path=/; HttpOnly; SameSite=Lax; Max-Age=604800\r\n", 1},
    {"logout", "POST /api/out HTTP/1.1\r\n" LOCAL OURS FINE, "HTTP/1.1 204",
     "Set-Cookie: flowrun=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0\r\n", 1},
    {"a page", "GET /runs/41 HTTP/1.1\r\n" LOCAL, "HTTP/1.1 200", "<base href=\"/\">", 0},
    {"no page in a browser", "GET /elsewhere HTTP/1.1\r\n" LOCAL "Accept: text/html,*/*;q=0.8\r\n",
     "HTTP/1.1 404", "Content-Type: text/html", 0},
    {"no file in a browser", "GET /static/x.js HTTP/1.1\r\n" LOCAL "Accept: text/html\r\n",
     "HTTP/1.1 404", "Content-Type: application/problem+json", 0},
    {"no page", "GET /elsewhere HTTP/1.1\r\n" LOCAL, "HTTP/1.1 404", "nothing at", 0},
    {"a file", "GET /static/app.js HTTP/1.1\r\n" LOCAL, "Content-Type: text/javascript",
     "Cache-Control: private, no-cache", 0},
    {"a file of another build", "GET /static/0123456789abcdef/app.js HTTP/1.1\r\n" LOCAL,
     "HTTP/1.1 404", "nothing at", 0},
    {"what is no file", "GET /static/%2e%2e/x HTTP/1.1\r\n" LOCAL, "HTTP/1.1 400", "/..", 0},
    {"packed", "GET / HTTP/1.1\r\n" LOCAL "Accept-Encoding: br, gzip\r\n", "HTTP/1.1 200",
     "Content-Encoding: gzip", 0},
    {"packed, if need be", "GET / HTTP/1.1\r\n" LOCAL "Accept-Encoding: br, gzip;q=0.5\r\n",
     "HTTP/1.1 200", "Content-Encoding: gzip", 0},
    {"packing refused in digits", "GET / HTTP/1.1\r\n" LOCAL "Accept-Encoding: gzip;q=0.00\r\n",
     "HTTP/1.1 200", "<base href=\"/\">", 0},
    {"packing refused", "GET / HTTP/1.1\r\n" LOCAL "Accept-Encoding: gzip;q=0, br\r\n",
     "HTTP/1.1 200", "<base href=\"/\">", 0},
    {"refused with blanks", "GET / HTTP/1.1\r\n" LOCAL "Accept-Encoding: br, gzip ; q=0\r\n",
     "HTTP/1.1 200", "<base href=\"/\">", 0},
    {"a page is not written", "PUT / HTTP/1.1\r\n" LOCAL GOOD, "HTTP/1.1 405", "Allow: GET, HEAD",
     0},
    {"what tasks wrote", "GET /api/foreign HTTP/1.1\r\n" LOCAL GOOD,
     "Content-Security-Policy: sandbox; default-src 'none'", "Content-Disposition: attachment", 1},
};

static void exchanges(void)
{
    struct bed b;

    bed_begin(&b, NULL);
    listen_tcp(&b, &plain);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        exchange(&b, &rows[i]);
    bed_end(&b);
}

/* Of two values whoever is in front of us may have read the other one. */
static void headers_once(void)
{
    static const char *const once[] = {"Host",
                                       "Content-Length",
                                       "Transfer-Encoding",
                                       "Content-Type",
                                       "Range",
                                       "If-None-Match",
                                       "If-Match",
                                       "Last-Event-ID",
                                       "Authorization",
                                       "Cookie",
                                       "Sec-Fetch-Site",
                                       "Origin",
                                       "X-Forwarded-For",
                                       "X-Forwarded-Proto",
                                       "Idempotency-Key"};
    struct bed b;

    bed_begin(&b, NULL);
    listen_tcp(&b, &plain);
    for (size_t i = 0; i < sizeof(once) / sizeof(once[0]); i++) {
        char text[200], want[60];

        snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n%s: 1\r\nX: x\r\n%s: 2\r\n%s", once[i],
                 once[i], i > 0 ? LOCAL : "");
        snprintf(want, sizeof(want), "the header %s came twice", once[i]);
        exchange(&b, &(struct exchange){once[i], text, "HTTP/1.1 400", want, 0});
    }
    bed_end(&b);
}

/* Each request of a connection has a caller of its own: those of a proxy are of many users. */
static void callers(void)
{
    static const char *const proxies[] = {"127.0.0.1"};
    static const struct {
        const char *text, *end, *want;
    } asked[] = {
        {"GET /api/1 HTTP/1.1\r\n" LOCAL GOOD "\r\n", " body=", "by=token body="},
        {"GET /api/2 HTTP/1.1\r\n" LOCAL "\r\n", " body=", "by= body="},
        {"GET /api/3 HTTP/1.1\r\n" LOCAL FINE "\r\n", " body=", "by=user body="},
        {"GET /api/4 HTTP/1.1\r\n" LOCAL "Authorization: Bearer bad\r\n\r\n",
         " body=", "by= body="},
        {"POST /api/in HTTP/1.1\r\n" LOCAL OURS "X-Forwarded-Proto: https\r\n\r\n", "\r\n\r\n",
         "Max-Age=604800; Secure\r\n"},
        {"POST /api/in HTTP/1.1\r\n" LOCAL OURS "\r\n", "\r\n\r\n", "Max-Age=604800\r\n"},
    };
    struct fr_gate gate = plain;
    struct bed b;
    struct reader r;

    gate.proxies = proxies;
    gate.n_proxies = 1;
    bed_begin(&b, NULL);
    listen_tcp(&b, &gate);
    r = tcp_open(&b);
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        check_row(asked[i].want);
        reader_say(&r, asked[i].text);
        reader_until(&r, asked[i].end);
        CHECK(reader_has(&r, asked[i].want));
        fr_buf_cut(&r.got, r.got.n);
    }
    reader_close(&r);
    bed_end(&b);
}

static void bases(void)
{
    static const struct exchange below[] = {
        {"a page below", "GET /f/runs HTTP/1.1\r\n" LOCAL, "HTTP/1.1 200", "<base href=\"/f/\">",
         0},
        {"the interface below", "GET /f/api/x HTTP/1.1\r\n" LOCAL GOOD, "HTTP/1.1 200",
         "GET /api/x", 1},
        {"not below", "GET /api/x HTTP/1.1\r\n" LOCAL GOOD, "HTTP/1.1 404", "base path", 0},
        {"its cookie", "POST /f/api/in HTTP/1.1\r\n" LOCAL OURS, "HTTP/1.1 204", "; Path=/f; ", 1},
        {"without a login", "GET /f/api/x HTTP/1.1\r\n" LOCAL, "HTTP/1.1 200", "by=anonymous", 1},
    };
    struct fr_gate gate = plain;
    struct bed b;

    gate.base = "/f";
    gate.open_view = true;
    bed_begin(&b, NULL);
    listen_tcp(&b, &gate);
    for (size_t i = 0; i < sizeof(below) / sizeof(below[0]); i++)
        exchange(&b, &below[i]);
    bed_end(&b);
}

/* The page says under which path its files never change. */
static void kept(void)
{
    struct reader r;
    struct bed b;
    char name[64], ask[200];
    const char *p;

    check_row("a file that never changes");
    bed_begin(&b, NULL);
    listen_tcp(&b, &plain);
    r = tcp_open(&b);
    reader_say(&r, "GET / HTTP/1.1\r\n" LOCAL "\r\n");
    reader_until(&r, "</html>");
    p = strstr(r.got.p, "static/");
    if (CHECK(p != NULL) && CHECK(sscanf(p, "static/%16[0-9a-f]/", name) == 1)) {
        (void)snprintf(ask, sizeof(ask),
                       "GET /static/%s/app.js HTTP/1.1\r\n" LOCAL "Connection: close\r\n\r\n",
                       name);
        reader_say(&r, ask);
        reader_until(&r, "public, max-age=31536000, immutable");
    }
    reader_close(&r);
    bed_end(&b);
}

#define H1(look, glyph, word)                                                                      \
    "<h1 class=\"st-" look "\"><span class=\"badge st-" look "\"><span class=\"glyph\" "           \
    "aria-hidden=\"true\">" glyph "</span><span class=\"word\">" word "</span></span></h1>"
#define NAME(href, text)                                                                           \
    "<h1><span class=\"no\">#41</span> <a class=\"quiet\" href=\"pipelines/" href "\">" text       \
    "</a></h1>"

struct shell {
    const char *name, *ask, *run; /* run: of the row */
    const char *want, *also;      /* want NULL: it is the page of any run */
};

static const struct shell shells[] = {
    {"its head", "/runs/41", "\"state\":\"running\",\"outcome\":\"\",\"pipeline\":\"p.1-a\"",
     H1("running", "▶", "running") NAME("p.1-a", "p.1-a"), "<title>▶ 41 p.1-a · flowrun</title>"},
    {"a run that failed", "/runs/41?tab=logs",
     "\"state\":\"over\",\"outcome\":\"failed\",\"pipeline\":\"p\"", H1("failed", "✗", "failed"),
     "<title>✗ 41 p · flowrun</title>"},
    {"one that succeeded", "/runs/41",
     "\"state\":\"over\",\"outcome\":\"succeeded\",\"pipeline\":\"p\"",
     H1("succeeded", "✓", "succeeded"), "Cache-Control: no-store\r\n"},
    {"one that was cancelled", "/runs/41",
     "\"state\":\"over\",\"outcome\":\"cancelled\",\"pipeline\":\"p\"",
     H1("cancelled", "■", "cancelled"), "<base href=\"/\">"},
    {"one that waits", "/runs/41", "\"state\":\"queued\",\"pipeline\":\"p\"",
     H1("ready", "○", "queued"), "id=\"known\""},
    {"one that is being cancelled", "/runs/41", "\"state\":\"cancelling\",\"pipeline\":\"p\"",
     H1("stopping", "◫", "cancelling"), "id=\"known\""},
    {"one whose hooks run", "/runs/41", "\"state\":\"hooks\",\"pipeline\":\"p\"",
     H1("running", "▶", "running hooks"), "id=\"known\""},
    {"a name like code", "/runs/41",
     "\"state\":\"running\",\"pipeline\":\"</script><b a='\\\"'>&ü/\"",
     NAME("%3C%2Fscript%3E%3Cb%20a%3D%27%22%27%3E%26%C3%BC%2F",
          "&lt;/script&gt;&lt;b a='&quot;'&gt;&amp;ü/"),
     "\"pipeline\":\"\\u003c/script>\\u003cb a='\\\"'>&ü/\"}}</script>"},
    {"as JSON", "/runs/41", "\"state\":\"running\",\"pipeline\":\"p\"",
     "<script type=\"application/json\" id=\"known\">{\"me\":{\"name\":\"user\"},"
     "\"runs/41?form=row\":{\"no\":41,\"state\":\"running\",\"pipeline\":\"p\"}}</script>",
     "Vary: Accept-Encoding"},
    {"no such run", "/runs/404", "\"state\":\"running\",\"pipeline\":\"p\"", NULL, NULL},
    {"a state that is not known", "/runs/41", "\"state\":\"new\",\"pipeline\":\"p\"", NULL, NULL},
    {"an outcome that is not known", "/runs/41",
     "\"state\":\"over\",\"outcome\":\"\",\"pipeline\":\"p\"", NULL, NULL},
    {"an id", "/runs/0123456789abcdef", "\"state\":\"running\",\"pipeline\":\"p\"", NULL, NULL},
    {"a number with a zero", "/runs/041", "\"state\":\"running\",\"pipeline\":\"p\"", NULL, NULL},
    {"a number that is none", "/runs/41/x", "\"state\":\"running\",\"pipeline\":\"p\"", NULL, NULL},
    {"no number", "/runs/", "\"state\":\"running\",\"pipeline\":\"p\"", NULL, NULL},
    {"a number beyond all", "/runs/1234567890123456789", "\"state\":\"running\",\"pipeline\":\"p\"",
     NULL, NULL},
    {"a list", "/runs", "\"state\":\"running\",\"pipeline\":\"p\"", NULL, NULL},
};

/* Without what is of a run; asked for with that head. */
static void plain_shell(struct bed *b, const char *path, const char *head)
{
    struct reader r = tcp_open(b);
    char text[300];

    (void)snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\n" LOCAL "%s\r\n", path, head);
    reader_say(&r, text);
    reader_until(&r, "</html>");
    CHECK(reader_has(&r, "<title>flowrun</title>"));
    CHECK(reader_has(&r, "<main id=\"main\" tabindex=\"-1\"></main>"));
    CHECK(!reader_has(&r, "id=\"known\""));
    CHECK(reader_has(&r, "Cache-Control: private, no-cache"));
    reader_close(&r);
}

static void one_shell(struct bed *b, const struct shell *s)
{
    struct reader r;
    char text[300];

    check_row(s->name);
    b->run = s->run;
    if (s->want == NULL) {
        plain_shell(b, s->ask, FINE);
        return;
    }
    r = tcp_open(b);
    (void)snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\n" LOCAL FINE "\r\n", s->ask);
    reader_say(&r, text);
    reader_until(&r, "</html>");
    CHECK(reader_has(&r, s->want));
    CHECK(reader_has(&r, s->also));
    CHECK(reader_has(&r, "Content-Security-Policy: default-src 'none'; script-src 'self'"));
    CHECK(!reader_has(&r, "ETag: ") && !reader_has(&r, "<!-- "));
    reader_close(&r);
}

/* The page of a run has what is seen first, for who may see it. */
static void known(void)
{
    struct fr_gate gate = plain;
    struct shell below = shells[0];
    struct bed b;
    int asked;

    bed_begin(&b, NULL);
    listen_tcp(&b, &plain);
    for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
        one_shell(&b, &shells[i]);
    check_row("nobody, or with a secret that is none");
    asked = b.asked;
    plain_shell(&b, "/runs/41", "");
    plain_shell(&b, "/runs/41", "Cookie: flowrun=bad\r\n");
    plain_shell(&b, "/runs/41", "Authorization: Bearer bad\r\n");
    b.locked_out = true;
    plain_shell(&b, "/runs/41", FINE);
    CHECK_INT(b.asked, asked);
    bed_end(&b);

    gate.base = "/f";
    bed_begin(&b, NULL);
    listen_tcp(&b, &gate);
    below.ask = "/f/runs/41";
    below.also = "<base href=\"/f/\">";
    one_shell(&b, &below);
    bed_end(&b);
}

/* A stream ends with the request that removes its token, before a comment is due. */
static void removed(struct bed *b)
{
    struct fr_server_times late = {10000, 30000, 30000, 60000, 3600000};
    struct reader r, out, anybody;

    check_row("the request that removes the token of a stream");
    b->locked_out = false;
    fr_server_set_times(b->server, &late);
    anybody = tcp_open(b); /* has no secret to lose: that of its cookie was none any more */
    reader_say(&anybody, "GET /api/stream HTTP/1.1\r\n" LOCAL "Cookie: flowrun=old\r\n\r\n");
    reader_until(&anybody, "hello");
    r = tcp_open(b);
    reader_say(&r, "GET /api/stream HTTP/1.1\r\n" LOCAL GOOD "\r\n");
    reader_until(&r, "hello");
    out = tcp_open(b);
    reader_say(&out, "POST /api/removed HTTP/1.1\r\n" LOCAL OURS FINE "\r\n");
    reader_until(&r, "logged out");
    reader_until_eof(&r);
    reader_take(&anybody);
    CHECK(b->streams[b->n_streams - 2].open && !reader_has(&anybody, "event: bye"));
    reader_close(&anybody);
    reader_close(&out);
    reader_close(&r);
}

/* A stream ends when its session does, or when its secret is good no more. */
static void streams(void)
{
    struct fr_server_times soon = {10000, 30000, 30000, 60000, 20};
    struct reader r, out;
    struct bed b;

    check_row("a stream after logout");
    bed_begin(&b, &soon);
    listen_tcp(&b, &plain);
    r = tcp_open(&b);
    reader_say(&r, "GET /api/stream HTTP/1.1\r\n" LOCAL FINE "\r\n");
    reader_until(&r, "hello");
    reader_until(&r, "\n:\n");
    out = tcp_open(&b);
    reader_say(&out, "POST /api/out HTTP/1.1\r\n" LOCAL OURS FINE "\r\n");
    reader_until(&r, "event: bye\ndata: {\"reason\":\"logged out\"}");
    reader_until_eof(&r);
    CHECK(!b.streams[0].open);
    CHECK_INT(b.used, 2); /* a look at a stream's secret is no use of it */
    reader_close(&out);
    reader_close(&r);

    check_row("a stream whose token is removed");
    r = tcp_open(&b);
    reader_say(&r, "GET /api/stream HTTP/1.1\r\n" LOCAL GOOD "\r\n");
    reader_until(&r, "hello");
    reader_until(&r, "\n:\n");
    b.locked_out = true;
    reader_until(&r, "logged out");
    reader_until_eof(&r);
    reader_close(&r);

    removed(&b);

    check_row("one that always has events");
    b.locked_out = false;
    soon.comment = 300;
    fr_server_set_times(b.server, &soon);
    r = tcp_open(&b);
    reader_say(&r, "GET /api/stream HTTP/1.1\r\n" LOCAL GOOD "\r\n");
    reader_until(&r, "hello");
    b.locked_out = true;
    while (!reader_has(&r, "logged out")) { /* it is never silent */
        struct fr_api_stream *s = &b.streams[b.n_streams - 1];

        s->sink.send(s->sink.arg, FR_STR("data: x\n\n"));
        reader_take(&r);
    }
    CHECK(!reader_has(&r, "\n:\n"));
    reader_until_eof(&r);
    reader_close(&r);
    bed_end(&b);
}

/* What takes long is answered once over TCP: programs take an interim answer for the answer. */
static void late(void)
{
    struct fr_server_times soon = {10000, 30000, 30000, 60000, 1};
    struct fr_api_waiter *w;
    struct reader r;
    struct bed b;

    check_row("an answer that comes later");
    bed_begin(&b, &soon);
    listen_tcp(&b, &plain);
    r = tcp_open(&b);
    reader_say(&r, "GET /api/later HTTP/1.1\r\n" LOCAL GOOD "\r\n");
    while (b.waits == NULL)
        reader_take(&r);
    for (int i = 0; i < 20; i++) /* each ends with the time of a comment */
        CHECK(fr_loop_turn(&b.loop, true, NULL) == FR_OK);
    w = b.waits;
    b.waits = NULL;
    b.ready = true;
    w->again(w->arg);
    reader_until(&r, "GET /api/later");
    CHECK(fr_has_prefix(r.got.p, "HTTP/1.1 200 OK"));
    reader_close(&r);
    bed_end(&b);
}

/* One address has a limit, and the socket is there for its owner meanwhile. */
static void many(void)
{
    enum { N = 40, LIMIT = 32 };
    static struct reader r[N];
    struct reader own;
    struct bed b;
    int served = 0;

    check_row("40 connections of an address");
    bed_begin(&b, NULL);
    listen_tcp(&b, &plain);
    for (int i = 0; i < N; i++) {
        r[i] = tcp_open(&b);
        reader_say(&r[i], "GET /api/x HTTP/1.1\r\n" LOCAL GOOD "\r\n");
        reader_until(&r[i], "HTTP/1.1 ");
        reader_until(&r[i], "\r\n\r\n");
        served += reader_has(&r[i], "HTTP/1.1 200");
        if (i >= LIMIT)
            CHECK(reader_has(&r[i], "HTTP/1.1 503"));
    }
    CHECK_INT(served, LIMIT);
    own = reader_open(&b);
    reader_say(&own, "GET /x HTTP/1.1\r\n" LOCAL "\r\n");
    reader_until(&own, "by=owner");
    reader_close(&own);
    for (int i = 0; i < N; i++)
        reader_close(&r[i]);
    bed_end(&b);
}

/* All that a proxy sends come from its address; they leave room for the socket. */
static void proxied(void)
{
    enum { LIMIT = 224 };
    static const char *const proxies[] = {"127.0.0.1"};
    static const char ask[] = "GET /api/x HTTP/1.1\r\n" LOCAL "X-Forwarded-For: 9.9.9.9\r\n\r\n";
    static struct reader r[LIMIT + 1];
    struct fr_gate gate = plain;
    struct bed b;

    check_row("connections of a proxy");
    gate.proxies = proxies;
    gate.n_proxies = 1;
    bed_begin(&b, NULL);
    listen_tcp(&b, &gate);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i <= LIMIT; i++) {
            r[i] = tcp_open(&b);
            reader_say(&r[i], ask);
            reader_until(&r[i], i < LIMIT ? "HTTP/1.1 200" : "HTTP/1.1 503");
        }
        CHECK(reader_until(&r[LIMIT], "the host has 224 connections over TCP"));
        reader_until_eof(&r[LIMIT]);
        for (int i = 0; i <= LIMIT; i++)
            reader_close(&r[i]);
        for (int i = 0; i < 3 * LIMIT; i++) { /* until it has seen that they are gone */
            struct reader own = reader_open(&b);

            reader_say(&own, "GET /x HTTP/1.1\r\n" LOCAL "\r\n");
            reader_until(&own, "by=owner");
            reader_close(&own);
        }
    }
    bed_end(&b);
}

/* A listener for figures has nothing else, and asks for no secret; the base is not its own. */
static void figures(void)
{
    static const struct exchange own[] = {
        {"figures", "GET /metrics HTTP/1.1\r\n" LOCAL, "HTTP/1.1 200", "by=anonymous", 1},
        {"figures below the base", "GET /f/metrics HTTP/1.1\r\n" LOCAL, "HTTP/1.1 404",
         "nothing but /metrics", 0},
        {"the interface", "GET /api/x HTTP/1.1\r\n" LOCAL GOOD, "HTTP/1.1 404",
         "nothing but /metrics", 0},
        {"a change of figures", "POST /metrics HTTP/1.1\r\n" LOCAL, "HTTP/1.1 403", "", 0},
    };
    struct fr_gate gate = plain;
    struct bed b;

    gate.base = "/f";
    bed_begin(&b, NULL);
    fr_server_gate(b.server, &gate);
    b.at = (struct fr_endpoint){"127.0.0.1", 0};
    CHECK_INT(fr_server_listen_metrics(b.server, &b.at, NULL), FR_OK);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        exchange(&b, &own[i]);
    bed_end(&b);
}

/* Few descriptors are left: the socket is there for its owner alone. */
static void scarce(void)
{
    struct reader r, own;
    struct bed b;

    check_row("few descriptors");
    bed_begin(&b, NULL);
    listen_tcp(&b, &plain);
    fr_server_set_descriptors(b.server, 4);
    r = tcp_open(&b);
    reader_say(&r, "GET /api/x HTTP/1.1\r\n" LOCAL GOOD "\r\n");
    reader_until(&r, "few descriptors left");
    CHECK(reader_has(&r, "HTTP/1.1 503"));
    reader_close(&r);
    own = reader_open(&b);
    reader_say(&own, "GET /x HTTP/1.1\r\n" LOCAL "\r\n");
    reader_until(&own, "by=owner");
    reader_close(&own);
    fr_server_set_descriptors(b.server, 4096);
    r = tcp_open(&b); /* waits until the server accepts again */
    reader_say(&r, "GET /api/x HTTP/1.1\r\n" LOCAL GOOD "\r\n");
    reader_until(&r, "by=token");
    reader_close(&r);
    bed_end(&b);
}

static void wrong(void)
{
    struct fr_endpoint taken, bad[] = {{"localhost", 1}, {"", 1}, {"203.0.113.7", 1}};
    struct fr_err err;
    struct bed b;

    check_row("addresses");
    bed_begin(&b, NULL);
    listen_tcp(&b, &plain);
    taken = b.at;
    CHECK_INT(fr_server_listen(b.server, &taken, &err), FR_BUSY);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_INT(fr_server_listen(b.server, &bad[i], &err), FR_USAGE);
    bed_end(&b);
}

int main(void)
{
    fr_log_level(FR_LOG_ERROR);
    exchanges();
    headers_once();
    callers();
    bases();
    kept();
    known();
    streams();
    late();
    many();
    proxied();
    figures();
    scarce();
    wrong();
    return check_done();
}

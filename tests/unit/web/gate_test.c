/* Who is let in over TCP: a table of heads, and what is found in them. No sockets. */
#include "engine/web/gate.h"
#include "tests/unit/check.h"

#include <string.h>

#define GET "GET /api/v1/runs HTTP/1.1\r\n"
#define POST "POST /api/v1/runs HTTP/1.1\r\n"
#define LOCAL "Host: localhost:8470\r\n"

struct row {
    const char *name, *text;
    const char *peer, *local; /* NULL: 127.0.0.1 */
    int status;
    const char *want; /* "address bearer session tls", "-" for none; NULL: not looked at */
};

static const char *const hosts[] = {"flow.example", "head-node"};
static const char *const proxies[] = {"10.0.0.9", "fd00::9"};

static const struct fr_gate plain = {
    .base = "", .hosts = hosts, .n_hosts = 2, .proxies = proxies, .n_proxies = 2, .cookie = "c"};

static const struct row rows[] = {
    /* names of this host */
    {"localhost", GET LOCAL, NULL, NULL, 0, "127.0.0.1 - - -"},
    {"localhost in capitals", GET "Host: LocalHost\r\n", NULL, NULL, 0, NULL},
    {"localhost with a dot", GET "Host: localhost.:8470\r\n", NULL, NULL, 0, NULL},
    {"another port: a tunnel", GET "Host: localhost:9000\r\n", NULL, NULL, 0, NULL},
    {"its address", GET "Host: 127.0.0.1:8470\r\n", NULL, NULL, 0, NULL},
    {"its other loopback", GET "Host: [::1]:8470\r\n", NULL, NULL, 0, NULL},
    {"the address it came to", GET "Host: 192.168.7.3:80\r\n", "192.168.7.9", "192.168.7.3", 0,
     "192.168.7.9 - - -"},
    {"IPv6 in another spelling", GET "Host: [FD00:0:0::3]:80\r\n", "fd00::1", "fd00::3", 0, NULL},
    {"a name given", GET "Host: flow.example\r\n", "1.2.3.4", "192.168.7.3", 0, NULL},
    {"a name given, in capitals", GET "Host: HEAD-NODE:8470\r\n", NULL, NULL, 0, NULL},
    {"no Host", GET, NULL, NULL, 421, NULL},
    {"a rebound name", GET "Host: evil.example:8470\r\n", NULL, NULL, 421, NULL},
    {"a name that ends as ours", GET "Host: evil-flow.example\r\n", NULL, NULL, 421, NULL},
    {"a name that begins as ours", GET "Host: localhost.evil.example\r\n", NULL, NULL, 421, NULL},
    {"an address of somebody else", GET "Host: 192.168.7.4\r\n", "1.2.3.4", "192.168.7.3", 421,
     NULL},
    {"loopback from the network", GET "Host: 127.0.0.1\r\n", "1.2.3.4", "192.168.7.3", 421, NULL},
    {"an address written as a number", GET "Host: 2130706433\r\n", NULL, NULL, 421, NULL},
    {"an address written in octal", GET "Host: 0177.0.0.1\r\n", NULL, NULL, 421, NULL},
    {"any address", GET "Host: 0.0.0.0:8470\r\n", NULL, NULL, 421, NULL},
    {"a rebound name, with a token", GET "Host: evil.example\r\nAuthorization: Bearer frt_x\r\n",
     NULL, NULL, 421, NULL},
    /* where a change comes from */
    {"our page", POST LOCAL "Sec-Fetch-Site: same-origin\r\n", NULL, NULL, 0, NULL},
    {"typed by the user", POST LOCAL "Sec-Fetch-Site: none\r\n", NULL, NULL, 0, NULL},
    {"another site", POST LOCAL "Sec-Fetch-Site: cross-site\r\n", NULL, NULL, 403, NULL},
    {"another port of this host", POST LOCAL "Sec-Fetch-Site: same-site\r\n", NULL, NULL, 403,
     NULL},
    {"another site with our Origin",
     POST LOCAL "Sec-Fetch-Site: cross-site\r\nOrigin: http://localhost:8470\r\n", NULL, NULL, 403,
     NULL},
    {"another site with a token",
     POST LOCAL "Sec-Fetch-Site: cross-site\r\nAuthorization: Bearer frt_x\r\n", NULL, NULL, 403,
     NULL},
    {"an unknown word", POST LOCAL "Sec-Fetch-Site: same\r\n", NULL, NULL, 403, NULL},
    {"our Origin", POST LOCAL "Origin: http://localhost:8470\r\n", NULL, NULL, 0, NULL},
    {"our Origin by TLS", POST "Host: flow.example\r\nOrigin: https://flow.example\r\n", NULL, NULL,
     0, NULL},
    {"Origin of another port", POST LOCAL "Origin: http://localhost:3000\r\n", NULL, NULL, 403,
     NULL},
    {"Origin of another name", POST LOCAL "Origin: http://evil.example\r\n", NULL, NULL, 403, NULL},
    {"Origin that begins as ours", POST LOCAL "Origin: http://localhost:84701\r\n", NULL, NULL, 403,
     NULL},
    {"Origin null", POST LOCAL "Origin: null\r\n", NULL, NULL, 403, NULL},
    {"Origin of another scheme", POST LOCAL "Origin: ftp://localhost:8470\r\n", NULL, NULL, 403,
     NULL},
    {"Origin beats a token", POST LOCAL "Origin: null\r\nAuthorization: Bearer frt_x\r\n", NULL,
     NULL, 403, NULL},
    {"a program without a token", POST LOCAL, NULL, NULL, 403, NULL},
    {"a program with a cookie", POST LOCAL "Cookie: c=abc\r\n", NULL, NULL, 403, NULL},
    {"a program", POST LOCAL "Authorization: Bearer frt_x\r\n", NULL, NULL, 0,
     "127.0.0.1 frt_x - -"},
    {"PUT", "PUT /x HTTP/1.1\r\n" LOCAL, NULL, NULL, 403, NULL},
    {"DELETE", "DELETE /x HTTP/1.1\r\n" LOCAL, NULL, NULL, 403, NULL},
    {"HEAD changes nothing", "HEAD /x HTTP/1.1\r\n" LOCAL, NULL, NULL, 0, NULL},
    {"GET from another site", GET LOCAL "Sec-Fetch-Site: cross-site\r\n", NULL, NULL, 0, NULL},
    /* secrets */
    {"bearer in small letters", GET LOCAL "Authorization: bearer  frt_y\r\n", NULL, NULL, 0,
     "127.0.0.1 frt_y - -"},
    {"another scheme", GET LOCAL "Authorization: Basic frt_y\r\n", NULL, NULL, 0,
     "127.0.0.1 - - -"},
    {"a long token",
     GET LOCAL "Authorization: Bearer "
               "0123456789012345678901234567890123456789012345678901234567890123\r\n",
     NULL, NULL, 0, "127.0.0.1 - - -"},
    {"a cookie", GET LOCAL "Cookie: a=1; c=s3; d=2\r\n", NULL, NULL, 0, "127.0.0.1 - s3 -"},
    {"cookies of others", GET LOCAL "Cookie: cc=1; xc=2; c2=3\r\n", NULL, NULL, 0,
     "127.0.0.1 - - -"},
    {"the first of two", GET LOCAL "Cookie: c=1; c=2\r\n", NULL, NULL, 0, "127.0.0.1 - 1 -"},
    {"the name in another value", GET LOCAL "Cookie: a=c=1\r\n", NULL, NULL, 0, "127.0.0.1 - - -"},
    {"a cookie without a value", GET LOCAL "Cookie: c\r\n", NULL, NULL, 0, "127.0.0.1 - - -"},
    {"only separators", GET LOCAL "Cookie: ; ;;\r\n", NULL, NULL, 0, "127.0.0.1 - - -"},
    /* proxies */
    {"behind a proxy", GET "Host: flow.example\r\nX-Forwarded-For: 9.9.9.9, 5.6.7.8\r\n",
     "10.0.0.9", "10.0.0.1", 0, "5.6.7.8 - - -"},
    {"behind one of IPv6", GET "Host: flow.example\r\nX-Forwarded-For: fd00::77\r\n", "fd00::9",
     "fd00::1", 0, "fd00::77 - - -"},
    {"by TLS", GET "Host: flow.example\r\nX-Forwarded-Proto: https\r\nCookie: c=1; __Host-c=2\r\n",
     "10.0.0.9", "10.0.0.1", 0, "10.0.0.9 - 2 tls"},
    {"not a proxy of ours",
     GET "Host: flow.example\r\nX-Forwarded-For: 5.6.7.8\r\nX-Forwarded-Proto: https\r\n",
     "10.0.0.8", "10.0.0.1", 0, "10.0.0.8 - - -"},
    {"no address", GET "Host: flow.example\r\nX-Forwarded-For: unknown\r\n", "10.0.0.9", "10.0.0.1",
     0, "10.0.0.9 - - -"},
};

static int look(const struct fr_gate *g, const struct row *r, const char *path,
                struct fr_gate_found *out)
{
    char text[1024];
    struct fr_http_head head;
    struct fr_err err = {0};
    size_t n = (size_t)snprintf(text, sizeof(text), "%s\r\n", r->text);
    struct fr_gate_seen seen = {&head, path, r->peer != NULL ? r->peer : "127.0.0.1",
                                r->local != NULL ? r->local : "127.0.0.1"};
    int status;

    if (!CHECK(n < sizeof(text)) || !CHECK_INT(fr_http_request(text, n, &head, &err), FR_OK))
        return -1;
    status = fr_gate_check(g, &seen, out, &err);
    CHECK((status == 0) == (err.msg[0] == '\0'));
    return status;
}

static void heads(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *r = &rows[i];
        struct fr_gate_found f;
        char got[256];

        check_row(r->name);
        if (!CHECK_INT(look(&plain, r, "/api/v1/runs", &f), r->status) || r->want == NULL)
            continue;
        (void)snprintf(got, sizeof(got), "%s %s %s %s", f.address,
                       f.bearer[0] != '\0' ? f.bearer : "-", f.session[0] != '\0' ? f.session : "-",
                       f.tls ? "tls" : "-");
        CHECK_TEXT(got, r->want);
    }
}

/* Below a base nothing else is reached, however it is written. */
static void bases(void)
{
    static const struct {
        const char *path, *want;
    } paths[] = {{"/flowrun", "/"},       {"/flowrun/", "/"}, {"/flowrun/api/v1/me", "/api/v1/me"},
                 {"/flowrunner/x", NULL}, {"/", NULL},        {"/api/v1/me", NULL}};
    struct fr_gate g = plain;
    struct fr_gate_found f;

    g.base = "/flowrun";
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        check_row(paths[i].path);
        if (CHECK_INT(look(&g, &rows[0], paths[i].path, &f), paths[i].want != NULL ? 0 : 404) &&
            paths[i].want != NULL)
            CHECK_TEXT(f.path, paths[i].want);
    }
}

static void check_cookie(const char *base, bool tls, const char *secret, const char *want)
{
    struct fr_gate g = plain;
    struct fr_buf b = {0};

    check_row(want);
    g.base = base;
    fr_gate_cookie(&g, tls, secret, &b);
    CHECK_TEXT(b.p, want);
    fr_buf_finish(&b);
}

int main(void)
{
    heads();
    bases();
    check_cookie("", false, "s", "c=s; Path=/; HttpOnly; SameSite=Lax; Max-Age=604800");
    check_cookie("", true, "s",
                 "__Host-c=s; Path=/; HttpOnly; SameSite=Lax; Max-Age=604800; Secure");
    check_cookie("/f", true, "s", "c=s; Path=/f; HttpOnly; SameSite=Lax; Max-Age=604800; Secure");
    check_cookie("", false, "", "c=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0");
    return check_done();
}

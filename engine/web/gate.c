#include "engine/web/gate.h"

#include "engine/base/tcp.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { COOKIE_S = 7 * 86400 };

/* ---- addresses ---- */

bool fr_gate_is_loopback(const char *address)
{
    return fr_tcp_is_loopback(address);
}

static bool same_address(const char *a, const char *b)
{
    unsigned char x[16], y[16];

    if (inet_pton(AF_INET, a, x) == 1)
        return inet_pton(AF_INET, b, y) == 1 && memcmp(x, y, 4) == 0;
    return inet_pton(AF_INET6, a, x) == 1 && inet_pton(AF_INET6, b, y) == 1 &&
           memcmp(x, y, 16) == 0;
}

bool fr_gate_is_proxy(const struct fr_gate *g, const char *peer)
{
    for (size_t i = 0; i < g->n_proxies; i++)
        if (same_address(g->proxies[i], peer))
            return true;
    return false;
}

/* ---- Host ---- */

/* The name or address of a Host header, without port, brackets and a last dot. "": too long. */
static void bare_host(const char *host, char out[256])
{
    const char *p = host[0] == '[' ? host + 1 : host;
    size_t n = strcspn(p, host[0] == '[' ? "]" : ":");

    out[0] = '\0';
    if (n > 0 && host[0] != '[' && p[n - 1] == '.')
        n--;
    if (n >= 256)
        return;
    memcpy(out, p, n);
    out[n] = '\0';
}

static bool is_ours(const struct fr_gate *g, const char *host, const char *local)
{
    char name[256];

    bare_host(host, name);
    if (name[0] == '\0')
        return false;
    if (strcasecmp(name, "localhost") == 0 || same_address(name, local) ||
        (fr_gate_is_loopback(local) &&
         (same_address(name, "127.0.0.1") || same_address(name, "::1"))))
        return true;
    for (size_t i = 0; i < g->n_hosts; i++)
        if (strcasecmp(name, g->hosts[i]) == 0)
            return true;
    return false;
}

/* ---- where it comes from ---- */

/* "http://127.0.0.1:8470" of Host "127.0.0.1:8470" */
static bool is_own_origin(const char *origin, const char *host)
{
    if (strncmp(origin, "http://", 7) == 0)
        return strcasecmp(origin + 7, host) == 0;
    return strncmp(origin, "https://", 8) == 0 && strcasecmp(origin + 8, host) == 0;
}

static bool comes_from_us(const struct fr_http_head *h, const char *host, bool bearer)
{
    const char *site = fr_http_find(h, "Sec-Fetch-Site");
    const char *origin = fr_http_find(h, "Origin");

    if (site != NULL)
        return strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0;
    return origin != NULL ? is_own_origin(origin, host) : bearer;
}

/* ---- secrets ---- */

static void take_bearer(const struct fr_http_head *h, char out[64])
{
    const char *value = fr_http_find(h, "Authorization");

    if (value == NULL || strncasecmp(value, "Bearer ", 7) != 0)
        return;
    value += 7 + strspn(value + 7, " ");
    if (strlen(value) < 64)
        snprintf(out, 64, "%s", value);
}

static void cookie_name(const struct fr_gate *g, bool tls, char out[80])
{
    snprintf(out, 80, "%s%s", tls && g->base[0] == '\0' ? "__Host-" : "", g->cookie);
}

/* The first of that name (RFC 6265, 4.2). */
static void take_cookie(const struct fr_gate *g, const struct fr_http_head *h, bool tls,
                        char out[64])
{
    const char *p = fr_http_find(h, "Cookie");
    char name[80];
    size_t n;

    cookie_name(g, tls, name);
    n = strlen(name);
    while (p != NULL && *p != '\0') {
        size_t len;

        p += strspn(p, "; ");
        len = strcspn(p, ";");
        if (len > n && p[n] == '=' && strncmp(p, name, n) == 0) {
            if (len - n - 1 < 64)
                snprintf(out, 64, "%.*s", (int)(len - n - 1), p + n + 1);
            return;
        }
        p += len;
    }
}

void fr_gate_cookie(const struct fr_gate *g, bool tls, const char *secret, struct fr_buf *out)
{
    char name[80];

    cookie_name(g, tls, name);
    fr_buf_fmt(out, "%s=%s; Path=%s; HttpOnly; SameSite=Lax; Max-Age=%d%s", name, secret,
               g->base[0] != '\0' ? g->base : "/", secret[0] != '\0' ? COOKIE_S : 0,
               tls ? "; Secure" : "");
}

/* ---- behind a proxy ---- */

/* The last address that a proxy of ours added is the user's. */
static void take_address(const struct fr_gate *g, const struct fr_gate_seen *seen,
                         struct fr_gate_found *out)
{
    const char *list = fr_http_find(seen->head, "X-Forwarded-For");
    const char *proto = fr_http_find(seen->head, "X-Forwarded-Proto");
    unsigned char any[16];
    char last[46] = "";

    snprintf(out->address, sizeof(out->address), "%s", seen->peer);
    if (!fr_gate_is_proxy(g, seen->peer))
        return;
    out->tls = proto != NULL && strcasecmp(proto, "https") == 0;
    if (list == NULL)
        return;
    list = strrchr(list, ',') != NULL ? strrchr(list, ',') + 1 : list;
    list += strspn(list, " \t");
    if (strlen(list) < sizeof(last))
        memcpy(last, list, strlen(list) + 1);
    if (inet_pton(AF_INET, last, any) == 1 || inet_pton(AF_INET6, last, any) == 1)
        memcpy(out->address, last, sizeof(last));
}

/* ---- the checks ---- */

static int refuse(int status, struct fr_err *err, const char *why)
{
    fr_fail(err, status == 404 ? FR_NOTFOUND : FR_DENIED, "%s", why);
    return status;
}

/* The path below base; NULL: it is not below. */
static const char *without_base(const struct fr_gate *g, const char *path)
{
    size_t n = strlen(g->base);

    if (strncmp(path, g->base, n) != 0 || (path[n] != '/' && path[n] != '\0'))
        return NULL;
    return path[n] == '/' ? path + n : "/";
}

int fr_gate_check(const struct fr_gate *g, const struct fr_gate_seen *seen,
                  struct fr_gate_found *out, struct fr_err *err)
{
    const char *host = fr_http_find(seen->head, "Host"), *method = seen->head->method;
    bool reads = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;

    *out = (struct fr_gate_found){0};
    if (host == NULL || !is_ours(g, host, seen->local))
        return refuse(421, err,
                      "this host is not called so; 'flowrun serve --host NAME' adds a name");
    take_address(g, seen, out);
    take_bearer(seen->head, out->bearer);
    if (!reads && !comes_from_us(seen->head, host, out->bearer[0] != '\0'))
        return refuse(403, err,
                      "the request comes from another site; programs send their token as "
                      "'Authorization: Bearer frt_…'");
    if ((out->path = without_base(g, seen->path)) == NULL)
        return refuse(404, err, "there is nothing here: the pages lie below the base path");
    take_cookie(g, seen->head, out->tls, out->session);
    return 0;
}

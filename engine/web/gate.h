/*
 * The first checks of a request over TCP. Pure.
 *
 * In this order: Host must be the local address of the connection, localhost, or one of `hosts`,
 * else 421; this stops DNS rebinding. A request that changes something must come from our own
 * pages, by Sec-Fetch-Site (W3C Fetch Metadata) or else Origin. Without both headers it needs a
 * bearer token, which no browser adds by itself; else 403. Then the base path is removed, else 404.
 *
 * The host derives the caller and its role from the secret found here.
 */
#ifndef FR_WEB_GATE_H
#define FR_WEB_GATE_H

#include "engine/web/http.h"

struct fr_gate {
    const char *base;         /* "" or "/flowrun": the path prefix of a proxy */
    const char *const *hosts; /* further valid Host names, without a port */
    size_t n_hosts;
    const char *const *proxies; /* addresses whose X-Forwarded-For and -Proto count */
    size_t n_proxies;
    const char *cookie; /* name of the session's cookie; "__Host-" goes in front under TLS */
    bool open_view;     /* callers without a secret have role view */
};

struct fr_gate_seen {
    const struct fr_http_head *head;
    const char *path;         /* decoded and checked */
    const char *peer, *local; /* numeric addresses of both ends */
};

struct fr_gate_found {
    const char *path; /* without base; points into the request's path */
    char address[46]; /* of the user, who may be behind a proxy */
    bool tls;         /* between the user and the proxy */
    char bearer[64];  /* "": none */
    char session[64]; /* "": none */
};

/* 0, and *out is filled; else the status of an error, and err says why. */
int fr_gate_check(const struct fr_gate *g, const struct fr_gate_seen *seen,
                  struct fr_gate_found *out, struct fr_err *err);

/* Appends the value of Set-Cookie for a session; an empty secret ends the session. */
void fr_gate_cookie(const struct fr_gate *g, bool tls, const char *secret, struct fr_buf *out);

bool fr_gate_is_loopback(const char *address);
bool fr_gate_is_proxy(const struct fr_gate *g, const char *peer);

#endif

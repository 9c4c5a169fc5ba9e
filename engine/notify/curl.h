/*
 * libcurl (curl.se/libcurl/c), loaded for the first message: a home without messages needs none.
 * Calls block; only a process that does nothing else makes them. Errors name no address and no
 * secret.
 */
#ifndef FR_NOTIFY_CURL_H
#define FR_NOTIFY_CURL_H

#include "engine/base/err.h"
#include "engine/base/str.h"

struct fr_http {
    const char *url, *method;
    const char *const *headers; /* "name: value" */
    size_t n_headers;
    const char *body;
    struct fr_buf *answer; /* gets its body; NULL: only its status matters */
    const char *ca;        /* file of certificates; NULL: those of the system */
    int64_t timeout_ms;
};

struct fr_mail {
    const char *server;          /* smtp:// or smtps:// */
    const char *user, *password; /* NULL: no login */
    const char *ca;              /* as above */
    const char *from;
    const char *const *to;
    size_t n_to;
    struct fr_str text; /* RFC 5322, lines end in CR LF */
    int64_t timeout_ms;
};

struct fr_reply {
    int status;            /* of HTTP or SMTP; 0: none came */
    int64_t retry_after_s; /* 0: not given */
};

/* Redirects are not followed; of the answer 64 KiB are read. FR_NOTFOUND: there is no libcurl.
 * FR_UNREACHABLE: no answer came. FR_OK: one came, whatever its status. */
enum fr_rc fr_http_send(const struct fr_http *req, struct fr_reply *out, struct fr_err *err);
/* TLS is required, unless the server is this machine and no ca is given. FR_OK: the server has the
 * mail. FR_UNREACHABLE: it does not; out->status is its last answer. */
enum fr_rc fr_mail_send(const struct fr_mail *mail, struct fr_reply *out, struct fr_err *err);

/* Appends libcurl's version text; nothing without libcurl. */
void fr_curl_version(struct fr_buf *out);

#endif

/*
 * Parses and checks a request target and a Host (RFC 9112, section 3; RFC 3986). Pure.
 */
#ifndef FR_WEB_TARGET_H
#define FR_WEB_TARGET_H

#include "engine/api/api.h"

enum { FR_TARGET_MAX = 2048, FR_TARGET_PAIRS = 64 };

struct fr_target { /* points into itself: not to be copied */
    const char *path;
    struct fr_api_pair query[FR_TARGET_PAIRS];
    size_t n_query;
    /* The decoded path, names and values, each ended by NUL: a pair may be one longer than it was.
     */
    char text[FR_TARGET_MAX + FR_TARGET_PAIRS + 2];
};

/*
 * Takes an origin-form target, "/path?name=value&…". The path is decoded once and then checked: it
 * begins with "/", has no "//", no segment "." or "..", no control character, and is valid UTF-8.
 * In the query "+" is a space; a name without "=" has the value "".
 * FR_USAGE: what is wrong; the text does not quote the target. FR_FULL: it is too long.
 */
enum fr_rc fr_target_parse(const char *raw, struct fr_target *out, struct fr_err *err);

/* A host with an optional port, as in a Host header: a name, an IPv4 address or [IPv6]. */
bool fr_target_host_valid(const char *host);

#endif

/*
 * Signatures of messages: HMAC with SHA-256 (RFC 2104), base64 (RFC 4648, 4), and the headers of
 * the Standard Webhooks specification (standardwebhooks.com), version 1.
 */
#ifndef FR_BASE_SIGN_H
#define FR_BASE_SIGN_H

#include "engine/base/err.h"
#include "engine/base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum { FR_HMAC_BYTES = 32 };

void fr_hmac_sha256(struct fr_str key, struct fr_str message, uint8_t out[FR_HMAC_BYTES]);

void fr_base64_put(const void *p, size_t n, struct fr_buf *out);
int fr_hex_digit(char c); /* the value of the digit; -1: c is none */
/* Appends the bytes. False: it is no base64, of whole groups of four. */
bool fr_base64_get(struct fr_str text, struct fr_buf *out);

struct fr_signed {
    const char *id; /* the same in each try */
    int64_t time_s; /* since 1970 */
    struct fr_str body;
};

/* Appends the header webhook-signature, "v1,… v1,…": one by each secret of the list, which are
 * "whsec_" and base64, with blanks between. FR_USAGE: one is not; err does not quote it. */
enum fr_rc fr_webhook_sign(const char *secrets, const struct fr_signed *m, struct fr_buf *out,
                           struct fr_err *err);

#endif

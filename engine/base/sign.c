#include "engine/base/sign.h"

#include <inttypes.h>
#include <sha2.h>
#include <string.h>

enum { BLOCK = SHA256_BLOCK_LENGTH };

static void hash(const uint8_t pad[BLOCK], const void *p, size_t n, uint8_t out[FR_HMAC_BYTES])
{
    SHA2_CTX ctx;

    SHA256Init(&ctx);
    SHA256Update(&ctx, pad, BLOCK);
    SHA256Update(&ctx, p, n);
    SHA256Final(out, &ctx);
}

void fr_hmac_sha256(struct fr_str key, struct fr_str message, uint8_t out[FR_HMAC_BYTES])
{
    uint8_t k[BLOCK] = {0}, inner[BLOCK], outer[BLOCK], first[FR_HMAC_BYTES];
    SHA2_CTX ctx;

    if (key.n > BLOCK) {
        SHA256Init(&ctx);
        SHA256Update(&ctx, (const uint8_t *)key.p, key.n);
        SHA256Final(k, &ctx);
    } else {
        memcpy(k, key.p, key.n);
    }
    for (size_t i = 0; i < BLOCK; i++) {
        inner[i] = k[i] ^ 0x36;
        outer[i] = k[i] ^ 0x5c;
    }
    hash(inner, message.p, message.n, first);
    hash(outer, first, sizeof(first), out);
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void fr_base64_put(const void *p, size_t n, struct fr_buf *out)
{
    const uint8_t *b = p;

    for (size_t i = 0; i < n; i += 3) {
        size_t left = n - i < 3 ? n - i : 3;
        uint32_t v = (uint32_t)b[i] << 16 | (left > 1 ? (uint32_t)b[i + 1] << 8 : 0) |
                     (left > 2 ? b[i + 2] : 0);
        char group[4] = {digits[v >> 18], digits[v >> 12 & 63],
                         left > 1 ? digits[v >> 6 & 63] : '=', left > 2 ? digits[v & 63] : '='};

        fr_buf_add(out, group, sizeof(group));
    }
}

int fr_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool fr_base64_get(struct fr_str text, struct fr_buf *out)
{
    for (size_t i = 0; i < text.n; i += 4) {
        uint32_t v = 0;
        size_t filled = 0;

        for (size_t k = 0; k < 4 && i + k < text.n; k++) {
            char c = text.p[i + k];
            const char *at = c != '\0' ? strchr(digits, c) : NULL;
            bool fill = c == '=' && i + 4 == text.n && k > 1;

            if ((at == NULL && !fill) || (at != NULL && filled > 0))
                return false;
            filled += fill;
            v = v << 6 | (at != NULL ? (uint32_t)(at - digits) : 0);
        }
        char bytes[3] = {(char)(v >> 16), (char)(v >> 8), (char)v};

        fr_buf_add(out, bytes, 3 - filled);
    }
    return text.n % 4 == 0 && !out->bad;
}

static enum fr_rc sign_one(struct fr_str secret, struct fr_str text, struct fr_buf *out,
                           struct fr_err *err)
{
    static const char prefix[] = "whsec_";
    const size_t n = sizeof(prefix) - 1;
    struct fr_buf key = {0};
    uint8_t mac[FR_HMAC_BYTES];
    enum fr_rc rc = FR_OK;

    if (secret.n <= n || memcmp(secret.p, prefix, n) != 0 ||
        !fr_base64_get((struct fr_str){secret.p + n, secret.n - n}, &key))
        rc = fr_fail(err, FR_USAGE, "a secret that signs webhooks is whsec_ and base64");
    if (rc == FR_OK) {
        fr_hmac_sha256((struct fr_str){key.p, key.n}, text, mac);
        fr_buf_text(out, out->n > 0 ? " v1," : "v1,");
        fr_base64_put(mac, sizeof(mac), out);
    }
    fr_buf_finish(&key);
    return rc;
}

enum fr_rc fr_webhook_sign(const char *secrets, const struct fr_signed *m, struct fr_buf *out,
                           struct fr_err *err)
{
    struct fr_buf text = {0};
    enum fr_rc rc = FR_OK;

    fr_buf_fmt(&text, "%s.%" PRId64 ".", m->id, m->time_s);
    fr_buf_add(&text, m->body.p, m->body.n);
    if (text.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory to sign a message");
    for (const char *p = secrets; rc == FR_OK; p += strcspn(p, " ")) {
        p += strspn(p, " ");
        if (*p == '\0')
            break;
        rc = sign_one((struct fr_str){p, strcspn(p, " ")}, (struct fr_str){text.p, text.n}, out,
                      err);
    }
    if (rc == FR_OK && out->n == 0)
        rc = fr_fail(err, FR_USAGE, "there is no secret to sign with");
    fr_buf_finish(&text);
    return rc;
}

/* HMAC (RFC 4231), base64 (RFC 4648, 10), signatures of webhooks. */
#include "engine/base/sign.h"
#include "tests/unit/check.h"

#include <string.h>

static const struct {
    const char *key, *text, *want;
} macs[] = {
    {"Jefe", "what do ya want for nothing?",
     "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
    {"\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b", "Hi There",
     "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
};

static void hex(const uint8_t *p, size_t n, struct fr_buf *out)
{
    for (size_t i = 0; i < n; i++)
        fr_buf_fmt(out, "%02x", p[i]);
}

static void test_hmac(void)
{
    uint8_t mac[FR_HMAC_BYTES];
    char key[132];

    for (size_t i = 0; i < sizeof(macs) / sizeof(macs[0]); i++) {
        struct fr_buf got = {0};

        fr_hmac_sha256(fr_str_of(macs[i].key), fr_str_of(macs[i].text), mac);
        hex(mac, sizeof(mac), &got);
        CHECK_TEXT(got.p, macs[i].want);
        fr_buf_finish(&got);
    }
    check_row("a key longer than a block");
    struct fr_buf got = {0};
    memset(key, 0xaa, 131);
    fr_hmac_sha256((struct fr_str){key, 131},
                   FR_STR("Test Using Larger Than Block-Size Key - Hash Key First"), mac);
    hex(mac, sizeof(mac), &got);
    CHECK_TEXT(got.p, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    fr_buf_finish(&got);
    check_row("");
}

static const struct {
    const char *bytes, *text;
} codes[] = {{"", ""},
             {"f", "Zg=="},
             {"fo", "Zm8="},
             {"foo", "Zm9v"},
             {"foob", "Zm9vYg=="},
             {"fooba", "Zm9vYmE="},
             {"foobar", "Zm9vYmFy"}};

static void test_base64(void)
{
    static const char *const wrong[] = {
        "Z", "Zg", "Zg=", "Z===", "Zg==Zg==", "Zm9v!A==", "=m9v", "Zm=v"};

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        struct fr_buf put = {0}, got = {0};

        fr_base64_put(codes[i].bytes, strlen(codes[i].bytes), &put);
        CHECK_TEXT(put.p != NULL ? put.p : "", codes[i].text);
        CHECK(fr_base64_get(fr_str_of(codes[i].text), &got));
        CHECK_TEXT(got.p != NULL ? got.p : "", codes[i].bytes);
        fr_buf_finish(&put);
        fr_buf_finish(&got);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct fr_buf got = {0};

        check_row(wrong[i]);
        CHECK(!fr_base64_get(fr_str_of(wrong[i]), &got));
        fr_buf_finish(&got);
    }
    check_row("");
}

static const struct {
    const char *name, *secrets;
    const char *want; /* or the error */
    enum fr_rc rc;
} rows[] = {
    {"one", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
     "v1,2uZEmzoRetpcioBSGPdXPnziUtv3A+Rod0yBXloyCSY=", FR_OK},
    {"two, while a secret is replaced",
     "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8= whsec_Zm9v",
     "v1,2uZEmzoRetpcioBSGPdXPnziUtv3A+Rod0yBXloyCSY= "
     "v1,fJa9OUstTSkqMqpVRNX+gKcGttmoM7iwnuedDqFQ7A0=",
     FR_OK},
    {"none", " ", "there is no secret to sign with", FR_USAGE},
    {"no prefix", "Zm9v", "a secret that signs webhooks is whsec_ and base64", FR_USAGE},
    {"no base64", "whsec_Zm9", "a secret that signs webhooks is whsec_ and base64", FR_USAGE},
};

static void test_sign(void)
{
    const struct fr_signed m = {
        "msg_0123456789abcdef0123456789abcdef", 1795320000,
        FR_STR("{\"type\":\"run.failed\",\"timestamp\":\"2026-11-22T04:00:00Z\",\"data\":{\"run\":"
               "41}}")};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fr_buf got = {0};
        struct fr_err err = {0};

        check_row(rows[i].name);
        CHECK_INT(fr_webhook_sign(rows[i].secrets, &m, &got, &err), rows[i].rc);
        CHECK_TEXT(rows[i].rc == FR_OK ? got.p : err.msg, rows[i].want);
        fr_buf_finish(&got);
    }
    check_row("");
}

int main(void)
{
    test_hmac();
    test_base64();
    test_sign();
    return check_done();
}

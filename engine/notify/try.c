/* The meaning of an answer, and the retries of a failed delivery. */
#include "engine/notify/notify.h"

#include <stdio.h>
#include <string.h>

enum { REFUSED_TRIES = 3, SPREAD = 200 /* per mille of a delay, either way */ };

static const int64_t SECOND_MS = 1000, LONGEST_MS = 24LL * 3600 * 1000;

/* Between a try and the next one. */
static const int steps_s[] = {5, 30, 120, 600, 3600, 3 * 3600, 8 * 3600, 24 * 3600};

enum { STEPS = sizeof(steps_s) / sizeof(steps_s[0]) };

void fr_notify_status(int status, int64_t retry_after_s, struct fr_sent *out)
{
    *out = (struct fr_sent){.done = status >= 200 && status <= 299, .gone = status == 410};
    out->refused =
        status >= 400 && status <= 499 && status != 408 && status != 425 && status != 429;
    if (status == 429 || status == 503)
        out->wait_ms =
            retry_after_s * SECOND_MS < LONGEST_MS ? retry_after_s * SECOND_MS : LONGEST_MS;
    snprintf(out->text, sizeof(out->text), "HTTP status %d", status);
}

/* -SPREAD … SPREAD, by key and number of the try (FNV-1a, 64 bits). */
static int64_t spread(const char *key, int64_t tries)
{
    uint64_t h = 14695981039346656037u;

    for (; *key != '\0'; key++)
        h = (h ^ (unsigned char)*key) * 1099511628211u;
    h = (h ^ (uint64_t)tries) * 1099511628211u;
    return (int64_t)((h >> 17) % (2 * SPREAD + 1)) - SPREAD;
}

enum fr_try fr_notify_try(const struct fr_sent *sent, int64_t tries, const char *key,
                          int64_t *delay_ms)
{
    *delay_ms = 0;
    if (sent->done)
        return FR_TRY_DONE;
    if (sent->gone || tries > STEPS || (sent->refused && tries >= REFUSED_TRIES))
        return FR_TRY_DEAD;
    *delay_ms = steps_s[tries - 1] * (SECOND_MS + spread(key, tries));
    if (*delay_ms < sent->wait_ms)
        *delay_ms = sent->wait_ms;
    return FR_TRY_AGAIN;
}

json_t *fr_sent_json(const struct fr_sent *sent)
{
    return json_pack("{s:b, s:b, s:b, s:I, s:s}", "done", sent->done, "refused", sent->refused,
                     "gone", sent->gone, "wait_ms", (json_int_t)sent->wait_ms, "text", sent->text);
}

bool fr_sent_read(const json_t *doc, struct fr_sent *out)
{
    int done, refused, gone;
    json_int_t wait_ms;
    const char *text;

    if (json_unpack((json_t *)doc, "{s:b, s:b, s:b, s:I, s:s}", "done", &done, "refused", &refused,
                    "gone", &gone, "wait_ms", &wait_ms, "text", &text) != 0)
        return false;
    *out = (struct fr_sent){
        .done = done != 0, .refused = refused != 0, .gone = gone != 0, .wait_ms = wait_ms};
    snprintf(out->text, sizeof(out->text), "%s", text);
    return true;
}

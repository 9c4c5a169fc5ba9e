#include "trainer/train/loading.h"

#include "engine/base/str.h"
#include "engine/base/sys.h"
#include "trainer/report/metrics.h"
#include "trainer/report/progress_log.h"
#include "trainer/train/setup.h"

#include <stdio.h>

enum { SAID_MS = 5000 };

/* Bytes a second; of less than a millisecond, as in one. */
static int64_t rate(int64_t bytes, int64_t ms)
{
    return (int64_t)((double)bytes * 1e3 / (double)(ms > 0 ? ms : 1));
}

void tr_loading_text(int64_t bytes, int64_t of, int64_t ms, char out[128])
{
    int64_t speed = rate(bytes, ms);
    char done[24], all[24], second[24], left[24];

    fr_show_size(bytes, done);
    fr_show_size(of, all);
    fr_show_size(speed, second);
    tr_progress_log_left((double)bytes, (double)of, ms, left);
    (void)snprintf(out, 128, "%s of %s, %s/s, %s left", done, all, second, left);
}

static bool so_far(void *arg, int64_t bytes, int64_t of)
{
    struct tr_loading *l = arg;
    int64_t now = fr_sys.mono_ms();
    char text[128];

    l->bytes = bytes;
    if (bytes != of && now - l->said_ms >= SAID_MS && !l->quiet) {
        l->said_ms = now;
        tr_loading_text(bytes, of, now - l->began_ms, text);
        tr_say("Loading weights: %s", text);
    }
    return l->run == NULL || !tr_run_stop_asked(l->run);
}

void tr_loading_begin(struct tr_loading *l)
{
    *l = (struct tr_loading){.tell = {so_far, l}, .began_ms = fr_sys.mono_ms()};
    l->said_ms = l->began_ms;
}

void tr_loading_end(const struct tr_loading *l)
{
    int64_t ms = fr_sys.mono_ms() - l->began_ms;
    char size[24], took[24], second[24];

    fr_show_size(l->bytes, size);
    fr_show_duration(ms, took);
    fr_show_size(rate(l->bytes, ms), second);
    tr_say("Weights loaded: %s in %s, %s/s", size, took, second);
}

#include "trainer/report/progress_log.h"

#include "engine/base/str.h"
#include "engine/base/sys.h"
#include "trainer/report/metrics.h"

enum { SAID_MS = 5000 };

struct tr_progress_log tr_progress_log_begin(const char *what, const char *unit, int64_t of)
{
    int64_t now = fr_sys.mono_ms();

    return (struct tr_progress_log){what, unit, of, now, now};
}

void tr_progress_log_left(double done, double of, int64_t ms, char out[24])
{
    out[0] = '?';
    out[1] = '\0';
    if (done > 0)
        fr_show_duration((int64_t)((of - done) * (double)ms / done), out);
}

bool tr_progress_log_at(struct tr_progress_log *p, int64_t done)
{
    int64_t now = fr_sys.mono_ms();
    char left[24];

    if ((p->of > 0 && done >= p->of) || now - p->said_ms < SAID_MS)
        return false;
    p->said_ms = now;
    tr_progress_log_left((double)done, (double)p->of, now - p->began_ms, left);
    if (p->of > 0)
        tr_say("%s: %lld of %lld %s, %s left", p->what, (long long)done, (long long)p->of, p->unit,
               left);
    else
        tr_say("%s: %lld %s so far", p->what, (long long)done, p->unit);
    return true;
}

bool tr_progress_log_tell(void *log, int64_t done)
{
    (void)tr_progress_log_at(log, done);
    return true;
}

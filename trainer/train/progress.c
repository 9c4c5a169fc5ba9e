#include "trainer/train/progress.h"

#include <math.h>

void tr_progress_advance(struct tr_progress *p, int64_t micros, double loss)
{
    if (!isfinite(loss))
        loss = p->steps_since_log > 0 ? p->loss_since_log / (double)p->steps_since_log
               : p->step > 0          ? p->loss_total / (double)p->step
                                      : 0;
    p->step++;
    p->micro += micros;
    p->loss_since_log += loss;
    p->loss_total += loss;
    p->steps_since_log++;
}

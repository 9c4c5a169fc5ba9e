#include "trainer/report/progress.h"

#include <math.h>

void tr_progress_advance(struct tr_progress *p, int64_t micros, double loss)
{
    p->step++;
    p->micro += micros;
    if (!isfinite(loss) && p->step - 1 == p->empty) {
        p->empty++;
        return;
    }
    if (!isfinite(loss))
        loss = p->steps_since_log > 0 ? p->loss_since_log / (double)p->steps_since_log
                                      : p->loss_total / (double)(p->step - 1 - p->empty);
    p->loss_since_log += loss;
    p->loss_total += loss;
    p->steps_since_log++;
}

double tr_progress_loss(const struct tr_progress *p)
{
    return p->step > p->empty ? p->loss_total / (double)(p->step - p->empty) : 0;
}

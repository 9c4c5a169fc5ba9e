/* Progress lines while weights are read. */
#ifndef TR_TRAIN_LOADING_H
#define TR_TRAIN_LOADING_H

#include "trainer/shard/shard.h"

struct tr_run;

/* Pass &tell to tr_model_load after tr_loading_begin(). Every five seconds a line has this rank's
 * progress and the estimated remaining time. */
struct tr_loading {
    struct tr_shard_tell tell;
    int64_t began_ms, said_ms;
    int64_t bytes;            /* loaded so far */
    bool quiet;               /* no lines */
    const struct tr_run *run; /* reading ends when it is asked to stop; NULL: not */
};
void tr_loading_begin(struct tr_loading *l);
/* "Weights loaded: 28.1 GiB in 14.2s, 2.0 GiB/s" */
void tr_loading_end(const struct tr_loading *l);

/* "3.1 GiB of 28.1 GiB, 2.0 GiB/s, 12.5s left" after ms. */
void tr_loading_text(int64_t bytes, int64_t of, int64_t ms, char out[128]);

#endif

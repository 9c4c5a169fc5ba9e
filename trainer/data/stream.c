#include "trainer/data/stream.h"

#include "trainer/data/pcg.h"

/* The generator becomes another one, which the value tells from others made of it. */
static void shift(struct tr_pcg *p, int64_t value)
{
    tr_pcg_seed(p, (tr_pcg_word(p) >> 1) - (uint64_t)value);
}

void tr_stream_order(const struct tr_stream *s, int64_t n, int64_t *out)
{
    struct tr_pcg draw;
    int64_t *held = out, len = 0; /* the buffer lies behind what has left it */

    tr_pcg_seed(&draw, (uint64_t)s->seed);
    if (s->epoch > 0)
        shift(&draw, s->epoch);
    shift(&draw, 0); /* the first loader process */
    for (int64_t i = 0; i < n; i++) {
        held[len++] = i;
        if (len >= s->buffer) {
            tr_pcg_shuffle(&draw, held, len);
            held += len - s->buffer / 2;
            len = s->buffer / 2;
        }
    }
    tr_pcg_shuffle(&draw, held, len);
}

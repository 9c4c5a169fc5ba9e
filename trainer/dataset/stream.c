#include "trainer/dataset/stream.h"

#include "engine/base/arena.h"
#include "engine/base/sys.h"
#include "trainer/dataset/pcg.h"

#include <string.h>

enum { TOGETHER = 10 }; /* sets that are read at the same time */

/* Derives another generator from this one, distinct for each value. */
static void shift(struct tr_pcg *p, int64_t value)
{
    tr_pcg_seed(p, (tr_pcg_word(p) >> 1) - (uint64_t)value);
}

/* The generator of an epoch and of the first loader process. */
static void begin_epoch(struct tr_pcg *p, int64_t epoch)
{
    if (epoch > 0)
        shift(p, epoch);
    shift(p, 0);
}

/* Records as the buffer takes them: sources, one after the other or by turns. */
struct sources {
    int64_t at[TR_MIX_SETS], end[TR_MIX_SETS], first[TR_MIX_SETS]; /* of each */
    size_t n;
    int64_t *out;
    int64_t count;
    size_t cap;
};

static enum fr_rc put(struct sources *s, int64_t record, struct fr_err *err)
{
    void *p = fr_grow(s->out, (size_t)s->count + 1, &s->cap, sizeof(int64_t));

    if (p == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a stream of %lld records",
                       (long long)s->count);
    s->out = p;
    s->out[s->count++] = record;
    return FR_OK;
}

/* The sets in a drawn order, another one in each epoch. */
static void draw_sets(const struct tr_stream *s, int64_t epoch, int64_t order[TR_MIX_SETS])
{
    struct tr_pcg draw;

    for (size_t i = 0; i < s->n; i++)
        order[i] = (int64_t)i;
    tr_pcg_seed(&draw, (uint64_t)s->seed);
    tr_pcg_shuffle(&draw, order, (int64_t)s->n);
    if (epoch == 0 || s->fixed)
        return;
    tr_pcg_seed(&draw, (uint64_t)epoch);
    tr_pcg_shuffle(&draw, order, (int64_t)s->n);
}

/* A group of sets: some of the drawn order, one after the other. */
struct group {
    size_t set, end; /* in the drawn order */
    int64_t next;    /* record of the set */
};

/* A record of each group by turns, until none has one. */
static enum fr_rc concat(struct sources *s, const struct tr_stream *o, int64_t epoch,
                         struct fr_err *err)
{
    size_t groups = s->n < TOGETHER ? s->n : TOGETHER, left = groups, begin = 0;
    struct group g[TOGETHER];
    int64_t order[TR_MIX_SETS];
    enum fr_rc rc = FR_OK;

    draw_sets(o, epoch, order);
    for (size_t i = 0; i < groups; i++) {
        size_t size = s->n / groups + (i < s->n % groups ? 1 : 0);

        g[i] = (struct group){begin, begin + size, s->first[order[begin]]};
        begin += size;
    }
    for (size_t i = 0; left > 0 && rc == FR_OK; i = (i + 1) % groups) {
        if (g[i].set == g[i].end)
            continue;
        rc = put(s, g[i].next++, err);
        if (g[i].next < s->end[order[g[i].set]])
            continue;
        if (++g[i].set < g[i].end)
            g[i].next = s->first[order[g[i].set]];
        else
            left--;
    }
    return rc;
}

/* Until one set, or each, was used up; what is used up begins anew, unless it may come once. */
static enum fr_rc interleave(struct sources *s, const struct tr_stream *o, int64_t epoch,
                             struct fr_err *err)
{
    size_t used = 0, enough = o->mix == TR_MIX_UNDER ? 1 : s->n;
    bool used_up[TR_MIX_SETS] = {false};
    struct tr_pcg draw;
    enum fr_rc rc = FR_OK;

    tr_pcg_seed(&draw, (uint64_t)(epoch > 0 && !o->fixed ? epoch : o->seed));
    begin_epoch(&draw, epoch);
    for (size_t turn = 0; used < enough && rc == FR_OK; turn++) {
        size_t i = o->probs == NULL ? turn % s->n : tr_mix_set(o->probs, s->n, tr_pcg_real(&draw));

        if (used_up[i] && o->mix == TR_MIX_ONCE)
            continue;
        rc = put(s, s->at[i]++, err);
        if (s->at[i] < s->end[i])
            continue;
        s->at[i] = s->first[i];
        used += used_up[i] ? 0 : 1;
        used_up[i] = true;
    }
    return rc;
}

/* The sources of the sets. FR_USAGE where a mixture would never end. */
static enum fr_rc open_sources(const struct tr_stream *o, struct sources *s, struct fr_err *err)
{
    int64_t all = 0;

    if (o->n > TR_MIX_SETS)
        return fr_fail(err, FR_USAGE, "more than %d data sets are mixed", TR_MIX_SETS);
    for (size_t i = 0; i < o->n; i++) {
        if (o->lengths[i] < 1)
            return fr_fail(err, FR_USAGE, "data set %zu of the stream has no records", i + 1);
        if (o->mix != TR_MIX_CONCAT && o->mix != TR_MIX_UNDER && o->probs != NULL &&
            o->probs[i] == 0)
            return fr_fail(err, FR_USAGE,
                           "data set %zu of the mixture has the share 0, so it would never be "
                           "used up",
                           i + 1);
        s->first[i] = s->at[i] = all;
        s->end[i] = all += o->lengths[i];
    }
    s->n = o->n;
    return FR_OK;
}

/* Shuffles in place: records that left the buffer lie before those it holds. */
static void pass_buffer(const struct tr_stream *s, int64_t epoch, int64_t *records, int64_t n)
{
    struct tr_pcg draw;
    int64_t *held = records, len = 0;

    tr_pcg_seed(&draw, (uint64_t)s->seed);
    begin_epoch(&draw, epoch);
    for (int64_t i = 0; i < n; i++) {
        if (++len >= s->buffer) {
            tr_pcg_shuffle(&draw, held, len);
            held += len - s->buffer / 2;
            len = s->buffer / 2;
        }
    }
    tr_pcg_shuffle(&draw, held, len);
}

enum fr_rc tr_stream_order(const struct tr_stream *o, int64_t epoch, int64_t **out, int64_t *n,
                           struct fr_err *err)
{
    struct sources s = {.n = 0};
    enum fr_rc rc = open_sources(o, &s, err);

    *out = NULL;
    *n = 0;
    if (rc == FR_OK)
        rc = o->n == 1 || o->mix == TR_MIX_CONCAT ? concat(&s, o, epoch, err)
                                                  : interleave(&s, o, epoch, err);
    if (rc != FR_OK) {
        fr_sys.free(s.out);
        return rc;
    }
    pass_buffer(o, epoch, s.out, s.count);
    *out = s.out;
    *n = s.count;
    return FR_OK;
}

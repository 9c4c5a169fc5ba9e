#include "trainer/dataset/mix.h"

#include "engine/base/arena.h"
#include "engine/base/str.h"
#include "engine/base/sys.h"
#include "trainer/dataset/pcg.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

struct mixer {
    const int64_t *lengths;
    size_t n;
    const struct tr_mix_opts *o;
    int64_t offsets[TR_MIX_SETS]; /* where each set begins */
    int64_t *out;
    int64_t count;
    size_t cap;
};

static enum fr_rc put(struct mixer *m, int64_t record, struct fr_err *err)
{
    void *p = fr_grow(m->out, (size_t)m->count + 1, &m->cap, sizeof(int64_t));

    if (p == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for a mixture of %lld records",
                       (long long)m->count);
    m->out = p;
    m->out[m->count++] = record;
    return FR_OK;
}

/* As many rounds as the shortest, or the longest, set has records. */
static enum fr_rc by_turns(struct mixer *m, struct fr_err *err)
{
    int64_t rounds = m->lengths[0];
    enum fr_rc rc = FR_OK;

    for (size_t i = 1; i < m->n; i++)
        if (m->o->strategy == TR_MIX_UNDER ? m->lengths[i] < rounds : m->lengths[i] > rounds)
            rounds = m->lengths[i];
    for (int64_t k = 0; k < rounds; k++)
        for (size_t i = 0; i < m->n && rc == FR_OK; i++)
            if (k < m->lengths[i] || m->o->strategy != TR_MIX_ONCE)
                rc = put(m, m->offsets[i] + k % m->lengths[i], err);
    return rc;
}

size_t tr_mix_set(const double *probs, size_t n, double x)
{
    double sum = 0, all = 0;
    size_t i = 0;

    for (size_t k = 0; k < n; k++)
        all += probs[k];
    for (; i + 1 < n; i++) {
        sum += probs[i];
        if (x < sum / all)
            break;
    }
    return i;
}

static enum fr_rc by_lot(struct mixer *m, struct fr_err *err)
{
    int64_t next[TR_MIX_SETS] = {0};
    bool used_up[TR_MIX_SETS] = {false};
    size_t used = 0, enough = m->o->strategy == TR_MIX_UNDER ? 1 : m->n;
    struct tr_pcg draw;
    enum fr_rc rc = FR_OK;

    tr_pcg_seed(&draw, m->o->seed);
    while (rc == FR_OK && used < enough) {
        size_t i = tr_mix_set(m->o->probs, m->n, tr_pcg_real(&draw));
        if (used_up[i] && m->o->strategy == TR_MIX_ONCE)
            continue;
        rc = put(m, m->offsets[i] + next[i], err);
        if (++next[i] < m->lengths[i])
            continue;
        next[i] = 0;
        used += used_up[i] ? 0 : 1;
        used_up[i] = true;
    }
    return rc;
}

enum fr_rc tr_mix(const int64_t *lengths, size_t n, const struct tr_mix_opts *o, int64_t **out,
                  int64_t *count, struct fr_err *err)
{
    struct mixer m = {.lengths = lengths, .n = n, .o = o};
    int64_t all = 0;
    enum fr_rc rc = FR_OK;

    *out = NULL;
    *count = 0;
    if (n > TR_MIX_SETS)
        return fr_fail(err, FR_USAGE, "more than %d data sets are mixed", TR_MIX_SETS);
    for (size_t i = 0; i < n; i++) {
        if (lengths[i] < 1)
            return fr_fail(err, FR_USAGE, "data set %zu of the mixture has no records", i + 1);
        if (o->strategy != TR_MIX_UNDER && o->probs != NULL && o->probs[i] == 0)
            return fr_fail(err, FR_USAGE,
                           "data set %zu of the mixture has the share 0, so it "
                           "would never be used up",
                           i + 1);
        m.offsets[i] = all;
        all += lengths[i];
    }
    if (o->strategy == TR_MIX_CONCAT)
        for (int64_t i = 0; i < all && rc == FR_OK; i++)
            rc = put(&m, i, err);
    else
        rc = o->probs == NULL ? by_turns(&m, err) : by_lot(&m, err);
    if (rc != FR_OK) {
        fr_sys.free(m.out);
        return rc;
    }
    *out = m.out;
    *count = m.count;
    return FR_OK;
}

enum fr_rc tr_mix_probs(const char *text, size_t n, double *out, struct fr_err *err)
{
    double sum = 0;
    size_t k = 0;

    for (const char *p = text; *p != '\0' && k <= n; k++) {
        size_t len = strcspn(p, ","), skip = len;
        double x;
        while (len > 0 && isspace((unsigned char)*p))
            p++, len--, skip--;
        while (len > 0 && isspace((unsigned char)p[len - 1]))
            len--;
        if (fr_parse_f64((struct fr_str){p, len}, &x, NULL) != FR_OK || !(x >= 0 && x <= 1))
            return fr_fail(err, FR_USAGE, "--interleave_probs %s: expected numbers from 0 to 1",
                           text);
        if (k < n)
            out[k] = x;
        sum += x;
        p += skip + (p[skip] == ',');
    }
    if (k != n)
        return fr_fail(err, FR_USAGE, "--interleave_probs %s: expected one for each of %zu sets",
                       text, n);
    if (fabs(sum - 1) > 1e-8)
        return fr_fail(err, FR_USAGE, "--interleave_probs %s: their sum is %g, not 1", text, sum);
    return FR_OK;
}

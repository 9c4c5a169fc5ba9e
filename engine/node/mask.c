#include "engine/node/mask.h"

#include <string.h>

void fr_mask_init(struct fr_mask *m, const struct fr_strs *values)
{
    *m = (struct fr_mask){.v = values->v, .n = values->n};
    for (size_t i = 0; i < values->n; i++)
        if (values->v[i].n > 0)
            m->first[(uint8_t)values->v[i].p[0]] = true;
}

/* Length of the longest secret at p, 0 for none; *more: a longer one may still come true. */
static size_t match(const struct fr_mask *m, const char *p, size_t n, bool *more)
{
    size_t best = 0;

    *more = false;
    for (size_t i = 0; i < m->n; i++) {
        struct fr_str s = m->v[i];
        if (s.n == 0 || memcmp(p, s.p, s.n < n ? s.n : n) != 0)
            continue;
        if (s.n > n)
            *more = true;
        else if (s.n > best)
            best = s.n;
    }
    return best;
}

static void scan(struct fr_mask *m, bool last, struct fr_buf *out)
{
    size_t at = 0, from = 0;

    while (at < m->held.n) {
        bool more = false;
        size_t hit =
            m->first[(uint8_t)m->held.p[at]] ? match(m, m->held.p + at, m->held.n - at, &more) : 0;
        if (more && !last)
            break;
        if (hit == 0) {
            at++;
            continue;
        }
        fr_buf_add(out, m->held.p + from, at - from);
        fr_buf_text(out, "***");
        at += hit;
        from = at;
    }
    fr_buf_add(out, m->held.p + from, at - from);
    fr_buf_cut(&m->held, at);
}

void fr_mask_feed(struct fr_mask *m, const char *p, size_t n, struct fr_buf *out)
{
    if (m->n == 0) {
        fr_buf_add(out, p, n);
        return;
    }
    fr_buf_add(&m->held, p, n);
    if (!m->held.bad && m->held.n > 0)
        scan(m, false, out);
}

void fr_mask_end(struct fr_mask *m, struct fr_buf *out)
{
    if (!m->held.bad && m->held.n > 0)
        scan(m, true, out);
}

void fr_mask_finish(struct fr_mask *m)
{
    fr_buf_finish(&m->held);
}

#include "engine/link/link.h"

#include <string.h>

void fr_link_quote(struct fr_buf *out, const char *p, size_t n)
{
    struct fr_str rest = {p, n}, line;
    size_t before = out->n;

    while (fr_next_line(&rest, &line)) {
        while (line.n > 0 && line.p[line.n - 1] == '\r')
            line.n--;
        if (line.n > 0 && out->n > before)
            fr_buf_text(out, " | ");
        fr_buf_visible(out, line.p, line.n);
    }
}

void fr_link_keep_tail(struct fr_str output, char *tail, size_t cap, size_t *n)
{
    size_t add = output.n < cap ? output.n : cap, keep = *n < cap - add ? *n : cap - add;

    if (add == 0)
        return;
    memmove(tail, tail + (*n - keep), keep);
    memcpy(tail + keep, output.p + (output.n - add), add);
    *n = keep + add;
}

void fr_link_destroy(struct fr_link *link)
{
    if (link == NULL || link->ops == NULL)
        return;
    link->ops->destroy(link->self);
    *link = (struct fr_link){0};
}

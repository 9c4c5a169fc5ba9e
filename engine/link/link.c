#include "engine/link/link.h"

#include <string.h>

void fr_link_quote(struct fr_buf *out, const char *p, size_t n)
{
    while (n > 0) {
        const char *end = memchr(p, '\n', n);
        size_t line = end == NULL ? n : (size_t)(end - p), show = line;

        while (show > 0 && p[show - 1] == '\r')
            show--;
        if (show > 0 && out->n > 0)
            fr_buf_text(out, " | ");
        fr_buf_visible(out, p, show);
        p += line + (end != NULL);
        n -= line + (end != NULL);
    }
}

void fr_link_keep_tail(struct fr_str output, char *tail, size_t cap, size_t *n)
{
    size_t add = output.n < cap ? output.n : cap, keep = *n < cap - add ? *n : cap - add;

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

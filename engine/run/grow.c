/* Lists of texts. */
#include "engine/run/inside.h"

#include <stdarg.h>
#include <string.h>

bool run_add(struct fr_arena *arena, struct fr_strs *strs, const char *fmt, ...)
{
    struct fr_buf b = {0};
    struct fr_str *v;
    va_list ap;
    char *text = NULL;

    va_start(ap, fmt);
    fr_buf_vfmt(&b, fmt, ap);
    va_end(ap);
    if (!b.bad)
        text = fr_arena_text(arena, b.p != NULL ? b.p : "", b.n);
    v = text != NULL ? fr_arena_grow(arena, strs->v, strs->n, sizeof(*v)) : NULL;
    if (v != NULL) {
        v[strs->n++] = (struct fr_str){text, b.n};
        strs->v = v;
    }
    fr_buf_finish(&b);
    return v != NULL;
}

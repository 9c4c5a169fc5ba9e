/* Lists that grow. */
#include "engine/run/inside.h"

#include <stdarg.h>
#include <string.h>

void *run_grow(struct fr_arena *arena, void *array, size_t n, size_t size)
{
    void *more;

    if (n != 0 && (n < 8 || (n & (n - 1)) != 0))
        return array;
    more = fr_arena_array(arena, n == 0 ? 8 : n * 2, size);
    if (more != NULL && n != 0)
        memcpy(more, array, n * size);
    return more;
}

bool run_grow_list(void **list, size_t n, size_t *cap, size_t size)
{
    size_t more = *cap == 0 ? 64 : *cap * 2;
    void *v = n < *cap ? *list : fr_sys.realloc(*list, more * size);

    if (v == NULL)
        return false;
    *cap = n < *cap ? *cap : more;
    *list = v;
    return true;
}

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
    v = text != NULL ? run_grow(arena, strs->v, strs->n, sizeof(*v)) : NULL;
    if (v != NULL) {
        v[strs->n++] = (struct fr_str){text, b.n};
        strs->v = v;
    }
    fr_buf_finish(&b);
    return v != NULL;
}

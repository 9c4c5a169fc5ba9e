#include "engine/base/arena.h"

#include "engine/base/sys.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Chunks grow: a message's arena stays small, a pipeline's takes few calls, and the system has a
 * large one back when it is freed. */
enum { CHUNK_MIN = 1024, CHUNK_BYTES = 64 * 1024, CHUNK_MAX = 1 << 20, ALIGN = 16 };

struct fr_chunk {
    struct fr_chunk *prev;
    size_t used, cap; /* of the bytes after this header */
};

static size_t header_bytes(void)
{
    return (sizeof(struct fr_chunk) + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

bool fr_mul_size(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* Doubled up to CHUNK_BYTES, later an eighth of the whole. */
static size_t next_cap(const struct fr_arena *arena)
{
    size_t cap = arena->chunk == NULL ? CHUNK_MIN : 2 * arena->chunk->cap;
    size_t most = arena->used_bytes / 8;

    most = most < CHUNK_BYTES ? CHUNK_BYTES : most > CHUNK_MAX ? CHUNK_MAX : most;
    return cap < most ? cap : most;
}

void *fr_arena_alloc(struct fr_arena *arena, size_t n)
{
    struct fr_chunk *c = arena->chunk;

    if (n > SIZE_MAX - CHUNK_BYTES)
        return NULL;
    n = (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (c == NULL || c->cap - c->used < n) {
        size_t cap = next_cap(arena);

        cap = n > cap ? n : cap;
        c = fr_sys.alloc(header_bytes() + cap);
        if (c == NULL)
            return NULL;
        *c = (struct fr_chunk){.prev = arena->chunk, .cap = cap};
        arena->chunk = c;
    }
    void *p = (char *)c + header_bytes() + c->used;
    c->used += n;
    arena->used_bytes += n;
    return memset(p, 0, n);
}

void *fr_arena_array(struct fr_arena *arena, size_t count, size_t size)
{
    size_t n;

    return fr_mul_size(count, size, &n) ? fr_arena_alloc(arena, n) : NULL;
}

char *fr_arena_text(struct fr_arena *arena, const char *p, size_t n)
{
    char *s = n < SIZE_MAX ? fr_arena_alloc(arena, n + 1) : NULL;

    if (s != NULL && n > 0)
        memcpy(s, p, n);
    return s;
}

char *fr_arena_dup(struct fr_arena *arena, const char *s)
{
    return fr_arena_text(arena, s, strlen(s));
}

char *fr_arena_fmt(struct fr_arena *arena, const char *fmt, ...)
{
    va_list ap;
    char *s;

    va_start(ap, fmt);
    s = fr_arena_vfmt(arena, fmt, ap);
    va_end(ap);
    return s;
}

char *fr_arena_vfmt(struct fr_arena *arena, const char *fmt, va_list ap)
{
    va_list again;
    char *s;
    int n;

    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    s = n < 0 ? NULL : fr_arena_alloc(arena, (size_t)n + 1);
    if (s != NULL)
        vsnprintf(s, (size_t)n + 1, fmt, ap);
    return s;
}

void fr_arena_reset(struct fr_arena *arena)
{
    struct fr_chunk *kept = arena->chunk;

    if (kept == NULL)
        return;
    arena->chunk = kept->prev;
    fr_arena_finish(arena);
    kept->prev = NULL;
    kept->used = 0;
    if (kept->cap <= CHUNK_BYTES)
        arena->chunk = kept;
    else
        fr_sys.free(kept);
}

void fr_arena_finish(struct fr_arena *arena)
{
    if (arena == NULL)
        return;
    for (struct fr_chunk *c = arena->chunk, *prev; c != NULL; c = prev) {
        prev = c->prev;
        fr_sys.free(c);
    }
    *arena = (struct fr_arena){0};
}

void *fr_arena_grow(struct fr_arena *arena, void *array, size_t n, size_t size)
{
    void *more;

    if (n != 0 && (n < 16 || (n & (n - 1)) != 0))
        return array;
    more = fr_arena_array(arena, n == 0 ? 16 : n * 2, size);
    if (more != NULL && n != 0)
        memcpy(more, array, n * size);
    return more;
}

void *fr_grow(void *array, size_t need, size_t *cap, size_t size)
{
    size_t more = *cap > SIZE_MAX / 2 ? SIZE_MAX : *cap * 2, bytes;
    void *moved;

    if (need <= *cap)
        return array;
    if (more < 16)
        more = 16;
    if (more < need)
        more = need;
    moved = fr_mul_size(more, size, &bytes) ? fr_sys.realloc(array, bytes) : NULL;
    if (moved != NULL)
        *cap = more;
    return moved;
}

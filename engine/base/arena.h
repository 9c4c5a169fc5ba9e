/*
 * An arena: memory that is freed all at once. A pipeline file, a run's plan, a request each has
 * one. Allocations are 16-byte aligned and zeroed; they fail (NULL) only when the system has no
 * memory.
 */
#ifndef FR_BASE_ARENA_H
#define FR_BASE_ARENA_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct fr_chunk;

struct fr_arena { /* zero it to start; fr_arena_finish() frees all */
    struct fr_chunk *chunk;
    size_t used_bytes;
};

void *fr_arena_alloc(struct fr_arena *arena, size_t n);

/* count*size bytes, NULL when that overflows. */
void *fr_arena_array(struct fr_arena *arena, size_t count, size_t size);

/* Makes room for one more item after the n of array, which only this function may have made.
 * Returns array or a copy twice as large. NULL: no memory. */
void *fr_arena_grow(struct fr_arena *arena, void *array, size_t n, size_t size);

/* A NUL-terminated copy of the n bytes at p. */
char *fr_arena_text(struct fr_arena *arena, const char *p, size_t n);
char *fr_arena_dup(struct fr_arena *arena, const char *s);
char *fr_arena_fmt(struct fr_arena *arena, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
char *fr_arena_vfmt(struct fr_arena *arena, const char *fmt, va_list ap);

void fr_arena_finish(struct fr_arena *arena);
/* Frees all allocations, and keeps some of the memory for the next ones. */
void fr_arena_reset(struct fr_arena *arena);

/* a*b into *out; false when it overflows. */
bool fr_mul_size(size_t a, size_t b, size_t *out);

/* Room for need items of size bytes in an array of fr_sys that has room for *cap of them. Returns
 * array, or its copy that is at least twice as large. NULL: no memory, and array stays as it is.
 * Start with NULL and 0. */
void *fr_grow(void *array, size_t need, size_t *cap, size_t size);

#endif

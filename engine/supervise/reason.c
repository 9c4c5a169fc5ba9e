#include "engine/supervise/reason.h"

#include "engine/base/json.h"
#include "engine/base/sys.h"

#include <string.h>

enum { TAIL_BYTES = 64 << 10, LINE_MAX_BYTES = 500 };

static struct fr_str keep(struct fr_arena *arena, const char *p, size_t n)
{
    char *copy = fr_arena_text(arena, p, n < LINE_MAX_BYTES ? n : LINE_MAX_BYTES);

    return copy != NULL ? fr_str_of(copy) : (struct fr_str){"", 0};
}

struct fr_str fr_reason_keep(const char *text, struct fr_arena *arena)
{
    char *copy = fr_arena_dup(arena, text);

    return copy != NULL ? fr_str_of(copy) : FR_STR("no memory for the reason");
}

static bool is_sidecars(struct fr_str line, const struct fr_sidecars *sidecars)
{
    for (size_t i = 0; i < sidecars->n; i++) {
        struct fr_str name = sidecars->v[i].name;

        if (line.n > name.n + 2 && line.p[0] == '[' && memcmp(line.p + 1, name.p, name.n) == 0 &&
            memcmp(line.p + 1 + name.n, "] ", 2) == 0)
            return true;
    }
    return false;
}

struct fr_str fr_reason_of(struct fr_str text, bool whole, const struct fr_sidecars *sidecars,
                           struct fr_arena *arena)
{
    struct fr_str none = {"", 0}, out = none, line;
    size_t end = text.n, from;
    const char *error;
    json_t *doc;

    do {
        while (end > 0 && strchr(" \t\r\n", text.p[end - 1]) != NULL)
            end--;
        for (from = end; from > 0 && text.p[from - 1] != '\n'; from--)
            ;
        line = (struct fr_str){text.p + from, end - from};
        end = from;
    } while (is_sidecars(line, sidecars));
    if (line.n == 0 || (from == 0 && !whole))
        return none;
    text = line;
    if (text.p[0] != '{' || fr_json_parse(text, "", &doc, NULL) != FR_OK)
        return keep(arena, text.p, text.n);
    error = json_string_value(json_object_get(doc, "error"));
    if (error != NULL)
        out = keep(arena, error, strlen(error));
    json_decref(doc);
    return out;
}

struct fr_str fr_reason_read(int fd, uint64_t size, const struct fr_sidecars *sidecars,
                             struct fr_arena *arena)
{
    size_t n = size < TAIL_BYTES ? (size_t)size : TAIL_BYTES;
    char *tail = fr_arena_alloc(arena, n + 1);

    if (tail == NULL || fr_sys.pread(fd, tail, n, (off_t)(size - n)) != (ssize_t)n)
        return (struct fr_str){"", 0};
    return fr_reason_of((struct fr_str){tail, n}, n == size, sidecars, arena);
}

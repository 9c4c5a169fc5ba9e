#include "engine/ship/ignore.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

bool fr_ignore_add(struct fr_ignore *ig, struct fr_str line, struct fr_arena *arena)
{
    struct fr_ignore_rule rule = {0}, *v;

    while (line.n > 0 && (line.p[line.n - 1] == '\r' || line.p[line.n - 1] == ' ') &&
           !(line.n > 1 && line.p[line.n - 2] == '\\'))
        line.n--;
    if (line.n == 0 || line.p[0] == '#')
        return true;
    rule.back = line.p[0] == '!';
    line = (struct fr_str){line.p + rule.back, line.n - rule.back};
    rule.folders = line.n > 0 && line.p[line.n - 1] == '/';
    line.n -= rule.folders;
    rule.anchored = memchr(line.p, '/', line.n) != NULL;
    if (line.n > 0 && line.p[0] == '/')
        line = (struct fr_str){line.p + 1, line.n - 1};
    if (line.n == 0)
        return true;
    rule.pattern = fr_arena_text(arena, line.p, line.n);
    v = rule.pattern != NULL ? fr_arena_grow(arena, ig->v, ig->n, sizeof(*v)) : NULL;
    if (v == NULL)
        return false;
    ig->v = v;
    v[ig->n++] = rule;
    return true;
}

bool fr_ignore_lines(struct fr_ignore *ig, struct fr_str text, struct fr_arena *arena)
{
    struct fr_str line;
    bool ok = true;

    while (ok && fr_next_line(&text, &line))
        ok = fr_ignore_add(ig, line, arena);
    return ok;
}

/* Matches one name with a pattern without slashes. */
static bool one(const char *p, size_t np, const char *s, size_t ns)
{
    char pattern[NAME_MAX + 1], name[NAME_MAX + 1];

    if (np >= sizeof(pattern) || ns >= sizeof(name))
        return false;
    snprintf(pattern, sizeof(pattern), "%.*s", (int)np, p);
    snprintf(name, sizeof(name), "%.*s", (int)ns, s);
    return fnmatch(pattern, name, 0) == 0;
}

static size_t part(const char *s)
{
    return strcspn(s, "/");
}

static const char *behind(const char *s)
{
    s += part(s);
    return *s == '/' ? s + 1 : s;
}

static bool is_stars(const char *p)
{
    return part(p) == 2 && p[0] == '*' && p[1] == '*';
}

/* A whole path, part by part. "**" as a part is any number of them; at the end, at least one. If
 * the rest of the pattern does not match, the last "**" takes one more part. */
static bool whole(const char *p, const char *s)
{
    const char *star = NULL, *from = NULL;

    for (;;) {
        if (is_stars(p) && p[2] == '\0')
            return *s != '\0';
        if (is_stars(p)) {
            star = p = behind(p);
            from = s;
            continue;
        }
        if (*p == '\0' && *s == '\0')
            return true;
        if (*p != '\0' && *s != '\0' && one(p, part(p), s, part(s))) {
            p = behind(p);
            s = behind(s);
            continue;
        }
        if (star == NULL || *from == '\0')
            return false;
        s = from = behind(from);
        p = star;
    }
}

bool fr_ignored(const struct fr_ignore *ig, const char *path, bool folder)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;

    for (size_t i = ig->n; i > 0; i--) {
        const struct fr_ignore_rule *r = &ig->v[i - 1];

        if (r->folders && !folder)
            continue;
        if (r->anchored ? whole(r->pattern, path)
                        : one(r->pattern, strlen(r->pattern), name, strlen(name)))
            return !r->back;
    }
    return false;
}

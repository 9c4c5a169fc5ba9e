#include "engine/supervise/environ.h"

#include <string.h>

static size_t name_length(const char *kv)
{
    const char *eq = strchr(kv, '=');

    return eq != NULL ? (size_t)(eq - kv) : strlen(kv);
}

static bool is_named(const char *const *names, const char *kv)
{
    size_t n = name_length(kv);

    for (; names != NULL && *names != NULL; names++)
        if (strlen(*names) == n && memcmp(kv, *names, n) == 0)
            return true;
    return false;
}

bool fr_environ_base(const char *const *environ, const char *const *passed, struct fr_arena *arena,
                     struct fr_strs *out)
{
    static const char *const names[] = {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TMPDIR", "XDG_RUNTIME_DIR", NULL};
    size_t n = 0;

    while (environ != NULL && environ[n] != NULL)
        n++;
    *out = (struct fr_strs){fr_arena_array(arena, n + 1, sizeof(struct fr_str)), 0};
    for (size_t i = 0; out->v != NULL && i < n; i++)
        if (is_named(names, environ[i]) || is_named(passed, environ[i]))
            out->v[out->n++] = fr_str_of(environ[i]);
    return out->v != NULL;
}

bool fr_environ_pass(struct fr_strs *to, const struct fr_strs *from, const char *const *passed,
                     struct fr_arena *arena)
{
    struct fr_str *v = fr_arena_array(arena, to->n + from->n + 1, sizeof(struct fr_str));

    if (v == NULL)
        return false;
    memcpy(v, to->v, to->n * sizeof(*v));
    to->v = v;
    for (size_t i = 0; i < from->n; i++)
        if (is_named(passed, from->v[i].p))
            to->v[to->n++] = from->v[i];
    return true;
}

const char **fr_environ_make(const struct fr_strs *const *lists, size_t n, struct fr_arena *arena)
{
    size_t total = 0, used = 0;

    for (size_t i = 0; i < n; i++)
        total += lists[i]->n;
    const char **v = fr_arena_array(arena, total + 1, sizeof(char *));
    for (size_t i = 0; v != NULL && i < n; i++)
        for (size_t j = 0; j < lists[i]->n; j++) {
            char *kv = fr_arena_text(arena, lists[i]->v[j].p, lists[i]->v[j].n);
            size_t k = 0, len = kv != NULL ? name_length(kv) : 0;
            if (kv == NULL)
                return NULL;
            while (k < used && (name_length(v[k]) != len || memcmp(v[k], kv, len) != 0))
                k++;
            v[k] = kv;
            used += k == used;
        }
    return v;
}

static const char **find_name(const char **v, const char *name)
{
    size_t n = strlen(name);

    for (; *v != NULL; v++)
        if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
            return v;
    return NULL;
}

const char *fr_environ_value(const char *const *v, const char *name)
{
    const char *const *at = find_name((const char **)v, name);

    return at != NULL ? *at + strlen(name) + 1 : "";
}

/* The rule of flownode's start (ship/ship.c) and of the built-in tasks (fr_work_folder). */
static bool finish_work(const char **work, const struct fr_strs *base, struct fr_arena *arena)
{
    static const char name[] = "FLOWRUN_WORK=";
    const char *path = *work + sizeof(name) - 1, *home = NULL;

    for (size_t i = 0; i < base->n; i++)
        if (fr_has_prefix(base->v[i].p, "HOME=/"))
            home = base->v[i].p + 5;
    if (path[0] == '/' || home == NULL)
        return true;
    if (path[0] == '~' && (path[1] == '/' || path[1] == '\0'))
        path += path[1] == '/' ? 2 : 1;
    *work = fr_arena_fmt(arena, "%s%s%s%s", name, strcmp(home, "/") == 0 ? "" : home,
                         path[0] != '\0' || strcmp(home, "/") == 0 ? "/" : "", path);
    return *work != NULL;
}

bool fr_environ_work(struct fr_strs *list, const struct fr_strs *base, struct fr_arena *arena)
{
    for (size_t i = 0; i < list->n; i++) {
        const char *text = list->v[i].p;

        if (!fr_has_prefix(text, "FLOWRUN_WORK="))
            continue;
        if (!finish_work(&text, base, arena))
            return false;
        list->v[i] = fr_str_of(text);
    }
    return true;
}

bool fr_environ_finish(const char **v, const struct fr_strs *base, struct fr_arena *arena)
{
    const char **path = find_name(v, "PATH"), **work = find_name(v, "FLOWRUN_WORK");

    if (work != NULL && !finish_work(work, base, arena))
        return false;
    for (const char **p = v; path != NULL && *p != NULL; p++) {
        const char *eq = strchr(*p, '='), *slash = strrchr(*p, '/');

        if (!fr_has_prefix(*p, "FLOWRUN_PROGRAM_") || eq == NULL || slash == NULL ||
            slash <= eq + 1)
            continue;
        *path = fr_arena_fmt(arena, "PATH=%.*s:%s", (int)(slash - eq - 1), eq + 1, *path + 5);
        if (*path == NULL)
            return false;
    }
    return true;
}

const char **fr_vector(const struct fr_strs *list, struct fr_arena *arena)
{
    const char **v = fr_arena_array(arena, list->n + 1, sizeof(char *));

    for (size_t i = 0; v != NULL && i < list->n; i++)
        if ((v[i] = fr_arena_text(arena, list->v[i].p, list->v[i].n)) == NULL)
            return NULL;
    return v;
}

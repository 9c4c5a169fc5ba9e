/* Files of variables: NAME=VALUE, as docker's --env-file reads them. */
#include "engine/base/file.h"
#include "engine/spec/load.h"

#include <string.h>

enum { FILE_MAX_BYTES = 64 << 10 };

/* The file as it is at submit; a stored run has that content under the name `key`. */
static const char *text_of(struct loader *l, const struct fr_yaml *y, const char *path)
{
    const char *key = load_keep(l, fr_arena_fmt(l->arena, "env_file %s", path)), *stored, *text;
    struct fr_buf b = {0};
    struct fr_err err;

    if (key == NULL)
        return NULL;
    stored = l->opts->getenv ? l->opts->getenv(l->opts->getenv_self, key) : NULL;
    if (stored == NULL && fr_file_read_soon(path, FILE_MAX_BYTES, &b, &err) != FR_OK) {
        complain(l, pos_of(l, y), "a file of NAME=VALUE lines, here", "env_file: %s", err.msg);
        fr_buf_finish(&b);
        return NULL;
    }
    if (stored == NULL && b.n > 0 && (memchr(b.p, '\0', b.n) || !fr_utf8_valid(b.p, b.n))) {
        complain(l, pos_of(l, y), "text in UTF-8", "env_file: %s", path);
        fr_buf_finish(&b);
        return NULL;
    }
    text = load_keep(l, stored != NULL ? fr_arena_dup(l->arena, stored)
                                       : fr_arena_text(l->arena, b.p != NULL ? b.p : "", b.n));
    fr_buf_finish(&b);
    return text != NULL && note_variable(l, key, text) ? text : NULL;
}

/* One line, without its end and the blanks before it. False after a complaint. */
static bool take_line(struct loader *l, struct fr_pos pos, const char *at, struct fr_str line,
                      struct fr_kv *out)
{
    const char *eq = memchr(line.p, '=', line.n);
    size_t n = eq != NULL ? (size_t)(eq - line.p) : line.n;

    out->name = load_keep(l, fr_arena_text(l->arena, line.p, n));
    out->value = (struct fr_text){.pos = pos};
    out->value.s = load_keep(
        l, fr_arena_text(l->arena, eq != NULL ? eq + 1 : "", eq != NULL ? line.n - n - 1 : 0));
    if (out->name == NULL || out->value.s == NULL)
        return false;
    if (eq != NULL && variable_ok(out->name))
        return true;
    complain(l, pos, "NAME=VALUE, without export, quotes or blanks around '='", "%s: '%s'%s", at,
             out->name, eq == NULL ? " has no value" : " cannot be the name of a variable");
    return false;
}

static void read_one(struct loader *l, const struct fr_yaml *y, const struct fr_kv **out, size_t *n)
{
    const char *path = read_now(l, y), *text;
    struct fr_kv *added = NULL;
    size_t count = 0;

    if (path == NULL || (path = absolute(l, path)) == NULL || l->opts->alone ||
        (l->fenced && l->mistakes != NULL)) /* a file that may not be named is not opened */
        return;
    if ((text = text_of(l, y, path)) == NULL)
        return;
    if (fr_has_prefix(text, "\xef\xbb\xbf"))
        text += 3;
    for (size_t no = 1; *text != '\0'; no++) {
        size_t len = strcspn(text, "\n"), blanks = strspn(text, " \t\v\f\r");
        const char *next = text + len + (text[len] == '\n');
        struct fr_str line = {text + (blanks < len ? blanks : len),
                              len - (blanks < len ? blanks : len)};
        struct fr_kv *more;

        if (line.n > 0 && line.p[line.n - 1] == '\r')
            line.n--;
        text = next;
        if (line.n == 0 || line.p[0] == '#')
            continue;
        if ((more = fr_arena_grow(l->arena, added, count, sizeof(*more))) == NULL) {
            l->no_memory = true;
            return;
        }
        added = more;
        count += take_line(l, pos_of(l, y), fr_arena_fmt(l->arena, "%s:%zu", path, no), line,
                           &added[count]);
    }
    add_env(l, y, (struct env_list){added, count}, out, n);
}

void read_env_file(struct loader *l, const struct fr_yaml *y, const struct fr_kv **out, size_t *n)
{
    if (y->kind == FR_YAML_MAP)
        wrong_value(l, y, "env_file", "the path of a file, or a list of paths");
    else if (y->kind != FR_YAML_LIST)
        read_one(l, y, out, n);
    for (size_t i = 0; y->kind == FR_YAML_LIST && i < y->n; i++)
        read_one(l, y->items[i], out, n);
}

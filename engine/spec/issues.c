/* Mistakes of a file: collected while it is read, given out sorted. */
#include "engine/spec/load.h"

#include "engine/base/sys.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MISTAKES_MAX = 200, COMPARE_MAX = 1000000 };

void *load_alloc(struct loader *l, size_t count, size_t size)
{
    void *p = fr_arena_array(l->arena, count ? count : 1, size);

    if (p == NULL)
        l->no_memory = true;
    return p;
}

void *load_scratch(struct loader *l, size_t count, size_t size)
{
    void *p = fr_arena_array(&l->scratch, count ? count : 1, size);

    if (p == NULL)
        l->no_memory = true;
    return p;
}

const char *load_keep(struct loader *l, const char *text)
{
    if (text == NULL)
        l->no_memory = true;
    return text;
}

struct fr_pos pos_of(const struct loader *l, const struct fr_yaml *y)
{
    return (struct fr_pos){l->file, y->line, y->col};
}

struct fr_pos pos_of_key(const struct loader *l, const struct fr_yaml_pair *pair)
{
    return (struct fr_pos){l->file, pair->line, pair->col};
}

static void add_mistake(struct loader *l, struct fr_pos pos, const struct hint *hint,
                        const char *fmt, va_list ap)
{
    struct mistake *m = load_alloc(l, 1, sizeof(*m));
    const char *near = NULL;
    struct fr_buf b = {0};

    if (hint->word != NULL && hint->words != NULL && l->n_mistakes < MISTAKES_MAX &&
        l->n_compared < COMPARE_MAX) {
        near = fr_suggest(hint->word, hint->words, hint->n_words);
        l->n_compared += hint->n_words;
    }
    if (pos.line > 0)
        fr_buf_fmt(&b, "%s:%d:%d: ", l->spec->sources[pos.file].path, pos.line, pos.col);
    fr_buf_vfmt(&b, fmt, ap);
    if (hint->expected != NULL)
        fr_buf_fmt(&b, "; expected %s", hint->expected);
    if (near != NULL)
        fr_buf_fmt(&b, "; did you mean '%s'?", near);
    if (m != NULL && !b.bad) {
        struct fr_buf safe = {0};

        fr_buf_visible(&safe, b.p, b.n);
        m->text = load_keep(l, safe.bad ? NULL : fr_arena_text(l->arena, safe.p, safe.n));
        m->pos = pos;
        m->order = l->n_mistakes++;
        m->next = l->mistakes;
        l->mistakes = m;
        fr_buf_finish(&safe);
    }
    l->no_memory |= b.bad;
    fr_buf_finish(&b);
}

void complain(struct loader *l, struct fr_pos pos, const char *expected, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_mistake(l, pos, &(struct hint){.expected = expected}, fmt, ap);
    va_end(ap);
}

void complain_near(struct loader *l, struct fr_pos pos, const struct hint *hint, const char *fmt,
                   ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_mistake(l, pos, hint, fmt, ap);
    va_end(ap);
}

void wrong_value(struct loader *l, const struct fr_yaml *y, const char *what, const char *expected)
{
    static const char *const kinds[] = {"nothing", "a text", "a list", "a map"};
    static const char *const empty[] = {"nothing", "a text", "an empty list", "an empty map"};

    if (y->kind == FR_YAML_SCALAR && y->text.n <= 100 && memchr(y->text.p, '\n', y->text.n) == NULL)
        complain(l, pos_of(l, y), expected, "%s is '%s'", what, y->text.p);
    else
        complain(l, pos_of(l, y), expected, "%s is %s", what,
                 y->n == 0 ? empty[y->kind] : kinds[y->kind]);
}

const char *const *key_names(struct loader *l, const struct fr_yaml *map)
{
    const char **names = load_scratch(l, map->n, sizeof(*names));

    for (size_t i = 0; names != NULL && i < map->n; i++)
        names[i] = map->pairs[i].key.p;
    return names;
}

const char *const *task_names(struct loader *l)
{
    if (l->task_names == NULL)
        l->task_names = key_names(l, l->tasks);
    return l->task_names;
}

const char *word_list(struct loader *l, const char *const *words, size_t n)
{
    struct fr_buf b = {0};
    const char *text;

    for (size_t i = 0; i < n; i++) {
        fr_buf_text(&b, i == 0 ? "" : i + 1 == n ? " or " : ", ");
        fr_buf_text(&b, words[i]);
    }
    text = load_keep(l, b.bad ? NULL : fr_arena_text(l->arena, b.p ? b.p : "", b.n));
    fr_buf_finish(&b);
    return text ? text : "";
}

static int by_position(const void *a, const void *b)
{
    const struct mistake *x = *(const struct mistake *const *)a;
    const struct mistake *y = *(const struct mistake *const *)b;

    if (x->pos.file != y->pos.file)
        return x->pos.file < y->pos.file ? -1 : 1;
    if (x->pos.line != y->pos.line)
        return x->pos.line < y->pos.line ? -1 : 1;
    if (x->pos.col != y->pos.col)
        return x->pos.col < y->pos.col ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

enum fr_rc issues_take(const struct loader *l, struct fr_issues *issues, struct fr_err *err)
{
    const struct mistake **sorted = fr_sys.alloc((l->n_mistakes + 1) * sizeof(*sorted));
    size_t n = 0;

    if (sorted == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the list of mistakes");
    for (const struct mistake *m = l->mistakes; m != NULL && n < l->n_mistakes; m = m->next)
        if (m->text != NULL)
            sorted[n++] = m;
    qsort(sorted, n, sizeof(*sorted), by_position);
    issues->lines = fr_arena_array(&issues->arena, n + 2, sizeof(*issues->lines));
    for (size_t i = 0; issues->lines != NULL && i < n; i++) {
        const char *line = i < MISTAKES_MAX
                               ? fr_arena_dup(&issues->arena, sorted[i]->text)
                               : fr_arena_fmt(&issues->arena, "and %zu more mistakes", n - i);
        if (line == NULL || (i > 0 && strcmp(line, issues->lines[issues->n - 1]) == 0))
            continue; /* the same default is read for each task: say it once */
        issues->lines[issues->n++] = line;
        if (i == MISTAKES_MAX)
            break;
    }
    fr_sys.free(sorted);
    if (issues->n == 0)
        return fr_fail(err, FR_NOMEM, "no memory for the list of mistakes");
    return fr_fail(err, FR_USAGE, "%s", issues->lines[0]);
}

void fr_issues_finish(struct fr_issues *issues)
{
    if (issues == NULL)
        return;
    fr_arena_finish(&issues->arena);
    *issues = (struct fr_issues){0};
}

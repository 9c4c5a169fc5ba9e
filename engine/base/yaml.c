#include "engine/base/yaml.h"

#include "engine/base/file.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { MAX_DEPTH = 64, MAX_ANCHORS = 1000, MAX_MERGED = 16 };

/* A list or map under construction. Its parts are chained until it ends and their number is known.
 */
struct cell {
    struct cell *next;
    struct fr_yaml *value;
    const struct fr_yaml *key; /* map alone: a list's cell ends before it */
};

struct frame {
    struct fr_yaml *node;
    struct cell *first, *last;
    bool have_key; /* map: last has its key and waits for the value */
    size_t before; /* nodes counted when it began */
};

struct anchor {
    struct anchor *next;
    const char *name;
    struct fr_yaml *node;
    size_t size; /* nodes below and with it, aliases expanded; 0: still open */
};

struct reader {
    struct fr_arena *arena, *texts;
    struct fr_err *err;
    const char *name; /* of the file, for messages */
    struct fr_yaml *root;
    struct frame stack[MAX_DEPTH];
    size_t depth;
    struct anchor *open[MAX_DEPTH]; /* the anchor of stack[i], or NULL */
    struct anchor *anchors;         /* newest first: a name may be used again */
    size_t n_anchors;
    size_t nodes;
    int documents;
};

static enum fr_rc refuse(struct reader *r, int line, int col, const char *what)
{
    return fr_fail(r->err, FR_USAGE, "%s:%d:%d: %s", r->name, line, col, what);
}

static enum fr_rc refuse_at(struct reader *r, yaml_mark_t mark, const char *what)
{
    return refuse(r, (int)mark.line + 1, (int)mark.column + 1, what);
}

static enum fr_rc no_memory(struct reader *r)
{
    return fr_fail(r->err, FR_NOMEM, "%s: no memory", r->name);
}

/* Puts node where the document goes on: the root, a list's end, a map's value. */
static enum fr_rc attach(struct reader *r, struct fr_yaml *node, yaml_mark_t mark)
{
    struct frame *top;
    struct cell *cell;
    bool map;

    if (r->depth == 0) {
        r->root = node;
        return FR_OK;
    }
    top = &r->stack[r->depth - 1];
    map = top->node->kind == FR_YAML_MAP;
    if (map && top->have_key) {
        top->last->value = node;
        top->have_key = false;
        return FR_OK;
    }
    if (map && node->kind != FR_YAML_SCALAR && node->kind != FR_YAML_NULL)
        return refuse_at(r, mark, "a key must be a plain text, not a list or map");
    cell = fr_arena_alloc(r->arena, map ? sizeof(*cell) : offsetof(struct cell, key));
    if (cell == NULL)
        return no_memory(r);
    if (map)
        cell->key = node;
    else
        cell->value = node;
    top->have_key = map;
    if (top->last == NULL)
        top->first = cell;
    else
        top->last->next = cell;
    top->last = cell;
    top->node->n++;
    return FR_OK;
}

static enum fr_rc count(struct reader *r, size_t more, yaml_mark_t mark)
{
    r->nodes += more;
    if (r->nodes > FR_YAML_MAX_VALUES)
        return refuse_at(r, mark, "too large: more than 1500000 values with aliases expanded");
    return FR_OK;
}

static enum fr_rc make(struct reader *r, const yaml_event_t *event, enum fr_yaml_kind kind,
                       struct fr_yaml **out)
{
    struct fr_yaml *node = fr_arena_alloc(r->arena, sizeof(*node));

    if (node == NULL)
        return no_memory(r);
    node->kind = kind;
    node->line = (int)event->start_mark.line + 1;
    node->col = (int)event->start_mark.column + 1;
    *out = node;
    return count(r, 1, event->start_mark);
}

/* Remembers node under the anchor's name, when there is one. */
static enum fr_rc name_anchor(struct reader *r, const yaml_char_t *name, struct fr_yaml *node,
                              struct anchor **out)
{
    struct anchor *a;

    *out = NULL;
    if (name == NULL)
        return FR_OK;
    if (r->n_anchors++ == MAX_ANCHORS)
        return refuse(r, node->line, node->col, "more than 1000 anchors");
    if ((a = fr_arena_alloc(r->arena, sizeof(*a))) == NULL ||
        (a->name = fr_arena_dup(r->arena, (const char *)name)) == NULL)
        return no_memory(r);
    a->node = node;
    a->next = r->anchors;
    r->anchors = a;
    *out = a;
    return FR_OK;
}

static bool is_null(const char *s, size_t n)
{
    return n == 0 || (n == 1 && s[0] == '~') || (n == 4 && memcmp(s, "null", 4) == 0);
}

static const char NO_TAGS[] = "tags (!x) are not used here; expected the value alone, or quotes "
                              "around a text that begins with '!'";

static enum fr_rc on_scalar(struct reader *r, const yaml_event_t *event)
{
    const char *s = (const char *)event->data.scalar.value;
    size_t n = event->data.scalar.length;
    struct anchor *anchor;
    struct fr_yaml *node;
    enum fr_rc rc;

    if (event->data.scalar.tag != NULL)
        return refuse_at(r, event->start_mark, NO_TAGS);
    if ((rc = make(r, event, FR_YAML_SCALAR, &node)) != FR_OK)
        return rc;
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    if (memchr(s, '\0', n) != NULL)
        return refuse_at(r, event->start_mark, "a text cannot hold the character NUL");
    if (!node->quoted && is_null(s, n))
        node->kind = FR_YAML_NULL;
    if ((node->text.p = fr_arena_text(r->texts, s, n)) == NULL)
        return no_memory(r);
    node->text.n = n;
    if ((rc = name_anchor(r, event->data.scalar.anchor, node, &anchor)) != FR_OK)
        return rc;
    if (anchor != NULL)
        anchor->size = 1;
    return attach(r, node, event->start_mark);
}

static enum fr_rc on_alias(struct reader *r, const yaml_event_t *event)
{
    const char *name = (const char *)event->data.alias.anchor;
    enum fr_rc rc;

    for (const struct anchor *a = r->anchors; a != NULL; a = a->next) {
        if (strcmp(a->name, name) != 0)
            continue;
        if (a->size == 0)
            return refuse_at(r, event->start_mark, "an alias cannot stand inside its own anchor");
        if ((rc = count(r, a->size, event->start_mark)) != FR_OK)
            return rc;
        return attach(r, a->node, event->start_mark);
    }
    return fr_fail(r->err, FR_USAGE, "%s:%d:%d: alias *%s has no anchor &%s before it", r->name,
                   (int)event->start_mark.line + 1, (int)event->start_mark.column + 1, name, name);
}

static enum fr_rc on_start(struct reader *r, const yaml_event_t *event, enum fr_yaml_kind kind)
{
    bool map = kind == FR_YAML_MAP;
    const yaml_char_t *tag = map ? event->data.mapping_start.tag : event->data.sequence_start.tag;
    const yaml_char_t *name =
        map ? event->data.mapping_start.anchor : event->data.sequence_start.anchor;
    size_t before = r->nodes;
    struct fr_yaml *node;
    enum fr_rc rc;

    if (tag != NULL)
        return refuse_at(r, event->start_mark, NO_TAGS);
    if (r->depth == MAX_DEPTH)
        return refuse_at(r, event->start_mark, "nested too deep: more than 64 levels");
    if ((rc = make(r, event, kind, &node)) != FR_OK ||
        (rc = attach(r, node, event->start_mark)) != FR_OK ||
        (rc = name_anchor(r, name, node, &r->open[r->depth])) != FR_OK)
        return rc;
    r->stack[r->depth++] = (struct frame){.node = node, .before = before};
    return FR_OK;
}

static int compare(struct fr_str x, struct fr_str y)
{
    size_t n = x.n < y.n ? x.n : y.n;
    int order = n > 0 ? memcmp(x.p, y.p, n) : 0;

    return order != 0 ? order : x.n < y.n ? -1 : x.n > y.n;
}

static int by_key(const void *a, const void *b)
{
    const struct fr_yaml_pair *x = *(const struct fr_yaml_pair *const *)a;
    const struct fr_yaml_pair *y = *(const struct fr_yaml_pair *const *)b;
    int order = compare(x->key, y->key);

    return order != 0 ? order : x < y ? -1 : x > y; /* the file's order */
}

void fr_yaml_sort(struct fr_yaml *map)
{
    for (size_t i = 0; i < map->n; i++)
        map->sorted[i] = &map->pairs[i];
    qsort(map->sorted, map->n, sizeof(*map->sorted), by_key);
}

/* Sorts node's keys; refuses the earliest one that stands there a second time. */
static enum fr_rc check_keys(struct reader *r, struct fr_yaml *node)
{
    const struct fr_yaml_pair **sorted = fr_arena_array(r->arena, node->n + 1, sizeof(*sorted));
    const struct fr_yaml_pair *again = NULL, *first = NULL;

    if (sorted == NULL)
        return no_memory(r);
    node->sorted = sorted;
    fr_yaml_sort(node);
    for (size_t i = 1; i < node->n; i++)
        if (fr_str_eq(sorted[i]->key, sorted[i - 1]->key) && (again == NULL || sorted[i] < again)) {
            again = sorted[i];
            first = sorted[i - 1];
        }
    if (again == NULL)
        return FR_OK;
    return fr_fail(r->err, FR_USAGE,
                   "%s:%d:%d: key '%s' stands here a second time; first at line %d", r->name,
                   again->line, again->col, again->key.p, first->line);
}

/* ---- merge keys: https://yaml.org/type/merge.html ---- */

static bool is_merge(const struct fr_yaml *key)
{
    return !key->quoted && fr_str_is(key->text, "<<");
}

/* The maps that a merge key names, the first of which wins. */
static enum fr_rc merged_maps(struct reader *r, const struct fr_yaml_pair *merge,
                              const struct fr_yaml *const **maps, size_t *n)
{
    bool list = merge->value->kind == FR_YAML_LIST, good;

    *maps = (const struct fr_yaml *const *)(list ? merge->value->items : &merge->value);
    *n = list ? merge->value->n : 1;
    good = *n <= MAX_MERGED;
    for (size_t i = 0; i < *n && good; i++)
        good = (*maps)[i]->kind == FR_YAML_MAP;
    return good ? FR_OK
                : refuse(r, merge->line, merge->col,
                         "<< takes a map, *NAME of one, or a list of at most 16 of them");
}

/* Puts the pairs of the merge key, node's pair number at, in its place, but for keys that node or
 * an earlier map has. They keep the places where they are written. */
static enum fr_rc merge_pairs(struct reader *r, struct fr_yaml *node, size_t at)
{
    const struct fr_yaml own = *node, *const * maps;
    struct fr_yaml_pair *to;
    size_t n_maps, n = own.n;
    enum fr_rc rc = merged_maps(r, &own.pairs[at], &maps, &n_maps);

    if (rc != FR_OK)
        return rc;
    for (size_t m = 0; m < n_maps; m++)
        n += maps[m]->n;
    if ((to = node->pairs = fr_arena_array(r->arena, n, sizeof(*to))) == NULL)
        return no_memory(r);
    for (size_t i = 0; i < at; i++)
        *to++ = own.pairs[i];
    for (size_t m = 0; m < n_maps; m++)
        for (size_t k = 0; k < maps[m]->n; k++) {
            const char *key = maps[m]->pairs[k].key.p;
            bool had = fr_yaml_find(&own, key) != NULL;

            for (size_t b = 0; b < m && !had; b++)
                had = fr_yaml_find(maps[b], key) != NULL;
            if (!had)
                *to++ = maps[m]->pairs[k];
        }
    for (size_t i = at + 1; i < own.n; i++)
        *to++ = own.pairs[i];
    node->n = (size_t)(to - node->pairs);
    return check_keys(r, node);
}

static enum fr_rc on_end(struct reader *r)
{
    struct frame *top = &r->stack[--r->depth];
    struct fr_yaml *node = top->node;
    size_t i = 0, merge = SIZE_MAX;
    enum fr_rc rc;

    if (r->open[r->depth] != NULL)
        r->open[r->depth]->size = r->nodes - top->before;
    if (node->kind == FR_YAML_LIST) {
        if ((node->items = fr_arena_array(r->arena, node->n + 1, sizeof(*node->items))) == NULL)
            return no_memory(r);
        for (const struct cell *c = top->first; c != NULL; c = c->next)
            node->items[i++] = c->value;
        return FR_OK;
    }
    if ((node->pairs = fr_arena_array(r->arena, node->n + 1, sizeof(*node->pairs))) == NULL)
        return no_memory(r);
    for (const struct cell *c = top->first; c != NULL; c = c->next) {
        merge = is_merge(c->key) ? i : merge;
        node->pairs[i++] = (struct fr_yaml_pair){c->key->text, c->key->line, c->key->col, c->value};
    }
    rc = check_keys(r, node);
    return rc == FR_OK && merge != SIZE_MAX ? merge_pairs(r, node, merge) : rc;
}

static enum fr_rc on_event(struct reader *r, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (r->documents++ > 0)
            return refuse_at(r, event->start_mark, "a second document; expected one a file");
        return FR_OK;
    case YAML_SCALAR_EVENT:
        return on_scalar(r, event);
    case YAML_ALIAS_EVENT:
        return on_alias(r, event);
    case YAML_SEQUENCE_START_EVENT:
        return on_start(r, event, FR_YAML_LIST);
    case YAML_MAPPING_START_EVENT:
        return on_start(r, event, FR_YAML_MAP);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return on_end(r);
    default:
        return FR_OK;
    }
}

/* Bytes that libyaml would refuse without saying where. */
static enum fr_rc check_bytes(struct reader *r, struct fr_str text)
{
    int line = 1, col = 1;

    if (text.n > FR_YAML_MAX_BYTES)
        return refuse(r, 1, 1, "too large: more than 32 MiB");
    for (size_t i = 0; i < text.n;) {
        unsigned char c = (unsigned char)text.p[i];
        size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

        if (n > text.n - i || !fr_utf8_valid(text.p + i, n))
            return refuse(r, line, col, "a byte that is not UTF-8");
        if ((c < 0x20 && c != '\n' && c != '\t' && c != '\r') || c == 0x7f)
            return refuse(r, line, col, "a control character");
        col = c == '\n' ? 1 : col + 1;
        line += c == '\n';
        i += n;
    }
    return FR_OK;
}

/* What helps against a mistake that libyaml reports: the words that its problem or context has. */
static const char *remedy(const yaml_parser_t *parser)
{
    static const struct {
        const char *has, *expected;
    } table[] = {
        {"mapping values are not allowed",
         "quotes around a text with ': ' in it, or the key in the column of its map"},
        {"',' or ']'", "quotes around a text with brackets, commas or ': ' in it"},
        {"',' or '}'", "quotes around a text with braces, commas or ': ' in it"},
        {"an anchor", "quotes around a text with '&' or '*' in it"},
        {"an alias", "quotes around a text with '*' in it"},
        {"a tag", "quotes around a text that begins with '!'"},
        {"cannot start any token", "quotes around a text that begins with '@', '%' or '`'"},
        {"expected node content", "a value, or quotes around one like '::1' that begins with ':'"},
        {"did not find expected key", "all keys of a map in one column"},
        {"did not find expected '-'", "all items of a list in one column"},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if ((parser->problem != NULL && strstr(parser->problem, table[i].has) != NULL) ||
            (parser->context != NULL && strstr(parser->context, table[i].has) != NULL))
            return table[i].expected;
    return NULL;
}

static enum fr_rc syntax_error(struct reader *r, const yaml_parser_t *parser, struct fr_str text)
{
    int line = (int)parser->problem_mark.line + 1;
    int col = (int)parser->problem_mark.column + 1;
    size_t at = parser->problem_mark.index;

    if (parser->error == YAML_MEMORY_ERROR)
        return no_memory(r);
    if (at < text.n && text.p[at] == '\t')
        return refuse(r, line, col, "a tab; expected spaces");
    const char *expected = remedy(parser);
    struct fr_buf b = {0};

    fr_buf_text(&b, parser->problem ? parser->problem : "not YAML");
    if (parser->context != NULL)
        fr_buf_fmt(&b, " %s that began at line %d", parser->context,
                   (int)parser->context_mark.line + 1);
    if (expected != NULL)
        fr_buf_fmt(&b, "; expected %s", expected);
    enum fr_rc rc = b.bad ? no_memory(r) : refuse(r, line, col, b.p);
    fr_buf_finish(&b);
    return rc;
}

static enum fr_rc read_all(struct reader *r, yaml_parser_t *parser, struct fr_str text)
{
    enum fr_rc rc = FR_OK;

    for (bool more = true; more && rc == FR_OK;) {
        yaml_event_t event;

        if (!yaml_parser_parse(parser, &event))
            return syntax_error(r, parser, text);
        rc = on_event(r, &event);
        more = event.type != YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    return rc;
}

static enum fr_rc parse(struct reader *r, struct fr_str text, struct fr_yaml **out)
{
    yaml_parser_t parser;
    enum fr_rc rc;

    *out = NULL;
    if (text.n >= 3 && memcmp(text.p, "\xef\xbb\xbf", 3) == 0)
        text = (struct fr_str){text.p + 3, text.n - 3};
    if ((rc = check_bytes(r, text)) != FR_OK)
        return rc;
    if (!yaml_parser_initialize(&parser))
        return no_memory(r);
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.p, text.n);
    rc = read_all(r, &parser, text);
    yaml_parser_delete(&parser);
    if (rc == FR_OK && r->root == NULL) {
        if ((r->root = fr_arena_alloc(r->arena, sizeof(*r->root))) == NULL)
            return no_memory(r);
        r->root->line = r->root->col = 1;
    }
    if (rc == FR_OK)
        *out = r->root;
    return rc;
}

static enum fr_rc load(const char *path, struct reader *r, struct fr_yaml **out)
{
    struct fr_buf text = {0};
    enum fr_rc rc = fr_file_read_any(path, FR_YAML_MAX_BYTES, &text, r->err);

    *out = NULL;
    if (rc == FR_OK)
        rc = parse(r, (struct fr_str){text.p ? text.p : "", text.n}, out);
    fr_buf_finish(&text);
    return rc;
}

enum fr_rc fr_yaml_parse(struct fr_str text, const char *name, struct fr_arena *arena,
                         struct fr_arena *texts, struct fr_yaml **out, struct fr_err *err)
{
    struct reader r = {.arena = arena, .texts = texts, .err = err, .name = name};

    return parse(&r, text, out);
}

enum fr_rc fr_yaml_load(const char *path, struct fr_arena *arena, struct fr_yaml **out,
                        struct fr_err *err)
{
    struct reader r = {.arena = arena, .texts = arena, .err = err, .name = path};

    return load(path, &r, out);
}

const struct fr_yaml_pair *fr_yaml_find(const struct fr_yaml *map, const char *key)
{
    size_t lo = 0, hi = map->kind == FR_YAML_MAP ? map->n : 0;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int order = compare(fr_str_of(key), map->sorted[mid]->key);

        if (order == 0)
            return map->sorted[mid];
        if (order < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

struct fr_yaml *fr_yaml_get(const struct fr_yaml *map, const char *key)
{
    const struct fr_yaml_pair *pair = fr_yaml_find(map, key);

    return pair != NULL ? pair->value : NULL;
}

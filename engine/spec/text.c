/* Texts of the file: expressions parsed, bound and, where nothing is left to wait for, evaluated.
 */
#include "engine/spec/load.h"

#include <string.h>

static size_t line_start(struct fr_str source, size_t at)
{
    const char *end = at > 0 ? memrchr(source.p, '\n', at) : NULL;

    return end != NULL ? (size_t)(end - source.p) + 1 : 0;
}

static bool inside_char(struct fr_str source, size_t at)
{
    return at < source.n && ((unsigned char)source.p[at] & 0xc0) == 0x80;
}

/* Where line and column of the source being read lie in its bytes. Expressions stand near each
 * other: the way goes on from the one before, forward or back. */
static size_t byte_of(struct loader *l, int line, int col)
{
    struct fr_str source = l->spec->sources[l->file].text;
    struct spot *s = &l->spot;

    if (s->line == 0 || s->file != l->file)
        *s = (struct spot){l->file, 1, 1, 0};
    if (s->line != line) {
        s->at = line_start(source, s->at);
        s->col = 1;
    }
    for (; s->line < line && s->at < source.n; s->line++) {
        const char *end = memchr(source.p + s->at, '\n', source.n - s->at);
        s->at = end == NULL ? source.n : (size_t)(end - source.p) + 1;
    }
    for (; s->line > line && s->at > 0; s->line--)
        s->at = line_start(source, s->at - 1);
    for (; s->col < col && s->at < source.n; s->col++)
        do
            s->at++;
        while (inside_char(source, s->at));
    for (; s->col > col && s->at > 0; s->col--)
        do
            s->at--;
        while (s->at > 0 && inside_char(source, s->at));
    return s->at;
}

static void advance(struct fr_pos *pos, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '\n') {
            pos->line++;
            pos->col = 1;
        } else if (((unsigned char)p[i] & 0xc0) != 0x80) {
            pos->col++;
        }
    }
}

/* The scalar may be quoted, folded or indented in the file, but its expressions stand there as they
 * are: so the k-th "${{" of the value is the k-th from where the scalar begins. */
struct fr_pos pos_inside(const struct text_reader *r, size_t at)
{
    struct fr_str source = r->l->spec->sources[r->l->file].text;
    struct fr_pos pos = pos_of(r->l, r->y);
    size_t here = byte_of(r->l, pos.line, pos.col), last = 0, mark;
    const char *text = r->y->text.p;

    if (r->bare) {
        pos.col += (int)at + (r->y->quoted ? 1 : 0);
        return pos;
    }
    for (size_t from = 0; expr_next(text, from, &mark) && mark <= at; from = mark + 3) {
        const char *found = memmem(source.p + here, source.n - here, "${{", 3);

        if (found == NULL)
            return pos_of(r->l, r->y);
        advance(&pos, source.p + here, (size_t)(found - source.p) - here);
        here = (size_t)(found - source.p);
        last = mark;
        if (mark + 3 <= at) {
            advance(&pos, source.p + here, 3);
            here += 3;
            last += 3;
        }
    }
    if (at - last <= source.n - here)
        advance(&pos, source.p + here, at - last);
    return pos;
}

static void wrong_expression(void *self, size_t at, const char *what)
{
    struct text_reader *r = self;

    complain(r->l, pos_inside(r, at), NULL, "%s", what);
    r->bad = true;
}

static bool find_secret(void *arg, const struct fr_ref *ref)
{
    if (ref->kind == FR_REF_SECRET)
        *(bool *)arg = true;
    return true;
}

/* Turns the tree into the value where it can be known already. */
static bool settle(struct text_reader *r, struct fr_expr *e, struct fr_text *out)
{
    struct fr_text tree = {.s = out->s, .expr = e};
    const struct fr_expr *first = expr_first(e);
    struct fr_buf b = {0};
    struct fr_err err;

    r->l->from_flag = first != NULL && first->given;
    r->l->fenced = expr_fenced(e);
    if (!expr_static(e)) {
        out->expr = e;
        fr_text_refs(out, find_secret, &out->secret);
        return true;
    }
    if (fr_text_eval(&tree, NULL, &b, &err) == FR_OK)
        out->s = load_keep(r->l, fr_arena_text(r->l->arena, b.p ? b.p : "", b.n));
    else if (err.rc == FR_NOMEM)
        r->l->no_memory = true;
    else
        wrong_expression(r, 0, err.msg);
    fr_buf_finish(&b);
    return !r->bad && !r->l->no_memory;
}

struct expr_parser text_parser(struct text_reader *r)
{
    return (struct expr_parser){.arena = r->l->arena,
                                .self = r,
                                .yes_or_no = r->l->opts->rules == 1,
                                .bind = bind_path,
                                .wrong = wrong_expression};
}

bool text_take(struct text_reader *r, struct fr_expr *e, struct fr_text *out)
{
    if (e == NULL && !r->bad)
        r->l->no_memory = true;
    return e != NULL && !r->bad && settle(r, e, out);
}

static void wrong_text(struct loader *l, const struct fr_yaml *y)
{
    wrong_value(l, y, l->key != NULL ? l->key : "the value", "a text");
}

bool read_text(struct loader *l, const struct fr_yaml *y, unsigned allow, struct fr_text *out)
{
    struct text_reader r = {.l = l, .y = y, .allow = allow};
    struct expr_parser p;
    size_t at;

    *out = (struct fr_text){.s = "", .pos = pos_of(l, y)};
    l->text_pos = out->pos;
    l->from_flag = l->fenced = false;
    if (y->kind == FR_YAML_NULL)
        return true;
    if (y->kind != FR_YAML_SCALAR) {
        wrong_text(l, y);
        return false;
    }
    out->s = y->text.p;
    p = text_parser(&r);
    return !expr_next(y->text.p, 0, &at) || text_take(&r, expr_template(&p, y->text.p), out);
}

const char *read_now(struct loader *l, const struct fr_yaml *y)
{
    struct fr_text t;

    if (y->kind == FR_YAML_NULL) {
        wrong_text(l, y);
        return NULL;
    }
    return read_text(l, y, 0, &t) ? t.s : NULL;
}

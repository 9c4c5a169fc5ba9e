/* Values of expressions. All values are texts; comparisons read numbers where both sides are. */
#include "engine/spec/expr_tree.h"

#include <string.h>

struct eval {
    const struct fr_resolver *r;
    struct fr_arena scratch;
    struct fr_err *err;
};

static enum fr_rc value_of(struct eval *ev, const struct fr_expr *e, const char **out);

static bool truth(const char *text)
{
    double number;

    if (fr_parse_f64(fr_str_of(text), &number, NULL) == FR_OK)
        return number != 0;
    return text[0] != '\0' && strcmp(text, "false") != 0;
}

static const char *truth_text(bool v)
{
    return v ? "true" : "false";
}

static enum fr_rc keep(struct eval *ev, struct fr_buf *b, const char **out)
{
    *out = b->bad ? NULL : fr_arena_text(&ev->scratch, b->p ? b->p : "", b->n);
    fr_buf_finish(b);
    return *out ? FR_OK : fr_fail(ev->err, FR_NOMEM, "no memory for an expression");
}

static enum fr_rc value_of_ref(struct eval *ev, const struct fr_expr *e, const char **out)
{
    struct fr_buf b = {0};
    enum fr_rc rc;

    if (ev->r == NULL)
        return fr_fail(ev->err, FR_BUG, "${{ %s }} has no value yet", e->text);
    if ((rc = ev->r->get(ev->r->self, &e->ref, &b, ev->err)) != FR_OK) {
        fr_buf_finish(&b);
        return fr_while(ev->err, "${{ %s }}", e->text);
    }
    return keep(ev, &b, out);
}

static enum fr_rc compare(struct eval *ev, enum expr_op op, const char *a, const char *b, bool *out)
{
    double x, y;
    int order;

    if (fr_parse_f64(fr_str_of(a), &x, NULL) == FR_OK &&
        fr_parse_f64(fr_str_of(b), &y, NULL) == FR_OK)
        order = x < y ? -1 : x > y;
    else if (op == EX_EQ || op == EX_NE)
        order = strcmp(a, b);
    else
        return fr_fail(ev->err, FR_USAGE, "'%s' and '%s' have no order; expected numbers", a, b);
    *out = op == EX_EQ   ? order == 0
           : op == EX_NE ? order != 0
           : op == EX_LT ? order < 0
           : op == EX_LE ? order <= 0
           : op == EX_GT ? order > 0
                         : order >= 0;
    return FR_OK;
}

static enum fr_rc value_of_two(struct eval *ev, const struct fr_expr *e, const char **out)
{
    const char *a = "", *b = "";
    struct fr_buf text = {0};
    bool v = false;
    enum fr_rc rc = value_of(ev, e->a, &a);

    if (rc == FR_OK && (e->op == EX_AND || e->op == EX_OR)) {
        *out = a;
        return truth(a) == (e->op == EX_OR) ? FR_OK : value_of(ev, e->b, out);
    }
    if (rc != FR_OK || (rc = value_of(ev, e->b, &b)) != FR_OK)
        return rc;
    if (e->op == EX_JOIN) {
        fr_buf_text(&text, a);
        fr_buf_text(&text, b);
        return keep(ev, &text, out);
    }
    rc = compare(ev, e->op, a, b, &v);
    *out = truth_text(v);
    return rc;
}

static enum fr_rc value_of(struct eval *ev, const struct fr_expr *e, const char **out)
{
    const char *a = "";
    enum fr_rc rc;

    switch (e->op) {
    case EX_TEXT:
        *out = e->text;
        return FR_OK;
    case EX_REF:
        return value_of_ref(ev, e, out);
    case EX_NOT:
        rc = value_of(ev, e->a, &a);
        *out = truth_text(!truth(a));
        return rc;
    default:
        return value_of_two(ev, e, out);
    }
}

enum fr_rc fr_text_eval(const struct fr_text *t, const struct fr_resolver *r, struct fr_buf *out,
                        struct fr_err *err)
{
    struct eval ev = {.r = r, .err = err};
    const char *value = t->s ? t->s : "";
    enum fr_rc rc = FR_OK;

    if (t->expr != NULL)
        rc = value_of(&ev, t->expr, &value);
    if (rc == FR_OK) {
        fr_buf_text(out, value);
        if (out->bad)
            rc = fr_fail(err, FR_NOMEM, "no memory for an expression");
    }
    fr_arena_finish(&ev.scratch);
    return rc;
}

enum fr_rc fr_text_true(const struct fr_text *t, const struct fr_resolver *r, bool *out,
                        struct fr_err *err)
{
    struct fr_buf b = {0};
    enum fr_rc rc;

    *out = true;
    if (t->s == NULL)
        return FR_OK;
    rc = fr_text_eval(t, r, &b, err);
    *out = rc == FR_OK && truth(b.p ? b.p : "");
    fr_buf_finish(&b);
    return rc;
}

static bool walk(const struct fr_expr *e, bool (*each)(void *arg, const struct fr_ref *ref),
                 void *arg)
{
    if (e == NULL)
        return true;
    if (e->op == EX_REF)
        return each(arg, &e->ref);
    return walk(e->a, each, arg) && walk(e->b, each, arg);
}

void fr_text_refs(const struct fr_text *t, bool (*each)(void *arg, const struct fr_ref *ref),
                  void *arg)
{
    walk(t->expr, each, arg);
}

static bool stop(void *arg, const struct fr_ref *ref)
{
    (void)arg;
    (void)ref;
    return false;
}

bool expr_static(const struct fr_expr *e)
{
    return walk(e, stop, NULL);
}

bool expr_fenced(const struct fr_expr *e)
{
    switch (e->op) {
    case EX_TEXT:
    case EX_REF:
        return e->fenced;
    case EX_JOIN:
    case EX_OR:
        return expr_fenced(e->a) || expr_fenced(e->b);
    case EX_AND:
        return expr_fenced(e->b); /* a is the value only when it is no path */
    default:
        return false; /* of a comparison the value is true or false */
    }
}

const struct fr_expr *expr_first(const struct fr_expr *e)
{
    for (;;)
        switch (e->op) {
        case EX_TEXT:
            return e;
        case EX_JOIN:
            e = e->a;
            break;
        case EX_AND:
            e = e->b; /* a decides only when it is no path */
            break;
        case EX_OR: {
            const struct fr_expr *a = expr_first(e->a);

            if (a == NULL || truth(a->text))
                return a;
            e = e->b;
            break;
        }
        default:
            return NULL;
        }
}

/* when: one expression, with or without ${{ }} around it. */
#include "engine/spec/load.h"

#include <string.h>

/* True when text[from..end) needs no parentheses as a part of another expression. */
static bool is_operand(const char *text, size_t from, size_t end)
{
    for (size_t i = from; i < end; i++)
        if (strchr("&|=<>! ", text[i]) != NULL)
            return false;
    return true;
}

/* Adds the expression from..end of text, without the blanks at its ends. */
static void add_part(struct fr_buf *out, const char *text, size_t from, size_t end)
{
    while (from < end && text[from] == ' ')
        from++;
    while (end > from && text[end - 1] == ' ')
        end--;

    bool operand = is_operand(text, from, end);
    fr_buf_text(out, operand ? "" : "(");
    fr_buf_add(out, text + from, end - from);
    fr_buf_text(out, operand ? "" : ")");
}

/* The text with its braces taken away, and quotes that stood around them: "!${{ a }}" gives "!a",
 * "'${{ a }}' == 'b'" gives "a == 'b'". */
static void without_braces(const char *text, struct fr_buf *out)
{
    size_t done = 0, at, end;

    while (expr_next(text, done, &at) && expr_close(text, at + 3, &end)) {
        char quote = at > done ? text[at - 1] : '\0';
        bool quoted = (quote == '\'' || quote == '"') && text[end + 2] == quote;

        fr_buf_add(out, text + done, at - done - quoted);
        add_part(out, text, at + 3, end);
        done = end + 2 + quoted;
    }
    fr_buf_text(out, text + done);
}

/* True when text is an expression of known names. Reports nothing. */
static bool is_expression(struct loader *l, const struct text_reader *like, const char *text)
{
    struct text_reader r = *like;
    struct expr_parser p = text_parser(&r);
    struct mistake *mistakes = l->mistakes;
    struct output_use *uses = l->uses;
    size_t n = l->n_mistakes;
    bool ok = expr_parse(&p, text, 0, strlen(text)) != NULL && !r.bad;

    l->mistakes = mistakes;
    l->n_mistakes = n;
    l->uses = uses;
    return ok;
}

static void refuse_template(struct text_reader *r)
{
    struct hint hint = {.expected = "one expression alone, like when: params.name == 'text'"};
    struct fr_buf meant = {0};

    without_braces(r->y->text.p, &meant);
    if (!meant.bad && meant.p != NULL && is_expression(r->l, r, meant.p))
        hint.expected =
            load_keep(r->l, fr_arena_fmt(r->l->arena, "one expression: when: ${{ %s }}", meant.p));
    complain_near(r->l, pos_of(r->l, r->y), &hint, "when has text around ${{ }}");
    r->l->no_memory |= meant.bad;
    fr_buf_finish(&meant);
}

bool read_condition(struct loader *l, const struct fr_yaml *y, unsigned allow, struct fr_text *out)
{
    struct text_reader r = {.l = l, .y = y, .allow = allow};
    struct expr_parser p;
    size_t from = 0, end, at;

    *out = (struct fr_text){0};
    if (y->kind != FR_YAML_SCALAR) {
        wrong_value(l, y, "when", "an expression");
        return false;
    }
    end = y->text.n;
    if (expr_next(y->text.p, 0, &at)) {
        if (l->opts->rules == 1)
            return read_text(l, y, allow, out);
        if (!expr_whole(y->text.p, &from, &end)) {
            refuse_template(&r);
            return false;
        }
    } else {
        r.bare = true;
    }
    *out = (struct fr_text){.s = y->text.p, .pos = pos_of(l, y)};
    p = text_parser(&r);
    return text_take(&r, expr_parse(&p, y->text.p, from, end), out);
}

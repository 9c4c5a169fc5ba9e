/* Tokens and grammar of expressions; names are bound by the caller. */
#include "engine/spec/expr_tree.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum token { TOK_END, TOK_NAME, TOK_TEXT, TOK_NUMBER, TOK_SIGN, TOK_BAD };

struct scan {
    const struct expr_parser *p;
    const char *text;
    size_t at, end;    /* the text left to read */
    enum token token;  /* the current one */
    size_t from;       /* where it begins */
    char sign[3];      /* TOK_SIGN */
    const char *value; /* TOK_NAME, TOK_TEXT, TOK_NUMBER */
    int depth;
    bool failed;
};

static struct fr_expr *parse_or(struct scan *s);

static void wrong(struct scan *s, const char *what)
{
    if (!s->failed)
        s->p->wrong(s->p->self, s->from, what);
    s->failed = true;
}

static bool name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

/* A quoted text; the quote is doubled to stand in it, as in YAML. */
static void scan_text(struct scan *s)
{
    char quote = s->text[s->at++];
    char *out = fr_arena_alloc(s->p->arena, s->end - s->at + 1);
    size_t n = 0;

    s->token = TOK_TEXT;
    s->value = out;
    while (s->at < s->end && out != NULL) {
        char c = s->text[s->at++];

        if (c == quote && (s->at == s->end || s->text[s->at] != quote)) {
            if (strstr(out, "${{") != NULL)
                wrong(s, "'${{' cannot stand in a quoted text; expected the name alone, without "
                         "quotes and braces");
            return;
        }
        s->at += c == quote;
        out[n++] = c;
    }
    s->token = TOK_BAD;
    wrong(s, "a quote that is not closed");
}

static void scan_sign(struct scan *s)
{
    static const char *const signs[] = {"==", "!=", "<=", ">=", "&&", "||",
                                        "<",  ">",  "!",  "(",  ")",  "."};
    char message[64];

    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
        size_t n = strlen(signs[i]);

        if (n <= s->end - s->at && memcmp(s->text + s->at, signs[i], n) == 0) {
            memcpy(s->sign, signs[i], n + 1);
            s->token = TOK_SIGN;
            s->at += n;
            return;
        }
    }
    s->token = TOK_BAD;
    snprintf(message, sizeof(message), "'%c' cannot stand in an expression", s->text[s->at]);
    wrong(s, isprint((unsigned char)s->text[s->at]) ? message
                                                    : "a character that no expression holds");
}

static void next(struct scan *s)
{
    while (s->at < s->end && isspace((unsigned char)s->text[s->at]))
        s->at++;
    s->from = s->at;
    s->value = NULL;
    s->sign[0] = '\0';
    if (s->at == s->end) {
        s->token = TOK_END;
        return;
    }

    char c = s->text[s->at];
    bool number = isdigit((unsigned char)c) ||
                  (c == '-' && s->at + 1 < s->end && isdigit((unsigned char)s->text[s->at + 1]));
    if (c == '\'' || c == '"') {
        scan_text(s);
    } else if (number || name_char(c)) {
        while (s->at < s->end && (name_char(s->text[s->at]) || (number && s->text[s->at] == '.')))
            s->at++;
        s->token = number ? TOK_NUMBER : TOK_NAME;
        s->value = fr_arena_text(s->p->arena, s->text + s->from, s->at - s->from);
    } else {
        scan_sign(s);
    }
}

static bool is_sign(const struct scan *s, const char *sign)
{
    return s->token == TOK_SIGN && strcmp(s->sign, sign) == 0;
}

static struct fr_expr *node(struct scan *s, enum expr_op op, struct fr_expr *a, struct fr_expr *b)
{
    struct fr_expr *e = a == NULL ? NULL : fr_arena_alloc(s->p->arena, sizeof(*e));

    if (e != NULL)
        *e = (struct fr_expr){.op = op, .a = a, .b = b};
    return e;
}

struct fr_expr *expr_literal(struct fr_arena *arena, const char *text)
{
    struct fr_expr *e = text == NULL ? NULL : fr_arena_alloc(arena, sizeof(*e));

    if (e != NULL)
        *e = (struct fr_expr){.op = EX_TEXT, .text = text};
    return e;
}

/* The names and dots of a path and the comma behind it. */
static const char *parse_of(struct scan *s)
{
    size_t end = s->from;

    while (end < s->end && (name_char(s->text[end]) || s->text[end] == '.'))
        end++;
    s->at = end;
    while (s->at < s->end && isspace((unsigned char)s->text[s->at]))
        s->at++;
    if (s->at == s->end || s->text[s->at] != ',') {
        wrong(s, "expected a path, a comma and a 'text'");
        return NULL;
    }
    s->at++;
    end -= s->from;
    return fr_arena_text(s->p->arena, s->text + s->from, end);
}

/* '(' [[path ','] text] ')' after a name. */
static bool parse_call(struct scan *s, struct expr_part *part)
{
    part->called = true;
    next(s);
    if (s->token == TOK_NAME) {
        if ((part->of = parse_of(s)) == NULL)
            return false;
        next(s);
        if (s->token != TOK_TEXT)
            wrong(s, "expected a 'text'");
    }
    if (s->token == TOK_TEXT) {
        part->arg = s->value;
        next(s);
    }
    if (!is_sign(s, ")"))
        wrong(s, "expected ')'");
    else
        next(s);
    return !s->failed;
}

static struct fr_expr *parse_path(struct scan *s)
{
    struct expr_path path = {.at = s->from};

    for (;;) {
        struct expr_part *part = &path.part[path.n];

        if (s->token != TOK_NAME) {
            wrong(s, "expected a name after '.'");
            return NULL;
        }
        if ((part->name = s->value) == NULL) /* no memory */
            return NULL;
        path.n++;
        path.end = s->at;
        next(s);
        if (is_sign(s, "(")) {
            if (!parse_call(s, part))
                return NULL;
            path.end = s->from; /* blanks behind it do no harm: the text is trimmed below */
        }
        if (!is_sign(s, "."))
            break;
        next(s);
        if (path.n == EXPR_PARTS) {
            wrong(s, "too many '.'");
            return NULL;
        }
    }
    while (path.end > path.at && isspace((unsigned char)s->text[path.end - 1]))
        path.end--;
    path.text = fr_arena_text(s->p->arena, s->text + path.at, path.end - path.at);
    return s->failed || path.text == NULL ? NULL : s->p->bind(s->p->self, &path);
}

static bool is_number(const char *text)
{
    double v;

    return fr_parse_f64(fr_str_of(text), &v, NULL) == FR_OK;
}

static struct fr_expr *parse_primary(struct scan *s)
{
    struct fr_expr *e = NULL;

    if (s->token == TOK_NAME && s->value == NULL) /* no memory */
        return NULL;
    if (s->token == TOK_TEXT || s->token == TOK_NUMBER) {
        if (s->token == TOK_NUMBER && s->value != NULL && !is_number(s->value))
            wrong(s, "not a number");
        e = expr_literal(s->p->arena, s->value);
        next(s);
    } else if (s->token == TOK_NAME &&
               (strcmp(s->value, "true") == 0 || strcmp(s->value, "false") == 0)) {
        e = expr_literal(s->p->arena, s->value);
        next(s);
    } else if (s->token == TOK_NAME) {
        e = parse_path(s);
    } else if (is_sign(s, "(")) {
        next(s);
        e = parse_or(s);
        if (e == NULL)
            return NULL;
        if (!is_sign(s, ")"))
            wrong(s, "expected ')'");
        else
            next(s);
    } else {
        wrong(s, s->token == TOK_END ? "the expression ends too early; expected a value"
                                     : "expected a value");
    }
    return s->failed ? NULL : e;
}

static struct fr_expr *parse_not(struct scan *s)
{
    struct fr_expr *e;

    if (++s->depth > EXPR_DEPTH) {
        wrong(s, "nested too deep");
        return NULL;
    }
    if (is_sign(s, "!")) {
        next(s);
        e = node(s, EX_NOT, parse_not(s), NULL);
    } else {
        e = parse_primary(s);
    }
    s->depth--;
    return e;
}

static struct fr_expr *parse_compare(struct scan *s)
{
    static const struct {
        const char *sign;
        enum expr_op op;
    } ops[] = {{"==", EX_EQ}, {"!=", EX_NE}, {"<", EX_LT},
               {"<=", EX_LE}, {">", EX_GT},  {">=", EX_GE}};
    struct fr_expr *e = parse_not(s);

    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        if (is_sign(s, ops[i].sign)) {
            next(s);
            return node(s, ops[i].op, e, parse_not(s));
        }
    return e;
}

/* The value of && and ||: that of the operand which decided, or under rules 1 its truth. */
static struct fr_expr *decided(struct scan *s, struct fr_expr *e)
{
    return s->p->yes_or_no ? node(s, EX_NOT, node(s, EX_NOT, e, NULL), NULL) : e;
}

static struct fr_expr *parse_and(struct scan *s)
{
    struct fr_expr *e = parse_compare(s);

    while (!s->failed && is_sign(s, "&&")) {
        next(s);
        e = decided(s, node(s, EX_AND, e, parse_compare(s)));
    }
    return e;
}

static struct fr_expr *parse_or(struct scan *s)
{
    struct fr_expr *e = parse_and(s);

    while (!s->failed && is_sign(s, "||")) {
        next(s);
        e = decided(s, node(s, EX_OR, e, parse_and(s)));
    }
    return e;
}

struct fr_expr *expr_parse(const struct expr_parser *p, const char *text, size_t at, size_t end)
{
    struct scan s = {.p = p, .text = text, .at = at, .end = end};
    struct fr_expr *e;

    if (end - at > EXPR_BYTES) {
        wrong(&s, "an expression of more than 4096 bytes");
        return NULL;
    }
    next(&s);
    e = parse_or(&s);
    if (!s.failed && e != NULL && s.token != TOK_END)
        wrong(&s, "expected the end of the expression, or an operator");
    return s.failed ? NULL : e;
}

bool expr_next(const char *text, size_t from, size_t *at)
{
    const char *found = strstr(text + from, "${{");

    if (found != NULL)
        *at = (size_t)(found - text);
    return found != NULL;
}

bool expr_close(const char *text, size_t at, size_t *end)
{
    char quote = '\0';

    for (; text[at] != '\0'; at++) {
        if (quote != '\0')
            quote = text[at] == quote ? '\0' : quote;
        else if (text[at] == '\'' || text[at] == '"')
            quote = text[at];
        else if (text[at] == '}' && text[at + 1] == '}') {
            *end = at;
            return true;
        }
    }
    return false;
}

struct fr_expr *expr_join(struct fr_arena *arena, const struct fr_expr *a, const struct fr_expr *b)
{
    struct fr_expr *e = a == NULL || b == NULL ? NULL : fr_arena_alloc(arena, sizeof(*e));

    if (e != NULL)
        *e = (struct fr_expr){.op = EX_JOIN, .a = a, .b = b};
    return e;
}

static struct fr_expr *join(const struct expr_parser *p, struct fr_expr *a, struct fr_expr *b)
{
    return a == NULL ? b : b == NULL ? a : expr_join(p->arena, a, b);
}

struct fr_expr *expr_template(const struct expr_parser *p, const char *text)
{
    struct fr_expr *all = NULL, *part = NULL;
    size_t done = 0, at, end;

    for (int n = 0; expr_next(text, done, &at); n++) {
        if (n == EXPR_TEMPLATE || !expr_close(text, at + 3, &end)) {
            p->wrong(p->self, at,
                     n == EXPR_TEMPLATE ? "more than 200 expressions" : "'${{' without '}}'");
            return NULL;
        }
        if (at > done) {
            part = expr_literal(p->arena, fr_arena_text(p->arena, text + done, at - done));
            if ((all = join(p, all, part)) == NULL)
                return NULL;
        }
        if ((part = expr_parse(p, text, at + 3, end)) == NULL)
            return NULL;
        all = join(p, all, part);
        done = end + 2;
    }
    if (text[done] != '\0' || all == NULL)
        all = join(p, all, expr_literal(p->arena, fr_arena_dup(p->arena, text + done)));
    return all;
}

bool expr_whole(const char *text, size_t *from, size_t *end)
{
    size_t at;

    if (!expr_next(text, 0, &at) || !expr_close(text, at + 3, end))
        return false;
    *from = at + 3;
    return strspn(text, " \t\n") == at && text[*end + 2 + strspn(text + *end + 2, " \t\n")] == '\0';
}

/*
 * The tree of an expression, and the parser that makes it. Internal to engine/spec.
 *
 * Grammar, loosest first: a || b, a && b, == != < <= > >=, !a, then (a), 'text', "text", number,
 * true, false, and a path: name { '.' name | '(' [[path ','] text] ')' }. Names: letters, digits, _
 * and -.
 */
#ifndef FR_SPEC_EXPR_TREE_H
#define FR_SPEC_EXPR_TREE_H

#include "engine/spec/expr.h"

enum expr_op {
    EX_TEXT, /* a literal */
    EX_REF,
    EX_JOIN, /* the text of a, then that of b */
    EX_NOT,
    EX_AND,
    EX_OR,
    EX_EQ,
    EX_NE,
    EX_LT,
    EX_LE,
    EX_GT,
    EX_GE
};

struct fr_expr {
    enum expr_op op;
    const struct fr_expr *a, *b;
    const char *text; /* EX_TEXT: the value; EX_REF: as written */
    bool given;       /* EX_TEXT: the value of a -p */
    bool fenced;      /* EX_TEXT: fr_param.fenced; EX_REF: of a matrix that has one */
    struct fr_ref ref;
};

struct expr_part {
    const char *name;
    bool called;     /* name(…) */
    const char *of;  /* called with this path and a text; NULL: with a text alone */
    const char *arg; /* called with this text; NULL: name() */
};

enum { EXPR_PARTS = 8, EXPR_DEPTH = 32, EXPR_BYTES = 4096, EXPR_TEMPLATE = 200 };

struct expr_path {
    struct expr_part part[EXPR_PARTS];
    size_t n;
    size_t at, end;   /* bytes of the text that it stands in */
    const char *text; /* as written */
};

struct expr_parser {
    struct fr_arena *arena;
    void *self;
    bool yes_or_no; /* a && b and a || b give true or false, as they did under rules 1 */
    /* Gives the node for a path: a literal or a reference. NULL only without memory; a wrong path
     * is reported by bind itself, and stands for the empty text. */
    struct fr_expr *(*bind)(void *self, const struct expr_path *path);
    /* Reports a mistake at byte `at` of the text. */
    void (*wrong)(void *self, size_t at, const char *what);
};

/* Both return NULL after wrong() was called, or without memory. */
/* An expression alone: bytes from..end of text. */
struct fr_expr *expr_parse(const struct expr_parser *p, const char *text, size_t from, size_t end);
struct fr_expr *expr_template(const struct expr_parser *p, const char *text); /* text with ${{ }} */

struct fr_expr *expr_literal(struct fr_arena *arena, const char *text);

/* Finds text's single expression: from..end is what stands between ${{ and }}. False when anything
 * but blanks stands around it. */
bool expr_whole(const char *text, size_t *from, size_t *end);

/* Byte of the next "${{" in text from byte `from`; false when there is none. */
bool expr_next(const char *text, size_t from, size_t *at);
/* Byte of the "}}" that closes an expression which begins at byte at; false when there is none. */
bool expr_close(const char *text, size_t at, size_t *end);

/* True when nothing in e waits for a resolver. */
bool expr_static(const struct fr_expr *e);

/* Whether a fenced text may be part of e's value. */
bool expr_fenced(const struct fr_expr *e);

/* The text that e's value begins with, as far as it is known; NULL: a reference decides. */
const struct fr_expr *expr_first(const struct fr_expr *e);

/* Joins the text of a and that of b. NULL without memory, or when one of them is NULL. */
struct fr_expr *expr_join(struct fr_arena *arena, const struct fr_expr *a, const struct fr_expr *b);

#endif

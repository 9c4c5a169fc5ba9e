#include "trainer/cli/example.h"

#include "trainer/tensor/draw.h"

#include <string.h>

/* In a pattern: A and B are the numbers, N and M names, T a thing, R the result. */
struct pattern {
    const char *question, *answer;
    char op;
};

static const struct pattern patterns[] = {
    {"What is A plus B?", "A plus B is R.", '+'},
    {"Add A and B.", "The sum of A and B is R.", '+'},
    {"What is A minus B?", "A minus B is R.", '-'},
    {"Take B away from A.", "A less B leaves R.", '-'},
    {"What is A times B?", "A times B is R.", '*'},
    {"N has A T and finds B more. How many T does N have now?",
     "N starts with A T and adds B, so N has R T.", '+'},
    {"N has A T. M has B T. How many T do they have together?",
     "Together N and M have A plus B, which is R T.", '+'},
    {"N had A T and gave B of them to M. How many T are left?", "N keeps A minus B, which is R T.",
     '-'},
    {"M fills A boxes with B T each. How many T are in the boxes?",
     "A boxes of B T hold A times B, which is R T.", '*'},
    {"Each of A shelves holds B T. How many T are on the shelves?",
     "A shelves with B T each carry R T.", '*'},
};

static const char *const names[] = {"Ada",   "Bruno", "Clara", "Dora",  "Emil",
                                    "Frida", "Hugo",  "Ida",   "Jonas", "Karla"};
static const char *const things[] = {"apples", "pencils", "stones", "books",
                                     "cards",  "shells",  "coins",  "buttons"};

enum { NPATTERNS = sizeof(patterns) / sizeof(patterns[0]), NNAMES = 10, NTHINGS = 8 };

struct task {
    const struct pattern *p;
    int a, b, r;
    const char *n, *m, *t;
};

static struct task draw_task(struct tr_draw d, uint64_t i)
{
    uint64_t bits = tr_draw_bits(d, 2 * i), more = tr_draw_bits(d, 2 * i + 1);
    struct task x = {.p = &patterns[bits % NPATTERNS]};
    uint64_t first = more % NNAMES, second = (first + 1 + (more >> 8) % (NNAMES - 1)) % NNAMES;
    int span = x.p->op == '*' ? 11 : 89;

    x.a = 2 + (int)((bits >> 8) % (uint64_t)span);
    x.b = 2 + (int)((bits >> 24) % (uint64_t)span);
    if (x.p->op == '-' && x.b > x.a) {
        int t = x.a;
        x.a = x.b;
        x.b = t;
    }
    x.r = x.p->op == '+' ? x.a + x.b : x.p->op == '-' ? x.a - x.b : x.a * x.b;
    x.n = names[first];
    x.m = names[second];
    x.t = things[(more >> 16) % NTHINGS];
    return x;
}

/* A letter of the pattern that stands alone is replaced. */
static void expand(const char *text, const struct task *x, struct fr_buf *out)
{
    for (const char *p = text; *p != '\0'; p++) {
        bool alone = (p == text || p[-1] == ' ') && !(p[1] >= 'a' && p[1] <= 'z');
        if (!alone || strchr("ABNMTR", *p) == NULL)
            fr_buf_add(out, p, 1);
        else if (*p == 'A' || *p == 'B' || *p == 'R')
            fr_buf_fmt(out, "%d", *p == 'A' ? x->a : *p == 'B' ? x->b : x->r);
        else
            fr_buf_text(out, *p == 'N' ? x->n : *p == 'M' ? x->m : x->t);
    }
}

enum fr_rc tr_exercises(uint64_t seed, int64_t records, struct fr_buf *lines, struct fr_buf *text,
                        struct fr_err *err)
{
    struct tr_draw d = tr_draw_of(seed, "exercises");
    struct fr_buf one = {0};

    for (int64_t i = 0; i < records; i++) {
        struct task x = draw_task(d, (uint64_t)i);
        one.n = 0;
        expand(x.p->question, &x, &one);
        fr_buf_fmt(lines, "{\"instruction\": \"%s\", \"input\": \"\", ", one.p);
        fr_buf_fmt(text, "%s\n", one.p);
        one.n = 0;
        expand(x.p->answer, &x, &one);
        fr_buf_fmt(lines, "\"output\": \"%s\"}\n", one.p);
        fr_buf_fmt(text, "%s\n", one.p);
    }
    bool bad = lines->bad || text->bad || one.bad;
    fr_buf_finish(&one);
    return bad ? fr_fail(err, FR_NOMEM, "no memory for the exercises") : FR_OK;
}

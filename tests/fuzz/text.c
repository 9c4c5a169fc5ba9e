/* Texts that people and tasks write: pipelines, inventories, expressions, outputs, small values. */
#include "tests/fuzz/fuzz.h"

#include "engine/supervise/outputs.h"
#include "engine/plan/layout.h"
#include "engine/spec/expr_tree.h"
#include "engine/spec/items.h"
#include "engine/wire/wire.h"

#include <stdlib.h>
#include <string.h>

static const char *some_env(void *self, const char *name)
{
    (void)self;
    return strcmp(name, "HOME") == 0 ? "/home/u" : NULL;
}

static bool printable(const struct fr_buf *b)
{
    for (size_t i = 0; i < b->n; i++)
        if ((uint8_t)b->p[i] < 0x20 && b->p[i] != '\n' && b->p[i] != '\t')
            return false;
    return fr_utf8_valid(b->p, b->n);
}

static void draw(const struct fr_spec *spec)
{
    struct fr_arena arena = {0};
    struct fr_plan *plan = NULL;
    struct fr_err err = {0};
    struct fr_buf text = {0}, dot = {0}, svg = {0};
    struct fr_layout *layout;
    struct fr_plan_draw how = {.nodes = true, .hooks = true};
    enum fr_rc rc = fr_plan_make(spec, &arena, &plan, &err);

    fuzz_want_err(rc, &err);
    if (rc == FR_OK && plan->n_insts < 1000) {
        fr_plan_draw_text(plan, &how, &text);
        fr_plan_draw_dot(plan, &how, &dot);
        if (fr_plan_layout(plan, &(struct fr_layout_opts){.hooks = true}, &arena, &layout, &err) ==
            FR_OK)
            fr_plan_draw_svg(plan, layout, &how, &svg);
        fuzz_want(printable(&text) && printable(&dot) && printable(&svg), "drawings are printable");
    }
    fr_buf_finish(&text);
    fr_buf_finish(&dot);
    fr_buf_finish(&svg);
    fr_arena_finish(&arena);
}

static void load(const struct fr_source *sources, size_t n)
{
    struct fr_spec_opts opts = {
        .path = "p.yaml", .cwd = "/w", .sources = sources, .n_sources = n, .getenv = some_env};
    struct fr_issues issues = {0};
    struct fr_spec *spec = NULL;
    struct fr_err err = {0};
    enum fr_rc rc = fr_spec_load(&opts, &spec, &issues, &err);

    fuzz_want_err(rc, &err);
    fuzz_want((rc == FR_OK) == (spec != NULL), "a spec comes with success alone");
    fuzz_want(rc != FR_OK || issues.n == 0, "success has no issues");
    for (size_t i = 0; i < issues.n; i++)
        fuzz_want(issues.lines[i][0] != '\0', "an issue has a text");
    if (rc == FR_OK)
        draw(spec);
    fr_spec_destroy(spec);
    fr_issues_finish(&issues);
}

void fuzz_pipeline(struct fr_str in)
{
    static const char nodes[] = "nodes: [{name: n1, executor: local}, {name: n2, executor: local}]";
    struct fr_source sources[] = {{"p.yaml", in}, {"/w/nodes.yaml", FR_STR(nodes)}};

    load(sources, 2);
}

void fuzz_inventory(struct fr_str in)
{
    static const char text[] = "nodes: nodes.yaml\ntasks: {t: {run: x, on: all}}\n";
    struct fr_source sources[] = {{"p.yaml", FR_STR(text)}, {"/w/nodes.yaml", in}};

    load(sources, 2);
}

/* ---- expressions ---- */

struct reader {
    struct fr_arena arena;
    bool wrong;
};

static struct fr_expr *bind(void *self, const struct expr_path *path)
{
    struct reader *r = self;
    struct fr_expr *e = fr_arena_alloc(&r->arena, sizeof(*e));

    fuzz_want(path->n >= 1 && path->n <= EXPR_PARTS && path->at <= path->end, "a path is whole");
    if (e == NULL)
        return NULL;
    e->op = EX_REF;
    e->text = fr_arena_dup(&r->arena, path->text);
    e->ref = (struct fr_ref){.kind = path->n & 1 ? FR_REF_OUTPUT : FR_REF_SUCCESS,
                             .name = path->part[path->n - 1].name};
    return e;
}

static void wrong(void *self, size_t at, const char *what)
{
    (void)at;
    fuzz_want(what != NULL && what[0] != '\0', "a mistake has a text");
    ((struct reader *)self)->wrong = true;
}

static enum fr_rc get(void *self, const struct fr_ref *ref, struct fr_buf *out, struct fr_err *err)
{
    (void)self;
    if (ref->kind == FR_REF_SUCCESS)
        fr_buf_text(out, "true");
    else if (ref->name[0] == 'n')
        return fr_fail(err, FR_NOTFOUND, "no value");
    else
        fr_buf_text(out, ref->name);
    return FR_OK;
}

static void parse_one(struct reader *r, const char *text, bool whole)
{
    struct expr_parser p = {.arena = &r->arena, .self = r, .bind = bind, .wrong = wrong};
    struct fr_resolver resolver = {NULL, get};
    struct fr_text t = {.s = text};
    struct fr_buf out = {0};
    struct fr_err err = {0};
    bool yes;
    enum fr_rc rc;

    t.expr = whole ? expr_parse(&p, text, 0, strlen(text)) : expr_template(&p, text);
    fuzz_want(t.expr != NULL || r->wrong, "what is refused is reported");
    if (t.expr != NULL) {
        rc = fr_text_eval(&t, &resolver, &out, &err);
        fuzz_want_err(rc, &err);
        rc = fr_text_true(&t, &resolver, &yes, &err);
        fuzz_want_err(rc, &err);
    }
    fr_buf_finish(&out);
    r->wrong = false;
}

void fuzz_expr(struct fr_str in)
{
    struct reader r = {0};
    const char *text = fr_arena_text(&r.arena, in.p, in.n);

    parse_one(&r, text, true);
    parse_one(&r, text, false);
    fr_arena_finish(&r.arena);
}

/* ---- outputs ---- */

void fuzz_outputs(struct fr_str in)
{
    struct fr_str names[] = {FR_STR("k"), FR_STR("list"), FR_STR("a-b")};
    struct fr_strs declared = {names, 3}, out;
    size_t total = 0;
    struct fr_arena arena = {0};
    struct fr_err err = {0};
    enum fr_rc rc = fr_outputs_parse(in, &declared, &arena, &out, &err);

    fuzz_want_err(rc, &err);
    for (size_t i = 0; i < out.n; i++) {
        const char *eq = memchr(out.v[i].p, '=', out.v[i].n);
        fuzz_want(eq != NULL && eq > out.v[i].p, "an output is K=V");
        fuzz_want(fr_utf8_valid(out.v[i].p, out.v[i].n), "an output is UTF-8");
        fuzz_want(memchr(out.v[i].p, '\0', out.v[i].n) == NULL, "an output has no NUL");
        fuzz_want(out.v[i].n - (size_t)(eq - out.v[i].p) <= FR_OUTPUT_VALUE_MAX + 1,
                  "a value is not too long");
        total += out.v[i].n;
    }
    fuzz_want(total <= FR_OUTPUTS_MAX + 4096, "outputs are not too long");
    fr_arena_finish(&arena);
}

/* ---- elements of a list ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void look_at_keys(const struct fr_items *items, struct fr_arena *arena)
{
    const char **keys = fr_arena_array(arena, items->n + 1, sizeof(*keys));

    for (size_t i = 0; i < items->n; i++) {
        const struct fr_buf key = {.p = (char *)items->v[i].key, .n = strlen(items->v[i].key)};

        keys[i] = items->v[i].key;
        fuzz_want(key.n > 0 && printable(&key) && strchr(keys[i], '\n') == NULL,
                  "a key is a word that can be shown");
    }
    qsort(keys, items->n, sizeof(*keys), by_text);
    for (size_t i = 1; i < items->n; i++)
        fuzz_want(strcmp(keys[i - 1], keys[i]) != 0, "no two elements have one key");
}

/* What is stored is read again as it was. */
void fuzz_elements(struct fr_str in)
{
    struct fr_arena arena = {0};
    struct fr_items items = {0}, again = {0};
    struct fr_buf text = {0}, member = {0};
    struct fr_err err = {0};
    enum fr_rc rc = fr_items_read(in, &arena, &items, &err);

    fuzz_want_err(rc, &err);
    fr_buf_text(&text, "[");
    for (size_t i = 0; rc == FR_OK && i < items.n; i++) {
        fr_buf_fmt(&text, "%s", i > 0 ? "," : "");
        fr_item_json(&items, i, &text);
        (void)fr_item_member(&items.v[i], "k.l", &member, &err);
    }
    fr_buf_text(&text, "]");
    if (rc == FR_OK && text.n <= FR_ELEMENTS_MAX) {
        look_at_keys(&items, &arena);
        fuzz_want(fr_items_read((struct fr_str){text.p, text.n}, &arena, &again, &err) == FR_OK &&
                      again.n == items.n,
                  "elements are a list again");
        for (size_t i = 0; i < items.n; i++)
            fuzz_want(strcmp(items.v[i].key, again.v[i].key) == 0 &&
                          strcmp(items.v[i].text, again.v[i].text) == 0,
                      "with the same keys and values");
    }
    fr_buf_finish(&text);
    fr_buf_finish(&member);
    fr_arena_finish(&arena);
}

/* ---- small values ---- */

void fuzz_values(struct fr_str in)
{
    static const char *const words[] = {"timeout", "retry", "needs", "outputs", "on"};
    struct fr_err err = {0};
    struct fr_buf seen = {0};
    int64_t n = 0;
    double f = 0;
    bool yes;
    char shown[24], word[64];
    struct fr_id id;

    fuzz_want_err(fr_parse_i64(in, &n, &err), &err);
    fuzz_want_err(fr_parse_f64(in, &f, &err), &err);
    fuzz_want_err(fr_parse_bool(in, &yes, &err), &err);
    if (fr_parse_duration(in, &n, &err) == FR_OK) {
        fuzz_want(n >= 0, "a duration is not negative");
        fr_show_duration(n, shown);
    }
    if (fr_parse_size(in, &n, &err) == FR_OK) {
        fuzz_want(n >= 0, "a size is not negative");
        fr_show_size(n, shown);
    }
    fr_id_parse(in, &id);
    memset(word, 0, sizeof(word));
    if (in.n > 0)
        memcpy(word, in.p, in.n < sizeof(word) - 1 ? in.n : sizeof(word) - 1);
    fr_suggest(word, words, 5);
    fr_buf_visible(&seen, in.p, in.n);
    fuzz_want(seen.n == 0 || printable(&seen), "what is made visible is printable");
    fuzz_want(seen.n == 0 || memchr(seen.p, '\n', seen.n) == NULL, "and one line");
    fr_buf_finish(&seen);
}

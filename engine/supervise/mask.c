#include "engine/supervise/mask.h"

#include <string.h>

enum { LINE_MIN = 8 /* bytes: a shorter line is found in anything */ };

static bool keep(struct fr_arena *arena, struct fr_strs *list, struct fr_str value)
{
    struct fr_str *v = fr_arena_grow(arena, list->v, list->n, sizeof(*v));

    if (v == NULL)
        return false;
    list->v = v;
    v[list->n] = (struct fr_str){fr_arena_text(arena, value.p, value.n), value.n};
    return v[list->n++].p != NULL;
}

/* How a shell quotes it between single quotes. */
static void as_shell(struct fr_str v, const char *quote, struct fr_buf *out)
{
    for (size_t i = 0; i < v.n; i++)
        if (v.p[i] == '\'')
            fr_buf_text(out, quote);
        else
            fr_buf_add(out, v.p + i, 1);
}

static void add_unit(struct fr_buf *out, unsigned unit)
{
    fr_buf_fmt(out, "\\u%04x", unit);
}

/* The letter that begins at v.p[*i], as UTF-16. A byte that is no UTF-8 stays as it is. */
static void add_letter(struct fr_str v, size_t *i, struct fr_buf *out)
{
    uint8_t b = (uint8_t)v.p[*i];
    size_t n = b >= 0xf0 ? 4 : b >= 0xe0 ? 3 : 2;
    uint32_t code = b & (0xffu >> (n + 1));

    if (*i + n > v.n || !fr_utf8_valid(v.p + *i, n)) {
        fr_buf_add(out, v.p + *i, 1);
        return;
    }
    for (size_t k = 1; k < n; k++)
        code = code << 6 | ((uint8_t)v.p[*i + k] & 0x3f);
    *i += n - 1;
    if (code >= 0x10000) {
        add_unit(out, 0xd800 + ((code - 0x10000) >> 10));
        code = 0xdc00 + ((code - 0x10000) & 0x3ff);
    }
    add_unit(out, code);
}

/* RFC 8259, section 7. */
static void as_json(struct fr_str v, bool ascii, struct fr_buf *out)
{
    static const char letters[] = "bfnrt", codes[] = "\b\f\n\r\t";

    for (size_t i = 0; i < v.n; i++) {
        uint8_t c = (uint8_t)v.p[i];
        const char *code = c != 0 ? strchr(codes, c) : NULL;

        if (code != NULL)
            fr_buf_add(out, (char[]){'\\', letters[code - codes]}, 2);
        else if (c < 0x20 || (ascii && c == 0x7f))
            add_unit(out, c);
        else if (c >= 0x80 && ascii)
            add_letter(v, &i, out);
        else
            fr_buf_fmt(out, "%s%c", c == '"' || c == '\\' ? "\\" : "", c);
    }
}

static bool add_forms(struct fr_arena *arena, struct fr_strs *list, struct fr_str value)
{
    struct fr_buf forms[4] = {{0}};
    bool ok = keep(arena, list, value);

    as_shell(value, "'\\''", &forms[0]);
    as_shell(value, "'\"'\"'", &forms[1]);
    as_json(value, false, &forms[2]);
    as_json(value, true, &forms[3]);
    for (size_t i = 0; i < 4; i++) {
        struct fr_str form = {forms[i].p, forms[i].n};
        bool new = !fr_str_eq(form, value) && (i != 3 || forms[3].n != forms[2].n ||
                                               memcmp(forms[3].p, forms[2].p, form.n) != 0);

        ok = ok && !forms[i].bad && (!new || keep(arena, list, form));
        fr_buf_finish(&forms[i]);
    }
    return ok;
}

bool fr_mask_add(struct fr_arena *arena, struct fr_strs *list, struct fr_str value)
{
    bool lines = memchr(value.p, '\n', value.n) != NULL, ok = true;
    struct fr_str line;

    if (value.n > 0)
        ok = add_forms(arena, list, value);
    while (ok && lines && fr_next_line(&value, &line))
        if (line.n >= LINE_MIN)
            ok = add_forms(arena, list, line);
    return ok;
}

void fr_mask_init(struct fr_mask *m, const struct fr_strs *values)
{
    *m = (struct fr_mask){.v = values->v, .n = values->n};
    for (size_t i = 0; i < values->n; i++)
        if (values->v[i].n > 0)
            m->first[(uint8_t)values->v[i].p[0]] = true;
}

/* Length of the longest secret at p, 0 for none; *more: a longer one may still come true. */
static size_t match(const struct fr_mask *m, const char *p, size_t n, bool *more)
{
    size_t best = 0;

    *more = false;
    for (size_t i = 0; i < m->n; i++) {
        struct fr_str s = m->v[i];
        if (s.n == 0 || memcmp(p, s.p, s.n < n ? s.n : n) != 0)
            continue;
        if (s.n > n)
            *more = true;
        else if (s.n > best)
            best = s.n;
    }
    return best;
}

static void scan(struct fr_mask *m, bool last, struct fr_buf *out)
{
    size_t at = 0, from = 0;

    while (at < m->held.n) {
        bool more = false;
        size_t hit =
            m->first[(uint8_t)m->held.p[at]] ? match(m, m->held.p + at, m->held.n - at, &more) : 0;
        if (more && !last)
            break;
        if (hit == 0) {
            at++;
            continue;
        }
        fr_buf_add(out, m->held.p + from, at - from);
        fr_buf_text(out, "***");
        at += hit;
        from = at;
    }
    fr_buf_add(out, m->held.p + from, at - from);
    fr_buf_cut(&m->held, at);
}

void fr_mask_feed(struct fr_mask *m, const char *p, size_t n, struct fr_buf *out)
{
    if (m->n == 0) {
        fr_buf_add(out, p, n);
        return;
    }
    fr_buf_add(&m->held, p, n);
    if (!m->held.bad && m->held.n > 0)
        scan(m, false, out);
}

void fr_mask_end(struct fr_mask *m, struct fr_buf *out)
{
    if (!m->held.bad && m->held.n > 0)
        scan(m, true, out);
}

void fr_mask_finish(struct fr_mask *m)
{
    fr_buf_finish(&m->held);
}

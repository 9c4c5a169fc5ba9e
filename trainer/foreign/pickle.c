#include "trainer/foreign/pickle.h"

#include "engine/base/sys.h"

#include <string.h>

enum { STACK_MAX = 1 << 22, MARKS_MAX = 1 << 10, VALUES_MAX = 1 << 24 };

/* A value that is being built: its room beside what is seen of it. */
struct built {
    struct tr_pv v;
    size_t cap;
};

struct machine {
    const struct tr_pickle *p;
    size_t at, op_at;
    struct built **stack, **memo; /* own their arrays; values are the arena's */
    size_t n, cap, memo_n, memo_cap, values;
    size_t marks[MARKS_MAX], nmarks;
    bool stopped;
};

static enum fr_rc bad(const struct machine *m, const char *why, struct fr_err *err)
{
    return fr_fail(err, FR_CORRUPT, "%s: offset %zu of its pickle: %s", m->p->file, m->op_at, why);
}

static const unsigned char *take(struct machine *m, size_t n)
{
    const char *p = m->p->bytes.p + m->at;

    if (n > m->p->bytes.n - m->at)
        return NULL;
    m->at += n;
    return (const unsigned char *)p;
}

static bool number(struct machine *m, int bytes, uint64_t *out)
{
    const unsigned char *p = take(m, (size_t)bytes);

    *out = 0;
    for (int i = 0; p != NULL && i < bytes; i++)
        *out |= (uint64_t)p[i] << (8 * i);
    return p != NULL;
}

static enum fr_rc push(struct machine *m, struct built *b, struct fr_err *err)
{
    void *grown;

    if (m->n == STACK_MAX)
        return bad(m, "too many values on its stack", err);
    if ((grown = fr_grow(m->stack, m->n + 1, &m->cap, sizeof(*m->stack))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %s", m->p->file);
    m->stack = grown;
    m->stack[m->n++] = b;
    return FR_OK;
}

static enum fr_rc push_value(struct machine *m, const struct tr_pv *v, struct fr_err *err)
{
    struct built *b;

    if (m->values++ == VALUES_MAX)
        return bad(m, "too many values", err);
    if ((b = fr_arena_alloc(m->p->arena, sizeof(*b))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %s", m->p->file);
    b->v = *v;
    b->cap = v->n;
    return push(m, b, err);
}

static size_t floor_of(const struct machine *m)
{
    return m->nmarks > 0 ? m->marks[m->nmarks - 1] : 0;
}

/* The value on top, which leaves; NULL: there is none above the last mark. */
static struct built *pop(struct machine *m)
{
    return m->n > floor_of(m) ? m->stack[--m->n] : NULL;
}

static enum fr_rc append(struct machine *m, struct built *to, struct built *const *from, size_t n,
                         struct fr_err *err)
{
    if (to->v.n + n > to->cap) {
        size_t cap = 2 * (to->v.n + n) + 2;
        const struct tr_pv **items = fr_arena_array(m->p->arena, cap, sizeof(*items));

        if (items == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for %s", m->p->file);
        if (to->v.n > 0)
            memcpy(items, to->v.items, to->v.n * sizeof(*items));
        to->v.items = items;
        to->cap = cap;
    }
    for (size_t i = 0; i < n; i++)
        to->v.items[to->v.n++] = &from[i]->v;
    return FR_OK;
}

/* The last n values become a tuple. */
static enum fr_rc tuple(struct machine *m, size_t n, struct fr_err *err)
{
    enum fr_rc rc;

    if (m->n - floor_of(m) < n)
        return bad(m, "its stack is empty", err);
    m->n -= n;
    struct built all = {.v.kind = TR_PV_TUPLE};
    if (n > 0 && (rc = append(m, &all, m->stack + m->n, n, err)) != FR_OK)
        return rc;
    return push_value(m, &all.v, err);
}

/* Values above the last mark, which goes. */
static bool unmark(struct machine *m, size_t *n)
{
    if (m->nmarks == 0)
        return false;
    *n = m->n - m->marks[--m->nmarks];
    return true;
}

/* n values on top go into the list or dict below them. */
static enum fr_rc into(struct machine *m, size_t n, enum tr_pickle_kind kind, struct fr_err *err)
{
    struct built *to;

    if (m->n - floor_of(m) < n + 1)
        return bad(m, "its stack is empty", err);
    to = m->stack[m->n - n - 1];
    if (to->v.kind != kind || (kind == TR_PV_DICT && n % 2 != 0))
        return bad(m, kind == TR_PV_DICT ? "items of no dict" : "items of no list", err);
    m->n -= n;
    return append(m, to, m->stack + m->n, n, err);
}

static enum fr_rc put(struct machine *m, uint64_t k, struct fr_err *err)
{
    void *grown;

    if (m->n == 0 || k > m->memo_n)
        return bad(m, "a memo that does not follow the last one", err);
    if ((grown = fr_grow(m->memo, m->memo_n + 1, &m->memo_cap, sizeof(*m->memo))) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %s", m->p->file);
    m->memo = grown;
    m->memo[k] = m->stack[m->n - 1];
    m->memo_n += k == m->memo_n;
    return FR_OK;
}

static bool line(struct machine *m, struct fr_str *out)
{
    const char *p = m->p->bytes.p + m->at, *end = memchr(p, '\n', m->p->bytes.n - m->at);

    if (end == NULL)
        return false;
    *out = (struct fr_str){p, (size_t)(end - p)};
    m->at += out->n + 1;
    return true;
}

static enum fr_rc global(struct machine *m, struct fr_err *err)
{
    struct fr_str module, name;
    const struct tr_pickle_name *known;

    if (!line(m, &module) || !line(m, &name))
        return bad(m, "it ends within a name", err);
    if ((known = tr_pickle_name_find(module, name)) == NULL)
        return fr_fail(err, FR_USAGE,
                       "%s: offset %zu of its pickle names %.*s.%.*s, which no checkpoint "
                       "needs: refused, nothing of it was run",
                       m->p->file, m->op_at, (int)(module.n < 200 ? module.n : 200), module.p,
                       (int)(name.n < 200 ? name.n : 200), name.p);
    return push_value(m, &(struct tr_pv){.kind = TR_PV_NAME, .name = known}, err);
}

static enum fr_rc call(struct machine *m, struct fr_err *err)
{
    struct built *args = pop(m), *f = args != NULL ? pop(m) : NULL;
    struct fr_err why = {0};
    struct tr_pv out;
    enum fr_rc rc;

    if (f == NULL || f->v.kind != TR_PV_NAME || args->v.kind != TR_PV_TUPLE)
        return bad(m, "a call of what is no name", err);
    if ((rc = tr_pickle_call(m->p, f->v.name, &args->v, &out, &why)) != FR_OK) {
        (void)bad(m, why.msg, err);
        return err != NULL ? err->rc = rc : rc;
    }
    return push_value(m, &out, err);
}

static enum fr_rc storage(struct machine *m, struct fr_err *err)
{
    struct built *id = pop(m);
    struct fr_err why = {0};
    struct tr_pv out;

    if (id == NULL)
        return bad(m, "its stack is empty", err);
    if (tr_pickle_storage(&id->v, &out, &why) != FR_OK)
        return bad(m, why.msg, err);
    return push_value(m, &out, err);
}

static enum fr_rc whole(struct machine *m, int64_t x, struct fr_err *err)
{
    return push_value(m, &(struct tr_pv){.kind = TR_PV_INT, .number = x}, err);
}

/* LONG1: bytes of a number, least first, with the sign of the last one. */
static enum fr_rc long_number(struct machine *m, struct fr_err *err)
{
    uint64_t n, x = 0;
    const unsigned char *p;

    if (!number(m, 1, &n) || (p = take(m, (size_t)n)) == NULL)
        return bad(m, "it ends within a number", err);
    if (n > 8)
        return bad(m, "a number of more than 64 bits", err);
    for (uint64_t i = 0; i < n; i++)
        x |= (uint64_t)p[i] << (8 * i);
    if (n > 0 && n < 8 && p[n - 1] >= 0x80)
        x |= UINT64_MAX << (8 * n);
    return whole(m, (int64_t)x, err);
}

static enum fr_rc real(struct machine *m, struct fr_err *err)
{
    const unsigned char *p = take(m, 8);
    uint64_t bits = 0;
    struct tr_pv v = {.kind = TR_PV_FLOAT};

    if (p == NULL)
        return bad(m, "it ends within a number", err);
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | p[i];
    memcpy(&v.real, &bits, sizeof(bits));
    return push_value(m, &v, err);
}

static enum fr_rc text(struct machine *m, int length_bytes, struct fr_err *err)
{
    uint64_t n;
    const unsigned char *p;
    struct tr_pv v = {.kind = TR_PV_TEXT};

    if (!number(m, length_bytes, &n) || (p = take(m, (size_t)n)) == NULL)
        return bad(m, "it ends within a text", err);
    if ((v.text.p = fr_arena_text(m->p->arena, (const char *)p, (size_t)n)) == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %s", m->p->file);
    v.text.n = (size_t)n;
    return push_value(m, &v, err);
}

/* Opcodes that take numbers from the pickle; *known: it is one. */
static enum fr_rc step_number(struct machine *m, unsigned char op, bool *known, struct fr_err *err)
{
    uint64_t x;
    int bytes = op == 'M' ? 2 : op == 'J' || op == 'r' || op == 'j' ? 4 : 1;

    *known = strchr("JKMqrhj\x80", op) != NULL;
    if (!*known)
        return FR_OK;
    if (!number(m, bytes, &x))
        return bad(m, "it ends within a number", err);
    switch (op) {
    case 0x80: /* PROTO */
        return x == 2 ? FR_OK : bad(m, "no pickle of protocol 2", err);
    case 'J': /* BININT */
        return whole(m, (int32_t)(uint32_t)x, err);
    case 'q': /* BINPUT, LONG_BINPUT */
    case 'r':
        return put(m, x, err);
    case 'h': /* BINGET, LONG_BINGET */
    case 'j':
        return x < m->memo_n ? push(m, m->memo[x], err) : bad(m, "a memo that is not there", err);
    default: /* BININT1, BININT2 */
        return whole(m, (int64_t)x, err);
    }
}

/* Opcodes of containers; *known: it is one. */
static enum fr_rc step_container(struct machine *m, unsigned char op, bool *known,
                                 struct fr_err *err)
{
    size_t n = 0;

    *known = true;
    if (strchr("teu", op) != NULL && !unmark(m, &n))
        return bad(m, "a mark is missing", err);
    switch (op) {
    case '}': /* EMPTY_DICT, EMPTY_LIST, EMPTY_TUPLE */
        return push_value(m, &(struct tr_pv){.kind = TR_PV_DICT}, err);
    case ']':
        return push_value(m, &(struct tr_pv){.kind = TR_PV_LIST}, err);
    case ')':
        return tuple(m, 0, err);
    case '(': /* MARK */
        if (m->nmarks == MARKS_MAX)
            return bad(m, "it is nested too deep", err);
        m->marks[m->nmarks++] = m->n;
        return FR_OK;
    case 't': /* TUPLE, TUPLE1, TUPLE2, TUPLE3 */
        return tuple(m, n, err);
    case 0x85:
    case 0x86:
    case 0x87:
        return tuple(m, (size_t)op - 0x84, err);
    case 'a': /* APPEND, APPENDS */
        return into(m, 1, TR_PV_LIST, err);
    case 'e':
        return into(m, n, TR_PV_LIST, err);
    case 's': /* SETITEM, SETITEMS */
        return into(m, 2, TR_PV_DICT, err);
    case 'u':
        return into(m, n, TR_PV_DICT, err);
    default:
        *known = false;
        return FR_OK;
    }
}

static enum fr_rc step(struct machine *m, struct fr_err *err)
{
    const unsigned char *p;
    bool known;
    enum fr_rc rc;

    m->op_at = m->at;
    if ((p = take(m, 1)) == NULL)
        return bad(m, "it ends before its end", err);
    if (*p != 0 && ((rc = step_number(m, *p, &known, err)) != FR_OK || known))
        return rc;
    if (*p != 0 && ((rc = step_container(m, *p, &known, err)) != FR_OK || known))
        return rc;
    switch (*p) {
    case 'N': /* NONE */
        return push_value(m, &(struct tr_pv){.kind = TR_PV_NONE}, err);
    case 0x88: /* NEWTRUE, NEWFALSE */
    case 0x89:
        return push_value(m, &(struct tr_pv){.kind = TR_PV_BOOL, .number = *p == 0x88}, err);
    case 'G': /* BINFLOAT */
        return real(m, err);
    case 0x8a: /* LONG1 */
        return long_number(m, err);
    case 'X': /* BINUNICODE */
        return text(m, 4, err);
    case 'c': /* GLOBAL */
        return global(m, err);
    case 'R':  /* REDUCE */
    case 0x81: /* NEWOBJ */
        return call(m, err);
    case 'Q': /* BINPERSID */
        return storage(m, err);
    case 'b': /* BUILD: state of an object, which nothing here asks for */
        return pop(m) != NULL && m->n > floor_of(m) ? FR_OK : bad(m, "its stack is empty", err);
    case '.': /* STOP */
        m->stopped = true;
        return m->n == 1 && m->nmarks == 0 ? FR_OK : bad(m, "it ends with values left", err);
    default:
        return bad(m, "an opcode that torch.save does not write", err);
    }
}

enum fr_rc tr_pickle_read(const struct tr_pickle *p, const struct tr_pv **out, struct fr_err *err)
{
    struct machine *m = fr_sys.alloc(sizeof(*m));
    enum fr_rc rc = FR_OK;

    *out = NULL;
    if (m == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for %s", p->file);
    memset(m, 0, sizeof(*m));
    m->p = p;
    while (rc == FR_OK && !m->stopped)
        rc = step(m, err);
    if (rc == FR_OK)
        *out = &m->stack[0]->v;
    fr_sys.free(m->stack);
    fr_sys.free(m->memo);
    fr_sys.free(m);
    return rc;
}

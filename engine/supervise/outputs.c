#include "engine/supervise/outputs.h"

#include "engine/base/sys.h"
#include "engine/wire/wire.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum { NAMES_MAX = 1000 };

struct parser {
    struct fr_str text;
    size_t at;
    int line; /* of the last one taken */
    const struct fr_strs *declared;
    struct fr_arena *arena;
    struct fr_strs *out;
    struct fr_err *err;
};

static bool next_line(struct parser *p, struct fr_str *line)
{
    if (p->at >= p->text.n)
        return false;
    const char *start = p->text.p + p->at, *nl = memchr(start, '\n', p->text.n - p->at);
    size_t n = nl != NULL ? (size_t)(nl - start) : p->text.n - p->at;
    *line = (struct fr_str){start, n};
    p->at += n + 1;
    p->line++;
    return true;
}

static bool is_name(struct fr_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (!(isalpha(c) || c == '_' || (i > 0 && (isdigit(c) || c == '-'))))
            return false;
    }
    return s.n > 0 && s.n <= 200;
}

static bool is_declared(const struct parser *p, struct fr_str name)
{
    for (size_t i = 0; i < p->declared->n; i++)
        if (fr_str_eq(p->declared->v[i], name))
            return true;
    return p->declared->n == 0; /* then none_declared() names all of them */
}

/* The task writes outputs, and its pipeline declares none: names the line to add. */
static enum fr_rc none_declared(const struct parser *p)
{
    struct fr_buf names = {0};
    enum fr_rc rc;

    for (size_t i = 0; i < p->out->n; i++) {
        struct fr_str kv = p->out->v[i];
        const char *eq = memchr(kv.p, '=', kv.n);
        fr_buf_fmt(&names, "%s%.*s", i > 0 ? ", " : "", (int)(eq - kv.p), kv.p);
    }
    rc = fr_fail(
        p->err, FR_USAGE,
        "FLOWRUN_OUTPUT: the task declares no outputs: add the line \"outputs: [%s]\" to it",
        names.p != NULL ? names.p : "");
    fr_buf_finish(&names);
    return rc;
}

static enum fr_rc keep(struct parser *p, int line, struct fr_str name, struct fr_str value)
{
    size_t i;

    if (!is_declared(p, name))
        return fr_fail(
            p->err, FR_USAGE,
            "FLOWRUN_OUTPUT:%d: output \"%.*s\" is not declared: add it to the task's outputs",
            line, (int)name.n, name.p);
    if (value.n > FR_OUTPUT_VALUE_MAX)
        return fr_fail(p->err, FR_USAGE, "FLOWRUN_OUTPUT:%d: %.*s has %zu bytes, more than %d",
                       line, (int)name.n, name.p, value.n, (int)FR_OUTPUT_VALUE_MAX);
    if (!fr_utf8_valid(value.p, value.n) || memchr(value.p, '\0', value.n) != NULL)
        return fr_fail(p->err, FR_USAGE, "FLOWRUN_OUTPUT:%d: %.*s is not UTF-8 text", line,
                       (int)name.n, name.p);
    char *kv = fr_arena_fmt(p->arena, "%.*s=%.*s", (int)name.n, name.p, (int)value.n, value.p);
    if (kv == NULL)
        return fr_fail(p->err, FR_NOMEM, "no memory for outputs");
    for (i = 0; i < p->out->n; i++)
        if (p->out->v[i].n > name.n && memcmp(p->out->v[i].p, kv, name.n + 1) == 0)
            break;
    if (i == NAMES_MAX)
        return fr_fail(p->err, FR_USAGE, "FLOWRUN_OUTPUT:%d: more than %d outputs", line,
                       NAMES_MAX);
    p->out->v[i] = (struct fr_str){kv, name.n + 1 + value.n};
    p->out->n += i == p->out->n;
    return FR_OK;
}

/* The lines up to one that is just end, joined as they stand. */
static enum fr_rc take_block(struct parser *p, struct fr_str name, struct fr_str end)
{
    struct fr_str line;
    int first = p->line;
    size_t start = p->at;

    while (next_line(p, &line)) {
        if (!fr_str_eq(line, end))
            continue;
        size_t n = (size_t)(line.p - (p->text.p + start));
        return keep(p, first, name, (struct fr_str){p->text.p + start, n > 0 ? n - 1 : 0});
    }
    return fr_fail(p->err, FR_USAGE, "FLOWRUN_OUTPUT:%d: %.*s<<%.*s has no line \"%.*s\" behind it",
                   first, (int)name.n, name.p, (int)end.n, end.p, (int)end.n, end.p);
}

static enum fr_rc take_line(struct parser *p, struct fr_str line)
{
    const char *eq = memchr(line.p, '=', line.n), *block = memmem(line.p, line.n, "<<", 2);
    bool is_block = block != NULL && (eq == NULL || block < eq);
    size_t n = is_block ? (size_t)(block - line.p) : eq != NULL ? (size_t)(eq - line.p) : line.n;
    struct fr_str name = {line.p, n};

    if ((!is_block && eq == NULL) || !is_name(name))
        return fr_fail(p->err, FR_USAGE, "FLOWRUN_OUTPUT:%d: expected NAME=VALUE or NAME<<END",
                       p->line);
    if (!is_block)
        return keep(p, p->line, name, (struct fr_str){eq + 1, line.n - n - 1});
    struct fr_str end = {block + 2, line.n - n - 2};
    if (end.n == 0)
        return fr_fail(p->err, FR_USAGE, "FLOWRUN_OUTPUT:%d: no word behind <<", p->line);
    return take_block(p, name, end);
}

enum fr_rc fr_outputs_parse(struct fr_str text, const struct fr_strs *declared,
                            struct fr_arena *arena, struct fr_strs *out, struct fr_err *err)
{
    struct parser p = {text, 0, 0, declared, arena, out, err};
    struct fr_str line;
    enum fr_rc rc = FR_OK;

    *out = (struct fr_strs){fr_arena_array(arena, NAMES_MAX, sizeof(struct fr_str)), 0};
    if (out->v == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for outputs");
    while (rc == FR_OK && next_line(&p, &line))
        if (line.n > 0)
            rc = take_line(&p, line);
    if (rc == FR_OK && declared->n == 0 && out->n > 0)
        rc = none_declared(&p);
    return rc;
}

enum fr_rc fr_outputs_read(const char *path, struct fr_buf *text, struct fr_err *err)
{
    struct stat st;
    char piece[4096];
    ssize_t k = 0;
    enum fr_rc rc = FR_OK;
    int fd = fr_sys.open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);

    if (fd < 0)
        return errno == ENOENT ? FR_OK
                               : fr_fail_errno(err, errno, "cannot read the outputs %s", path);
    if (fr_sys.fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        rc = fr_fail(err, FR_USAGE, "the outputs %s are not a regular file", path);
    while (rc == FR_OK && text->n <= FR_OUTPUTS_MAX &&
           (k = fr_sys.read(fd, piece, sizeof(piece))) != 0)
        if (k > 0)
            fr_buf_add(text, piece, (size_t)k);
        else if (errno != EINTR)
            rc = fr_fail_errno(err, errno, "cannot read the outputs %s", path);
    fr_sys.close(fd);
    if (rc == FR_OK && text->bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for outputs");
    if (rc == FR_OK && text->n > FR_OUTPUTS_MAX)
        rc = fr_fail(err, FR_USAGE, "the outputs have more than %d bytes", (int)FR_OUTPUTS_MAX);
    return rc;
}

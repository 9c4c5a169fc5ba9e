#include "engine/base/man.h"

#include <string.h>

/* The code point that begins at p, and its length in UTF-8. */
static unsigned code_point(const char *p, size_t *n)
{
    const unsigned char *u = (const unsigned char *)p;
    unsigned code = u[0] & (0x7fu >> (u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : 2));

    *n = u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : 2;
    for (size_t i = 1; i < *n; i++)
        code = code << 6 | (u[i] & 0x3fu);
    return code;
}

/* Text that troff(1) shows as it is: no request, no escape, the hyphens and quotes of ASCII. */
static void put(struct fr_buf *out, const char *text, size_t len)
{
    bool first = out->n == 0 || out->p[out->n - 1] == '\n';

    for (size_t i = 0, n; i < len; i += n, first = false) {
        char c = text[i];

        n = 1;
        if (first && (c == '.' || c == '\''))
            fr_buf_text(out, "\\&");
        if (c == '\\')
            fr_buf_text(out, "\\e");
        else if (c == '-')
            fr_buf_text(out, "\\-");
        else if (c == '\'')
            fr_buf_text(out, "\\(aq");
        else if (c == '`')
            fr_buf_text(out, "\\(ga");
        else if (c == '^')
            fr_buf_text(out, "\\(ha");
        else if (c == '~')
            fr_buf_text(out, "\\(ti");
        else if ((unsigned char)c >= 0xc0)
            fr_buf_fmt(out, "\\[u%04X]", code_point(text + i, &n));
        else
            fr_buf_add(out, &c, 1);
    }
}

void fr_man_begin(struct fr_buf *out, const char *program, const char *version, const char *what)
{
    fr_buf_text(out, ".TH ");
    for (const char *p = program; *p != '\0'; p++)
        fr_buf_fmt(out, "%c", *p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
    /* No date: the page of one tree has the same bytes on any day. */
    fr_buf_fmt(out, " 1 \"\" \"flowrun %s\" \"User Commands\"\n", version);
    fr_man_section(out, "NAME");
    put(out, program, strlen(program));
    fr_buf_text(out, " \\- ");
    put(out, what, strlen(what));
    fr_buf_text(out, "\n");
}

void fr_man_section(struct fr_buf *out, const char *title)
{
    fr_buf_fmt(out, ".SH %s\n", title);
}

void fr_man_part(struct fr_buf *out, const char *title)
{
    fr_buf_text(out, ".SS ");
    put(out, title, strlen(title));
    fr_buf_text(out, "\n");
}

/* Begins a paragraph, unless a heading or another one has just begun. */
static void paragraph(struct fr_buf *out)
{
    size_t at = out->n > 0 ? out->n - 1 : 0;

    while (!out->bad && at > 0 && out->p[at - 1] != '\n')
        at--;
    if (!out->bad && strncmp(out->p + at, ".SH", 3) != 0 && strncmp(out->p + at, ".SS", 3) != 0 &&
        strncmp(out->p + at, ".PP", 3) != 0)
        fr_buf_text(out, ".PP\n");
}

void fr_man_text(struct fr_buf *out, const char *text)
{
    bool kept = false;

    paragraph(out);
    for (const char *p = text; *p != '\0';) {
        size_t n = strcspn(p, "\n");
        bool keep = p[0] == ' ';

        if (kept && !keep)
            fr_buf_text(out, ".fi\n");
        if (n == 0 || keep != kept)
            paragraph(out);
        if (keep && !kept)
            fr_buf_text(out, ".nf\n");
        kept = keep;
        if (n > 0) {
            put(out, p, n);
            fr_buf_text(out, "\n");
        }
        p += n + (p[n] == '\n');
    }
    if (kept)
        fr_buf_text(out, ".fi\n");
}

void fr_man_entry(struct fr_buf *out, const char *words, const char *args, const char *meaning)
{
    fr_buf_text(out, ".TP\n\\fB");
    put(out, words, strlen(words));
    fr_buf_text(out, "\\fR");
    if (args[0] != '\0')
        fr_buf_text(out, " ");
    put(out, args, strlen(args));
    fr_buf_text(out, "\n");
    put(out, meaning, strlen(meaning));
    fr_buf_text(out, "\n");
}

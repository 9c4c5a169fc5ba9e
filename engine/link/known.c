/* known_hosts files, line by line: sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT". */
#include "engine/link/ssh.h"

#include "engine/base/file.h"

#include <ctype.h>
#include <string.h>

enum { KNOWN_MAX = 64 << 20 };

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool names_host(struct fr_str patterns, const char *host)
{
    bool fits = false;

    while (patterns.n > 0) {
        const char *comma = memchr(patterns.p, ',', patterns.n);
        size_t n = comma == NULL ? patterns.n : (size_t)(comma - patterns.p);
        bool negated = patterns.p[0] == '!';

        if (fr_star_match((struct fr_str){patterns.p + negated, n - negated}, host, true)) {
            if (negated)
                return false;
            fits = true;
        }
        n += comma != NULL;
        patterns = (struct fr_str){patterns.p + n, patterns.n - n};
    }
    return fits;
}

/* "|1|SALT|HASH" and a blank: libssh2 1.10 leaks memory over a hash that is not as long as a SHA-1.
 */
static bool hash_whole(const char *line, size_t n)
{
    static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    enum { DIGITS = 27 };
    const char *hash = n > 3 && memcmp(line, "|1|", 3) == 0 ? memchr(line + 3, '|', n - 3) : NULL;

    if (hash == NULL || (size_t)(line + n - hash) < DIGITS + 3)
        return false;
    for (int i = 1; i <= DIGITS; i++)
        if (hash[i] == '\0' || strchr(base64, hash[i]) == NULL)
            return false;
    return hash[DIGITS + 1] == '=' && is_blank(hash[DIGITS + 2]);
}

/* Whether one of the names at the start of a line matches the host; *as is that name. libssh2
 * compares hashed names: *as is NULL for them. */
static bool line_fits(const struct fr_ssh_conf *c, struct fr_str names, const char **as)
{
    *as = NULL;
    if (names.n > 0 && names.p[0] == '|')
        return true;
    if (names_host(names, c->name))
        *as = c->name;
    else if (names_host(names, c->alias))
        *as = c->alias;
    return *as != NULL;
}

/* Removes the marker and the blanks after it from a line. */
static bool take_marker(struct fr_str *line, const char *marker)
{
    size_t n = strlen(marker);

    if (line->n <= n || memcmp(line->p, marker, n) != 0 || !is_blank(line->p[n]))
        return false;
    for (; n < line->n && is_blank(line->p[n]); n++)
        ;
    *line = (struct fr_str){line->p + n, line->n - n};
    return true;
}

static struct fr_str names_of(struct fr_str line)
{
    size_t n = 0;

    for (; n < line.n && !is_blank(line.p[n]) && line.p[n] != '\n'; n++)
        ;
    return (struct fr_str){line.p, n};
}

/* Adds one line, newline included: without it libssh2 takes the last byte of the key for it.
 * libssh2 knows no patterns, so a matching line is added with the name of the host itself. Hashed
 * names stay as they are. Blanks may be tabs, and one becomes a space. */
static void known_line(struct fr_ssh *s, struct fr_str line)
{
    LIBSSH2_KNOWNHOSTS *to = take_marker(&line, "@revoked") ? s->revoked : s->known;
    struct fr_str names = names_of(line);
    struct fr_buf b = {0};
    const char *as;

    if (names.n == 0 || line.p[0] == '@' || line.p[0] == '#' || !is_blank(line.p[names.n]))
        return;
    if (line.p[0] == '|' && !hash_whole(line.p, line.n))
        return;
    if (!line_fits(s->conf, names, &as))
        return;
    fr_buf_add(&b, as != NULL ? as : names.p, as != NULL ? strlen(as) : names.n);
    for (size_t i = names.n; i < line.n; i++)
        fr_buf_add(&b, line.p[i] == '\t' ? " " : &line.p[i], 1);
    if (!b.bad)
        libssh2_knownhost_readline(to, b.p, b.n, LIBSSH2_KNOWNHOST_FILE_OPENSSH);
    fr_buf_finish(&b);
}

/* Line by line: a line that libssh2 does not know must not hide the others. */
void fr_ssh_read_known(struct fr_ssh *s, const char *path)
{
    struct fr_buf text = {0};
    const char *line, *end;

    if (fr_file_read_soon(path, KNOWN_MAX, &text, NULL) == FR_OK) {
        fr_buf_text(&text, "\n");
        for (line = text.p; !text.bad; line = end + 1) {
            if ((end = memchr(line, '\n', (size_t)(text.p + text.n - line))) == NULL)
                break;
            while (is_blank(*line))
                line++;
            known_line(s, (struct fr_str){line, (size_t)(end - line) + 1});
        }
    } /* a file that is not there holds no host */
    fr_buf_finish(&text);
}

const char *fr_known_needs_ssh(const struct fr_ssh_conf *c, const char *path,
                               struct fr_arena *arena)
{
    static const char mark[] = "@cert-authority";
    struct fr_buf text = {0};
    const char *out = NULL, *as;
    size_t number = 1;

    if (fr_file_read_soon(path, KNOWN_MAX, &text, NULL) != FR_OK)
        text.n = 0;
    for (const char *p = text.p, *end; out == NULL && p != NULL && p < text.p + text.n;
         p = end + 1, number++) {
        struct fr_str line;

        end = p + strcspn(p, "\n");
        p += strspn(p, " \t");
        line = (struct fr_str){p, (size_t)(end - p)};
        if (take_marker(&line, mark) && line_fits(c, names_of(line), &as))
            out = fr_arena_fmt(arena, "%s in %s line %zu", mark, path, number);
    }
    fr_buf_finish(&text);
    return out;
}

#include "engine/slurm/fields.h"

#include "engine/schedule/calendar.h"

#include <string.h>

enum { QUOTED = 100, SECOND_MS = 1000 };

struct fr_str fr_field_trimmed(struct fr_str s)
{
    while (s.n > 0 && strchr(" \t\r\n", s.p[s.n - 1]) != NULL)
        s.n--;
    while (s.n > 0 && (*s.p == ' ' || *s.p == '\t')) {
        s.p++;
        s.n--;
    }
    return s;
}

bool fr_field_only(struct fr_str s, const char *characters)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] == '\0' || strchr(characters, s.p[i]) == NULL)
            return false;
    return s.n > 0;
}

bool fr_fields(struct fr_str line, struct fr_str *f, size_t n)
{
    for (; n > 1; n--, f++) {
        const char *bar = line.n > 0 ? memchr(line.p, '|', line.n) : NULL;

        if (bar == NULL)
            return false;
        *f = (struct fr_str){line.p, (size_t)(bar - line.p)};
        line = (struct fr_str){bar + 1, line.n - f->n - 1};
    }
    *f = line;
    return true;
}

bool fr_field_number(struct fr_str s, int64_t *n)
{
    return fr_field_only(s, FR_DIGITS) && fr_parse_i64(s, n, NULL) == FR_OK;
}

bool fr_field_time(struct fr_str s, int64_t *wall)
{
    struct fr_when when;

    *wall = 0;
    if (s.n == 0 || *s.p < '0' || *s.p > '9')
        return true;
    if (fr_when_parse(s, &when, NULL) != FR_OK)
        return false;
    *wall = when.s * SECOND_MS;
    return true;
}

bool fr_field_tag(struct fr_str name, char tag[FR_SLURM_TAG + 1])
{
    if (name.n != 3 + FR_SLURM_TAG || memcmp(name.p, "fr-", 3) != 0 ||
        !fr_field_only((struct fr_str){name.p + 3, FR_SLURM_TAG}, FR_DIGITS "abcdef"))
        return false;
    memcpy(tag, name.p + 3, FR_SLURM_TAG);
    tag[FR_SLURM_TAG] = '\0';
    return true;
}

bool fr_field_job(struct fr_str s, int64_t *job, int64_t *element)
{
    const char *bar = s.n > 0 ? memchr(s.p, '_', s.n) : NULL;
    struct fr_str index = {0};

    *element = 0;
    if (bar != NULL) {
        index = (struct fr_str){bar + 1, s.n - (size_t)(bar + 1 - s.p)};
        s.n = (size_t)(bar - s.p);
        if (index.n > FR_SLURM_INDEX || !fr_field_number(index, element))
            return false;
        ++*element;
    }
    return fr_field_number(s, job) && *job > 0;
}

enum fr_rc fr_fields_refuse(struct fr_err *err, const char *program, struct fr_str line)
{
    return fr_fail(err, FR_CORRUPT, "%s printed '%.*s%s'", program,
                   (int)(line.n < QUOTED ? line.n : QUOTED), line.n > 0 ? line.p : "",
                   line.n < QUOTED ? "" : "…");
}

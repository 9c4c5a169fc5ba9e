#include "trainer/dataset/answers.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_number(const char *p)
{
    char *end;

    while (isspace((unsigned char)*p))
        p++;
    if (*p == '\0' || strpbrk(p, "xX(") != NULL)
        return false;
    (void)strtod(p, &end);
    while (isspace((unsigned char)*end))
        end++;
    return *end == '\0' && end > p;
}

static bool is_bool(const char *p)
{
    return strcasecmp(p, "true") == 0 || strcasecmp(p, "false") == 0;
}

/* Whether p begins as form does, where 0 is any digit; what follows then. */
static const char *follows(const char *p, const char *form)
{
    for (; *form != '\0'; form++, p++)
        if (*form == '0' ? !isdigit((unsigned char)*p) : *p != *form)
            return NULL;
    return p;
}

static bool is_zone(const char *p)
{
    static const char *const forms[] = {"00:00", "0000", "00"};

    if (*p == '\0' || strcmp(p, "Z") == 0)
        return true;
    for (size_t i = 0; (*p == '+' || *p == '-') && i < 3; i++) {
        const char *end = follows(p + 1, forms[i]);
        if (end != NULL && *end == '\0')
            return true;
    }
    return false;
}

/* A date, and a time after T or a blank down to hours, minutes or seconds. */
static bool is_time(const char *p)
{
    const char *more;

    if ((p = follows(p, "0000-00-00")) == NULL)
        return false;
    if (*p == '\0')
        return true;
    if ((*p != 'T' && *p != ' ') || (p = follows(p + 1, "00")) == NULL)
        return false;
    for (int i = 0; i < 2 && (more = follows(p, ":00")) != NULL; i++)
        p = more;
    return is_zone(p);
}

void tr_answers_note(struct tr_answers *a, bool csv, const json_t *answer)
{
    const char *text = json_string_value(answer);

    if (text == NULL || text[0] == '\0') {
        if (answer != NULL && !json_is_null(answer) && text == NULL)
            a->no_number = a->no_bool = a->no_time = true; /* it has a type of its own */
        return;
    }
    a->seen++;
    a->no_number = a->no_number || !csv || !is_number(text);
    a->no_bool = a->no_bool || !csv || !is_bool(text);
    a->no_time = a->no_time || csv || !is_time(text);
}

const char *tr_answers_are(const struct tr_answers *a)
{
    return a->seen == 0    ? NULL
           : !a->no_number ? "numbers"
           : !a->no_bool   ? "true and false"
           : !a->no_time   ? "dates and times"
                           : NULL;
}

/* The query of a request: its valid names and words. */
#include "engine/answer/routes.h"

const char *query_text(const struct call *c, const char *name)
{
    for (size_t i = 0; i < c->req->n_query; i++)
        if (strcmp(c->req->query[i].name, name) == 0)
            return c->req->query[i].value;
    return NULL;
}

enum fr_rc query_number(const struct call *c, const char *name, int64_t usual, int64_t *out,
                        struct fr_err *err)
{
    const char *text = query_text(c, name);

    *out = usual;
    if (text == NULL)
        return FR_OK;
    if (fr_parse_i64(fr_str_of(text), out, NULL) != FR_OK || *out < 0)
        return fr_fail(err, FR_USAGE, "'%s' must be a whole number, not '%s'", name, text);
    return FR_OK;
}

enum fr_rc query_range(const struct call *c, const char *name, struct query_range range,
                       int64_t *out, struct fr_err *err)
{
    enum fr_rc rc = query_number(c, name, range.usual, out, err);

    return rc == FR_OK && (*out < range.least || *out > range.most)
               ? fr_fail(err, FR_USAGE, "'%s' must be %d to %d", name, range.least, range.most)
               : rc;
}

static enum fr_rc check_choice(const struct choice *choice, const char *value, struct fr_err *err)
{
    struct fr_buf list = {0};
    enum fr_rc rc;

    if (fr_word_in(choice->words, value) || (choice->filter && value[0] == '\0'))
        return FR_OK;
    fr_buf_words(&list, choice->words);
    rc = list.bad
             ? fr_fail(err, FR_NOMEM, "no memory for a request")
             : fr_fail(err, FR_USAGE, "'%s' must be %s, not '%s'", choice->name, list.p, value);
    fr_buf_finish(&list);
    return rc;
}

enum fr_rc query_check(const struct call *c, const struct route *route, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    for (size_t i = 0; i < c->req->n_query && route->query[0] != '*'; i++) {
        const char *name = c->req->query[i].name;

        if (!fr_word_in(route->query, name))
            return fr_fail(err, FR_USAGE, "there is no parameter '%s' here%s%s", name,
                           route->query[0] != '\0' ? ", but: " : "", route->query);
        if (query_text(c, name) != c->req->query[i].value)
            return fr_fail(err, FR_USAGE, "the parameter '%s' comes twice", name);
    }
    for (size_t i = 0; rc == FR_OK && i < CHOICES_MOST && route->choices[i].name != NULL; i++) {
        const char *value = query_text(c, route->choices[i].name);

        if (value != NULL)
            rc = check_choice(&route->choices[i], value, err);
    }
    return rc;
}

#include "trainer/template/template.h"

#include "engine/base/sys.h"
#include "trainer/template/template_row.h"

#include <string.h>

enum { MOST = 128 };

enum fr_rc tr_template_find(const char *name, const struct tr_template **out, struct fr_err *err)
{
    const char *names[MOST], *near;
    const struct tr_template *t;
    size_t n = 0;

    for (; n < MOST && (t = tr_template_row(n)) != NULL; n++) {
        names[n] = t->name;
        if (strcmp(names[n], name) == 0) {
            *out = t;
            return FR_OK;
        }
    }
    *out = NULL;
    near = fr_suggest(name, names, n);
    return fr_fail(err, FR_USAGE, "unknown template '%s'%s%s%s", name,
                   near != NULL ? ": did you mean '" : "", near != NULL ? near : "",
                   near != NULL ? "'?" : " (flowtrain help templates lists them)");
}

void tr_template_names(struct fr_buf *out)
{
    const struct tr_template *t;

    for (size_t i = 0; (t = tr_template_row(i)) != NULL; i++)
        fr_buf_fmt(out, "%s\n", t->name);
}

const char *tr_template_name(const struct tr_template *t)
{
    return t->name;
}

enum fr_rc tr_template_fix(const struct tr_template *t, struct tr_tokenizer *tok,
                           struct fr_err *err)
{
    bool replaces = t->stop != NULL && !t->keeps_eos;
    const char *eos = replaces ? t->stop : tr_tokenizer_eos(tok) < 0 ? "<|endoftext|>" : NULL;
    enum fr_rc rc = eos != NULL ? tr_tokenizer_set_eos(tok, eos, err) : FR_OK;

    if (rc == FR_OK && t->stop != NULL && !replaces)
        rc = tr_tokenizer_add(tok, t->stop, err);
    if (rc == FR_OK && t->stop_too != NULL)
        rc = tr_tokenizer_add(tok, t->stop_too, err);
    return rc == FR_OK ? rc : fr_while(err, "template '%s'", t->name);
}

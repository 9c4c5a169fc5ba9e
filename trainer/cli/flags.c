#include "trainer/cli/cli.h"

#include "engine/base/log.h"
#include "engine/base/str.h"

#include <stdio.h>
#include <string.h>

static const struct tr_flag *find(const struct tr_flags *f, const char *name, size_t n)
{
    for (size_t i = 0; i < f->n; i++) {
        const char *want = f->flags[i].name;
        size_t k = 0;

        while (k < n && want[k] != '\0' && (name[k] == '-' ? '_' : name[k]) == want[k])
            k++;
        if (k == n && want[k] == '\0')
            return &f->flags[i];
    }
    return NULL;
}

static enum fr_rc unknown(const struct tr_flags *f, const char *word, struct fr_err *err)
{
    const char *names[32], *near;
    size_t n = f->n < 32 ? f->n : 32;

    for (size_t i = 0; i < n; i++)
        names[i] = f->flags[i].name;
    near = fr_suggest(word + 2, names, n);
    return fr_fail(err, FR_USAGE, "unknown argument %s%s%s%s", word,
                   near != NULL ? ": did you mean --" : "", near != NULL ? near : "",
                   near != NULL ? "?" : "");
}

enum fr_rc tr_flags_read(struct tr_flags *f, int argc, const char *const *argv, struct fr_err *err)
{
    f->used = argc;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i], *eq = strchr(word, '=');
        bool plain = word[0] != '-' || word[1] != '-';
        if (f->leading && (plain || word[2] == '\0')) {
            f->used = plain ? i : i + 1;
            return FR_OK;
        }
        if (plain) {
            if (f->nrest == f->max_rest)
                return fr_fail(err, FR_USAGE, "'%s' was not expected", word);
            f->rest[f->nrest++] = word;
            continue;
        }
        size_t n = eq != NULL ? (size_t)(eq - word) - 2 : strlen(word) - 2;
        const struct tr_flag *flag = find(f, word + 2, n);
        if (flag == NULL)
            return unknown(f, word, err);
        if (flag->value == NULL) {
            if (eq != NULL)
                return fr_fail(err, FR_USAGE, "--%s takes no value", flag->name);
            (*flag->on)++;
            continue;
        }
        if (eq == NULL && i + 1 == argc)
            return fr_fail(err, FR_USAGE, "--%s needs a value", flag->name);
        if (flag->on != NULL && *flag->on == TR_FLAG_MANY)
            return fr_fail(err, FR_USAGE, "--%s is given more than %d times", flag->name,
                           TR_FLAG_MANY);
        const char **to = flag->value + (flag->on != NULL ? (*flag->on)++ : 0);
        *to = eq != NULL ? eq + 1 : argv[++i];
    }
    return FR_OK;
}

void tr_flags_help(const struct tr_flags *f, struct fr_buf *out)
{
    for (size_t i = 0; i < f->n; i++)
        fr_buf_fmt(out, "  --%-20s %s\n", f->flags[i].name, f->flags[i].help);
}

bool tr_wants_help(int argc, const char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

enum fr_rc tr_flags_print(const char *usage, const struct tr_flags *f, struct fr_err *err)
{
    struct fr_buf text = {0};

    fr_buf_fmt(&text, "%s\n\n", usage);
    tr_flags_help(f, &text);
    if (text.bad)
        return fr_fail(err, FR_NOMEM, "no memory for the help");
    fr_print("%s", text.p);
    fr_buf_finish(&text);
    return FR_OK;
}

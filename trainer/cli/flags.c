#include "trainer/cli/cli.h"

#include "engine/base/log.h"
#include "engine/base/str.h"
#include "trainer/cli/arg_map.h"

#include <stdio.h>
#include <string.h>

/* Where several begin with an abbreviation it stands for none. */
static const struct tr_flag *find(const struct tr_flags *f, const char *name, size_t n)
{
    const struct tr_flag *begins = NULL;
    size_t beginnings = 0;

    for (size_t i = 0; i < f->n; i++) {
        const char *want = f->flags[i].name;
        size_t k = 0;

        while (k < n && want[k] != '\0' && (name[k] == '-' ? '_' : name[k]) == want[k])
            k++;
        if (k == n && want[k] == '\0')
            return &f->flags[i];
        if (k == n) {
            begins = &f->flags[i];
            beginnings++;
        }
    }
    return f->shorts != NULL && beginnings == 1 ? begins : NULL;
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

/* A word that is no flag. */
static enum fr_rc take_plain(struct tr_flags *f, const char *word, struct fr_err *err)
{
    if (f->map != NULL && f->map->file != NULL)
        return tr_arg_map_word(f, word, err);
    if (f->nrest == f->max_rest)
        return fr_fail(err, FR_USAGE, "'%s' was not expected", word);
    f->rest[f->nrest++] = word;
    return FR_OK;
}

/* A switch at argv[*i]; where train's arguments are taken, true or false may follow, as there. */
static enum fr_rc take_switch(const struct tr_flag *flag, bool bools, const char *const *argv,
                              int *i, struct fr_err *err)
{
    const char *eq = strchr(argv[*i], '='), *value = NULL;
    const char *next = bools ? argv[*i + 1] : NULL; /* NULL behind the last word */
    bool yes = true;

    if (bools && eq != NULL)
        value = eq + 1;
    else if (next != NULL && (strcmp(next, "true") == 0 || strcmp(next, "false") == 0))
        value = argv[++*i];
    if (value != NULL && fr_parse_bool(fr_str_of(value), &yes, NULL) != FR_OK)
        return fr_fail(err, FR_USAGE, "--%s is '%s', expected true or false", flag->name, value);
    if (value == NULL && eq != NULL)
        return fr_fail(err, FR_USAGE, "--%s takes no value", flag->name);
    *flag->on = value != NULL ? yes : *flag->on + 1;
    return FR_OK;
}

/* One of the command's own that has a value, at argv[*i]. */
static enum fr_rc take_own(const struct tr_flag *flag, int argc, const char *const *argv, int *i,
                           struct fr_err *err)
{
    const char *eq = strchr(argv[*i], '=');

    if (eq == NULL && *i + 1 == argc)
        return fr_fail(err, FR_USAGE, "--%s needs a value", flag->name);
    if (flag->on != NULL && *flag->on == TR_FLAG_MANY)
        return fr_fail(err, FR_USAGE, "--%s is given more than %d times", flag->name, TR_FLAG_MANY);
    const char **to = flag->value + (flag->on != NULL ? (*flag->on)++ : 0);
    *to = eq != NULL ? eq + 1 : argv[++*i];
    return FR_OK;
}

/* A flag that f lacks: one of train's, or unknown. */
static enum fr_rc take_other(struct tr_flags *f, int argc, const char *const *argv, int *i,
                             struct fr_err *err)
{
    const char *word = argv[*i] + 2, *eq = strchr(word, '=');
    const struct tr_arg *arg = NULL;

    if (f->map != NULL)
        arg = tr_arg_find(word, eq != NULL ? (size_t)(eq - word) : strlen(word));
    if (arg == NULL)
        return unknown(f, argv[*i], err);
    if (eq == NULL && *i + 1 < argc && (argv[*i + 1][0] != '-' || argv[*i + 1][1] != '-'))
        return tr_arg_map_flag(f, arg, argv[++*i], err);
    return tr_arg_map_flag(f, arg, eq != NULL ? eq + 1 : NULL, err);
}

/* "-r 3", "-r3" or "-m" at argv[*i]; false: it is none. */
static bool take_short(const struct tr_flags *f, int argc, const char *const *argv, int *i,
                       enum fr_rc *rc, struct fr_err *err)
{
    const char *word = argv[*i];
    const struct tr_flag *flag = NULL;

    for (size_t k = 0; f->shorts != NULL && f->shorts[k] != NULL; k += 2)
        if (word[0] == '-' && word[1] == f->shorts[k][0])
            flag = find(f, f->shorts[k + 1], strlen(f->shorts[k + 1]));
    if (flag == NULL || (flag->value == NULL && word[2] != '\0'))
        return false;
    *rc = FR_OK;
    if (flag->value == NULL)
        (*flag->on)++;
    else if (word[2] != '\0')
        *flag->value = word + 2 + (word[2] == '=');
    else if (*i + 1 < argc)
        *flag->value = argv[++*i];
    else
        *rc = fr_fail(err, FR_USAGE, "%s needs a value", word);
    return true;
}

enum fr_rc tr_flags_read(struct tr_flags *f, int argc, const char *const *argv, struct fr_err *err)
{
    bool file = f->map != NULL && argc > 0 && tr_args_is_file(argv[0]);
    enum fr_rc rc = file ? tr_arg_map_file(f, argv[0], err) : FR_OK;

    f->used = argc;
    for (int i = file ? 1 : 0; i < argc && rc == FR_OK; i++) {
        const char *word = argv[i], *eq = strchr(word, '=');
        bool plain = word[0] != '-' || word[1] != '-';
        if (take_short(f, argc, argv, &i, &rc, err))
            continue;
        if (f->leading && (plain || word[2] == '\0')) {
            f->used = plain ? i : i + 1;
            return FR_OK;
        }
        if (plain) {
            rc = take_plain(f, word, err);
            continue;
        }
        const struct tr_flag *flag =
            find(f, word + 2, eq != NULL ? (size_t)(eq - word) - 2 : strlen(word) - 2);
        rc = flag == NULL          ? take_other(f, argc, argv, &i, err)
             : flag->value == NULL ? take_switch(flag, f->map != NULL, argv, &i, err)
                                   : take_own(flag, argc, argv, &i, err);
    }
    return rc;
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

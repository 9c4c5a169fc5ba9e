#include "trainer/cli/cli.h"

#include "engine/base/log.h"
#include "engine/base/str.h"
#include "trainer/cli/arg_map.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An ambiguous abbreviation matches no flag. */
static const struct tr_flag *find(const struct tr_command *c, const char *name, size_t n)
{
    const struct tr_flag *begins = NULL;
    size_t beginnings = 0;

    for (size_t i = 0; i < c->nflags; i++) {
        const char *want = c->flags[i].name;
        size_t k = 0;

        while (k < n && want[k] != '\0' && (name[k] == '-' ? '_' : name[k]) == want[k])
            k++;
        if (k == n && want[k] == '\0')
            return &c->flags[i];
        if (k == n) {
            begins = &c->flags[i];
            beginnings++;
        }
    }
    return c->shorts != NULL && beginnings == 1 ? begins : NULL;
}

static enum fr_rc unknown(const struct tr_command *c, const char *word, struct fr_err *err)
{
    const char *names[TR_FLAGS_MAX], *near;

    for (size_t i = 0; i < c->nflags; i++)
        names[i] = c->flags[i].name;
    near = fr_suggest(word + 2, names, c->nflags);
    return fr_fail(err, FR_USAGE, "unknown argument %s%s%s%s", word,
                   near != NULL ? ": did you mean --" : "", near != NULL ? near : "",
                   near != NULL ? "?" : "");
}

/* A word that is no flag. */
static enum fr_rc take_plain(struct tr_call *call, const char *word, struct fr_err *err)
{
    if (call->file != NULL)
        return tr_arg_map_word(call, word, err);
    if (call->nwords == (int)call->command->most_words)
        return fr_fail(err, FR_USAGE, "'%s' was not expected", word);
    call->plain[call->nwords++] = word;
    return FR_OK;
}

static const char **text_of(struct tr_call *call, const struct tr_flag *flag)
{
    return &call->text[flag - call->command->flags];
}

/* A switch at argv[*i]; where train's arguments are taken, true or false may follow, as there. */
static enum fr_rc take_switch(struct tr_call *call, const struct tr_flag *flag, int *i,
                              struct fr_err *err)
{
    bool bools = call->command->rules != NULL, yes = true;
    const char *eq = strchr(call->argv[*i], '='), *value = NULL;
    const char *next = bools ? call->argv[*i + 1] : NULL; /* NULL after the last word */

    if (bools && eq != NULL)
        value = eq + 1;
    else if (next != NULL && (strcmp(next, "true") == 0 || strcmp(next, "false") == 0))
        value = call->argv[++*i];
    if (value != NULL && fr_parse_bool(fr_str_of(value), &yes, NULL) != FR_OK)
        return fr_fail(err, FR_USAGE, "--%s is '%s', expected true or false", flag->name, value);
    if (value == NULL && eq != NULL)
        return fr_fail(err, FR_USAGE, "--%s takes no value", flag->name);
    *text_of(call, flag) = yes ? "true" : "false";
    return FR_OK;
}

/* One of the command's own flags with a value, at argv[*i]. */
static enum fr_rc take_own(struct tr_call *call, const struct tr_flag *flag, int *i,
                           struct fr_err *err)
{
    const char *eq = strchr(call->argv[*i], '=');
    struct tr_list *list = NULL;

    if (flag->kind == TR_LIST)
        list = (void *)((char *)call->options + flag->at);
    if (eq == NULL && *i + 1 == call->argc)
        return fr_fail(err, FR_USAGE, "--%s needs a value", flag->name);
    if (list != NULL && list->n == TR_FLAG_MANY)
        return fr_fail(err, FR_USAGE, "--%s is given more than %d times", flag->name, TR_FLAG_MANY);
    *(list != NULL ? &list->v[list->n++] : text_of(call, flag)) =
        eq != NULL ? eq + 1 : call->argv[++*i];
    return FR_OK;
}

/* A flag that the command lacks: one of train's, or unknown. */
static enum fr_rc take_other(struct tr_call *call, int *i, struct fr_err *err)
{
    const char *const *argv = call->argv;
    const char *word = argv[*i] + 2, *eq = strchr(word, '=');
    const struct tr_arg *arg = NULL;

    if (call->command->rules != NULL)
        arg = tr_arg_find(word, eq != NULL ? (size_t)(eq - word) : strlen(word));
    if (arg == NULL)
        return unknown(call->command, argv[*i], err);
    if (eq == NULL && *i + 1 < call->argc && (argv[*i + 1][0] != '-' || argv[*i + 1][1] != '-'))
        return tr_arg_map_flag(call, arg, argv[++*i], err);
    return tr_arg_map_flag(call, arg, eq != NULL ? eq + 1 : NULL, err);
}

/* "-r 3", "-r3" or "-m" at argv[*i]; false: it is none. */
static bool take_short(struct tr_call *call, int *i, enum fr_rc *rc, struct fr_err *err)
{
    const struct tr_command *c = call->command;
    const char *word = call->argv[*i];
    const struct tr_flag *flag = NULL;

    for (size_t k = 0; c->shorts != NULL && c->shorts[k] != NULL; k += 2)
        if (word[0] == '-' && word[1] == c->shorts[k][0])
            flag = find(c, c->shorts[k + 1], strlen(c->shorts[k + 1]));
    if (flag == NULL || (flag->kind == TR_SWITCH && word[2] != '\0'))
        return false;
    *rc = FR_OK;
    if (flag->kind == TR_SWITCH)
        *text_of(call, flag) = "true";
    else if (word[2] != '\0')
        *text_of(call, flag) = word + 2 + (word[2] == '=');
    else if (*i + 1 < call->argc)
        *text_of(call, flag) = call->argv[++*i];
    else
        *rc = fr_fail(err, FR_USAGE, "%s needs a value", word);
    return true;
}

static enum fr_rc read_words(struct tr_call *call, struct fr_err *err)
{
    const struct tr_command *c = call->command;
    bool file = c->rules != NULL && call->argc > 0 && tr_args_is_file(call->argv[0]);
    enum fr_rc rc = file ? tr_arg_map_file(call, call->argv[0], err) : FR_OK;

    for (int i = file ? 1 : 0; i < call->argc && rc == FR_OK; i++) {
        const char *word = call->argv[i], *eq = strchr(word, '=');
        bool plain = word[0] != '-' || word[1] != '-';

        if (take_short(call, &i, &rc, err))
            continue;
        if (c->leading && (plain || word[2] == '\0')) {
            call->words = call->argv + i + !plain;
            call->nwords = call->argc - i - !plain;
            return FR_OK;
        }
        if (plain) {
            rc = take_plain(call, word, err);
            continue;
        }
        const struct tr_flag *flag =
            find(c, word + 2, eq != NULL ? (size_t)(eq - word) - 2 : strlen(word) - 2);
        rc = flag == NULL              ? take_other(call, &i, err)
             : flag->kind == TR_SWITCH ? take_switch(call, flag, &i, err)
                                       : take_own(call, flag, &i, err);
    }
    return rc;
}

/* ---- values ---- */

/* The place of a word among words with blanks between; -1: none. */
static int place_of(const char *words, const char *word)
{
    size_t n = strlen(word);
    int place = 0;

    for (const char *at = words; *at != '\0'; place++) {
        size_t k = strcspn(at, " ");

        if (k == n && memcmp(at, word, n) == 0)
            return place;
        at += k + (at[k] == ' ');
    }
    return -1;
}

/* Words with blanks between as "a, b or c"; returns how many. */
static int list_words(const char *words, const char *dashes, const char *joint, char out[128])
{
    size_t n = 0;
    int count = 0;

    out[0] = '\0';
    for (const char *at = words; *at != '\0'; count++) {
        size_t k = strcspn(at, " ");
        bool last = at[k] == '\0';

        n += (size_t)snprintf(out + n, 128 - n, "%s%s%.*s",
                              count == 0 ? ""
                              : last     ? joint
                                         : ", ",
                              dashes, (int)k, at);
        at += k + !last;
    }
    return count;
}

static enum fr_rc refuse(const struct tr_flag *f, const char *text, struct fr_err *err)
{
    char want[128] = "true or false";

    if (f->kind == TR_POSITIVE)
        return fr_fail(err, FR_USAGE, "--%s %s: expected a number above 0, at most %g", f->name,
                       text, f->high);
    if (f->kind == TR_CHOICE)
        (void)list_words(f->choices, "", " or ", want);
    else if (f->kind == TR_INT)
        (void)snprintf(want, sizeof(want), "%lld to %lld", (long long)f->least, (long long)f->most);
    else if (f->kind == TR_REAL)
        (void)snprintf(want, sizeof(want), "%g to %g", f->low, f->high);
    else if (f->kind == TR_SIZE)
        (void)snprintf(want, sizeof(want), "a size as 5GB");
    return fr_fail(err, FR_USAGE, "--%s is '%s', expected %s", f->name, text, want);
}

static bool above_zero(const char *text, double most, double *out)
{
    char *end;

    *out = strtod(text, &end);
    return end != text && *end == '\0' && *out > 0 && *out <= most;
}

/* Converts text and stores it at to; false: text is not of the flag's kind. */
static bool set_value(const struct tr_flag *f, const char *text, void *to)
{
    struct fr_str s = fr_str_of(text);
    int64_t *whole = to;
    double *real = to;
    bool yes = false, good;

    switch (f->kind) {
    case TR_LIST: /* has them already */
        return true;
    case TR_TEXT:
        *(const char **)to = text;
        return true;
    case TR_SWITCH:
        return fr_parse_bool(s, to, NULL) == FR_OK;
    case TR_BOOL:
        good = fr_parse_bool(s, &yes, NULL) == FR_OK;
        *(int *)to = yes;
        return good;
    case TR_CHOICE:
        return (*(int *)to = place_of(f->choices, text)) >= 0;
    case TR_INT:
        return fr_parse_i64(s, whole, NULL) == FR_OK && *whole >= f->least && *whole <= f->most;
    case TR_REAL:
        return fr_parse_f64(s, real, NULL) == FR_OK && *real >= f->low && *real <= f->high;
    case TR_POSITIVE:
        return above_zero(text, f->high, real);
    case TR_SIZE:
        return fr_parse_size(s, whole, NULL) == FR_OK && *whole >= 1;
    }
    return false;
}

static enum fr_rc check_needs(const struct tr_call *call, struct fr_err *err)
{
    const struct tr_command *c = call->command;
    bool missing = false;
    char list[128];
    int n;

    if (c->needs == NULL)
        return FR_OK;
    for (size_t i = 0; i < c->nflags; i++)
        missing = missing || (call->text[i] == NULL && place_of(c->needs, c->flags[i].name) >= 0);
    n = list_words(c->needs, "--", " and ", list);
    return missing ? fr_fail(err, FR_USAGE, "%s %s", list, n > 1 ? "are needed" : "is missing")
                   : FR_OK;
}

static enum fr_rc set_options(struct tr_call *call, struct fr_err *err)
{
    const struct tr_command *c = call->command;
    enum fr_rc rc = check_needs(call, err);

    for (size_t i = 0; i < c->nflags && rc == FR_OK; i++) {
        const struct tr_flag *f = &c->flags[i];

        if (call->text[i] != NULL && f->at != TR_FLAG_NOWHERE &&
            !set_value(f, call->text[i], (char *)call->options + f->at))
            rc = refuse(f, call->text[i], err);
    }
    return rc;
}

/* ---- commands ---- */

void tr_command_help(const struct tr_command *c, struct fr_buf *out)
{
    fr_buf_text(out, c->usage);
    for (size_t i = 0; i < c->nflags; i++)
        if (c->flags[i].help != NULL)
            fr_buf_fmt(out, "  --%-20s %s\n", c->flags[i].name, c->flags[i].help);
    if (c->help != NULL)
        c->help(out);
}

static enum fr_rc print_help(const struct tr_command *c, struct fr_err *err)
{
    struct fr_buf text = {0};
    bool bad;

    tr_command_help(c, &text);
    if (!(bad = text.bad))
        fr_print("%s", text.p);
    fr_buf_finish(&text);
    return bad ? fr_fail(err, FR_NOMEM, "no memory for the help") : FR_OK;
}

/* Whether one of the words before "--" asks for help. */
static bool wants_help(int argc, const char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0 ||
            fr_has_prefix(argv[i], "--help="))
            return true;
    return false;
}

enum fr_rc tr_command_run(const struct tr_command *c, int argc, const char *const *argv,
                          struct fr_err *err)
{
    struct tr_call call = {.command = c, .argc = argc, .argv = argv, .nwords = argc, .words = argv};
    enum fr_rc rc = FR_OK;

    assert(c->nflags <= TR_FLAGS_MAX && c->most_words <= TR_WORDS_MAX);
    if (c->usage != NULL && wants_help(argc, argv))
        return print_help(c, err);
    if (c->flags != NULL) {
        call.nwords = 0;
        call.words = call.plain;
        if ((call.options = fr_arena_alloc(&call.arena, c->size)) == NULL)
            return fr_fail(err, FR_NOMEM, "no memory for the flags");
        memset(call.options, 0, c->size);
        if (c->initial != NULL)
            memcpy(call.options, c->initial, c->size);
        if ((rc = read_words(&call, err)) == FR_OK)
            rc = set_options(&call, err);
    }
    if (rc == FR_OK)
        rc = c->run(&call, err);
    fr_buf_finish(&call.notes);
    fr_arena_finish(&call.arena);
    return rc;
}

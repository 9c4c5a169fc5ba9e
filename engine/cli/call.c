/* Parses a command line by the command's row, and runs the command. */
#include "engine/cli/cli.h"

#include "engine/spec/config.h"

#include <assert.h>
#include <string.h>

/* ---- options ---- */

/* name has n bytes. */
static const struct cli_opt *find(const struct cli_command *cmd, const char *name, size_t n)
{
    for (const struct cli_opt *o = cmd->opts; o->name != NULL; o++)
        if (strlen(o->name) == n && memcmp(o->name, name, n) == 0)
            return o;
    return NULL;
}

const struct cli_opt *cli_option(const struct cli_command *cmd, const char *name)
{
    return find(cmd, name, strlen(name));
}

static const struct cli_opt *find_letter(const struct cli_command *cmd, char letter)
{
    for (const struct cli_opt *o = cmd->opts; o->name != NULL; o++)
        if (o->letter == letter)
            return o;
    return NULL;
}

static enum fr_rc unknown(const struct cli_command *cmd, const char *word, struct fr_err *err)
{
    const char *names[CLI_OPTS_MOST + 1] = {"--help"};
    const char *near;
    size_t n = 1;

    for (const struct cli_opt *o = cmd->opts; o->name != NULL; o++)
        if (o->help != NULL)
            names[n++] = o->name;
    near = fr_suggest(word, names, n);
    if (near != NULL)
        return fr_fail(err, FR_USAGE, "%s: there is no option '%s'; did you mean '%s'?", cmd->name,
                       word, near);
    return fr_fail(err, FR_USAGE, "%s: there is no option '%s'; 'flowrun help %s' lists them",
                   cmd->name, word, cmd->name);
}

/* Takes a word that begins with '-'. *i moves on if the next word is its value. */
static enum fr_rc take(struct cli_call *c, char **argv, int *i, struct fr_err *err)
{
    const struct cli_command *cmd = c->cmd;
    const char *word = argv[*i], *value = NULL;
    const char *eq = strchr(word, '=');
    const struct cli_opt *o;

    if (word[1] == '-') {
        o = find(cmd, word, eq != NULL ? (size_t)(eq - word) : strlen(word));
        value = eq != NULL ? eq + 1 : NULL;
    } else {
        o = find_letter(cmd, word[1]);
        value = word[2] != '\0' ? word + 2 : NULL;
    }
    if (o == NULL)
        return unknown(cmd, word, err);
    if (o->meta == NULL && value != NULL)
        return fr_fail(err, FR_USAGE, "%s: %s takes no value", cmd->name, o->name);
    if (o->meta != NULL && value == NULL && (value = argv[++*i]) == NULL)
        return fr_fail(err, FR_USAGE, "%s: %s needs a value: %s", cmd->name, o->name, o->meta);
    return cli_list_add(&c->given[o - cmd->opts], value != NULL ? value : "", err);
}

/* ---- how many words a command takes ---- */

struct words {
    size_t least, most;
};

static size_t sum(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

/* Counts the words of a usage up to the closing bracket: "[RUN] [TASK]", "FILE", "RUN…",
 * "[new NAME | list]". Words after an option belong to the option. */
static struct words count_words(const char **args)
{
    struct words all = {SIZE_MAX, 0}, one = {0, 0};
    const char *p = *args;
    bool of_option = false;

    for (;; p += strcspn(p, " ]")) {
        p += strspn(p, " ");
        if (*p == '\0' || *p == ']' || *p == '|') {
            all.least = one.least < all.least ? one.least : all.least;
            all.most = one.most > all.most ? one.most : all.most;
            one = (struct words){0, 0};
            of_option = false;
            if (*p != '|')
                break;
        } else if (*p == '[') {
            p++;
            one.most = sum(one.most, count_words(&p).most);
            p += *p == ']';
        } else if (!(of_option = of_option || *p == '-')) {
            size_t n = strcspn(p, " ]");
            bool many = n > 3 && memcmp(p + n - 3, "…", 3) == 0;

            one.least++;
            one.most = sum(one.most, many ? SIZE_MAX : 1);
        }
    }
    *args = p;
    return all;
}

enum fr_rc cli_args_between(const struct cli_call *c, size_t min, size_t max, struct fr_err *err)
{
    const struct cli_command *cmd = c->cmd;

    if (c->args.n < min)
        return fr_fail(err, FR_USAGE, "%s needs %s; see 'flowrun help %s'", cmd->name, cmd->args,
                       cmd->name);
    if (c->args.n > max)
        return fr_fail(err, FR_USAGE, "%s: what is '%s'? It takes %s; see 'flowrun help %s'",
                       cmd->name, c->args.v[max], cmd->args[0] != '\0' ? cmd->args : "no arguments",
                       cmd->name);
    return FR_OK;
}

static enum fr_rc parse(struct cli_call *c, char **argv, struct fr_err *err)
{
    const char *text = c->cmd->args;
    struct words words = count_words(&text);
    bool plain = c->cmd->raw;
    enum fr_rc rc = FR_OK;

    for (int i = 1; rc == FR_OK && argv[i] != NULL; i++) {
        const char *word = argv[i];

        if (!plain && strcmp(word, "--") == 0) {
            plain = true;
        } else if (!plain && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
            cli_print_help(c->cmd);
            rc = fr_fail(err, FR_STOPPED, "help");
        } else if (!plain && word[0] == '-' && word[1] != '\0') {
            rc = take(c, argv, &i, err);
        } else {
            rc = cli_list_add(&c->args, word, err);
        }
    }
    return rc == FR_OK ? cli_args_between(c, words.least, words.most, err) : rc;
}

/* ---- arguments and values ---- */

static const struct cli_list *given(const struct cli_call *c, const char *option)
{
    const struct cli_opt *o = cli_option(c->cmd, option);

    assert(o != NULL);
    return &c->given[o - c->cmd->opts];
}

const char *cli_arg(const struct cli_call *c, size_t i)
{
    return i < c->args.n ? c->args.v[i] : NULL;
}

bool cli_has(const struct cli_call *c, const char *option)
{
    return given(c, option)->n > 0;
}

const char *cli_value(const struct cli_call *c, const char *option)
{
    const struct cli_list *list = given(c, option);

    return list->n > 0 ? list->v[list->n - 1] : NULL;
}

const struct cli_list *cli_values(const struct cli_call *c, const char *option)
{
    return given(c, option);
}

enum fr_rc cli_number(const struct cli_call *c, const char *option, struct cli_range range,
                      int64_t *out, struct fr_err *err)
{
    const char *text = cli_value(c, option);
    char from[40] = "";
    int64_t n;

    if (text == NULL)
        return FR_OK;
    if (fr_parse_i64(fr_str_of(text), &n, NULL) == FR_OK && n >= range.least && n <= range.most) {
        *out = n;
        return FR_OK;
    }
    if (range.least != INT64_MIN)
        snprintf(from, sizeof(from), " from %lld on", (long long)range.least);
    return fr_fail(err, FR_USAGE, "%s: %s is a whole number%s, not '%s'", c->cmd->name, option,
                   from, text);
}

enum fr_rc cli_word(const struct cli_call *c, const char *option, const char *otherwise,
                    const char **out, struct fr_err *err)
{
    const char *words = cli_option(c->cmd, option)->words, *text = cli_value(c, option);
    struct fr_buf list = {0};

    *out = text != NULL ? text : otherwise;
    if (text == NULL || fr_word_in(words, text))
        return FR_OK;
    fr_buf_words(&list, words);
    fr_fail(err, FR_USAGE, "%s: %s is %s, not '%s'", c->cmd->name, option, list.bad ? "" : list.p,
            text);
    fr_buf_finish(&list);
    return FR_USAGE;
}

enum fr_rc cli_verb(const struct cli_call *c, const char *verbs, size_t *at, struct fr_err *err)
{
    const char *word = cli_arg(c, 0);
    size_t n = word != NULL ? strlen(word) : 0, i = 0;
    struct fr_buf list = {0};

    for (const char *p = verbs; word != NULL && p != NULL; p = strchr(p, ' '), i++) {
        p += *p == ' ';
        if (n > 0 && strchr(word, ' ') == NULL && strncmp(p, word, n) == 0 &&
            (p[n] == ' ' || p[n] == '\0')) {
            *at = i;
            return FR_OK;
        }
    }
    if (word == NULL)
        return FR_OK;
    fr_buf_words(&list, verbs);
    fr_fail(err, FR_USAGE, "%s: what is '%s'? It takes %s", c->cmd->name, word,
            list.bad ? "" : list.p);
    fr_buf_finish(&list);
    return FR_USAGE;
}

struct cli_show_opts cli_shown(const struct cli_call *c)
{
    return (struct cli_show_opts){
        .json = c->json, .quiet = cli_has(c, "--quiet"), .verbose = cli_has(c, "--verbose")};
}

enum fr_rc cli_pipeline(struct cli_call *c, const char *file, struct fr_spec_opts *out,
                        struct fr_err *err)
{
    const struct cli_opt *nodes = cli_option(c->cmd, "--nodes");
    const struct cli_list *params = given(c, "--param");
    enum fr_rc rc = FR_OK;

    c->spec.file = file;
    if (nodes != NULL)
        c->spec.nodes = cli_value(c, "--nodes");
    for (size_t i = 0; rc == FR_OK && i < params->n; i++)
        rc = cli_list_add(&c->spec.params, params->v[i], err);
    return rc == FR_OK ? cli_spec_opts(&c->spec, out, err) : rc;
}

/* ---- the frame of each command ---- */

int cli_dispatch(const struct cli_command *cmd, char **argv)
{
    struct cli_call c = {.cmd = cmd, .code = CLI_OK, .home = {.lock_fd = -1}};
    struct fr_err err = {0};
    const struct cli_opt *json = cli_option(cmd, "--json");
    enum fr_rc rc = parse(&c, argv, &err);

    c.json = json != NULL && c.given[json - cmd->opts].n > 0;
    if (rc == FR_OK)
        rc = cmd->run(&c, &err);
    if (rc != FR_OK)
        c.code = (int)cli_fail_issues(&c.issues, &err);
    cli_writer_close(&c.home);
    fr_config_destroy(c.config);
    fr_issues_finish(&c.issues);
    cli_spec_finish(&c.spec);
    fr_arena_finish(&c.arena);
    for (const struct cli_opt *o = cmd->opts; o->name != NULL; o++)
        cli_list_finish(&c.given[o - cmd->opts]);
    cli_list_finish(&c.args);
    return c.code;
}

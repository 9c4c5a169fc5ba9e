#include "engine/cli/cli.h"

#include "engine/base/complete.h"
#include "engine/base/file.h"
#include "engine/base/log.h"
#include "engine/base/sys.h"
#include "engine/base/yaml.h"
#include "engine/spec/config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct cli_opt *find(const struct cli_opt *opts, const char *name, size_t n)
{
    for (; opts->name != NULL; opts++)
        if (strlen(opts->name) == n && memcmp(opts->name, name, n) == 0)
            return opts;
    return NULL;
}

static const struct cli_opt *find_letter(const struct cli_opt *opts, char letter)
{
    for (; opts->name != NULL; opts++)
        if (opts->letter == letter)
            return opts;
    return NULL;
}

static enum fr_rc unknown(const struct cli_command *cmd, const struct cli_opt *opts,
                          const char *word, struct fr_err *err)
{
    const char *names[32] = {"--help"};
    const char *near;
    size_t n = 1;

    for (const struct cli_opt *o = opts; o->name != NULL && n < 32; o++)
        names[n++] = o->name;
    near = fr_suggest(word, names, n);
    if (near != NULL)
        return fr_fail(err, FR_USAGE, "%s: there is no option '%s'; did you mean '%s'?", cmd->name,
                       word, near);
    return fr_fail(err, FR_USAGE, "%s: there is no option '%s'; 'flowrun help %s' lists them",
                   cmd->name, word, cmd->name);
}

static enum fr_rc set(const struct cli_command *cmd, const struct cli_opt *o, const char *value,
                      struct fr_err *err)
{
    if (o->flag != NULL) {
        if (value != NULL)
            return fr_fail(err, FR_USAGE, "%s: %s takes no value", cmd->name, o->name);
        *o->flag = true;
        return FR_OK;
    }
    if (o->list != NULL)
        return cli_list_add(o->list, value, err);
    *o->value = value;
    return FR_OK;
}

/* Takes a word that begins with '-'. *i moves on if the next word is its value. */
static enum fr_rc take(const struct cli_command *cmd, const struct cli_opt *opts, char **argv,
                       int *i, struct fr_err *err)
{
    const char *word = argv[*i], *value = NULL;
    const char *eq = strchr(word, '=');
    const struct cli_opt *o;

    if (word[1] == '-') {
        o = find(opts, word, eq != NULL ? (size_t)(eq - word) : strlen(word));
        value = eq != NULL ? eq + 1 : NULL;
    } else {
        o = find_letter(opts, word[1]);
        value = word[2] != '\0' ? word + 2 : NULL;
    }
    if (o == NULL)
        return unknown(cmd, opts, word, err);
    if (o->flag == NULL && value == NULL) {
        if (argv[*i + 1] == NULL)
            return fr_fail(err, FR_USAGE, "%s: %s needs a value: %s", cmd->name, o->name, o->meta);
        value = argv[++*i];
    }
    return set(cmd, o, value, err);
}

/* ---- how many words a command takes ---- */

struct words {
    size_t least, most;
};

static size_t sum(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

/* Those that a command's args name, up to the bracket that closes: "[RUN] [TASK]", "FILE", "RUN…",
 * "[new NAME | list]". What follows an option is the option's. */
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

enum fr_rc cli_args_between(const struct cli_command *cmd, const struct cli_list *args, size_t min,
                            size_t max, struct fr_err *err)
{
    if (args->n < min)
        return fr_fail(err, FR_USAGE, "%s needs %s; see 'flowrun help %s'", cmd->name, cmd->args,
                       cmd->name);
    if (args->n > max)
        return fr_fail(err, FR_USAGE, "%s: what is '%s'? It takes %s; see 'flowrun help %s'",
                       cmd->name, args->v[max], cmd->args[0] != '\0' ? cmd->args : "no arguments",
                       cmd->name);
    return FR_OK;
}

/* What cli_options_of() reads: a line an option. */
static const char list_options[] = "--list-options";

static void print_options(const struct cli_opt *opts)
{
    for (const struct cli_opt *o = opts; o->name != NULL; o++)
        fr_print("%s\t%c\t%s\t%s\t%s\n", o->name, o->letter != 0 ? o->letter : '-',
                 o->meta != NULL ? o->meta : "", o->words != NULL ? o->words : "", o->help);
}

enum fr_rc cli_parse(const struct cli_command *cmd, const struct cli_opt *opts, char **argv,
                     struct cli_list *args, struct fr_err *err)
{
    const char *text = cmd->args;
    struct words words = count_words(&text);
    enum fr_rc rc = FR_OK;
    bool plain = false;

    for (int i = 1; rc == FR_OK && argv[i] != NULL; i++) {
        const char *word = argv[i];

        if (!plain && strcmp(word, "--") == 0) {
            plain = true;
        } else if (i == 1 && strcmp(word, list_options) == 0) {
            print_options(opts);
            rc = fr_fail(err, FR_STOPPED, "options");
        } else if (!plain && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
            cli_print_help(cmd, opts);
            rc = fr_fail(err, FR_STOPPED, "help");
        } else if (!plain && word[0] == '-' && word[1] != '\0') {
            rc = take(cmd, opts, argv, &i, err);
        } else {
            rc = cli_list_add(args, word, err);
        }
    }
    return rc == FR_OK ? cli_args_between(cmd, args, words.least, words.most, err) : rc;
}

void cli_print_help(const struct cli_command *cmd, const struct cli_opt *opts)
{
    fr_print("flowrun %s%s%s%s\n\n%s\n", cmd->name, cmd->args[0] != '\0' ? " " : "", cmd->args,
             opts->name != NULL ? " [options]" : "", cmd->help);
    if (cmd->more != NULL)
        fr_print("\n%s", cmd->more);
    if (opts->name != NULL)
        fr_print("\noptions:\n");
    for (const struct cli_opt *o = opts; o->name != NULL; o++) {
        struct fr_buf b = {0};

        if (o->letter != 0)
            fr_buf_fmt(&b, "-%c, ", o->letter);
        fr_buf_fmt(&b, "%s", o->name);
        if (o->meta != NULL)
            fr_buf_fmt(&b, " %s", o->meta);
        if (!b.bad)
            fr_print("  %-26s %s\n", b.p, o->help);
        fr_buf_finish(&b);
    }
}

static void run_listing(void *arg)
{
    const struct cli_command *cmd = arg;
    char *argv[] = {(char *)cmd->name, (char *)list_options, NULL};

    (void)cmd->run(cmd, argv);
}

/* A line of print_options(), whose tabs become ends of texts. */
static struct cli_opt read_option(char *line)
{
    char *part[5] = {line};

    for (int i = 1; i < 5; i++) {
        part[i] = part[i - 1] + strcspn(part[i - 1], "\t");
        if (part[i][0] != '\0')
            *part[i]++ = '\0';
    }
    return (struct cli_opt){.name = part[0],
                            .letter = (char)(part[1][0] != '-' ? part[1][0] : 0),
                            .meta = part[2][0] != '\0' ? part[2] : NULL,
                            .words = part[3][0] != '\0' ? part[3] : NULL,
                            .help = part[4]};
}

enum fr_rc cli_options_of(const struct cli_command *cmd, struct fr_arena *arena,
                          struct cli_opt **out, struct fr_err *err)
{
    struct fr_buf b = {0};
    char *text;
    size_t n = 0, many = 1;

    fr_capture(run_listing, (void *)cmd, &b);
    text = b.bad ? NULL : fr_arena_text(arena, b.n > 0 ? b.p : "", b.n);
    fr_buf_finish(&b);
    for (const char *p = text; p != NULL && *p != '\0'; p++)
        many += *p == '\n';
    *out = text != NULL ? fr_arena_array(arena, many, sizeof(**out)) : NULL;
    if (*out == NULL)
        return fr_fail(err, FR_NOMEM, "no memory for the options of %s", cmd->name);
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        (*out)[n++] = read_option(line);
    }
    (*out)[n] = (struct cli_opt){.name = NULL};
    return FR_OK;
}

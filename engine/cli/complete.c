/*
 * completion: prints the script of a shell. complete: called by that script; prints the candidates
 * for the last word, from the table of commands and from the store. After an error, such as a
 * missing home, it prints nothing.
 */
#include "engine/base/complete.h"

#include "engine/base/log.h"
#include "engine/cli/cli.h"
#include "engine/store/access.h"
#include "engine/store/drained.h"
#include "engine/store/occurrences.h"
#include "engine/store/home.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { ARGS = 8, RUNS = 100, TOKENS = 8 };

struct asking {
    const struct cli_command *cmd;
    const char *args[ARGS]; /* the words before the typed one that are no options */
    size_t n;
    const char *typed; /* the typed part of the word, or of the option's value */
    struct fr_arena *arena;
    struct fr_store *st; /* NULL: it cannot be read */
};

/* ---- what words stand for ---- */

static void say_runs(struct asking *q)
{
    bool open = fr_word_in("resume attach watch cancel", q->cmd->name);
    struct fr_run_rows rows = {0};
    struct fr_err err = {0};
    enum fr_rc rc = open ? fr_store_runs_open(q->st, q->arena, &rows, &err)
                         : fr_store_runs(q->st, RUNS, q->arena, &rows, &err);

    for (size_t i = 0; rc == FR_OK && i < rows.n; i++) {
        const struct fr_run_row *r = &rows.rows[i];
        char no[24];

        (void)snprintf(no, sizeof(no), "%lld", (long long)r->no);
        fr_complete_say(q->typed, no,
                        fr_arena_fmt(q->arena, "%s, %s", r->name,
                                     r->outcome != FR_OUT_NONE ? fr_outcome_name(r->outcome)
                                                               : fr_run_state_name(r->state)));
    }
}

/* Tasks of the run named before, else of the newest; instances once an @ or a [ is typed. */
static void say_tasks(struct asking *q)
{
    bool whole = strpbrk(q->typed, "@[") != NULL;
    struct fr_run_row run;
    struct fr_inst_rows rows = {0};
    struct fr_err err = {0};

    if (fr_store_run_find(q->st, q->n > 0 ? q->args[0] : NULL, q->arena, &run, &err) != FR_OK ||
        fr_store_insts(q->st, run.id, q->arena, &rows, &err) != FR_OK)
        return;
    for (size_t i = 0; i < rows.n; i++)
        if (whole)
            fr_complete_say(q->typed, rows.rows[i].key, fr_state_name(rows.rows[i].state));
        else if (i == 0 || strcmp(rows.rows[i].task, rows.rows[i - 1].task) != 0)
            fr_complete_say(q->typed, rows.rows[i].task, "");
}

static void say_nodes(struct asking *q)
{
    struct fr_drained_rows drained = {0};
    struct fr_known_rows known = {0};
    struct fr_err err = {0};

    if (strcmp(q->cmd->name, "undrain") == 0 &&
        fr_store_drained(q->st, q->arena, &drained, &err) == FR_OK)
        for (size_t i = 0; i < drained.n; i++)
            fr_complete_say(q->typed, drained.rows[i].name, drained.rows[i].note);
    if (strcmp(q->cmd->name, "drain") == 0 &&
        fr_store_known_nodes(q->st, q->arena, &known, &err) == FR_OK)
        for (size_t i = 0; i < known.n; i++)
            fr_complete_say(q->typed, known.rows[i].name, "");
}

/* NAME is a token of `token rm`, a schedule of `schedules` and `backfill`; others are not known. */
static void say_names(struct asking *q)
{
    struct fr_schedule_rows rows = {0};
    struct fr_token_rows tokens = {0};
    struct fr_err err = {0};

    if (strcmp(q->cmd->name, "token") == 0 && q->n > 0 && strcmp(q->args[0], "rm") == 0 &&
        fr_store_tokens(q->st, q->arena, &tokens, &err) == FR_OK)
        for (size_t i = 0; i < tokens.n; i++)
            fr_complete_say(q->typed, tokens.rows[i].name, tokens.rows[i].role);
    if ((strcmp(q->cmd->name, "schedules") == 0 || strcmp(q->cmd->name, "backfill") == 0) &&
        fr_store_schedules(q->st, q->arena, &rows, &err) == FR_OK)
        for (size_t i = 0; i < rows.n; i++)
            fr_complete_say(q->typed, rows.rows[i].name,
                            fr_word(&fr_schedule_state_words, rows.rows[i].state));
}

static void say_commands(struct asking *q)
{
    for (const struct cli_command *c = cli_command_table(); c->name != NULL; c++)
        if (!c->hidden)
            fr_complete_say(q->typed, c->name, c->help);
}

/* Prints the candidates for a word in capitals, from the table's args or an option's meta. */
static void say_kind(struct asking *q, const char *kind)
{
    static const struct {
        const char *kind;
        void (*say)(struct asking *q);
        bool of_store;
        const char *files; /* the line that makes the shell offer files */
    } kinds[] = {
        {"RUN", say_runs, true, NULL},           {"TASK", say_tasks, true, NULL},
        {"NODE", say_nodes, true, NULL},         {"NAME", say_names, true, NULL},
        {"FILE", NULL, false, FR_COMPLETE_YAML}, {"FOLDER", NULL, false, FR_COMPLETE_FOLDERS},
        {"COMMAND", say_commands, false, NULL}};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].kind, kind) == 0 && kinds[i].files != NULL)
            fr_print("%s\n", kinds[i].files);
        else if (strcmp(kinds[i].kind, kind) == 0 && (q->st != NULL || !kinds[i].of_store))
            kinds[i].say(q);
}

/* ---- words that are no options ---- */

/* Splits a form, "pause NAME"; *many: the last of its words may come again. */
static size_t split(char *form, const char *words[TOKENS], bool *many)
{
    char *more = strstr(form, "…"), *rest = NULL;
    size_t n = 0;

    *many = more != NULL;
    if (more != NULL)
        *more = '\0';
    for (char *w = strtok_r(form, " ", &rest); w != NULL && n < TOKENS;
         w = strtok_r(NULL, " ", &rest)) {
        if (w[0] == '-')
            break; /* an option and its value */
        words[n++] = w;
    }
    return n;
}

static void say_form(struct asking *q, char *form)
{
    const char *words[TOKENS];
    bool many;
    size_t n = split(form, words, &many), at = many && q->n >= n && n > 0 ? n - 1 : q->n;

    if (at >= n)
        return;
    for (size_t i = 0; i < at; i++)
        if (islower((unsigned char)words[i][0]) && strcmp(words[i], q->args[i]) != 0)
            return;
    if (islower((unsigned char)words[at][0]))
        fr_complete_say(q->typed, words[at], "");
    else
        say_kind(q, words[at]);
}

/* Prints the candidates by the forms of the row: "[NAME | pause NAME | resume NAME]". */
static void say_args(struct asking *q)
{
    struct fr_buf forms = {0};
    char *rest = NULL;

    for (const char *p = q->cmd->args; *p != '\0'; p++)
        if (*p != '[' && *p != ']')
            fr_buf_add(&forms, p, 1);
    if (!forms.bad && forms.n > 0)
        for (char *f = strtok_r(forms.p, "|", &rest); f != NULL; f = strtok_r(NULL, "|", &rest))
            say_form(q, f);
    fr_buf_finish(&forms);
}

/* ---- options ---- */

static void say_options(const struct asking *q)
{
    char letter[3] = "-";

    for (const struct cli_opt *o = q->cmd->opts; o->name != NULL; o++) {
        if (o->help == NULL)
            continue;
        fr_complete_say(q->typed, o->name, o->help);
        letter[1] = o->letter;
        if (o->letter != 0 && strcmp(q->typed, "-") == 0)
            fr_complete_say(q->typed, letter, o->help);
    }
    fr_complete_say(q->typed, "--help", "explain this command");
}

static void say_value(struct asking *q, const struct cli_opt *o)
{
    if (o->words != NULL)
        fr_complete_words(q->typed, o->words);
    else
        say_kind(q, o->meta);
}

/* The option with a value that word names, alone or as --name=value; NULL: none. */
static const struct cli_opt *takes(const struct asking *q, const char *word)
{
    size_t n = strcspn(word, "=");

    for (const struct cli_opt *o = q->cmd->opts; o->name != NULL; o++)
        if (o->meta != NULL &&
            ((strlen(o->name) == n && strncmp(o->name, word, n) == 0) ||
             (o->letter != 0 && word[0] == '-' && word[1] == o->letter && word[2] == '\0')))
            return o;
    return NULL;
}

/* words: those after the command; the last one is being typed. */
static void say(struct asking *q, const char *const *words, size_t n)
{
    const struct cli_opt *o = NULL;
    bool plain = false;

    for (; n > 1; words++, n--) {
        bool value = o != NULL;

        o = NULL;
        if (value)
            continue;
        if (!plain && strcmp(words[0], "--") == 0)
            plain = true;
        else if (plain || words[0][0] != '-' || words[0][1] == '\0')
            q->args[q->n < ARGS - 1 ? q->n++ : q->n] = words[0];
        else if (strchr(words[0], '=') == NULL)
            o = takes(q, words[0]);
    }
    q->typed = words[0];
    if (o == NULL && !plain && strncmp(words[0], "--", 2) == 0 && strchr(words[0], '=') != NULL) {
        o = takes(q, words[0]);
        q->typed = strchr(words[0], '=') + 1;
        if (o == NULL)
            return;
    }
    if (o != NULL)
        say_value(q, o);
    else if (!plain && words[0][0] == '-')
        say_options(q);
    else
        say_args(q);
}

enum fr_rc cli_complete(struct cli_call *c, struct fr_err *err)
{
    const char *const *words = c->args.v;
    bool first = c->args.n == 1;
    const struct cli_command *named = c->args.n > 1 ? cli_command_find(words[0]) : NULL;
    struct asking q = {.cmd = named != NULL ? named : cli_command_find("run"), .arena = &c->arena};
    struct fr_buf home = {0};

    if (c->args.n == 0)
        return FR_OK;
    if (first && words[0][0] != '-') {
        q.typed = words[0];
        say_commands(&q);
    } else if (first) {
        fr_complete_say(words[0], "--version", "print the version");
    }
    if (fr_home_find(&home, err) == FR_OK && fr_store_open_read(home.p, &c->home.st, err) == FR_OK)
        q.st = c->home.st;
    fr_buf_finish(&home);
    say(&q, words + (named != NULL), c->args.n - (named != NULL));
    return FR_OK;
}

enum fr_rc cli_completion(struct cli_call *c, struct fr_err *err)
{
    struct fr_buf script = {0};
    enum fr_rc rc = fr_complete_script(cli_arg(c, 0), "flowrun", &script, err);

    if (rc == FR_OK)
        fr_print_bytes(script.p, script.n);
    fr_buf_finish(&script);
    return rc;
}

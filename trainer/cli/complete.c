/* flowtrain's words in a shell, and its page for man(1): from the help that each command prints. */
#include "engine/base/complete.h"

#include "engine/base/log.h"
#include "engine/base/man.h"
#include "trainer/cli/cli.h"
#include "trainer/config/args_table.h"

#include <string.h>

/* Whether a line of help is of a flag, "  --name   meaning": then it ends after the name. */
static bool is_flag(char *line, char **meaning)
{
    size_t n = strcspn(line, "\n");

    if (strncmp(line, "  --", 4) != 0)
        return false;
    n = 2 + strcspn(line + 2, " ");
    *meaning = line + n + strspn(line + n, " ");
    line[n] = '\0';
    return true;
}

static void say_flags(const struct tr_command *cmd, const char *typed)
{
    struct fr_buf help = {0};
    char *rest = NULL, *meaning;

    tr_command_help(cmd, &help);
    for (char *l = help.bad ? NULL : strtok_r(help.p, "\n", &rest); l != NULL;
         l = strtok_r(NULL, "\n", &rest))
        if (is_flag(l, &meaning))
            fr_complete_say(typed, l + 2, meaning);
    fr_buf_finish(&help);
}

/* flag: "--name". A flag of train that is one of several words; any other may be a path. */
static void say_value(const char *flag, const char *typed)
{
    const struct tr_arg *arg = tr_arg_find(flag + 2, strcspn(flag + 2, "="));

    if (arg != NULL && arg->kind == TR_ARG_BOOL)
        fr_complete_words(typed, "true false");
    else if (arg == NULL || arg->kind != TR_ARG_CHOICE)
        fr_print("%s\n", FR_COMPLETE_FILES);
    for (size_t k = 0; arg != NULL && arg->kind == TR_ARG_CHOICE && arg->choices[k] != NULL; k++)
        fr_complete_say(typed, arg->choices[k], "");
}

static void say_commands(const char *typed)
{
    for (size_t i = 0; i < tr_ncommands; i++)
        fr_complete_say(typed, tr_commands[i]->name, tr_commands[i]->summary);
    fr_complete_say(typed, "version", "print the version");
    fr_complete_say(typed, "help", "explain, or list arguments or templates");
    fr_complete_say(typed, "completion", "print what completes flowtrain's words in a shell");
}

static enum fr_rc complete(struct tr_call *call, struct fr_err *err)
{
    const char *const *argv = call->argv;
    int argc = call->argc;
    const struct tr_command *cmd = NULL;
    const char *typed = argc > 0 ? argv[argc - 1] : "", *before = argc > 1 ? argv[argc - 2] : "";

    (void)err;
    for (size_t i = 0; argc > 1 && i < tr_ncommands; i++)
        if (strcmp(tr_commands[i]->name, argv[0]) == 0)
            cmd = tr_commands[i];
    if (argc < 2)
        say_commands(typed);
    else if (cmd == NULL && argc == 2 && strcmp(argv[0], "help") == 0)
        fr_complete_words(typed, "arguments templates");
    else if (cmd == NULL && argc == 2 && strcmp(argv[0], "completion") == 0)
        fr_complete_words(typed, "bash zsh fish");
    else if (cmd != NULL && strncmp(typed, "--", 2) == 0 && strchr(typed, '=') != NULL)
        say_value(typed, strchr(typed, '=') + 1);
    else if (cmd != NULL && typed[0] == '-')
        say_flags(cmd, typed);
    else if (cmd != NULL && strncmp(before, "--", 2) == 0 && before[2] != '\0')
        say_value(before, typed);
    else if (cmd != NULL && strcmp(cmd->name, "launch") == 0)
        say_commands(typed); /* after -- */
    else if (cmd != NULL)
        fr_print("%s\n", strcmp(cmd->name, "inspect") == 0 ? FR_COMPLETE_FILES : FR_COMPLETE_YAML);
    return FR_OK;
}

const struct tr_command tr_cmd_complete = {.name = "complete", .run = complete};

static enum fr_rc print_script(struct tr_call *call, struct fr_err *err)
{
    struct fr_buf script = {0};
    enum fr_rc rc = call->argc == 1 ? fr_complete_script(call->argv[0], "flowtrain", &script, err)
                                    : fr_fail(err, FR_USAGE, "expected bash, zsh or fish");

    if (rc == FR_OK)
        fr_print_bytes(script.p, script.n);
    fr_buf_finish(&script);
    return rc;
}

const struct tr_command tr_cmd_completion = {.name = "completion", .run = print_script};

/* ---- man ---- */

/* Lines before the flags are the command's forms and their meaning. */
static void add_command(struct fr_buf *out, const struct tr_command *cmd)
{
    struct fr_buf help = {0};
    char *rest = NULL, *meaning;

    fr_man_part(out, cmd->name);
    fr_man_text(out, cmd->summary);
    tr_command_help(cmd, &help);
    out->bad = out->bad || help.bad;
    for (char *l = help.bad ? NULL : strtok_r(help.p, "\n", &rest); l != NULL;
         l = strtok_r(NULL, "\n", &rest)) {
        if (is_flag(l, &meaning))
            fr_man_entry(out, l + 2, "", meaning);
        else
            fr_man_text(out, l);
    }
    fr_buf_finish(&help);
}

static enum fr_rc print_man(struct tr_call *call, struct fr_err *err)
{
    struct fr_buf out = {0};
    enum fr_rc rc;

    (void)call;
    fr_man_begin(&out, "flowtrain", FLOWTRAIN_VERSION, "fine-tune language models with LoRA");
    fr_man_section(&out, "SYNOPSIS");
    fr_man_text(&out, "flowtrain COMMAND [ARGUMENTS]");
    fr_man_section(&out, "DESCRIPTION");
    fr_man_text(&out, "LoRA fine-tuning of DeepSeek-V3, Llama, Mistral, Mixtral and Qwen models. A "
                      "word with - is as good as one with _ in the name of a flag.");
    fr_man_section(&out, "COMMANDS");
    for (size_t i = 0; i < tr_ncommands; i++)
        add_command(&out, tr_commands[i]);
    fr_man_section(&out, "EXIT STATUS");
    for (size_t i = 0; i < tr_nexits; i++) {
        const char status[] = {(char)('0' + tr_exits[i].status), '\0'};

        fr_man_entry(&out, status, "", tr_exits[i].meaning);
    }
    fr_man_section(&out, "SEE ALSO");
    fr_man_text(&out, "flowrun(1)");
    rc = out.bad ? fr_fail(err, FR_NOMEM, "no memory for the page") : FR_OK;
    if (rc == FR_OK)
        fr_print_bytes(out.p, out.n);
    fr_buf_finish(&out);
    return rc;
}

const struct tr_command tr_cmd_man = {.name = "man", .run = print_man};

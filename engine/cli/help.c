/* help: the overview, one command, the exit codes, or the causes of failures. */
#include "engine/cli/cli.h"
#include "engine/show/private.h"

#include "engine/base/log.h"

#include <stdio.h>
#include <string.h>

enum { USAGE_COLUMNS = 26 }; /* after a longer usage the meaning begins a new line */

static void print_usage(const char *words, const char *args, const char *meaning)
{
    char usage[120];
    size_t columns;

    snprintf(usage, sizeof(usage), "%s%s%s", words, args[0] != '\0' ? " " : "", args);
    columns = show_width(usage);
    fr_print("  flowrun %s", usage);
    if (columns > USAGE_COLUMNS)
        fr_print("\n%*s%s\n", USAGE_COLUMNS + 12, "", meaning);
    else
        fr_print("%*s%s\n", (int)(USAGE_COLUMNS - columns) + 2, "", meaning);
}

static void overview(void)
{
    fr_print("flowrun runs pipelines of tasks on nodes: this machine, or others over SSH.\n\n");
    print_usage("FILE [-p NAME=VALUE]…", "", "run a pipeline");
    for (const struct cli_command *c = cli_command_table(); c->name != NULL; c++)
        if (!c->hidden && strcmp(c->name, "run") != 0)
            print_usage(c->name, c->args, c->help);
    fr_print("\n'flowrun help COMMAND' explains one. State lies in $FLOWRUN_HOME, else\n"
             "$XDG_STATE_HOME/flowrun, else ~/.local/state/flowrun. $FLOWRUN_LOG=debug shows more\n"
             "of what flowrun does by itself, such as turns of its loop above 100 ms.\n");
}

/* The causes that retry.on lists, and the one case in which a command runs twice. */
static void causes(void)
{
    fr_print("An attempt that fails has one of these causes; retry.on lists those after which the\n"
             "task is tried again (and exit codes):\n");
    for (int i = 0; i < FR_CAUSE_N; i++)
        if (fr_cause_retryable((enum fr_cause)i))
            fr_print("  %-19s%s\n", fr_cause_name((enum fr_cause)i),
                     fr_cause_meaning((enum fr_cause)i));
    fr_print(
        "\nAn attempt is never tried again, and retry.on does not list the cause, where when: or\n"
        "a value that it starts with cannot be worked out:\n"
        "  %-19s%s\n",
        "expression", "as of an output that a skipped task never gave, or 'abc' > 3");
    fr_print("\nA command runs at least once. It runs a second time when its supervisor is killed\n"
             "between the command's end and the record of it, and a retry follows on lost.\n"
             "Where a second run does harm, list the causes without lost:\n"
             "  retry: {times: 3, on: [");
    for (int i = 0, n = 0; i < FR_CAUSE_N; i++)
        if ((fr_causes_preset() >> i & 1u) != 0 && i != FR_CAUSE_LOST)
            fr_print("%s%s", n++ > 0 ? ", " : "", fr_cause_name((enum fr_cause)i));
    fr_print("]}\n"
             "The task then fails as lost. 'flowrun retry' starts it again once you looked.\n");
}

void cli_opt_names(const struct cli_opt *o, char out[CLI_OPT_NAMES])
{
    char letter[5] = {'-', o->letter, ',', ' ', '\0'};

    snprintf(out, CLI_OPT_NAMES, "%s%s", o->letter != 0 ? letter : "", o->name);
}

void cli_print_help(const struct cli_command *cmd)
{
    bool any = cmd->opts->name != NULL && cmd->opts->help != NULL;

    fr_print("flowrun %s%s%s%s\n\n%s\n", cmd->name, cmd->args[0] != '\0' ? " " : "", cmd->args,
             any ? " [options]" : "", cmd->help);
    if (cmd->more != NULL)
        fr_print("\n%s", cmd->more);
    if (any)
        fr_print("\noptions:\n");
    for (const struct cli_opt *o = cmd->opts; o->name != NULL; o++) {
        char names[CLI_OPT_NAMES], line[2 * CLI_OPT_NAMES];

        cli_opt_names(o, names);
        snprintf(line, sizeof(line), "%s%s%s", names, o->meta != NULL ? " " : "",
                 o->meta != NULL ? o->meta : "");
        if (o->help != NULL)
            fr_print("  %-26s %s\n", line, o->help);
    }
}

static void exit_codes(void)
{
    fr_print("flowrun ends with one of these exit codes:\n");
    for (const struct cli_exit_text *e = cli_exit_texts(); e->text != NULL; e++)
        fr_print("  %d  %s\n", e->code, e->text);
    fr_print("\nWhat is so already is no mistake: 'resume' of a run that is over ends with that\n"
             "run's code, 'cancel' of it and 'retry' of one in which nothing failed with 0.\n");
}

enum fr_rc cli_help(struct cli_call *c, struct fr_err *err)
{
    const char *about = cli_arg(c, 0);

    if (about == NULL)
        overview();
    else if (strcmp(about, "exit-codes") == 0)
        exit_codes();
    else if (strcmp(about, "causes") == 0)
        causes();
    else if (cli_command_find(about) != NULL)
        cli_print_help(cli_command_find(about));
    else
        return fr_fail(err, FR_USAGE, "there is no command '%s'; 'flowrun help' lists them", about);
    return FR_OK;
}

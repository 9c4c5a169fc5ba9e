#include "engine/cli/cli.h"
#include "engine/show/private.h"

#include "engine/base/log.h"

#include <string.h>

enum { USAGE_COLUMNS = 26 }; /* what is longer has its meaning on the next line */

static void print_usage(const char *words, const char *args, const char *meaning)
{
    struct fr_buf b = {0};
    size_t columns;

    fr_buf_fmt(&b, "%s%s%s", words, args[0] != '\0' ? " " : "", args);
    columns = b.bad ? 0 : show_width(b.p);
    fr_print("  flowrun %s", b.bad ? words : b.p);
    if (columns > USAGE_COLUMNS)
        fr_print("\n%*s%s\n", USAGE_COLUMNS + 12, "", meaning);
    else
        fr_print("%*s%s\n", (int)(USAGE_COLUMNS - columns) + 2, "", meaning);
    fr_buf_finish(&b);
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
            fr_print("  %-14s%s\n", fr_cause_name((enum fr_cause)i),
                     fr_cause_meaning((enum fr_cause)i));
    fr_print(
        "\nAn attempt is never tried again, and retry.on does not list the cause, where when: or\n"
        "a value that it starts with cannot be worked out:\n"
        "  %-14s%s\n",
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

int cli_help(const struct cli_command *cmd, char **argv)
{
    const struct cli_command *about;
    struct cli_list args = {0};
    struct fr_err err = {0};
    const struct cli_opt opts[] = {{.name = NULL}};
    enum fr_rc rc = cli_parse(cmd, opts, argv, &args, &err);
    char flag[] = "--help";
    char *asked[3] = {NULL, flag, NULL};
    int code = CLI_OK;

    if (rc != FR_OK) {
        code = cli_fail(&err);
    } else if (args.n == 0) {
        overview();
    } else if (strcmp(args.v[0], "exit-codes") == 0) {
        fr_print("flowrun ends with one of these exit codes:\n");
        cli_print_exits();
        fr_print(
            "\nWhat is so already is no mistake: 'resume' of a run that is over ends with that\n"
            "run's code, 'cancel' of it and 'retry' of one in which nothing failed with 0.\n");
    } else if (strcmp(args.v[0], "causes") == 0) {
        causes();
    } else if ((about = cli_command_find(args.v[0])) != NULL) {
        asked[0] = (char *)about->name;
        code = about->run(about, asked);
    } else {
        fr_complain("flowrun: there is no command '%s'; 'flowrun help' lists them\n", args.v[0]);
        code = CLI_USAGE;
    }
    cli_list_finish(&args);
    return code;
}

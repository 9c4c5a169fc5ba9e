/* man: the installed page, made from the table of commands. */
#include "engine/base/man.h"

#include "engine/base/log.h"
#include "engine/cli/cli.h"

#include <stdio.h>

static void add_options(struct fr_buf *out, const struct cli_opt *opts)
{
    for (const struct cli_opt *o = opts; o->name != NULL; o++) {
        char names[CLI_OPT_NAMES];

        cli_opt_names(o, names);
        if (o->help != NULL)
            fr_man_entry(out, names, o->meta != NULL ? o->meta : "", o->help);
    }
}

static void add_command(struct fr_buf *out, const struct cli_command *cmd)
{
    char title[120];

    snprintf(title, sizeof(title), "%s%s%s", cmd->name, cmd->args[0] != '\0' ? " " : "", cmd->args);
    fr_man_part(out, title);
    fr_man_text(out, cmd->help);
    if (cmd->more != NULL)
        fr_man_text(out, cmd->more);
    add_options(out, cmd->opts);
}

static void add_exits(struct fr_buf *out)
{
    fr_man_section(out, "EXIT STATUS");
    for (const struct cli_exit_text *e = cli_exit_texts(); e->text != NULL; e++) {
        char code[12];

        snprintf(code, sizeof(code), "%d", e->code);
        fr_man_entry(out, code, "", e->text);
    }
}

static void add_page(struct fr_buf *out)
{
    fr_man_begin(out, "flowrun", FLOWRUN_VERSION, "run pipelines of tasks on nodes");
    fr_man_section(out, "SYNOPSIS");
    fr_man_text(out, "flowrun FILE [-p NAME=VALUE]…\n\nflowrun COMMAND [ARGUMENTS]");
    fr_man_section(out, "DESCRIPTION");
    fr_man_text(out,
                "Runs a YAML graph of tasks on this machine, or on many over SSH, with retries, "
                "and keeps its state in SQLite. A task outlives the engine and the "
                "connection; 'flowrun resume' finds it where it is.");
    fr_man_section(out, "COMMANDS");
    for (const struct cli_command *cmd = cli_command_table(); cmd->name != NULL; cmd++)
        if (!cmd->hidden)
            add_command(out, cmd);
    fr_man_section(out, "ENVIRONMENT");
    fr_man_entry(out, "FLOWRUN_HOME", "",
                 "where state lies; else $XDG_STATE_HOME/flowrun, else ~/.local/state/flowrun");
    fr_man_entry(out, "FLOWRUN_LOG", "", "debug shows more of what flowrun does by itself");
    add_exits(out);
    fr_man_section(out, "SEE ALSO");
    fr_man_text(out, "flowtrain(1)");
}

enum fr_rc cli_man(struct cli_call *c, struct fr_err *err)
{
    struct fr_buf out = {0};
    enum fr_rc rc = FR_OK;

    (void)c;
    add_page(&out);
    if (out.bad)
        rc = fr_fail(err, FR_NOMEM, "no memory for the page");
    else
        fr_print_bytes(out.p, out.n);
    fr_buf_finish(&out);
    return rc;
}

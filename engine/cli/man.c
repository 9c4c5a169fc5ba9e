/* `flowrun man`: the page that is installed, of the tables that `flowrun help` prints. */
#include "engine/base/man.h"

#include "engine/base/complete.h"
#include "engine/base/log.h"
#include "engine/cli/cli.h"

#include <string.h>

static void add_options(struct fr_buf *out, const struct cli_opt *opts)
{
    for (const struct cli_opt *o = opts; o->name != NULL; o++) {
        struct fr_buf names = {0};

        if (o->letter != 0)
            fr_buf_fmt(&names, "-%c, ", o->letter);
        fr_buf_text(&names, o->name);
        if (!names.bad)
            fr_man_entry(out, names.p, o->meta != NULL ? o->meta : "", o->help);
        fr_buf_finish(&names);
    }
}

static enum fr_rc add_command(struct fr_buf *out, const struct cli_command *c, struct fr_err *err)
{
    struct fr_arena arena = {0};
    struct cli_opt *opts = NULL;
    enum fr_rc rc = cli_options_of(c, &arena, &opts, err);
    const char *title =
        fr_arena_fmt(&arena, "%s%s%s", c->name, c->args[0] != '\0' ? " " : "", c->args);

    if (rc == FR_OK && title == NULL)
        rc = fr_fail(err, FR_NOMEM, "no memory for the page");
    if (rc == FR_OK) {
        fr_man_part(out, title);
        fr_man_text(out, c->help);
        if (c->more != NULL)
            fr_man_text(out, c->more);
        add_options(out, opts);
    }
    fr_arena_finish(&arena);
    return rc;
}

static void run_exits(void *arg)
{
    (void)arg;
    cli_print_exits();
}

/* Lines "  3  text" as entries. */
static void add_exits(struct fr_buf *out)
{
    struct fr_buf lines = {0};
    char *rest = NULL;

    fr_capture(run_exits, NULL, &lines);
    fr_man_section(out, "EXIT STATUS");
    if (!lines.bad && lines.n > 0)
        for (char *l = strtok_r(lines.p, "\n", &rest); l != NULL; l = strtok_r(NULL, "\n", &rest)) {
            l[3] = '\0';
            fr_man_entry(out, l + 2, "", l + 5);
        }
    fr_buf_finish(&lines);
}

static enum fr_rc page(struct fr_buf *out, struct fr_err *err)
{
    enum fr_rc rc = FR_OK;

    fr_man_begin(out, "flowrun", FLOWRUN_VERSION, "run pipelines of tasks on nodes");
    fr_man_section(out, "SYNOPSIS");
    fr_man_text(out, "flowrun FILE [-p NAME=VALUE]…\n\nflowrun COMMAND [ARGUMENTS]");
    fr_man_section(out, "DESCRIPTION");
    fr_man_text(out,
                "Runs a YAML graph of tasks on this machine, or on many over SSH, with retries, "
                "and keeps its state in SQLite. A task outlives the engine and the "
                "connection; 'flowrun resume' finds it where it is.");
    fr_man_section(out, "COMMANDS");
    for (const struct cli_command *c = cli_command_table(); rc == FR_OK && c->name != NULL; c++)
        if (!c->hidden)
            rc = add_command(out, c, err);
    fr_man_section(out, "ENVIRONMENT");
    fr_man_entry(out, "FLOWRUN_HOME", "",
                 "where state lies; else $XDG_STATE_HOME/flowrun, else ~/.local/state/flowrun");
    fr_man_entry(out, "FLOWRUN_LOG", "", "debug shows more of what flowrun does by itself");
    add_exits(out);
    fr_man_section(out, "SEE ALSO");
    fr_man_text(out, "flowtrain(1)");
    return rc == FR_OK && out->bad ? fr_fail(err, FR_NOMEM, "no memory for the page") : rc;
}

int cli_man(const struct cli_command *cmd, char **argv)
{
    const struct cli_opt opts[] = {{.name = NULL}};
    struct cli_list args = {0};
    struct fr_buf out = {0};
    struct fr_err err = {0};
    enum fr_rc rc = cli_parse(cmd, opts, argv, &args, &err);

    if (rc == FR_OK)
        rc = page(&out, &err);
    if (rc == FR_OK)
        fr_print_bytes(out.p, out.n);
    fr_buf_finish(&out);
    cli_list_finish(&args);
    return rc == FR_OK ? CLI_OK : (int)cli_fail(&err);
}

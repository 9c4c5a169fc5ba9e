/*
 * flowtrain: the trainer's commands.
 */
#include "trainer/cli/cli.h"

#include "engine/base/log.h"
#include "engine/base/str.h"
#include "engine/base/built.h"
#include "trainer/cli/ranks.h"
#include "trainer/config/args.h"
#include "trainer/template/template.h"

#include <string.h>

static void usage(void)
{
    fr_print("flowtrain: LoRA fine-tuning of DeepSeek-V3, Llama, Mistral, Mixtral and Qwen "
             "models\n\n"
             "usage: flowtrain COMMAND [ARGUMENTS]\n\n");
    for (size_t i = 0; i < tr_ncommands; i++)
        fr_print("  %-10s %s\n", tr_commands[i]->name, tr_commands[i]->summary);
    fr_print("  %-10s %s\n", "version", "print the version; --verbose: of libraries, the chip too");
    fr_print("  %-10s %s\n", "completion", "bash, zsh or fish: print what completes words there");
    fr_print("  %-10s %s\n\n", "help",
             "this; help arguments: docs/arguments.md; help templates: names for --template");
    fr_print("flowtrain COMMAND --help lists a command's arguments.\n\nexit status:\n");
    for (size_t i = 0; i < tr_nexits; i++)
        fr_print("  %d  %s\n", tr_exits[i].status, tr_exits[i].meaning);
}

static int help(int argc, char **argv)
{
    struct fr_buf text = {0};

    if (argc < 3) {
        usage();
        return argc < 2 ? tr_exit_status(FR_USAGE) : 0;
    }
    if (argc == 3 && strcmp(argv[2], "templates") == 0)
        tr_template_names(&text);
    else if (argc == 3 && strcmp(argv[2], "arguments") == 0)
        tr_args_markdown(&text);
    else {
        fr_complain("flowtrain help: '%s': expected nothing, 'arguments' or 'templates'\n",
                    argv[2]);
        return tr_exit_status(FR_USAGE);
    }
    fr_print("%s", text.bad ? "" : text.p);
    fr_buf_finish(&text);
    return text.bad ? tr_exit_status(FR_NOMEM) : 0;
}

static int version(int argc, char **argv)
{
    bool verbose = argc == 1 && strcmp(argv[0], "--verbose") == 0;

    if (argc > (verbose ? 1 : 0)) {
        fr_complain("flowtrain version: '%s': expected nothing, or --verbose\n", argv[0]);
        return tr_exit_status(FR_USAGE);
    }
    fr_print("flowtrain %s (%s)\n", FLOWTRAIN_VERSION, fr_built);
    if (verbose)
        tr_about();
    return 0;
}

/* Commands that concern flowtrain itself: NULL where name is none of them. */
static const struct tr_command *own(const char *name)
{
    static const struct tr_command *const commands[] = {&tr_cmd_completion, &tr_cmd_complete,
                                                        &tr_cmd_man};

    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i];
    return NULL;
}

static int run(const struct tr_command *c, int argc, char **argv)
{
    struct fr_err err = {.rc = FR_OK};
    enum fr_rc rc = tr_command_run(c, argc - 2, (const char *const *)(argv + 2), &err);

    if (rc != FR_OK)
        fr_complain("flowtrain %s: %s\n", c->name, err.msg);
    return tr_exit_status(rc);
}

int main(int argc, char **argv)
{
    const char *names[64], *near;

    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return help(argc, argv);
    if (strcmp(argv[1], "version") == 0 || strcmp(argv[1], "--version") == 0) {
        return version(argc - 2, argv + 2);
    }
    if (own(argv[1]) != NULL)
        return run(own(argv[1]), argc, argv);
    for (size_t i = 0; i < tr_ncommands; i++) {
        names[i] = tr_commands[i]->name;
        if (strcmp(argv[1], names[i]) != 0)
            continue;
        tr_wait_briefly(argv);
        return run(tr_commands[i], argc, argv);
    }
    near = fr_suggest(argv[1], names, tr_ncommands);
    fr_complain("flowtrain: unknown command '%s'%s%s%s\n", argv[1],
                near != NULL ? ": did you mean '" : "", near != NULL ? near : "",
                near != NULL ? "'?" : "");
    return tr_exit_status(FR_USAGE);
}

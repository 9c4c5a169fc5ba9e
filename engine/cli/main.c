#include "engine/cli/cli.h"

#include "engine/base/log.h"
#include "engine/base/proc.h"

#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Whether a first word that is no command is the FILE of `flowrun run FILE`. */
static bool looks_like_file(const char *word)
{
    return strchr(word, '/') != NULL || strchr(word, '.') != NULL || access(word, F_OK) == 0;
}

static int unknown(const char *word)
{
    const char *names[64];
    size_t n = 0;
    const char *near;

    for (const struct cli_command *c = cli_command_table(); c->name != NULL && n < 64; c++)
        if (!c->hidden)
            names[n++] = c->name;
    near = fr_suggest(word, names, n);
    if (near != NULL)
        fr_complain("flowrun: there is no command or file '%s'; did you mean '%s'?\n", word, near);
    else
        fr_complain(
            "flowrun: there is no command or file '%s'; 'flowrun help' lists what there is\n",
            word);
    return CLI_USAGE;
}

/* The command among words that begin with an option, where no file has its name; NULL: none. */
static const char *command_behind(char **words)
{
    for (; *words != NULL; words++)
        if (**words != '-' && cli_command_find(*words) != NULL && access(*words, F_OK) != 0)
            return *words;
    return NULL;
}

static int command(int argc, char **argv)
{
    const char *late;
    const struct cli_command *cmd;
    char *none[] = {argv[0], NULL};

    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return cli_dispatch(cli_command_find("help"), none);
    if (strcmp(argv[1], "--version") == 0)
        return cli_dispatch(cli_command_find("version"), none);
    cmd = cli_command_find(argv[1]);
    if (cmd != NULL)
        return cli_dispatch(cmd, argv + 1);
    if (argv[1][0] == '-' && (late = command_behind(argv + 2)) != NULL) {
        fr_complain("flowrun: options stand behind the command: 'flowrun %s %s …'\n", late,
                    argv[1]);
        return CLI_USAGE;
    }
    if (argv[1][0] == '-' || looks_like_file(argv[1]))
        return cli_dispatch(cli_command_find("run"), argv);
    return unknown(argv[1]);
}

static void set_log_level(const char *word)
{
    static const char *const levels[] = {"error", "warn", "info", "debug"};

    for (int i = 0; word != NULL && i < 4; i++)
        if (strcmp(word, levels[i]) == 0)
            fr_log_level((enum fr_log_level)i);
}

int main(int argc, char **argv)
{
    int code;

    prctl(PR_SET_DUMPABLE, 0); /* memory has secrets: no core dump, no ptrace */
    fr_proc_raise_descriptors();
    set_log_level(getenv("FLOWRUN_LOG"));
    setlocale(LC_CTYPE, "C.UTF-8");
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGXFSZ, SIG_IGN); /* write() at the size limit fails like on a full disk */
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is no error: tasks go on */
    code = command(argc, argv);
    if (!fr_print_ok() && !fr_print_left()) {
        fr_complain("flowrun: the output could not be written\n");
        code = code == CLI_OK ? CLI_HOME : code;
    }
    return code;
}

/*
 * The flowrun program: a command a file, one table (table.c). A command parses its options, does
 * its work, prints an error once, and returns an exit code.
 */
#ifndef FR_CLI_CLI_H
#define FR_CLI_CLI_H

#include "engine/client/ask.h"
#include "engine/client/exits.h"
#include "engine/client/pipeline.h"
#include "engine/client/session.h"

#include <stdio.h>

/* ---- options ---- */

struct cli_opt {
    const char *name; /* "--param" */
    char letter;      /* 'p', 0: none */
    const char *meta; /* "NAME=VALUE"; NULL: a flag */
    const char *help;
    bool *flag; /* one of these three */
    const char **value;
    struct cli_list *list; /* may be given several times */
    const char *words;     /* all that its value may be, parted by spaces; NULL: anything */
};

struct cli_command {
    const char *name;
    const char *args; /* "[RUN] [TASK]" */
    const char *help; /* one line */
    const char *more; /* further lines for its own help; may be NULL */
    int (*run)(const struct cli_command *cmd, char **argv); /* argv ends with NULL */
    bool hidden;
};

/* NULL when there is none of that name. */
const struct cli_command *cli_command_find(const char *name);
const struct cli_command *cli_command_table(void); /* ended by a NULL name */

/* Takes the options of opts (ended by a NULL name) out of argv[1..]; the rest stays in args, as
 * many as cmd->args allows. FR_STOPPED: help was asked for and printed. FR_USAGE. */
enum fr_rc cli_parse(const struct cli_command *cmd, const struct cli_opt *opts, char **argv,
                     struct cli_list *args, struct fr_err *err);
/* Where the first word says more of how many there may be. */
enum fr_rc cli_args_between(const struct cli_command *cmd, const struct cli_list *args, size_t min,
                            size_t max, struct fr_err *err);
void cli_print_help(const struct cli_command *cmd, const struct cli_opt *opts);
/* Those of a command, ended by a NULL name, in arena; without flag, value and list. */
enum fr_rc cli_options_of(const struct cli_command *cmd, struct fr_arena *arena,
                          struct cli_opt **out, struct fr_err *err);

/* ---- status.c ---- */

/* Whether a task failed itself. Tasks that waited for another one or were cancelled did not. */
bool cli_has_failed(const struct fr_inst_row *row);

/* ---- cancel.c ---- */

/* Cancels a run of the queue, and says so; one that has started meanwhile goes on, and it says
 * that. *code: what of it may still run; stays as it is otherwise. */
enum fr_rc cli_cancel_queued(struct fr_store *st, const struct fr_run_row *run, bool json,
                             int *code, struct fr_err *err);

/* ---- commands ---- */

int cli_run(const struct cli_command *cmd, char **argv);
int cli_resume(const struct cli_command *cmd, char **argv);
int cli_attach(const struct cli_command *cmd, char **argv);
int cli_watch(const struct cli_command *cmd, char **argv);
int cli_serve(const struct cli_command *cmd, char **argv);
int cli_api(const struct cli_command *cmd, char **argv);
int cli_web(const struct cli_command *cmd, char **argv);
int cli_token(const struct cli_command *cmd, char **argv);
int cli_backfill(const struct cli_command *cmd, char **argv);
int cli_backfills(const struct cli_command *cmd, char **argv);
int cli_rerun(const struct cli_command *cmd, char **argv);
int cli_retry(const struct cli_command *cmd, char **argv);
int cli_status(const struct cli_command *cmd, char **argv);
int cli_queue(const struct cli_command *cmd, char **argv);
int cli_runs(const struct cli_command *cmd, char **argv);
int cli_schedules(const struct cli_command *cmd, char **argv);
int cli_logs(const struct cli_command *cmd, char **argv);
int cli_cancel(const struct cli_command *cmd, char **argv);
int cli_rm(const struct cli_command *cmd, char **argv);
int cli_gc(const struct cli_command *cmd, char **argv);
int cli_pin(const struct cli_command *cmd, char **argv);
int cli_unpin(const struct cli_command *cmd, char **argv);
int cli_validate(const struct cli_command *cmd, char **argv);
int cli_graph(const struct cli_command *cmd, char **argv);
int cli_drain(const struct cli_command *cmd, char **argv);
int cli_undrain(const struct cli_command *cmd, char **argv);
int cli_nodes(const struct cli_command *cmd, char **argv);
int cli_show_config(const struct cli_command *cmd, char **argv);
int cli_schema(const struct cli_command *cmd, char **argv);
int cli_version(const struct cli_command *cmd, char **argv);
int cli_help(const struct cli_command *cmd, char **argv);
int cli_completion(const struct cli_command *cmd, char **argv);
int cli_complete(const struct cli_command *cmd, char **argv);
int cli_man(const struct cli_command *cmd, char **argv);
int cli_notify(const struct cli_command *cmd, char **argv);
int cli_trace(const struct cli_command *cmd, char **argv);

#endif

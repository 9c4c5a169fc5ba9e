/*
 * The flowrun program: a command is a row of table.c and a function. cli_dispatch() takes the
 * command line apart by the row, runs the function, and prints an error once.
 */
#ifndef FR_CLI_CLI_H
#define FR_CLI_CLI_H

#include "engine/client/ask.h"
#include "engine/client/exits.h"
#include "engine/client/pipeline.h"
#include "engine/client/session.h"

#include <stdint.h>

struct cli_call;

/* On an error, the program prints err and ends with its exit code; else it ends with c->code. */
typedef enum fr_rc cli_command_fn(struct cli_call *c, struct fr_err *err);

/* An option that a command takes. It may be given several times. */
struct cli_opt {
    const char *name;  /* "--param" */
    char letter;       /* 'p'; 0: none */
    const char *meta;  /* its value in the help: "NAME=VALUE"; NULL: a flag, without a value */
    const char *help;  /* one line; NULL: neither help nor completion lists the option */
    const char *words; /* all values that are valid, separated by spaces; NULL: any */
};

struct cli_command {
    const char *name;
    const char *args; /* "[RUN] [TASK]": also gives the least and most number of arguments */
    const char *help; /* one line */
    const char *more; /* further lines for its own help; may be NULL */
    const struct cli_opt *opts; /* at most CLI_OPTS_MOST; a NULL name ends them */
    cli_command_fn *run;
    bool hidden; /* help does not list it */
    bool raw;    /* each word is an argument, also one that looks like an option */
};

enum { CLI_OPTS_MOST = 16 };

/* One command line, and what a command uses of the home; cli_dispatch() frees all of it. */
struct cli_call {
    const struct cli_command *cmd;
    struct cli_list args;                 /* the words that are no options */
    struct cli_list given[CLI_OPTS_MOST]; /* values of each option of the row; of a flag: "" */
    bool json;                            /* --json was given */
    int code;                             /* exit code after FR_OK; CLI_OK to start */
    /* Empty to start; a command fills what it needs. */
    struct cli_writer home;
    struct fr_config *config;
    struct fr_issues issues; /* mistakes in a file: printed in place of the error */
    struct cli_spec spec;
    struct fr_arena arena;
};

/* The command of that name; NULL: there is none. */
const struct cli_command *cli_command_find(const char *name);
const struct cli_command *cli_command_table(void); /* ended by a NULL name */

/* The option of cmd's row with that name; NULL: there is none. */
const struct cli_opt *cli_option(const struct cli_command *cmd, const char *name);

/* Runs cmd with argv[1] and what follows; argv ends with NULL. Returns the exit code. */
int cli_dispatch(const struct cli_command *cmd, char **argv);
void cli_print_help(const struct cli_command *cmd);
enum { CLI_OPT_NAMES = 40 };
void cli_opt_names(const struct cli_opt *o, char out[CLI_OPT_NAMES]); /* "-p, --param" */

/* ---- arguments and values; an option must be in the row of the command ---- */

const char *cli_arg(const struct cli_call *c, size_t i); /* NULL: there are not so many */
/* FR_USAGE: fewer than min or more than max arguments. For a command whose first word decides the
 * number of its arguments. */
enum fr_rc cli_args_between(const struct cli_call *c, size_t min, size_t max, struct fr_err *err);
bool cli_has(const struct cli_call *c, const char *option);
/* The last value of the option; NULL: it was not given. */
const char *cli_value(const struct cli_call *c, const char *option);
const struct cli_list *cli_values(const struct cli_call *c, const char *option);
#define cli_any_number ((struct cli_range){INT64_MIN, INT64_MAX})
struct cli_range {
    int64_t least, most; /* both inclusive */
};
/* *out: the option's value; unchanged if the option was not given. FR_USAGE: the value is no whole
 * number in range. */
enum fr_rc cli_number(const struct cli_call *c, const char *option, struct cli_range range,
                      int64_t *out, struct fr_err *err);
/* *out: the option's value; if it was not given, the argument otherwise. FR_USAGE: the value is
 * none of the option's words. */
enum fr_rc cli_word(const struct cli_call *c, const char *option, const char *otherwise,
                    const char **out, struct fr_err *err);
/* *at: the place of the first argument among verbs, which spaces separate; without arguments it
 * stays as it is. FR_USAGE: the argument is none of them. */
enum fr_rc cli_verb(const struct cli_call *c, const char *verbs, size_t *at, struct fr_err *err);
/* --json, --quiet and --verbose. */
struct cli_show_opts cli_shown(const struct cli_call *c);
/* Fills *out from file, --param and --nodes; *out borrows from c. file NULL: the pipeline is one
 * that the home keeps. */
enum fr_rc cli_pipeline(struct cli_call *c, const char *file, struct fr_spec_opts *out,
                        struct fr_err *err);

/* Fills *out from those options of body_keys() (engine/api/body.h) that the command has. Zero *out
 * first. FR_USAGE names an option with a wrong value. */
enum fr_rc cli_submit_options(const struct cli_call *c, struct fr_submit *out, struct fr_err *err);

/* ---- shared by commands ---- */

/* Begins or goes on with a run and shows it to its end, whose code becomes c->code. first: a line
 * before all others; NULL: none. */
enum fr_rc cli_begin(struct cli_call *c, struct cli_wish *wish, const char *first,
                     struct fr_err *err);

/* Whether a task failed itself. Tasks that waited for another one or were cancelled did not. */
bool cli_has_failed(const struct fr_inst_row *row);

/* Cancels a queued run and prints that; a run that has started meanwhile goes on. If tasks of the
 * run may still go on, c->code becomes the exit code of an error; else it is unchanged. */
enum fr_rc cli_cancel_queued(struct cli_call *c, const struct fr_run_row *run, struct fr_err *err);

/* The actions of notify. cli_deliver() reads a delivery from stdin as JSON, sends it, and prints
 * the result as JSON. */
cli_command_fn cli_deliveries_list, cli_deliveries_test, cli_deliveries_again, cli_deliver;

/* *out: the trace of a run as fr_trace_run() makes it; the caller drops it. run: an id or number,
 * as for fr_store_run_find(). */
enum fr_rc cli_trace_of(struct cli_call *c, const char *run, json_t **out, struct fr_err *err);

/* ---- the functions of the rows ---- */

cli_command_fn cli_api, cli_attach, cli_backfill, cli_backfills, cli_cancel, cli_complete,
    cli_completion, cli_drain, cli_gc, cli_graph, cli_help, cli_logs, cli_man, cli_nodes,
    cli_notify, cli_pin, cli_queue, cli_rerun, cli_resume, cli_retry, cli_rm, cli_run, cli_runs,
    cli_schedules, cli_schema, cli_serve, cli_show_config, cli_status, cli_token, cli_trace,
    cli_undrain, cli_unpin, cli_validate, cli_version, cli_watch, cli_web;

#endif

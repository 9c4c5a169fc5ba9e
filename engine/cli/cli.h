/*
 * The flowrun program: a command a file, one table (table.c). A command parses its options, does
 * its work, prints an error once, and returns an exit code.
 */
#ifndef FR_CLI_CLI_H
#define FR_CLI_CLI_H

#include "engine/base/json.h"
#include "engine/cli/ask.h"
#include "engine/cli/out.h"
#include "engine/host/host.h"
#include "engine/run/run.h"
#include "engine/web/server.h"

#include <stdio.h>

/* Exit codes, also in README and `flowrun help exit-codes`; their texts stand in exits.c. */
enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,      /* the run failed, or the node, file or task asked about */
    CLI_USAGE = 2,       /* wrong input: a file, flag, value or name */
    CLI_CANCELLED = 3,   /* the run was cancelled */
    CLI_LEFT = 4,        /* left before the end; tasks go on, `flowrun resume` takes over */
    CLI_OWNED = 5,       /* another process is in the way */
    CLI_UNREACHABLE = 6, /* a node could not be reached or used */
    CLI_HOME = 7,        /* the state folder or its disk */
    CLI_INTERNAL = 8     /* a fault of flowrun itself */
};

enum cli_exit cli_exit_of(enum fr_rc rc);
void cli_print_exits(void);

struct cli_model;
enum cli_exit cli_exit_of_run(const struct cli_model *m); /* of a run that is over */

/* Prints err on stderr and returns its exit code. */
enum cli_exit cli_fail(const struct fr_err *err);
enum cli_exit cli_fail_issues(const struct fr_issues *issues, const struct fr_err *err);

/* ---- options ---- */

struct cli_list {
    const char **v;
    size_t n;
};

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
void cli_list_finish(struct cli_list *list);
void cli_print_help(const struct cli_command *cmd, const struct cli_opt *opts);
/* Those of a command, ended by a NULL name, in arena; without flag, value and list. */
enum fr_rc cli_options_of(const struct cli_command *cmd, struct fr_arena *arena,
                          struct cli_opt **out, struct fr_err *err);

/* ---- where things are ---- */

struct cli_paths {
    char *self;         /* this program */
    char *flownode_dir; /* folder of flownode */
    char cwd[4096];
};

enum fr_rc cli_paths_find(struct cli_paths *out, struct fr_err *err);
void cli_paths_finish(struct cli_paths *p);
/* For fr_run_env.program; arg is a struct cli_paths. */
enum fr_rc cli_program(void *arg, const char *name, struct fr_buf *out, struct fr_err *err);

/* Finds the home and makes it: its path, without links. */
enum fr_rc cli_home(struct fr_buf *out, struct fr_err *err);
/* Its store for writing, without a host: *lock_fd keeps others from being it, and is closed behind
 * the store. FR_BUSY: another process is the host, and listens (or has not begun to for 10 s). */
enum fr_rc cli_store(struct fr_store **out, int *lock_fd, struct fr_err *err);
void cli_store_close(struct fr_store *st, int lock_fd); /* NULL and -1 are fine */
/* Its store, for reading. */
enum fr_rc cli_store_read(struct fr_store **out, struct fr_err *err);

struct fr_config;

/* The configuration of the home, or the one in file unless that is NULL. */
enum fr_rc cli_config(const char *file, struct fr_config **out, struct fr_issues *issues,
                      struct fr_err *err);

/* ---- rows of the store (status.c) ---- */

struct fr_inst_row;
struct fr_run_row;

/* Whether a host drives the run now. */
bool cli_is_driven(struct fr_store *st, const struct fr_run_row *row);
/* State of a run in a word: "left" when nobody drives it; a queued one is "queued" in any case. */
const char *cli_run_word(struct fr_store *st, const struct fr_run_row *row);
/* Date and time; duration up to now when ended is 0. "-": not begun. */
void cli_date(int64_t wall_ms, char out[32]);
void cli_took(int64_t started_wall, int64_t ended_wall, char out[24]);
/* Whether a task failed itself. Tasks that waited for another one or were cancelled did not. */
bool cli_has_failed(const struct fr_inst_row *row);

/* ---- which run (pick.c) ---- */

enum cli_pick {
    CLI_PICK_RESUME,  /* runs that are not over and that nobody drives */
    CLI_PICK_ABANDON, /* for resume --abandon: those that somebody drives, too */
    CLI_PICK_CANCEL,  /* likewise */
    CLI_PICK_ATTACH,  /* likewise */
};

/* The run that given names, as fr_store_run_find(). NULL: the only one that can be acted on, which
 * is said on stderr; of several the user chooses on a terminal, else they are listed. FR_USAGE,
 * FR_NOTFOUND; FR_BUSY: another flowrun drives the only one. */
enum fr_rc cli_pick_run(struct fr_store *st, const char *given, enum cli_pick act,
                        struct fr_arena *arena, struct fr_run_row *out, struct fr_err *err);

/* ---- showing a run while it goes (show.c, order.c, live.c, json.c) ---- */

struct cli_show;

struct cli_show_opts {
    bool json;
    bool quiet;         /* no task output; without json: only what failed, and the end */
    bool verbose;       /* also when a task starts, runs and is stopped */
    const char *curves; /* the home: curves of metrics in place of task output; NULL: none */
    struct fr_loop *loop;
    struct cli_out *out;
};

enum fr_rc cli_show_create(struct cli_show **out, const struct cli_show_opts *opts,
                           struct fr_err *err);
struct fr_view cli_show_view(struct cli_show *show);
/* Another host has the run from now on: what the one before said of a node is not said again. */
void cli_show_moved(struct cli_show *show);
/* Prints a line of flowrun itself, among the lines of tasks. */
void cli_show_say(struct cli_show *show, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The first lines, and the table at the end. Behind cli_show_begin_stored() it takes the run over:
 * the notes of run follow those that a follower gave. */
enum fr_rc cli_show_begin(struct cli_show *show, const struct fr_run *run, struct fr_err *err);
/* The same for a run of another process, before its first note. Borrows plan. */
enum fr_rc cli_show_begin_stored(struct cli_show *show, const struct fr_run_row *row,
                                 const struct fr_plan *plan, struct fr_err *err);
/* What happened before the user asked is known, not shown: the note is taken silently. */
void cli_show_learn(struct cli_show *show, const struct fr_note *note);
/* Shows what the note says; cli_show_view() calls it, a follower does. */
void cli_show_note(struct cli_show *show, const struct fr_note *note);
void cli_show_end(struct cli_show *show);
void cli_show_curves(struct cli_show *show); /* looks whether metrics have grown */
const struct cli_model *cli_show_model(const struct cli_show *show); /* borrowed */
void cli_show_destroy(struct cli_show *show);

/* Appends doc as a line, safe for a terminal, and drops doc. NULL appends nothing. */
void cli_add_json(struct fr_buf *out, json_t *doc);
/* Prints that line. */
void cli_put_json(json_t *doc);

/* ---- a process that shows a run, as the home's host or not (drive.c) ---- */

struct cli_drive { /* zero it; a test may put its own paths, loop and links.make_link here */
    struct cli_paths paths;
    struct fr_loop loop;
    struct fr_nodes_args links; /* of a host */
    struct fr_buf home;         /* the path */
    struct cli_out *out;        /* all that is printed meanwhile */
    struct cli_show *show;
    bool shown;  /* the run's first lines are, its last ones are not */
    bool nested; /* inside a task of this home */
    /* As the home's host; else NULL. */
    bool leads; /* lock_fd holds the home's lock */
    int lock_fd;
    struct fr_store *store;
    struct fr_host *host;
    struct fr_api api;
    struct fr_server *server;
    /* Signals. */
    struct fr_watch *watches[3];
    struct fr_timer *stop_timer; /* armed by the first Ctrl-C */
    void (*stop)(void *arg);     /* stops all tasks of the run */
    void *stop_arg;
    int64_t run_no;
    int interrupts;
    bool asks;          /* a host is asked for the run: the first Ctrl-C waits for its answer */
    bool stop_said;     /* that tasks are stopped */
    bool stays, reload; /* a host that stays: SIGHUP asks for its configuration */
    bool stopping;      /* stop was called */
    bool leave;         /* and why */
    const char *why;
};

/* Paths, loop and view. Of how: json, quiet, verbose. */
enum fr_rc cli_drive_init(struct cli_drive *d, const struct cli_show_opts *how, struct fr_err *err);
void cli_drive_finish(struct cli_drive *d);

/* Becomes the home's host. FR_BUSY: another process is. */
enum fr_rc cli_lead(struct cli_drive *d, struct fr_err *err);
/* Reads the home's configuration again. On an error the host keeps the one that it has. */
enum fr_rc cli_configure(struct cli_drive *d, struct fr_err *err);
void cli_unlead(struct cli_drive *d);
/* As the host: turns the run to its end, or until the user leaves; then drops it and is the host no
 * more. */
enum cli_exit cli_drive(struct cli_drive *d, struct fr_run *run);

/* Now the first Ctrl-C calls stop for run no, the second leaves. NULL: any signal leaves. */
void cli_on_stop(struct cli_drive *d, int64_t no, void (*stop)(void *arg), void *arg);
/* Says that the user left, and what goes on. */
enum cli_exit cli_left(const struct cli_drive *d);

/* This process's own shell. */
struct fr_run_shell cli_shell(const char *cwd);

/* ---- beginning or going on with a run, wherever its host is (go.c) ---- */

struct cli_wish {
    const struct fr_submit *submit; /* NULL: resume */
    struct fr_resume_opts resume;
    char id[FR_ID_TEXT]; /* of the run, once it is known */
};

/* Hands the run to the home's host and shows it, or is the host; when the host goes, becomes it or
 * follows the next. Reports errors itself. The view is gone behind it. */
enum cli_exit cli_go(struct cli_drive *d, struct cli_wish *wish);

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

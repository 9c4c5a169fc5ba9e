/* A process that shows a run, as the home's host or as a follower: its paths, the choice of the
 * run, its loop, view and signals. */
#ifndef FR_CLIENT_SESSION_H
#define FR_CLIENT_SESSION_H

#include "engine/client/ask.h"
#include "engine/client/exits.h"
#include "engine/host/host.h"
#include "engine/show/show.h"
#include "engine/web/server.h"

/* ---- where things are ---- */

struct cli_paths {
    char *self;         /* owns: path of this program */
    char *flownode_dir; /* owns: folder of flownode */
    char cwd[4096];
};

enum fr_rc cli_paths_find(struct cli_paths *out, struct fr_err *err);
void cli_paths_finish(struct cli_paths *p);
/* The function of fr_run_env.program; arg is a struct cli_paths. */
enum fr_rc cli_program(void *arg, const char *name, struct fr_buf *out, struct fr_err *err);

/* Appends the path of the home, without links; makes the folder if it is missing. */
enum fr_rc cli_home(struct fr_buf *out, struct fr_err *err);
/* Opens the store of the home for reading. */
enum fr_rc cli_store_read(struct fr_store **out, struct fr_err *err);

struct fr_config;

/* Loads the configuration from file; NULL: of the home. *out is the caller's to destroy. */
enum fr_rc cli_config(const char *file, struct fr_config **out, struct fr_issues *issues,
                      struct fr_err *err);

/* ---- runs of the store (driven.c) ---- */

struct fr_run_row;

/* Whether a host drives the run now. */
bool cli_is_driven(struct fr_store *st, const struct fr_run_row *row);
/* The state of a run as a word; "left": it is open and not queued, and no host drives it. */
const char *cli_run_word(struct fr_store *st, const struct fr_run_row *row);
bool cli_is_queued(const struct fr_run_row *row);

/* ---- which run (pick.c) ---- */

enum cli_pick {
    CLI_PICK_RESUME,  /* open runs that no host drives */
    CLI_PICK_ABANDON, /* for resume --abandon: all open runs */
    CLI_PICK_CANCEL,  /* likewise */
    CLI_PICK_ATTACH,  /* likewise */
};

/* Finds the run that given names, as fr_store_run_find(). given NULL: takes the only possible run
 * and names it on stderr; among several, the user chooses on a terminal, else all are listed and it
 * is FR_USAGE. FR_NOTFOUND: there is no run. FR_BUSY: another flowrun drives the only one. */
enum fr_rc cli_pick_run(struct fr_store *st, const char *given, enum cli_pick act,
                        struct fr_arena *arena, struct fr_run_row *out, struct fr_err *err);

/* ---- a process that shows a run, as the home's host or not (drive.c) ---- */

struct cli_drive { /* zero it; a test may put its own paths, loop and links.make_link here */
    struct cli_paths paths;
    struct fr_loop loop;
    struct fr_nodes_args links; /* of a host */
    struct fr_buf home;         /* path of the home */
    struct cli_out *out;        /* stdout and stderr */
    struct cli_show *show;
    bool shown;  /* the first lines of the run were printed, the last ones were not */
    bool nested; /* this process runs inside a task of the home */
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
    bool asks;      /* a request for the run is pending: the first Ctrl-C waits for the answer */
    bool stop_said; /* the line that tasks are stopped was printed */
    bool stays, reload; /* serve: SIGHUP sets reload, so that the configuration is read again */
    bool stopping;      /* stop was called */
    bool leave;         /* a signal ends this process; why names the signal */
    const char *why;
};

/* Creates loop, view and signals: enough for a process that is never the host. Of how: json, quiet,
 * verbose and curves. Call cli_drive_finish() after an error, too. */
enum fr_rc cli_drive_show(struct cli_drive *d, const struct cli_show_opts *how, struct fr_err *err);
/* The same, and the paths. */
enum fr_rc cli_drive_init(struct cli_drive *d, const struct cli_show_opts *how, struct fr_err *err);
void cli_drive_finish(struct cli_drive *d);

/* Becomes the home's host. FR_BUSY: another process is. */
enum fr_rc cli_lead(struct cli_drive *d, struct fr_err *err);
/* Reads the home's configuration again. After an error the host keeps the old one. */
enum fr_rc cli_configure(struct cli_drive *d, struct fr_err *err);
void cli_unlead(struct cli_drive *d);
/* As the host, before it ends: prints what is left that users should know of. */
void cli_say_owed(struct cli_drive *d);
/* As the host: drives the run to its end, or until the user leaves; then stops being the host. */
enum cli_exit cli_drive(struct cli_drive *d, struct fr_run *run);

/* From now on, the first Ctrl-C calls stop for run no, and the second leaves. NULL: any signal
 * leaves. */
void cli_on_stop(struct cli_drive *d, int64_t no, void (*stop)(void *arg), void *arg);
/* Turns the loop once, for at most ms. */
enum fr_rc cli_pause(struct cli_drive *d, int64_t ms, struct fr_err *err);
/* Prints that the user left, and what goes on without this process. */
enum cli_exit cli_left(const struct cli_drive *d);

/* This process's own shell. */
struct fr_run_shell cli_shell(const char *cwd);
const char *cli_getenv(void *self, const char *name); /* getenv(name), for the getenv of opts */

/* ---- beginning or going on with a run, wherever its host is (go.c) ---- */

struct cli_wish {
    const struct fr_submit *submit; /* NULL: resume */
    struct fr_resume_opts resume;
    char id[FR_ID_TEXT]; /* of the run, once it is known */
};

/* Hands the run to the home's host and shows it, or becomes the host. When the host ends, becomes
 * the host or follows the next one. Prints errors itself. Destroys d->show. */
enum cli_exit cli_go(struct cli_drive *d, struct cli_wish *wish);

#endif

/* Exit codes, as in README and `flowrun help exit-codes`. exits.c has their texts. */
#ifndef FR_CLIENT_EXITS_H
#define FR_CLIENT_EXITS_H

#include "engine/spec/spec.h"

enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,      /* the run failed, or the command found processes that may still run */
    CLI_USAGE = 2,       /* wrong input: a file, flag, value or name */
    CLI_CANCELLED = 3,   /* the run was cancelled */
    CLI_LEFT = 4,        /* left before the end; tasks go on, `flowrun resume` takes over */
    CLI_OWNED = 5,       /* another flowrun holds the home or the run */
    CLI_UNREACHABLE = 6, /* a node could not be reached or used */
    CLI_HOME = 7,        /* the home, its disk or the output cannot be used */
    CLI_INTERNAL = 8     /* a fault of flowrun itself */
};

struct cli_exit_text { /* what an exit code means, for help */
    enum cli_exit code;
    const char *text;
};
const struct cli_exit_text *cli_exit_texts(void); /* a NULL text ends them */

struct cli_model;
enum cli_exit cli_exit_of_run(const struct cli_model *m); /* of a run that is over */

/* Prints err on stderr, unless it is FR_STOPPED, and returns its exit code. */
enum cli_exit cli_fail(const struct fr_err *err);
/* The same, but prints the issues instead of err if there are any. */
enum cli_exit cli_fail_issues(const struct fr_issues *issues, const struct fr_err *err);

#endif

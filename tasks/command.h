/*
 * Commands that a task runs, by argument vector and without a shell: either to read their output,
 * or to pass it on as it comes.
 */
#ifndef TASKS_COMMAND_H
#define TASKS_COMMAND_H

#include "engine/base/err.h"
#include "engine/base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct fr_command {
    const char *const *argv; /* NULL-ended; argv[0] a path, or a name looked up in PATH */
    int64_t timeout_ms;      /* 0: none. Afterwards it is killed */
    bool tee;                /* stdout and stderr go to our stdout as they come; SIGTERM, SIGINT and
                                SIGHUP are passed on */
    int log_fd;              /* with tee: they go there too, unless 0 */
    struct fr_buf out;       /* owns: stdout (with tee both, the newest KEPT_MAX bytes) */
    struct fr_buf err;       /* owns: stderr; without tee */
    int code;                /* exit status, or the signal's number when signaled */
    bool signaled;
    int passed; /* with tee: the newest signal passed on, 0 none */
};

/* Runs it to its end. FR_NOTFOUND: no such program. FR_TIMEOUT: killed. FR_OK: it ended, see code.
 */
enum fr_rc fr_command_run(struct fr_command *c, struct fr_err *err);

/* As fr_command_run, and FR_IO with the last line of stderr when it did not exit with 0. */
enum fr_rc fr_command_must(struct fr_command *c, struct fr_err *err);

void fr_command_finish(struct fr_command *c);

/* Whether a program of that name can be started from PATH. */
bool fr_program_found(const char *name);

/* The last line of text that is not blank. */
struct fr_str fr_last_line(const struct fr_buf *text);

#endif

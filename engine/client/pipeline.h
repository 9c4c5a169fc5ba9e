/* The options of commands that read a pipeline file. */
#ifndef FR_CLIENT_PIPELINE_H
#define FR_CLIENT_PIPELINE_H

#include "engine/client/session.h"

struct cli_list {
    const char **v;
    size_t n;
};
/* Appends value, which is borrowed. FR_NOMEM. */
enum fr_rc cli_list_add(struct cli_list *list, const char *value, struct fr_err *err);
void cli_list_finish(struct cli_list *list);

/* A pipeline file and its parameters, as the user gave them. Zero it to start. */
enum { CLI_OWN_FILES = 16 };
struct cli_spec {
    const char *file;
    struct cli_list params;
    const char *nodes; /* --nodes: the same as -p nodes=FILE */
    char *nodes_param;
    char cwd[4096];
    struct fr_arena arena;               /* of the texts of own */
    struct fr_source own[CLI_OWN_FILES]; /* pipes that only this process can read */
    size_t n_own;
    struct fr_config *config; /* owns: the home's configuration */
    struct fr_zones zones;
};
/* Makes the options of fr_spec_load(); *out borrows from s. Reads the home's configuration, and the
 * pipes among file and params. */
enum fr_rc cli_spec_opts(struct cli_spec *s, struct fr_spec_opts *out, struct fr_err *err);
/* Reads path once if it is a pipe or a terminal; otherwise does nothing. cli_spec_opts() calls it
 * for the pipeline file and for descriptors in params ("/dev/stdin", "/dev/fd/63"). */
enum fr_rc cli_spec_take(struct cli_spec *s, const char *path, struct fr_err *err);
/* The text that cli_spec_take() read from path; NULL: path is a file. */
const struct fr_source *cli_spec_taken(const struct cli_spec *s, const char *path);
/* Call before another process, the host of home, gets the pipeline. FR_USAGE: opts name a pipe,
 * which only this process can read. */
enum fr_rc cli_spec_shared(const struct fr_spec_opts *opts, const char *home, struct fr_err *err);
void cli_spec_finish(struct cli_spec *s);

#endif

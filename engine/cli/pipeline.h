/* The options of commands that read a pipeline file (opts.c). */
#ifndef FR_CLI_PIPELINE_H
#define FR_CLI_PIPELINE_H

#include "engine/cli/cli.h"

/* Pipeline options that several commands share: fills opts from a file and -p values. */
struct cli_spec {
    const char *file;
    struct cli_list params;
    const char *nodes; /* --nodes: the same as -p nodes=FILE */
    char *nodes_param;
    char cwd[4096];
    struct fr_config *config; /* owns: the home's */
    struct fr_zones zones;
};
enum fr_rc cli_spec_opts(struct cli_spec *s, struct fr_spec_opts *out, struct fr_err *err);
void cli_spec_finish(struct cli_spec *s);

#endif

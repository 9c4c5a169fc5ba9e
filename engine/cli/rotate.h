/*
 * The log file of serve, for stdout and stderr. A full FILE is renamed to FILE.1, FILE.1 to FILE.2,
 * and so on; the oldest is replaced.
 */
#ifndef FR_CLI_ROTATE_H
#define FR_CLI_ROTATE_H

#include "engine/base/err.h"

#include <stdint.h>

enum { CLI_ROTATE_BYTES = 8 << 20, CLI_ROTATE_FILES = 5 };

/* Opens the file (0600) for appending, as stdout and stderr. FR_IO; FR_USAGE: no regular file. */
enum fr_rc cli_rotate_open(const char *path, struct fr_err *err);
/* Begins a new file if stderr's file has max bytes. After an error the old file stays in use. */
enum fr_rc cli_rotate(const char *path, int64_t max, struct fr_err *err);

#endif

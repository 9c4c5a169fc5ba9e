/*
 * The log of a host that stays: stdout and stderr go to a file. When that is full it becomes
 * FILE.1, what was FILE.1 becomes FILE.2, and so on; the oldest goes.
 */
#ifndef FR_CLI_ROTATE_H
#define FR_CLI_ROTATE_H

#include "engine/base/err.h"

#include <stdint.h>

enum { CLI_ROTATE_BYTES = 8 << 20, CLI_ROTATE_FILES = 5 };

/* Makes or goes on with the file (0600), from now on stdout and stderr. FR_IO names it. */
enum fr_rc cli_rotate_open(const char *path, struct fr_err *err);
/* Begins a new file if this one has max bytes. It goes on with the old one when that fails. */
enum fr_rc cli_rotate(const char *path, int64_t max, struct fr_err *err);

#endif

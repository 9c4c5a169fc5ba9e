/*
 * Checks of a folder's owner: whoever may write in a folder that flowrun takes orders from decides
 * what runs as its user. sshd checks the files of a login likewise.
 */
#ifndef FR_BASE_OWNER_H
#define FR_BASE_OWNER_H

#include "engine/base/err.h"

#include <stdbool.h>
#include <sys/stat.h>

/* Whether the file belongs to the user of this process or to root; under sudo also to the user who
 * called sudo. */
bool fr_owner_trusted(const struct stat *st);

/* FR_DENIED, with owner and mode, unless the folder path is of somebody trusted, and writable for
 * nobody else. what ("the home") names it, remedy ("set FLOWRUN_HOME to a folder of your own") ends
 * the error's text. */
enum fr_rc fr_check_private(const char *path, const char *what, const char *remedy,
                            struct fr_err *err);
/* FR_DENIED when everybody may put another folder in the place of path, which is absolute: one
 * above it is writable for all, and not sticky as /tmp is. */
enum fr_rc fr_check_above(const char *path, struct fr_err *err);

#endif

/*
 * The home on control: one folder that holds the state of all runs of one user.
 *
 *   state.db           the store (store.h)
 *   blobs/<sha256>     spec, inventory and staged files, by content
 *   begun/<id>         a run whose blobs are being stored (blob.h)
 *   runs/<id>.lock     held (OFD lock) by the process that owns the run, for as long as it lives
 *   runs/<id>.sock     the owner listens here; a connection makes it read its requests
 *   runs/<id>/         logs and what was collected
 *   spool/             files on their way from node to node
 *
 * Locks and WAL do not work on network file systems, so a home there is refused (FR_UNSUPPORTED)
 * and the message names a local folder to take instead.
 */
#ifndef FR_STORE_HOME_H
#define FR_STORE_HOME_H

#include "engine/base/err.h"
#include "engine/base/str.h"

/* Path of the home: $FLOWRUN_HOME, else $XDG_STATE_HOME/flowrun, else $HOME/.local/state/flowrun;
 * appended to out, absolute. FR_USAGE when none of these variables is set. */
enum fr_rc fr_home_find(struct fr_buf *out, struct fr_err *err);

/* Makes the home's folder (0700) if it is not there, and replaces its path by the one without
 * symbolic links. The home itself and the folders above it may be links; what lies in the home may
 * not, so all later checks start from this path. */
enum fr_rc fr_home_resolve(struct fr_buf *home, struct fr_err *err);

/* Makes the folders in the home (0700) and checks the file system. home is a resolved path.
 * FR_DENIED: one of the folders is a symbolic link. */
enum fr_rc fr_home_make(const char *home, struct fr_err *err);

enum fr_home_file {
    FR_HOME_LOCK,  /* runs/<id>.lock */
    FR_HOME_SOCK,  /* runs/<id>.sock */
    FR_HOME_RUN,   /* runs/<id> */
    FR_HOME_SPOOL, /* spool/<id> */
};

/* Appends the path of one of a run's files to out. */
void fr_home_at(const char *home, enum fr_home_file what, struct fr_id run, struct fr_buf *out);

/* Takes the run: *fd holds the lock until it is closed. FR_BUSY when another process owns it for a
 * second: a dead owner's lock may live on for a moment in a process that it was starting. */
enum fr_rc fr_home_own(const char *home, struct fr_id run, int *fd, struct fr_err *err);

/* True when a living process owns the run. */
bool fr_home_owned(const char *home, struct fr_id run);

/* Tells the owner that requests wait. FR_NOTFOUND when the run has no owner. */
enum fr_rc fr_home_notify(const char *home, struct fr_id run, struct fr_err *err);

#endif

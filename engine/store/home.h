/*
 * The home on control: one folder that holds the state of all runs of one user.
 *
 *   state.db           the store (store.h)
 *   blobs/<sha256>     spec, inventory and staged files, by content
 *   begun/<id>         a run whose blobs are being stored (blob.h)
 *   host.lock          held (OFD lock) by the home's host for as long as it lives; says who it is
 *   host.sock          the host listens here
 *   runs/<id>/         logs and what was collected
 *   machines/<id>      how a node's machine fared (machine_file.h of the host)
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
 * FR_DENIED: one of the folders is a symbolic link; or the home, or its folder of local nodes, is
 * another user's, or others can write to it (owner.h). */
enum fr_rc fr_home_make(const char *home, struct fr_err *err);

enum fr_home_file {
    FR_HOME_RUN,   /* runs/<id> */
    FR_HOME_SPOOL, /* spool/<id> */
};

/* Appends the path of one of a run's files to out. */
void fr_home_at(const char *home, enum fr_home_file what, struct fr_id run, struct fr_buf *out);
/* Appends the path of the host's socket. */
void fr_home_sock(const char *home, struct fr_buf *out);

/* Who a process is, as far as it matters to those that share a home with it. 0: not known. */
struct fr_home_who {
    int64_t pid, uid;
    char boot[40];             /* boot id of its machine */
    uint64_t mnt, net, pid_ns; /* inode numbers of its namespaces, namespaces(7) */
    int64_t schema;            /* of the store: the newest that it knows */
};
struct fr_home_who fr_home_self(void);

/* Becomes the home's host: *fd holds the lock until it is closed, and the lock file says who this
 * is. FR_BUSY: another process is the host; err names it. */
enum fr_rc fr_home_lead(const char *home, int *fd, struct fr_err *err);

/* Checks that the lock file of *fd still has its name. If somebody removed the file, takes a new
 * lock and replaces *fd. FR_BUSY: another process was faster. */
enum fr_rc fr_home_keep(const char *home, int *fd, struct fr_err *err);

/* Who the host is; zeroes until it wrote that into the lock file. FR_NOTFOUND: no host. */
enum fr_rc fr_home_leader(const char *home, struct fr_home_who *out, struct fr_err *err);

/* A process that takes the lock soon listens at the socket, or releases the lock after one write;
 * others wait FR_HOME_BEGINS_MS at most for either. Waits a moment; false: a host listens, or
 * until_ms has passed. */
enum { FR_HOME_BEGINS_MS = 10000 };
bool fr_home_await(const char *home, int64_t until_ms);

/* Whether self may hand its runs to this host and take them over later. FR_DENIED: err names the
 * difference and the remedy. */
enum fr_rc fr_home_may_share(const char *home, const struct fr_home_who *self,
                             const struct fr_home_who *host, struct fr_err *err);

/* FR_BUSY: a flowrun from before hosts owns the run by runs/<id>.lock. Else *fd holds that lock;
 * -1: there is none. */
enum fr_rc fr_home_old_owner(const char *home, struct fr_id run, int *fd, struct fr_err *err);

#endif

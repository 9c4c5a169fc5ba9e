/*
 * The node's home: a folder (0700) that one control home owns on a node. No command starts in it.
 *
 *   lock             every serve and supervisor shares it while it lives; the exclusive holder
 *                    may replace the journal and remove files from the store
 *   journal          journal.h
 *   log/ATTEMPT      output of an attempt; its supervisor holds the file's lock as long as it lives
 *   log/ATTEMPT.idx  when it was written (logfile.h)
 *   log/ATTEMPT.tail tail of a full log (base/tail.h); empty once the log has it
 *   log/ATTEMPT.metrics  copy of the file that its task names as metrics: (metrics.h)
 *   s/ATTEMPT        socket of a live supervisor
 *   a/ATTEMPT/       folder of an attempt: its command starts there
 *   a/ATTEMPT.out    its FLOWRUN_OUTPUT
 *   store/           shipped files
 *   tmp/             files being received
 *   r/RUN            shared by every serve whose flowrun drives the run; the last removes it
 *   work/            FLOWRUN_WORK, where the inventory names no work folder; never cleared by us
 *
 * prune.h has the rules by which ended attempts and shipped files are removed.
 */
#ifndef FR_SUPERVISE_HOME_H
#define FR_SUPERVISE_HOME_H

#include "engine/base/err.h"
#include "engine/base/str.h"

enum { FR_HOME_MAX = 800, FR_NODE_PATH = 1024, FR_HOME_WAIT_MS = 20000 };

struct fr_node_home {
    char path[FR_HOME_MAX]; /* absolute, or as given */
    char boot[40];
    int journal, lock; /* owns */
};

/* Closes *fd unless it is -1, and makes it -1. */
void fr_fd_close(int *fd);

/* Makes missing folders and shares the lock. Waits while another process holds the lock
 * exclusively; FR_BUSY after FR_HOME_WAIT_MS. FR_USAGE: path is too long. FR_DENIED: others can
 * write to it (engine/base/owner.h). */
enum fr_rc fr_home_open(struct fr_node_home *h, const char *path, struct fr_err *err);
void fr_home_close(struct fr_node_home *h);

/* Takes the lock exclusively; false if another serve or supervisor holds it. Never waits. */
bool fr_home_alone(struct fr_node_home *h);
void fr_home_share(struct fr_node_home *h); /* shares it again */

enum fr_home_kind {
    FR_HOME_LOG,
    FR_HOME_INDEX,
    FR_HOME_TAIL,
    FR_HOME_METRICS,
    FR_HOME_SOCKET,
    FR_HOME_DIR,
    FR_HOME_OUTPUT
};

/* Path of an attempt's file or folder. */
void fr_home_path(const char *home, enum fr_home_kind kind, struct fr_id attempt,
                  char out[FR_NODE_PATH]);

/* Opens an attempt's file with the flags of open(2), and makes it 0600 with O_CREAT. Follows no
 * link at its end. -1 and errno on failure. */
int fr_home_file(const char *home, enum fr_home_kind kind, struct fr_id attempt, int flags);
/* The file's size; 0 if there is no regular file. */
uint64_t fr_home_bytes(const char *home, enum fr_home_kind kind, struct fr_id attempt);
void fr_home_unlink(const char *home, enum fr_home_kind kind, struct fr_id attempt);

/* False if a parent of path below home exists and is not a folder: a task may have planted a
 * symlink. */
bool fr_home_plain(const char *home, const char *path);

/* Whether the attempt's supervisor lives, which holds the lock of its log. No log: false. */
bool fr_home_alive(const char *home, struct fr_id attempt);

/* Shares the run's lock, r/ID, until fd is closed. The lock says that a flowrun drives the run. Its
 * file stays for prune.h: where files come and go with every run, ext4 passes over the places of
 * all that went lately before it makes the next. */
enum fr_rc fr_home_hold_run(const char *home, struct fr_id run, int *fd, struct fr_err *err);

/* Whether some serve holds that lock. */
bool fr_home_run_driven(const char *home, struct fr_id run);

#endif

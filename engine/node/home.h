/*
 * The node's home: a folder (0700) that one control home owns on a node.
 *
 *   journal          journal.h
 *   log/ATTEMPT      output of an attempt; its supervisor holds the file's lock as long as it lives
 *   log/ATTEMPT.idx  when it was written (logfile.h)
 *   s/ATTEMPT        socket of a live supervisor
 *   a/ATTEMPT/       folder of an attempt that has files or outputs
 *   store/           what was shipped here
 *   tmp/             files being received
 *   work/            FLOWRUN_WORK, where the inventory names no work folder
 */
#ifndef FR_NODE_HOME_H
#define FR_NODE_HOME_H

#include "engine/base/err.h"
#include "engine/base/str.h"

enum { FR_HOME_MAX = 800, FR_NODE_PATH = 1024 };

struct fr_node_home {
    char path[FR_HOME_MAX]; /* absolute, or as given */
    char boot[40];
    int journal; /* owns */
};

/* Makes the folders that are missing. FR_USAGE when path is too long. */
enum fr_rc fr_home_open(struct fr_node_home *h, const char *path, struct fr_err *err);
void fr_home_close(struct fr_node_home *h);

enum fr_home_kind { FR_HOME_LOG, FR_HOME_INDEX, FR_HOME_SOCKET, FR_HOME_DIR };

/* Path of what belongs to an attempt. */
void fr_home_path(const char *home, enum fr_home_kind kind, struct fr_id attempt,
                  char out[FR_NODE_PATH]);

/* True for a relative path without empty, "." and ".." parts. */
bool fr_path_is_inner(struct fr_str path);

/* Whether the attempt's supervisor lives: its lock is held. A log that is not there: no. */
bool fr_home_alive(const char *home, struct fr_id attempt);

#endif

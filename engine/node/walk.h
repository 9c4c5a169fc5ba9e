/*
 * A tree of files, one entry at a time, so that whoever goes through a large one can do something
 * else between. Links are named, not followed.
 */
#ifndef FR_NODE_WALK_H
#define FR_NODE_WALK_H

#include "engine/base/err.h"
#include "engine/base/sys.h"

enum { FR_WALK_PATH = 4096 };

enum fr_walk_entry {
    FR_WALK_END,   /* all of it was named */
    FR_WALK_FILE,  /* a file, a link, whatever is no folder */
    FR_WALK_ENTER, /* a folder; what is in it comes next */
    FR_WALK_LEAVE  /* the same folder, behind what is in it */
};

struct fr_walk_dir; /* a folder on the way to path */

struct fr_walk {
    struct fr_walk_dir *dirs; /* owns: the outermost first */
    size_t depth, cap;
    bool begun;
    char path[FR_WALK_PATH]; /* of the entry */
    struct stat st;          /* of the entry, not for LEAVE */
};

/* Begins at path: a file, a folder, or nothing at all. FR_IO: it is too long. */
enum fr_rc fr_walk_begin(struct fr_walk *w, const char *path, struct fr_err *err);

/* The next entry. An error names what could not be looked at; the walk may go on behind it. What
 * goes away meanwhile is passed over. */
enum fr_rc fr_walk_next(struct fr_walk *w, enum fr_walk_entry *entry, struct fr_err *err);

void fr_walk_finish(struct fr_walk *w); /* a zeroed one is fine */

#endif

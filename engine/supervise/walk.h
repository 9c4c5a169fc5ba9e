/*
 * Walks a tree of files, one entry a call, so that the caller can do other work between. Links are
 * named, not followed.
 */
#ifndef FR_SUPERVISE_WALK_H
#define FR_SUPERVISE_WALK_H

#include "engine/base/err.h"
#include "engine/base/sys.h"

enum { FR_WALK_PATH = 4096 };

enum fr_walk_entry {
    FR_WALK_END,   /* there are no more entries */
    FR_WALK_FILE,  /* a file, a link: anything but a folder */
    FR_WALK_ENTER, /* a folder; its entries come next */
    FR_WALK_LEAVE  /* the same folder, after its entries */
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

/* The next entry. An error names the entry that could not be read; the walk may go on after it. An
 * entry that disappears meanwhile is skipped. */
enum fr_rc fr_walk_next(struct fr_walk *w, enum fr_walk_entry *entry, struct fr_err *err);

void fr_walk_finish(struct fr_walk *w); /* a zeroed one is fine */

#endif

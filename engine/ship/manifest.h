/*
 * A file or a folder of control as it is shipped: listed and hashed. It may lie on a file system
 * that does not answer: made in a thread (fr_work), it touches nothing but itself.
 */
#ifndef FR_SHIP_MANIFEST_H
#define FR_SHIP_MANIFEST_H

#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/base/sha256.h"
#include "engine/ship/file.h"
#include "engine/ship/ignore.h"

#include <stdatomic.h>

struct fr_manifest_copy { /* what a file held once lies here, whatever is at path now */
    const char *path, *at;
    uint32_t mode;
};

struct fr_manifest {
    struct fr_arena arena; /* owns all */
    const char *path;      /* absolute */
    const char **exclude;  /* patterns of what is left out of a folder */
    size_t n_exclude;
    struct fr_manifest_copy *copies;
    size_t n_copies;
    char looks[FR_SHA256_TEXT]; /* of the one made before; "": unknown. Then of this one */
    atomic_ullong steps;        /* files looked at and pieces hashed so far: who waits may look */
    /* what was found */
    bool same; /* looks as before, so it was not hashed */
    bool kept; /* a copy of it is: it cannot change */
    bool folder;
    struct fr_ignore ignore;
    struct fr_ship_file *files; /* paths start with the hash */
    size_t n;
    char hash[FR_SHA256_TEXT]; /* of all names, modes and contents */
    struct fr_buf seen;        /* inside: what looks is the hash of */
    int64_t newest_s;          /* inside: change of the newest file */
};

/* Patterns in the folder's own FR_IGNORE_FILE come before those of exclude. FR_NOTFOUND, FR_DENIED,
 * FR_IO, FR_USAGE (what has no content) name the file. */
enum fr_rc fr_manifest_make(struct fr_manifest *l, struct fr_err *err);

#endif

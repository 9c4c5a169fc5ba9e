/*
 * A file or a folder of control, listed and hashed for shipping. Its file system may not answer, so
 * it is made in a thread (fr_work) and touches only its own memory.
 */
#ifndef FR_SHIP_MANIFEST_H
#define FR_SHIP_MANIFEST_H

#include "engine/base/arena.h"
#include "engine/base/file.h"
#include "engine/base/sha256.h"
#include "engine/ship/file.h"
#include "engine/ship/ignore.h"

#include <stdatomic.h>

struct fr_manifest_copy { /* a kept copy (at) of the former content of path */
    const char *path, *at;
    uint32_t mode;
};

struct fr_manifest {
    struct fr_arena arena; /* owns all */
    const char *path;      /* absolute */
    const char **exclude;  /* patterns of excluded files (ignore.h) */
    size_t n_exclude;
    struct fr_manifest_copy *copies;
    size_t n_copies;
    char looks[FR_SHA256_TEXT]; /* in: of the previous manifest; "": unknown. Out: of this one */
    atomic_ullong steps; /* files visited and pieces hashed so far; readable during the work */
    /* results */
    bool same; /* looks is unchanged, so nothing was hashed */
    bool kept; /* path is one of copies: it cannot change */
    bool folder;
    struct fr_ignore ignore;
    struct fr_ship_file *files; /* paths start with the hash */
    size_t n;
    char hash[FR_SHA256_TEXT]; /* of all names, modes and contents */
    struct fr_buf seen;        /* private: looks is its hash */
    int64_t newest_s;          /* private: newest change time of a file */
};

/* Lists and hashes; blocks. FR_NOTFOUND, FR_DENIED, FR_IO and FR_USAGE (no regular file or folder)
 * name the file. */
enum fr_rc fr_manifest_make(struct fr_manifest *l, struct fr_err *err);

#endif

#ifndef FR_SHIP_FILE_H
#define FR_SHIP_FILE_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"

#include <stdint.h>

/* One file of a put: local (a path, or bytes when local is NULL) becomes STORE/path on the node. */
struct fr_ship_file {
    const char *local;
    struct fr_str bytes;
    const char *path;   /* relative: "HASH/bin/flowtrain" */
    const char *sha256; /* 64 hex digits */
    uint64_t size;
    uint32_t mode; /* 0644 or 0755 */
};

/* Hashes the modes, hashes and paths of all files, and puts hash and a slash before each path
 * (in arena). hash has FR_SHA256_TEXT bytes. FR_NOMEM. */
enum fr_rc fr_ship_name(struct fr_ship_file *v, size_t n, struct fr_arena *arena, char *hash,
                        struct fr_err *err);

#endif

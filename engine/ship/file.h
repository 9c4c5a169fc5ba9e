#ifndef FR_SHIP_FILE_H
#define FR_SHIP_FILE_H

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

#endif

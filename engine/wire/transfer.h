/* The messages that carry files: open values, as those of message.h. */
#ifndef FR_WIRE_TRANSFER_H
#define FR_WIRE_TRANSFER_H

#include "engine/base/str.h"
#include "engine/wire/request.h"

#include <stdbool.h>
#include <stdint.h>

/* Ships a file to STORE/path, where STORE is the node home's store folder; path is
 * relative, without "." and ".." parts. Answer: put_state with the offset to go on from (size: it
 * is there already), then put_data against credit, then put_end; the last answer is put_state with
 * done, or error. */
struct fr_put_begin {
    uint64_t ref;
    struct fr_str path, sha256;
    uint64_t size;
    uint32_t mode;
    struct fr_id run;
};
struct fr_put_data {
    uint64_t ref, offset;
    struct fr_str bytes;
};
/* Reads a node's regular file from offset on. Answer: get_data against credit, window bytes at most
 * (0: no limit) and as many more as get_more allows, then get_end; or error. A relative path is
 * below the node home. */
struct fr_get {
    uint64_t ref;
    struct fr_str path;
    uint64_t offset, window;
    struct fr_id run; /* runs get their bytes in turn */
};
/* So many bytes more may come: as many are on the engine's disk. Without an answer. */
struct fr_get_more {
    uint64_t ref, bytes;
};
/* All regular files below a folder, deep; symlinks are not followed. Answer: listing or error. */
struct fr_list {
    uint64_t ref;
    struct fr_str path;
};

struct fr_put_state {
    uint64_t ref, offset;
    bool done;
    struct fr_str path; /* absolute */
};
struct fr_get_data {
    uint64_t ref, offset;
    struct fr_str bytes;
};
struct fr_get_end {
    uint64_t ref, size; /* size of the whole file */
    uint32_t mode;
};
struct fr_listing {
    uint64_t ref;
    struct fr_strs files; /* "SIZE MODE(octal) PATH", PATH relative, sorted */
};

#endif

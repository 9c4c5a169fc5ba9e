/*
 * Cache of SHA-256 sums of files, keyed by name, device, inode, size, mtime and ctime. A file whose
 * key is unchanged is not read again. Every write changes ctime, and no program can set ctime back;
 * two writes within one clock tick share a ctime. A sum is therefore cached only if reading began
 * at least two seconds after the last write. The cache misses writes to the disk below the file
 * system, and writes after the clock was set back.
 */
#ifndef TR_DATASET_CHECKSUM_CACHE_H
#define TR_DATASET_CHECKSUM_CACHE_H

#include "engine/base/file.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>

struct tr_checksum_cache {
    char path[PATH_MAX]; /* of the cache's file; "": no cache */
    json_t *files;       /* owns */
    json_t *seen;        /* owns: files summed since open, with their keys and sums */
    bool changed;
};

/* Opens the cache in the folder dir (NULL: no cache). A missing or damaged cache counts as empty.
 */
void tr_checksum_cache_open(struct tr_checksum_cache *s, const char *dir);
/* Writes the cache if it changed. A failed write only slows the next start down. */
void tr_checksum_cache_close(struct tr_checksum_cache *s);

/* As fr_sha256_file, without reading a file whose key is cached. A file written in the last two
 * seconds is not cached: another write could fall into the same clock tick. */
enum fr_rc tr_checksum_cache_sha256(struct tr_checksum_cache *s, const char *path,
                                    char out[FR_SHA256_TEXT], struct fr_err *err);

/* Call it after the work with those files. FR_CORRUPT names a file that was written or removed
 * since its sum was computed. A file that was too new to be cached is summed again
 * and cached, if its last write was more than two seconds ago. */
enum fr_rc tr_checksum_cache_settle(struct tr_checksum_cache *s, struct fr_err *err);

/* Whether the file's key is cached with this sum. */
bool tr_checksum_cache_have(const struct tr_checksum_cache *s, const char *path,
                            const char *sha256);
/* Caches sha256 under the file's present key. Does nothing if the file is gone or there
 * is no memory. */
void tr_checksum_cache_put(struct tr_checksum_cache *s, const char *path, const char *sha256);

#endif

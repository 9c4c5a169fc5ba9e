/*
 * Files whose SHA-256 is known from an earlier start: by name, device, inode, size, and the times
 * of the last write and of the last change of the inode. What is read whole once need not be read
 * again: a write gives a file another time of change, which no program can set back, once the
 * clock of the file system has ticked since the write before. So the sum is what the file holds
 * where reading began two seconds, or more, after the file was written. Not seen are writes past
 * the file system, to its disk, and those after the clock was set back.
 */
#ifndef TR_DATASET_CHECKSUM_CACHE_H
#define TR_DATASET_CHECKSUM_CACHE_H

#include "engine/base/file.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>

struct tr_checksum_cache {
    char path[PATH_MAX]; /* of the list; "": nothing is kept */
    json_t *files;       /* owns */
    json_t *seen; /* owns: those of tr_checksum_cache_sha256, as they looked and their sums */
    bool changed;
};

/* The list in the folder dir (NULL: none). A list that is missing or damaged is empty. */
void tr_checksum_cache_open(struct tr_checksum_cache *s, const char *dir);
/* Writes the list where it changed. A failure costs the next start its time. */
void tr_checksum_cache_close(struct tr_checksum_cache *s);

/* As fr_sha256_file, without reading a file that is as it was. One that was written in the last two
 * seconds is not put down: it could be written to again within the same tick of its clock. */
enum fr_rc tr_checksum_cache_sha256(struct tr_checksum_cache *s, const char *path,
                                    char out[FR_SHA256_TEXT], struct fr_err *err);

/* After the work with those files: FR_CORRUPT names one that was written to, or removed, since its
 * sum was made. Files that were too new then, and no longer are, are summed again and put down. */
enum fr_rc tr_checksum_cache_settle(struct tr_checksum_cache *s, struct fr_err *err);

/* Whether the file is as it was when it was put down with this sum. */
bool tr_checksum_cache_have(const struct tr_checksum_cache *s, const char *path,
                            const char *sha256);
void tr_checksum_cache_put(struct tr_checksum_cache *s, const char *path, const char *sha256);

#endif

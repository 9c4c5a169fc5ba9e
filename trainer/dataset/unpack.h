/*
 * Data files that are packed, by their names: .gz (RFC 1952; several members are one text), .zst
 * and .zstd (RFC 8878).
 */
#ifndef TR_DATASET_UNPACK_H
#define TR_DATASET_UNPACK_H

#include "engine/base/err.h"
#include "engine/base/str.h"

/* path without the ending of its compression format; all of path for other files. */
struct fr_str tr_unpacked_name(const char *path);

/* As fr_file_read, of the decompressed contents. FR_USAGE: the file is damaged or cut, or its
 * contents exceed max bytes. FR_UNSUPPORTED: this build lacks zstd. */
enum fr_rc tr_file_unpack(const char *path, size_t max, struct fr_buf *out, struct fr_err *err);

/* A decompression in progress: in is the file's bytes; output is appended to out. */
struct tr_unpack {
    const char *path; /* for messages */
    struct fr_str in;
    struct fr_buf *out;
    size_t max; /* bytes of out */
};

/* Appends output to u->out. FR_USAGE beyond u->max; FR_NOMEM. */
enum fr_rc tr_unpack_put(const struct tr_unpack *u, const void *p, size_t n, struct fr_err *err);
/* Returns FR_USAGE with the reason why this file cannot be unpacked. */
enum fr_rc tr_unpack_bad(const struct tr_unpack *u, const char *why, struct fr_err *err);

/* unpack_zstd.c, or unpack_none.c in a build without it. */
enum fr_rc tr_unpack_zstd(const struct tr_unpack *u, struct fr_err *err);

#endif

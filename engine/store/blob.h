/*
 * Files kept by content in the home: blobs/<sha256>. Written once (temporary name, fsync, rename),
 * never changed; the same content is stored once. A row that names a hash is committed only after
 * its blob is safe.
 */
#ifndef FR_STORE_BLOB_H
#define FR_STORE_BLOB_H

#include "engine/base/file.h"
#include "engine/base/str.h"

enum fr_rc fr_blob_put(const char *home, struct fr_str data, char hash[FR_SHA256_TEXT],
                       struct fr_err *err);
/* Copies the file at path in. FR_USAGE when it changed while it was read. */
enum fr_rc fr_blob_put_file(const char *home, const char *path, char hash[FR_SHA256_TEXT],
                            struct fr_err *err);
/* Appends the content to out after checking it against hash (FR_CORRUPT); at most 64 MiB. */
enum fr_rc fr_blob_get(const char *home, const char *hash, struct fr_buf *out, struct fr_err *err);
/* Appends the blob's path to out. */
void fr_blob_path(const char *home, const char *hash, struct fr_buf *out);
/* Removes what a flowrun that was killed had begun to write, an hour after it did. */
void fr_blob_tidy(const char *home);

#endif

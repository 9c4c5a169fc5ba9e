/*
 * Files kept by content in the home: blobs/<sha256>. Written once (temporary name, fsync, rename),
 * never changed; the same content is stored once. A row that names a hash is committed only after
 * its blob is safe. The home's host alone stores blobs: what neither a row nor a run that is being
 * made needs may go.
 */
#ifndef FR_STORE_BLOB_H
#define FR_STORE_BLOB_H

#include "engine/base/file.h"
#include "engine/base/str.h"
#include "engine/store/claims.h"
#include "engine/store/store.h"

/* Before the run's first put of what is not there: until fr_blob_unmark, which is called once the
 * rows that name the blobs are committed, fr_blob_tidy looks for blobs without a row. */
enum fr_rc fr_blob_mark(const char *home, struct fr_id run, struct fr_err *err);
/* Behind its last put: the mark again, if the next host has removed it. That one found no blobs of
 * this host then, which has lost the home's lock and commits no rows. */
enum fr_rc fr_blob_mark_again(const char *home, struct fr_id run, struct fr_err *err);
void fr_blob_unmark(const char *home, struct fr_id run);

struct fr_claims *fr_blob_claims(struct fr_store *st); /* the store's */
/* Before its put, in any thread: until fr_claims_end the blob is not dropped. *is_there: it need
 * not be put, but before rows name it fr_blob_sync makes its name safe, since whoever put it may
 * have been killed before that. */
enum fr_rc fr_blob_claim(struct fr_claims *claims, const char *home, struct fr_id run,
                         const char *hash, bool *is_there, struct fr_err *err);
enum fr_rc fr_blob_sync(const char *home, struct fr_err *err);
enum fr_rc fr_blob_put(const char *home, struct fr_str data, char hash[FR_SHA256_TEXT],
                       struct fr_err *err);
/* Copies the file at path in. FR_USAGE when it changed while it was read. */
enum fr_rc fr_blob_put_file(const char *home, const char *path, char hash[FR_SHA256_TEXT],
                            struct fr_err *err);
/* Appends the content to out after checking it against hash (FR_CORRUPT); at most 64 MiB. */
enum fr_rc fr_blob_get(const char *home, const char *hash, struct fr_buf *out, struct fr_err *err);
/* Appends the blob's path to out. */
void fr_blob_path(const char *home, const char *hash, struct fr_buf *out);
/* Inside a transaction: removes the blob unless a run that is not removed names or claims it. */
enum fr_rc fr_blob_drop(struct fr_store *st, const char *hash, struct fr_err *err);

struct fr_swept {
    size_t files;
    int64_t bytes;
};

/* Removes all blobs that no row names, and those that are half written; dry: counts them alone.
 * Outside of a transaction; each of its own is short. Adds to out. */
enum fr_rc fr_blob_sweep(struct fr_store *st, bool dry, struct fr_swept *out, struct fr_err *err);
/* The same when a mark says that a flowrun was killed, or failed, before its commit. What cannot be
 * removed now is tried again by the next. */
void fr_blob_tidy(struct fr_store *st);

#endif

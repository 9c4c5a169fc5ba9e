/*
 * Files kept by content in the home: blobs/<sha256>. Written once (temporary name, fsync, rename),
 * never changed; the same content is stored once. A row that names a hash is committed only after
 * its blob is safe. Only the home's host stores blobs; it may remove a blob that no row and no run
 * in the making needs.
 */
#ifndef FR_STORE_BLOB_H
#define FR_STORE_BLOB_H

#include "engine/base/file.h"
#include "engine/base/str.h"
#include "engine/store/claims.h"
#include "engine/store/store.h"

/* Called before the run's first put. Until fr_blob_unmark, called once the rows that name the blobs
 * are committed, fr_blob_tidy looks for blobs without a row. */
enum fr_rc fr_blob_mark(const char *home, struct fr_id run, struct fr_err *err);
/* Called after the run's last put: restores the mark if the next host removed it. That host then
 * has the home's lock, so this one commits no rows. */
enum fr_rc fr_blob_mark_again(const char *home, struct fr_id run, struct fr_err *err);
void fr_blob_unmark(const char *home, struct fr_id run);

struct fr_claims *fr_blob_claims(struct fr_store *st); /* owned by the store */
/* Called before a put, in any thread: the blob is not dropped until fr_claims_end. *is_there: no
 * put is needed, but call fr_blob_sync before rows name it, as its writer may have been killed
 * before its own sync. */
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

/* ---- the files of a run ---- */

#define FR_FILE_COLUMNS(C, S, R)                                                                   \
    C(R, TEXT, path, "path")                                                                       \
    C(R, INT, bytes, "bytes")                                                                      \
    C(R, TEXT, hash, "sha256")                                                                     \
    C(R, INT, mode, NULL)
FR_ROWS(fr_file, FR_FILE_COLUMNS); /* by path */

enum fr_rc fr_store_file_put(struct fr_store *st, struct fr_id run, const struct fr_file_row *row,
                             struct fr_err *err);
enum fr_rc fr_store_files(struct fr_store *st, struct fr_id run, struct fr_arena *arena,
                          struct fr_file_rows *out, struct fr_err *err);

struct fr_swept {
    size_t files;
    int64_t bytes;
};

/* Removes blobs that no row names and half-written ones; dry: only counts them. Call it outside of
 * a transaction: it uses short ones of its own. Adds to out. */
enum fr_rc fr_blob_sweep(struct fr_store *st, bool dry, struct fr_swept *out, struct fr_err *err);
/* The same if a mark shows that a flowrun was killed or failed before its commit. After a failure
 * the next call tries again. */
void fr_blob_tidy(struct fr_store *st);

#endif

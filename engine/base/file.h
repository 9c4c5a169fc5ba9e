/*
 * Whole files: read with a limit, replaced atomically (temporary file beside the target, fsync,
 * rename, fsync of the folder), made folders, hashed (SHA-256).
 */
#ifndef FR_BASE_FILE_H
#define FR_BASE_FILE_H

#include "engine/base/err.h"
#include "engine/base/str.h"

#include <sys/stat.h>
#include <sys/types.h>

enum { FR_SHA256_TEXT = 65 };

/* Opens a regular file for reading; *st may be NULL. Never waits for another process: FR_USAGE when
 * path is a folder, a FIFO, a socket or a device. */
enum fr_rc fr_file_open(const char *path, int *fd, struct stat *st, struct fr_err *err);
/* The same where path itself may not be a symbolic link. */
enum fr_rc fr_file_open_plain(const char *path, int *fd, struct fr_err *err);

/* Appends the bytes of a regular file to out. FR_USAGE when it is none, as of fr_file_open(), or is
 * larger than max_bytes. */
enum fr_rc fr_file_read(const char *path, size_t max_bytes, struct fr_buf *out, struct fr_err *err);

/* The same, of a path that a user named: FR_TIMEOUT, which names it, when its file system does not
 * answer within FR_FILE_SOON_MS; FR_STOPPED: a signal came meanwhile. */
enum { FR_FILE_SOON_MS = 15000 };
enum fr_rc fr_file_silent(const char *path, struct fr_err *err); /* fails with that FR_TIMEOUT */
enum fr_rc fr_file_read_soon(const char *path, size_t max_bytes, struct fr_buf *out,
                             struct fr_err *err);
/* lstat(2) with the same time limit: *failed is its errno, or 0. A link counts as its target, a
 * dangling one as itself. FR_TIMEOUT, FR_STOPPED. */
enum fr_rc fr_file_look_soon(const char *path, struct stat *st, int *failed, struct fr_err *err);
/* realpath(3) with the same time limit: *failed is its errno, or 0; out has PATH_MAX bytes. */
enum fr_rc fr_file_real_soon(const char *path, char *out, int *failed, struct fr_err *err);

/* As fr_file_read(), also of a pipe, a FIFO or a terminal, whose end is waited for. Only for a path
 * that the user of this process named on its command line, before the process serves others. */
enum fr_rc fr_file_read_any(const char *path, size_t max_bytes, struct fr_buf *out,
                            struct fr_err *err);

/* "a folder", "a FIFO", "a socket", "a device"; NULL: a regular file, or a link. */
const char *fr_file_kind(mode_t mode);

enum fr_rc fr_file_write(const char *path, const void *p, size_t n, mode_t mode,
                         struct fr_err *err);

/* Bytes in several places, to be written one after the other. */
struct fr_parts {
    const struct fr_str *v;
    size_t n;
};

enum fr_rc fr_file_write_parts(const char *path, const struct fr_parts *parts, mode_t mode,
                               struct fr_err *err);

/* Makes path and its parents, mode for those it makes. */
enum fr_rc fr_mkdirs(const char *path, mode_t mode, struct fr_err *err);

/* Whether path still names the file that fd is: it may be removed between open and lock. */
bool fr_file_is_named(int fd, const char *path);
/* FR_UNSUPPORTED when path is on a network file system or on FUSE, where locks and mapped memory
 * are unreliable. remedy ("set X to") stands in the error's text in front of "a local folder". */
enum fr_rc fr_check_local(const char *path, const char *remedy, struct fr_err *err);

/* FR_DENIED when path, or a folder on the way to it after its first `known` bytes, is a symbolic
 * link: flowrun makes none there. A path that does not exist is fine. */
enum fr_rc fr_check_unlinked(const char *path, size_t known, struct fr_err *err);

/* Removes a file or a whole tree; symlinks are removed, not followed. A path that does not exist is
 * fine. */
enum fr_rc fr_remove_tree(const char *path, struct fr_err *err);
/* The same for at most *left files and folders, which it counts down; at 0 some may be there still.
 */
enum fr_rc fr_remove_some(const char *path, size_t *left, struct fr_err *err);
/* Adds the bytes of all files below path, or of the file path; 0 for those that cannot be examined.
 */
int64_t fr_tree_bytes(const char *path);

/* fsync of a folder, so that a rename or a new name in it survives a power cut. */
enum fr_rc fr_sync_dir(const char *path, struct fr_err *err);

/* Loops over short reads and writes and EINTR; false and errno on failure or early end. */
bool fr_read_full(int fd, void *p, size_t n);
bool fr_write_full(int fd, const void *p, size_t n);
bool fr_pwrite_full(int fd, const void *p, size_t n, uint64_t at);

void fr_sha256(const void *p, size_t n, char out[FR_SHA256_TEXT]);
void fr_sha256_parts(const struct fr_parts *parts, char out[FR_SHA256_TEXT]);
enum fr_rc fr_sha256_file(const char *path, char out[FR_SHA256_TEXT], struct fr_err *err);

/* The same in steps of at most max_bytes each, for a large file; out is filled once *done. */
struct fr_hash;
enum fr_rc fr_hash_open(const char *path, struct fr_hash **out, struct fr_err *err);
enum fr_rc fr_hash_step(struct fr_hash *h, size_t max_bytes, bool *done, char out[FR_SHA256_TEXT],
                        struct fr_err *err);
void fr_hash_close(struct fr_hash *h); /* NULL is fine */

/* Hashes a slice of one file of many. *now is the file under way; NULL: path is opened. *left is
 * how many bytes may still be read in this turn of the loop; reading and opening count against it.
 * Once *done, or after an error, *now is NULL again. */
enum fr_rc fr_hash_slice(struct fr_hash **now, const char *path, size_t *left, bool *done,
                         char out[FR_SHA256_TEXT], struct fr_err *err);

#endif

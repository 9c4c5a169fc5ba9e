/*
 * The folder of an allocation, WORK/alloc/TAG, on the machine where Slurm's commands run: what is
 * put there before the job is submitted, and what the keepers of its places write (node/keep.h).
 * WORK is on a network file system, so these calls may take long.
 */
#ifndef FR_SUBMIT_FOLDER_H
#define FR_SUBMIT_FOLDER_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"

enum { FR_FOLDER_LOG = 600 /* bytes of the script's output that are read, the last ones */ };

/* Makes FOLDER with mode 0700, and WORK/bin/flownode-HASH, a copy of the program flownode, of which
 * *program is the path. FR_NOTFOUND: there is no WORK; other errors name what could not be made. */
enum fr_rc fr_folder_make(const char *folder, const char *flownode, struct fr_arena *arena,
                          const char **program, struct fr_err *err);
enum fr_rc fr_folder_script(const char *folder, const char *script, struct fr_err *err);

/* Adds what the keepers and the script have written so far: of each file "NAME BYTES", a newline,
 * its bytes and a newline. Nothing where there is no folder. */
enum fr_rc fr_folder_read(const char *folder, struct fr_buf *out, struct fr_err *err);
/* Takes the next file from what fr_folder_read() added. False: *rest is empty, or is none of that.
 */
bool fr_folder_next(struct fr_str *rest, struct fr_str *name, struct fr_str *bytes);

/* FR_USAGE: folder is no WORK/alloc/TAG. */
enum fr_rc fr_folder_remove(const char *folder, struct fr_err *err);

#endif

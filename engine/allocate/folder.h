/*
 * The folder of an allocation, WORK/alloc/TAG: what this machine puts there before the job is
 * submitted, and what the keepers of its places write (node/keep.h). WORK is on a network file
 * system, so these calls may take long: they are made in threads.
 */
#ifndef FR_ALLOCATE_FOLDER_H
#define FR_ALLOCATE_FOLDER_H

#include "engine/base/arena.h"
#include "engine/base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* Makes it with mode 0700, its script, and WORK/bin/flownode-HASH, a copy of the program of which
 * *program is the path. FR_NOTFOUND: there is no WORK; other errors name what could not be made. */
struct alloc_folder {
    const char *work, *folder;
    const char *flownode; /* path of the program on this machine */
};
enum fr_rc alloc_folder_make(const struct alloc_folder *f, struct fr_arena *arena,
                             const char **program, struct fr_err *err);
enum fr_rc alloc_folder_script(const char *folder, const char *script, struct fr_err *err);

struct alloc_place {     /* zero: its keeper has not written */
    const char *host;    /* name to Slurm; NULL: not known */
    const char *address; /* numeric */
    bool closed;         /* no process of it is left there */
};
struct alloc_seen {
    int64_t claimed; /* the job that has claimed the tag; 0: none yet */
    struct alloc_place *places;
    size_t n, n_known, n_closed;
    const char *error; /* of a keeper that could not begin; NULL */
};
/* What the keepers of that job have written; texts in arena. A file that is not there, or of
 * another job, counts as nothing. */
enum fr_rc alloc_folder_read(const char *folder, int64_t job, size_t n, struct fr_arena *arena,
                             struct alloc_seen *out, struct fr_err *err);
/* The end of what the script printed, as one line; "": nothing. */
const char *alloc_folder_log(const char *folder, struct fr_arena *arena);

#endif

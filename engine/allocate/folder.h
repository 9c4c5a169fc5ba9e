/* What the keepers of an allocation have written into its folder (submit/folder.h). Pure. */
#ifndef FR_ALLOCATE_FOLDER_H
#define FR_ALLOCATE_FOLDER_H

#include "engine/base/arena.h"
#include "engine/base/err.h"
#include "engine/base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct alloc_place {     /* zero: its keeper has not written */
    const char *host;    /* name to Slurm; NULL: not known */
    int64_t own;         /* id of the job there, for srun */
    const char *address; /* numeric */
    bool closed;         /* no process of it is left there */
};
struct alloc_seen {
    int64_t claimed; /* the job that has claimed the tag; 0: none yet */
    struct alloc_place *places;
    size_t n, n_known, n_closed;
    bool leased;       /* a keeper closed as the lease of the job was over */
    const char *error; /* of a keeper that could not begin; NULL */
    const char *log;   /* the end of what the script printed, as one line; "": nothing */
};
/* Of n places, by what fr_folder_read() added; texts in arena. A file that is not there, or of
 * another job, counts as nothing. FR_CORRUPT: it did not add that. */
enum fr_rc alloc_folder_seen(struct fr_str files, int64_t job, size_t n, struct fr_arena *arena,
                             struct alloc_seen *out, struct fr_err *err);

#endif

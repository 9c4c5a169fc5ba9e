/* The regular files of a folder, with sizes and hashes. */
#ifndef TASKS_FILELIST_H
#define TASKS_FILELIST_H

#include "tasks/job.h"

#include "engine/base/file.h"

struct fr_listed {
    const char *path; /* below the folder */
    int64_t bytes;
    char sha256[FR_SHA256_TEXT];
};

struct fr_filelist {
    struct fr_listed *v; /* sorted by path; in the job's arena */
    size_t n, cap;
};

/* Lists and hashes all files below folder. Links and special files are FR_USAGE, named. */
enum fr_rc fr_filelist_make(struct fr_job *job, const char *folder, struct fr_filelist *out,
                            struct fr_err *err);

/* Copies one file of the list from the folder source into the folder target, synced; the copy is
 * hashed: FR_CORRUPT when it is not what the list says. */
enum fr_rc fr_filelist_copy(struct fr_job *job, const struct fr_listed *f, const char *source,
                            const char *target, struct fr_err *err);

/* [{"path", "bytes", "sha256"}]; the caller's. NULL: no memory. */
json_t *fr_filelist_json(const struct fr_filelist *list);

#endif

/* Which files of this machine a request may name whose sender may not read all that flowrun reads:
 * those in folders, and those that the pipeline names without it. Of a secret it may not name the
 * variable or the command either. Links are followed: what counts is where a path leads. */
#ifndef FR_SPEC_FENCE_H
#define FR_SPEC_FENCE_H

#include <stddef.h>

struct fr_fence {
    const char *const *folders; /* absolute, without links */
    size_t n_folders;
    const char *whose; /* in messages: "a token of role operate" */
    size_t n_params;   /* the last so many of fr_spec_opts.params are the request's */
};

#endif

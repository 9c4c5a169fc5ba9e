/* The files of this machine that a request with limited rights may name: those in folders, and
 * those that the pipeline names without the request. It may not name the variable or the command of
 * a secret either. Symbolic links are resolved first. */
#ifndef FR_SPEC_FENCE_H
#define FR_SPEC_FENCE_H

#include <stddef.h>

struct fr_fence {
    const char *const *folders; /* absolute, without links */
    size_t n_folders;
    const char *whose; /* in messages: "a token of role operate" */
    size_t n_params;   /* the last so many of fr_spec_opts.params come from the request */
};

#endif

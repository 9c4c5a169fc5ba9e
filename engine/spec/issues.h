/* All mistakes of a file, as lines. */
#ifndef FR_SPEC_ISSUES_H
#define FR_SPEC_ISSUES_H

#include "engine/base/arena.h"

/* One line a mistake: "file:line:col: what; expected …; did you mean 'x'?", sorted. */
struct fr_issues { /* zero it to start */
    struct fr_arena arena;
    const char **lines;
    size_t n;
};

void fr_issues_finish(struct fr_issues *issues);

#endif

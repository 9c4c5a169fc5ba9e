/* Makes a random case that fails small: leaves out whatever it fails without, in the same way. */
#ifndef TESTS_FAULT_SHRINK_H
#define TESTS_FAULT_SHRINK_H

#include "tests/sim/world.h"

struct shrink {
    bool (*run)(struct world *w, void *c); /* false: it fails, and w->why says how */
    bool *(*part)(void *c, int i);         /* whether part i of the case is there */
    int n;                                 /* parts; the last ones are left out first */
};

/* w: as the failing run left it, finished. */
void shrink(const struct shrink *s, struct world *w, void *c);

#endif

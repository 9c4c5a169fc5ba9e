#include "tests/fault/shrink.h"

#include <string.h>

static bool still_fails(const struct shrink *s, struct world *w, void *c, const char *why)
{
    bool fails = !s->run(w, c) && strncmp(w->why, why, 8) == 0;

    world_finish(w);
    return fails;
}

void shrink(const struct shrink *s, struct world *w, void *c)
{
    bool smaller = true;
    char why[sizeof(w->why)];

    memcpy(why, w->why, sizeof(why));
    while (smaller) {
        smaller = false;
        for (int i = s->n - 1; i >= 0; i--) {
            bool *there = s->part(c, i);
            if (!*there)
                continue;
            *there = false;
            if (still_fails(s, w, c, why))
                smaller = true;
            else
                *there = true;
        }
    }
}

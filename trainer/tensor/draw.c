#include "trainer/tensor/draw.h"

struct tr_draw tr_draw_of(uint64_t seed, const char *name)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */

    for (; *name != '\0'; name++)
        h = (h ^ (uint8_t)*name) * 0x100000001b3u;
    return (struct tr_draw){tr_draw_mix(tr_draw_mix(seed + 0x9e3779b97f4a7c15u) ^ h)};
}

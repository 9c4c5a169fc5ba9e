#include "trainer/tensor/draw.h"

/* The finaliser of SplitMix64 (Steele, Lea & Flood 2014). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

struct tr_draw tr_draw_of(uint64_t seed, const char *name)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */

    for (; *name != '\0'; name++)
        h = (h ^ (uint8_t)*name) * 0x100000001b3u;
    return (struct tr_draw){mix(mix(seed + 0x9e3779b97f4a7c15u) ^ h)};
}

uint64_t tr_draw_bits(struct tr_draw d, uint64_t i)
{
    return mix(d.key + (i + 1) * 0x9e3779b97f4a7c15u);
}

float tr_draw_uniform(struct tr_draw d, uint64_t i)
{
    return (float)(tr_draw_bits(d, i) >> 40) * 0x1p-24f;
}

float tr_draw_normal(struct tr_draw d, uint64_t i)
{
    uint64_t b = tr_draw_bits(d, i);
    int32_t sum = (int32_t)((b & 0xffff) + (b >> 16 & 0xffff) + (b >> 32 & 0xffff) + (b >> 48));

    /* four uniforms over 0..65535: mean 131070, variance 4 * (65536^2 - 1) / 12 */
    return (float)(sum - 131070) * 2.6428998e-5f;
}

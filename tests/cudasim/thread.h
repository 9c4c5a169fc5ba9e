/*
 * What a kernel sees of its block under the simulator: indices, barriers, shuffles, votes, atomics,
 * shared memory.
 */
#ifndef TESTS_CUDASIM_THREAD_H
#define TESTS_CUDASIM_THREAD_H

#include "tests/cudasim/block.h"

static constexpr int warpSize = 32;

/* The key of a variable is a static of the same scope, so each instance of a template has its own.
 */
#define DEV_SHARED(T, name, dims)                                                                  \
    static const char sim_key_##name = 0;                                                          \
    typedef T sim_type_##name dims;                                                                \
    sim_type_##name &name = *(sim_type_##name *)sim_shared(                                        \
        &sim_key_##name, sizeof(sim_type_##name), alignof(sim_type_##name))
#define DEV_DYNAMIC(T, name) T *name = reinterpret_cast<T *>(sim_now.room)

inline void __syncthreads(SIM_HERE)
{
    sim_barrier_wait(0, sim_now.threads, true, true, site);
}

inline void __syncwarp(unsigned mask = 0xffffffffu, SIM_HERE)
{
    sim_meet(mask, "", 1, nullptr, site);
}

/* Each lane gives v and gets that of lane `from`; its own where `from` is outside its segment. */
template <class T> inline T sim_take(unsigned mask, T v, int from, struct sim_site site)
{
    sim_slots slots;

    static_assert(sizeof(T) <= 16, "type of a shuffle");
    slots = sim_meet(mask, &v, sizeof v, nullptr, site);
    if (from < 0 || from >= SIM_LANES)
        return v;
    if ((mask & 1u << from) == 0)
        sim_fail("%s:%d: takes from lane %d, which is not in the mask", site.file, site.line, from);
    memcpy(&v, slots[from], sizeof v);
    return v;
}

template <class T> inline T __shfl_sync(unsigned mask, T v, int lane, int width = 32, SIM_HERE)
{
    int first = (int)sim_me->lane & ~(width - 1);

    return sim_take(mask, v, first + (lane & (width - 1)), site);
}

template <class T> inline T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32, SIM_HERE)
{
    int me = (int)sim_me->lane, from = me ^ bits;

    return sim_take(mask, v, (from & ~(width - 1)) > (me & ~(width - 1)) ? me : from, site);
}

template <class T>
inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32, SIM_HERE)
{
    int me = (int)sim_me->lane, end = (me & ~(width - 1)) + width;

    return sim_take(mask, v, me + (int)by < end ? me + (int)by : me, site);
}

template <class T>
inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32, SIM_HERE)
{
    int me = (int)sim_me->lane, first = me & ~(width - 1);

    return sim_take(mask, v, me - (int)by >= first ? me - (int)by : me, site);
}

inline unsigned __ballot_sync(unsigned mask, int yes, SIM_HERE)
{
    unsigned char mine = yes != 0;
    sim_slots slots = sim_meet(mask, &mine, 1, nullptr, site);
    unsigned votes = 0;

    for (unsigned i = 0; i < SIM_LANES; i++)
        if (mask & 1u << i)
            votes |= (unsigned)slots[i][0] << i;
    return votes;
}

inline int __any_sync(unsigned mask, int yes, SIM_HERE)
{
    return __ballot_sync(mask, yes, site) != 0;
}

inline int __all_sync(unsigned mask, int yes, SIM_HERE)
{
    return __ballot_sync(mask, yes, site) == mask;
}

/* The lanes of the mask that have the same value. */
inline unsigned __match_any_sync(unsigned mask, int v, SIM_HERE)
{
    sim_slots slots = sim_meet(mask, &v, sizeof v, nullptr, site);
    unsigned same = 0;

    for (unsigned i = 0; i < SIM_LANES; i++)
        if ((mask & 1u << i) != 0 && memcmp(slots[i], &v, sizeof v) == 0)
            same |= 1u << i;
    return same;
}

/* Threads run one at a time, so an atomic is its plain operation. */
template <class T> inline T atomicAdd(T *p, T v)
{
    T old = *p;

    *p = (T)(old + v);
    return old;
}

template <class T> inline T atomicMax(T *p, T v)
{
    T old = *p;

    *p = old < v ? v : old;
    return old;
}

template <class T> inline T atomicOr(T *p, T v)
{
    T old = *p;

    *p = old | v;
    return old;
}

template <class T> inline T atomicCAS(T *p, T want, T v)
{
    T old = *p;

    if (old == want)
        *p = v;
    return old;
}

template <class T> inline T __ldg(const T *p)
{
    return *p;
}

inline void __threadfence(void)
{
}

#endif

/*
 * Device memory: one range of addresses that is open to a thread while it does a stream's work and
 * shut to the host otherwise, so that host code that follows a device pointer ends at once. The
 * processor's protection keys do it at no cost; where it has none the range is always open. A piece
 * has whole pages and ends with the last one (at a multiple of 256 bytes), and what lies between
 * pieces is shut to all, so that a kernel that goes beyond its piece ends, too. AddressSanitizer
 * finds that to the byte, and at both ends.
 */
#include "tests/cudasim/device.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

enum { PAGE = 4096 };
static const size_t RANGE = (size_t)4 << 30, DEVICE_BYTES = (size_t)1 << 30;

static std::mutex lock; /* guards the table of pieces */
static char *range;
static size_t made, peak; /* allocations of both kinds; most bytes given out at once */
static size_t taken;      /* bytes given out now */
static std::map<size_t, size_t> pieces; /* where each one's first page begins, its bytes */
static int key = -1;                    /* of the range; -1: none */
static thread_local int working;        /* pieces of work under way */

/* What cudaMalloc may give out: $CUDASIM_MEMORY bytes. */
static size_t device_bytes(void)
{
    const char *given = getenv("CUDASIM_MEMORY");
    size_t n = given != nullptr ? strtoul(given, nullptr, 10) : 0;

    return n > 0 && n < DEVICE_BYTES ? n : DEVICE_BYTES;
}

/* What it may give at once: $CUDASIM_LARGEST bytes. */
static size_t largest(void)
{
    const char *given = getenv("CUDASIM_LARGEST");

    return given != nullptr ? strtoul(given, nullptr, 10) : SIZE_MAX;
}

#if !defined(__SANITIZE_ADDRESS__)
/* A fault in the range is reported in words. A fault of the host ends the process as before. */
static void on_fault(int sig, siginfo_t *info, void *)
{
    static const char text[] = "cudasim: the host touches device memory\n";
    const char *at = static_cast<const char *>(info->si_addr);
    bool here = at >= range && at < range + RANGE;

    if (here && info->si_code != SEGV_PKUERR)
        sim_fail("device memory that is not allocated is touched");
    if (here && write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(1);
    signal(sig, SIG_DFL);
}
#endif

/* $CUDASIM_STATS is a file that gets a line at the end of each process. */
static void at_end(void)
{
    FILE *f = fopen(getenv("CUDASIM_STATS"), "a");

    if (f == nullptr)
        return;
    fprintf(f, "allocations=%zu peak=%zu\n", made, peak);
    fclose(f);
}

static void reserve(void)
{
    void *p = mmap(nullptr, RANGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED)
        sim_fail("no addresses for device memory");
    range = static_cast<char *>(p);
    if (getenv("CUDASIM_STATS") != nullptr)
        atexit(at_end);
    key = pkey_alloc(0, 0);
    if (key >= 0 && pkey_mprotect(range, RANGE, PROT_NONE, key) != 0)
        key = -1;
#if !defined(__SANITIZE_ADDRESS__)
    struct sigaction act = {};

    act.sa_sigaction = on_fault;
    act.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &act, nullptr);
#endif
}

void sim_open(void)
{
    if (working++ == 0 && key >= 0)
        pkey_set(key, 0);
}

void sim_shut(void)
{
    if (--working == 0 && key >= 0)
        pkey_set(key, PKEY_DISABLE_ACCESS);
}

/* Of the pages of a piece. */
static size_t page_bytes(size_t n)
{
    return (n + PAGE - 1) / PAGE * PAGE;
}

/* The first gap of n bytes and a page around them. */
static size_t place_for(size_t n)
{
    size_t at = PAGE;

    for (const auto &piece : pieces) {
        if (at + n + PAGE <= piece.first)
            break;
        at = piece.first + page_bytes(piece.second) + PAGE;
    }
    return at;
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    std::lock_guard<std::mutex> hold(lock);
    size_t all = page_bytes(bytes), at;
    char *first;

    *p = nullptr;
    if (bytes == 0)
        return cudaSuccess;
    if (bytes > largest() || bytes > device_bytes() || taken > device_bytes() - bytes)
        return cudaErrorMemoryAllocation;
    if (range == nullptr)
        reserve();
    at = place_for(all);
    first = range + at;
    if (at + all + PAGE > RANGE || mprotect(first, all, PROT_READ | PROT_WRITE) != 0)
        return cudaErrorMemoryAllocation;
    pieces[at] = bytes;
    taken += bytes;
    peak = taken > peak ? taken : peak;
    made++;
    ASAN_UNPOISON_MEMORY_REGION(first, all);
    sim_open();
    memset(first, 0xff, all);
    sim_shut();
    *p = first + all - (bytes + 255) / 256 * 256;
    ASAN_POISON_MEMORY_REGION(first, all + PAGE);
    ASAN_UNPOISON_MEMORY_REGION(*p, bytes);
    return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
    std::lock_guard<std::mutex> hold(lock);

    if (p == nullptr)
        return cudaSuccess;

    size_t at = (size_t)(static_cast<char *>(p) - range) / PAGE * PAGE;
    auto piece = pieces.find(at);

    if (piece == pieces.end() || mprotect(range + at, page_bytes(piece->second), PROT_NONE) != 0)
        return cudaErrorInvalidValue;
    ASAN_POISON_MEMORY_REGION(range + at, page_bytes(piece->second));
    taken -= piece->second;
    pieces.erase(piece);
    return cudaSuccess;
}

/* $CUDASIM_PINNED is RANK:BYTES: no piece of this local rank may have more bytes. */
static bool refused(size_t bytes)
{
    const char *given = getenv("CUDASIM_PINNED"), *rank = getenv("LOCAL_RANK");
    char *end = nullptr;

    return given != nullptr && rank != nullptr &&
           strtol(given, &end, 10) == strtol(rank, nullptr, 10) && *end == ':' &&
           bytes > strtoul(end + 1, nullptr, 10);
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned)
{
    *p = nullptr;
    if (refused(bytes) || posix_memalign(p, 256, bytes) != 0)
        return cudaErrorMemoryAllocation;
    memset(*p, 0xff, bytes);
    std::lock_guard<std::mutex> hold(lock);
    made++;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *p)
{
    free(p);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    std::lock_guard<std::mutex> hold(lock);

    *total = device_bytes();
    *free_bytes = *total - taken;
    return cudaSuccess;
}

#include "engine/base/sha256.h"

#include "engine/base/file.h"

#include <stdbool.h>
#include <stdint.h>

enum { BLOCK = SHA256_BLOCK_LENGTH };

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

enum { WORTH_ASKING = 16 << 10 /* bytes: asking the processor takes a microsecond or more */ };

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static bool has_instructions(void)
{
    const unsigned sse41 = 1u << 19, sha = 1u << 29;
    unsigned a, b, c, d;

    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & sse41) == 0)
        return false;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & sha) != 0;
}

/* The instructions want the eight words as (f, e, b, a) and (h, g, d, c), lowest lane first. */
__attribute__((target("sha,sse4.1"))) static void add_blocks(uint32_t state[8], const uint8_t *p,
                                                             size_t blocks)
{
    const __m128i turn = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)state), 0xb1);
    __m128i high =
        _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)(state + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xf0);

    for (; blocks > 0; blocks--, p += BLOCK) {
        __m128i m[4], was_abef = abef, was_cdgh = cdgh;

        for (int i = 0; i < 16; i++) {
            __m128i *w = &m[i & 3], *before = &m[(i + 3) & 3], t;

            if (i < 4) {
                *w = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)p + i), turn);
            } else {
                t = _mm_add_epi32(_mm_sha256msg1_epu32(*w, m[(i + 1) & 3]),
                                  _mm_alignr_epi8(*before, m[(i + 2) & 3], 4));
                *w = _mm_sha256msg2_epu32(t, *before);
            }
            t = _mm_loadu_si128((const __m128i *)(const void *)(constants + 4 * i));
            t = _mm_add_epi32(*w, t);
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, t);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(t, 0x0e));
        }
        abef = _mm_add_epi32(abef, was_abef);
        cdgh = _mm_add_epi32(cdgh, was_cdgh);
    }
    low = _mm_shuffle_epi32(abef, 0x1b);
    high = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(low, high, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(high, low, 8));
}

/* How many bytes it took, whole blocks. */
static size_t add_fast(SHA2_CTX *ctx, const uint8_t *p, size_t n)
{
    size_t whole = n - n % BLOCK;

    if (n < WORTH_ASKING || !has_instructions())
        return 0;
    add_blocks(ctx->state.st32, p, whole / BLOCK);
    ctx->bitcount[0] += (uint64_t)whole * 8;
    return whole;
}

#else

static size_t add_fast(SHA2_CTX *ctx, const uint8_t *p, size_t n)
{
    (void)ctx, (void)p, (void)n;
    return 0;
}

#endif

void fr_sha256_add(SHA2_CTX *ctx, const void *p, size_t n)
{
    const uint8_t *next = p;
    size_t begun = (size_t)(ctx->bitcount[0] / 8 % BLOCK), k = begun > 0 ? BLOCK - begun : 0;

    if (n == 0)
        return;
    k = k < n ? k : n;
    SHA256Update(ctx, next, k); /* what completes a block that was begun */
    next += k;
    n -= k;
    k = add_fast(ctx, next, n);
    SHA256Update(ctx, next + k, n - k);
}

void fr_sha256(const void *p, size_t n, char out[FR_SHA256_TEXT])
{
    fr_sha256_parts(&(struct fr_parts){&(struct fr_str){p, n}, 1}, out);
}

void fr_sha256_parts(const struct fr_parts *parts, char out[FR_SHA256_TEXT])
{
    SHA2_CTX ctx;

    SHA256Init(&ctx);
    for (size_t i = 0; i < parts->n; i++)
        fr_sha256_add(&ctx, parts->v[i].p, parts->v[i].n);
    SHA256End(&ctx, out);
}

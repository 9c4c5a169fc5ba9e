/*
 * SHA-256 of libmd, whose blocks are computed by the processor's own instructions where it has
 * them. Source: FIPS 180-4; Gulley et al. 2013, "Intel SHA Extensions".
 */
#ifndef FR_BASE_SHA256_H
#define FR_BASE_SHA256_H

#include <stddef.h>
#include <sha2.h>

/* As SHA256Update. */
void fr_sha256_add(SHA2_CTX *ctx, const void *p, size_t n);

#endif

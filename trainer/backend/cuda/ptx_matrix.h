/*
 * The matrix descriptor of wgmma for shared memory. Only its bits are here, so that device code and
 * the simulator share this file. The simulator decodes them by the tables of the PTX ISA.
 */
#ifndef TR_BACKEND_CUDA_PTX_MATRIX_H
#define TR_BACKEND_CUDA_PTX_MATRIX_H

/*
 * The 128-byte swizzle: within lines of 128 bytes, address bits 4..6 are xored with bits 7..9,
 * which permutes the 16-byte words. lead and stride are in bytes, multiples of 16. Before the
 * swizzle, element (m, k) is at
 *   k contiguous: m%8*128 + m/8*stride + 2k                       (lead is not used: 16)
 *   m contiguous (trans): 2(m%64) + m/64*lead + k%8*128 + k/8*stride
 * p may advance along k within a line by multiples of 32 bytes, otherwise by multiples of 1,024
 * bytes.
 * Source: PTX ISA 8.x, "Matrix Descriptor Format", "Canonical Layouts".
 */
__device__ __forceinline__ uint64_t ptx_matrix(const void *p, uint32_t lead, uint32_t stride)
{
    return (uint64_t)((ptx_shared(p) & 0x3ffff) >> 4) | (uint64_t)(lead >> 4) << 16 |
           (uint64_t)(stride >> 4) << 32 | (uint64_t)1 << 62;
}

/* The descriptor of the matrix `bytes` after m; bytes is a multiple of 16. One addition: building a
 * new descriptor takes more instructions than a short product has cycles. */
__device__ __forceinline__ uint64_t ptx_matrix_at(uint64_t m, int bytes)
{
    return (m & 0xffffffff00000000) | (uint32_t)((uint32_t)m + (uint32_t)(bytes >> 4));
}

#endif

/*
 * The descriptor of a matrix in shared memory, as wgmma takes it: its bits alone, so that device
 * code and the simulator share this file. The simulator decodes them by the tables of the PTX ISA.
 */
#ifndef TR_BACKEND_CUDA_PTX_MATRIX_H
#define TR_BACKEND_CUDA_PTX_MATRIX_H

/*
 * Lines of 128 bytes with the swizzle of 128 bytes: the 16-byte words of a line are exchanged by an
 * xor of address bits 4..6 with bits 7..9. lead and stride are in bytes, multiples of 16. Before
 * the xor element (m, k) lies at
 *   k contiguous: m%8*128 + m/8*stride + 2k                       (lead is not used: 16)
 *   m contiguous (trans): 2(m%64) + m/64*lead + k%8*128 + k/8*stride
 * p may move along k inside a line by multiples of 32 bytes, else by whole 1,024 bytes.
 * Source: PTX ISA 8.x, "Matrix Descriptor Format", "Canonical Layouts".
 */
__device__ __forceinline__ uint64_t ptx_matrix(const void *p, uint32_t lead, uint32_t stride)
{
    return (uint64_t)((ptx_shared(p) & 0x3ffff) >> 4) | (uint64_t)(lead >> 4) << 16 |
           (uint64_t)(stride >> 4) << 32 | (uint64_t)1 << 62;
}

/* The matrix that lies `bytes`, a multiple of 16, behind m: one addition, where making it anew
 * takes more instructions than a short product has cycles. */
__device__ __forceinline__ uint64_t ptx_matrix_at(uint64_t m, int bytes)
{
    return (m & 0xffffffff00000000) | (uint32_t)((uint32_t)m + (uint32_t)(bytes >> 4));
}

#endif

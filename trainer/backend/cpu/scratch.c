/*
 * What ops keep of a queue's work memory, from their shapes alone: the logits of a chunk, scores of
 * the router, rows of attention and the tiles of products. Ops that take a few rows for each thread
 * are left out.
 */
#include "trainer/backend/cpu/cpu.h"

static void raise(size_t *most, size_t bytes)
{
    if (bytes > *most)
        *most = bytes;
}

/* Segments count as equally long: the longest micro-batch has no other. */
static int64_t segment(const struct tr_attention *a)
{
    int64_t n = a->offsets.shape[0] - 1;

    return n > 0 ? (a->Q.shape[0] + n - 1) / n : 0;
}

static size_t op_bytes(struct cpu *cpu, enum tr_op op, const void *args)
{
    switch ((int)op) {
    case TR_OP_xent_chunk:
        return cpu_xent_bytes(cpu, args);
    case TR_OP_router_fwd:
        return cpu_router_bytes(cpu, args);
    case TR_OP_router_bwd:
        return cpu_router_grad_bytes(cpu, args);
    case TR_OP_attention_fwd:
        return cpu_attention_bytes(cpu, args, 0);
    case TR_OP_attention_bwd:
        return cpu_attention_bytes(cpu, args, segment(args));
    case TR_OP_attention_cached:
        return cpu_cached_bytes(cpu, args);
    default:
        return 0;
    }
}

void cpu_scratch(void *self, enum tr_op op, const void *args, struct tr_scratch *most)
{
    raise(&most->op, op_bytes(self, op, args));
    if (op == TR_OP_gemm)
        raise(&most->product, cpu_product_bytes(self, args));
    if (op == TR_OP_grouped_gemm)
        raise(&most->product, cpu_grouped_bytes(self, args));
}

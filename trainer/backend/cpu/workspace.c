/* Memory of the CPU backend: aligned blocks, the workspace of a queue, lanes of threads. */
#include "trainer/backend/cpu/cpu.h"

#include "engine/base/sys.h"

#include <omp.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 256, HUGE = 2 << 20 };

/* Aligned memory from fr_sys.alloc: the block's start stands in front of what the caller gets.
 * Large blocks lie in huge pages where the kernel has them: products read columns of matrices, a
 * page a row, and more small pages than the processor keeps addresses of. */
void *cpu_aligned(size_t bytes)
{
    size_t align = bytes >= 2 * HUGE ? HUGE : ALIGN;
    char *raw = bytes <= SIZE_MAX - 2 * align ? fr_sys.alloc(bytes + align + ALIGN) : NULL;
    char *p;

    if (raw == NULL)
        return NULL;
    p = (char *)(((uintptr_t)raw + ALIGN + align - 1) / align * align);
    memcpy(p - sizeof raw, &raw, sizeof raw);
    if (align == HUGE)
        (void)madvise(p, bytes / HUGE * HUGE, MADV_HUGEPAGE);
    return p;
}

void cpu_release(void *p)
{
    char *raw;

    if (p == NULL)
        return;
    memcpy(&raw, (char *)p - sizeof raw, sizeof raw);
    fr_sys.free(raw);
}

enum fr_rc cpu_work(struct tr_queue *q, enum cpu_slot slot, size_t bytes, void **out,
                    struct fr_err *err)
{
    if (bytes > q->bytes[slot]) {
        cpu_release(q->work[slot]);
        q->bytes[slot] = 0;
        if ((q->work[slot] = cpu_aligned(bytes)) == NULL)
            return fr_fail(err, FR_NOMEM, "%zu bytes of workspace", bytes);
        q->bytes[slot] = bytes;
    }
    *out = q->work[slot];
    return FR_OK;
}

enum fr_rc cpu_lanes(const struct cpu *cpu, struct tr_queue *q, int64_t floats, float **out,
                     struct fr_err *err)
{
    size_t bytes = (size_t)((floats + 15) / 16 * 16) * sizeof(float) * (size_t)cpu->threads;
    void *p = NULL;
    enum fr_rc rc = cpu_work(q, CPU_WORK_OP, bytes, &p, err);

    *out = p;
    return rc;
}

float *cpu_lane(float *lanes, int64_t floats)
{
    return lanes + (floats + 15) / 16 * 16 * omp_get_thread_num();
}

enum fr_rc cpu_each_row(const struct cpu *cpu, struct tr_queue *q, const struct cpu_loop *l,
                        struct fr_err *err)
{
    float *lanes;
    enum fr_rc rc = cpu_lanes(cpu, q, l->floats, &lanes, err);

    if (rc != FR_OK)
        return rc;
#pragma omp parallel for num_threads(cpu->threads) if ((l->rows.end - l->rows.begin) * l->n >      \
                                                       CPU_SMALL)
    for (int64_t i = l->rows.begin; i < l->rows.end; i++) {
        for (int k = 0; k < CPU_VIEWS && l->next[k] != NULL; k++)
            cpu_bring_row(l->next[k], i + 1);
        l->row(l->args, i, cpu_lane(lanes, l->floats));
    }
    return FR_OK;
}

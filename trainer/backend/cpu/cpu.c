#include "trainer/backend/cpu/cells.h"

#include "engine/base/log.h"
#include "engine/base/sys.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { ZERO = 1 << 20 /* bytes that a thread clears at once */ };

struct tr_event {
    bool timed;
    struct timespec at;
};

static enum fr_rc cpu_mem_alloc(void *self, enum tr_mem kind, size_t bytes, void **out,
                                struct fr_err *err)
{
    *out = cpu_aligned(bytes);
    if (*out != NULL)
        return FR_OK;
    return fr_fail(err, FR_NOMEM, "%zu bytes of %s memory", bytes,
                   kind == TR_MEM_DEVICE ? "device" : "pinned");
}

static void cpu_mem_free(void *self, enum tr_mem kind, void *p)
{
    cpu_release(p);
}

static enum fr_rc cpu_copy(void *self, struct tr_queue *q, void *dst, const void *src, size_t bytes)
{
    memmove(dst, src, bytes);
    return FR_OK;
}

static enum fr_rc cpu_zero(void *self, struct tr_queue *q, void *dst, size_t bytes)
{
    struct cpu *cpu = self;
    size_t count = (bytes + ZERO - 1) / ZERO;

#pragma omp parallel for num_threads(cpu->threads) if (count > 4)
    for (size_t i = 0; i < count; i++)
        memset((char *)dst + i * ZERO, 0, i + 1 < count ? ZERO : bytes - i * ZERO);
    return FR_OK;
}

static void cpu_queue_destroy(void *self, struct tr_queue *q)
{
    for (int i = 0; i < CPU_WORK_SLOTS; i++)
        cpu_release(q->work[i]);
    fr_sys.free(q);
}

static enum fr_rc cpu_queue_create(void *self, size_t workspace_bytes, struct tr_queue **out,
                                   struct fr_err *err)
{
    struct tr_queue *q = fr_sys.alloc(sizeof *q);
    void *unused;
    enum fr_rc rc;

    if (q == NULL)
        return fr_fail(err, FR_NOMEM, "queue");
    memset(q, 0, sizeof *q);
    rc = cpu_work(q, CPU_WORK_OP, workspace_bytes, &unused, err);
    if (rc == FR_OK)
        *out = q;
    else
        cpu_queue_destroy(self, q);
    return rc;
}

static enum fr_rc cpu_event_create(void *self, bool timed, struct tr_event **out,
                                   struct fr_err *err)
{
    if ((*out = fr_sys.alloc(sizeof **out)) == NULL)
        return fr_fail(err, FR_NOMEM, "event");
    **out = (struct tr_event){.timed = timed};
    return FR_OK;
}

static void cpu_event_destroy(void *self, struct tr_event *e)
{
    fr_sys.free(e);
}

static enum fr_rc cpu_event_record(void *self, struct tr_queue *q, struct tr_event *e)
{
    if (e->timed)
        clock_gettime(CLOCK_MONOTONIC, &e->at);
    return FR_OK;
}

static double cpu_event_between(void *self, struct tr_event *from, struct tr_event *to)
{
    return (double)(to->at.tv_sec - from->at.tv_sec) * 1e6 +
           (double)(to->at.tv_nsec - from->at.tv_nsec) / 1e3;
}

/* Work is done when the call returns, so a recorded event is reached. */
static enum fr_rc cpu_event_wait(void *self, struct tr_queue *q, struct tr_event *e)
{
    return FR_OK;
}

static enum fr_rc cpu_sync(void *self, struct tr_queue *q, struct fr_err *err)
{
    return FR_OK;
}

static void cpu_describe(void *self, char out[256])
{
    const struct cpu *cpu = self;
    const char *f32 = cpu->cells != NULL ? cpu->cells->name : "plain";

    snprintf(out, 256, "threads=%d f32=%s bf16=%s%s%s", cpu->threads, f32,
             cpu->pairs ? "" : "widened-to-", cpu->amx ? "amx" : f32, cpu->pairs ? "" : "-f32");
}

static void cpu_destroy(void *self)
{
    fr_sys.free(self);
}

static const struct tr_memory_ops cpu_memory = {
    .is_host = true, .alloc = cpu_mem_alloc, .free = cpu_mem_free, .room = cpu_room};

static const struct tr_queue_ops cpu_queues = {.create = cpu_queue_create,
                                               .destroy = cpu_queue_destroy,
                                               .copy = cpu_copy,
                                               .zero = cpu_zero,
                                               .sync = cpu_sync,
                                               .event_create = cpu_event_create,
                                               .event_destroy = cpu_event_destroy,
                                               .event_record = cpu_event_record,
                                               .event_wait = cpu_event_wait,
                                               .event_between = cpu_event_between};

static const struct tr_backend_ops cpu_ops = {.name = "cpu",
                                              .computes = 1 << TR_F32 | 1 << TR_BF16 | 1 << TR_F16,
                                              .describe = cpu_describe,
                                              .destroy = cpu_destroy,
                                              .scratch = cpu_scratch,
                                              .prepack_bytes = cpu_prepack_bytes,
                                              .prepack = cpu_prepack,
                                              .repacks = cpu_repacks,
                                              .repack = cpu_repack,
#define CPU_SLOT(name, args, fp8) .name = tr_cpu_##name,
                                              TR_OPS(CPU_SLOT)
#undef CPU_SLOT
};

/* Selects the products for the wanted math. */
static enum fr_rc choose(struct cpu *cpu, enum cpu_math math, struct fr_err *err)
{
    cpu->cells = math != CPU_MATH_PLAIN ? cpu_kernels() : NULL;
    cpu->pairs = cpu->cells != NULL && cpu->cells->pairs;
    cpu->amx = math == CPU_MATH_BEST && cpu->pairs && cpu_amx_have();
    if (math == CPU_MATH_CELLS && cpu->cells == NULL)
        return fr_fail(err, FR_UNSUPPORTED, "this chip has no AVX2");
    return FR_OK;
}

enum fr_rc cpu_create(enum cpu_math math, struct tr_backend **out, struct fr_err *err)
{
    struct cpu *cpu = fr_sys.alloc(sizeof *cpu);
    char what[256];
    enum fr_rc rc;

    *out = NULL;
    if (cpu == NULL)
        return fr_fail(err, FR_NOMEM, "backend cpu");
    memset(cpu, 0, sizeof *cpu);
    cpu->base = (struct tr_backend){&cpu_memory, &cpu_queues, cpu, &cpu_ops, cpu, NULL, 0};
    cpu->threads = omp_get_max_threads();
    if ((rc = choose(cpu, math, err)) != FR_OK) {
        fr_sys.free(cpu);
        return rc;
    }
    cpu_describe(cpu, what);
    fr_log(FR_LOG_INFO, "cpu", "%s", what);
    *out = &cpu->base;
    return FR_OK;
}

enum fr_rc tr_cpu_create(struct tr_backend **out, struct fr_err *err)
{
    return cpu_create(CPU_MATH_BEST, out, err);
}

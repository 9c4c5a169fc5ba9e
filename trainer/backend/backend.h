/*
 * A backend executes ops on one device and knows no model: memory, queues, events and a table of
 * ops. Argument structs: ops.h (dense), moe.h (experts), cache.h (generation), vec.h (element-wise,
 * optimizer). check_*.c check the shapes and types of a call before any backend has the call.
 *
 * A queue is an ordered stream of work. Every op, copy and collective takes one; work of one queue
 * runs in order, work of two queues is ordered by events alone. On the CPU backend a call is done
 * when the call returns. An op returns errors of its arguments; tr_sync returns errors of the
 * device.
 */
#ifndef TR_BACKEND_BACKEND_H
#define TR_BACKEND_BACKEND_H

#include "engine/base/err.h"
#include "trainer/backend/cache.h"
#include "trainer/backend/moe.h"
#include "trainer/backend/ops.h"
#include "trainer/backend/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_queue; /* of one backend; the caller of tr_queue_create owns the queue */
struct tr_event;
struct tr_trace; /* trace.h */

enum tr_mem {
    TR_MEM_DEVICE, /* what ops read and write; 256-byte aligned */
    TR_MEM_PINNED  /* host memory that the device copies from and to; 256-byte aligned */
};

/* The device of a backend, as the machine's tools name the device; "": no such name. */
struct tr_device_id {
    char uuid[48]; /* "GPU-…" */
    char bus[16];  /* PCI address as below /sys/bus/pci/devices, "0000:18:00.0" */
};

/* Every op: name, argument struct, whether it takes FP8. */
#define TR_OPS(X) TR_DENSE_OPS(X) TR_MOE_OPS(X) TR_CACHE_OPS(X) TR_VEC_OPS(X)

enum tr_op {
#define TR_OP_ENUM(name, args, fp8) TR_OP_##name,
    TR_OPS(TR_OP_ENUM)
#undef TR_OP_ENUM
        TR_OP_COUNT
};

/* Workspace of a queue in bytes: the most that one op takes for itself, and the most that one
 * matrix product takes, alone or inside an op. */
struct tr_scratch {
    size_t op, product;
    size_t library;           /* of op: workspace of a library, the same for all shapes */
    const char *library_name; /* "cuBLASLt workspace", for the memory table */
};

/*
 * What a backend implements: three tables. The functions of the first two take `device` of struct
 * tr_backend as self, the functions of the third take `self`: a backend that wraps the ops of
 * another one shares its memory and queues.
 */
struct tr_memory_ops {
    bool is_host; /* device memory may be read and written by the host directly */
    enum fr_rc (*alloc)(void *self, enum tr_mem kind, size_t bytes, void **out, struct fr_err *err);
    void (*free)(void *self, enum tr_mem kind, void *p);
    /* NULL: the backend reserves nothing; each allocation takes memory of the machine. */
    enum fr_rc (*reserve)(void *self, size_t bytes, struct fr_err *err);
    /* Free bytes of the device. NULL: the device uses the host's memory. */
    size_t (*room)(void *self);
};

struct tr_queue_ops {
    enum fr_rc (*create)(void *self, size_t workspace_bytes, struct tr_queue **out,
                         struct fr_err *err);
    void (*destroy)(void *self, struct tr_queue *q);
    enum fr_rc (*copy)(void *self, struct tr_queue *q, void *dst, const void *src, size_t bytes);
    enum fr_rc (*zero)(void *self, struct tr_queue *q, void *dst, size_t bytes);
    enum fr_rc (*sync)(void *self, struct tr_queue *q, struct fr_err *err);
    enum fr_rc (*event_create)(void *self, bool timed, struct tr_event **out, struct fr_err *err);
    void (*event_destroy)(void *self, struct tr_event *e);
    enum fr_rc (*event_record)(void *self, struct tr_queue *q, struct tr_event *e);
    enum fr_rc (*event_wait)(void *self, struct tr_queue *q, struct tr_event *e);
    /* Microseconds from one reached timed event to another. NULL: no clock. */
    double (*event_between)(void *self, struct tr_event *from, struct tr_event *to);
    /* For a transport between devices; NULL: the backend has none. stream: the queue's
     * cudaStream_t. event_done: whether e is reached; does not wait; any thread may call. */
    void *(*stream)(void *self, struct tr_queue *q);
    bool (*event_done)(void *self, struct tr_event *e);
};

struct tr_backend_ops {
    const char *name;  /* "cpu", "ref", "cuda" */
    unsigned computes; /* compute types: bits 1 << enum tr_dtype */
    void (*describe)(void *self, char out[256]);
    void (*identity)(void *self, struct tr_device_id *out); /* NULL: no device of its own */
    void (*destroy)(void *self);
    /* Raises *most to the workspace of an op of these shapes. Data is not read: counts that only
     * the device knows are taken at their bounds. NULL: ops need no workspace. */
    void (*scratch)(void *self, enum tr_op op, const void *args, struct tr_scratch *most);
    /* As tr_prepack_bytes and tr_prepack. NULL: products read weights without a packed form. */
    size_t (*prepack_bytes)(void *self, const struct tr_view *w);
    enum fr_rc (*prepack)(void *self, struct tr_queue *q, const struct tr_view *w, void *packed);
    bool (*repacks)(void *self, const struct tr_view *w);
    enum fr_rc (*repack)(void *self, struct tr_queue *q, const struct tr_view *w,
                         struct fr_err *err);

#define TR_OP_SLOT(name, args, fp8)                                                                \
    enum fr_rc (*name)(void *self, struct tr_queue *q, const struct args *a, struct fr_err *err);
    TR_OPS(TR_OP_SLOT)
#undef TR_OP_SLOT
};

struct tr_backend {
    const struct tr_memory_ops *memory;
    const struct tr_queue_ops *queues;
    void *device; /* owned by the backend: state of memory, queues and events */
    const struct tr_backend_ops *ops;
    void *self;             /* owned by the backend: state of the ops */
    struct tr_trace *trace; /* NULL: nothing is recorded */
    size_t taken;           /* bytes allocated so far, of all kinds of memory and by queues */
};

/* The ops. FR_SHAPE, FR_DTYPE, FR_UNSUPPORTED as ops.h says; FR_NOMEM when a queue's workspace
 * cannot grow. A call with zero rows is checked and does nothing. */
#define TR_OP_CALL(name, args, fp8)                                                                \
    enum fr_rc tr_##name(struct tr_backend *be, struct tr_queue *q, const struct args *a,          \
                         struct fr_err *err);
TR_OPS(TR_OP_CALL)
#undef TR_OP_CALL

const char *tr_op_name(enum tr_op op); /* "rmsnorm_fwd" */

/* Whether op runs with this compute type and weight type (TR_F8_E4M3 in blocks, or the compute
 * type). Asked once, when a model is assembled. */
bool tr_supports(struct tr_backend *be, enum tr_op op, enum tr_dtype compute, enum tr_dtype weight);

/* Memory of one kind; the caller owns it. bytes 0 gives a pointer that may be freed. Not for use
 * inside a step. FR_NOMEM names the bytes. */
enum fr_rc tr_mem_alloc(struct tr_backend *be, enum tr_mem kind, size_t bytes, void **out,
                        struct fr_err *err);
void tr_mem_free(struct tr_backend *be, enum tr_mem kind, void *p);

/* Reserves device memory for all later allocations, each rounded up to 256 bytes. An allocation
 * that does not fit into the reserve fails. Call it once, before the first allocation. A backend
 * without a reserve does nothing. FR_NOMEM names the free bytes. */
enum fr_rc tr_mem_reserve(struct tr_backend *be, size_t bytes, struct fr_err *err);

/* Free bytes of the device; 0: the device uses the host's memory. */
size_t tr_mem_room(struct tr_backend *be);

/* The packed form of a weight w (out, in) that does not change. Products by the transpose of w read
 * the packed form instead of w if tr_weight names one; the bits are the same. tr_prepack_bytes: its
 * bytes, from w's shape and type; 0: w has none. tr_prepack writes it. */
size_t tr_prepack_bytes(struct tr_backend *be, struct tr_view w);
enum fr_rc tr_prepack(struct tr_backend *be, struct tr_queue *q, struct tr_view w, void *packed);

/* A packed form for products by w itself. If tr_repacks is true, tr_repack replaces w by it: then a
 * product needs a tr_weight with `packed` and `repacked` set. tr_repack waits for q. */
bool tr_repacks(struct tr_backend *be, struct tr_view w);
enum fr_rc tr_repack(struct tr_backend *be, struct tr_queue *q, struct tr_view w,
                     struct fr_err *err);

/* Copies between host (pinned; on the CPU any) and device memory, either way; bytes 0 is fine. */
enum fr_rc tr_copy(struct tr_backend *be, struct tr_queue *q, void *dst, const void *src,
                   size_t bytes);
enum fr_rc tr_zero(struct tr_backend *be, struct tr_queue *q, void *dst, size_t bytes);

/* workspace_bytes: workspace of the queue's ops at the start; it grows when an op needs more. With
 * the backend's scratch() of the largest shapes it never grows. */
enum fr_rc tr_queue_create(struct tr_backend *be, size_t workspace_bytes, struct tr_queue **out,
                           struct fr_err *err);
void tr_queue_destroy(struct tr_backend *be, struct tr_queue *q);

enum fr_rc tr_event_create(struct tr_backend *be, struct tr_event **out, struct fr_err *err);
/* An event with a time, for a backend with event_between. */
enum fr_rc tr_event_create_timed(struct tr_backend *be, struct tr_event **out, struct fr_err *err);
void tr_event_destroy(struct tr_backend *be, struct tr_event *e);
/* record: e is reached when all work put into q so far is done. wait: later work of q waits for e
 * (an event never recorded counts as reached); q NULL: this thread waits until e is reached. */
enum fr_rc tr_event_record(struct tr_backend *be, struct tr_queue *q, struct tr_event *e);
enum fr_rc tr_event_wait(struct tr_backend *be, struct tr_queue *q, struct tr_event *e);

/* Waits until q is empty; FR_IO with the device's own text when something in it failed. */
enum fr_rc tr_sync(struct tr_backend *be, struct tr_queue *q, struct fr_err *err);

/* One line for the log at start: which math runs what ("cpu: 2 threads, bf16 by f32 …"). */
void tr_backend_describe(struct tr_backend *be, char out[256]);
void tr_backend_destroy(struct tr_backend *be);

/* The CPU, by OpenMP (threads: OMP_NUM_THREADS). f32, bf16, f16; FP8 weights. Logs one line
 * saying which matrix product runs. */
enum fr_rc tr_cpu_create(struct tr_backend **out, struct fr_err *err);

#endif

/*
 * Health of a GPU from the machine's own tools, before a run uses the GPU; its NUMA node. Reading
 * and judging are separate functions, so recorded texts can test the judgement.
 */
#ifndef TR_BACKEND_HEALTH_H
#define TR_BACKEND_HEALTH_H

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "trainer/backend/backend.h"

#include <sched.h>

/* Texts; NULL: not available on this machine. */
struct tr_health {
    const char *smi;    /* nvidia-smi -q of one GPU */
    const char *kernel; /* the kernel's log: the driver's "NVRM: Xid (PCI:…): NUMBER, …" */
};

/*
 * FR_UNSUPPORTED, with the cure: uncorrected memory errors, rows that could not be remapped, an
 * NVSwitch fabric that is not up. notes gets a line, with the cure, for rows that wait to be
 * remapped and for the last Xid of a broken GPU or link: both may end a run. Sources: NVIDIA,
 * "nvidia-smi" manual; "Xid errors".
 */
enum fr_rc tr_health_check(const struct tr_health *h, const struct tr_device_id *id,
                           struct fr_buf *notes, struct fr_err *err);

/* Reads nvidia-smi (at most 20 s) and the kernel's log, judges them and logs the notes. Logs also
 * which of the two gave no text. */
enum fr_rc tr_health_run(const struct tr_device_id *id, struct fr_err *err);

/* The NUMA node of the device and the node's processors, read below root ("": the machine's /sys).
 * False: one node only, or unknown. */
bool tr_numa_of(const char *root, const char *bus, int *node, cpu_set_t *cpus);

/* Pins this thread and the threads that it starts to the processors of the device's node, and
 * prefers memory of that node, pinned memory too. Logs the result. */
void tr_numa_pin(const struct tr_device_id *id);

#endif

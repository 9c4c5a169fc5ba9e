/*
 * What a machine's own tools say of a GPU before a run begins on it, and where in the machine it
 * is. Judgement is apart from reading, so that recorded texts test it.
 */
#ifndef TR_BACKEND_HEALTH_H
#define TR_BACKEND_HEALTH_H

#include "engine/base/err.h"
#include "engine/base/str.h"
#include "trainer/backend/backend.h"

#include <sched.h>

/* Texts; NULL where this machine does not give one. */
struct tr_health {
    const char *smi;    /* nvidia-smi -q of one GPU */
    const char *kernel; /* the kernel's log: the driver's "NVRM: Xid (PCI:…): NUMBER, …" */
};

/*
 * FR_UNSUPPORTED, with the cure, for what cannot be trained on: memory errors that were not
 * corrected, rows that could not be remapped, an NVSwitch fabric that is not up. notes gets a line,
 * with the cure, for what may end a run: rows that wait to be remapped, and the last Xid that means
 * a broken GPU or link. Sources: NVIDIA, "nvidia-smi" manual; "Xid errors".
 */
enum fr_rc tr_health_check(const struct tr_health *h, const struct tr_device_id *id,
                           struct fr_buf *notes, struct fr_err *err);

/* Asks nvidia-smi (20 s at the most) and the kernel, judges, and logs the notes, and which of the
 * two does not answer. */
enum fr_rc tr_health_run(const struct tr_device_id *id, struct fr_err *err);

/* The NUMA node of the device and its processors, read below root ("" for the machine's own /sys).
 * False when there is only one node, or the machine does not say. */
bool tr_numa_of(const char *root, const char *bus, int *node, cpu_set_t *cpus);

/* Keeps this thread, and those that it starts, on those of its processors that are near the device,
 * and its memory there where there is room: pinned memory too. Logs what was done. */
void tr_numa_pin(const struct tr_device_id *id);

#endif

/*
 * What a task waits for whose node is a place of an allocation, in words.
 */
#ifndef FR_SLURM_WAIT_H
#define FR_SLURM_WAIT_H

#include "engine/slurm/allocation.h"

struct fr_buf;

/* Appends what is waited for until the allocation of that name is up: "Slurm job 4711 (train):
 * others come first (Priority), expected 2026-03-01T14:20Z". a: its state, job, element, reason,
 * estimate and note are read; NULL: there is none yet. Nothing where it is up. */
void fr_allocation_wait(const struct fr_allocation_life *a, const char *name, struct fr_buf *out);

/* ": others come first (Priority), expected 2026-12-01T14:20:00Z": Slurm's reason and estimate, as
 * far as there are some. */
void fr_allocation_queue(const char *reason, int64_t estimate_wall, struct fr_buf *out);

#endif

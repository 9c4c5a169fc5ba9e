/*
 * Why a job waits, in Slurm's words and ours. Source: the job reason codes of squeue's manual.
 */
#ifndef FR_SLURM_REASON_H
#define FR_SLURM_REASON_H

#include <stdbool.h>
#include <stddef.h>

/* "others come first (Priority)", into buf, cut where it does not fit. "": there is none. */
const char *fr_slurm_reason(const char *reason, char *buf, size_t cap);
/* Whether a job with that reason will not start as it is (BadConstraints …). */
bool fr_slurm_reason_final(const char *reason);

#endif

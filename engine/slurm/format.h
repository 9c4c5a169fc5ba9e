/*
 * The format of squeue that args.c asks for and read.c reads: name of a job or element, id, state,
 * reason, time used, time left, start, end, hosts, the host of the script, name. The name is last:
 * only it may have any character.
 */
#ifndef FR_SLURM_FORMAT_H
#define FR_SLURM_FORMAT_H

#define FR_SQUEUE_FORMAT "%i|%A|%T|%r|%M|%L|%S|%e|%N|%B|%j"

enum {
    SQUEUE_JOB,
    SQUEUE_ID,
    SQUEUE_STATE,
    SQUEUE_REASON,
    SQUEUE_START = 6,
    SQUEUE_END,
    SQUEUE_HOSTS,
    SQUEUE_NAME = 10,
    SQUEUE_FIELDS
};

#endif

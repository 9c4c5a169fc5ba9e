/* The output folder of a training, and its lock. */
#ifndef TR_TRAIN_OUTPUT_H
#define TR_TRAIN_OUTPUT_H

#include "trainer/config/args.h"

/*
 * Makes a->output_dir durably. FR_USAGE: an earlier run's adapter is there, and neither overwriting
 * nor resuming was asked for. first: this is rank 0, which writes the folder. Rank 0 locks
 * .training.lock as *lock, writes its process and machine into it, and removes unfinished files of
 * a killed run. FR_BUSY: another training holds the lock, on this machine or on one that shares the
 * file system. If the file system has no locks, a warning is logged and *lock is -1.
 */
enum fr_rc tr_output_open(const struct tr_args *a, bool first, int *lock, struct fr_err *err);

/* Removes and releases the lock; does nothing for -1. */
void tr_output_close(const struct tr_args *a, int *lock);

#endif

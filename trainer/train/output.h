/* The folder of a training's results, and who writes it. */
#ifndef TR_TRAIN_OUTPUT_H
#define TR_TRAIN_OUTPUT_H

#include "trainer/config/args.h"

/*
 * Makes a->output_dir and its name on the disk. FR_USAGE: an earlier run's adapter is there, and
 * nobody said what shall become of it. first: this is rank 0, which writes the folder: it holds
 * .training.lock there as *lock, with its process and machine as text, and sweeps away what a
 * killed run left half written. FR_BUSY: another training holds the lock, here or on a machine
 * that shares the file system's locks. Where the file system has none a warning says so, and *lock
 * is -1.
 */
enum fr_rc tr_output_open(const struct tr_args *a, bool first, int *lock, struct fr_err *err);

/* Removes the lock and lets it go; nothing for -1. */
void tr_output_close(const struct tr_args *a, int *lock);

#endif

/* The output folder of a training, and its lock. */
#ifndef TR_TRAIN_OUTPUT_H
#define TR_TRAIN_OUTPUT_H

#include "trainer/comm/comm.h"
#include "trainer/config/args.h"

/*
 * Makes a->output_dir durably. FR_USAGE: an earlier run's adapter is there, and neither overwriting
 * nor resuming was asked for. first: this is rank 0, which writes the folder. Rank 0 locks
 * .training.lock as *lock, writes its process and machine into it, and removes unfinished files of
 * a killed run. FR_BUSY: another training holds the lock, on this machine or on one that shares the
 * file system. If the file system has no locks, a warning is logged and *lock is -1.
 */
enum fr_rc tr_output_open(const struct tr_args *a, bool first, int *lock, struct fr_err *err);

/*
 * folders[k]: the first node whose output folder is that of node k, on a file system that they
 * share; k: it has a folder of its own. nodes of comm elements, the same on every rank. Every rank
 * calls, after rank 0 has opened the folder; an error is the same on all.
 */
enum fr_rc tr_output_folders(const char *dir, struct tr_comm *comm, int *folders,
                             struct fr_err *err);

/* Whether the run of that name began in this folder last. run NULL: no. */
bool tr_output_is_of(const char *dir, const char *run);
/* It begins there now: what an earlier run left is read, or gone. */
enum fr_rc tr_output_sign(const char *dir, const char *run, struct fr_err *err);

/* Removes and releases the lock; does nothing for -1. */
void tr_output_close(const struct tr_args *a, int *lock);

#endif

/*
 * What is known of a machine, kept in a file of the home so that a host that begins knows it:
 * machines/<id of the node's home>. A head of JSON, then two rings of samples whose places follow
 * from their times, so that nothing else says what is in them: those of a day, and means of five
 * minutes of two weeks. A sample is written as it comes and not synced: a power cut may lose some.
 * Errors are no failures: what cannot be written is not known later.
 */
#ifndef FR_METRICS_MACHINE_FILE_H
#define FR_METRICS_MACHINE_FILE_H

#include "engine/metrics/machines.h"

enum { FR_MACHINE_FINE = FR_LOAD_FINE_MS / FR_SAMPLE_MS + 1 }; /* places of a day's ring */

/* dir: the home's folder of machines, made when something is put there first. */
void fr_machine_put_head(const char *dir, const struct fr_machine *m);
void fr_machine_put_sample(const char *dir, struct fr_id home, const struct fr_load *l);
void fr_machine_put_mean(const char *dir, struct fr_id home, const struct fr_load *mean);

/* Fills m but for its samples; seen_wall is when the newest was written. false: there is no such
 * file, or it is none of these; m is as it was. */
bool fr_machine_read_head(const char *dir, struct fr_id home, struct fr_machine *m);

/* Puts the file's samples, by time, in the place of m's own, which are among them. false: there are
 * none, or no memory; m is as it was. */
bool fr_machine_read_samples(const char *dir, struct fr_machine *m);

/* Of the machines that have files: their homes. *n of them; fr_sys.free() it. Files that were not
 * written for two weeks are removed. */
struct fr_id *fr_machine_files(const char *dir, size_t *n);

#endif

/*
 * A machine's file in the home, for the next host: machines/<id of the node's home>. It has a JSON
 * head and two rings of samples: one day, and means over five minutes for two weeks. A sample's
 * place follows from its time. Samples are written at once and not synced: a power cut may lose
 * some. Errors are ignored: what cannot be written is missing later.
 */
#ifndef FR_METRICS_MACHINE_FILE_H
#define FR_METRICS_MACHINE_FILE_H

#include "engine/metrics/machines.h"

enum { FR_MACHINE_FINE = FR_LOAD_FINE_MS / FR_SAMPLE_MS + 1 }; /* places of a day's ring */

/* dir: the home's folder of machines, made by the first write. */
void fr_machine_put_head(const char *dir, const struct fr_machine *m);
void fr_machine_put_sample(const char *dir, struct fr_id home, const struct fr_load *l);
void fr_machine_put_mean(const char *dir, struct fr_id home, const struct fr_load *mean);

/* Fills m except its samples; seen_wall is the file's mtime. false: no valid file; m is unchanged.
 */
bool fr_machine_read_head(const char *dir, struct fr_id home, struct fr_machine *m);

/* Replaces m's samples by the file's, which include them, ordered by time. false: no file or no
 * memory; m is unchanged. */
bool fr_machine_read_samples(const char *dir, struct fr_machine *m);

/* The homes of the *n machines that have files; free with fr_sys.free(). Removes files older than
 * two weeks. */
struct fr_id *fr_machine_files(const char *dir, size_t *n);

#endif

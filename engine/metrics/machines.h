/*
 * Load of the machines of nodes, sampled by flownode while it is connected: each sample of the last
 * 24 hours, and means over five minutes for two weeks. Samples of earlier hosts are read from files
 * on request (machine_file.h). Beyond FR_MACHINES machines the one seen longest ago is dropped.
 */
#ifndef FR_METRICS_MACHINES_H
#define FR_METRICS_MACHINES_H

#include "engine/base/json.h"
#include "engine/exec/exec.h"
#include "engine/wire/message.h"

enum {
    FR_MACHINES = 1000,
    FR_LOAD_FINE_MS = 24 * 3600 * 1000,
    FR_LOAD_MEAN_MS = 300 * 1000,
    FR_LOAD_MEANS = 14 * 24 * 12 /* of five minutes */
};

struct fr_load {                           /* NaN: not known */
    int64_t wall_ms;                       /* of control */
    float cpu;                             /* 0 to 1, of all CPUs */
    float memory, rx, tx, gpu, gpu_memory; /* bytes; bytes a second; 0 to 1, mean of all; bytes */
};

struct fr_machine {
    char name[65]; /* of its node, in the run that used it first */
    struct fr_id home;
    char boot[40], build[72], how[16];
    int64_t seen_wall, offset_ms, wall_offset_ms, rtt_ms;
    uint64_t mem_bytes, disk_free;
    uint32_t load; /* hundredths */
    json_t *facts; /* owns: {name: value} */
    json_t *gpus;  /* owns: [{index, name, use, memory_used, memory, degrees, watts}] */
    struct fr_load *fine, *means; /* own: rings; the newest is number n - 1 */
    size_t n_fine, cap_fine, n_means;
    struct fr_load sum; /* of the samples since the last mean, and … */
    size_t n_sum;       /* … how many */
    bool disk_low;      /* reported by fr_machines_disk_low() */
    bool unread;        /* its file may have samples that memory lacks */
};

struct fr_machines; /* by home */

/* dir: the folder of machine files; NULL: none. Returns NULL without memory. */
struct fr_machines *fr_machines_create(const char *dir);
void fr_machines_destroy(struct fr_machines *all); /* NULL is fine */

/* Adds the machines of earlier hosts; only the first call reads. */
void fr_machines_recall(struct fr_machines *all);

void fr_machines_take(struct fr_machines *all, const struct fr_exec_sampled *s, int64_t wall_ms);
bool fr_machines_heard(struct fr_machines *all); /* whether a sample came since the last call */

/* By home; or the newest of a name. NULL: there is none. */
const struct fr_machine *fr_machines_find(const struct fr_machines *all, struct fr_id home);
struct fr_machine *fr_machines_named(const struct fr_machines *all, const char *name);
/* The i-th, in no order; NULL: there are no more. */
const struct fr_machine *fr_machines_at(const struct fr_machines *all, size_t i);

/* A machine with fewer than `least` bytes of free disk that was not reported yet. It is reported
 * again only after it had a tenth more. NULL: none. */
const struct fr_machine *fr_machines_disk_low(struct fr_machines *all, int64_t least);

/* The machine; and its load in [from, to] as means of at most `width` buckets, each a power of two
 * of seconds wide: {t: [wall ms of the begin], cpu: [], memory: [], rx: [], tx: [], gpu: [],
 * gpu_memory: []}. NULL: no memory. */
json_t *fr_machine_json(const struct fr_machine *m);
json_t *fr_machine_samples(const struct fr_machines *all, struct fr_machine *m, int64_t from,
                           int64_t to, size_t width);

#endif

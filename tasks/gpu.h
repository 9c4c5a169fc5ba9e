/*
 * The GPUs of a node as `nvidia-smi` lists them (its CSV queries, documented in `nvidia-smi
 * --help-query-gpu`), in the order of their PCI addresses, and the version of Fabric Manager.
 */
#ifndef TASKS_GPU_H
#define TASKS_GPU_H

#include "tasks/job.h"

enum { FR_GPUS_MAX = 64 };

struct fr_gpu {
    int index;    /* nvidia-smi's */
    char bus[32]; /* PCI address, "00000000:07:00.0" */
    char name[64];
    char uuid[64];
    int64_t memory_mib;
    bool used; /* a process computes on it */
};

struct fr_gpus {
    struct fr_gpu v[FR_GPUS_MAX]; /* by PCI address */
    size_t n;
    char driver[32]; /* "535.129.03" */
    char cuda[16];   /* what the driver offers, "12.2" */
    char fabric[32]; /* version of Fabric Manager, "" when it is not installed */
    bool switches;   /* the machine has NVSwitches, which need it */
};

/* FR_NOTFOUND: no nvidia-smi. FR_IO, with its text: it fails. */
enum fr_rc fr_gpus_read(struct fr_job *job, struct fr_gpus *g, struct fr_err *err);

/* Parsers of fr_gpus_read: one line a GPU of
 * --query-gpu=index,pci.bus_id,name,uuid,memory.total,driver_version --format=csv,noheader,nounits;
 * the banner of plain `nvidia-smi`; `nv-fabricmanager --version`. */
enum fr_rc fr_gpus_parse(struct fr_gpus *g, const char *csv, struct fr_err *err);
void fr_gpus_parse_banner(struct fr_gpus *g, const char *text);
void fr_gpus_parse_fabric(struct fr_gpus *g, const char *text);

/* Whether CUDA must fail with error 802 (system not yet initialized) on this node. why gets the
 * reason and the cure, "" otherwise. */
bool fr_gpus_error_802(const struct fr_gpus *g, char why[512]);

/* Compares dotted versions: < 0, 0, > 0. */
int fr_version_compare(const char *a, const char *b);

#endif

/*
 * The facts of a node for preflight: one JSON object,
 *
 * - texts ("" unknown): name machine kernel driver cuda fabric gpus iface work
 * - numbers (bytes; -1 no limit or unknown): gpu_count disk memory nofile memlock
 * - lists of texts: problems warnings
 *
 * gpus lists kinds in PCI order ("8 x NVIDIA A100-SXM4-80GB"); machine is equal on nodes that share
 * one network (boot id and network namespace).
 */
#ifndef TASKS_NODEFACTS_H
#define TASKS_NODEFACTS_H

#include "tasks/job.h"

/* Looks at this node and compares it with the task's inputs; head: numeric or named address that
 * the interface is looked up for, NULL none. *facts is the caller's. */
enum fr_rc fr_node_facts(struct fr_job *job, const char *head, json_t **facts, struct fr_err *err);

/* Bytes of this machine's memory that may be taken; -1: not known. */
int64_t fr_available_memory(void);

/* Adds one formatted line to facts' list key. */
void fr_facts_add(json_t *facts, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif

/*
 * The parts of real_test: the pipeline and the way to its nodes (real_nodes.c), and what must be so
 * in the end (real_end.c). A case has a folder of its own below env.base.
 */
#ifndef TESTS_FAULT_REAL_H
#define TESTS_FAULT_REAL_H

#include "tests/fault/tracer.h"

#include <stdbool.h>

#define SSHD "/usr/sbin/sshd"

enum { TEXT = 8192 };

/* What an undisturbed run came to. */
struct recording {
    char states[TEXT], counts[TEXT]; /* counts: attempts of each instance */
    long points, attempts, ran;
};

struct env {
    const char *flowrun;
    char base[128], dir[200], yaml[220], out[220], config[220], cgroup[256];
    bool keep, complete /* the long pipeline */, sshd;
    int door, port; /* listens for the connections to n1; -1, 0 */
    struct recording recorded[TRACER_KINDS];
};

/* Keys for all cases. false: no sshd can be had here. */
bool real_keys(const struct env *e);

/* A door of our own for the connections to n1. */
void real_listen(struct env *e);

/* The folder of a case with its pipeline, and the environment that leads flowrun there. far: n1 is
 * reached by sshd. */
void real_fresh(struct env *e, const char *name, bool far);

/* The number that a query over the store gives; -1: none. */
long real_ask(const struct env *e, const char *sql);

/* Other runs share the nodes: two that are handed over to the run's flowrun, and append their exit
 * codes to W/codes. Of a taker it is one before it, whose flowrun is the host, and is killed. */
void real_others(const struct env *e, struct tracer *t);

/* An undisturbed run has ended: what it came to is kept, and checked against what is counted by
 * hand. */
void real_record(struct env *e, const struct tracer *t);

/* Prints each attempt, how it ended and why. */
void real_show(const struct env *e);

/* A run has ended, disturbed or not: it came to the same, and nothing is left of it. */
void real_check_end(const struct env *e, const struct tracer *t);

#endif

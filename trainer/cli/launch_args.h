/*
 * The arguments of flowtrain launch, named as those of torchrun: flags with _ or -, the variables
 * PET_<NAME>, and the names without PET_ that other launchers set (NPROC_PER_NODE, NNODES,
 * NODE_RANK, MASTER_ADDR, MASTER_PORT). A flag wins over PET_, PET_ over the plain name.
 *
 * Nodes are numbered by hand (--node_rank) and their count is fixed: of torchrun's rendezvous
 * back-ends, "static" works, and "c10d" if its endpoint is node 0. Arguments without meaning here
 * are accepted with a note; those that would change the run are refused.
 *
 * Source: docs.pytorch.org/docs/stable/elastic/run.html.
 */
#ifndef TR_CLI_LAUNCH_ARGS_H
#define TR_CLI_LAUNCH_ARGS_H

#include "engine/base/err.h"

#include <stdint.h>

enum { TR_LAUNCH_LOCAL = 256 }; /* ranks of a node, at most */

struct tr_launch_args {
    int64_t nproc, nnodes, node_rank, port, max_restarts;
    char addr[256];
    const char *run_id;
    int nwords;
    const char *const *words; /* what the ranks run, by this program */
};

/* Runs the ranks until all have ended (launch.c). */
enum fr_rc tr_launch(const struct tr_launch_args *a, struct fr_err *err);

#endif

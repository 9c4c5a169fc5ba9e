/* Communicators of expert parallelism: the ranks that share routed experts, and the ranks that
 * shard the other weights. */
#ifndef TR_TRAIN_GROUPS_H
#define TR_TRAIN_GROUPS_H

#include "trainer/comm/comm.h"
#include "trainer/config/ds_config.h"

struct tr_groups_opts {
    enum tr_expert_group group;
    int64_t ranks; /* of each expert group; 0: those of a node, or all, as group says */
    bool whole;    /* every rank has the other weights whole: nothing is sharded */
};

/* Collective over world. *experts: the ranks that share routed experts. *rest: the ranks of this
 * node, which shard the other weights; NULL: the world has one node, or o->whole. The caller
 * destroys both. FR_USAGE: no such groups are possible; the message names a valid choice. */
enum fr_rc tr_groups_make(struct tr_comm *world, const struct tr_groups_opts *o,
                          struct tr_comm **experts, struct tr_comm **rest, struct fr_err *err);

#endif

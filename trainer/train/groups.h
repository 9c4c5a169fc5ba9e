/* Communicators of expert parallelism: the ranks that share routed experts, and the ranks that
 * shard the other weights. */
#ifndef TR_TRAIN_GROUPS_H
#define TR_TRAIN_GROUPS_H

#include "trainer/comm/comm.h"
#include "trainer/config/ds_config.h"

struct tr_groups_opts {
    enum tr_expert_group group;
    int64_t ranks; /* of a group; 0: as group says */
    bool whole;    /* the other weights are whole on every rank */
};

/* Collective over world. The caller owns both results; *rest is NULL if it would be the world, or
 * if nothing is sharded. FR_USAGE names a valid choice. */
enum fr_rc tr_groups_make(struct tr_comm *world, const struct tr_groups_opts *o,
                          struct tr_comm **experts, struct tr_comm **rest, struct fr_err *err);

#endif

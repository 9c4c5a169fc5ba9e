/*
 * What stays in a node's home when attempts are over: by the `keep:` of the node that hello
 * carries.
 *
 *   attempts  log, index, folder and outputs of an attempt whose end and log the engine has
 *             acknowledged stay `days` days, for people who look for the reason of something; then
 *             they go. 0 days: they go with the acknowledgement. Never an attempt that is not
 *             acknowledged, nor one whose supervisor lives. The journal forgets the acknowledged
 *             (table.h): a log that it does not know is of one, and its date counts; while others
 *             use the home, it stays a day at least. Of a large log an empty file stays where the
 *             engine says that its copy lies on the same disk.
 *   store     what was shipped and not asked for again in that time (a day at least) goes, and so
 *             does what was half received or a killed serve left in r/; only while nobody else uses
 *             the home.
 *   bytes     beyond that sum of both, the oldest go (of the store, not what was used today).
 *   work/     belongs to the pipelines and is never touched.
 * Age goes by the calendar: days pass over reboots. Links are removed, never followed; a folder of
 * the home that is not a folder itself (a link) is left alone.
 */
#ifndef FR_NODE_PRUNE_H
#define FR_NODE_PRUNE_H

#include "engine/node/table.h"
#include "engine/node/walk.h"

struct fr_prune {
    const char *home;
    const struct fr_table *table;
    int days;
    uint64_t bytes; /* 0: any size */
    bool alone;     /* the home's lock is held alone: the store may be touched */
};

struct fr_pruning;

/* Looks through the home and then removes, some of it with every step: `steps` files or folders, so
 * that a loop can do something else between. What cannot be removed is logged and stays. p's home
 * and table are borrowed, and the table may grow meanwhile. FR_IO, FR_NOMEM: not all can be looked
 * at, and nothing was removed. */
enum fr_rc fr_prune_begin(const struct fr_prune *p, struct fr_pruning **out, struct fr_err *err);
enum fr_rc fr_prune_step(struct fr_pruning *pr, size_t steps, bool *done, struct fr_err *err);

/* The home's lock is not held alone any more: the store stays as it is. */
void fr_prune_share(struct fr_pruning *pr);

/* Ends it, at any time. Returns the bytes of attempts and store that are left. */
uint64_t fr_prune_end(struct fr_pruning *pr);

/* Removes everything that an attempt has in the home, its log last: `steps` files or folders with
 * every call, until *done. FR_IO, FR_NOMEM: *done, and the rest stays. */
struct fr_prune_one {
    const char *home;
    struct fr_id attempt;
    struct fr_walk walk; /* zero before the first call; fr_walk_finish() if it is given up */
};

enum fr_rc fr_prune_attempt(struct fr_prune_one *p, size_t steps, bool *done, struct fr_err *err);

/* Bytes that it has; of its folder the first FR_PRUNE_FEW entries count alone. */
enum { FR_PRUNE_FEW = 256 };
uint64_t fr_prune_size(const char *home, struct fr_id attempt);

#endif

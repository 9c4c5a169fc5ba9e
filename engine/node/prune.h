/*
 * Removes old files from a node's home, by the node's `keep:` in hello.
 *
 *   attempts  Log, index, folder and outputs of an acknowledged attempt stay `days` days, then they
 *             are removed. 0 days: they are removed with the acknowledgement. An attempt that is
 *             not acknowledged, or whose supervisor lives, is never removed. The journal forgets
 *             acknowledged attempts (table.h): a log that it does not know belongs to one, and the
 *             log's date counts. While others use the home, that log stays at least a day. A
 *             large log becomes an empty file if the engine's copy lies on the same disk.
 *   store     A shipped file that was not requested again in that time (at least a day) is removed,
 *             and so are half-received files and, in r/, the locks of runs that nobody drives; only
 *             while no other process uses the home.
 *   bytes     When both need more bytes, the oldest are removed (no file of the store that was used
 *             today).
 *   work/     belongs to the pipelines and is never touched.
 * Age is calendar time, so days pass over reboots. Links are removed and never followed. A link in
 * the place of a folder of the home is left alone.
 */
#ifndef FR_NODE_PRUNE_H
#define FR_NODE_PRUNE_H

#include "engine/supervise/table.h"
#include "engine/supervise/walk.h"

struct fr_prune {
    const char *home;
    const struct fr_table *table;
    int days;
    uint64_t bytes; /* 0: any size */
    bool alone;     /* the home's lock is held alone: the store may be touched */
};

struct fr_pruning;

/* Scans the home, then removes. Every step takes `steps` files or folders, so that a
 * loop can do other work between. A file that cannot be removed is logged and stays. p's home and
 * table are borrowed; the table may grow meanwhile. FR_IO, FR_NOMEM: the scan failed, and nothing
 * was removed. */
enum fr_rc fr_prune_begin(const struct fr_prune *p, struct fr_pruning **out, struct fr_err *err);
enum fr_rc fr_prune_step(struct fr_pruning *pr, size_t steps, bool *done, struct fr_err *err);

/* The home's lock is shared again: from now on the store is left alone. */
void fr_prune_share(struct fr_pruning *pr);

/* May be called at any time. Returns the bytes of attempts and store that are left. */
uint64_t fr_prune_end(struct fr_pruning *pr);

/* Removes everything that an attempt has in the home, its log last: `steps` files or folders with
 * every call, until *done. FR_IO, FR_NOMEM: *done, and the rest stays. */
struct fr_prune_one {
    const char *home;
    struct fr_id attempt;
    struct fr_walk walk; /* zero before the first call; fr_walk_finish() if it is given up */
};

enum fr_rc fr_prune_attempt(struct fr_prune_one *p, size_t steps, bool *done, struct fr_err *err);

/* Bytes of an attempt's files. Only the first FR_PRUNE_FEW entries of its folder count. */
enum { FR_PRUNE_FEW = 256 };
uint64_t fr_prune_size(const char *home, struct fr_id attempt);

#endif

/* Nodes where nothing new starts: what runs there ends in its own time. A node is its own home,
 * whatever inventories call it. */
#ifndef FR_STORE_DRAINED_H
#define FR_STORE_DRAINED_H

#include "engine/store/store.h"

struct fr_drained_row {
    struct fr_id home;
    const char *name; /* by which it was drained */
    int64_t wall;     /* since when */
    const char *note, *who;
};

struct fr_drained_rows {
    struct fr_drained_row *rows;
    size_t n;
};

/* By name. */
enum fr_rc fr_store_drained(struct fr_store *st, struct fr_arena *arena,
                            struct fr_drained_rows *out, struct fr_err *err);
/* NULL: it is not among them. */
const struct fr_drained_row *fr_drained_find(const struct fr_drained_rows *rows, struct fr_id home);
/* Also of one that is drained: with another note. */
enum fr_rc fr_store_drain(struct fr_store *st, const struct fr_drained_row *row,
                          struct fr_err *err);
/* FR_BUSY: it is not drained. */
enum fr_rc fr_store_undrain(struct fr_store *st, struct fr_id home, struct fr_err *err);

struct fr_known_row {
    const char *name;
    struct fr_id home;
    int64_t wall; /* when the newest run that reached it ended, or began where it is not over */
};

struct fr_known_rows {
    struct fr_known_row *rows;
    size_t n;
};

/* The nodes that the newest FR_KNOWN_RUNS runs reached, by name. */
enum { FR_KNOWN_RUNS = 20 };
enum fr_rc fr_store_known_nodes(struct fr_store *st, struct fr_arena *arena,
                                struct fr_known_rows *out, struct fr_err *err);

/* The home of the node that had this name in the newest run that reached it, or by which it was
 * drained. FR_NOTFOUND. */
enum fr_rc fr_store_node_home(struct fr_store *st, const char *name, struct fr_id *home,
                              struct fr_err *err);

#endif

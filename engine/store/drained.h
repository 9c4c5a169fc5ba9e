/* Drained nodes: running attempts end there, new ones do not start. A node is identified by its
 * home id, whatever inventories call it; a place of an allocation, whose home goes with its job, by
 * its name. */
#ifndef FR_STORE_DRAINED_H
#define FR_STORE_DRAINED_H

#include "engine/store/store.h"

#define FR_DRAINED_COLUMNS(C, S, R)                                                                \
    C(R, ID, home, NULL)                                                                           \
    C(R, TEXT, name, NULL) /* by which it was drained */                                           \
    C(R, INT, wall, "since_wall")                                                                  \
    C(R, TEXT, note, "note")                                                                       \
    C(R, TEXT, who, "who")
FR_ROWS(fr_drained, FR_DRAINED_COLUMNS);

/* By name. */
enum fr_rc fr_store_drained(struct fr_store *st, struct fr_arena *arena,
                            struct fr_drained_rows *out, struct fr_err *err);
/* NULL: not drained. place: the name of a place of an allocation; of other nodes NULL. */
const struct fr_drained_row *fr_drained_find(const struct fr_drained_rows *rows, struct fr_id home,
                                             const char *place);
/* Drains a node; an existing row is replaced. */
enum fr_rc fr_store_drain(struct fr_store *st, const struct fr_drained_row *row,
                          struct fr_err *err);
/* FR_BUSY: the node is not drained. */
enum fr_rc fr_store_undrain(struct fr_store *st, struct fr_id home, struct fr_err *err);

#define FR_KNOWN_COLUMNS(C, S, R)                                                                  \
    C(R, TEXT, name, NULL)                                                                         \
    C(R, ID, home, NULL)                                                                           \
    C(R, INT, wall,                                                                                \
      NULL) /* the newest run that reached it ended then, or began if it is not over */
FR_ROWS(fr_known, FR_KNOWN_COLUMNS);

/* The nodes that the newest FR_KNOWN_RUNS runs reached, by name. */
enum { FR_KNOWN_RUNS = 20 };
enum fr_rc fr_store_known_nodes(struct fr_store *st, struct fr_arena *arena,
                                struct fr_known_rows *out, struct fr_err *err);

/* The home of the node that had this name in the newest run that reached it, or by which it was
 * drained. FR_NOTFOUND. */
enum fr_rc fr_store_node_home(struct fr_store *st, const char *name, struct fr_id *home,
                              struct fr_err *err);

#endif

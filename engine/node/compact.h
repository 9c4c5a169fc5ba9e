/*
 * A shorter journal in place of a long one. Everybody who has the journal open holds the home's
 * lock (home.h), so whoever has it alone may replace the file: nobody appends to the old one, and
 * who opens it later opens the new one. Written beside it, synced, renamed: a kill or power cut at
 * any step leaves the old one or the new one, whole.
 *
 * No older connection is left then either, so nothing can start late what is forgotten here; what
 * a connection that begins later may do is decided by the epochs, which stay (table.h).
 */
#ifndef FR_NODE_COMPACT_H
#define FR_NODE_COMPACT_H

#include "engine/node/home.h"
#include "engine/node/table.h"

enum { FR_COMPACT_MIN = 64 << 10 };

/* h is held alone and t is what its journal says. Does nothing below FR_COMPACT_MIN bytes or when
 * less than half would be saved. t is read anew and h->journal opened anew when it was replaced.
 * An error: the old journal stands, unless *broken: then t and h->journal are of no use. */
enum fr_rc fr_journal_compact(struct fr_node_home *h, struct fr_table *t, bool *broken,
                              struct fr_err *err);

#endif

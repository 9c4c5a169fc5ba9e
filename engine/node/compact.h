/*
 * Replaces a long journal by a shorter one. Every process that has the journal open holds the
 * home's shared lock (home.h), so a process that holds the lock exclusively may replace the file:
 * no other process appends to the old file, and later ones open the new file. The new file is
 * written beside the old one, synced and renamed: after a kill or power cut at any step, one of the
 * two is there, whole.
 *
 * No older connection is left at that time, so none can start a forgotten attempt late. The epochs
 * stay (table.h); they decide what later connections may do.
 */
#ifndef FR_NODE_COMPACT_H
#define FR_NODE_COMPACT_H

#include "engine/supervise/home.h"
#include "engine/supervise/table.h"

enum { FR_COMPACT_MIN = 64 << 10 };

/* The caller holds h exclusively, and t is read from its journal. Does nothing below FR_COMPACT_MIN
 * bytes, or if less than half would be saved. After a replacement t is read again and h->journal is
 * the new file. After an error the old journal stands, unless *broken: t and h->journal are invalid
 * then. */
enum fr_rc fr_journal_compact(struct fr_node_home *h, struct fr_table *t, bool *broken,
                              struct fr_err *err);

#endif

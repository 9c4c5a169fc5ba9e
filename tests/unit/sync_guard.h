/*
 * A guard over the order of calls that durability hangs on, for code of this process that works on
 * real files: between begin and end each rename is checked. Its file, or all files of its folder,
 * must have been synced since they were written, and so must the names in a folder; the folder that
 * gets the new name must be synced before the next rename in it, and before end.
 */
#ifndef TESTS_UNIT_SYNC_GUARD_H
#define TESTS_UNIT_SYNC_GUARD_H

#include <stdbool.h>
#include <stddef.h>

void sync_guard_begin(void);

/* Restores the calls. How often the order was broken; each is printed. *renames: how many there
 * were, so that a test can tell that it saw them. names: the folders count, too. */
size_t sync_guard_end(bool names, size_t *renames);

#endif

/* The disk beneath the database of the store. SQLite writes real files. This layer, a VFS shim
 * (sqlite.org/vfs.html), keeps beside each file what a power cut would leave of it: the bytes as of
 * the last sync. */
#ifndef TESTS_SIM_SIM_DB_H
#define TESTS_SIM_SIM_DB_H

void sim_db_setup(void); /* all databases opened from now on; once, before the first of them */
void sim_db_reset(void); /* other files: what is there at the next open counts as synced */
/* The power fails: each file becomes what was last synced of it. No connection that is used again
 * may be open. */
void sim_db_cut(void);

#endif
